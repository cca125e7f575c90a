package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/core"
	"orcas/internal/sigv4"
	"orcas/survey"
)

// streamed is an open response of JSON documents.
type streamed struct {
	t         *testing.T
	response  *http.Response
	documents *json.Decoder
}

// stream sends a request to the admin listener, whose response does not end.
func stream(t *testing.T, s *Server, access, secret, path string) *streamed {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.AdminAddress()+path, nil)
	require.NoError(t, err)
	signer := sigv4.Signer{AccessKey: access, SecretKey: secret, Region: "us-east-1"}
	signer.Sign(r, sigv4.EmptySHA256, time.Now())
	response, err := httpClient(t, s).Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, 200, response.StatusCode)
	return &streamed{t, response, json.NewDecoder(response.Body)}
}

// next decodes the next document.
func (s *streamed) next(to any) {
	s.t.Helper()
	require.NoError(s.t, s.documents.Decode(to))
}

// key is an access key of a user or a program, as the admin API returns it.
type key struct {
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
}

// watcher creates a user who may watch requests, and returns an access key of that user.
func watcher(t *testing.T, s *Server, name string, actions string) (k key) {
	t.Helper()
	root := s.Credentials().SecretKey
	do := func(method, path, body string) []byte {
		status, text := askBody(t, s, root, method, path, body)
		require.Equal(t, 200, status, "%s", text)
		return text
	}
	do("POST", "/-/admin/user?name="+name, "")
	require.NoError(t, json.Unmarshal(do("POST", "/-/admin/user/key?name="+name, ""), &k))
	document := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":` + actions + `,"Resource":"*"}]}`
	do("POST", "/-/admin/policy?name="+name, document)
	do("POST", "/-/admin/policy/attach?attached=true&policy="+name+"&user="+name, "")
	return k
}

// bodyHash returns the SHA-256 of a body in hexadecimal.
func bodyHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// askBody is ask for a request with a body.
func askBody(t *testing.T, s *Server, secret, method, path, body string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.AdminAddress()+path, strings.NewReader(body))
	require.NoError(t, err)
	signer := sigv4.Signer{AccessKey: s.Credentials().AccessKey, SecretKey: secret, Region: "us-east-1"}
	signer.Sign(r, bodyHash(body), time.Now())
	response, err := httpClient(t, s).Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(response.Body)
	require.NoError(t, err)
	return response.StatusCode, text.Bytes()
}

// liveConfig is the configuration of a server with an admin listener.
func liveConfig(t *testing.T) Config {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	config.Settings.Buckets = []string{"bucket"}
	return config
}

// TestTraceStream: a trace has the requests that its filter selects, as they end, and says that the server stops.
func TestTraceStream(t *testing.T) {
	s, stop := running(t, liveConfig(t))
	root := s.Credentials()
	trace := stream(t, s, root.AccessKey, root.SecretKey, "/-/admin/trace?operation=PutObject&key=photos/")
	require.Equal(t, "application/x-ndjson", trace.response.Header.Get("Content-Type"))
	require.Equal(t, 200, sign(t, s, root.SecretKey, "s3", "PUT", "/bucket/other", "content"))
	require.Equal(t, 200, sign(t, s, root.SecretKey, "s3", "PUT", "/bucket/photos/1?x-id=PutObject", "content"))
	var line admin.TraceLine
	trace.next(&line)
	require.NotNil(t, line.Event)
	require.Equal(t, []string{"s3", "PutObject", "bucket", "photos/1", root.AccessKey}, []string{line.API, line.Operation, line.Bucket, line.Key, line.AccessKey})
	require.Equal(t, 200, line.Status)
	require.EqualValues(t, 7, line.In)
	var group sync.WaitGroup
	group.Go(func() {
		var last admin.TraceLine
		trace.next(&last)
		if last.End != "the server is stopping" {
			t.Errorf("%+v", last)
		}
	})
	require.NoError(t, stop())
	group.Wait()
}

// TestTraceOfAdminRequests: requests of the admin API can be selected by their operation and by their bucket. A name that
// no operation has is refused.
func TestTraceOfAdminRequests(t *testing.T) {
	s, _ := running(t, liveConfig(t))
	root := s.Credentials()
	trace := stream(t, s, root.AccessKey, root.SecretKey, "/-/admin/trace?operation=putbucketsettings&bucket=bucket")
	for _, path := range []string{"/-/admin/bucket?name=none&compression=fast", "/-/admin/bucket?name=bucket&compression=fast"} {
		_, _, _ = ask(t, s, root.SecretKey, "POST", path, "")
	}
	var line admin.TraceLine
	trace.next(&line)
	require.Equal(t, []string{"PutBucketSettings", "bucket", ""}, []string{line.Operation, line.Bucket, line.Code})
	status, text, _ := ask(t, s, root.SecretKey, "GET", "/-/admin/trace?operation=NoSuch", "")
	require.Equal(t, 400, status)
	require.Contains(t, string(text), `there is no operation \"NoSuch\"`)
}

// TestTraceEndsWithTheRights: a trace ends when the policy that allows it, or the access key, is gone.
func TestTraceEndsWithTheRights(t *testing.T) {
	config := liveConfig(t)
	config.recheck = 10 * time.Millisecond
	s, _ := running(t, config)
	for name, end := range map[string]string{
		"alice": "/-/admin/policy/attach?attached=false&policy=alice&user=alice",
		"bob":   "/-/admin/user/key/state?name=bob&enabled=false&key=",
	} {
		k := watcher(t, s, name, `"orcas:Trace"`)
		trace := stream(t, s, k.AccessKey, k.SecretKey, "/-/admin/trace?bucket=none")
		var line admin.TraceLine
		trace.next(&line)
		require.Empty(t, line.End, "the user is still allowed to trace")
		if name == "bob" {
			end += k.AccessKey
		}
		status, text, _ := ask(t, s, s.Credentials().SecretKey, "POST", end, "")
		require.Equal(t, 200, status, "%s", text)
		for line.End == "" {
			trace.next(&line)
		}
		require.Contains(t, line.End, "the permission has ended: ", name)
	}
}

// TestLiveNeedsPermission: each tool needs its action, and a tenant cannot have it.
func TestLiveNeedsPermission(t *testing.T) {
	s, _ := running(t, liveConfig(t))
	none := watcher(t, s, "none", `"s3:*"`)
	some := watcher(t, s, "some", `["orcas:GetStatus","orcas:GetLogLevel"]`)
	status, text, _ := ask(t, s, s.Credentials().SecretKey, "POST", "/-/admin/account?name=tenant", "")
	require.Equal(t, 200, status, "%s", text)
	var tenant key
	require.NoError(t, json.Unmarshal(text, &tenant))
	require.NotEmpty(t, tenant.SecretKey)
	for _, c := range []struct {
		method, path string
		some         int
	}{
		{"GET", "/-/admin/status", 200}, {"GET", "/-/admin/log", 200},
		{"GET", "/-/admin/trace", 403}, {"GET", "/-/admin/top", 403}, {"POST", "/-/admin/log?level=errors", 403},
		{"POST", "/-/admin/cache/flush", 403}, {"GET", "/-/admin/profile?name=heap", 403}, {"GET", "/debug/pprof/", 403},
		{"GET", "/debug/pprof/heap", 403}, {"GET", "/debug/pprof/profile?seconds=1", 403},
	} {
		for _, k := range []key{none, tenant, {s.Credentials().AccessKey, "a wrong secret"}, {"", ""}} {
			status, text, _ := askWith(t, s, k.AccessKey, k.SecretKey, c.method, c.path, "")
			require.Equal(t, 403, status, "%s %s: %s", c.method, c.path, text)
		}
		status, text, _ := askWith(t, s, some.AccessKey, some.SecretKey, c.method, c.path, "")
		require.Equal(t, c.some, status, "%s %s: %s", c.method, c.path, text)
	}
}

// TestTopStream: measurements have the operations and buckets with requests in the interval.
func TestTopStream(t *testing.T) {
	s, _ := running(t, liveConfig(t))
	root := s.Credentials()
	top := stream(t, s, root.AccessKey, root.SecretKey, "/-/admin/top?interval=100ms")
	var total int64
	for range 3 {
		require.Equal(t, 200, sign(t, s, root.SecretKey, "s3", "PUT", "/bucket/key", "content"))
	}
	for total < 3 {
		var line admin.TopLine
		top.next(&line)
		require.Empty(t, line.End)
		require.NotNil(t, line.Time)
		require.Positive(t, line.Seconds)
		for _, r := range line.Buckets {
			require.Equal(t, "bucket", r.Name)
			total += r.Requests
		}
	}
	require.EqualValues(t, 3, total)
	for _, interval := range []string{"1ms", "2h", "fast", "-1s"} {
		status, _, _ := ask(t, s, root.SecretKey, "GET", "/-/admin/top?interval="+url.QueryEscape(interval), "")
		require.Equal(t, 400, status, interval)
	}
}

// TestTooManyTraces: the number of traces is bounded, and a trace that ends makes space for another.
func TestTooManyTraces(t *testing.T) {
	s, _ := running(t, liveConfig(t))
	root := s.Credentials()
	var first *streamed
	for range 16 {
		trace := stream(t, s, root.AccessKey, root.SecretKey, "/-/admin/trace")
		if first == nil {
			first = trace
		}
	}
	status, text, _ := ask(t, s, root.SecretKey, "GET", "/-/admin/trace", "")
	require.Equal(t, 503, status)
	require.Contains(t, string(text), "too many traces")
	require.NoError(t, first.response.Body.Close())
	require.Eventually(t, func() bool {
		status, _, _ := ask(t, s, root.SecretKey, "GET", "/-/admin/top?interval=1ms", "") // refused for another reason
		m, err := s.view.hub.Meter()
		if err == nil {
			m.Close()
		}
		return status == 400 && err == nil
	}, time.Minute, time.Millisecond)
}

// TestStatus: the status has what a page about the health of a server needs.
func TestStatus(t *testing.T) {
	config := liveConfig(t)
	config.SelfSigned = true
	config.Settings.AuditWebhook = "http://127.0.0.1:1/"
	s, _ := running(t, config)
	require.Eventually(t, func() bool {
		require.NoError(t, s.survey.Round(t.Context()))
		return !s.survey.Last().SpaceAt.IsZero()
	}, time.Minute, time.Millisecond)
	status, text, _ := ask(t, s, s.Credentials().SecretKey, "GET", "/-/admin/status", "")
	require.Equal(t, 200, status)
	var st admin.Status
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&st))
	require.Equal(t, "ready", st.State)
	require.Equal(t, Version(), st.Version)
	require.Equal(t, "strict", st.Durability)
	require.Positive(t, st.Uptime)
	require.Positive(t, st.Drive.Total)
	require.Positive(t, st.Memory.Heap)
	require.Equal(t, "requests", st.LogLevel)
	require.Equal(t, []string{"reclaim", "snapshot", "scrub", "lifecycle", "survey"}, workNames(st.Work))
	survey := st.Work[4]
	require.NotNil(t, survey.Success)
	require.False(t, survey.Success.Before(s.view.started))
	require.True(t, survey.Enabled)
	require.Equal(t, 1, st.Store.Buckets)
	require.NotNil(t, st.Store.Space)
	require.Len(t, st.Certificates, 1)
	require.Equal(t, "s3", st.Certificates[0].Listener)
	require.True(t, st.Certificates[0].Expires.After(time.Now()))
	require.Equal(t, []admin.AuditState{{Sink: "webhook"}}, st.Audit)
}

// TestStatusWithoutDrive: if the drive does not respond, the rest of the status is shown, with a warning.
func TestStatusWithoutDrive(t *testing.T) {
	s, err := Open(t.Context(), liveConfig(t)) // without Run, so nothing else uses the drive
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Eventually(t, func() bool { return !s.comparing() }, time.Minute, time.Millisecond)
	d := &drive{Blocks: s.blocks, free: 300, total: 1000}
	s.blocks = d
	r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
	require.NoError(t, err)
	for _, d.err = range []error{errors.New("the drive does not respond"), nil} {
		st, err := s.status(r)
		require.NoError(t, err)
		require.Equal(t, d.err != nil, st.Drive == nil)
		text, err := json.Marshal(st)
		require.NoError(t, err)
		for _, part := range []string{`"drive":null`, "the free space of the drive cannot be determined: the drive does not respond"} {
			require.Equal(t, d.err != nil, strings.Contains(string(text), part), "%s", text)
		}
	}
}

func workNames(list []admin.Work) (names []string) {
	for _, w := range list {
		names = append(names, w.Name)
	}
	return names
}

// TestHoldings: the status has the figures of the last survey, and those of the space only if they are known.
func TestHoldings(t *testing.T) {
	require.Nil(t, holdings(nil))
	now := time.Now().UTC()
	r := &survey.Result{
		At: now, Buckets: make([]survey.Bucket, 2),
		Total: core.Tally{Versions: 10, NoncurrentVersions: 3, NoncurrentBytes: 30, Uploads: 4},
	}
	want := &admin.Holdings{Time: now, Buckets: 2, Objects: 7, Versions: 10, NoncurrentBytes: 30, Uploads: 4}
	require.Equal(t, want, holdings(r))
	r.SpaceAt = now.Add(-time.Minute)
	r.Space = survey.Space{Stored: 500, Live: 200, Contents: core.BlockContent{Bytes: 300}, Logical: 600}
	want.Space = &admin.Space{
		Time: r.SpaceAt, Logical: 600, Stored: 500, Live: 200, Reclaimable: 300, Deduplication: 2, Compression: 1.5,
	}
	require.Equal(t, want, holdings(r))
}

// TestStatusWarns: a problem is a warning, with what to do about it.
func TestStatusWarns(t *testing.T) {
	config := liveConfig(t)
	config.Settings.AuditWebhook = "http://127.0.0.1:1/secret"
	s, _ := running(t, config)
	require.Equal(t, 404, sign(t, s, s.Credentials().SecretKey, "s3", "PUT", "/no-such-bucket/key", "content"))
	r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
	require.NoError(t, err)
	var st *admin.Status
	require.Eventually(t, func() bool {
		s.writer.Refuse(core.E("test", core.ReadOnly, errors.New("a test"))) // the comparison at the start may undo this
		st, err = s.status(r)
		require.NoError(t, err)
		st.Warnings = slices.DeleteFunc(st.Warnings, func(w admin.Warning) bool { return strings.HasPrefix(w.Problem, "the drive is") })
		return len(st.Warnings) == 2
	}, time.Minute, time.Millisecond)
	s.writer.Refuse(nil)
	require.Equal(t, "readonly", st.State)
	require.Contains(t, st.Warnings[0].Problem, "writes are refused: read-only: a test")
	require.Contains(t, st.Warnings[1].Problem, "The audit webhook http://127.0.0.1:1 cannot be written: ")
	require.NotContains(t, st.Warnings[1].Problem, "secret")
	require.Contains(t, st.Warnings[1].Action, "repair the receiver of ORCAS_AUDIT_WEBHOOK")
	require.Contains(t, auditAction("file"), "free space on the drive of ORCAS_AUDIT_FILE")

	s.view.audit.Close()
	s.view.audit = nil
	for problem, st := range map[string]admin.Status{
		"":                                      {Drive: &admin.Drive{Free: 100, Total: 1000, Reserve: 10}},
		"the drive is full":                     {Drive: &admin.Drive{Free: 9, Total: 1000, Reserve: 10}},
		"the drive is nearly full: 49 B":        {Drive: &admin.Drive{Free: 59, Total: 1000, Reserve: 10}},
		"2 blocks with 3 pieces of content are": {Missing: admin.Missing{Blocks: 2, Contents: 3}},
		"4 pieces of content are damaged":       {Scrub: admin.ScrubState{Found: 9, Repaired: 5, Damaged: 4}},
		"reclaim failed, so deleted content keeps its space: broken": {Work: []admin.Work{{Name: "reclaim", Error: "broken"}, {Name: "scrub"}}},
		"expired objects remain: broken":                             {Work: []admin.Work{{Name: "lifecycle", Enabled: true, Error: "broken"}}},
		"the survey failed: broken":                                  {Work: []admin.Work{{Name: "survey", Enabled: true, Error: "broken"}}},
		"the certificate of the s3 address":                          {Certificates: []admin.Certificate{{Listener: "s3", Expires: time.Now().Add(time.Hour)}}},
	} {
		s.addWarnings(&st)
		if problem == "" {
			require.Empty(t, st.Warnings)
			continue
		}
		require.Len(t, st.Warnings, 1, problem)
		require.Contains(t, st.Warnings[0].Problem, problem)
		require.NotEmpty(t, st.Warnings[0].Action)
	}
	_, action := failedWork(admin.Work{Name: "scrub"})
	require.Equal(t, "correct the cause, and run orcas admin scrub --wait", action)
	_, action = failedWork(admin.Work{Name: "lifecycle", Enabled: true})
	require.Equal(t, "the server tries again by itself; if the warning stays, correct the cause, and run orcas admin lifecycle run --wait", action)
}

// TestLogLevel: the level of the log can be changed while the server runs.
func TestLogLevel(t *testing.T) {
	config := liveConfig(t)
	var mu sync.Mutex
	var log bytes.Buffer
	config.Log = writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	})
	s, stop := running(t, config)
	root := s.Credentials().SecretKey
	level := func(method, path, want string) {
		t.Helper()
		status, text, _ := ask(t, s, root, method, path, "")
		require.Equal(t, 200, status, "%s", text)
		require.JSONEq(t, `{"level":"`+want+`"}`, string(text))
	}
	level("GET", "/-/admin/log", "requests")
	require.Equal(t, 200, sign(t, s, root, "s3", "PUT", "/bucket/logged-1", ""))
	for _, to := range []string{"summary", "errors", "off"} {
		level("POST", "/-/admin/log?level="+to, to)
		require.Equal(t, 200, sign(t, s, root, "s3", "PUT", "/bucket/hidden-"+to, ""))
	}
	level("POST", "/-/admin/log?level=requests", "requests")
	require.Equal(t, 200, sign(t, s, root, "s3", "PUT", "/bucket/logged-2", ""))
	status, text, _ := ask(t, s, root, "POST", "/-/admin/log?level=loud", "")
	require.Equal(t, 400, status)
	require.Contains(t, string(text), "expected off, errors, summary or requests")
	require.NoError(t, stop())
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, log.String(), "logged-1")
	require.Contains(t, log.String(), "logged-2")
	require.NotContains(t, log.String(), "hidden")
	require.Equal(t, 4, strings.Count(log.String(), "the log level changes"))
}

// TestFlushCache: an object is still readable without its cached metadata.
func TestFlushCache(t *testing.T) {
	s, _ := running(t, liveConfig(t))
	root := s.Credentials().SecretKey
	require.Equal(t, 200, sign(t, s, root, "s3", "PUT", "/bucket/key", "content"))
	status, text, _ := ask(t, s, root, "POST", "/-/admin/cache/flush", "")
	require.Equal(t, 200, status)
	var f admin.Flushed
	require.NoError(t, json.Unmarshal(text, &f))
	require.Equal(t, 200, sign(t, s, root, "s3", "GET", "/bucket/key", ""))
}

// TestProfile: profiles are served under both paths, and their durations are bounded.
func TestProfile(t *testing.T) {
	s, _ := running(t, liveConfig(t))
	root := s.Credentials().SecretKey
	for path, want := range map[string]int{
		"/-/admin/profile?name=heap": 200, "/debug/pprof/heap": 200, "/debug/pprof/goroutine?debug=2": 200, "/debug/pprof/": 200,
		"/-/admin/profile?name=cpu&seconds=1": 200, "/-/admin/profile?name=none": 404, "/debug/pprof/cmdline": 404,
		"/debug/pprof/profile?seconds=301": 400, "/debug/pprof/profile?seconds=0": 400, "/debug/pprof/heap?debug=3": 400,
	} {
		status, text, header := ask(t, s, root, "GET", path, "")
		require.Equal(t, want, status, "%s: %s", path, text)
		require.NotEmpty(t, text)
		if want == 200 && strings.HasSuffix(path, "heap") {
			require.Equal(t, "application/octet-stream", header.Get("Content-Type"))
			require.Equal(t, "\x1f\x8b", string(text[:2]), "profiles are compressed with gzip")
		}
	}
}
