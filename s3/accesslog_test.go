package s3

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/gate"
)

// The line that appendAccess writes is equal to the line of the logger.
func TestAccessLineMatchesLogger(t *testing.T) {
	start := time.Date(2026, 11, 21, 3, 4, 5, 678_000_000, time.UTC)
	for _, key := range []string{"plain/key.txt", `"quoted\`, "new\nline\x00\x1b[31m\x7f", "ключ 钥匙 🔑", "bad \xff\xfe utf-8", "<&>\u2028", ""} {
		for _, cause := range []error{nil, errors.New("because\n" + key)} {
			var byHand, byLogger bytes.Buffer
			e := &gate.Event{
				ID: "0123", Operation: "GetObject", Method: "GET", Bucket: "b", Key: key, Remote: "192.0.2.1:1234", AccessKey: "AKIA",
				Status: 404, Code: "NoSuchKey", Cause: cause, In: 5, Out: 17, Start: start, Took: 1234 * time.Microsecond,
			}
			l := newAccessLog(slog.New(slog.NewJSONHandler(&byLogger, nil)), &byHand)
			l.Observe(t.Context(), e)
			l.throughLogger(t.Context(), e)
			require.Equal(t, 1, bytes.Count(byHand.Bytes(), []byte("\n")), "one line")
			got, want := fieldsOf(t, byHand.Bytes()), fieldsOf(t, byLogger.Bytes())
			require.Equal(t, "2026-11-21T03:04:05.679234Z", got["time"])
			delete(got, "time")
			delete(want, "time") // slog uses the real clock
			require.Equal(t, want, got)
		}
	}
}

// Requests that fail because of the server are logged through the logger.
func TestServerFailuresUseLogger(t *testing.T) {
	var byHand, byLogger bytes.Buffer
	l := newAccessLog(slog.New(slog.NewJSONHandler(&byLogger, nil)), &byHand)
	l.Observe(t.Context(), &gate.Event{Status: 500, Fault: true, Cause: errors.New("x")})
	require.Empty(t, byHand.String())
	require.Equal(t, "ERROR", fieldsOf(t, byLogger.Bytes())["level"])
}

func fieldsOf(t *testing.T, line []byte) (fields map[string]any) {
	require.NoError(t, json.Unmarshal(line, &fields), string(line))
	return fields
}
