package report

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// Markdown returns sections as Markdown. The plots are in plotDir, relative to the text.
func Markdown(sections []Section, plotDir string) []byte {
	var b bytes.Buffer
	paragraphs := func(list []string) {
		for _, p := range list {
			fmt.Fprintf(&b, "%s\n\n", p)
		}
	}
	for _, s := range sections {
		fmt.Fprintf(&b, "## %s\n\n", s.Title)
		paragraphs(s.Text)
		for _, t := range s.Table {
			t.markdown(&b)
		}
		for _, p := range s.Plots {
			fmt.Fprintf(&b, "![%s](%s)\n\n", p.Title, path.Join(plotDir, p.Name))
			for _, line := range p.Text {
				fmt.Fprintf(&b, "- %s\n", line)
			}
			if len(p.Text) > 0 {
				b.WriteString("\n")
			}
		}
		paragraphs(s.After)
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
