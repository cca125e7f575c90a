package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// rule is an alert rule. Unknown fields are errors.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// rules returns the alert rules, in the order of the file.
func rules(t *testing.T) (all []rule) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "deploy/prometheus/alerts.yaml")))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// TestEachAlertHasARunbook compares the rules with the table and the sections of docs/alerts.md, both ways.
func TestEachAlertHasARunbook(t *testing.T) {
	page := read(t, "docs/alerts.md")
	var want, rows, sections []string
	for _, r := range rules(t) {
		want = append(want, r.Alert+" "+r.Labels["severity"])
		assert.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		assert.Equal(t, "docs/alerts.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"], r.Alert)
		assert.Contains(t, r.Annotations["summary"], "{{ $labels.instance }}", r.Alert)
		assert.NotEmpty(t, r.Annotations["description"], r.Alert)
		assert.Contains(t, r.Expr, `{job="orcas"`, r.Alert)
	}
	for _, m := range regexp.MustCompile(`(?m)^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \|`).FindAllStringSubmatch(page, -1) {
		assert.Equal(t, strings.ToLower(m[1]), m[2])
		rows = append(rows, m[1]+" "+m[3])
	}
	assert.Equal(t, want, rows, "the table of docs/alerts.md")
	for _, part := range strings.Split(page, "\n### ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		i := slices.IndexFunc(want, func(w string) bool { return strings.HasPrefix(w, name+" ") })
		if assert.GreaterOrEqual(t, i, 0, "docs/alerts.md has a section about %s, which is not an alert", name) {
			sections = append(sections, want[i])
		}
		for _, heading := range []string{"**Means:** ", "**Why it matters:** ", "**Look at:**\n\n- ", "**Do:**\n\n- "} {
			assert.Contains(t, text, "\n"+heading, "the section about %s", name)
		}
	}
	assert.Equal(t, want, sections, "the sections of docs/alerts.md")
}

// TestEachAlertIsTested: `promtool test rules` has a test in which the alert fires, and in which it does not.
func TestEachAlertIsTested(t *testing.T) {
	var file struct {
		Tests []struct {
			Name  string
			Cases []struct {
				Alert string           `yaml:"alertname"`
				Want  []map[string]any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "deploy/prometheus/alerts_test.yaml")), &file))
	firing, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Want) > 0 {
				firing[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	for _, r := range rules(t) {
		assert.True(t, firing[r.Alert], "%s fires in no test", r.Alert)
		assert.True(t, quiet[r.Alert], "%s is quiet in no test", r.Alert)
	}
}

// TestMetricsExist compares the metrics and labels in queries of dashboards and alerts with docs/metrics.md.
func TestMetricsExist(t *testing.T) {
	labels := map[string]string{} // by metric: its labels, as in the page
	for _, m := range regexp.MustCompile("(?m)^\\| `(orcas_\\w+)(?:\\{([\\w,]+)\\})?` \\| (\\w+) \\|").
		FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		labels[m[1]] = "," + m[2] + ",job,instance,"
		if m[3] == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				labels[m[1]+part] = labels[m[1]] + "le,"
			}
		}
	}
	require.Greater(t, len(labels), 30)
	queries := map[string][]string{}
	for _, r := range rules(t) {
		queries[r.Alert] = []string{r.Expr}
	}
	for _, d := range Dashboards() {
		for _, s := range d.sections {
			for _, p := range s.panels {
				for _, q := range p.queries {
					queries[d.Title+": "+p.title] = append(queries[d.Title+": "+p.title], q.expr)
				}
			}
		}
	}
	used := regexp.MustCompile(`\b(orcas_\w+)(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"`)
	for name, list := range queries {
		for _, m := range used.FindAllStringSubmatch(strings.Join(list, "\n"), -1) {
			if !assert.Contains(t, labels, m[1], "%s: docs/metrics.md has no metric %s", name, m[1]) {
				continue
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				assert.Contains(t, labels[m[1]], ","+l[1]+",", "%s: %s has no label %s", name, m[1], l[1])
			}
		}
	}
}
