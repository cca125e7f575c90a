package result

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fake is a Test with a given outcome.
type fake struct {
	failed, skipped bool
	end             func()
}

func (f *fake) Cleanup(fn func())     { f.end = fn }
func (f *fake) Failed() bool          { return f.failed }
func (f *fake) Skipped() bool         { return f.skipped }
func (f *fake) Errorf(string, ...any) { f.failed = true }
func (f *fake) run(r Row, n int)      { Of(f, r).Tried = n; f.end() }

func TestRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	t.Setenv("ORCAS_FAULTS_RESULTS", path)
	(&fake{}).run(Row{Fault: "sigkill", Unit: "kills", Seed: 7, Acknowledged: 12}, 3)
	(&fake{skipped: true}).run(Row{Fault: "power-cut"}, 1)
	(&fake{failed: true}).run(Row{Fault: "clock"}, 1)
	(&fake{failed: true}).run(Row{Fault: "model", Violations: map[string]int{"lost": 2, "torn": 1}}, 1)
	rows, err := Read(path)
	require.NoError(t, err)
	require.Len(t, rows, 3, "a skipped test must not add a row")
	require.Equal(t, "sigkill", rows[0].Fault)
	require.Equal(t, 3, rows[0].Tried)
	require.Zero(t, rows[0].Total())
	require.Equal(t, 1, rows[1].Total(), "a failure counts as a violation")
	require.Equal(t, 3, rows[2].Total())
	e := rows[0].Environment
	require.NotEmpty(t, e.Kernel)
	require.NotEmpty(t, e.Go)
	require.Positive(t, e.Cores)
	require.Positive(t, e.Memory)

	require.NoError(t, os.WriteFile(path, []byte("{}\nnothing\n"), 0o644))
	_, err = Read(path)
	require.ErrorContains(t, err, "line 2")
}

func TestCounts(t *testing.T) {
	require.Equal(t, "killed 3, stopped 1", Counts(map[string]int{"stopped": 1, "killed": 3}))
}

func TestAddWithoutAFile(t *testing.T) {
	t.Setenv("ORCAS_FAULTS_RESULTS", "")
	require.NoError(t, Add(Row{Started: time.Now()}))
}
