package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFailedWorkIsLogged: an error that no client gets is logged, with the command that started the work.
func TestFailedWorkIsLogged(t *testing.T) {
	const message = "the work that orcas admin scrub started has failed: correct the cause, and run the command again"
	gone, leave := context.WithCancel(t.Context())
	leave()
	stopping, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		path           string
		client, server context.Context
		err            error
		logged         bool
	}{
		"without waiting": {"/", t.Context(), t.Context(), errors.New("broken"), true},
		"waiting":         {"/?wait=true", t.Context(), t.Context(), errors.New("broken"), false},
		"disconnected":    {"/?wait=true", gone, t.Context(), errors.New("broken"), true},
		"no error":        {"/", t.Context(), t.Context(), nil, false},
		"stopping":        {"/", t.Context(), stopping, errors.New("canceled"), false},
	} {
		var log strings.Builder
		s := &Store{Logger: slog.New(slog.NewTextHandler(&log, nil)), Go: func(work func(context.Context)) { work(c.server) }}
		work := func(context.Context) (any, error) { return nil, c.err }
		status := func(*http.Request) (any, error) { return "started", nil }
		_, _ = s.run(httptest.NewRequestWithContext(c.client, "POST", c.path, nil), "orcas admin scrub", work, status)
		require.Equal(t, c.logged, strings.Contains(log.String(), message), "%s: %s", name, log.String())
	}
}
