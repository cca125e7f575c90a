package s3_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/auth"
	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/ids"
	"orcas/core/mem"
	"orcas/gate"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/storetest"
	"orcas/vfs"
)

// The clock of the cache runs until the process ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

const (
	accessKey    = "AKIAEXAMPLE"
	secretKey    = "the secret key"
	account      = "111122223333"
	otherAccount = "444455556666" // another account
	stranger     = "AKIASTRANGER" // its root
)

// testIDs are the IDs of worlds. absentVersion and absentUpload are valid, but no version and no upload has them.
var (
	testIDs       = ids.New([16]byte{1, 2, 3}, 0)
	absentVersion = testIDs.Version(0xffffff)
	absentUpload  = testIDs.Upload(0xffffff)
)

// canonical is the canonical ID of account.
var canonical = auth.CanonicalID(account)

var holders = map[string]gate.Credential{
	accessKey: {SecretKey: secretKey, Principal: &auth.Principal{Account: account, ARN: auth.RootARN(account)}},
	stranger:  {SecretKey: secretKey, Principal: &auth.Principal{Account: otherAccount, ARN: auth.RootARN(otherAccount)}},
}

// world is a server over drivers in memory, behind a real socket, with a client that signs requests to it.
type world struct {
	t      *testing.T
	url    string
	client *http.Client
	fs     *vfs.FS
	blocks *roomyBlocks
	writer *batch.Writer
	meta   *finding
	signer *sigv4.Signer
	now    func() time.Time
	late   *atomic.Int64 // offset of the store's clock, in nanoseconds
}

// setFree sets the free space in bytes, and moves the clock so that the store reads it again.
func (w *world) setFree(n int64) {
	w.blocks.free.Store(n)
	w.late.Add(int64(time.Hour))
}

// roomyBlocks are blocks with a configurable free space and damaged bytes.
type roomyBlocks struct {
	coretest.HookedBlocks
	free atomic.Int64
	bad  sync.Map                      // the keys are the places of damaged bytes
	gate atomic.Pointer[chan struct{}] // if not nil, reads wait until it is closed
}

type place struct {
	block core.BlockID
	at    int64
}

func newRoomyBlocks() *roomyBlocks {
	b := &roomyBlocks{}
	b.Blocks, b.Read = mem.NewBlocks(), b.read
	b.free.Store(1 << 39)
	return b
}

// read changes damaged bytes.
func (b *roomyBlocks) read(r core.BlockReader, e core.Extent, p []byte, off int64) (int, error) {
	if gate := b.gate.Load(); gate != nil {
		<-*gate
	}
	n, err := r.ReadAt(p, off)
	b.bad.Range(func(k, _ any) bool {
		if i := k.(place).at - e.Offset - off; k.(place).block == e.Block && i >= 0 && i < int64(n) {
			p[i] ^= 1
		}
		return true
	})
	return n, err
}

func (b *roomyBlocks) Space(context.Context) (free, total int64, err error) {
	return b.free.Load(), 1 << 40, nil
}

type setup struct {
	store   func(*content.Options)
	options func(*s3.Options)
	start   func(*httptest.Server)
}

// compression returns the compression of all stores in the tests of this package, which is set with
// ORCAS_TEST_COMPRESSION.
func compression(t *testing.T) core.Compression {
	l, err := core.ParseCompression(cmp.Or(os.Getenv("ORCAS_TEST_COMPRESSION"), "off"))
	require.NoError(t, err)
	return l
}

func newWorld(t *testing.T, setups ...setup) *world {
	t.Helper()
	w := &world{t: t, now: time.Now, late: new(atomic.Int64), blocks: newRoomyBlocks()}
	meta := &finding{Meta: mem.NewMeta()}
	w.meta = meta
	writer, err := batch.Open(t.Context(), batch.Options{Meta: meta, Blocks: w.blocks})
	require.NoError(t, err)
	t.Cleanup(func() { writer.Close() })
	w.writer = writer
	store := content.Options{
		Meta: meta, Blocks: w.blocks, Writer: writer, Instant: true, Reserve: func(int64) int64 { return 1 << 20 },
		Now: func() time.Time { return time.Now().Add(time.Duration(w.late.Load())) }, Compression: compression(t),
	}
	for _, s := range setups {
		if s.store != nil {
			s.store(&store)
		}
	}
	w.fs, err = storetest.NewFS(store)
	require.NoError(t, err)
	o := s3.Options{
		FS: w.fs, Region: "us-east-1", IDs: testIDs, Domains: []string{"s3.example.org"}, Logger: slog.New(slog.DiscardHandler),
		Lookup: func(_ context.Context, key, _ string) (gate.Credential, error) { return holders[key], nil },
	}
	for _, s := range setups {
		if s.options != nil {
			s.options(&o)
		}
	}
	handler, err := s3.New(o)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	started := false
	for _, s := range setups {
		if s.start != nil {
			s.start(server)
			started = true
		}
	}
	if !started {
		server.Start()
	}
	t.Cleanup(server.Close)
	w.url, w.client = server.URL, server.Client()
	w.client.Transport.(*http.Transport).DisableCompression = true
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.signer = &sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"}
	return w
}

func overTLS(s *httptest.Server)   { s.StartTLS() }
func overHTTP2(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }

// response is a response of the server.
type response struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// code returns the code of an error.
func (a *response) code() string {
	var e struct {
		XMLName   xml.Name `xml:"Error"`
		Code      string
		Message   string
		Resource  string
		RequestID string `xml:"RequestId"`
	}
	if xml.Unmarshal(a.body, &e) != nil {
		return ""
	}
	require.NotEmpty(a.t, e.Message)
	require.NotEmpty(a.t, e.Resource)
	require.Equal(a.t, a.header.Get("X-Amz-Request-Id"), e.RequestID)
	return e.Code
}

// is checks the status and, unless it is "", the error code.
func (a *response) is(status int, code string) *response {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	require.NotEmpty(a.t, a.header.Get("X-Amz-Request-Id"))
	if code != "" {
		require.Equal(a.t, code, a.code(), "%s", a.body)
	}
	return a
}

func (a *response) etag() string { return strings.Trim(a.header.Get("ETag"), `"`) }

// parse decodes the document.
func (a *response) parse(into any) {
	a.t.Helper()
	require.Equal(a.t, "application/xml", a.header.Get("Content-Type"))
	require.NoError(a.t, xml.Unmarshal(a.body, into), "%s", a.body)
}

// request returns an unsigned request. headers are alternating names and values.
func (w *world) request(method, path string, body []byte, headers ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url+path, bytes.NewReader(body))
	require.NoError(w.t, err)
	for i := 0; i < len(headers); i += 2 {
		if strings.EqualFold(headers[i], "Host") {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func md5Of(body []byte) string {
	sum := md5.Sum(body)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func hexMD5(body []byte) string {
	sum := md5.Sum(body)
	return hex.EncodeToString(sum[:])
}

// send sends a request without signing it.
func (w *world) send(r *http.Request) *response {
	w.t.Helper()
	res, err := w.client.Do(r)
	require.NoError(w.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return &response{w.t, res.StatusCode, res.Header, body}
}

// do signs and sends a request.
func (w *world) do(method, path string, body []byte, headers ...string) *response {
	w.t.Helper()
	r := w.request(method, path, body, headers...)
	w.signer.Sign(r, hash(body), w.now())
	return w.send(r)
}

// bucket creates a bucket.
func (w *world) bucket(name string) {
	w.t.Helper()
	w.do("PUT", "/"+name, nil).is(200, "")
}

// put writes an object and returns its ETag.
func (w *world) put(path, body string, headers ...string) string {
	w.t.Helper()
	return w.do("PUT", path, []byte(body), headers...).is(200, "").etag()
}

// content returns the content of an object, or "(none)" if the object does not exist.
func (w *world) content(path string) string {
	w.t.Helper()
	a := w.do("GET", path, nil)
	if a.status == 404 {
		return "(none)"
	}
	return string(a.is(200, "").body)
}

// random returns n bytes that are the same for the same seed.
func random(seed byte, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{seed})
	_, _ = r.Read(b)
	return b
}

// path returns the path of a key, escaped like by a client.
func path(bucket, key string) string {
	var b strings.Builder
	b.WriteString("/" + bucket + "/")
	for i := 0; i < len(key); i++ {
		if key[i] == '/' {
			b.WriteByte('/')
			continue
		}
		b.WriteString(strings.ReplaceAll(url.QueryEscape(key[i:i+1]), "+", "%20"))
	}
	return b.String()
}

var _ core.Spacer = (*roomyBlocks)(nil)

func base64SHA256(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.StdEncoding.EncodeToString(sum[:])
}
