package faults

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/faults/result"
	"orcas/internal/sigv4"
	"orcas/scrub"
)

// The store of TestMemory has these objects before the load. Slow readers and the scrub read them.
const storedCount, storedSize = 64, 4 << 20

// TestMemory runs a server in a control group with little memory, and loads it with everything that takes memory at the
// same time: the small writers continue until the uploads and at least one pass of the scrub have ended. The kernel must
// not kill the server, and every request must succeed.
func TestMemory(t *testing.T) {
	mib := count(t, "ORCAS_FAULTS_MEMORY", 0)
	if mib == 0 {
		t.Skip("run make faults-memory")
	}
	for _, c := range []struct {
		mib, small, uploads, readers int
	}{
		{256, 64, 64, 1000},
		{128, 16, 0, 0},
	} {
		t.Run(fmt.Sprint(c.mib, " MiB"), func(t *testing.T) {
			group := newGroup(t, int64(c.mib)<<20)
			row := result.Of(t, result.Row{
				Fault: "memory", Unit: "requests",
				Name: fmt.Sprintf("%d MiB: %d writers of 4 KiB, %d uploads, %d slow readers, and a scrub", c.mib, c.small, c.uploads, c.readers),
			})
			dir := onDrive(t)
			binary := filepath.Join(dir, "in-group")
			script := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && exec %s \"$@\"\n", group.dir, buildServer(t, ""))
			require.NoError(t, os.WriteFile(binary, []byte(script), 0o755))
			p := &Process{Binary: binary, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log"), Always: []string{"ORCAS_MIN_FREE=0"}}
			endpoint, err := p.Start(t.Context())
			require.NoError(t, err, "%s", tail(p.Log))
			t.Cleanup(func() { _ = p.Kill() })
			m := &memoryLoad{endpoint: endpoint, root: p.Credentials(), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
			defer m.http.CloseIdleConnections()
			require.NoError(t, m.put(t.Context(), "", nil, 0))

			_, err = scrubbed(t.Context(), p, 1) // the first pass of a new store starts by itself
			require.NoError(t, err)
			for i := range storedCount {
				require.NoError(t, m.put(t.Context(), fmt.Sprint("/read-", i), []byte{254, byte(i)}, storedSize))
			}
			for i := range c.readers {
				m.read(t, fmt.Sprint("/read-", i%storedCount), storedSize)
			}
			begun := time.Now()
			ended := make(chan struct{}) // closed when the uploads and a scrub have ended
			var writers, uploads loads
			for w := range c.small {
				writers.run(func() error { return m.write(t.Context(), w, ended) })
			}
			size := int64(mib) << 20
			for w := range c.uploads {
				uploads.run(func() error { return m.put(t.Context(), fmt.Sprint("/large-", w), []byte{255, byte(w)}, size) })
			}
			uploaded := make(chan struct{})
			var scrubs loads
			passes, read := 0, int64(0)
			scrubs.run(func() (err error) {
				passes, read, err = scrubUntil(t.Context(), p, uploaded)
				return err
			})
			failed := uploads.wait()
			close(uploaded)
			failed = errors.Join(failed, scrubs.wait())
			close(ended)
			require.NoError(t, errors.Join(failed, writers.wait()), "%s", tail(p.Log))
			took := time.Since(begun)
			require.Positive(t, passes)
			require.GreaterOrEqual(t, read, int64(passes*storedCount*storedSize), "the scrub must read all objects during the load")
			select {
			case <-p.Ended():
				t.Fatalf("the server was killed: %s", tail(p.Log))
			default:
			}
			require.NoError(t, m.put(t.Context(), "/last", nil, 1<<20))
			require.Zero(t, group.kills(t), "the kernel has killed a process")
			row.Tried = int(m.done.Load())
			row.Note = fmt.Sprintf("peak RSS %d MiB of %d MiB; %.0f s of load; scrub passes: %d (%d MiB)",
				peakRSS(t, p.cmd.Process.Pid)>>20, c.mib, took.Seconds(), passes, read>>20)
			t.Log(row.Note)
			m.close()
			require.NoError(t, p.Stop())
			require.Empty(t, p.Alarms())
		})
	}
}

// loads are goroutines that load a server.
type loads struct {
	running sync.WaitGroup
	mu      sync.Mutex // guards errs
	errs    []error
}

func (l *loads) run(load func() error) {
	l.running.Go(func() {
		err := load()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.errs = append(l.errs, err)
	})
}

// wait waits for all goroutines, and returns their errors.
func (l *loads) wait() error {
	l.running.Wait()
	return errors.Join(l.errs...)
}

// scrubUntil scrubs again and again until ended is closed, at least once. It returns the number of passes and the number
// of bytes that they have read. No other scrub may be running.
func scrubUntil(ctx context.Context, p *Process, ended <-chan struct{}) (passes int, read int64, err error) {
	for {
		var s scrub.Status
		if err := p.ask(ctx, http.MethodGet, "/-/admin/scrub", &s); err != nil {
			return passes, read, err
		}
		before := s.Passes
		if err := p.ask(ctx, http.MethodPost, "/-/admin/scrub?restart=true", &s); err != nil {
			return passes, read, err
		}
		if s, err = scrubbed(ctx, p, before+1); err != nil {
			return passes, read, err
		}
		passes, read = passes+1, read+s.BytesDone
		select {
		case <-ended:
			return passes, read, nil
		default:
		}
	}
}

// scrubbed waits until a number of passes of the scrub have ended since the start, and returns its status.
func scrubbed(ctx context.Context, p *Process, passes int) (s scrub.Status, err error) {
	for s.Running || s.Passes < passes {
		if err := p.ask(ctx, http.MethodGet, "/-/admin/scrub", &s); err != nil {
			return s, err
		}
		if s.Error != "" {
			return s, errors.New(s.Error)
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return s, nil
}

// memoryLoad sends requests whose bodies are not in memory.
type memoryLoad struct {
	endpoint string
	root     Credentials
	http     *http.Client
	done     atomic.Int64
	conns    []net.Conn
}

// request returns a signed request for a key of the bucket.
func (m *memoryLoad) request(ctx context.Context, method, key string, body io.Reader, size int64) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, m.endpoint+"/"+bucket+key, body)
	if err != nil {
		return nil, err
	}
	r.ContentLength = size
	signer := sigv4.Signer{AccessKey: m.root.AccessKey, SecretKey: m.root.SecretKey, Region: "us-east-1"}
	signer.Sign(r, sigv4.UnsignedPayload, time.Now())
	return r, nil
}

// noise is the content of all objects after their first bytes, again and again.
var noise = func() []byte {
	b := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}()

// put writes size bytes that begin with head, so that no two objects share content.
func (m *memoryLoad) put(ctx context.Context, key string, head []byte, size int64) error {
	parts := []io.Reader{bytes.NewReader(head)}
	for range size>>20 + 1 {
		parts = append(parts, bytes.NewReader(noise))
	}
	r, err := m.request(ctx, http.MethodPut, key, io.LimitReader(io.MultiReader(parts...), size), size)
	if err != nil {
		return err
	}
	if size == 0 {
		r.Body = http.NoBody
	}
	response, err := m.http.Do(r)
	if err != nil {
		return fmt.Errorf("PUT %s: %w", key, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("PUT %s: status %d: %s", key, response.StatusCode, text)
	}
	m.done.Add(1)
	return err
}

// write writes small objects until ended is closed, at least 100.
func (m *memoryLoad) write(ctx context.Context, writer int, ended <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-ended:
			if i >= 100 {
				return nil
			}
		default:
		}
		head := []byte{byte(writer), byte(i >> 16), byte(i >> 8), byte(i)}
		if err := m.put(ctx, fmt.Sprintf("/small-%d-%d", writer, i), head, 4096); err != nil {
			return err
		}
	}
}

// read requests an object, and reads only the head of the response.
func (m *memoryLoad) read(t *testing.T, key string, size int64) {
	t.Helper()
	address, err := url.Parse(m.endpoint)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", address.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	m.conns = append(m.conns, conn)
	r, err := m.request(t.Context(), http.MethodGet, key, nil, 0)
	require.NoError(t, err)
	require.NoError(t, r.Write(conn))
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, size, response.ContentLength)
	m.done.Add(1)
}

// close disconnects all readers.
func (m *memoryLoad) close() {
	for _, c := range m.conns {
		_ = c.Close()
	}
}

// onDrive returns an empty directory that is not in memory, since such files would count for the control group.
func onDrive(t *testing.T) string {
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(".", &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		t.Skip("NOT TESTED: the source code is on a file system in memory")
	}
	dir, err := os.MkdirTemp(".", "memory-test-")
	require.NoError(t, err)
	dir, err = filepath.Abs(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// group is a control group with a limit on memory.
type group struct {
	dir   string
	event string // the file that counts the processes that the kernel has killed
}

// newGroup creates a control group of version 1, below the one of this process, or of version 2.
func newGroup(t *testing.T, limit int64) *group {
	t.Helper()
	g, err := makeGroup(limit)
	if err != nil {
		cannot(t, fmt.Sprintf("a control group with a limit cannot be created: %v", err))
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return errors.Is(os.Remove(g.dir), nil) }, time.Minute, 10*time.Millisecond)
	})
	return g
}

func makeGroup(limit int64) (*group, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	failed := errors.New("no control groups are mounted")
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		g, file := &group{event: "memory.oom_control"}, "memory.limit_in_bytes"
		switch {
		case len(f) == 3 && f[1] == "memory":
			g.dir = filepath.Join("/sys/fs/cgroup/memory", f[2])
		case len(f) == 3 && f[0] == "0": // only a group without processes can have groups with limits: the root is the exception
			g.dir, g.event, file = "/sys/fs/cgroup", "memory.events", "memory.max"
		default:
			continue
		}
		g.dir = filepath.Join(g.dir, fmt.Sprint("orcas-", os.Getpid()))
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			failed = err
			continue
		}
		if err := os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
			failed = errors.Join(err, os.Remove(g.dir))
			continue
		}
		return g, nil
	}
	return nil, failed
}

// kills returns how many processes of the group the kernel has killed for lack of memory.
func (g *group) kills(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, g.event))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			kills, err := strconv.Atoi(n)
			require.NoError(t, err)
			return kills
		}
	}
	return 0 // an old kernel does not count them, but the server has not ended
}

// peakRSS returns the largest resident memory of a process so far, in bytes.
func peakRSS(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(n), " kB"), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
