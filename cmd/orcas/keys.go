package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"orcas/vfs"
)

type adminKeys struct {
	Status adminKeysStatus `cmd:"" help:"Say which master key is the newest, and which the server needs."`
	Rotate adminKeysRotate `cmd:"" help:"Wrap every data key by the newest master key, so that the others may go."`
}

const keysPath = "/-/admin/keys"

type adminKeysStatus struct{ adminTarget }

// Run asks where the master keys stand.
func (a *adminKeysStatus) Run(c *console) error {
	return a.keys(c, http.MethodGet, nil)
}

type adminKeysRotate struct {
	adminTarget
	Wait bool `help:"Wait for the end, and say which keys may go."`
}

// Run asks for a rotation.
func (a *adminKeysRotate) Run(c *console) error {
	query := url.Values{}
	if a.Wait {
		query.Set("wait", "true")
	}
	return a.keys(c, http.MethodPost, query)
}

// keys makes a request and prints what came of it.
func (t *adminTarget) keys(c *console, method string, query url.Values) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	var s vfs.RotateStatus
	if err := t.call(ctx, c, method, keysPath, query, &s); err != nil || t.JSON {
		return err
	}
	writeKeys(c, &s)
	return nil
}

func writeKeys(c *console, s *vfs.RotateStatus) {
	if s.Newest == 0 {
		fmt.Fprintln(c.stdout, "there is no master key")
	} else {
		fmt.Fprintf(c.stdout, "new data keys are wrapped by master key %d\n", s.Newest)
	}
	if len(s.Needed) > 0 {
		fmt.Fprintf(c.stdout, "the server needs: %s\n", numbers(s.Needed))
	}
	if s.Running || s.Rewrapped > 0 {
		fmt.Fprintf(c.stdout, "data keys wrapped anew: %d\n", s.Rewrapped)
	}
	switch {
	case s.Running:
		fmt.Fprintln(c.stdout, "a rotation is running: no key may go yet")
	case len(s.Retired) > 0:
		fmt.Fprintf(c.stdout, "may go: %s (backups that were made before still need them)\n", numbers(s.Retired))
	}
}

// numbers renders ids, the smallest first.
func numbers(ids []uint32) string {
	list := slices.Sorted(slices.Values(ids))
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}
