// Command orcas-report writes the report on a performance run: Markdown, plots and an HTML page. It is a separate
// program because it needs fonts and a plotting library, which a server does not need. `orcas perf report` runs it.
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/alecthomas/kong"

	"orcas/perf/report"
	"orcas/perf/report/draw"
	"orcas/perf/result"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

type command struct {
	File     string `arg:"" name:"run" placeholder:"RUN.json" help:"Read the run from this file, written by orcas perf run --json."`
	Out      string `default:"report" placeholder:"DIR" help:"Write report.md, tables.md, report.html and the plots to this directory (default ${default})."`
	Bench    string `placeholder:"FILE" help:"Add tables of the Go benchmark results (output of go test -bench) in this file."`
	Head     string `placeholder:"FILE" help:"Begin the Markdown with the text of this file."`
	Markdown string `placeholder:"FILE" help:"Write the Markdown to this file instead. Links to the plots are relative to that file."`
}

// run does the work of main, and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	var c command
	helped := false
	parser, err := kong.New(&c,
		kong.Name("orcas perf report"),
		kong.Description("Write a report on a performance run: Markdown, plots and an HTML page."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
	)
	if err != nil {
		fmt.Fprintln(stderr, "orcas-report:", err)
		return exitFailed
	}
	_, err = parser.Parse(args)
	if helped {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "orcas-report: %v (orcas-report --help lists the flags)\n", err)
		return exitUsage
	}
	if err := c.write(stdout); err != nil {
		fmt.Fprintln(stderr, "orcas-report:", err)
		return exitFailed
	}
	return exitOK
}

// write writes the report.
func (c *command) write(stdout io.Writer) error {
	doc, err := result.ReadFile(c.File)
	if err != nil {
		return err
	}
	if c.Bench != "" {
		if doc.Benchmarks, err = readBenchmarks(c.Bench); err != nil {
			return err
		}
	}
	plots, err := draw.Plots(doc)
	if err != nil {
		return err
	}
	page, err := report.Page(doc, plots)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	markdown := cmp.Or(c.Markdown, filepath.Join(c.Out, "report.md"))
	plotDir, err := filepath.Rel(filepath.Dir(markdown), c.Out)
	if err != nil {
		return err
	}
	head := []byte("# Performance\n")
	if c.Head != "" {
		if head, err = os.ReadFile(c.Head); err != nil {
			return err
		}
	}
	front, tables := texts(doc, plots, head, filepath.ToSlash(plotDir))
	files := map[string][]byte{markdown: front, filepath.Join(c.Out, "tables.md"): tables, filepath.Join(c.Out, "report.html"): page}
	for _, p := range plots {
		files[filepath.Join(c.Out, p.Name)] = p.PNG
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "wrote %s and %d files in %s\n", markdown, len(files)-1, c.Out)
	return err
}

// texts returns the front page and the page of tables. The front page links to the tables and the plots, which are in
// plotDir.
func texts(doc *result.Run, plots []report.Plot, head []byte, plotDir string) (front, tables []byte) {
	front = append(append(head, '\n'), report.Markdown(report.Front(doc, plots), plotDir)...)
	front = fmt.Appendf(front, "\n## Tables\n\n- [All measurements](%s): what was measured, how, and what limits it, with plots\n- [The same on one HTML page](%s)\n",
		path.Join(plotDir, "tables.md"), path.Join(plotDir, "report.html"))
	tables = append([]byte("# Performance tables\n\n"), report.Markdown(report.Tables(doc, plots), "")...)
	return front, tables
}

func readBenchmarks(path string) ([]result.Benchmark, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return report.ReadBenchmarks(f, path)
}
