package iofault

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBrokenDownloadExplainsItself: the report of a download that breaks off has the error of the client, and the
// number of bytes that arrived.
func TestBrokenDownloadExplainsItself(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write(make([]byte, 10))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	k := checker{c: newClient(&process{endpoint: s.URL, admin: s.URL}), m: newModel(), reads: true}
	k.object("large")
	require.Len(t, k.wrong, 1)
	require.Contains(t, k.wrong[0], "GET large: a download that broke off (unexpected EOF, after 10 bytes and ")

	text, err := os.ReadFile("/proc/net/netstat")
	require.NoError(t, err)
	require.Contains(t, string(text), " TCPAbortOnMemory ", "resetsForMemory depends on it")
}

func TestCompareBlocks(t *testing.T) {
	base, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.MkdirAll(filepath.Join(base, "blocks", "1"), 0o755))
	for _, name := range []string{"same", "other", "short", "deleted"} {
		require.NoError(t, os.WriteFile(filepath.Join(base, "blocks", "1", name), []byte("content"), 0o600))
	}
	require.NoError(t, os.CopyFS(copied, os.DirFS(base)))
	require.Equal(t, "4 files with 28 bytes are as in the initial data directory; others: []", compareBlocks(base, copied))
	require.NoError(t, os.WriteFile(filepath.Join(copied, "blocks", "1", "other"), []byte("Content"), 0o600))
	require.NoError(t, os.Truncate(filepath.Join(copied, "blocks", "1", "short"), 3))
	require.NoError(t, os.Remove(filepath.Join(copied, "blocks", "1", "deleted")))
	got := compareBlocks(base, copied)
	require.Contains(t, got, "1 files with 7 bytes are as in")
	require.Contains(t, got, "blocks/1/other has 7 bytes with SHA-256 ")
	require.Contains(t, got, "blocks/1/short has 3 bytes with SHA-256 ")
	require.Contains(t, got, "blocks/1/deleted: no such file or directory")
}
