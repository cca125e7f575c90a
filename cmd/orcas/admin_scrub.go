package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"orcas/internal/bytesize"
	"orcas/scrub"
)

const scrubPath = "/-/admin/scrub"

type adminScrub struct {
	adminTarget
	Wait    bool          `help:"Show the progress, wait until the pass is finished, and print what it found."`
	Rate    bytesize.Size `placeholder:"SIZE" help:"Read at most this many bytes per second, for example 100MiB (default: no limit)."`
	Restart bool          `help:"Start over instead of continuing the current pass."`
	Status  bool          `help:"Do not start a pass; show what the scrub is doing and what it has found."`
}

// Validate is called by kong.
func (a *adminScrub) Validate() error {
	if a.Status && (a.Wait || a.Restart || a.Rate != 0) {
		return errors.New("--status cannot be combined with --wait, --rate or --restart")
	}
	return nil
}

// Run starts a pass of the scrub, or shows what the scrub is doing.
func (a *adminScrub) Run(ctx context.Context, c *console) error {
	method, query := http.MethodPost, url.Values{}
	if a.Status {
		method = http.MethodGet
	}
	if a.Rate > 0 {
		query.Set("rate", strconv.FormatInt(int64(a.Rate), 10))
	}
	if a.Restart {
		query.Set("restart", "true")
	}
	if a.Wait {
		query.Set("wait", "true")
		meter := &scrubMeter{}
		defer a.watch(ctx, c, func(ctx context.Context, quiet *adminTarget) string {
			var s scrub.Status
			if quiet.call(ctx, c, http.MethodGet, scrubPath, nil, &s) != nil || !s.Running {
				return ""
			}
			return meter.line(&s, time.Now())
		})()
	}
	var s scrub.Status
	if err := a.call(ctx, c, method, scrubPath, query, &s); err != nil {
		return orContinues(err, "orcas admin scrub --status")
	}
	if !a.JSON {
		writeScrub(c, &s)
	}
	return scrubOutcome(&s)
}

func writeScrub(c *console, s *scrub.Status) {
	fmt.Fprintf(c.stdout, "read %s of %s in the current pass; passes: %d, repaired: %d, damaged: %d, missing blocks: %d\n",
		size(s.BytesDone), size(s.BytesTotal), s.Passes, s.Repaired, s.Found, s.Missing)
	if s.BadSnapshots > 0 {
		fmt.Fprintf(c.stdout, "damaged metadata snapshots, replaced with a new one: %d\n", s.BadSnapshots)
	}
	if s.BadRecords > 0 {
		fmt.Fprintf(c.stdout, "blocks with damaged records, covered by a new metadata snapshot: %d\n", s.BadRecords)
	}
	for _, d := range s.Damaged {
		fmt.Fprintf(c.stdout, "%s in block %s: %s\n", d.Kind, d.Block, d.Text)
		for _, o := range d.Objects {
			fmt.Fprintf(c.stdout, "  %s/%s\n", o.Bucket, o.Key)
		}
	}
}

// scrubOutcome returns an error if something is damaged or missing.
func scrubOutcome(s *scrub.Status) error {
	switch {
	case s.Missing > 0 && s.Found > 0:
		return fmt.Errorf("the scrub found damage in %d places, and %d blocks are missing: run orcas admin lost to list the affected objects", s.Found, s.Missing)
	case s.Missing > 0:
		return fmt.Errorf("%d blocks are missing: run orcas admin lost to list the affected objects", s.Missing)
	case s.Found > 0:
		return fmt.Errorf("the scrub found damage in %d places", s.Found)
	}
	return nil
}

// scrubMeter measures the rate of a scrub.
type scrubMeter struct {
	at   []time.Time // times of the most recent reports, oldest first
	done []int64     // number of bytes read according to each of these reports
}

// meterReports is the number of reports over which the rate is averaged.
const meterReports = 10

// line returns the progress of a scrub and the remaining time.
func (m *scrubMeter) line(s *scrub.Status, now time.Time) string {
	if n := len(m.done); n > 0 && s.BytesDone < m.done[n-1] { // a new pass has begun
		m.at, m.done = nil, nil
	}
	m.at, m.done = append(m.at, now), append(m.done, s.BytesDone)
	if len(m.at) > meterReports {
		m.at, m.done = m.at[1:], m.done[1:]
	}
	text := fmt.Sprintf("scrub: %s of %s", size(s.BytesDone), size(s.BytesTotal))
	if s.BytesTotal > 0 {
		text += fmt.Sprintf(", %d %%", 100*s.BytesDone/s.BytesTotal)
	}
	seconds, bytes := now.Sub(m.at[0]).Seconds(), s.BytesDone-m.done[0]
	if seconds <= 0 || bytes <= 0 {
		return text
	}
	rate := float64(bytes) / seconds
	left := time.Duration(float64(s.BytesTotal-s.BytesDone) / rate * float64(time.Second)).Round(time.Second)
	return text + fmt.Sprintf(", %s/s, %v left", size(int64(rate)), left)
}
