package s3

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The line that is written by hand says what the logger would say.
func TestAccessLineIsTheLoggers(t *testing.T) {
	start := time.Date(2026, 11, 21, 3, 4, 5, 678_000_000, time.UTC)
	for _, key := range []string{"plain/key.txt", `"quoted\`, "new\nline\x00\x1b[31m\x7f", "ключ 钥匙 🔑", "bad \xff\xfe utf-8", "<&>\u2028", ""} {
		for _, cause := range []error{nil, errors.New("because\n" + key)} {
			var byHand, byLogger bytes.Buffer
			s := &Server{
				accessLog: &byHand, log: slog.New(slog.NewJSONHandler(&byLogger, nil)), now: func() time.Time { return start.Add(1234 * time.Microsecond) },
			}
			s.documents.New = func() any { return new(xmlWriter) }
			q := &request{
				s: s, r: httptest.NewRequest(http.MethodGet, "/", nil), ctx: t.Context(), start: start, id: "0123", bucketName: "b", key: key,
				status: 404, out: 17, code: "NoSuchKey", cause: cause, route: &route{name: "GetObject"},
			}
			q.body.count = 5
			q.logAccess()
			q.logSlow()
			require.Equal(t, 1, bytes.Count(byHand.Bytes(), []byte("\n")), "one line")
			got, want := fieldsOf(t, byHand.Bytes()), fieldsOf(t, byLogger.Bytes())
			require.NotEmpty(t, got["time"])
			delete(got, "time")
			delete(want, "time") // slog has a clock of its own
			require.Equal(t, want, got)
		}
	}
}

// What is the server's fault goes through the logger.
func TestFaultsGoThroughTheLogger(t *testing.T) {
	var byHand, byLogger bytes.Buffer
	s := &Server{accessLog: &byHand, log: slog.New(slog.NewJSONHandler(&byLogger, nil)), now: time.Now}
	q := &request{s: s, r: httptest.NewRequest(http.MethodGet, "/", nil), ctx: t.Context(), status: 500, faulty: true, cause: errors.New("x")}
	q.logAccess()
	require.Empty(t, byHand.String())
	require.Equal(t, "ERROR", fieldsOf(t, byLogger.Bytes())["level"])
}

func fieldsOf(t *testing.T, line []byte) (fields map[string]any) {
	require.NoError(t, json.Unmarshal(line, &fields), string(line))
	return fields
}
