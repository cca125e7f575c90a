package server

import (
	"bytes"
	"crypto/tls"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestEndlessHeadersAreCutOff: net/http reads empty CONTINUATION frames for as long as they arrive, and has no time
// limit for headers over HTTP/2. But a client in the middle of a header block cannot respond to a ping, so the
// connection is closed when a ping gets no response in time.
func TestEndlessHeadersAreCutOff(t *testing.T) {
	config := testConfig(t)
	config.SelfSigned = true
	s, err := Open(t.Context(), config)
	require.NoError(t, err)
	require.Positive(t, s.http.HTTP2.SendPingTimeout)
	require.Positive(t, s.http.HTTP2.PingTimeout)
	require.LessOrEqual(t, s.http.HTTP2.SendPingTimeout+s.http.HTTP2.PingTimeout, time.Minute)
	s.http.HTTP2.SendPingTimeout, s.http.HTTP2.PingTimeout = 50*time.Millisecond, 50*time.Millisecond
	go func() { _ = s.http.ServeTLS(s.listener, "", "") }()
	defer func() { require.NoError(t, s.Close()) }()

	conn, err := tls.Dial("tcp", s.listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	defer conn.Close()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(closed)
	}()
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	require.NoError(t, framer.WriteSettings())
	require.NoError(t, framer.WriteSettingsAck())
	var block bytes.Buffer
	require.NoError(t, hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":method", Value: "GET"}))
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true}))
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	limit := time.After(time.Minute)
	for sent := 0; ; sent++ {
		select {
		case <-closed:
			require.Positive(t, sent)
			return
		case <-limit:
			t.Fatal("the connection is still open after a minute")
		case <-ticks.C:
			_ = framer.WriteContinuation(1, false, nil) // ignore the error: if the connection is closed, closed ends the loop
		}
	}
}
