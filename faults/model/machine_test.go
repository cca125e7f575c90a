package model

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core/ids"
	"orcas/faults"
	"orcas/internal/sigv4"
	"orcas/sdk"
	"orcas/server"
)

// full reports whether the tests run with the full counts.
func full() bool { return os.Getenv("ORCAS_FAULTS_FULL") == "1" }

// count returns the value of a variable or, if it is not set, the count for a short or a full run.
func count(t testing.TB, variable string, short, long int) int {
	t.Helper()
	s := os.Getenv(variable)
	switch {
	case s != "":
		n, err := strconv.Atoi(s)
		require.NoError(t, err, variable)
		return n
	case full():
		return long
	}
	return short
}

// newRand returns the source of all random choices of a test, and prints its seed.
func newRand(t testing.TB) *rand.Rand {
	n := seed(t)
	return rand.New(rand.NewPCG(n, n))
}

func seed(t testing.TB) uint64 {
	n := uint64(count(t, "ORCAS_FAULTS_SEED", int(time.Now().UnixNano()&0xffffff), int(time.Now().UnixNano()&0xffffff)))
	t.Logf("ORCAS_FAULTS_SEED=%d", n)
	return n
}

// random returns n random bytes, which the number determines.
func random(number uint64, n int) []byte {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(number >> (8 * i))
	}
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// text returns n bytes that can be compressed, which the number determines.
func text(number uint64, n int) []byte { return hex.AppendEncode(nil, random(number, (n+1)/2))[:n] }

// workDir returns an empty directory, in memory if possible: these tests do not cut the power, and thousands of starts
// and syncs would wait for a drive.
func workDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "orcas-model-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// endpoint is a client of a server.
type endpoint struct {
	url  string
	http *http.Transport
	s3   *sdk.Client
	now  func() time.Time // the time for signatures
	ids  *ids.Codec       // of the server
}

func newEndpoint(url string, root faults.Credentials, now func() time.Time) *endpoint {
	e := &endpoint{url: url, http: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}, now: now}
	var err error
	e.s3, err = sdk.New(sdk.Config{Endpoint: url, Transport: e.http, Credentials: sdk.Static(root.AccessKey, root.SecretKey), Now: func() time.Time { return e.now() }})
	if err != nil {
		panic(err) // the server has returned the address
	}
	return e
}

// response is a complete response.
type response struct {
	status int
	header http.Header
	body   []byte
	raw    *sdk.Response // the same response
}

// code returns the code of an error, or "".
func (a *response) code() string { return a.raw.Code() }

func (a *response) etag() string { return a.raw.ETag() }

// request returns a signed request for a bucket and a key, each of which may be "". headers alternates names and
// values.
func (e *endpoint) request(method, bucket, key, query string, body []byte, headers ...string) (*http.Request, error) {
	q := &sdk.Request{Method: method, Path: "/" + bucket, Query: query, Body: body, Header: http.Header{}}
	if key != "" {
		q.Path += "/" + key
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Add(headers[i], headers[i+1])
	}
	if len(body) >= 1<<20 {
		q.Hash = sigv4.UnsignedPayload
	}
	return e.s3.Sign(context.Background(), q)
}

// do sends a request and reads the response. It returns an error if the response breaks off.
func (e *endpoint) do(method, bucket, key, query string, body []byte, headers ...string) (*response, error) {
	r, err := e.request(method, bucket, key, query, body, headers...)
	if err != nil {
		return nil, err
	}
	got, err := e.s3.Send(r)
	if got == nil {
		return nil, err
	}
	return &response{got.Status, got.Header, got.Body, got}, err
}

// query returns a query string. pairs alternates names and values; empty values are left out.
func query(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(&b, "&%s=%s", pairs[i], strings.ReplaceAll(sigv4.Escape(pairs[i+1]), "/", "%2F"))
		}
	}
	return strings.TrimPrefix(b.String(), "&")
}

func hexMD5(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}

func contentMD5(b []byte) string {
	sum := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// machine is a server in this process, whose data persists across starts.
type machine struct {
	*endpoint           // of the current start
	admin     *endpoint // of its admin API

	who   faults.Credentials // created at the first start
	env   []string           // settings (NAME=value), in addition to those of all machines
	root  string             // contains its data directories
	dir   string             // the current data directory
	lives int
	clock func() time.Time
	alarm alarm

	server *server.Server
	stop   context.CancelFunc
	ran    chan error
}

// newMachine starts a server whose data directories are created in root.
func newMachine(root string, clock func() time.Time) (*machine, error) {
	m := &machine{root: root, clock: clock}
	if m.clock == nil {
		m.clock = time.Now
	}
	m.dir = m.nextDir()
	return m, m.start()
}

// newTestMachine is newMachine for a test, which fails if the server panics.
func newTestMachine(t testing.TB, clock func() time.Time) *machine {
	t.Helper()
	m, err := newMachine(workDir(t), clock)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, m.close())
	})
	return m
}

// nextDir returns the path for the next data directory.
func (m *machine) nextDir() string {
	m.lives++
	return filepath.Join(m.root, fmt.Sprintf("data-%d", m.lives))
}

// masterKey is the setting with which a server can encrypt.
var masterKey = "ORCAS_MASTER_KEY=" + strings.Repeat("e5", 32)

// sealed are settings with which a server compresses and encrypts everything. It always shares equal content.
var sealed = []string{"ORCAS_COMPRESSION=better", "ORCAS_ENCRYPTION=all", masterKey}

// features returns the settings for all servers from the environment, as in package faults.
func features() (env []string) {
	if level := os.Getenv("ORCAS_FAULTS_COMPRESSION"); level != "" {
		env = append(env, "ORCAS_COMPRESSION="+level)
	}
	if os.Getenv("ORCAS_FAULTS_ENCRYPTION") == "1" {
		env = append(env, "ORCAS_ENCRYPTION=all", masterKey)
	}
	return env
}

// start opens the server on the current data directory and runs it.
func (m *machine) start() error {
	if m.who == (faults.Credentials{}) {
		m.who = faults.NewCredentials()
	}
	set, err := server.ReadSettings(append([]string{
		"ORCAS_ROOT_ACCESS_KEY=" + m.who.AccessKey, "ORCAS_ROOT_SECRET_KEY=" + m.who.SecretKey, "ORCAS_MIN_FREE=0",
	}, append(m.env, features()...)...))
	if err != nil {
		return err
	}
	s, err := server.Open(context.Background(), server.Config{
		Data: m.dir, Address: "127.0.0.1:0", Admin: "127.0.0.1:0", Settings: set, Now: m.clock, Log: &m.alarm,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	m.server, m.stop, m.ran = s, stop, make(chan error, 1)
	go func(ran chan error) { ran <- s.Run(ctx) }(m.ran)
	m.endpoint = newEndpoint(s.Endpoint(), m.who, m.clock)
	m.endpoint.ids = s.IDs()
	m.admin = newEndpoint("http://"+s.AdminAddress(), m.who, m.clock)
	return nil
}

// end shuts the server down.
func (m *machine) end() error {
	if m.server == nil {
		return nil
	}
	m.http.CloseIdleConnections()
	m.admin.http.CloseIdleConnections()
	m.stop()
	err := errors.Join(<-m.ran, m.server.Close())
	m.server = nil
	return err
}

// close shuts the server down. It returns an error if the server has panicked.
func (m *machine) close() error { return errors.Join(m.end(), m.alarm.err()) }

// restart shuts the server down and starts it again.
func (m *machine) restart() error { return errors.Join(m.end(), m.start()) }

// alarm is the log of servers. It keeps the lines that a healthy server never writes.
type alarm struct {
	mu    sync.Mutex // guards lines and all
	lines []string
	all   bytes.Buffer // the end of the log: at least its last logMax bytes
}

const logMax = 256 << 10

// Write implements io.Writer.
func (a *alarm) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		if strings.Contains(line, "panic") && len(a.lines) < 10 {
			a.lines = append(a.lines, line)
		}
	}
	a.all.Write(p)
	if a.all.Len() > 2*logMax {
		a.all.Next(a.all.Len() - logMax)
	}
	return len(p), nil
}

func (a *alarm) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.lines) == 0 {
		return nil
	}
	return fmt.Errorf("the server has panicked:\n%s", strings.Join(a.lines, ""))
}

// text returns the end of the log.
func (a *alarm) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all.String()
}

// must returns a function that returns the response to a request, and fails the test if it has another status.
func must(t testing.TB, status int) func(a *response, err error) *response {
	return func(a *response, err error) *response {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, status, a.status, "%s", a.body)
		return a
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}
