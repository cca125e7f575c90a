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

	"orcas/fsck"
	"orcas/internal/datadir"
	"orcas/lifecycle"
	"orcas/reclaim"
	"orcas/sdk"
)

// adminCommand contains the commands that a running server executes.
type adminCommand struct {
	adminLive
	Reclaim   adminReclaim `cmd:"" help:"Reclaim the space of deleted and overwritten objects now."`
	Scrub     adminScrub   `cmd:"" help:"Read and verify all stored data now, as fast as possible or at --rate."`
	Lifecycle struct {
		Run    adminLifecycleRun    `cmd:"" help:"Evaluate all lifecycle rules now, and delete what has expired."`
		Status adminLifecycleStatus `cmd:"" help:"Show the last lifecycle pass and whether one is running."`
	} `cmd:"" help:"Start a lifecycle pass, or show the last one."`
	Lost      adminLost      `cmd:"" help:"List objects whose content is in missing blocks."`
	Fsck      adminFsck      `cmd:"" help:"Check the metadata of a running server."`
	Bucket    adminBucket    `cmd:"" help:"Show or change the settings of a bucket."`
	Key       adminKey       `cmd:"" help:"Create and manage access keys for programs: each can access one bucket or a part of it."`
	User      adminUser      `cmd:"" help:"Create and manage users, and the access keys of users."`
	Group     adminGroup     `cmd:"" help:"Create and manage groups of users, whose policies apply to all members."`
	Account   adminAccount   `cmd:"" help:"Create and manage accounts: tenants with buckets and users of their own."`
	Role      adminRole      `cmd:"" help:"Create and manage roles, which users can assume for a while."`
	Policy    adminPolicy    `cmd:"" help:"Write policies, and attach them to users, groups and roles."`
	Keys      adminKeys      `cmd:"" help:"Show which master keys are in use, or rotate them. (Access keys: orcas admin key.)"`
	LoginLink adminLoginLink `cmd:"" help:"Print a link with which you can sign in to the console once."`
	Apply     adminApply     `cmd:"" help:"Make the store have the policies, users, groups, buckets and keys that a file declares."`
}

// adminTarget is the admin API to connect to, and the credentials for signing requests.
type adminTarget struct {
	adminConnection
	Data string `placeholder:"DIR" help:"Read the root credentials from the data directory of the server. Otherwise they come from ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY, or from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN."`
	JSON bool   `help:"Print the server's response as JSON."`
}

// credentials returns the credentials for signing requests.
func (t *adminTarget) credentials(environ []string) (keys sdk.Keys, err error) {
	if t.Data != "" {
		var c struct{ AccessKey, SecretKey string } // JSON ignores case
		file := filepath.Join(t.Data, datadir.CredentialsFile)
		text, err := os.ReadFile(file)
		if err != nil {
			return keys, fmt.Errorf("--data: cannot read the root credentials: %w", err)
		}
		if json.Unmarshal(text, &c) != nil || c.AccessKey == "" || c.SecretKey == "" { // the JSON error may quote the file
			return keys, fmt.Errorf("--data: %s does not contain an access key and a secret key", file)
		}
		return sdk.Keys{AccessKey: c.AccessKey, SecretKey: c.SecretKey}, nil
	}
	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	for _, names := range [][3]string{{"ORCAS_ROOT_ACCESS_KEY", "ORCAS_ROOT_SECRET_KEY"}, {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}} {
		keys = sdk.Keys{AccessKey: values[names[0]], SecretKey: values[names[1]], SessionToken: values[names[2]]}
		if keys.AccessKey != "" && keys.SecretKey != "" {
			return keys, nil
		}
	}
	return sdk.Keys{}, errors.New("no credentials: use --data DIR, or set ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY")
}

// request sends a request. It returns the response, whose body the caller must close, or the error that the server
// returned.
func (t *adminTarget) request(ctx context.Context, c *console, method, path string, query url.Values) (*http.Response, error) {
	return t.send(ctx, c, &sdk.Request{Method: method, Path: path, Query: query.Encode()})
}

// send is request for any request.
func (t *adminTarget) send(ctx context.Context, c *console, q *sdk.Request) (*http.Response, error) {
	keys, err := t.credentials(c.environ)
	if err != nil {
		return nil, err
	}
	endpoint, transport, err := t.connect(c.environ, t.Data)
	if err != nil {
		return nil, err
	}
	client, err := sdk.New(sdk.Config{Endpoint: endpoint, Credentials: keys, Transport: transport, IdleTimeout: -1})
	if err != nil {
		return nil, err
	}
	response, err := client.Do(ctx, q)
	if err != nil && ctx.Err() != nil {
		return nil, errInterrupted
	}
	if err != nil {
		return nil, t.explain(err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	var failed struct{ Error string }
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // an incomplete response is not JSON
	if json.Unmarshal(text, &failed) != nil || failed.Error == "" {
		if strings.Contains(string(text), "HTTP request to an HTTPS server") { // the text of net/http
			return nil, fmt.Errorf("%[1]s serves HTTPS: use --admin-address https://%[1]s", t.AdminAddress)
		}
		return nil, fmt.Errorf("%s is not an admin API: it returned %s (use the --admin-address of the server, not its --address, which serves S3)", t.AdminAddress, response.Status)
	}
	return nil, errors.New(failed.Error)
}

// errInterrupted is returned if a signal ends the command before the server has responded.
var errInterrupted = errors.New("interrupted before the server responded")

// orContinues replaces errInterrupted for work that the server continues. Watch is the command that shows the
// progress.
func orContinues(err error, watch string) error {
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("interrupted; the server continues, and %s shows the progress", watch)
	}
	return err
}

// orEnds replaces errInterrupted for work that ends with the command. What describes the consequence.
func orEnds(err error, what string) error {
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("interrupted: %s", what)
	}
	return err
}

// call sends a request and decodes the response into to.
func (t *adminTarget) call(ctx context.Context, c *console, method, path string, query url.Values, to any) error {
	return t.exchange(ctx, c, &sdk.Request{Method: method, Path: path, Query: query.Encode()}, to)
}

// exchange is call for any request.
func (t *adminTarget) exchange(ctx context.Context, c *console, q *sdk.Request, to any) error {
	response, err := t.send(ctx, c, q)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	if t.JSON {
		_, err := io.Copy(c.stdout, bytes.NewReader(text))
		return errors.Join(err, json.Unmarshal(text, to))
	}
	return json.Unmarshal(text, to)
}

type adminReclaim struct {
	adminTarget
	Wait   bool `help:"Wait until the round is finished, and print how much space was freed."`
	Status bool `help:"Do not start a round; show what reclaim is doing."`
}

// Run starts a round of reclaim, or shows what reclaim is doing.
func (a *adminReclaim) Run(ctx context.Context, c *console) error {
	const path = "/-/admin/reclaim"
	if a.Wait && !a.Status {
		defer a.watch(ctx, c, func(ctx context.Context, quiet *adminTarget) string {
			var s reclaim.Status
			if quiet.call(ctx, c, http.MethodGet, path, nil, &s) != nil || !s.Running {
				return ""
			}
			return fmt.Sprintf("reclaim: %s, %d of %d blocks", s.Phase, s.Done, s.Todo)
		})()
		var report reclaim.Report
		if err := a.call(ctx, c, http.MethodPost, path, url.Values{"wait": {"true"}}, &report); err != nil {
			return orContinues(err, "orcas admin reclaim --status")
		}
		if !a.JSON {
			fmt.Fprintf(c.stdout, "freed %s in %d blocks and moved %s in %.1f s\n",
				size(report.BytesFreed), report.BlocksFreed, size(report.BytesMoved), report.Seconds)
			if report.PinnedBytes > 0 {
				fmt.Fprintf(c.stdout, "not freed because clients are still reading it: %s (the slowest client has been reading for %.0f s)\n",
					size(report.PinnedBytes), report.OldestReader)
			}
			for _, id := range report.Damaged {
				fmt.Fprintf(c.stdout, "block %s is damaged and was skipped\n", id)
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
	fmt.Fprintf(c.stdout, "freed since startup: %s, moved: %s, rounds: %d\n", size(status.Freed), size(status.Moved), status.Rounds)
	if status.Readers > 0 {
		fmt.Fprintf(c.stdout, "readers: %d, the slowest has been reading for %.0f s; deleted content retained for them: %s\n",
			status.Readers, status.OldestReader, size(status.PinnedBytes))
	}
	if status.Running {
		fmt.Fprintf(c.stdout, "running: %s, %d of %d blocks\n", status.Phase, status.Done, status.Todo)
	}
	return nil
}

const lifecyclePath = "/-/admin/lifecycle"

type adminLifecycleRun struct {
	adminTarget
	Wait bool `help:"Wait until the pass is finished, and print how much was deleted."`
}

// Run starts a lifecycle pass.
func (a *adminLifecycleRun) Run(ctx context.Context, c *console) error {
	if !a.Wait {
		return a.showLifecycle(ctx, c, http.MethodPost)
	}
	var r lifecycle.Report
	if err := a.call(ctx, c, http.MethodPost, lifecyclePath, url.Values{"wait": {"true"}}, &r); err != nil || a.JSON {
		return orContinues(err, "orcas admin lifecycle status")
	}
	writeLifecycle(c.stdout, r)
	return nil
}

type adminLifecycleStatus struct{ adminTarget }

// Run shows the state of the lifecycle worker.
func (a *adminLifecycleStatus) Run(ctx context.Context, c *console) error {
	return a.showLifecycle(ctx, c, http.MethodGet)
}

// showLifecycle prints the state of the lifecycle worker. With POST it starts a pass first.
func (t *adminTarget) showLifecycle(ctx context.Context, c *console, method string) error {
	var s lifecycle.Status
	if err := t.call(ctx, c, method, lifecyclePath, nil, &s); err != nil || t.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "passes since startup: %d\n", s.Passes)
	if s.Passes > 0 {
		fmt.Fprint(c.stdout, "last pass: ")
		writeLifecycle(c.stdout, s.Last)
	}
	if s.Running {
		fmt.Fprintf(c.stdout, "running: %d versions scanned, in bucket %s\n", s.Present.Scanned, s.Bucket)
	}
	return nil
}

func writeLifecycle(w io.Writer, r lifecycle.Report) {
	fmt.Fprintf(w, "deleted %d expired objects, %d noncurrent versions, %d delete markers and %d uploads; scanned %d versions in %.1f s\n",
		r.Expired, r.Noncurrent, r.Markers, r.Uploads, r.Scanned, r.Seconds)
	if r.Held+r.Changed > 0 {
		fmt.Fprintf(w, "skipped: %d locked, %d changed in the meantime\n", r.Held, r.Changed)
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(w, "skipped: %d buckets whose lifecycle rules cannot be read\n", r.Unreadable)
	}
	if r.Error != "" {
		fmt.Fprintln(w, "not all rules were applied:", r.Error)
	}
}

type adminFsck struct {
	adminTarget
	Content bool `help:"Also read and verify the content of all objects."`
}

// Run makes the server check its metadata.
func (a *adminFsck) Run(ctx context.Context, c *console) error {
	query := url.Values{}
	if a.Content {
		query.Set("content", "true")
	}
	var report fsck.Report
	if err := a.call(ctx, c, http.MethodPost, "/-/admin/fsck", query, &report); err != nil {
		return orEnds(err, "the check was stopped without a result, and nothing was changed")
	}
	if !a.JSON {
		if err := report.WriteText(c.stdout); err != nil {
			return err
		}
	}
	if report.Found > 0 {
		return fmt.Errorf("the check found %d differences", report.Found)
	}
	return nil
}

// size formats a number of bytes.
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
