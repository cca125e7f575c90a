package heads

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scanned returns the bytes that net/http reads if a head arrives in pieces.
func scanned(pieces ...string) string {
	h := &conn{Conn: &pieceConn{pieces: pieces}}
	h.reading.Store(true)
	var out bytes.Buffer
	_, _ = io.Copy(&out, struct{ io.Reader }{h})
	return out.String()
}

// pieceConn is a connection that returns one piece per read.
type pieceConn struct {
	net.Conn
	pieces []string
}

func (c *pieceConn) Read(p []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; c.pieces[0] == "" {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}

func TestScanHeads(t *testing.T) {
	const expect = "Expect: 200-ok\r\n"
	for _, head := range []string{"PUT / HTTP/1.1\r\nHost: x\r\n" + expect + "\r\n", "PUT / HTTP/1.1\nHost: x\nexpect:a\n\n"} {
		got := scanned(head + expect)
		require.NotContains(t, got[:len(head)], "200-ok")
		require.NotContains(t, got[:len(head)], "expect:a")
		require.True(t, strings.HasSuffix(got, expect), "the body was changed: %q", got)
		for cut := range len(head) {
			for second := cut; second < len(head); second += 3 {
				got := scanned(head[:cut]+"", head[cut:second], head[second:]+expect)
				require.Len(t, got, len(head)+len(expect))
				require.True(t, strings.HasSuffix(got, expect), "cut at %d, %d: the body was changed: %q", cut, second, got)
			}
		}
	}
	for _, head := range []string{"PUT / HTTP/1.1\r\nExpect: 100-Continue\r\n\r\n", "PUT / HTTP/1.1\r\nX-Expect: 200-ok\r\n\r\n", "\r\nExpect: 200-ok\r\n\r\n", "put / HTTP/1.1\r\nExpect: 200-ok\r\n\r\n"} {
		require.Equal(t, head, scanned(head))
	}
}

// FuzzScanHead checks that scan only replaces bytes by spaces, and only up to the first empty line.
func FuzzScanHead(f *testing.F) {
	f.Add([]byte("PUT / HTTP/1.1\r\nExpect: 200-ok\r\n\r\nExpect: 200-ok\r\n"), uint8(7))
	f.Add([]byte("GET / HTTP/1.1\nexpect:\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		var pieces []string
		for rest := string(data); rest != ""; {
			n := min(len(rest), int(size)+1)
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got := scanned(pieces...)
		if len(got) != len(data) {
			t.Fatalf("%q became %q", data, got)
		}
		end := len(data)
		for _, empty := range []string{"\n\r\n", "\n\n"} {
			if i := strings.Index(string(data), empty); i >= 0 {
				end = min(end, i+len(empty))
			}
		}
		for i := range got {
			if got[i] != data[i] && (got[i] != ' ' || i >= end) {
				t.Fatalf("%q became %q", data, got)
			}
		}
	})
}

// BenchmarkScanHead measures the cost of scanning a head.
func BenchmarkScanHead(b *testing.B) {
	head := []byte("PUT /bucket/some/key HTTP/1.1\r\nHost: localhost:9000\r\nUser-Agent: aws-sdk-go-v2/1.0 lang/go#1.26\r\nContent-Length: 4096\r\n" +
		"Accept-Encoding: identity\r\nAmz-Sdk-Invocation-Id: 00000000-0000-4000-8000-000000000000\r\nAmz-Sdk-Request: attempt=1; max=3\r\n" +
		"Authorization: AWS4-HMAC-SHA256 " + strings.Repeat("x", 250) + "\r\nContent-Type: application/octet-stream\r\n" +
		"X-Amz-Content-Sha256: " + strings.Repeat("0", 64) + "\r\nX-Amz-Date: 20260101T000000Z\r\n\r\n")
	h := &conn{}
	b.ReportAllocs()
	for b.Loop() {
		h.at = before
		h.scan(head)
	}
}
