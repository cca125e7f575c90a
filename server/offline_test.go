package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/durable"
)

// TestSwapIsCutAnywhere interrupts the swap of databases before and after each of its steps: no database is ever next
// to the log of another one, and the old database is intact under its old or its new name.
func TestSwapIsCutAnywhere(t *testing.T) {
	cut := errors.New("cut")
	for n, whole := 0, false; !whole; n++ {
		for _, done := range []bool{false, true} {
			dir := t.TempDir()
			at := filepath.Join(dir, databaseFile)
			for name, text := range map[string]string{"": "old", logSuffix: "old log", indexSuffix: "old index", ".new": "new"} {
				require.NoError(t, os.WriteFile(at+name, []byte(text), 0o600))
			}
			steps := 0
			o := &Offline{Dir: dir, steps: durable.Steps{Hook: func(_ durable.Step, do func() error) error {
				steps++
				if steps-1 < n {
					return do()
				}
				if done && steps-1 == n {
					_ = do()
				}
				return cut
			}}}
			kept, err := o.SwapDatabase("test", time.Now())
			whole = err == nil
			read := func(path string) string {
				b, _ := os.ReadFile(path)
				return string(b)
			}
			database, log := read(at), read(at+logSuffix)
			switch database {
			case "old":
				require.Equal(t, "old log", log)
			case "new":
				require.Empty(t, log)
			default:
				require.Empty(t, database)
			}
			if database != "old" && kept != "" {
				require.Equal(t, "old", read(filepath.Join(dir, kept)))
			}
			if whole {
				require.Equal(t, "new", database)
				require.Equal(t, "old log", read(filepath.Join(dir, kept+logSuffix)))
				require.Greater(t, n, 6)
			}
		}
	}
}
