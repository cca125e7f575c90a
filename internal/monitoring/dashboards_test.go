package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboardFile is the part of a Grafana dashboard that the tests check.
type dashboardFile struct {
	UID        string
	Title      string
	Templating struct{ List []struct{ Name, Type string } }
	Panels     []struct {
		ID          int
		Type        string
		Title       string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Datasource  struct{ UID string }
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct {
			RefID        string `json:"refId"`
			Expr         string
			LegendFormat string
			Datasource   struct{ UID string }
		}
	}
}

// TestDashboardFiles compares the files in deploy/grafana with the dashboards, or writes them (make dashboards).
func TestDashboardFiles(t *testing.T) {
	dir := filepath.Join(root, "deploy", "grafana")
	var want, got []string
	for _, d := range Dashboards() {
		name := filepath.Join(dir, d.UID+".json")
		if os.Getenv("ORCAS_DASHBOARDS") == "1" {
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(name, d.File(), 0o644))
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err, "run `make dashboards`")
		require.Equal(t, string(d.File()), string(text), "%s differs from internal/monitoring: run `make dashboards`", name)
		want = append(want, name)
	}
	got, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
}

// TestDashboardsAreComplete checks the layout of each dashboard, and that nothing that a reader needs is missing.
func TestDashboardsAreComplete(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range Dashboards() {
		var file dashboardFile
		require.NoError(t, json.Unmarshal(d.File(), &file))
		assert.False(t, uids[file.UID], file.UID)
		uids[file.UID] = true
		assert.Equal(t, "datasource", file.Templating.List[0].Name)
		assert.Equal(t, "instance", file.Templating.List[1].Name)
		type cell struct{ x, y int }
		used, ids, titles, row := map[cell]string{}, map[int]bool{}, map[string]bool{}, ""
		for _, p := range file.Panels {
			name := file.Title + ": " + p.Title
			assert.False(t, ids[p.ID], name)
			ids[p.ID] = true
			assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, columns, name)
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					assert.Empty(t, used[cell{x, y}], "%s overlaps", name)
					used[cell{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				row = p.Title
				continue
			}
			assert.False(t, titles[row+p.Title], "%s is in a row twice", name)
			titles[row+p.Title] = true
			assert.Regexp(t, `^[A-Z0-9].*\.$`, p.Description, name)
			assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, name)
			assert.Equal(t, "${datasource}", p.Datasource.UID, name)
			assert.NotEmpty(t, p.Targets, name)
			refs := map[string]bool{}
			for _, target := range p.Targets {
				assert.False(t, refs[target.RefID], name)
				refs[target.RefID] = true
				assert.Equal(t, "${datasource}", target.Datasource.UID, name)
				assert.Contains(t, target.Expr, `instance=~"$instance"`, name)
				if p.Type != string(stat) {
					assert.NotEmpty(t, target.LegendFormat, name)
				}
			}
		}
	}
}
