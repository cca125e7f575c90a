package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"html/template"
	"strings"

	"orcas/perf/result"
)

//go:embed page.html
var pageText string

// Page returns a run as one self-contained HTML page.
func Page(r *result.Run, plots []Plot) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"image": func(p Plot) template.URL {
			return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(p.PNG))
		},
		"id":    func(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") },
		"bold":  func(s string) string { return strings.Trim(s, "*") },
		"isBad": func(s string) bool { return strings.HasPrefix(s, "**") },
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	sections := append(Front(r, plots), Tables(r, plots)...)
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Run": r, "Sections": sections})
	return b.Bytes(), err
}
