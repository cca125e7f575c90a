package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"orcas/admin"
	"orcas/declared"
	"orcas/sdk"
)

type adminApply struct {
	adminTarget
	File   string `arg:"" help:"Apply this YAML file, which declares accounts, policies, groups, users, roles, buckets and keys."`
	DryRun bool   `help:"Check the file and show what would be changed, but change nothing."`
}

// Run applies a file, and prints what was changed. The secrets of new keys are printed once.
func (a *adminApply) Run(ctx context.Context, c *console) error {
	q, err := a.read()
	if err != nil {
		return err
	}
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	var done admin.Applied
	err = a.exchange(ctx, c, &sdk.Request{Method: http.MethodPost, Path: "/-/admin/apply", Body: body}, &done)
	if err != nil {
		return orEnds(err, "the server may have applied the file, or a part of it; apply it again. Rotate the keys whose secrets you did not see")
	}
	if !a.JSON {
		writeApplied(c.stdout, &done)
	}
	if done.Failed != "" {
		return fmt.Errorf("%s: the changes before it were made: correct the cause, and apply the file again", done.Failed)
	}
	return nil
}

// read reads the file, and the files with secrets, whose names are relative to its directory.
func (a *adminApply) read() (*admin.ApplyRequest, error) {
	text, err := os.ReadFile(a.File)
	if err != nil {
		return nil, err
	}
	f, err := declared.Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.File, err)
	}
	q := &admin.ApplyRequest{File: string(text), DryRun: a.DryRun, Secrets: map[string]string{}}
	for _, name := range f.SecretFiles() {
		at := name
		if !filepath.IsAbs(at) {
			at = filepath.Join(filepath.Dir(a.File), name)
		}
		secret, err := os.ReadFile(at)
		if err != nil {
			return nil, fmt.Errorf("%s: secret_file: %w", a.File, err)
		}
		if len(secret) > 4<<10 {
			return nil, errors.New(at + " is too large for a secret")
		}
		q.Secrets[name] = string(secret)
	}
	return q, nil
}

// writeApplied prints changes, and new keys in lines that a shell can evaluate.
func writeApplied(w io.Writer, done *admin.Applied) {
	if len(done.Changes) == 0 && done.Failed == "" {
		fmt.Fprintln(w, "# nothing to change")
	}
	would := ""
	if done.DryRun {
		would = "would "
	}
	for _, c := range done.Changes {
		fmt.Fprintf(w, "# %s%s the %s %s", would, c.Action, c.Kind, c.Name)
		if c.Detail != "" {
			fmt.Fprintf(w, ": %s", c.Detail)
		}
		fmt.Fprintln(w)
	}
	for _, k := range done.Keys {
		fmt.Fprintf(w, "# %s %s. The secret is not shown again.\n", k.Kind, k.Name)
		fmt.Fprintf(w, "export AWS_ACCESS_KEY_ID=%s\nexport AWS_SECRET_ACCESS_KEY=%s\nexport AWS_ENDPOINT_URL=%s\n", k.AccessKey, k.SecretKey, k.Endpoint)
	}
}
