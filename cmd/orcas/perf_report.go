package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"orcas/perf/report"
	"orcas/perf/result"
)

type perfReportCommand struct {
	File     string `arg:"" name:"run" placeholder:"RUN.json" help:"What a run has written."`
	Out      string `default:"report" placeholder:"DIR" help:"Where the plots, report.md and report.html go (default ${default})."`
	Bench    string `placeholder:"FILE" help:"Add tables of the Go benchmarks whose output (go test -bench) is in this file."`
	Head     string `placeholder:"FILE" help:"Begin the Markdown with the text of this file."`
	Markdown string `placeholder:"FILE" help:"Where the Markdown goes instead; it names the plots relative to itself."`
}

// Run makes a report of a run.
func (c *perfReportCommand) Run(to *console) error {
	doc, err := readRun(c.File)
	if err != nil {
		return err
	}
	if c.Bench != "" {
		if doc.Benchmarks, err = readBenchmarks(c.Bench); err != nil {
			return err
		}
	}
	plots, err := report.Plots(doc)
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
	markdown := c.Markdown
	if markdown == "" {
		markdown = filepath.Join(c.Out, "report.md")
	}
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
	text := append(append(head, '\n'), report.Markdown(doc, plots, filepath.ToSlash(plotDir))...)
	files := map[string][]byte{markdown: text, filepath.Join(c.Out, "report.html"): page}
	for _, p := range plots {
		files[filepath.Join(c.Out, p.Name)] = p.PNG
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(to.stdout, "%s and %d files in %s\n", markdown, len(files)-1, c.Out)
	return err
}

func readBenchmarks(path string) ([]result.Benchmark, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return report.ReadBenchmarks(f, path)
}

type perfCompareCommand struct {
	A             string  `arg:"" placeholder:"A.json" help:"The run to compare with."`
	B             string  `arg:"" placeholder:"B.json" help:"The run that is compared."`
	MaxRegression float64 `placeholder:"R" help:"Fail where a load of B is slower than A's by more than this share, for example 0.1."`
}

// Run pairs the rows of two runs.
func (c *perfCompareCommand) Run(to *console) error {
	a, err := readRun(c.A)
	if err != nil {
		return err
	}
	b, err := readRun(c.B)
	if err != nil {
		return err
	}
	pairs, only := report.Pairs(a, b)
	if len(pairs) == 0 {
		return errors.New("the runs have no row in common")
	}
	if _, err := fmt.Fprintf(to.stdout, "%s\n%d rows in common, %d in one run only. Machines are noisy: two runs tell less than turns within one.\n", report.Compare(pairs), len(pairs), only); err != nil {
		return err
	}
	slower := 0
	for _, p := range pairs {
		if c.MaxRegression > 0 && p.Regression() > c.MaxRegression {
			slower++
			fmt.Fprintf(to.stdout, "slower by %.0f %%: %s %s %s %d B, %d workers\n", 100*p.Regression(), p.Scenario, p.A.Operation, p.A.Variant, p.A.SizeBytes, p.A.Workers)
		}
	}
	if slower > 0 {
		return fmt.Errorf("%d of %d rows are slower by more than %.0f %%", slower, len(pairs), 100*c.MaxRegression)
	}
	return nil
}

func readRun(path string) (*result.Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	doc, err := result.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}
