package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/admin"
)

func TestLogIsBufferedAndErrorsAreNot(t *testing.T) {
	var out syncedBuilder
	b := newLogBuffer(&out, LogRequests.level(), LogJSON)
	go b.run(time.Hour)
	log := newLogger(b, LogRequests.level(), LogJSON)
	log.Info("access")
	require.Empty(t, out.String())
	log.With("a", 1).WithGroup("g").Error("broken")
	require.Contains(t, out.String(), `"access"`)
	require.Contains(t, out.String(), `"broken"`)
	for range 2000 {
		log.Info("a line of some length that fills the buffer")
	}
	require.Eventually(t, func() bool { return len(out.String()) > logBufferBytes }, time.Minute, time.Millisecond)
	log.Info("last")
	b.Close()
	require.Contains(t, out.String(), `"last"`)
	require.Equal(t, 2003, strings.Count(out.String(), "\n"))
	log.Error("late")
	require.NotContains(t, out.String(), "late")
}

// pipe is the output of a log, like a pipe whose reader can stop, or a file on a drive that can be full.
type pipe struct {
	syncedBuilder
	closed  sync.Mutex // held while nobody reads
	waiting chan struct{}
	fails   func(p []byte) (n int, err error) // nil while the drive is not full; guarded by closed
}

func newPipe() *pipe { return &pipe{waiting: make(chan struct{}, 1)} }

func (p *pipe) Write(b []byte) (int, error) {
	select {
	case p.waiting <- struct{}{}:
	default:
	}
	p.closed.Lock()
	defer p.closed.Unlock()
	if p.fails != nil {
		n, err := p.fails(b)
		_, _ = p.syncedBuilder.Write(b[:n])
		return n, err
	}
	return p.syncedBuilder.Write(b)
}

// numbers returns the field n of each line, or "lost N of M" for a line about lost ones.
func numbers(t *testing.T, text string) (list []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var fields struct{ N, Lost, Total any }
		require.NoError(t, json.Unmarshal([]byte(line), &fields), "%s", text)
		if fields.N != nil {
			list = append(list, fmt.Sprint(fields.N))
		} else {
			list = append(list, fmt.Sprintf("lost %v of %v", fields.Lost, fields.Total))
		}
	}
	return list
}

// TestBlockedLog: nothing waits for a log that nobody reads. Lines beyond the size of the buffer are lost; the log says
// how many, in their place.
func TestBlockedLog(t *testing.T) {
	out := newPipe()
	b := newLogBuffer(out, LogRequests.level(), LogJSON)
	b.max = 1000
	go b.run(time.Hour)
	log := newLogger(b, LogRequests.level(), LogJSON)
	line := func(n int) { log.Warn("a line", "n", n) }
	out.closed.Lock()
	line(0)
	<-out.waiting
	for n := range 100 {
		line(n + 1)
	}
	lost := b.Lost()
	require.Greater(t, lost, int64(50))
	require.Contains(t, b.Problem(), fmt.Sprintf("lines lost since the start: %d", lost))
	out.closed.Unlock()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.handled == b.added
	}, time.Minute, time.Millisecond)
	line(101)
	require.Equal(t, lost, b.Lost())
	b.Close()
	list := numbers(t, out.String())
	kept := 101 - int(lost)
	for n := range kept {
		require.Equal(t, fmt.Sprint(n), list[n])
	}
	require.Equal(t, []string{fmt.Sprintf("lost %d of %[1]d", lost), "101"}, list[kept:])
	require.Contains(t, b.Problem(), "could not be written fast enough")
	b.lostAt = b.lostAt.Add(-logRecent)
	require.Empty(t, b.Problem())
}

// TestStopWithBlockedLog: a stop does not wait for the log.
func TestStopWithBlockedLog(t *testing.T) {
	out := newPipe()
	b := newLogBuffer(out, LogRequests.level(), LogJSON)
	go b.run(time.Hour)
	log := newLogger(b, LogRequests.level(), LogJSON)
	out.closed.Lock()
	log.Warn("a line", "n", 1)
	b.mu.Lock()
	b.began = b.began.Add(-2 * logBlocked)
	b.mu.Unlock()
	require.Contains(t, b.Problem(), "nothing has read it for 2")
	b.Close()
	require.Empty(t, out.String())
	out.closed.Unlock()
	<-b.done
	require.Equal(t, []string{"1"}, numbers(t, out.String()))
}

// TestFailedLog: the lines of a failed write are lost, and the next line begins on a line of its own.
func TestFailedLog(t *testing.T) {
	out := newPipe()
	b := newLogBuffer(out, LogRequests.level(), LogJSON)
	log := newLogger(b, LogRequests.level(), LogJSON)
	full := errors.New("no space left on device")
	out.fails = func(p []byte) (int, error) { return bytes.IndexByte(p, '\n') + 10, full }
	for n := range 3 {
		log.LogAttrs(t.Context(), slog.LevelInfo, "a line", slog.Int("n", n))
	}
	b.proceed(nil)
	require.Equal(t, int64(2), b.Lost())
	require.Contains(t, b.Problem(), "the log cannot be written: no space left on device; lines lost since the start: 2")
	out.fails = func([]byte) (int, error) { return 0, full }
	b.proceed(nil) // it cannot write the note either
	require.Contains(t, b.Problem(), full.Error())
	log.Info("a line", "n", 3)
	b.proceed(nil)
	require.Equal(t, int64(3), b.Lost())
	out.fails = nil
	b.proceed(nil)
	log.Info("a line", "n", 4)
	b.proceed(nil)
	lines := strings.SplitAfter(out.String(), "\n")
	require.Len(t, lines[1], 10)
	require.Equal(t, []string{"0", "lost 3 of 3", "4"}, numbers(t, lines[0]+strings.Join(lines[2:], "")))
	require.Equal(t, int64(3), b.Lost())
	require.NotContains(t, b.Problem(), full.Error())
}

// TestServerWithBlockedLog: requests and a stop do not wait for the log; the status and the metrics show the lost lines.
func TestServerWithBlockedLog(t *testing.T) {
	out := newPipe()
	config := testConfig(t)
	config.Admin, config.Log = "127.0.0.1:0", out
	s, stop := running(t, config)
	out.closed.Lock()
	defer out.closed.Unlock()
	s.logBuffer.mu.Lock()
	s.logBuffer.max = 4000
	s.logBuffer.mu.Unlock()
	for range 100 {
		response, err := httpClient(t, s).Get(s.Endpoint() + "/bucket/key")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	require.Eventually(t, func() bool { return s.logBuffer.Lost() > 80 }, time.Minute, time.Millisecond)
	_, text := scrape(t, s, "")
	require.Greater(t, value(t, text, "orcas_log_dropped_total"), 80.0)
	r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
	require.NoError(t, err)
	var st *admin.Status
	st, err = s.status(r)
	require.NoError(t, err)
	require.Greater(t, st.LogDropped, int64(80))
	require.Contains(t, fmt.Sprint(st.Warnings), "lines lost since the start: ")
	require.NoError(t, stop())
}
