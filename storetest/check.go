package storetest

import (
	"bytes"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/fsck"
	"orcas/reclaim"
	"orcas/scrub"
)

// Read returns n bytes of the current version of a key from an offset, or the whole object if n is negative.
func (s *Store) Read(key string, off, n int64) ([]byte, error) {
	return s.ReadVersion(key, core.Current, off, n)
}

// ReadVersion is like Read, for any version.
func (s *Store) ReadVersion(key string, v core.Version, off, n int64) ([]byte, error) {
	o, err := s.FS.Open(ctx, s.Bucket, key, v)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if n < 0 {
		n = o.Info.Size
	}
	r, err := o.Range(ctx, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out bytes.Buffer
	_, err = r.WriteTo(&out)
	return out.Bytes(), err
}

// AllocationsOfRead returns the average number of allocations for reading an object of size bytes, from the lookup of its
// key to its last byte.
func (s *Store) AllocationsOfRead(key string, size int64) float64 {
	return testing.AllocsPerRun(200, func() {
		o, err := s.FS.Open(ctx, s.Bucket, key, core.Current)
		if err != nil {
			s.T.Fatal(err)
		}
		section, err := o.Range(ctx, 0, o.Info.Size)
		if err != nil {
			s.T.Fatal(err)
		}
		if n, err := section.WriteTo(io.Discard); n != size || err != nil {
			s.T.Fatal(n, err)
		}
		if err := section.Close(); err != nil {
			s.T.Fatal(err)
		}
	})
}

// RequireContent requires that a key has the given content.
func (s *Store) RequireContent(key string, want []byte) {
	s.T.Helper()
	got, err := s.Read(key, 0, -1)
	require.NoError(s.T, err, "%s", key)
	require.True(s.T, bytes.Equal(want, got), "content of %q", key)
}

// RequireWant requires that all keys of Want have the expected content. The bucket may have more keys.
func (s *Store) RequireWant() {
	s.T.Helper()
	for key, body := range s.Want {
		s.RequireContent(key, body)
	}
}

// Check requires that all keys of Want have the expected content, that the metadata is consistent, and that the buckets
// have no other keys.
func (s *Store) Check() {
	s.T.Helper()
	s.RequireWant()
	keys := 0
	for _, b := range s.State().Buckets {
		keys += len(b.Current)
	}
	require.Len(s.T, s.Want, keys)
}

// State reads all metadata and checks it.
func (s *Store) State() *coretest.MetaState {
	s.T.Helper()
	state, err := coretest.ReadMeta(ctx, s.Meta)
	require.NoError(s.T, err)
	state.Check(s.T)
	return state
}

// Rebuilds rebuilds the metadata from blocks, for example those that a power failure left, and requires that the result
// equals the metadata of the store.
func (s *Store) Rebuilds(blocks core.Blocks) {
	s.T.Helper()
	again := mem.NewMeta()
	_, err := batch.Recover(ctx, again, blocks, slog.New(slog.DiscardHandler))
	require.NoError(s.T, err)
	want, err := coretest.ReadMeta(ctx, s.Meta)
	require.NoError(s.T, err)
	got, err := coretest.ReadMeta(ctx, again)
	require.NoError(s.T, err)
	require.Equal(s.T, want.Comparable(), got.Comparable())
}

// Crashed returns the blocks that would be left after a power failure. The blocks of the store must be in memory.
func (s *Store) Crashed() core.Blocks { return s.Blocks.(*mem.Blocks).Crash() }

// EachContent calls fn with every DataInfo in the metadata.
func (s *Store) EachContent(fn func(d *core.DataInfo)) {
	s.T.Helper()
	require.NoError(s.T, s.Meta.Snapshot(ctx, func(r *core.Row) error {
		if r.Data != nil {
			fn(r.Data)
		}
		if r.Object != nil {
			for _, s := range r.Object.Segments {
				if s.Info != nil {
					fn(s.Info)
				}
			}
		}
		return nil
	}))
}

// Used returns the total size of all blocks and the total size of live extents, in bytes.
func (s *Store) Used() (all, live int64) {
	s.T.Helper()
	require.NoError(s.T, s.Blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		all += b.Size
		return nil
	}))
	s.EachContent(func(d *core.DataInfo) {
		for _, e := range d.Extents {
			live += e.Length
		}
	})
	return all, live
}

// Data returns the DataInfo of a key that has one segment. The reference count may be out of date.
func (s *Store) Data(key string) core.DataInfo {
	s.T.Helper()
	o, err := s.Meta.Object(ctx, s.Bucket.ID, key, core.Current)
	require.NoError(s.T, err)
	require.Len(s.T, o.Segments, 1)
	return *o.Segments[0].Info
}

// Full runs a full round of reclaim.
func (s *Store) Full() reclaim.Report {
	s.T.Helper()
	report, err := s.Reclaimer.Round(ctx, true)
	require.NoError(s.T, err)
	return report
}

// RequireSound requires that fsck.Check, including content, finds no difference.
func (s *Store) RequireSound() *fsck.Report {
	s.T.Helper()
	report, err := fsck.Check(ctx, s.Meta, s.Blocks, fsck.Options{Content: true})
	require.NoError(s.T, err)
	var text bytes.Buffer
	require.NoError(s.T, report.WriteText(&text))
	require.Zero(s.T, report.Found, text.String())
	return report
}

// Pass runs a complete pass of the Scrubber.
func (s *Store) Pass() scrub.Status {
	s.T.Helper()
	require.NoError(s.T, s.Scrubber.Pass(ctx))
	st := s.Scrubber.Status()
	require.False(s.T, st.Running)
	require.Equal(s.T, st.BlocksTotal, st.BlocksDone)
	require.Equal(s.T, st.BytesTotal, st.BytesDone)
	return st
}

// WhileInUse calls check repeatedly while another goroutine makes random writes and runs rounds of reclaim. It returns
// the number of blocks that reclaim freed.
func (s *Store) WhileInUse(rounds int, check func()) (freed int) {
	s.T.Helper()
	ended := make(chan error, 1)
	go func() {
		for i := range rounds {
			s.Churn(40)
			report, err := s.Reclaimer.Round(ctx, i%5 == 0)
			if err != nil {
				ended <- err
				return
			}
			freed += report.BlocksFreed
		}
		ended <- nil
	}()
	for times := 1; ; times++ {
		check()
		select {
		case err := <-ended:
			require.NoError(s.T, err)
			s.T.Logf("%d checks, while %d blocks were freed", times, freed)
			return freed
		default:
		}
	}
}
