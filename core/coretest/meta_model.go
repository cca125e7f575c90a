package coretest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/core/mem"
)

// MetaModel applies random changes to an engine, in batches, and to the model (package mem), one at a time. It compares
// the result of each change. After each batch it compares the whole state and checks the invariants. Some batches begin
// with changes that were applied before, as in a replay. Open returns an empty engine, which MetaModel closes.
//
// A failure prints the seed. The flag -rapid.checks sets the number of sequences to try.
func MetaModel(t *testing.T, open func(t *testing.T) core.Meta) {
	rapid.Check(t, func(rt *rapid.T) {
		m := open(t)
		defer func() { require.NoError(t, m.Close()) }()
		s := &simulation{harness: newHarness(rt, m), t: rt, model: mem.NewMeta()}
		s.open = func() core.Meta { return open(t) }
		for range rapid.IntRange(1, 15).Draw(rt, "batches") {
			s.batch(rt)
		}
		s.snapshotBesideChanges(rt)
		s.finish()
	})
}

// simulation is a harness that draws random changes.
type simulation struct {
	*harness
	t     *rapid.T
	model *mem.Meta

	buckets []core.BucketInfo // every state in which a bucket was written, including deleted buckets
	objects []core.ObjectInfo
	uploads []core.UploadInfo
	partsOf map[core.UploadID]map[int]core.PartRef
}

// batch applies a batch, and compares everything.
func (s *simulation) batch(rt *rapid.T) {
	s.applyBatch(rt, 12)
	state := s.check()
	require.Equal(rt, s.read(s.model).Comparable(), state.Comparable(), "the driver (actual) differs from the model (expected)")
	for range 5 {
		s.compareList()
	}
}

// snapshotBesideChanges applies batches while a snapshot is read: after each of its rows, half of the time. The snapshot
// must be the same as one without those changes.
func (s *simulation) snapshotBesideChanges(rt *rapid.T) {
	own, ok := core.As[core.Snapshotter](s.m)
	if !ok {
		return
	}
	want, err := Rows(s.ctx, own)
	require.NoError(rt, err)
	var got [][]byte
	require.NoError(rt, own.Snapshot(s.ctx, func(r *core.Row) error {
		got = append(got, encoding.AppendRow(nil, r))
		if s.one(2) {
			s.applyBatch(rt, 3)
		}
		return nil
	}))
	SameRows(rt, want, got, "beside changes")
}

// applyBatch applies a batch of at most longest new changes, and compares their results.
func (s *simulation) applyBatch(rt *rapid.T, longest int) {
	var changes []core.Change
	var want []core.Result
	if n := len(s.history); n > 0 && s.one(5) {
		changes = append(changes, s.history[n-min(n, 3):]...) // these were applied before
	}
	replayed := len(changes)
	for range rapid.IntRange(1, longest).Draw(rt, "changes") {
		c := s.change()
		s.seq += core.Seq(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(rt, "gap")) + core.SeqCount(c) - 1
		c.SetStamp(s.seq)
		before := s.copyOfModel()
		results, err := s.model.Apply(s.ctx, []core.Change{c})
		require.NoError(rt, err)
		if before != nil {
			s.judge(before, c, results[0])
		}
		s.learn(c, results[0])
		changes, want = append(changes, c), append(want, results[0])
	}
	got, err := s.m.Apply(s.ctx, changes)
	require.NoError(rt, err)
	require.Len(rt, got, len(changes))
	for i, r := range got[:replayed] {
		require.Equal(rt, core.Result{Skipped: true, Seq: changes[i].Stamp()}, r, "the result of a replayed change")
	}
	for i, r := range got[replayed:] {
		require.Equal(rt, outcome(want[i]), outcome(r), "%T %+v", changes[replayed+i], changes[replayed+i])
	}
	s.record(changes[replayed:], got[replayed:])
}

// outcome formats a result for a comparison. Errors are represented by their kind.
func outcome(r core.Result) string {
	kind := "written"
	if r.Err != nil {
		kind = core.KindOf(r.Err).String()
	}
	return fmt.Sprintf("%s, skipped %t, seq %d, version %q, marker %t", kind, r.Skipped, r.Seq, r.Version, r.Marker)
}

// compareList compares a random listing of the engine with that of the model.
func (s *simulation) compareList() {
	keys := append([]string{""}, modelKeys...)
	q := core.ListQuery{
		Kind:      rapid.SampledFrom([]core.ListKind{core.ListObjects, core.ListVersions, core.ListUploads}).Draw(s.t, "kind"),
		Bucket:    s.bucketID(),
		Prefix:    rapid.SampledFrom(append(keys, "a/", "z")).Draw(s.t, "prefix"),
		Delimiter: rapid.SampledFrom([]string{"", "/", "b", "/b", "\xff"}).Draw(s.t, "delimiter"),
		Limit:     rapid.SampledFrom([]int{1, 2, 3, 1000}).Draw(s.t, "limit"),
		Brief:     rapid.Bool().Draw(s.t, "brief"),
	}
	if s.one(2) {
		q.After.Key = rapid.SampledFrom(append(keys, "a/b/", "zz")).Draw(s.t, "after")
		if n := rapid.Uint64Range(0, uint64(s.seq)+1).Draw(s.t, "within"); q.Kind == core.ListVersions {
			q.After.Version = core.Version(n)
		} else if q.Kind == core.ListUploads {
			q.After.Upload = core.UploadID(n)
		}
	}
	for {
		samePage(s.t, context.Background(), s.model, s.m, q)
		page, err := s.model.List(s.ctx, q)
		require.NoError(s.t, err)
		if !page.Truncated {
			return
		}
		q.After = page.Next
	}
}

// learn records the result of a change, for later changes.
func (s *simulation) learn(c core.Change, r core.Result) {
	if r.Err != nil {
		return
	}
	switch c := c.(type) {
	case *core.PutBucket:
		b, err := s.model.Bucket(s.ctx, c.Info.Name)
		require.NoError(s.t, err)
		s.buckets = append(s.buckets, *b)
	case *core.PutObject:
		s.learnObject(c.Object.Bucket, c.Object.Key, r.Version)
	case *core.CompleteUpload:
		s.learnObject(c.Object.Bucket, c.Object.Key, r.Version)
	case *core.MoveObject:
		s.learnObject(c.Bucket, c.Key, r.Version)
	case *core.DeleteObject:
		if r.Marker && c.Version == core.Current {
			s.learnObject(c.Bucket, c.Key, r.Version)
		}
	case *core.CreateUpload:
		u := c.Upload
		u.ID = core.UploadID(r.Seq)
		s.uploads = append(s.uploads, u)
	case *core.PutPart:
		if s.partsOf == nil {
			s.partsOf = map[core.UploadID]map[int]core.PartRef{}
		}
		if s.partsOf[c.Upload] == nil {
			s.partsOf[c.Upload] = map[int]core.PartRef{}
		}
		s.partsOf[c.Upload][c.Part.Number] = core.PartRef{Number: c.Part.Number, Seq: r.Seq}
	}
}

func (s *simulation) learnObject(bucket core.BucketID, key string, v core.Version) {
	o, err := s.model.Object(s.ctx, bucket, key, v)
	require.NoError(s.t, err)
	s.objects = append(s.objects, *o)
}

// samePage requests one page from the model and from the driver and compares them.
func samePage(t require.TestingT, ctx context.Context, model, driver core.Meta, q core.ListQuery) {
	want, err := model.List(ctx, q)
	require.NoError(t, err)
	got, err := driver.List(ctx, q)
	require.NoError(t, err)
	require.Equal(t, render(want, q.Kind, 0), render(got, q.Kind, 0), "%+v", q)
	for i := range want.Objects {
		require.Equal(t, normalObject(&want.Objects[i]), normalObject(&got.Objects[i]), "%+v", q)
	}
	if want.Truncated {
		require.Equal(t, want.Next, got.Next, "%+v", q)
	}
}
