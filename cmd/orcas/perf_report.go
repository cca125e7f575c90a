//go:build cgo && linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"orcas/perf/report"
	"orcas/perf/result"
)

// perfReportCommand passes all arguments to the program orcas-report.
type perfReportCommand struct {
	Args []string `arg:"" optional:"" help:"Pass these arguments to orcas-report; --help lists them."`
}

// Run replaces this process with orcas-report.
func (c *perfReportCommand) Run(to *console) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return runReport(filepath.Dir(self), c.Args, to.environ)
}

// runReport replaces this process with the program orcas-report in a directory. It returns only on failure.
func runReport(dir string, args, environ []string) error {
	program := filepath.Join(dir, "orcas-report")
	err := syscall.Exec(program, append([]string{program}, args...), environ)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the program orcas-report is not in %s: build it with `make orcas-report` (go build -o %s ./cmd/orcas-report) in the source tree", dir, program)
	}
	return &os.PathError{Op: "run", Path: program, Err: err}
}

type perfCompareCommand struct {
	A             string  `arg:"" placeholder:"A.json" help:"Use this run as the baseline."`
	B             string  `arg:"" placeholder:"B.json" help:"Compare this run with the baseline."`
	MaxRegression float64 `placeholder:"R" help:"Fail if any load is slower in B than in A by more than this share, for example 0.1."`
}

// Run compares the rows that two runs have in common.
func (c *perfCompareCommand) Run(to *console) error {
	a, err := result.ReadFile(c.A)
	if err != nil {
		return err
	}
	b, err := result.ReadFile(c.B)
	if err != nil {
		return err
	}
	pairs, only := report.Pairs(a, b)
	if len(pairs) == 0 {
		return errors.New("the two runs have no rows in common")
	}
	if _, err := fmt.Fprintf(to.stdout, "%s\n%d rows in common, %d in only one of the runs. Machines are noisy: comparing two runs is less reliable than alternating within one run.\n", report.Compare(pairs), len(pairs), only); err != nil {
		return err
	}
	slower := 0
	for _, p := range pairs {
		if c.MaxRegression > 0 && p.Regression() > c.MaxRegression {
			slower++
			fmt.Fprintf(to.stdout, "slower by %.0f %%: %s %s %s %d bytes, %d workers\n", 100*p.Regression(), p.Scenario, p.A.Operation, p.A.Variant, p.A.SizeBytes, p.A.Workers)
		}
	}
	if slower > 0 {
		return fmt.Errorf("%d of %d rows are slower by more than %.0f %%", slower, len(pairs), 100*c.MaxRegression)
	}
	return nil
}
