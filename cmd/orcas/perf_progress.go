//go:build cgo && linux

package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"orcas/perf"
)

// newProgress returns a Progress that shows a bar if w is a terminal, and prints plain lines otherwise.
func newProgress(w io.Writer) perf.Progress {
	if isTerminal(w) {
		return &barProgress{container: mpb.New(mpb.WithOutput(w))}
	}
	return &lineProgress{w}
}

// lineProgress prints a line for each scenario and each row.
type lineProgress struct{ w io.Writer }

// Scenario prints the ID of the scenario and its number.
func (p *lineProgress) Scenario(id string, number, of int) {
	fmt.Fprintf(p.w, "%s (%d of %d)\n", id, number, of)
}

// Step prints nothing.
func (p *lineProgress) Step(string) {}

// Row prints text as an indented line.
func (p *lineProgress) Row(text string) { fmt.Fprintf(p.w, "  %s\n", text) }

// barProgress prints the rows and, below them, a progress bar that counts scenarios.
type barProgress struct {
	container *mpb.Progress
	bar       *mpb.Bar
	mu        sync.Mutex // guards what
	what      string     // the scenario or step that is being measured
}

// Scenario advances the bar and prints the ID of the scenario.
func (p *barProgress) Scenario(id string, number, of int) {
	p.set(id)
	if p.bar == nil {
		p.bar = p.container.AddBar(int64(of), mpb.PrependDecorators(decor.CountersNoUnit("%d of %d "), decor.Elapsed(decor.ET_STYLE_MMSS)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.get() })))
	}
	p.bar.SetCurrent(int64(number - 1))
	p.Row(id)
}

// Step shows the step that is being measured.
func (p *barProgress) Step(what string) { p.set(what) }

// Row prints a row above the bar.
func (p *barProgress) Row(text string) {
	_, _ = fmt.Fprintf(p.container, "  %s\n", text) // ignore the error: the run continues if the terminal is closed
}

func (p *barProgress) set(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
}

func (p *barProgress) get() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.what
}

// end removes the bar.
func (p *barProgress) end() {
	if p.bar != nil {
		p.bar.Abort(true)
	}
	p.container.Wait()
}
