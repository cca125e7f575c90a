package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTextLog(t *testing.T) {
	var out syncedBuilder
	h := newTextHandler(&out, slog.LevelInfo)
	log := slog.New(h)
	line := func() string {
		all := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
		text := all[len(all)-1]
		require.Regexp(t, `^\d\d:\d\d:\d\d `, text)
		return text[len("15:04:05 "):]
	}
	log.Warn("the drive is full", "free", 12, "path", "/a b", "err", errors.New(`no "space"`), "none", nil, "took", 1500*time.Millisecond)
	require.Equal(t, `WARN  the drive is full free=12 path="/a b" err="no \"space\"" took=1.5s`, line())
	log.With("a", 1).WithGroup("g").With("b", 2).Info("x", "c", 3, slog.Group("d", "e", ""))
	require.Equal(t, `INFO  x a=1 g.b=2 g.c=3 g.d.e=""`, line())
	log.Error("evil\x1b[2J", "key", "line\nline\x1b[31m", "ключ", "k=v", "utf", "\xff")
	require.Equal(t, `ERROR "evil\x1b[2J" key="line\nline\x1b[31m" ключ="k=v" utf="\xff"`, line())
	before := out.String()
	log.Debug("not this")
	require.Equal(t, before, out.String())
}

// TestLogModes starts a server in every mode and format, sends two requests for a missing bucket, and stops it.
func TestLogModes(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		mode     LogMode
		format   LogFormat
		want     []string // in the log
		not      []string
	}{
		{"a file", false, "", "", []string{`"msg":"request"`, `"msg":"store open"`, `"msg":"stopping"`, `"level":"WARN"`}, []string{`"p50`, "INFO+2"}},
		{"a terminal", true, "", "", []string{" WARN  ORCAS_X is not", " INFO  stopping", " INFO  stopped",
			" INFO  requests requests=2 refused=2 failed=0 in=\"0 B\" out="}, []string{"{", "store open", "GET", "INFO+2"}},
		{"off", true, LogOff, "", nil, []string{"\n"}},
		{"errors", true, LogErrors, "", []string{" WARN  ORCAS_X"}, []string{"stopping", "requests", "{"}},
		{"errors to a file", false, LogErrors, "", []string{`"level":"WARN"`}, []string{`"INFO"`}},
		{"requests on a terminal", true, LogRequests, "", []string{" INFO  request id=", " method=GET ", " status=404 ", "store open"}, []string{"{", "p50"}},
		{"text in a file", false, "", LogText, []string{" INFO  request id=", "store open"}, []string{"{", "p50"}},
		{"JSON on a terminal", true, "", LogJSON, []string{`"msg":"requests","requests":2,"client_errors":2,"server_errors":0,"in":0,"out":`, `"msg":"stopped"`},
			[]string{`"msg":"request"`, "store open", "INFO+2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := testConfig(t)
			var log syncedBuilder
			config.Log, config.Terminal = &log, c.terminal
			config.Settings.Log, config.Settings.LogFormat = c.mode, c.format
			config.Settings.Warnings = []string{"ORCAS_X is not a setting of this version"}
			s, stop := running(t, config)
			for range 2 {
				response, err := httpClient(t, s).Get(s.Endpoint() + "/bucket/key")
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, http.StatusNotFound, response.StatusCode)
			}
			require.NoError(t, stop())
			for _, want := range c.want {
				require.Contains(t, log.String(), want)
			}
			for _, not := range c.not {
				require.NotContains(t, log.String(), not)
			}
			require.NotContains(t, log.String(), s.Credentials().SecretKey)
		})
	}
}

// TestSummaries: there is one summary for each interval with requests, and one at the end.
func TestSummaries(t *testing.T) {
	var out syncedBuilder
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	config := testConfig(t)
	config.Log = &out
	config.Settings.Log, config.Settings.LogFormat = LogSummary, LogJSON
	s, stop := running(t, config)
	get := func() {
		response, err := httpClient(t, s).Get(s.Endpoint() + "/")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	get()
	go func() {
		defer close(done)
		summarize(ctx, s.log, &s.tally, time.Millisecond, LogJSON)
	}()
	lines := func() int { return strings.Count(out.String(), `"msg":"requests"`) }
	require.Eventually(t, func() bool { return lines() == 1 }, time.Minute, time.Millisecond)
	get()
	require.Eventually(t, func() bool { return lines() == 2 }, time.Minute, time.Millisecond)
	cancel()
	<-done
	get()
	require.NoError(t, stop())
	require.Equal(t, 3, lines(), "the shutdown must log a summary of the last request")
	for _, m := range regexp.MustCompile(`(?m)^.*"msg":"requests".*$`).FindAllString(out.String(), -1) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(m), &fields))
		require.Equal(t, []any{"INFO", 1.0, 1.0}, []any{fields["level"], fields["requests"], fields["client_errors"]})
		require.Positive(t, fields["p50_us"])
		require.Positive(t, fields["seconds"])
	}
}
