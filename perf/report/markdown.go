package report

import (
	"bytes"
	"fmt"
	"strings"

	"orcas/perf/result"
)

// Markdown writes a run as Markdown. Plots are named relative to the report: plotDir is where they are.
func Markdown(r *result.Run, plots []Plot, plotDir string) []byte {
	var b bytes.Buffer
	for _, s := range Sections(r, plots) {
		if s.Title == "" {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n", s.Title)
		for _, p := range s.Text {
			fmt.Fprintf(&b, "%s\n\n", p)
		}
		for _, t := range s.Table {
			t.markdown(&b)
		}
		for _, p := range s.Plots {
			fmt.Fprintf(&b, "![%s](%s)\n\n", p.Title, strings.TrimPrefix(plotDir+"/", "/")+p.Name)
		}
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

func (t Table) markdown(b *bytes.Buffer) {
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			fmt.Fprintf(b, " %s |", strings.ReplaceAll(c, "|", `\|`))
		}
		b.WriteString("\n")
	}
	line(t.Header)
	dashes := make([]string, len(t.Header))
	for i := range dashes {
		dashes[i] = "---"
	}
	line(dashes)
	for _, r := range t.Rows {
		line(r)
	}
	b.WriteString("\n")
	if t.Limit != "" {
		fmt.Fprintf(b, "%s\n\n", t.Limit)
	}
}

// String renders a table as Markdown.
func (t Table) String() string {
	var b bytes.Buffer
	t.markdown(&b)
	return b.String()
}
