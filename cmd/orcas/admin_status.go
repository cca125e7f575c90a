package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"orcas/admin"
)

type adminStatus struct{ adminTarget }

// Help is called by kong.
func (adminStatus) Help() string {
	return "The exit status is 0 even if something needs attention: the output says what. For a check that fails, use orcas health."
}

// Run shows the state of the server.
func (a *adminStatus) Run(ctx context.Context, c *console) error {
	var s admin.Status
	if err := a.call(ctx, c, http.MethodGet, "/-/admin/status", nil, &s); err != nil || a.JSON {
		return err
	}
	writeStatus(c.stdout, &s)
	return nil
}

func writeStatus(w io.Writer, s *admin.Status) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("state", "%s", s.State)
	row("version", "%s, running for %s", s.Version, time.Duration(s.Uptime*float64(time.Second)).Round(time.Second))
	row("durability", "%s", s.Durability)
	row("load", "%d requests in flight, %d connections, %d writes queued; %d requests since the start", s.InFlight, s.Connections, s.Queue, s.Requests)
	row("drive", "%s of %s free; %s are reserved", size(s.Drive.Free), size(s.Drive.Total), size(s.Drive.Reserve))
	limit := "no limit"
	if s.Memory.Limit > 0 {
		limit = "limit " + size(s.Memory.Limit)
	}
	row("memory", "%s, heap %s, %s", size(int64(s.Memory.Used)), size(int64(s.Memory.Heap)), limit)
	if s.Readers.Count > 0 {
		row("readers", "%d, the slowest for %.0f s; deleted content kept for them: %s", s.Readers.Count, s.Readers.Oldest, size(s.Readers.Pinned))
	}
	for _, work := range s.Work {
		row(work.Name, "%s", workText(work, s))
	}
	if s.Missing.Comparing {
		row("missing", "not known yet")
	} else {
		row("missing", "%d blocks with %d pieces of content", s.Missing.Blocks, s.Missing.Contents)
	}
	for _, cert := range s.Certificates {
		row("certificate", "%s: expires %s", cert.Listener, cert.Expires.Format(time.DateOnly))
	}
	for _, sink := range s.Audit {
		row("audit", "%s: %d records dropped", sink.Sink, sink.Dropped)
	}
	row("log", "%s", s.LogLevel)
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "\n! %s\n  %s\n", plain(warning.Problem), plain(warning.Action))
	}
}

// workText returns what some work in the background is doing.
func workText(w admin.Work, s *admin.Status) (text string) {
	switch {
	case w.Running && w.Name == "scrub":
		text = fmt.Sprintf("running, %.0f %%", 100*s.Scrub.Progress)
	case w.Running:
		text = "running"
	case w.Enabled:
		text = "waiting"
	default:
		text = "only on request"
	}
	if w.Ended != nil {
		text += ", last ended " + w.Ended.Local().Format(time.DateTime)
	}
	if w.Name == "scrub" && s.Scrub.Damaged > 0 {
		text += fmt.Sprintf("; found %d damaged pieces of content, repaired %d", s.Scrub.Damaged, s.Scrub.Repaired)
	}
	return text
}
