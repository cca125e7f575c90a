package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
	"orcas/sdk"
)

const mib = 1 << 20

// random returns n bytes that cannot be compressed, and differ for each seed.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// file writes a file for one test.
func file(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// read returns the content of an object.
func read(t testing.TB, c *sdk.Client, bucket, key string) []byte {
	t.Helper()
	o, err := c.Get(t.Context(), bucket, key, nil)
	require.NoError(t, err)
	defer o.Close()
	b, err := io.ReadAll(o)
	require.NoError(t, err)
	return b
}

// same fails without printing megabytes.
func same(t testing.TB, want, got []byte) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	require.True(t, bytes.Equal(want, got), "the content differs")
}

// buffer is an io.WriterAt in memory.
type buffer struct {
	mu sync.Mutex
	b  []byte
}

func (w *buffer) WriteAt(p []byte, at int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := int(at) + len(p); n > len(w.b) {
		w.b = append(w.b, make([]byte, n-len(w.b))...)
	}
	return copy(w.b[at:], p), nil
}

// onlyReader hides every method but Read.
type onlyReader struct{ io.Reader }

// progress collects reports and checks that they never go back.
type progress struct {
	t    testing.TB
	last sdk.Progress
	n    int
}

func (p *progress) report(now sdk.Progress) {
	require.GreaterOrEqual(p.t, now.Done, p.last.Done)
	require.GreaterOrEqual(p.t, now.Sent, p.last.Sent)
	if now.Total > 0 {
		require.LessOrEqual(p.t, now.Done, now.Total)
	}
	p.last = now
	p.n++
}

// TestTransferSizes uploads and downloads content of every kind of size, from every kind of reader.
func TestTransferSizes(t *testing.T) {
	c, bucket := newBucket(t)
	for _, size := range []int{0, 1, 1000, 64 << 10, mib, mib + 1, 16 * mib, 16*mib + 1, 40*mib + 7} {
		content := random(uint64(size), size)
		readers := map[string]func() (io.Reader, int64){
			"file": func() (io.Reader, int64) {
				f, err := os.Open(file(t, content))
				require.NoError(t, err)
				t.Cleanup(func() { f.Close() })
				return f, 0
			},
			"bytes":   func() (io.Reader, int64) { return bytes.NewReader(content), 0 },
			"seeker":  func() (io.Reader, int64) { return struct{ io.ReadSeeker }{bytes.NewReader(content)}, 0 },
			"stream":  func() (io.Reader, int64) { return onlyReader{bytes.NewReader(content)}, 0 },
			"sized":   func() (io.Reader, int64) { return onlyReader{bytes.NewReader(content)}, int64(size) },
			"section": func() (io.Reader, int64) { return io.NewSectionReader(bytes.NewReader(content), 0, int64(size)), 0 },
		}
		for name, reader := range readers {
			if size > 20*mib && testing.Short() && name != "bytes" {
				continue
			}
			p := &progress{t: t}
			r, known := reader()
			up, err := c.Upload(t.Context(), bucket, name, r, &sdk.UploadOptions{Size: known, Progress: p.report})
			require.NoError(t, err, "%s of %d bytes", name, size)
			require.Equal(t, int64(size), up.Size)
			require.Equal(t, sumOf(sdk.CRC64NVME, content), up.Checksums[sdk.CRC64NVME])
			require.GreaterOrEqual(t, up.BytesSent, int64(size))
			require.LessOrEqual(t, up.BytesSent, int64(size)+4096, "nothing is sent twice")
			require.Equal(t, int64(size), p.last.Done)
			require.Equal(t, size > 16*mib, strings.Contains(up.ETag, "-"), up.ETag)
			same(t, content, read(t, c, bucket, name))
		}
		p := &progress{t: t}
		w := &buffer{}
		down, err := c.Download(t.Context(), bucket, "bytes", w, &sdk.DownloadOptions{Progress: p.report})
		require.NoError(t, err)
		require.True(t, down.Verified)
		require.Equal(t, int64(size), down.Info.Size)
		require.Equal(t, int64(size), p.last.Done)
		require.Equal(t, int64(size), p.last.Total)
		require.LessOrEqual(t, down.BytesReceived, int64(size)+4096)
		same(t, content, w.b)
	}
}

func sumOf(a sdk.Algorithm, b []byte) string { return checksum.Encode(checksum.Sum(a, b)) }

// TestUploadPosition: an upload begins at the position of its reader.
func TestUploadPosition(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(1, 20*mib)
	f, err := os.Open(file(t, content))
	require.NoError(t, err)
	defer f.Close()
	for name, r := range map[string]io.ReadSeeker{"file": f, "bytes": bytes.NewReader(content), "seeker": struct{ io.ReadSeeker }{bytes.NewReader(content)}} {
		_, err := r.Seek(1000, io.SeekStart)
		require.NoError(t, err)
		_, err = c.Upload(t.Context(), bucket, name, r, nil)
		require.NoError(t, err)
		same(t, content[1000:], read(t, c, bucket, name))
	}
}

// TestTransferChecksums transfers large content with every algorithm; each is verified end to end.
func TestTransferChecksums(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(2, 11*mib)
	for _, a := range checksum.All() {
		o := &sdk.UploadOptions{PartSize: 5 * mib}
		o.Checksum = a
		up, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(content), o)
		require.NoError(t, err, a)
		if a.CanCombine() {
			require.Equal(t, sumOf(a, content), up.Checksums[a])
		} else {
			require.True(t, strings.HasSuffix(up.Checksums[a], "-3"), up.Checksums[a])
		}
		w := &buffer{}
		down, err := c.Download(t.Context(), bucket, "key", w, &sdk.DownloadOptions{PartSize: 5 * mib})
		require.NoError(t, err, a)
		require.True(t, down.Verified, a)
		same(t, content, w.b)
	}
	plain := newClient(t, shared, func(c *sdk.Config) { c.ChecksumsWhenRequired = true })
	up, err := plain.Upload(t.Context(), bucket, "key", bytes.NewReader(content), &sdk.UploadOptions{PartSize: 5 * mib})
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(up.ETag, "-3"))
	w := &buffer{}
	down, err := plain.Download(t.Context(), bucket, "key", w, &sdk.DownloadOptions{PartSize: 5 * mib})
	require.NoError(t, err)
	require.True(t, down.Verified, "with its ETag")
	same(t, content, w.b)
}

// TestTransferWholeSums: an object of one PUT that has no CRC is verified while its ranges arrive in any order.
func TestTransferWholeSums(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(3, 30*mib)
	for _, a := range []sdk.Algorithm{sdk.SHA256, sdk.MD5, sdk.CRC32} {
		o := &sdk.PutOptions{Checksum: a}
		_, err := c.Put(t.Context(), bucket, "key", bytes.NewReader(content), o)
		require.NoError(t, err)
		w := &buffer{}
		down, err := c.Download(t.Context(), bucket, "key", w, &sdk.DownloadOptions{PartSize: 5 * mib, Parallel: 3})
		require.NoError(t, err, a)
		require.True(t, down.Verified, a)
		same(t, content, w.b)
	}
	plain := newClient(t, shared, func(c *sdk.Config) { c.ChecksumsWhenRequired = true })
	w := &buffer{}
	down, err := plain.Download(t.Context(), bucket, "key", w, nil)
	require.NoError(t, err)
	require.True(t, down.Verified, "with its ETag")
	same(t, content, w.b)
}

// TestUploadConditions: a condition decides at the end, but is checked before anything is sent.
func TestUploadConditions(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(4, 17*mib)
	o := &sdk.UploadOptions{}
	o.IfNoneMatch = "*"
	first, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(content), o)
	require.NoError(t, err)
	up, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(content), o)
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	require.Less(t, up.BytesSent, int64(1000))

	state := filepath.Join(t.TempDir(), "state")
	o = &sdk.UploadOptions{StateFile: state} // which is of no use after an answer that stays the same
	o.IfMatch = first.ETag
	r := &hooked{ReadSeeker: bytes.NewReader(content), at: 9 * mib, hook: func() { // another writer is faster
		_, err := c.Put(t.Context(), bucket, "key", strings.NewReader("other"), nil)
		require.NoError(t, err)
	}}
	_, err = c.Upload(t.Context(), bucket, "key", r, o)
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	require.Equal(t, "other", string(read(t, c, bucket, "key")))
	require.Empty(t, uploads(t, c, bucket), "the upload was aborted")
	require.NoFileExists(t, state)
}

// hooked calls hook once when it is read beyond an offset.
type hooked struct {
	io.ReadSeeker
	at   int64
	once sync.Once
	hook func()
}

func (h *hooked) Read(p []byte) (int, error) {
	n, err := h.ReadSeeker.Read(p)
	if pos, _ := h.Seek(0, io.SeekCurrent); pos > h.at {
		h.once.Do(h.hook)
	}
	return n, err
}

func uploads(t testing.TB, c *sdk.Client, bucket string) (list []sdk.UploadInfo) {
	t.Helper()
	for u, err := range c.Uploads(t.Context(), bucket, nil) {
		require.NoError(t, err)
		list = append(list, u)
	}
	return list
}

// TestUploadMistakes: arguments and sources that cannot work are errors that leave nothing behind.
func TestUploadMistakes(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(5, 17*mib)
	broken := errors.New("broken source")
	for name, call := range map[string]struct {
		r    io.Reader
		o    sdk.UploadOptions
		want error
		text string
	}{
		"part size":   {bytes.NewReader(content), sdk.UploadOptions{PartSize: 1}, nil, "part size"},
		"wrong size":  {bytes.NewReader(content), sdk.UploadOptions{Size: 5}, nil, "UploadOptions.Size"},
		"too long":    {onlyReader{bytes.NewReader(content)}, sdk.UploadOptions{Size: 16*mib + 1}, nil, "longer than"},
		"too short":   {onlyReader{bytes.NewReader(content)}, sdk.UploadOptions{Size: 18 * mib}, io.ErrUnexpectedEOF, "shorter than"},
		"small long":  {onlyReader{strings.NewReader("12")}, sdk.UploadOptions{Size: 1}, nil, "longer than"},
		"small short": {onlyReader{strings.NewReader("12")}, sdk.UploadOptions{Size: 3}, io.ErrUnexpectedEOF, "shorter than"},
		"broken":      {io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken)), sdk.UploadOptions{}, broken, ""},
		"broken head": {iotest.ErrReader(broken), sdk.UploadOptions{}, broken, ""},
		"wrong sum": {bytes.NewReader(content), sdk.UploadOptions{PutOptions: sdk.PutOptions{Checksum: sdk.CRC32,
			ChecksumValue: sumOf(sdk.CRC32, []byte("x"))}}, sdk.ErrChecksum, ""},
	} {
		_, err := c.Upload(t.Context(), bucket, "key", call.r, &call.o)
		require.Error(t, err, name)
		if call.want != nil {
			require.ErrorIs(t, err, call.want, name)
		}
		require.ErrorContains(t, err, call.text, name)
		_, err = c.Head(t.Context(), bucket, "key", nil)
		require.ErrorIs(t, err, sdk.ErrNoSuchKey, name)
		require.Empty(t, uploads(t, c, bucket), name)
	}
	_, err := c.Upload(t.Context(), bucket, "", strings.NewReader(""), nil)
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	_, err = c.UploadFile(t.Context(), bucket, "key", t.TempDir(), nil)
	require.ErrorContains(t, err, "is a directory")
	_, err = c.UploadFile(t.Context(), bucket, "key", filepath.Join(t.TempDir(), "none"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = c.Upload(t.Context(), "no-such-bucket", "key", bytes.NewReader(content), nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
}

// TestUploadCanceled: without a state file, the parts of a canceled upload are removed; with one, they stay.
func TestUploadCanceled(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(6, 40*mib)
	for _, state := range []string{"", filepath.Join(t.TempDir(), "state")} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		_, err := c.Upload(ctx, bucket, "key", bytes.NewReader(content), &sdk.UploadOptions{PartSize: 5 * mib, Parallel: 2, StateFile: state,
			Progress: func(p sdk.Progress) {
				if p.Done > 15*mib {
					cancel(cause)
				}
			}})
		require.ErrorIs(t, err, cause)
		_, headErr := c.Head(t.Context(), bucket, "key", nil)
		require.ErrorIs(t, headErr, sdk.ErrNoSuchKey)
		if state == "" {
			require.Empty(t, uploads(t, c, bucket))
			continue
		}
		require.Len(t, uploads(t, c, bucket), 1)
		p := &progress{t: t}
		up, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(content), &sdk.UploadOptions{PartSize: 5 * mib, StateFile: state, Progress: p.report})
		require.NoError(t, err)
		require.GreaterOrEqual(t, up.Resumed, int64(5*mib))
		require.LessOrEqual(t, up.BytesSent, int64(len(content))-up.Resumed+8192, "nothing is sent again")
		require.Equal(t, int64(len(content)), p.last.Done)
		require.NoFileExists(t, state)
		require.Empty(t, uploads(t, c, bucket))
		same(t, content, read(t, c, bucket, "key"))
	}
}

// TestUploadSourceChanged: a file that changes during its upload is never stored as a mixture.
func TestUploadSourceChanged(t *testing.T) {
	c, bucket := newBucket(t)
	path := file(t, random(7, 30*mib))
	_, err := c.UploadFile(t.Context(), bucket, "key", path, &sdk.UploadOptions{Parallel: 1, Progress: func(p sdk.Progress) {
		if p.Done > 9*mib && p.Done < 20*mib {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("changed"), 25*mib)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
		}
	}})
	require.ErrorIs(t, err, sdk.ErrSourceChanged)
	require.Empty(t, uploads(t, c, bucket))
	_, err = c.UploadFile(t.Context(), bucket, "key", path, &sdk.UploadOptions{Parallel: 1, Progress: func(p sdk.Progress) {
		if p.Done > 9*mib && p.Done < 20*mib {
			require.NoError(t, os.Truncate(path, 20*mib))
		}
	}})
	require.ErrorIs(t, err, sdk.ErrSourceChanged)
	_, err = c.Head(t.Context(), bucket, "key", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
}
