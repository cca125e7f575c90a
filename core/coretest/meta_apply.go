package coretest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

func applyCases() []metaCase {
	return []metaCase{
		{"apply/no changes", applyNothing},
		{"apply/sequences may have gaps, and State has the last one", applySequenceGaps},
		{"apply/a replay is skipped", applyReplaySkipped},
		{"apply/replay of a batch that was partly applied", applyReplayOfPartialBatch},
		{"apply/replay of a failed change is skipped", applyReplayOfFailedChange},
		{"apply/a change out of order within a batch is skipped", applyOutOfOrderInBatch},
		{"apply/a failed change does not affect others", applyFailureIsAlone},
		{"apply/SetReplayFrom and Void", applyReplayFromAndVoid},
		{"apply/Synced only moves forward", applySyncedMovesForward},
		{"apply/does not modify or keep its changes", applyKeepsNoChange},
		{"apply/a canceled context", applyCanceled},
		{"apply/readers see whole batches", applyReadersSeeWholeBatches},
		{"apply/each read sees a change when Apply has returned", applySeenAtOnce},
	}
}

func applyNothing(h *harness) {
	require.Empty(h.t, h.applyAgain())
	require.Zero(h.t, h.state().State.Seq)
}

func applySequenceGaps(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.seq = 40
	h.put(b, "k")
	require.EqualValues(h.t, 41, h.state().State.Seq)
	h.seq = 1 << 40
	h.put(b, "k")
	require.EqualValues(h.t, 1<<40+1, h.state().State.Seq)
	require.EqualValues(h.t, 1<<40+1, h.get(b, "k", core.Current).Seq)
}

func applyReplaySkipped(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	c := &core.PutObject{Object: h.object(b, "k", h.content(1))}
	h.ok(c)
	before := h.state()
	r := h.applyAgain(c)[0]
	require.Equal(h.t, core.Result{Skipped: true, Seq: c.Seq}, r)
	require.Equal(h.t, before, h.state())
}

func applyReplayOfPartialBatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	x := &core.PutObject{Object: h.object(b, "x", h.content(1))}
	y := &core.PutObject{Object: h.object(b, "y", h.content(1))}
	h.ok(x)
	h.seq++
	y.Seq = h.seq
	rs := h.applyAgain(x, y)
	require.True(h.t, rs[0].Skipped)
	require.False(h.t, rs[1].Skipped)
	require.NoError(h.t, rs[1].Err)
	h.record([]core.Change{y}, rs[1:])
}

func applyReplayOfFailedChange(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	c := &core.PutObject{Object: h.object(b, "k", h.content(1)), If: core.Precondition{Match: []string{"*"}}}
	h.fails(core.NoSuchKey, c)
	h.put(b, "k") // the change would succeed now
	require.True(h.t, h.applyAgain(c)[0].Skipped)
}

func applyOutOfOrderInBatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	x := &core.PutObject{Object: h.object(b, "x", h.content(1))}
	y := &core.PutObject{Object: h.object(b, "y")}
	z := &core.PutObject{Object: h.object(b, "z")}
	x.Seq, y.Seq, z.Seq = h.seq+5, h.seq+4, h.seq+5
	rs := h.applyAgain(x, y, z)
	require.False(h.t, rs[0].Skipped)
	require.True(h.t, rs[1].Skipped)
	require.True(h.t, rs[2].Skipped)
	h.seq += 5
	h.record([]core.Change{x}, rs[:1])
}

func applyFailureIsAlone(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	rs := h.apply(
		&core.PutObject{Object: h.object(b, "a", h.content(1))},
		&core.PutObject{Object: h.object(b, "b", h.content(1)), If: core.Precondition{Match: []string{"*"}}},
		&core.PutObject{Object: h.object(b, "c", h.content(1))},
	)
	require.NoError(h.t, rs[0].Err)
	require.True(h.t, core.Is(rs[1].Err, core.NoSuchKey))
	require.NoError(h.t, rs[2].Err)
	require.Equal(h.t, "a c", h.pages(core.ListQuery{Bucket: b.ID, Limit: 9}, 0))
}

func applyReplayFromAndVoid(h *harness) {
	first := core.MakeBlockID(1<<63|5, 1<<31|2, 3)
	h.ok(&core.SetReplayFrom{ReplayFrom: first})
	require.Equal(h.t, first, h.state().State.ReplayFrom)
	h.ok(&core.Void{From: 1, To: 100})
	s := h.state().State
	require.Equal(h.t, core.State{Seq: h.seq, ReplayFrom: first, NextData: 1}, s)
	h.ok(&core.SetReplayFrom{ReplayFrom: core.MakeBlockID(2, 2, 3)})
	require.Equal(h.t, core.MakeBlockID(2, 2, 3), h.state().State.ReplayFrom)
}

func applySyncedMovesForward(h *harness) {
	first := core.MakeBlockID(1, 2, 3)
	h.ok(&core.Synced{UpTo: 5, ReplayFrom: first, Relaxed: true})
	require.Equal(h.t, core.State{Seq: h.seq, ReplayFrom: first, NextData: 1, Synced: 5}, h.state().State)
	h.ok(&core.Synced{UpTo: 5, ReplayFrom: core.MakeBlockID(1, 2, 9)})
	h.ok(&core.Synced{UpTo: 4, ReplayFrom: core.MakeBlockID(1, 2, 9)})
	require.Equal(h.t, core.State{Seq: h.seq, ReplayFrom: first, NextData: 1, Synced: 5}, h.state().State)
	h.ok(&core.Synced{UpTo: 6, ReplayFrom: core.MakeBlockID(1, 1, 1)})
	require.Equal(h.t, core.State{Seq: h.seq, ReplayFrom: first, NextData: 1, Synced: 6}, h.state().State)
}

func applyKeepsNoChange(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "u")
	o := h.object(b, "k", h.content(2000))
	part := h.partOf(b, "u", id, 1, h.content(10))
	record := &core.PutRecord{Record: core.Record{Kind: kindUser, Key: "a", Value: []byte("value")}}
	put := &core.PutObject{Object: o}
	before := []string{fmt.Sprintf("%+v", put.Object), fmt.Sprintf("%+v", part.Part), fmt.Sprintf("%+v", record.Record)}
	h.apply(put, part, record)
	after := []string{fmt.Sprintf("%+v", put.Object), fmt.Sprintf("%+v", part.Part), fmt.Sprintf("%+v", record.Record)}
	require.Equal(h.t, before, after)
	state := h.state()
	scribble := func(s *core.Segment) func() {
		info := *s.Info
		info.Sums, info.Extents = normalSums(info.Sums), slices.Clone(info.Extents)
		kept := *s.Info
		s.Info.Sums[0].Value[0] ^= 0xff
		s.Info.Extents[0].Offset++
		return func() { kept.Sums, kept.Extents = info.Sums, info.Extents; *s.Info = kept }
	}
	undo := []func(){scribble(&put.Object.Segments[0]), scribble(&part.Part.Segments[0])}
	put.Object.Attrs[0].Value = "scribbled"
	record.Record.Value[0] = 'X'
	require.Equal(h.t, state, h.state())
	for _, fn := range undo {
		fn()
	}
	put.Object.Attrs[0].Value = "text/plain"
	record.Record.Value[0] = 'v'
}

func applyCanceled(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	for _, read := range []func() error{
		func() error { _, err := h.m.Bucket(ctx, "b"); return err },
		func() error { _, err := h.m.Object(ctx, b.ID, "k", core.Current); return err },
		func() error { _, err := h.m.List(ctx, core.ListQuery{Bucket: b.ID, Limit: 1}); return err },
	} {
		// An engine may ignore the cancellation. If it does not, it must return Canceled.
		if err := read(); err != nil && !core.Is(err, core.NoSuchKey) {
			require.True(h.t, core.Is(err, core.Canceled), err)
		}
	}
	h.put(b, "k") // the engine still works
}

// applyReadersSeeWholeBatches runs readers concurrently with a writer. Each batch writes its number to both keys. So a
// listing must show equal numbers, an object must have the content of its batch, and a reader must never see a number
// decrease.
func applyReadersSeeWholeBatches(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	batch := func(n int) {
		x, y := h.object(b, "x", h.content(int64(n+1))), h.object(b, "y", h.content(int64(n+1)))
		x.ETag, y.ETag = fmt.Sprintf("%09d", n), fmt.Sprintf("%09d", n)
		h.apply(&core.PutObject{Object: x}, &core.PutObject{Object: y})
	}
	batch(0)
	done := make(chan struct{})
	failed := make(chan error, 3)
	var wg sync.WaitGroup
	reader := func(read func() (string, error)) {
		defer wg.Done()
		for last := ""; ; {
			tag, err := read()
			if err == nil && tag < last {
				err = fmt.Errorf("read %s after %s", tag, last)
			}
			if last = tag; err != nil {
				failed <- err
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}
	wg.Add(3)
	go reader(func() (string, error) {
		page, err := h.m.List(h.ctx, core.ListQuery{Bucket: b.ID, Limit: 9})
		if err != nil {
			return "", err
		}
		if len(page.Objects) != 2 || page.Objects[0].ETag != page.Objects[1].ETag {
			return "", fmt.Errorf("the listing shows a partial batch: %+v", page.Objects)
		}
		return page.Objects[0].ETag, nil
	})
	for range 2 {
		go reader(func() (string, error) {
			y, err := h.m.Object(h.ctx, b.ID, "y", core.Current)
			if err != nil {
				return "", err
			}
			x, err := h.m.Object(h.ctx, b.ID, "x", core.Current)
			if err != nil {
				return "", err
			}
			if x.ETag < y.ETag {
				return "", fmt.Errorf("read x of batch %s after y of batch %s", x.ETag, y.ETag)
			}
			if len(x.Segments) != 1 || x.Segments[0].Info == nil || x.Segments[0].Info.Size != x.Size {
				return "", fmt.Errorf("the object has the content of another batch: %+v", x)
			}
			return y.ETag, nil
		})
	}
	for n := range 200 {
		batch(n + 1)
	}
	close(done)
	wg.Wait()
	select {
	case err := <-failed:
		require.NoError(h.t, err)
	default:
	}
}

// applySeenAtOnce looks at each change with one read, so that no other read can make the engine commit it first. Each
// round puts, shares, replaces and deletes content, and uses another read.
func applySeenAtOnce(h *harness) {
	b := h.limited("b", core.VersioningOff, 1<<40, 0)
	objects := int64(0)
	used := func(want int64) {
		u, err := h.m.Usage(h.ctx, b.ID)
		require.NoError(h.t, err)
		require.Equal(h.t, want, u.Objects)
	}
	listed := func(kind core.ListKind, key string, want int) {
		page, err := h.m.List(h.ctx, core.ListQuery{Kind: kind, Bucket: b.ID, Prefix: key, Limit: 10})
		require.NoError(h.t, err)
		require.Len(h.t, page.Objects, want)
	}
	for i, look := range []func(key string, there bool, g *core.DataInfo, refs int64){
		func(key string, there bool, _ *core.DataInfo, _ int64) {
			if there {
				require.Equal(h.t, h.seq, h.get(b, key, core.Current).Seq)
			} else {
				h.none(core.NoSuchKey, b, key, core.Current)
			}
		},
		func(key string, there bool, _ *core.DataInfo, _ int64) {
			if there {
				require.Equal(h.t, h.seq, h.get(b, key, core.Null).Seq)
			} else {
				h.none(core.NoSuchKey, b, key, core.Null)
			}
		},
		func(_ string, _ bool, g *core.DataInfo, refs int64) { require.Equal(h.t, refs, h.refs(g.ID)) },
		func(_ string, _ bool, g *core.DataInfo, refs int64) {
			found, err := h.m.Data(h.ctx, []core.DataID{1 << 39, g.ID})
			require.NoError(h.t, err)
			require.Len(h.t, found, int(min(refs, 1)))
		},
		func(_ string, _ bool, g *core.DataInfo, refs int64) {
			require.Equal(h.t, refs > 0, h.found(g.ContentKey()) == g.ID)
		},
		func(string, bool, *core.DataInfo, int64) { used(objects) },
		func(key string, there bool, _ *core.DataInfo, _ int64) {
			listed(core.ListObjects, key, map[bool]int{true: 1}[there])
		},
		func(key string, there bool, _ *core.DataInfo, _ int64) {
			listed(core.ListVersions, key, map[bool]int{true: 1}[there])
		},
		func(_ string, _ bool, g *core.DataInfo, refs int64) {
			freed, _ := h.trash()
			require.Equal(h.t, refs == 0, slices.Contains(freed, g.Extents[0]))
		},
	} {
		a, c := fmt.Sprint(i, "/a"), fmt.Sprint(i, "/c")
		g := h.sharable(b.ID, 2500, byte(10+i))
		objects++
		h.ok(&core.PutObject{Object: h.object(b, a, g)})
		look(a, true, g.Info, 1)
		objects++
		h.ok(h.equalTo(b, c, g.Info))
		look(c, true, g.Info, 2)
		h.ok(&core.PutObject{Object: h.object(b, a, h.content(1))})
		look(a, true, g.Info, 1)
		objects--
		h.remove(b, a)
		look(a, false, g.Info, 1)
		objects--
		h.remove(b, c)
		look(c, false, g.Info, 0)
	}
}
