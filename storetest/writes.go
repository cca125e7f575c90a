package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/snapshot"
	"orcas/internal/checksum"
	"orcas/vfs"
)

// OpenBucket returns a bucket. It creates the bucket if it does not exist.
func (s *Store) OpenBucket(name string, v core.Versioning) *core.BucketInfo {
	s.T.Helper()
	b, err := s.FS.Bucket(ctx, name)
	if core.Is(err, core.NoSuchBucket) {
		b, err = s.FS.CreateBucket(ctx, core.BucketInfo{Name: name, Owner: "root", Versioning: v})
	}
	require.NoError(s.T, err)
	return b
}

// In returns the same store with another bucket and an empty Want.
func (s *Store) In(b *core.BucketInfo) *Store {
	other := *s
	other.Bucket, other.Want, other.close = b, map[string][]byte{}, nil
	return &other
}

// Content returns new content with the given body. It is discarded at the end of the test.
func (s *Store) Content(body []byte, algorithms ...checksum.Algorithm) *content.Content {
	s.T.Helper()
	c, err := s.FS.NewContent(ctx, s.Bucket, int64(len(body)), algorithms...)
	require.NoError(s.T, err)
	s.T.Cleanup(c.Discard)
	n, err := c.ReadFrom(bytes.NewReader(body))
	require.NoError(s.T, err)
	require.EqualValues(s.T, len(body), n)
	return c
}

// TryPut writes a key, and returns the error.
func (s *Store) TryPut(key string, body []byte) (*core.ObjectInfo, error) {
	c, err := s.FS.NewContent(ctx, s.Bucket, int64(len(body)))
	if err != nil {
		return nil, err
	}
	defer c.Discard()
	if _, err := c.ReadFrom(bytes.NewReader(body)); err != nil {
		return nil, err
	}
	return s.FS.Put(ctx, vfs.PutRequest{Bucket: s.Bucket, Key: key, Content: c})
}

// Put writes a key without changing Want.
func (s *Store) Put(key string, body []byte) *core.ObjectInfo {
	s.T.Helper()
	o, err := s.TryPut(key, body)
	require.NoError(s.T, err)
	return o
}

// Set writes a key and updates Want.
func (s *Store) Set(key string, body []byte) {
	s.T.Helper()
	s.Put(key, body)
	s.Want[key] = body
}

// Delete deletes a key without changing Want.
func (s *Store) Delete(key string) {
	s.T.Helper()
	require.NoError(s.T, s.DeleteVersion(key, core.Current))
}

// DeleteVersion deletes a version, and returns the error.
func (s *Store) DeleteVersion(key string, v core.Version) error {
	return s.FS.Delete(ctx, s.Bucket, "", []vfs.DeleteRequest{{Key: key, Version: v}})[0].Err
}

// Remove deletes a key and updates Want.
func (s *Store) Remove(key string) {
	s.T.Helper()
	s.Delete(key)
	delete(s.Want, key)
}

// Copy copies a key within the bucket. It updates Want if the source is in Want.
func (s *Store) Copy(from, to string) {
	s.T.Helper()
	o, err := s.FS.Stat(ctx, s.Bucket, from, core.Current)
	require.NoError(s.T, err)
	_, err = s.FS.Copy(ctx, vfs.CopyRequest{SourceBucket: s.Bucket, Source: o, Bucket: s.Bucket, Key: to})
	require.NoError(s.T, err)
	if body, ok := s.Want[from]; ok {
		s.Want[to] = body
	}
}

// Append appends to the current version of a key without changing Want. It returns the error.
func (s *Store) Append(key string, body []byte) (*core.ObjectInfo, error) {
	s.T.Helper()
	base, err := s.FS.Stat(ctx, s.Bucket, key, core.Current)
	require.NoError(s.T, err)
	return s.FS.Append(ctx, vfs.AppendRequest{
		PutRequest: vfs.PutRequest{Bucket: s.Bucket, Key: key, Content: s.Content(body)}, Base: base,
	})
}

// Extend appends to a key and updates Want. If the key is not in Want, it does nothing.
func (s *Store) Extend(key string, body []byte) {
	s.T.Helper()
	if _, ok := s.Want[key]; !ok {
		return
	}
	_, err := s.Append(key, body)
	require.NoError(s.T, err)
	s.Want[key] = append(slices.Clip(s.Want[key]), body...)
}

// Move renames a key and updates Want. If the key is not in Want, or from equals to, it does nothing.
func (s *Store) Move(from, to string) {
	s.T.Helper()
	if _, ok := s.Want[from]; !ok || from == to {
		return
	}
	o, err := s.FS.Stat(ctx, s.Bucket, from, core.Current)
	require.NoError(s.T, err)
	_, err = s.FS.Move(ctx, vfs.MoveRequest{Source: o, Bucket: s.Bucket, Key: to})
	require.NoError(s.T, err)
	s.Want[to] = s.Want[from]
	delete(s.Want, from)
}

// Upload begins a multipart upload.
func (s *Store) Upload(key string, u core.UploadInfo) core.UploadID {
	s.T.Helper()
	u.Key = key
	got, err := s.FS.CreateUpload(ctx, s.Bucket, u)
	require.NoError(s.T, err)
	return got.ID
}

// Part writes part n of an upload, with checksums of the given algorithms.
func (s *Store) Part(key string, id core.UploadID, n int, body []byte, algorithms ...checksum.Algorithm) vfs.CompletedPart {
	s.T.Helper()
	c := s.Content(body, algorithms...)
	var sums []core.Checksum
	for _, a := range algorithms {
		sums = append(sums, core.Checksum{Algorithm: a, Value: c.Sum(a)})
	}
	p, err := s.FS.PutPart(ctx, vfs.PartRequest{Bucket: s.Bucket, Key: key, Upload: id, Number: n, Content: c, Sums: sums})
	require.NoError(s.T, err)
	return vfs.CompletedPart{Number: n, ETag: p.ETag}
}

// Multipart writes an object of two parts, the first of which is large, and updates Want.
func (s *Store) Multipart(key string) {
	s.T.Helper()
	s.MultipartOf(key, Filler(s.Rand.Uint64(), 5<<20), Filler(s.Rand.Uint64(), 3000))
}

// MultipartOf writes an object of the given parts and updates Want.
func (s *Store) MultipartOf(key string, bodies ...[]byte) {
	s.T.Helper()
	id := s.Upload(key, core.UploadInfo{})
	var parts []vfs.CompletedPart
	for i, body := range bodies {
		parts = append(parts, s.Part(key, id, i+1, body))
	}
	_, err := s.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: s.Bucket, Key: key, Upload: id, Parts: parts, Size: -1})
	require.NoError(s.T, err)
	s.Want[key] = slices.Concat(bodies...)
}

// Churn makes n random changes: it writes, deletes, copies and tags keys.
func (s *Store) Churn(n int) {
	s.T.Helper()
	for range n {
		key := fmt.Sprint("key-", s.Rand.IntN(60))
		_, exists := s.Want[key]
		switch s.Rand.IntN(12) {
		default:
			s.Set(key, Filler(s.Rand.Uint64(), 1+s.Rand.IntN(40_000)))
		case 0:
			s.Set(key, Filler(s.Rand.Uint64(), 70_000+s.Rand.IntN(600_000)))
		case 1, 2:
			s.Remove(key)
		case 3:
			if keys := slices.Sorted(maps.Keys(s.Want)); len(keys) > 0 {
				s.Copy(keys[s.Rand.IntN(len(keys))], key)
			}
		case 4:
			tags := []core.Attr{{Name: "n", Value: fmt.Sprint(s.Rand.IntN(1000))}}
			if exists {
				_, err := s.FS.Update(ctx, s.Bucket, core.UpdateObject{Key: key, SetTags: true, Tags: tags})
				require.NoError(s.T, err)
			}
		}
	}
}

// Shift makes n random changes: it appends to keys and renames keys.
func (s *Store) Shift(n int) {
	s.T.Helper()
	for range n {
		key, other := fmt.Sprint("key-", s.Rand.IntN(60)), fmt.Sprint("key-", s.Rand.IntN(60))
		if s.Rand.IntN(3) > 0 {
			s.Extend(key, Random(s.Rand.Uint64(), 1+s.Rand.IntN(80_000)))
		} else {
			s.Move(key, other)
		}
	}
}

// Versioned creates versions, null versions and delete markers in the named bucket.
func (s *Store) Versioned(name string) {
	s.T.Helper()
	b := s.In(s.OpenBucket(name, core.VersioningOff))
	for i, v := range []core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended, core.VersioningEnabled} {
		if i > 0 {
			_, err := s.FS.UpdateBucket(ctx, name, func(b *core.BucketInfo) error {
				b.Versioning = v
				return nil
			})
			require.NoError(s.T, err)
		}
		for k := range 8 {
			b.Put(fmt.Sprint("k", k), Filler(s.Rand.Uint64(), 1+s.Rand.IntN(5000)))
		}
		b.Put("empty", nil)
		b.Delete("k1")
		if i == 3 {
			b.Delete("k2")
			b.Put("k3", Filler(1, 100_000))
		}
	}
}

// Delta extends the newest snapshot by the changes since then, or writes a complete one if there is none, as reclaim
// does. It returns the snapshot.
func (s *Store) Delta() *snapshot.Info {
	s.T.Helper()
	_, errs := s.Writer.DoAll(ctx, []batch.Write{{Change: &core.Void{}}})
	require.NoError(s.T, errs[0])
	o := snapshot.WriteOptions{Before: s.Writer.Settle}
	list, err := snapshot.List(ctx, s.Blocks)
	require.NoError(s.T, err)
	if len(list) == 0 {
		info, err := snapshot.Write(ctx, s.Meta, s.Blocks, o)
		require.NoError(s.T, err)
		return info
	}
	st, err := s.Meta.State(ctx)
	require.NoError(s.T, err)
	info, err := snapshot.WriteDelta(ctx, s.Blocks, &list[0], st, func(emit func([]core.Change) error) error {
		return batch.Changes(ctx, s.Blocks, list[0].State, st.Seq, emit)
	}, o)
	require.NoError(s.T, err)
	require.NoError(s.T, snapshot.ReadDelta(ctx, s.Blocks, info))
	return info
}
