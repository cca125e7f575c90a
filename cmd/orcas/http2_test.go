package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"orcas/server"
)

// TestMain lets the test binary act as the orcas command when a test starts it as a process.
func TestMain(m *testing.M) {
	if os.Getenv("ORCAS_TEST_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}

// attacker is a client that speaks HTTP/2 frame by frame.
type attacker struct {
	t      *testing.T
	conn   *tls.Conn
	framer *http2.Framer
	hpack  *hpack.Encoder
	block  bytes.Buffer // output of hpack
	out    bytes.Buffer // output of the framer
	closed atomic.Bool  // the server has closed the connection

	mu        sync.Mutex // guards the fields below
	resets    map[http2.ErrCode]int
	goAway    *http2.GoAwayFrame
	responses map[uint32]string // status of each stream
}

// attack connects to a server. It reads and records the responses, unless the attacker is deaf.
func attack(t *testing.T, address string, roots *x509.CertPool, deaf bool) *attacker {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	require.Equal(t, "h2", conn.ConnectionState().NegotiatedProtocol)
	a := &attacker{t: t, conn: conn, resets: map[http2.ErrCode]int{}, responses: map[uint32]string{}}
	a.framer = http2.NewFramer(&a.out, conn)
	a.framer.AllowIllegalWrites = true
	a.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	a.hpack = hpack.NewEncoder(&a.block)
	a.out.WriteString(http2.ClientPreface)
	require.NoError(t, a.framer.WriteSettings())
	require.NoError(t, a.framer.WriteSettingsAck())
	a.flush()
	if !deaf {
		go a.listen()
	}
	return a
}

// listen records the frames of the server until it closes the connection.
func (a *attacker) listen() {
	for {
		f, err := a.framer.ReadFrame()
		if err != nil {
			a.closed.Store(true)
			return
		}
		a.mu.Lock()
		switch f := f.(type) {
		case *http2.RSTStreamFrame:
			a.resets[f.ErrCode]++
		case *http2.GoAwayFrame:
			a.goAway = f
		case *http2.MetaHeadersFrame:
			a.responses[f.StreamID] = f.PseudoValue("status")
		}
		a.mu.Unlock()
	}
}

// flush sends the buffered frames. It reports whether the connection is still open.
func (a *attacker) flush() bool {
	_ = a.conn.SetWriteDeadline(time.Now().Add(time.Minute))
	_, err := a.conn.Write(a.out.Bytes())
	a.out.Reset()
	if err != nil {
		a.closed.Store(true)
	}
	return err == nil
}

// flushAt flushes if at least n bytes are buffered. It reports whether the connection is still open.
func (a *attacker) flushAt(n int) bool { return a.out.Len() < n || a.flush() }

// headers encodes header fields, given as pairs of name and value.
func (a *attacker) headers(pairs ...string) []byte {
	a.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(a.t, a.hpack.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
	}
	return bytes.Clone(a.block.Bytes())
}

// request encodes the headers of a GET request, with additional fields.
func (a *attacker) request(more ...string) []byte {
	return a.headers(append([]string{":method", "GET", ":scheme", "https", ":authority", "x", ":path", "/bucket/key"}, more...)...)
}

func (a *attacker) open(stream uint32, block []byte, endStream, endHeaders bool) {
	require.NoError(a.t, a.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block, EndStream: endStream, EndHeaders: endHeaders,
	}))
}

// until waits until the frames of the server meet a condition, which what describes.
func (a *attacker) until(what string, met func() bool) {
	require.Eventually(a.t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return met()
	}, 2*time.Minute, time.Millisecond, what)
}

// ended waits until the server has sent GOAWAY with one of the codes, or has closed the connection, in which case the
// frame may have been lost.
func (a *attacker) ended(codes ...http2.ErrCode) {
	a.until("the end of the connection", func() bool { return a.goAway != nil || a.closed.Load() })
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.goAway != nil && len(codes) > 0 {
		require.Contains(a.t, codes, a.goAway.ErrCode)
	}
}

// attacks are the floods. Each runs on the connection of one attacker; scale determines its size.
var attacks = map[string]struct {
	deaf bool
	run  func(a *attacker, scale int)
}{
	"rapid reset": {run: func(a *attacker, scale int) {
		block := a.request()
		for i := range uint32(1000 * scale) {
			a.open(2*i+1, block, true, true)
			require.NoError(a.t, a.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
			if !a.flushAt(16 << 10) {
				break
			}
		}
		a.flush()
	}},
	"many streams": {run: func(a *attacker, scale int) {
		block := a.headers(":method", "PUT", ":scheme", "https", ":authority", "x", ":path", "/bucket/key", "content-length", "10")
		for i := range uint32(20 * scale) {
			a.open(2*i+1, block, false, true) // the body is never sent
			if !a.flushAt(16 << 10) {
				break
			}
		}
		a.flush()
		a.until("refused streams or responses", func() bool {
			return a.closed.Load() || a.goAway != nil || a.resets[http2.ErrCodeRefusedStream]+len(a.responses) > 0
		})
	}},
	"CONTINUATION": {run: func(a *attacker, scale int) {
		fragment := a.headers("x-fill", strings.Repeat("x", 4000))
		a.open(1, a.request(), true, false)
		for range 100 * scale {
			require.NoError(a.t, a.framer.WriteContinuation(1, false, fragment))
			if !a.flushAt(32 << 10) {
				break
			}
		}
		a.flush()
		a.ended(http2.ErrCodeEnhanceYourCalm, http2.ErrCodeProtocol, http2.ErrCodeCompression)
	}},
	"empty CONTINUATION": {run: func(a *attacker, scale int) {
		// net/http reads these for as long as they arrive; TestEndlessHeadersAreCutOff in package server shows how such
		// a connection ends.
		a.open(1, a.request(), true, false)
		for range 5000 * scale {
			require.NoError(a.t, a.framer.WriteContinuation(1, false, nil))
			if !a.flushAt(16 << 10) {
				return
			}
		}
		require.NoError(a.t, a.framer.WriteContinuation(1, true, nil))
		a.flush()
		a.until("a response", func() bool { return a.responses[1] == "404" || a.goAway != nil || a.closed.Load() })
	}},
	"SETTINGS": {deaf: true, run: func(a *attacker, scale int) {
		for range 1000 * scale {
			require.NoError(a.t, a.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
			if !a.flushAt(16 << 10) {
				break
			}
		}
		a.flush()
	}},
	"PING": {deaf: true, run: func(a *attacker, scale int) {
		for range 1000 * scale {
			require.NoError(a.t, a.framer.WritePing(false, [8]byte{1}))
			if !a.flushAt(16 << 10) {
				break
			}
		}
		a.flush()
	}},
	"HPACK bomb": {run: func(a *attacker, scale int) {
		// One field of 4 kB is stored in the table of the connection, and each reference to it takes one byte: 20,000
		// references expand to 80 MB of headers.
		a.open(1, a.request("x-bomb", strings.Repeat("x", 4000)), true, true)
		mention := a.request("x-bomb", strings.Repeat("x", 4000))
		last := mention[len(mention)-1:] // an indexed field
		require.Equal(a.t, byte(0x80), last[0]&0x80, "the encoder has the field in its table")
		for i := range uint32(scale) {
			block := append(bytes.Clone(mention), bytes.Repeat(last, 16_000)...)
			a.open(2*i+3, block, true, true)
			if !a.flush() {
				break
			}
		}
		a.until("responses", func() bool {
			refused := a.closed.Load() || a.goAway != nil
			for stream, status := range a.responses {
				refused = refused || stream > 1 && status == "431"
			}
			return refused
		})
	}},
	"pseudo headers": {run: func(a *attacker, scale int) {
		bad := [][]string{
			{":method", "GET", ":scheme", "https", ":authority", "x"},
			{":method", "GET", ":method", "PUT", ":scheme", "https", ":authority", "x", ":path", "/"},
			{":method", "GET", ":scheme", "https", ":authority", "x", ":path", ""},
			{":method", "GET", ":scheme", "https", ":authority", "x", ":path", "/", ":status", "200"},
			{":method", "GET", ":scheme", "https", ":authority", "x", ":path", "/", ":unknown", "1"},
			{":method", "GET", "x-first", "1", ":scheme", "https", ":authority", "x", ":path", "/"},
			{":method", "GET", ":scheme", "https", ":authority", "x", ":path", "/", "Upper-Case", "1"},
			{":method", "GET", ":scheme", "https", ":authority", "x", ":path", "/", "connection", "upgrade"},
			{":method", "GET", ":scheme", "https", ":authority", "x", ":path", "/", "x-evil", "a\r\nb: c"},
			{":method", "GET\r\nX: y", ":scheme", "https", ":authority", "x", ":path", "/"},
		}
		sent := 0
		for i := range scale * len(bad) {
			a.open(uint32(2*i+1), a.headers(bad[i%len(bad)]...), true, true)
			sent++
			if !a.flush() {
				return
			}
		}
		a.until("each request refused", func() bool {
			refused := a.resets[http2.ErrCodeProtocol] + a.resets[http2.ErrCodeRefusedStream]
			for _, status := range a.responses {
				require.Equal(a.t, "400", status)
				refused++
			}
			return refused >= sent || a.goAway != nil || a.closed.Load()
		})
	}},
}

// besiege runs each attack with several concurrent attackers, while another client keeps sending requests. It returns
// the number of responses that this client received.
func besiege(t *testing.T, endpoint string, roots *x509.CertPool, attackers, scale int) (served int) {
	t.Helper()
	address := strings.TrimPrefix(endpoint, "https://")
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	for name, how := range attacks {
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		count := make(chan int)
		go func() {
			n := 0
			for ; ctx.Err() == nil || n == 0; n++ {
				response, err := client.Get(endpoint + "/bucket/key")
				if err != nil {
					t.Errorf("during %s: %v", name, err)
					break
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusNotFound {
					t.Errorf("during %s: %s", name, response.Status)
					break
				}
			}
			count <- n
		}()
		for range attackers {
			wg.Go(func() {
				a := attack(t, address, roots, how.deaf)
				defer a.conn.NetConn().Close() // immediately: closing the TLS connection would send an alert first
				how.run(a, scale)
			})
		}
		wg.Wait()
		stop()
		n := <-count
		require.Positive(t, n, name)
		served += n
	}
	return served
}

// rootsOf returns a pool with the self-signed certificate of a data directory.
func rootsOf(t *testing.T, data string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "self-signed.crt"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	return roots
}

// memoryMost bounds the additional memory that the floods may make the server use. If the server kept everything that
// TestHTTP2Floods sends, it would use several times as much.
const memoryMost = 192 << 20

// TestHTTP2Floods attacks a server process. Its memory stays bounded, other clients are served in the meantime, and
// afterwards no connection or goroutine of an attacker is left.
func TestHTTP2Floods(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := exec.Command(os.Args[0], "server", "--data", data, "--address", "127.0.0.1:0", "--admin-address", "none", "--tls-self-signed")
	p.Env = append(os.Environ(), "ORCAS_TEST_COMMAND=1", "ORCAS_MIN_FREE=0", "ORCAS_LOG=errors", "GOTRACEBACK=all")
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	banner, err := p.StdoutPipe()
	require.NoError(t, err)
	var log bytes.Buffer
	p.Stderr = &log
	require.NoError(t, p.Start())
	defer func() { _ = p.Process.Kill() }()
	endpoint := endpointOf(t, banner)
	go func() { _, _ = io.Copy(io.Discard, banner) }()

	before := peakOf(t, p.Process.Pid)
	scale, attackers := 100, 4
	if testing.Short() {
		scale = 20
	}
	served := besiege(t, endpoint, rootsOf(t, data), attackers, scale)
	after := peakOf(t, p.Process.Pid)
	t.Logf("%d requests served during the attacks; peak memory %d MiB before, %d MiB after", served, before>>20, after>>20)
	require.Less(t, after-before, int64(memoryMost))
	require.Eventually(t, func() bool { return socketsOf(t, p.Process.Pid) == 1 }, 2*time.Minute, 10*time.Millisecond, "connections are left")

	require.NoError(t, p.Process.Signal(syscall.SIGQUIT)) // prints the goroutines
	_ = p.Wait()
	goroutines := regexp.MustCompile(`(?m)^goroutine \d+ `).FindAllString(log.String(), -1)
	require.Greater(t, len(goroutines), 3, log.String())
	require.Less(t, len(goroutines), 60, log.String())
	require.NotRegexp(t, `\bpanic[: (]`, log.String()) // the dump has the path runtime/panic.go
}

// TestHTTP2FloodsLeaveNothing attacks a server in this process, so that it can wait until its goroutines have ended.
func TestHTTP2FloodsLeaveNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	settings, err := server.ReadSettings([]string{"ORCAS_MIN_FREE=0", "ORCAS_LOG=off"})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	data := filepath.Join(t.TempDir(), "data")
	s, err := server.Open(ctx, server.Config{Data: data, Address: "127.0.0.1:0", SelfSigned: true, Settings: settings})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	besiege(t, s.Endpoint(), rootsOf(t, data), 2, 3)
	require.Eventually(t, func() bool { // the server is still running
		stacks := make([]byte, 16<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(stacks, []byte("net/http.(*conn).serve")) && !bytes.Contains(stacks, []byte("net/http.(*http2serverConn)"))
	}, 2*time.Minute, 10*time.Millisecond, "goroutines of connections are left")
	stop()
	require.NoError(t, <-done)
	require.NoError(t, s.Close())
}

// endpointOf reads the endpoint from the banner of a server.
func endpointOf(t *testing.T, banner io.Reader) string {
	t.Helper()
	var text []byte
	buffer := make([]byte, 1024)
	for {
		n, err := banner.Read(buffer)
		text = append(text, buffer[:n]...)
		if m := regexp.MustCompile(`(?m)^\s*endpoint\s+(\S+)\n`).FindSubmatch(text); m != nil {
			return string(m[1])
		}
		require.NoError(t, err, "%s", text)
	}
}

// socketsOf returns the number of open sockets of a process.
func socketsOf(t *testing.T, pid int) (n int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range list {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// peakOf returns the peak resident memory of a process, in bytes.
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^VmHWM:\s*(\d+) kB$`).FindSubmatch(text)
	require.NotNil(t, m)
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	require.NoError(t, err)
	return n << 10
}
