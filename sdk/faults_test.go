package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// cutter is a proxy that passes bytes on until its limit, and then closes all connections. It counts what it passes on.
type cutter struct {
	target   string
	listener net.Listener
	left     atomic.Int64 // bytes until the cut, in both directions; it never cuts if negative
	armed    atomic.Bool
	passed   atomic.Int64 // bytes in both directions
	cuts     atomic.Int64
	onCut    func() // called before the connections are closed, if not nil

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
	wg    sync.WaitGroup
}

func newCutter(t testing.TB, target string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &cutter{target: strings.TrimPrefix(target, "http://"), listener: l, conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.closeAll()
		p.wg.Wait()
	})
	return p
}

func (p *cutter) url() string { return "http://" + p.listener.Addr().String() }

// cutAfter arms the proxy: it cuts once, after n bytes.
func (p *cutter) cutAfter(n int64) {
	p.left.Store(n)
	p.armed.Store(true)
}

func (p *cutter) track(c net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
	}
}

func (p *cutter) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.track(client, true)
	defer p.track(client, false)
	var wg sync.WaitGroup
	wg.Go(func() { p.pass(server, client); server.Close() })
	wg.Go(func() { p.pass(client, server); client.Close() })
	wg.Wait()
}

func (p *cutter) pass(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if p.armed.Load() {
			if left := p.left.Add(-int64(n)); left < 0 && p.armed.CompareAndSwap(true, false) {
				n = max(0, n+int(left))
				_, _ = to.Write(buf[:n])
				p.cuts.Add(1)
				if p.onCut != nil {
					p.onCut()
				}
				p.closeAll()
				return
			}
		}
		p.passed.Add(int64(n))
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// patient are retries for servers that are away for a while.
var patient = sdk.Retry{Attempts: 1000, DelayMin: time.Millisecond, DelayMax: 20 * time.Millisecond, Budget: 1 << 30}

// TestCutTransfers cuts 100 transfers at a random byte. With retries they go on by themselves; without, they fail and are
// resumed from their state file. Nothing beyond the parts that were in flight is sent or received twice.
func TestCutTransfers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	direct, bucket := newBucket(t)
	p := newCutter(t, shared)
	content := random(80, 17*mib)
	path := file(t, content)
	size, part, workers := int64(len(content)), int64(5*mib), 2
	bound := size + int64(workers)*part + 64<<10
	_, err := direct.UploadFile(t.Context(), bucket, "down", path, nil)
	require.NoError(t, err)
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	for i := range rounds {
		retries := sdk.Retry{Attempts: 1}
		if i%4 < 2 {
			retries = patient
		}
		c := newClient(t, p.url(), func(c *sdk.Config) { c.Retry = retries })
		dir := t.TempDir()
		target, state := filepath.Join(dir, "file"), filepath.Join(dir, "state")
		transfer := func() (*sdk.Transferred, error) {
			if i%2 == 0 {
				return c.UploadFile(t.Context(), bucket, "up", path, &sdk.UploadOptions{PartSize: part, Parallel: workers, StateFile: state})
			}
			return c.DownloadFile(t.Context(), bucket, "down", target, &sdk.DownloadOptions{PartSize: part, Parallel: workers, StateFile: state})
		}
		at := r.Int64N(size)
		p.cutAfter(at)
		res, err := transfer()
		moved := res.BytesSent + res.BytesReceived
		if retries.Attempts == 1 {
			require.ErrorIs(t, err, sdk.ErrNetwork, "cut %d at %d", i, at)
			require.NoFileExists(t, target)
			res, err = transfer()
			moved += res.BytesSent + res.BytesReceived
		}
		require.NoError(t, err, "cut %d at %d", i, at)
		require.LessOrEqual(t, moved, bound, "cut %d at %d", i, at)
		require.Equal(t, int64(i+1), p.cuts.Load())
		if i%2 == 0 {
			same(t, content, read(t, direct, bucket, "up"))
			_, err := direct.Delete(t.Context(), bucket, "up", nil)
			require.NoError(t, err)
		} else {
			got, err := os.ReadFile(target)
			require.NoError(t, err)
			same(t, content, got)
		}
		require.NoFileExists(t, state)
		c.Close()
	}
}

// TestServerRestarts restarts the server during transfers, which wait for it and complete.
func TestServerRestarts(t *testing.T) {
	dir := t.TempDir()
	s, stop, err := open(dir, false, "ORCAS_BUCKETS=bucket")
	require.NoError(t, err)
	target := &swap{}
	target.set(s.Endpoint())
	proxy := httptest.NewServer(target)
	defer proxy.Close()
	c := newClient(t, proxy.URL, func(c *sdk.Config) { c.Retry = patient })
	content := random(81, 60*mib)
	path := file(t, content)
	restart := func() {
		target.set("")
		stop()
		s, stop, err = open(dir, false)
		require.NoError(t, err)
		target.set(s.Endpoint())
	}
	defer func() { stop() }()
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	for i := range rounds {
		var restarts sync.WaitGroup
		once := func(p sdk.Progress, after *atomic.Bool) {
			if p.Done > int64(i+1)*5*mib && after.CompareAndSwap(false, true) {
				restarts.Go(restart)
			}
		}
		var up, down atomic.Bool
		key := fmt.Sprint(i)
		_, err := c.UploadFile(t.Context(), "bucket", key, path, &sdk.UploadOptions{Progress: func(p sdk.Progress) { once(p, &up) }})
		require.NoError(t, err)
		restarts.Wait()
		w := &buffer{}
		res, err := c.Download(t.Context(), "bucket", key, w, &sdk.DownloadOptions{Progress: func(p sdk.Progress) { once(p, &down) }})
		require.NoError(t, err)
		restarts.Wait()
		require.True(t, up.Load() && down.Load(), "the server was restarted")
		require.True(t, res.Verified)
		same(t, content, w.b)
	}
}

// swap passes requests on to a server that comes and goes.
type swap struct{ target atomic.Value }

func (s *swap) set(endpoint string) { s.target.Store(strings.TrimPrefix(endpoint, "http://")) }

func (s *swap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := s.target.Load().(string)
	if host == "" {
		panic(http.ErrAbortHandler)
	}
	r.URL.Scheme, r.URL.Host, r.RequestURI = "http", host, ""
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	for k, v := range res.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// TestUploadLies: a server that stores something else than what was sent is found out.
func TestUploadLies(t *testing.T) {
	direct, bucket := newBucket(t)
	content := random(82, 20*mib)
	for name, lie := range map[string]func(r *http.Request, h http.Header, body []byte) []byte{
		"part": func(r *http.Request, h http.Header, body []byte) []byte {
			if r.URL.Query().Has("partNumber") {
				h.Set("X-Amz-Checksum-Crc64nvme", "AAAAAAAAAAA=")
			}
			return body
		},
		"object": func(r *http.Request, _ http.Header, body []byte) []byte {
			if bytes.Contains(body, []byte("<CompleteMultipartUploadResult")) {
				return bytes.ReplaceAll(body, []byte(sumOf(sdk.CRC64NVME, content)), []byte("AAAAAAAAAAA="))
			}
			return body
		},
		"late error": func(r *http.Request, _ http.Header, body []byte) []byte {
			if bytes.Contains(body, []byte("<CompleteMultipartUploadResult")) {
				return []byte(`<?xml version="1.0"?> <Error><Code>BadDigest</Code></Error>`)
			}
			return body
		},
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Scheme, r.URL.Host, r.RequestURI = "http", strings.TrimPrefix(shared, "http://"), ""
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			for k, v := range res.Header {
				w.Header()[k] = v
			}
			w.Header().Del("Content-Length")
			body = lie(r, w.Header(), body)
			w.WriteHeader(res.StatusCode)
			_, _ = w.Write(body)
		}))
		c := newClient(t, proxy.URL)
		_, err := c.Upload(t.Context(), bucket, name, bytes.NewReader(content), nil)
		require.ErrorIs(t, err, sdk.ErrChecksum, name)
		require.Empty(t, uploads(t, direct, bucket), name)
		proxy.Close()
	}
}

// TestUploadDamagedOnTheWay: bytes that change between client and server are sent again.
func TestUploadDamagedOnTheWay(t *testing.T) {
	direct, bucket := newBucket(t)
	content := random(83, 20*mib)
	var damaged atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Query().Get("partNumber") == "2" && damaged.CompareAndSwap(false, true) {
			body[100] ^= 1
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		target := &swap{}
		target.set(shared)
		target.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	c := newClient(t, proxy.URL)
	res, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(content), nil)
	require.NoError(t, err)
	require.True(t, damaged.Load())
	require.GreaterOrEqual(t, res.BytesSent, int64(len(content)+8*mib), "one part was sent twice")
	same(t, content, read(t, direct, bucket, "key"))
}

// TestUploadState: a state file of a changed source, of other options or of an upload that is gone leads to a new upload,
// and the old one is removed.
func TestUploadState(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(84, 30*mib)
	path := file(t, content)
	state := filepath.Join(t.TempDir(), "state")
	interrupt := func() {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		_, err := c.UploadFile(ctx, bucket, "key", path, &sdk.UploadOptions{StateFile: state, Parallel: 1, Progress: func(p sdk.Progress) {
			if p.Done > 20*mib {
				cancel(cause)
			}
		}})
		require.ErrorIs(t, err, cause)
		require.FileExists(t, state)
		require.Len(t, uploads(t, c, bucket), 1)
	}
	again := func(resumed bool, o *sdk.UploadOptions) {
		t.Helper()
		o.StateFile = state
		res, err := c.UploadFile(t.Context(), bucket, "key", path, o)
		require.NoError(t, err)
		require.Equal(t, resumed, res.Resumed > 0)
		if resumed {
			require.Equal(t, int64(16*mib), res.Resumed)
		}
		require.Empty(t, uploads(t, c, bucket))
		require.NoFileExists(t, state)
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		same(t, now, read(t, c, bucket, "key"))
	}
	interrupt()
	again(true, &sdk.UploadOptions{})

	interrupt()
	content[5] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	again(false, &sdk.UploadOptions{})

	interrupt()
	o := &sdk.UploadOptions{}
	o.ContentType = "text/other"
	again(false, o)

	interrupt()
	again(false, &sdk.UploadOptions{PartSize: 6 * mib})

	interrupt()
	for _, u := range uploads(t, c, bucket) {
		require.NoError(t, c.AbortUpload(t.Context(), bucket, u.Key, u.UploadID))
	}
	again(false, &sdk.UploadOptions{})

	interrupt()
	require.NoError(t, os.WriteFile(path, content[:100], 0o600))
	again(false, &sdk.UploadOptions{})

	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NoError(t, os.WriteFile(state, []byte("Dear Sir"), 0o600))
	_, err := c.UploadFile(t.Context(), bucket, "key", path, &sdk.UploadOptions{StateFile: state})
	require.ErrorIs(t, err, sdk.ErrState)
	require.NoError(t, os.Remove(state))
	_, err = c.UploadFile(t.Context(), bucket, "key", path, &sdk.UploadOptions{StateFile: filepath.Join(state, "below", "nothing")})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Empty(t, uploads(t, c, bucket), "an upload that cannot be recorded is removed")
}

// TestUploadLostCompletion: the response to the end of an upload is lost. With retries the upload succeeds; without, the
// state file leads to the object, and nothing is sent again.
func TestUploadLostCompletion(t *testing.T) {
	direct, bucket := newBucket(t)
	content := random(85, 20*mib)
	path := file(t, content)
	for _, attempts := range []int{1, 3} {
		var lost atomic.Bool
		forgets := attempts == 3 // and the server does not remember the upload
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ends := r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
			if ends && lost.Load() && forgets {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, "<Error><Code>NoSuchUpload</Code></Error>")
				return
			}
			target := &swap{}
			target.set(shared)
			if ends && lost.CompareAndSwap(false, true) {
				target.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			target.ServeHTTP(w, r)
		}))
		c := newClient(t, proxy.URL, func(c *sdk.Config) { c.Retry.Attempts = attempts })
		key, state := fmt.Sprint(attempts), filepath.Join(t.TempDir(), "state")
		res, err := c.UploadFile(t.Context(), bucket, key, path, &sdk.UploadOptions{StateFile: state})
		if attempts == 1 {
			require.ErrorIs(t, err, sdk.ErrNetwork)
			res, err = c.UploadFile(t.Context(), bucket, key, path, &sdk.UploadOptions{StateFile: state})
			require.NoError(t, err)
			require.Less(t, res.BytesSent, int64(1000))
			require.Equal(t, int64(len(content)), res.Resumed)
		}
		require.NoError(t, err)
		require.True(t, lost.Load())
		require.True(t, strings.HasSuffix(res.ETag, "-3"))
		same(t, content, read(t, direct, bucket, key))
		require.NoFileExists(t, state)
		proxy.Close()
	}
}

// TestProgressOfRetries: what has to be sent again does not count as done twice.
func TestProgressOfRetries(t *testing.T) {
	_, bucket := newBucket(t)
	var refused, accepted atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("partNumber") == "1" {
			body, _ := io.ReadAll(r.Body)
			if refused.CompareAndSwap(false, true) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			accepted.Store(true)
		}
		target := &swap{}
		target.set(shared)
		target.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	c := newClient(t, proxy.URL)
	p := &progress{t: t}
	res, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(random(86, 20*mib)), &sdk.UploadOptions{Parallel: 1, Progress: func(now sdk.Progress) {
		p.report(now)
		if !accepted.Load() {
			require.LessOrEqual(t, now.Done, int64(8*mib))
		}
	}})
	require.NoError(t, err)
	require.True(t, refused.Load())
	require.GreaterOrEqual(t, res.BytesSent, int64(28*mib))
	require.Equal(t, int64(20*mib), p.last.Done)
	require.Equal(t, res.BytesSent, p.last.Sent)
}

// TestKilledClient kills another process during uploads and downloads, and starts it again until it succeeds. Nothing
// beyond the part in flight is sent twice.
func TestKilledClient(t *testing.T) {
	if job := os.Getenv("ORCAS_TEST_TRANSFER"); job != "" {
		runJob(t, strings.Split(job, "|"))
		return
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	direct, bucket := newBucket(t)
	content := random(87, 30*mib)
	path := file(t, content)
	size, kills := int64(len(content)), 50
	if testing.Short() {
		kills = 6
	}
	_, err := direct.UploadFile(t.Context(), bucket, "down", path, nil)
	require.NoError(t, err)
	for n := 0; n < kills; n += 2 {
		dir := t.TempDir()
		target := filepath.Join(dir, "file")
		job := []string{"up", "", bucket, "up", path, filepath.Join(dir, "state")}
		if n%4 == 0 {
			job = []string{"down", "", bucket, "down", target, filepath.Join(dir, "state")}
		}
		p := newCutter(t, shared)
		job[1] = p.url()
		var running atomic.Pointer[exec.Cmd]
		p.onCut = func() { _ = running.Load().Process.Kill() }
		for attempt := range 3 { // killed twice
			cmd := exec.Command(os.Args[0], "-test.run=^TestKilledClient$")
			cmd.Env = append(os.Environ(), "ORCAS_TEST_TRANSFER="+strings.Join(job, "|"))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			require.NoError(t, cmd.Start())
			running.Store(cmd)
			if attempt < 2 {
				p.cutAfter(r.Int64N(2*size/5) + 1000)
			}
			err := cmd.Wait()
			require.Equal(t, attempt < 2, err != nil, "seed %d, kill %d: %s", seed, n, &out)
		}
		moved := p.passed.Load()
		if job[0] == "up" {
			same(t, content, read(t, direct, bucket, "up"))
			_, err = direct.Delete(t.Context(), bucket, "up", nil)
			require.NoError(t, err)
		} else {
			got, err := os.ReadFile(target)
			require.NoError(t, err)
			same(t, content, got)
			require.Equal(t, []string{"file"}, names(t, dir))
		}
		// Each kill loses the part in flight. A download also loses what it had not recorded yet, of the last second.
		if job[0] == "up" {
			require.LessOrEqual(t, moved, size+2*5*mib+256<<10, "seed %d, kill %d", seed, n)
		}
	}
}

// runJob is the process that is killed.
func runJob(t *testing.T, job []string) {
	c := newClient(t, job[1])
	var err error
	if job[0] == "up" {
		_, err = c.UploadFile(t.Context(), job[2], job[3], job[4], &sdk.UploadOptions{StateFile: job[5], PartSize: 5 * mib, Parallel: 1})
	} else {
		_, err = c.DownloadFile(t.Context(), job[2], job[3], job[4], &sdk.DownloadOptions{StateFile: job[5], PartSize: 5 * mib, Parallel: 1})
	}
	require.NoError(t, err)
}
