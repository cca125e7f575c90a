package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orcas/cmd/orcas/server"
	"orcas/core/reclaim"
	"orcas/lifecycle"
	"orcas/s3/sigv4"
)

// adminCommand is what can be asked of a running server.
type adminCommand struct {
	Reclaim   adminReclaim `cmd:"" help:"Free the room of what was deleted and overwritten, all of it, now."`
	Scrub     adminScrub   `cmd:"" help:"Read and verify everything that is stored, now."`
	Lifecycle struct {
		Run    adminLifecycleRun    `cmd:"" help:"Delete what the lifecycles of buckets say is due, now."`
		Status adminLifecycleStatus `cmd:"" help:"Say what the last look for it did, and whether one goes on."`
	} `cmd:"" help:"The lifecycles of buckets."`
	Fsck   adminFsck   `cmd:"" help:"Recount the metadata of a running server."`
	Bucket adminBucket `cmd:"" help:"Show or change what is set for a bucket."`
	Keys   adminKeys   `cmd:"" help:"Say where the master keys stand, or put the newest in the place of the others."`
}

// adminTarget says where the server is and who asks.
type adminTarget struct {
	AdminAddress string `default:"127.0.0.1:9001" placeholder:"HOST:PORT" help:"The server's --admin-address (default ${default})."`
	Data         string `placeholder:"DIR" help:"Take the root credentials that the server keeps in its data directory. Else ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY are taken, else AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."`
	JSON         bool   `help:"Print the answer as JSON."`
}

// credentials returns the root's.
func (t *adminTarget) credentials(environ []string) (access, secret string, err error) {
	if t.Data != "" {
		var c server.Credentials
		text, err := os.ReadFile(filepath.Join(t.Data, "root-credentials.json"))
		if err != nil {
			return "", "", fmt.Errorf("--data: %w", err)
		}
		if json.Unmarshal(text, &c) != nil || c.AccessKey == "" || c.SecretKey == "" { // the cause may quote the file
			return "", "", errors.New("--data: root-credentials.json does not hold credentials")
		}
		return c.AccessKey, c.SecretKey, nil
	}
	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	for _, pair := range [][2]string{{"ORCAS_ROOT_ACCESS_KEY", "ORCAS_ROOT_SECRET_KEY"}, {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}} {
		if values[pair[0]] != "" && values[pair[1]] != "" {
			return values[pair[0]], values[pair[1]], nil
		}
	}
	return "", "", errors.New("no credentials: give --data DIR, or set ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY")
}

// call makes a request and decodes its answer into to.
func (t *adminTarget) call(ctx context.Context, c *console, method, path string, query url.Values, to any) error {
	access, secret, err := t.credentials(c.environ)
	if err != nil {
		return err
	}
	u := url.URL{Scheme: "http", Host: t.AdminAddress, Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return err
	}
	signer := sigv4.Signer{AccessKey: access, SecretKey: secret, Region: "us-east-1"} // any is good
	signer.Sign(r, sigv4.EmptySHA256, time.Now())
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("no server answers at --admin-address %s: %w", t.AdminAddress, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		var failed struct{ Error string }
		if json.Unmarshal(text, &failed) != nil || failed.Error == "" {
			failed.Error = answer.Status
		}
		return errors.New(failed.Error)
	}
	if t.JSON {
		_, err := io.Copy(c.stdout, bytes.NewReader(text))
		return errors.Join(err, json.Unmarshal(text, to))
	}
	return json.Unmarshal(text, to)
}

type adminReclaim struct {
	adminTarget
	Wait   bool `help:"Wait for the end, and say what was freed."`
	Status bool `help:"Start nothing: say what reclaim does now."`
}

// Run asks for a round of reclaim.
func (a *adminReclaim) Run(c *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	const path = "/-/admin/reclaim"
	if a.Wait && !a.Status {
		defer a.progress(ctx, c, path)()
		var report reclaim.Report
		if err := a.call(ctx, c, http.MethodPost, path, url.Values{"wait": {"true"}}, &report); err != nil {
			return err
		}
		if !a.JSON {
			fmt.Fprintf(c.stdout, "freed %s in %d blocks, moved %s, in %.1f s\n",
				size(report.BytesFreed), report.BlocksFreed, size(report.BytesMoved), report.Seconds)
			for _, id := range report.Damaged {
				fmt.Fprintln(c.stdout, "damaged, and left alone: block", id)
			}
		}
		return nil
	}
	method := http.MethodPost
	if a.Status {
		method = http.MethodGet
	}
	var status reclaim.Status
	if err := a.call(ctx, c, method, path, nil, &status); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "freed since the start: %s, moved: %s, rounds: %d\n", size(status.Freed), size(status.Moved), status.Rounds)
	if status.Running {
		fmt.Fprintf(c.stdout, "running: %s, %d of %d blocks\n", status.Phase, status.Done, status.Todo)
	}
	return nil
}

type adminScrub struct {
	adminTarget
	Wait   bool `help:"Wait for the end, and say what was found."`
	Status bool `help:"Start nothing: say what the scrub does now, and what it found."`
}

// Run asks for a pass of the scrub.
func (a *adminScrub) Run(c *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	method, query := http.MethodPost, url.Values{}
	switch {
	case a.Status:
		method = http.MethodGet
	case a.Wait:
		query.Set("wait", "true")
	}
	var s reclaim.ScrubStatus
	if err := a.call(ctx, c, method, "/-/admin/scrub", query, &s); err != nil {
		return err
	}
	if !a.JSON {
		fmt.Fprintf(c.stdout, "read %s of %s in the present pass; passes: %d, mended: %d, damaged: %d\n",
			size(s.BytesDone), size(s.BytesTotal), s.Passes, s.Mended, s.Found)
		for _, d := range s.Damaged {
			fmt.Fprintf(c.stdout, "%s in block %s: %s\n", d.Kind, d.Block, d.Text)
			for _, o := range d.Objects {
				fmt.Fprintf(c.stdout, "  %s/%s\n", o.Bucket, o.Key)
			}
		}
	}
	if s.Found > 0 {
		return fmt.Errorf("%d damages", s.Found)
	}
	return nil
}

const lifecyclePath = "/-/admin/lifecycle"

type adminLifecycleRun struct {
	adminTarget
	Wait bool `help:"Wait for the end, and say what was deleted."`
}

// Run asks for a look at everything.
func (a *adminLifecycleRun) Run(c *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	if !a.Wait {
		return a.tellLifecycle(ctx, c, http.MethodPost)
	}
	var r lifecycle.Report
	if err := a.call(ctx, c, http.MethodPost, lifecyclePath, url.Values{"wait": {"true"}}, &r); err != nil || a.JSON {
		return err
	}
	writeLifecycle(c.stdout, r)
	return nil
}

type adminLifecycleStatus struct{ adminTarget }

// Run asks what goes on.
func (a *adminLifecycleStatus) Run(c *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	return a.tellLifecycle(ctx, c, http.MethodGet)
}

// tellLifecycle asks what goes on, by a POST after a look at everything has begun, and prints it.
func (t *adminTarget) tellLifecycle(ctx context.Context, c *console, method string) error {
	var s lifecycle.Status
	if err := t.call(ctx, c, method, lifecyclePath, nil, &s); err != nil || t.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "looked %d times since the start", s.Passes)
	if s.Passes > 0 {
		fmt.Fprint(c.stdout, "; the last time: ")
		writeLifecycle(c.stdout, s.Last)
	} else {
		fmt.Fprintln(c.stdout)
	}
	if s.Running {
		fmt.Fprintf(c.stdout, "running: %d scanned, in bucket %s\n", s.Present.Scanned, s.Bucket)
	}
	return nil
}

func writeLifecycle(w io.Writer, r lifecycle.Report) {
	fmt.Fprintf(w, "expired %d, noncurrent %d, delete markers %d, uploads %d, of %d scanned, in %.1f s\n",
		r.Expired, r.Noncurrent, r.Markers, r.Uploads, r.Scanned, r.Seconds)
	if r.Held+r.Changed > 0 {
		fmt.Fprintf(w, "left alone: %d locked, %d changed meanwhile\n", r.Held, r.Changed)
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(w, "left alone: %d buckets whose lifecycle cannot be read\n", r.Unreadable)
	}
	if r.Error != "" {
		fmt.Fprintln(w, "failed:", r.Error)
	}
}

type adminFsck struct {
	adminTarget
	Content bool `help:"Read and verify all content too."`
}

// Run asks for a check.
func (a *adminFsck) Run(c *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	query := url.Values{}
	if a.Content {
		query.Set("content", "true")
	}
	var report reclaim.CheckReport
	if err := a.call(ctx, c, http.MethodPost, "/-/admin/fsck", query, &report); err != nil {
		return err
	}
	if !a.JSON {
		if err := report.WriteText(c.stdout); err != nil {
			return err
		}
	}
	if report.Found > 0 {
		return fmt.Errorf("%d differences", report.Found)
	}
	return nil
}

// progressEvery is how often somebody who waits is told how far it is.
const progressEvery = 5 * time.Second

// progress tells how far reclaim is until the function that it returns is called.
func (a *adminReclaim) progress(ctx context.Context, c *console, path string) func() {
	ctx, cancel := context.WithCancel(ctx)
	quiet := *a
	quiet.JSON = false
	go func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var s reclaim.Status
			if err := quiet.call(ctx, c, http.MethodGet, path, nil, &s); err == nil && s.Running {
				fmt.Fprintf(c.stderr, "%s: %d of %d\n", s.Phase, s.Done, s.Todo)
			}
		}
	}()
	return cancel
}

// size renders a number of bytes.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
