package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/gate"
)

// records returns the records in files, in order.
func records(t *testing.T, names ...string) (list []Record) {
	t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			var r Record
			d := json.NewDecoder(strings.NewReader(line))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(&r), "%s: %q", name, line)
			list = append(list, r)
		}
	}
	return list
}

// put returns the event of a PutObject.
func put(key string) *gate.Event {
	return &gate.Event{
		ID: "id-" + key, Operation: "PutObject", Effect: gate.Write, Method: "PUT", Bucket: "bucket", Key: key, Status: 200,
		Remote: "192.0.2.1:7", AccessKey: "AKIA", In: 5, Start: time.Unix(0, 0), Took: time.Second, Version: "v", UserAgent: "agent",
		Principal: &auth.Principal{Account: "111122223333", ARN: "arn:aws:iam::111122223333:user/alice", Session: "s"},
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, time.Minute, time.Millisecond, what)
}

// TestRecord: a record has every field of the event, and reads are not recorded.
func TestRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	l, err := New(Options{File: name})
	require.NoError(t, err)
	s3, iam := l.For("s3"), l.For("iam")
	s3.Observe(t.Context(), put("a \"key\"\n\xff"))
	s3.Observe(t.Context(), &gate.Event{Operation: "GetObject", Effect: gate.Read, Method: "GET"})
	s3.Observe(t.Context(), &gate.Event{Method: "PUT", Status: 503, Code: "SlowDown"})
	iam.Observe(t.Context(), &gate.Event{Method: "POST", Status: 403, Code: "AccessDenied", Reason: gate.Authorization, Target: "UserName=alice", Principal: auth.Anonymous})
	several := put("")
	several.Items = []gate.Item{{Key: "one"}, {Key: "two", Version: "w", Code: "AccessDenied"}}
	s3.Observe(t.Context(), several)
	begun := put("")
	begun.Items = []gate.Item{{Target: "name=alice"}, {Target: "name=web", Bucket: "web"}}
	l.RecordStart(t.Context(), begun)
	long := put(strings.Repeat("ä", 2000))
	s3.Observe(t.Context(), long)
	l.Close()
	got := records(t, name)
	require.Len(t, got, 9)
	require.Equal(t, []string{"", "one", "two"}, []string{got[2].Key, got[3].Key, got[4].Key})
	require.Equal(t, []string{"v", "", "w", "", "", "AccessDenied"},
		[]string{got[2].Version, got[3].Version, got[4].Version, got[2].Code, got[3].Code, got[4].Code})
	require.Equal(t, Record{
		Time: time.Unix(1, 0).UTC(), ID: "id-a \"key\"\n\ufffd", API: "s3", Operation: "PutObject", Effect: "write", Method: "PUT",
		Principal: "arn:aws:iam::111122223333:user/alice", Account: "111122223333", AccessKey: "AKIA", Session: "s", Bucket: "bucket",
		Key: "a \"key\"\n\ufffd", Version: "v", Address: "192.0.2.1:7", UserAgent: "agent", Status: 200, In: 5, Took: 1_000_000,
	}, got[0])
	require.Equal(t, "unknown", got[1].Effect)
	require.Equal(t, "iam", got[1].API)
	require.Empty(t, got[1].Principal)
	require.Equal(t, 403, got[1].Status)
	require.Equal(t, "UserName=alice", got[1].Target)
	require.Equal(t, []string{"", "authorization", "", "", "authorization", ""},
		[]string{got[0].Reason, got[1].Reason, got[2].Reason, got[3].Reason, got[4].Reason, got[5].Reason})
	for i, want := range [][]string{{"bucket", ""}, {"bucket", "name=alice"}, {"web", "name=web"}} {
		require.Equal(t, want, []string{got[5+i].Bucket, got[5+i].Target})
	}
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, 6, strings.Count(string(text), `"status":`), "what happens at the start has no status")
	require.Equal(t, 6, strings.Count(string(text), `"in":`))
	require.True(t, got[8].Cut)
	require.Equal(t, strings.Repeat("ä", 512)+"...", got[8].Key)
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestRotation: no record is lost or torn by a rotation, and only so many files are kept.
func TestRotation(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	l, err := New(Options{File: name, FileSize: 2000, Keep: 2})
	require.NoError(t, err)
	o := l.For("s3")
	const n = 40
	for i := range n {
		o.Observe(t.Context(), put(fmt.Sprint(i)))
	}
	l.Close()
	require.NoFileExists(t, name+".3")
	got := records(t, name+".2", name+".1", name)
	require.NotEmpty(t, got)
	require.Less(t, len(got), n, "the oldest files are gone")
	for i, r := range got {
		require.Equal(t, fmt.Sprint(n-len(got)+i), r.Key)
	}
	for _, f := range []string{name + ".2", name + ".1", name} {
		info, err := os.Stat(f)
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(2000))
	}
}

// TestRotationFails: records go to the present file as long as it cannot be replaced.
func TestRotationFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.MkdirAll(filepath.Join(name+".1", "not empty"), 0o700)) // cannot be replaced by a file
	var log bytes.Buffer
	l, err := New(Options{File: name, FileSize: 1000, Keep: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	for i := range 20 {
		l.For("s3").Observe(t.Context(), put(fmt.Sprint(i)))
	}
	l.Close()
	require.Len(t, records(t, name), 20)
	f, err := openFile(Options{File: name, FileSize: 1000, Keep: 1})
	require.NoError(t, err)
	f.now = time.Now
	_, err = f.write(t.Context(), []byte("{}\n"))
	require.ErrorContains(t, err, "rotation")
	require.Len(t, records(t, name), 21)
}

// TestFailedRotations: rotations that fail again and again, because no new file can be opened, keep the rotated files.
func TestFailedRotations(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	f, err := openFile(Options{File: name, FileSize: 1000, Keep: 3})
	require.NoError(t, err)
	defer f.close()
	for i := range 4 {
		require.NoError(t, os.WriteFile(f.numbered(i), []byte(fmt.Sprint(i)), 0o600))
	}
	for range 5 { // the file is renamed the first time, and none replaces it
		require.NoError(t, f.shift())
	}
	require.NoFileExists(t, name)
	for i := range 3 {
		text, err := os.ReadFile(f.numbered(i + 1))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(text))
	}
}

// TestFileRemoved: records wait while the file is gone and cannot be created again.
func TestFileRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, os.Mkdir(dir, 0o700))
	name := filepath.Join(dir, "audit.log")
	f, err := openFile(Options{File: name, FileSize: 1 << 20, Keep: 1})
	require.NoError(t, err)
	defer f.close()
	require.NoError(t, os.RemoveAll(dir))
	n, err := f.write(t.Context(), []byte("{}\n"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Zero(t, n)
	require.NoError(t, os.Mkdir(dir, 0o700))
	n, err = f.write(t.Context(), []byte("{}\n"))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Len(t, records(t, name), 1)
}

// TestFileMoved: if the file is renamed or removed, a new one is begun.
func TestFileMoved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	f, err := openFile(Options{File: name, FileSize: 1 << 20, Keep: 1})
	require.NoError(t, err)
	defer f.close()
	for i, change := range []func() error{
		func() error { return os.Rename(name, name+".moved") }, func() error { return os.Remove(name) },
	} {
		n, err := f.write(t.Context(), []byte("{}\n"))
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.NoError(t, change())
		_, err = f.write(t.Context(), []byte("{}\n{}\n"))
		require.NoError(t, err)
		require.Len(t, records(t, name), 2, i)
		require.NoError(t, os.Remove(name))
	}
}

// TestTornLine: a line that a crash has cut off stays a line of its own.
func TestTornLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.WriteFile(name, []byte(`{"id":`), 0o600))
	l, err := New(Options{File: name})
	require.NoError(t, err)
	l.For("s3").Observe(t.Context(), put("a"))
	l.Close()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(text, []byte("\n")))
	require.True(t, bytes.HasPrefix(text, []byte("{\"id\":\n{\"time\"")), "%s", text)
}

// TestWrongFile: a file that cannot be opened is an error at startup.
func TestWrongFile(t *testing.T) {
	dir := t.TempDir()
	_, err := New(Options{File: filepath.Join(dir, "none", "audit.log")})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = New(Options{File: dir})
	require.Error(t, err)
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err = New(Options{File: pipe})
	require.ErrorContains(t, err, "not a regular file")
	_, err = New(Options{})
	require.ErrorContains(t, err, "expected a file or a URL")
}

// failing is a target that fails while it has an error.
type failing struct {
	mu   sync.Mutex // guards the fields below
	err  error
	got  []byte
	took int // bytes that it writes before it fails
}

func (f *failing) write(_ context.Context, records []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		n := min(f.took, len(records))
		f.took -= n
		f.got = append(f.got, records[:n]...)
		return n, f.err
	}
	f.got = append(f.got, records...)
	return len(records), nil
}

func (f *failing) close() {}

// TestFailure: while a sink fails, records wait, then are dropped and counted, and requests never wait. Afterwards the
// records that waited are written, in order and once.
func TestFailure(t *testing.T) {
	to := &failing{err: errors.New("no space left on device"), took: 10}
	var mu sync.Mutex
	var log bytes.Buffer
	handler := slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil)
	s := newSink("file", "audit.log", to, Options{Logger: slog.New(handler), Now: time.Now})
	s.queue = newQueue(100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx)
	}()
	for i := range 30 {
		s.queue.push(fmt.Appendf(nil, "line %04d\n", i))
		if i == 0 {
			eventually(t, "the first is taken", func() bool { to.mu.Lock(); defer to.mu.Unlock(); return to.took == 0 })
			eventually(t, "and released", func() bool { s.queue.mu.Lock(); defer s.queue.mu.Unlock(); return s.queue.held == 0 })
		}
	}
	require.EqualValues(t, 19, s.queue.dropped.Load())
	eventually(t, "the failure is known", func() bool { f, _ := s.failing.Load().(failure); return f.error != nil })
	to.mu.Lock()
	to.err = nil
	to.mu.Unlock()
	eventually(t, "the rest is written", func() bool { to.mu.Lock(); defer to.mu.Unlock(); return len(to.got) == 110 })
	cancel()
	<-done
	for i := range 11 {
		require.Equal(t, fmt.Sprintf("line %04d\n", i), string(to.got[i*10:i*10+10]))
	}
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, log.String(), "no space left on device")
	require.Contains(t, log.String(), "can be written again")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestReport: a line about a failure has the number of records that were dropped since the previous line, and in total.
func TestReport(t *testing.T) {
	var log bytes.Buffer
	now := time.Now()
	s := newSink("file", "audit.log", nil, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }})
	for _, c := range []struct {
		dropped int64
		err     error
		want    string
	}{
		{0, errors.New("full"), "are still served, and up to 8 MiB of their records wait in memory\" target=audit.log err=full dropped=0 dropped_total=0"},
		{5, errors.New("full"), "err=full dropped=5 dropped_total=5"},
		{2, errors.New("full"), "err=full dropped=2 dropped_total=7"},
		{0, errors.New("full"), "err=full dropped=0 dropped_total=7"},
		{1, nil, "can be written again\" target=audit.log dropped=1 dropped_total=8"},
		{0, nil, ""},
		{3, nil, "faster than it could be written\" target=audit.log dropped=3 dropped_total=11"},
	} {
		s.queue.dropped.Add(c.dropped)
		log.Reset()
		s.report(c.err)
		require.Contains(t, log.String(), c.want)
		require.Equal(t, c.want == "", log.Len() == 0, log.String())
		now = now.Add(complainEvery)
	}
}

// TestFailureAtTheEnd: what a failing sink has not written at the end is counted as dropped, and one line says so.
func TestFailureAtTheEnd(t *testing.T) {
	var log bytes.Buffer
	s := newSink("file", "audit.log", &failing{err: errors.New("broken")}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		s.queue.push([]byte("line\n"))
	}
	s.run(ctx)
	require.EqualValues(t, 3, s.queue.dropped.Load())
	require.Contains(t, log.String(), "the server stops, and the records that waited in memory are lost\" target=audit.log err=broken dropped=3 dropped_total=3")
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
}

// TestWebhook: records arrive in batches with the token, are sent again after a failure, and never follow a redirect.
func TestWebhook(t *testing.T) {
	token := func() (string, error) { return "secret-token", nil }
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	var mu sync.Mutex
	var got []byte
	calls := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if calls == 1 {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		if r.Header.Get("Authorization") != "Bearer secret-token" || r.Method != http.MethodPost {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		body, _ := io.ReadAll(r.Body)
		got = append(got, body...)
	}))
	defer receiver.Close()
	l, err := New(Options{URL: receiver.URL + "/hook", Token: token})
	require.NoError(t, err)
	for i := range 10 {
		l.For("s3").Observe(t.Context(), put(fmt.Sprint(i)))
	}
	eventually(t, "all records arrive", func() bool { mu.Lock(); defer mu.Unlock(); return bytes.Count(got, []byte("\n")) == 10 })
	l.Close()
	l.Dropped(func(sink string, n int64) {
		require.Equal(t, "webhook", sink)
		require.Zero(t, n)
	})
	for i, line := range strings.Split(strings.TrimSpace(string(got)), "\n") {
		require.Contains(t, line, fmt.Sprintf(`"key":"%d"`, i))
	}
}

// TestWebhookErrors: an error says what is wrong, and contains neither the token nor the path of the URL.
func TestWebhookErrors(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer receiver.Close()
	w := newWebhook(Options{URL: receiver.URL + "/path-secret"})
	_, err := w.write(t.Context(), []byte("{}\n"))
	require.ErrorContains(t, err, "401")
	receiver.Close()
	_, err = w.write(t.Context(), []byte("{}\n"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "path-secret")
	w.token = func() (string, error) { return "", errors.New("no file") }
	_, err = w.write(t.Context(), []byte("{}\n"))
	require.EqualError(t, err, "the token cannot be read: no file")
	require.Equal(t, "https://host", redacted("https://host/secret?token=x"))
}

// TestCheckURL: only URLs that keep records secret are accepted.
func TestCheckURL(t *testing.T) {
	for _, u := range []string{"https://audit.example.com/x", "http://127.0.0.1:8000", "http://localhost/x", "http://[::1]/"} {
		require.NoError(t, CheckURL(u), u)
	}
	for _, u := range []string{"", "audit", "ftp://host", "http://audit.example.com", "https://user:secret@host/", "https://", "https://h/#f", "http://\x7f"} {
		err := CheckURL(u)
		require.Error(t, err, u)
		require.NotContains(t, err.Error(), "secret")
	}
}

// TestFullDrive: on a full drive complete records remain, requests do not wait, and dropped records are counted.
func TestFullDrive(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("mounting a file system requires root:", err)
	}
	defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	name := filepath.Join(dir, "audit.log")
	l, err := New(Options{File: name})
	require.NoError(t, err)
	l.sinks[0].queue.max = 128 << 10 // no goroutine uses it yet
	o := l.For("s3")
	for i := range 1000 {
		o.Observe(t.Context(), put(fmt.Sprint(i)))
	}
	eventually(t, "the failure is known", func() bool { return len(l.Failures()) == 1 })
	require.Contains(t, l.Failures()[0].Problem, "no space left on device")
	l.Close()
	var dropped int64
	l.Dropped(func(_ string, n int64) { dropped = n })
	got := records(t, name)
	require.NotEmpty(t, got)
	require.EqualValues(t, 1000, int64(len(got))+dropped)
}

// BenchmarkObserve measures what a recorded request costs.
func BenchmarkObserve(b *testing.B) {
	l, err := New(Options{File: filepath.Join(b.TempDir(), "audit.log")})
	require.NoError(b, err)
	defer l.Close()
	o, e := l.For("s3"), put("photos/2026/11/23/0001.jpg")
	b.ReportAllocs()
	for b.Loop() {
		o.Observe(b.Context(), e)
	}
}
