package coretest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/mem"
)

// TestChangesRoundTrip checks that the binary form of changes keeps all of their fields.
func TestChangesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var changes []core.Change
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			changes = append(changes, coretest.RandomChange(t))
		}
		got, err := encoding.DecodeChanges(encoding.AppendChanges(nil, changes))
		require.NoError(t, err)
		require.Equal(t, changes, got)
	})
}

func voids(from, to core.Seq) []core.Change {
	var changes []core.Change
	for seq := from; seq <= to; seq++ {
		changes = append(changes, &core.Void{Stamped: core.Stamped{Seq: seq}})
	}
	return changes
}

func stateSeq(t *testing.T, m core.Meta) core.Seq {
	s, err := m.State(context.Background())
	require.NoError(t, err)
	return s.Seq
}

func TestFaultyMeta(t *testing.T) {
	ctx := context.Background()
	m := coretest.NewFaultyMeta(mem.NewMeta())
	_, err := m.Apply(ctx, voids(1, 1))
	require.NoError(t, err)

	m.Fail(coretest.Fault{Call: "Apply", Nth: 2, Kind: core.NoSpace})
	_, err = m.Apply(ctx, voids(2, 2))
	require.NoError(t, err)
	_, err = m.Apply(ctx, voids(3, 3))
	require.True(t, core.Is(err, core.NoSpace))
	require.ErrorIs(t, err, coretest.ErrInjected)
	require.EqualValues(t, 2, stateSeq(t, m), "the failed Apply took effect")
	_, err = m.Apply(ctx, voids(3, 3))
	require.NoError(t, err)
	require.Equal(t, 3, m.Calls())

	m.Fail(coretest.Fault{Call: "Object", Nth: 1, On: true, Kind: core.Internal})
	for range 2 {
		_, err = m.Object(ctx, 1, "k", core.Current)
		require.True(t, core.Is(err, core.Internal))
	}

	m.Fail(coretest.Fault{Call: "Apply", Nth: 1, Done: true})
	_, err = m.Apply(ctx, voids(4, 4))
	require.True(t, core.Is(err, core.Unavailable))
	require.EqualValues(t, 4, stateSeq(t, m), "the failed Apply did not take effect")
	m.Fail(coretest.Fault{})
	_, err = m.Apply(ctx, voids(5, 5))
	require.True(t, core.Is(err, core.Unavailable), "every later Apply must fail")
	require.EqualValues(t, 4, stateSeq(t, m))
}

func TestCountingMeta(t *testing.T) {
	ctx := context.Background()
	m := coretest.NewCountingMeta(mem.NewMeta())
	for _, n := range []core.Seq{2, 5, 6} {
		_, err := m.Apply(ctx, voids(n, 6))
		require.NoError(t, err)
	}
	_, err := coretest.ReadMeta(ctx, m)
	require.NoError(t, err)
	require.Equal(t, coretest.MetaCounts{Apply: 3, Changes: 8, Largest: 5, State: 1, Buckets: 1, Garbage: 1}, m.Counts())
	m.Reset()
	require.Zero(t, m.Counts())
}

// TestCheckDetects breaks each invariant in turn: Check must detect it.
func TestCheckDetects(t *testing.T) {
	extent := func(n int64) core.Extent { return core.Extent{Offset: n, Length: 1} }
	fresh := func() *coretest.MetaState {
		info := &core.DataInfo{ID: 1}
		return &coretest.MetaState{
			State: core.State{Seq: 9, NextData: 3},
			Buckets: []coretest.BucketState{{
				Info:     core.BucketInfo{ID: 1, Versioning: core.VersioningEnabled},
				Versions: []core.ObjectInfo{{Bucket: 1, Key: "k", Seq: 5, Latest: true, Segments: []core.Segment{{Data: 1, Info: info}}}, {Bucket: 1, Key: "k", Seq: 4, Null: true}},
				Current:  []string{"k"},
			}},
			Data:    []core.DataInfo{{ID: 1, Refs: 1, Extents: []core.Extent{extent(1)}}},
			Garbage: []core.Garbage{{ID: 1, Extents: []core.Extent{extent(2)}}, {ID: 2, List: 7}},
			Lists:   map[core.UploadID][]core.PartInfo{},
		}
	}
	fresh().Check(t)
	for name, breakIt := range map[string]func(s *coretest.MetaState){
		"references":           func(s *coretest.MetaState) { s.Data[0].Refs = 2 },
		"no references":        func(s *coretest.MetaState) { s.Data = append(s.Data, core.DataInfo{ID: 2}) },
		"content is missing":   func(s *coretest.MetaState) { s.Data = nil },
		"not resolved":         func(s *coretest.MetaState) { s.Buckets[0].Versions[0].Segments[0].Info = nil },
		"live and garbage":     func(s *coretest.MetaState) { s.Garbage[0].Extents[0] = extent(1) },
		"garbage twice":        func(s *coretest.MetaState) { s.Garbage[0].Extents = append(s.Garbage[0].Extents, extent(2)) },
		"garbage order":        func(s *coretest.MetaState) { s.Garbage[1].ID = 1 },
		"empty garbage":        func(s *coretest.MetaState) { s.Garbage[1].List = 0 },
		"list garbage, in use": func(s *coretest.MetaState) { s.Buckets[0].Versions[1].List = 7 },
		"two newest":           func(s *coretest.MetaState) { s.Buckets[0].Versions[1].Latest = true },
		"no newest":            func(s *coretest.MetaState) { s.Buckets[0].Versions[0].Latest = false },
		"two null":             func(s *coretest.MetaState) { s.Buckets[0].Versions[0].Null = true },
		"order":                func(s *coretest.MetaState) { s.Buckets[0].Versions[1].Seq = 6 },
		"not listed":           func(s *coretest.MetaState) { s.Buckets[0].Current = nil },
		"next data":            func(s *coretest.MetaState) { s.State.NextData = 1 },
		"sequence":             func(s *coretest.MetaState) { s.State.Seq = 4 },
		"marker without versions": func(s *coretest.MetaState) {
			s.Buckets[0].Info.Versioning = core.VersioningOff
		},
	} {
		s := fresh()
		breakIt(s)
		require.True(t, fails(s), name)
	}
}

// recorder is a require.TestingT that only records that the test has failed.
type recorder struct{ failed bool }

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) FailNow()              { panic(r) }

func fails(s *coretest.MetaState) bool {
	r := &recorder{}
	func() {
		defer func() { _ = recover() }()
		s.Check(r)
	}()
	return r.failed
}
