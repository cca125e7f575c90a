package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"orcas/admin"
	"orcas/watch"
)

// adminLive contains the commands that show and change what a running server does.
type adminLive struct {
	Status  adminStatus  `cmd:"" help:"Show the state of the server, and what needs attention."`
	Top     adminTop     `cmd:"" help:"Show rates, latencies, and the busiest operations and buckets."`
	Trace   adminTrace   `cmd:"" help:"Show each request when it ends."`
	Log     adminLog     `cmd:"" help:"Show what the server logs, or change it until the server stops."`
	Profile adminProfile `cmd:"" help:"Write a profile of the server, for go tool pprof."`
	Cache   struct {
		Flush adminCacheFlush `cmd:"" help:"Drop the caches of the metadata."`
	} `cmd:"" help:"Drop caches."`
}

type adminTrace struct {
	adminTarget
	Operation   string        `placeholder:"NAME" help:"Show only requests for this operation, such as GetObject."`
	Bucket      string        `placeholder:"BUCKET" help:"Show only requests for this bucket."`
	Key         string        `placeholder:"PREFIX" help:"Show only requests for keys with this prefix."`
	Status      string        `placeholder:"STATUS" help:"Show only requests with this status, such as 404 or 5xx; 000 means that no response was sent."`
	MinDuration time.Duration `placeholder:"DURATION" help:"Show only requests that took at least this long, such as 100ms."`
	Errors      bool          `help:"Show only requests with a status of 400 or more, or without a response."`
}

// Run prints requests until a signal stops it.
func (a *adminTrace) Run(ctx context.Context, c *console) error {
	q := url.Values{}
	for name, value := range map[string]string{"operation": a.Operation, "bucket": a.Bucket, "key": a.Key, "status": a.Status} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if a.MinDuration != 0 {
		q.Set("min-duration", a.MinDuration.String())
	}
	if a.Errors {
		q.Set("errors", "true")
	}
	var dropped int64
	return a.follow(ctx, c, "/-/admin/trace", q, func(text json.RawMessage) (end string, err error) {
		var line admin.TraceLine
		if err := json.Unmarshal(text, &line); err != nil {
			return "", err
		}
		if line.Dropped > dropped {
			fmt.Fprintf(c.stderr, "%s omitted, because they ended faster than they could be shown: use filters to see fewer\n",
				counted(line.Dropped-dropped, "request"))
			dropped = line.Dropped
		}
		switch {
		case line.Event == nil:
		case a.JSON:
			_, err = fmt.Fprintf(c.stdout, "%s\n", text)
		default:
			_, err = io.WriteString(c.stdout, traceText(&line))
		}
		return line.End, err
	})
}

// follow sends a request and calls show for each document of the response, until the server ends it or a signal stops
// the command.
func (t *adminTarget) follow(ctx context.Context, c *console, path string, q url.Values, show func(json.RawMessage) (end string, err error)) error {
	response, err := t.request(ctx, c, http.MethodGet, path, q)
	if errors.Is(err, errInterrupted) {
		return nil
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	documents := json.NewDecoder(response.Body)
	for {
		var text json.RawMessage
		err := documents.Decode(&text)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the connection to the server was lost: %w", err)
		}
		end, err := show(text)
		if err != nil {
			return err
		}
		if end != "" {
			return errors.New(end)
		}
	}
}

// traceText returns a line about a request.
func traceText(l *admin.TraceLine) string {
	e := l.Event
	var b strings.Builder
	operation := cmp.Or(e.Operation, e.Method)
	if e.API != "s3" {
		operation = e.API + ":" + operation
	}
	fmt.Fprintf(&b, "%s %03d %-16s %9s", e.Time.Local().Format("15:04:05.000"), e.Status, operation, time.Duration(e.Took)*time.Microsecond)
	if e.Bucket != "" && e.API != "admin" {
		fmt.Fprintf(&b, " %s/%s", plain(e.Bucket), plain(e.Key))
	} else if e.Target != "" {
		fmt.Fprintf(&b, " %s", plain(e.Target))
	}
	fmt.Fprintf(&b, " in=%d out=%d", e.In, e.Out)
	if e.Code != "" {
		b.WriteString(" " + plain(e.Code))
	}
	if e.Reason != "" {
		b.WriteString(" reason=" + plain(e.Reason))
	}
	b.WriteString(" " + cmp.Or(plain(e.Principal), "anonymous") + " " + plain(e.Address))
	return b.String() + "\n"
}

// plain returns a text that clients have chosen, with an escape sequence for each character that could change what a
// terminal shows.
func plain(s string) string {
	if strings.IndexFunc(s, func(c rune) bool { return !unicode.IsGraphic(c) || c == unicode.ReplacementChar }) < 0 {
		return s
	}
	quoted := strconv.QuoteToGraphic(s)
	return quoted[1 : len(quoted)-1]
}

type adminTop struct {
	adminTarget
	Interval time.Duration `default:"2s" help:"Print a measurement at this interval (default ${default})."`
	Once     bool          `help:"Print one measurement and exit."`
}

// Run prints measurements until a signal stops it.
func (a *adminTop) Run(ctx context.Context, c *console) error {
	terminal := isTerminal(c.stdout) && !a.Once
	ended := errors.New("one measurement is enough")
	err := a.follow(ctx, c, "/-/admin/top", url.Values{"interval": {a.Interval.String()}}, func(text json.RawMessage) (string, error) {
		var line admin.TopLine
		if err := json.Unmarshal(text, &line); err != nil {
			return "", err
		}
		if line.End != "" {
			return line.End, nil
		}
		shown := string(text) + "\n"
		if !a.JSON {
			shown = topText(&line)
			if terminal {
				shown = "\x1b[H\x1b[2J" + shown // moves the cursor to the top, and clears the screen
			}
		}
		_, err := io.WriteString(c.stdout, shown)
		if err == nil && a.Once {
			err = ended
		}
		return "", err
	})
	if errors.Is(err, ended) {
		return nil
	}
	return err
}

// topText returns a measurement as a table.
func topText(l *admin.TopLine) string {
	var b strings.Builder
	per := func(n int64) float64 { return float64(n) / max(l.Seconds, 1e-9) }
	all := &l.All
	fmt.Fprintf(&b, "%s  %.0f requests/s, %.1f errors/s, in %s/s, out %s/s, p50 %s, p99 %s\n", l.Time.Local().Format("15:04:05"),
		per(all.Requests), per(all.Errors), size(int64(per(all.In))), size(int64(per(all.Out))), micros(all.Half), micros(all.Most))
	fmt.Fprintln(&b, loadText(l.Load))
	for _, table := range []struct {
		title string
		rows  []watch.Rate
	}{{"OPERATION", l.Operations}, {"BUCKET", l.Buckets}} {
		if len(table.rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%-32s %10s %10s %14s %14s %10s %10s\n", table.title, "REQUESTS/S", "ERRORS/S", "IN/S", "OUT/S", "P50", "P99")
		for _, r := range table.rows {
			fmt.Fprintf(&b, "%-32.32s %10.1f %10.1f %14s %14s %10s %10s\n", plain(r.Name), per(r.Requests), per(r.Errors),
				size(int64(per(r.In))), size(int64(per(r.Out))), micros(r.Half), micros(r.Most))
		}
	}
	return b.String()
}

// micros formats microseconds.
func micros(n int64) string {
	d := time.Duration(n) * time.Microsecond
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= 10*time.Millisecond:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	}
	return d.String()
}

type adminLog struct {
	adminTarget
	Level string `placeholder:"LEVEL" help:"Change what the server logs: off, errors, summary or requests, as for ORCAS_LOG."`
}

// Run shows or changes the level of the log.
func (a *adminLog) Run(ctx context.Context, c *console) error {
	method, q := http.MethodGet, url.Values{}
	if a.Level != "" {
		method = http.MethodPost
		q.Set("level", a.Level)
	}
	var l admin.LogLevel
	if err := a.call(ctx, c, method, "/-/admin/log", q, &l); err != nil || a.JSON {
		return err
	}
	fmt.Fprintln(c.stdout, l.Level)
	return nil
}

type adminCacheFlush struct{ adminTarget }

// Run drops the caches.
func (a *adminCacheFlush) Run(ctx context.Context, c *console) error {
	var f admin.Flushed
	if err := a.call(ctx, c, http.MethodPost, "/-/admin/cache/flush", nil, &f); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "freed about %s\n", size(f.Freed))
	return nil
}

type adminProfile struct {
	adminTarget
	Name    string `arg:"" default:"cpu" help:"Write this profile: cpu, heap, allocs, goroutine, block, mutex or threadcreate (default ${default})."`
	Seconds int    `default:"30" help:"Measure the CPU use for this many seconds, at most 300 (default ${default})."`
	Output  string `short:"o" placeholder:"FILE" help:"Write the profile to this file; - is standard output. The default is orcas-NAME.pprof."`
}

// Run writes a profile to a file.
func (a *adminProfile) Run(ctx context.Context, c *console) (err error) {
	q := url.Values{"name": {a.Name}}
	if a.Name == "cpu" {
		q.Set("seconds", strconv.Itoa(a.Seconds))
	}
	response, err := a.request(ctx, c, http.MethodGet, "/-/admin/profile", q)
	if err != nil {
		return orEnds(err, "there is no profile")
	}
	defer response.Body.Close()
	if a.Output == "-" {
		_, err = io.Copy(c.stdout, response.Body)
		return err
	}
	name := cmp.Or(a.Output, "orcas-"+a.Name+".pprof")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := io.Copy(f, response.Body)
	if err == nil {
		fmt.Fprintf(c.stderr, "wrote %s (%s); to show it, run go tool pprof %[1]s\n", name, size(n))
	}
	return err
}
