package vfs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/mem"
	"orcas/storetest"
	"orcas/vfs"
)

// sharedMeta is an engine that other servers may write to: it hides that the wrapped engine is a SingleWriter.
type sharedMeta struct {
	core.Meta
	mu      sync.Mutex // guards the fields below
	changes []core.Change
	deletes core.BucketID // another server deletes this bucket before the next Apply; 0 if none
}

func (m *sharedMeta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes = append(m.changes, changes...)
	if m.deletes == 0 {
		return m.Meta.Apply(ctx, changes)
	}
	// All stamps must come from one writer, so the deletion takes the stamp of the first change, and the changes move
	// up by one.
	for _, c := range changes {
		c.SetStamp(c.Stamp() + 1)
	}
	first := &core.DeleteBucket{Stamped: core.Stamped{Seq: changes[0].Stamp() - 1}, Bucket: m.deletes}
	m.deletes = 0
	results, err := m.Meta.Apply(ctx, append([]core.Change{first}, changes...))
	if err != nil {
		return nil, err
	}
	return results[1:], nil
}

// openShared returns two namespaces over one store, like those of two servers. They share no lock, but they share a
// writer, because package mem accepts the stamps of one writer only.
func openShared(t *testing.T, meta core.Meta) (one, two *vfs.FS) {
	ctx := context.Background()
	blocks := mem.NewBlocks()
	w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: blocks})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	o := content.Options{Meta: meta, Blocks: blocks, Writer: w}
	one, err = storetest.NewFS(o)
	require.NoError(t, err)
	two, err = storetest.NewFS(o)
	require.NoError(t, err)
	return one, two
}

// TestUpdatesOfSeveralServers has two servers update a bucket at the same time: neither may undo the other's updates.
func TestUpdatesOfSeveralServers(t *testing.T) {
	ctx := context.Background()
	one, two := openShared(t, &sharedMeta{Meta: mem.NewMeta()})
	_, err := one.CreateBucket(ctx, core.BucketInfo{Name: "b"})
	require.NoError(t, err)
	const updates = 8
	var wg sync.WaitGroup
	for n, f := range []*vfs.FS{one, two} {
		wg.Go(func() {
			for i := range updates {
				_, err := f.UpdateBucket(ctx, "b", func(b *core.BucketInfo) error {
					b.Attrs = append(b.Attrs, core.Attr{Name: fmt.Sprint(n, "-", i)})
					return nil
				})
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	b, err := one.Bucket(ctx, "b")
	require.NoError(t, err)
	require.Len(t, b.Attrs, 2*updates)

	_, err = one.UpdateBucket(ctx, "b", func(b *core.BucketInfo) error { b.Versioning = core.VersioningEnabled; return nil })
	require.NoError(t, err)
	tries := 0
	_, err = one.UpdateBucket(ctx, "b", func(b *core.BucketInfo) error {
		tries++
		b.Versioning = core.VersioningOff
		return nil
	})
	require.True(t, core.Is(err, core.Conflict), "%v", err)
	require.Equal(t, 10, tries, "the update must give up after repeated conflicts")
}

// TestDocumentOfADeletedBucket has another server delete the bucket after PutDocument has looked it up: the document
// must not be written.
func TestDocumentOfADeletedBucket(t *testing.T) {
	ctx := context.Background()
	meta := &sharedMeta{Meta: mem.NewMeta()}
	one, _ := openShared(t, meta)
	b, err := one.CreateBucket(ctx, core.BucketInfo{Name: "b"})
	require.NoError(t, err)
	meta.mu.Lock()
	meta.deletes = b.ID
	meta.mu.Unlock()
	err = one.PutDocument(ctx, b, "cors", []byte("x"))
	require.True(t, core.Is(err, core.NoSuchBucket), "%v", err)
	list, err := meta.Records(ctx, core.BucketRecordKind(b.ID), "", 10)
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestSingleWriterHasNoPreconditions checks that a store with a single writer records changes without preconditions.
func TestSingleWriterHasNoPreconditions(t *testing.T) {
	ctx := context.Background()
	single := &singleMeta{sharedMeta{Meta: mem.NewMeta()}}
	one, _ := openShared(t, single)
	b, err := one.CreateBucket(ctx, core.BucketInfo{Name: "b"})
	require.NoError(t, err)
	_, err = one.UpdateBucket(ctx, "b", func(b *core.BucketInfo) error { b.Owner = "o"; return nil })
	require.NoError(t, err)
	require.NoError(t, one.PutDocument(ctx, b, "cors", []byte("x")))
	seen := 0
	for _, c := range single.changes {
		switch c := c.(type) {
		case *core.PutBucket:
			seen++
			require.Nil(t, c.Expect)
		case *core.PutRecord:
			seen++
			require.Zero(t, c.In)
		}
	}
	require.Equal(t, 3, seen)
}

// singleMeta is a sharedMeta that shows that it is a SingleWriter.
type singleMeta struct{ sharedMeta }

func (m *singleMeta) Unwrap() core.Meta { return m.Meta }
