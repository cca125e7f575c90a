package sdk_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// names returns the names in a directory.
func names(t testing.TB, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestDownloadFile(t *testing.T) {
	c, bucket := newBucket(t)
	for _, size := range []int{0, 5, 100 << 10, 20 * mib} {
		content := random(uint64(60+size), size)
		_, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(content), nil)
		require.NoError(t, err)
		info, err := c.Head(t.Context(), bucket, "key", nil)
		require.NoError(t, err)
		for i, o := range []*sdk.DownloadOptions{nil, {Info: info}, {Preallocate: true}, {NoSync: true}, {PartSize: 5 * mib, Parallel: 1}} {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
			before := c.Stats()
			down, err := c.DownloadFile(t.Context(), bucket, "key", path, o)
			require.NoError(t, err)
			require.True(t, down.Verified)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			same(t, content, got)
			require.Equal(t, []string{"file"}, names(t, dir))
			if i == 1 && size < mib {
				require.Equal(t, int64(1), c.Stats().Requests-before.Requests, "what is known about the object saves a request")
			}
		}
	}
}

// TestDownloadFileReplacesLinks: a symbolic link at the target is replaced, and one on the way out of a root is refused.
func TestDownloadFileReplacesLinks(t *testing.T) {
	c, bucket := newBucket(t)
	_, err := c.Put(t.Context(), bucket, "key", strings.NewReader("content"), nil)
	require.NoError(t, err)
	dir, outside := t.TempDir(), t.TempDir()
	victim := filepath.Join(outside, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("victim"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, err = c.DownloadFile(t.Context(), bucket, "key", filepath.Join(dir, "link"), nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, "link")))
	_, err = c.DownloadFile(t.Context(), bucket, "key", "link", &sdk.DownloadOptions{Root: root})
	require.NoError(t, err)
	info, err := os.Lstat(filepath.Join(dir, "link"))
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
	for _, path := range []string{"out/file", "../file", "/tmp/orcas-test-file"} {
		_, err = c.DownloadFile(t.Context(), bucket, "key", path, &sdk.DownloadOptions{Root: root})
		require.Error(t, err, path)
	}
	require.Equal(t, []string{"victim"}, names(t, outside))
	b, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "victim", string(b))
}

// TestDownloadMistakes: a target that cannot be written is found out before anything is requested, and what fails later
// leaves nothing behind.
func TestDownloadMistakes(t *testing.T) {
	c, bucket := newBucket(t)
	_, err := c.Put(t.Context(), bucket, "key", strings.NewReader("content"), nil)
	require.NoError(t, err)
	dir := t.TempDir()
	before := c.Stats()
	_, err = c.DownloadFile(t.Context(), bucket, "key", dir, nil)
	require.ErrorContains(t, err, "is a directory")
	require.Equal(t, before.Requests, c.Stats().Requests)
	_, err = c.DownloadFile(t.Context(), bucket, "key", filepath.Join(dir, "none", "file"), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = c.DownloadFile(t.Context(), bucket, "none", filepath.Join(dir, "file"), nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
	_, err = c.DownloadFile(t.Context(), bucket, "key", filepath.Join(dir, "file"), &sdk.DownloadOptions{Conditions: sdk.Conditions{IfMatch: "x"}})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	_, err = c.Download(t.Context(), bucket, "key", &buffer{}, &sdk.DownloadOptions{StateFile: filepath.Join(dir, "state")})
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	require.Empty(t, names(t, dir))
}

// TestDownloadVersion: a version is read, also if it is not the current one.
func TestDownloadVersion(t *testing.T) {
	c, bucket := newBucket(t)
	r, err := c.Fetch(t.Context(), &sdk.Request{Method: http.MethodPut, Path: "/" + bucket, Query: "versioning=",
		Body: []byte("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")})
	require.NoError(t, err)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	old := random(61, 20*mib)
	up, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(old), nil)
	require.NoError(t, err)
	require.NotEmpty(t, up.VersionID)
	w := &buffer{}
	replaced := false
	down, err := c.Download(t.Context(), bucket, "key", w, &sdk.DownloadOptions{Parallel: 1, Progress: func(p sdk.Progress) {
		if p.Done > mib && !replaced { // the version that the download began with is read to its end
			replaced = true
			_, err := c.Put(t.Context(), bucket, "key", strings.NewReader("new"), nil)
			require.NoError(t, err)
		}
	}})
	require.NoError(t, err)
	require.True(t, replaced)
	require.Equal(t, up.VersionID, down.VersionID)
	same(t, old, w.b)
	w = &buffer{}
	_, err = c.Download(t.Context(), bucket, "key", w, &sdk.DownloadOptions{VersionID: up.VersionID})
	require.NoError(t, err)
	same(t, old, w.b)
}

// TestDownloadObjectChanged: without versions, an object that is replaced meanwhile is an error, and no mixture appears.
func TestDownloadObjectChanged(t *testing.T) {
	c, bucket := newBucket(t)
	_, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(random(62, 40*mib)), nil)
	require.NoError(t, err)
	dir := t.TempDir()
	replaced := false
	_, err = c.DownloadFile(t.Context(), bucket, "key", filepath.Join(dir, "file"), &sdk.DownloadOptions{Parallel: 1, StateFile: filepath.Join(dir, "state"),
		Progress: func(p sdk.Progress) {
			if p.Done > 9*mib && !replaced {
				replaced = true
				_, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(random(63, 40*mib)), nil)
				require.NoError(t, err)
			}
		}})
	require.ErrorIs(t, err, sdk.ErrSourceChanged)
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	require.Empty(t, names(t, dir))
}

// TestDownloadResumes: an interrupted download with a state file continues, and requests only what is missing. If the
// object has changed, it begins again.
func TestDownloadResumes(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(64, 60*mib)
	for name, algorithm := range map[string]sdk.Algorithm{"combined": sdk.CRC64NVME, "in order": sdk.SHA256} {
		o := &sdk.UploadOptions{}
		o.Checksum = algorithm
		_, err := c.Upload(t.Context(), bucket, name, bytes.NewReader(content), o)
		require.NoError(t, err)
		dir := t.TempDir()
		path, state := filepath.Join(dir, "file"), filepath.Join(dir, "state")
		interrupt := func() {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("enough")
			_, err = c.DownloadFile(ctx, bucket, name, path, &sdk.DownloadOptions{StateFile: state, Parallel: 2, Progress: func(p sdk.Progress) {
				if p.Done > 30*mib {
					cancel(cause)
				}
			}})
			require.ErrorIs(t, err, cause)
			require.NoFileExists(t, path)
			require.Len(t, names(t, dir), 2)
		}
		interrupt()
		down, err := c.DownloadFile(t.Context(), bucket, name, path, &sdk.DownloadOptions{StateFile: state})
		require.NoError(t, err)
		require.GreaterOrEqual(t, down.Resumed, int64(8*mib))
		require.LessOrEqual(t, down.BytesReceived, int64(len(content))-down.Resumed+8192)
		require.True(t, down.Verified)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		same(t, content, got)
		require.Equal(t, []string{"file"}, names(t, dir))

		// What is in the temporary file is not trusted.
		require.NoError(t, os.Remove(path))
		interrupt()
		for _, n := range names(t, dir) {
			if n != "state" {
				f, err := os.OpenFile(filepath.Join(dir, n), os.O_WRONLY, 0)
				require.NoError(t, err)
				_, err = f.WriteAt([]byte("damaged"), 100)
				require.NoError(t, err)
				require.NoError(t, f.Close())
			}
		}
		_, err = c.DownloadFile(t.Context(), bucket, name, path, &sdk.DownloadOptions{StateFile: state})
		require.NoError(t, err)
		got, err = os.ReadFile(path)
		require.NoError(t, err)
		same(t, content, got)

		require.NoError(t, os.Remove(path))
		interrupt()
		other := random(65, 50*mib)
		_, err = c.Upload(t.Context(), bucket, name, bytes.NewReader(other), nil)
		require.NoError(t, err)
		down, err = c.DownloadFile(t.Context(), bucket, name, path, &sdk.DownloadOptions{StateFile: state})
		require.NoError(t, err)
		require.Zero(t, down.Resumed)
		got, err = os.ReadFile(path)
		require.NoError(t, err)
		same(t, other, got)
		require.Equal(t, []string{"file"}, names(t, dir))
	}
}

// TestDownloadStateIsNoWeapon: a state file cannot make a download write or remove a file elsewhere.
func TestDownloadStateIsNoWeapon(t *testing.T) {
	c, bucket := newBucket(t)
	_, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(random(66, 20*mib)), nil)
	require.NoError(t, err)
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	require.NoError(t, os.WriteFile(victim, []byte("victim"), 0o600))
	state := filepath.Join(dir, "state")
	text, err := json.Marshal(map[string]any{"version": 1, "kind": "download", "endpoint": c.Endpoint(), "bucket": bucket, "key": "key",
		"part_size": 8 * mib, "algorithm": "CRC64NVME", "etag": "e", "size": 5, "temp": "../victim", "parts": []any{}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(state, text, 0o600))
	_, err = c.DownloadFile(t.Context(), bucket, "key", filepath.Join(dir, "d", "file"), &sdk.DownloadOptions{StateFile: state})
	require.ErrorIs(t, err, sdk.ErrState)
	require.FileExists(t, victim)
}

var timeZero time.Time

func rawMD5(b []byte) []byte {
	sum := md5.Sum(b)
	return sum[:]
}

func hexMD5(b []byte) string { return hex.EncodeToString(rawMD5(b)) }

// lyingServer serves one object, but what it serves is not quite it.
func lyingServer(t *testing.T, header http.Header, size int, body func(w http.ResponseWriter, from, to int)) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range header {
			w.Header()[k] = v
		}
		from, to := 0, size-1
		if span, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			a, b, _ := strings.Cut(span, "-")
			from, _ = strconv.Atoi(a)
			to, _ = strconv.Atoi(b)
			w.Header().Set("Content-Range", "bytes "+span+"/"+strconv.Itoa(size))
			w.Header().Set("Content-Length", strconv.Itoa(to-from+1))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		if r.Method != http.MethodHead {
			body(w, from, to)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestDownloadLies: damaged content never becomes a file, whichever way the server describes it.
func TestDownloadLies(t *testing.T) {
	for _, size := range []int{1000, 20 * mib} {
		content := random(67, size)
		damaged := bytes.Clone(content)
		damaged[size/2] ^= 1
		serve := func(b []byte) func(w http.ResponseWriter, from, to int) {
			return func(w http.ResponseWriter, from, to int) { _, _ = w.Write(b[from : to+1]) }
		}
		for name, h := range map[string]http.Header{
			"CRC":    {"X-Amz-Checksum-Crc64nvme": {sumOf(sdk.CRC64NVME, content)}, "Etag": {`"e"`}},
			"SHA256": {"X-Amz-Checksum-Sha256": {sumOf(sdk.SHA256, content)}, "Etag": {`"e"`}},
			"MD5":    {"Etag": {`"` + hexMD5(content) + `"`}},
		} {
			for _, lie := range []bool{false, true} {
				served := content
				if lie {
					served = damaged
				}
				c := newClient(t, lyingServer(t, h, size, serve(served)).URL)
				dir := t.TempDir()
				state := filepath.Join(dir, "state")
				down, err := c.DownloadFile(t.Context(), "bucket", "key", filepath.Join(dir, "file"), &sdk.DownloadOptions{StateFile: state})
				if lie {
					require.ErrorIs(t, err, sdk.ErrChecksum, name)
					require.Empty(t, names(t, dir))
					continue
				}
				require.NoError(t, err, name)
				require.True(t, down.Verified)
			}
		}
		c := newClient(t, lyingServer(t, http.Header{"Etag": {`"x"`}}, size, serve(content)).URL)
		down, err := c.Download(t.Context(), "bucket", "key", &buffer{}, nil)
		require.NoError(t, err)
		require.False(t, down.Verified, "there was nothing to compare with")
	}
}

// TestDownloadPartedETag: servers without checksums have ETags of parts, which verify the content if the parts have one
// size, or if the server describes each.
func TestDownloadPartedETag(t *testing.T) {
	for name, sizes := range map[string][]int{"even": {8 * mib, 8 * mib, 3 * mib}, "uneven": {5 * mib, 9 * mib, 6 * mib}} {
		var content, sums []byte
		for i, n := range sizes {
			p := random(uint64(70+i), n)
			content = append(content, p...)
			sums = append(sums, rawMD5(p)...)
		}
		etag := hexMD5(sums) + "-3"
		for _, damage := range []bool{false, true} {
			served := bytes.Clone(content)
			if damage {
				served[10*mib] ^= 1
			}
			var heads atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"`+etag+`"`)
				if n, err := strconv.Atoi(r.URL.Query().Get("partNumber")); err == nil && r.Method == http.MethodHead {
					heads.Add(1)
					w.Header().Set("Content-Length", strconv.Itoa(sizes[n-1]))
					w.WriteHeader(http.StatusPartialContent)
					return
				}
				w.Header().Del("Content-Type")
				http.ServeContent(w, r, "", timeZero, bytes.NewReader(served))
			}))
			c := newClient(t, s.URL)
			w := &buffer{}
			down, err := c.Download(t.Context(), "bucket", "key", w, &sdk.DownloadOptions{PartSize: 5 * mib})
			if damage {
				require.ErrorIs(t, err, sdk.ErrChecksum, name)
			} else {
				require.NoError(t, err, name)
				require.True(t, down.Verified, name)
				same(t, content, w.b)
			}
			require.Positive(t, heads.Load())
			s.Close()
		}
	}
}

// failingWriter fails after some bytes.
type failingWriter struct {
	buffer
	left atomic.Int64
	err  error
}

func (w *failingWriter) WriteAt(p []byte, at int64) (int, error) {
	if w.left.Add(-int64(len(p))) < 0 {
		return 0, w.err
	}
	return w.buffer.WriteAt(p, at)
}

func TestDownloadWriterFails(t *testing.T) {
	c, bucket := newBucket(t)
	for _, size := range []int{1000, 30 * mib} {
		_, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(random(68, size)), nil)
		require.NoError(t, err)
		w := &failingWriter{err: io.ErrShortWrite}
		w.left.Store(int64(size) / 2)
		_, err = c.Download(t.Context(), bucket, "key", w, nil)
		require.ErrorIs(t, err, io.ErrShortWrite)
	}
}
