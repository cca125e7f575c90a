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
	return "The exit status is 0 even if something needs attention: the output says what. For a check with an exit status, use orcas health."
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
	row("load", "%s; %s since the start", loadText(&s.Load), counted(s.Requests, "request"))
	if s.Drive != nil {
		row("drive", "%s of %s free; %s reserved", size(s.Drive.Free), size(s.Drive.Total), size(s.Drive.Reserve))
	} else {
		row("drive", "not known")
	}
	limit := "no limit"
	if s.Memory.Limit > 0 {
		limit = "limit " + size(s.Memory.Limit)
	}
	row("memory", "%s, heap %s, %s", size(int64(s.Memory.Used)), size(int64(s.Memory.Heap)), limit)
	if s.Readers.Count > 0 {
		row("readers", "%d, the oldest for %.0f s; deleted content kept for them: %s", s.Readers.Count, s.Readers.Oldest, size(s.Readers.Pinned))
	}
	writeHoldings(row, s.Store)
	for _, work := range s.Work {
		row(work.Name, "%s", workText(work, s))
	}
	if s.Missing.Comparing {
		row("missing", "not known yet: the comparison at startup is running")
	} else {
		row("missing", "%s; pieces of content in them: %d", counted(s.Missing.Blocks, "block"), s.Missing.Contents)
	}
	for _, cert := range s.Certificates {
		row("certificate", "%s: expires %s", cert.Listener, cert.Expires.Format(time.DateOnly))
	}
	for _, sink := range s.Audit {
		row("audit", "%s: %s dropped", sink.Sink, counted(sink.Dropped, "record"))
	}
	lost := ""
	if s.LogDropped > 0 {
		lost = "; " + counted(s.LogDropped, "line") + " dropped"
	}
	row("log", "%s%s", s.LogLevel, lost)
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "\n! %s\n  %s\n", plain(warning.Problem), plain(warning.Action))
	}
}

// writeHoldings writes what the store holds, in rows.
func writeHoldings(row func(name, format string, args ...any), h *admin.Holdings) {
	if h == nil {
		row("store", "not known yet: the first survey is running")
		return
	}
	row("store", "%s, %s, %s", counted(h.Buckets, "bucket"), counted(h.Objects, "object"), counted(h.Versions, "version"))
	if h.Space == nil {
		row("space", "not known yet: the first survey is running")
		return
	}
	row("space", "%s of versions and parts; %s stored, of it %s live and %s reclaimable", size(h.Space.Logical), size(h.Space.Stored),
		size(h.Space.Live), size(h.Space.Reclaimable))
	row("ratios", "deduplication %.2f, compression %.2f", h.Space.Deduplication, h.Space.Compression)
}

// loadText describes what a server is doing at one moment.
func loadText(l *admin.Load) string {
	return fmt.Sprintf("%s in flight, %s, %s queued", counted(l.InFlight, "request"), counted(l.Connections, "connection"), counted(l.Queue, "write"))
}

// workText describes the state of background work.
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
	if w.Success != nil {
		text += "; last succeeded " + w.Success.Local().Format(time.DateTime)
	} else {
		text += "; no success since the server started"
	}
	if w.Error != "" {
		text += "; the last attempt failed"
	}
	if w.Name == "scrub" {
		text += fmt.Sprintf("; damage found: %d, repaired: %d, remaining: %d", s.Scrub.Found, s.Scrub.Repaired, s.Scrub.Damaged)
	}
	return text
}
