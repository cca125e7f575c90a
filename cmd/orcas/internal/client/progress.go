package client

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"orcas/internal/bytesize"
)

// progress is a bar on a terminal: bytes, rate and time left. A nil *progress shows nothing.
type progress struct {
	container *mpb.Progress
	bar       *mpb.Bar
	begun     time.Time
	now       func() time.Time

	mu    sync.Mutex // guards the rest
	state progressState
}

// progressState is what the bar shows.
type progressState struct {
	done, total int64 // bytes
	files, of   int64 // files; of is 0 for a single one
	final       bool  // total and of will not grow
}

// newProgress shows a bar on a terminal.
func newProgress(w io.Writer) *progress {
	p := &progress{container: mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh()), begun: time.Now(), now: time.Now}
	p.bar = p.container.AddBar(0, mpb.BarRemoveOnComplete(), mpb.BarWidth(24),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.text() })))
	return p
}

// Write prints lines above the bar.
func (p *progress) Write(b []byte) (int, error) { return p.container.Write(b) }

// set changes what the bar shows.
func (p *progress) set(s progressState) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.state = s
	p.mu.Unlock()
	p.bar.SetTotal(s.total+1, false) // never complete before the end
	p.bar.SetCurrent(s.done)
}

// text returns the text beside the bar.
func (p *progress) text() string {
	p.mu.Lock()
	s := p.state
	p.mu.Unlock()
	return s.text(p.now().Sub(p.begun))
}

// text describes the state after some time: how much is done, how fast, and how long the rest will take at that rate.
func (s progressState) text(elapsed time.Duration) string {
	text := " "
	if s.of > 0 {
		more := "+"
		if s.final {
			more = ""
		}
		text += fmt.Sprintf("%d of %d%s files, ", s.files, s.of, more)
	}
	text += fmt.Sprintf("%s of %s", bytesize.Round(s.done), bytesize.Round(s.total))
	if elapsed < time.Second/2 || s.done == 0 {
		return text
	}
	rate := float64(s.done) / elapsed.Seconds()
	text += fmt.Sprintf(", %s/s", bytesize.Round(int64(rate)))
	if s.final && s.total >= s.done {
		left := time.Duration(float64(s.total-s.done) / rate * float64(time.Second))
		text += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return text
}

// end removes the bar.
func (p *progress) end() {
	p.bar.Abort(true)
	p.container.Wait()
}
