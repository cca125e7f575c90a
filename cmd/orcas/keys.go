package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"orcas/content"
)

type adminKeys struct {
	Status adminKeysStatus `cmd:"" help:"Show the newest master key and the keys that the server still needs."`
	Rotate adminKeysRotate `cmd:"" help:"Rewrap every data key with the newest master key, so that older master keys can be removed."`
}

const keysPath = "/-/admin/keys"

type adminKeysStatus struct{ adminTarget }

// Run shows the state of the master keys.
func (a *adminKeysStatus) Run(ctx context.Context, c *console) error {
	return a.keys(ctx, c, http.MethodGet, nil)
}

type adminKeysRotate struct {
	adminTarget
	Wait bool `help:"Wait until the rotation is finished, and print which keys can be removed."`
}

// Run starts a rotation.
func (a *adminKeysRotate) Run(ctx context.Context, c *console) error {
	query := url.Values{}
	if a.Wait {
		query.Set("wait", "true")
	}
	return a.keys(ctx, c, http.MethodPost, query)
}

// keys sends a request and prints the state of the master keys.
func (t *adminTarget) keys(ctx context.Context, c *console, method string, query url.Values) error {
	var s content.RotateStatus
	if err := t.call(ctx, c, method, keysPath, query, &s); err != nil || t.JSON {
		return orContinues(err, "orcas admin keys status")
	}
	writeKeys(c, &s)
	return nil
}

func writeKeys(c *console, s *content.RotateStatus) {
	if s.Newest == 0 {
		fmt.Fprintln(c.stdout, "no master key is configured")
	} else {
		fmt.Fprintf(c.stdout, "new data keys are wrapped with master key %d\n", s.Newest)
	}
	if len(s.Needed) > 0 {
		fmt.Fprintf(c.stdout, "the server needs: %s\n", numbers(s.Needed))
	}
	if s.Running || s.Rewrapped > 0 {
		fmt.Fprintf(c.stdout, "data keys rewrapped: %d\n", s.Rewrapped)
	}
	switch {
	case s.Running:
		fmt.Fprintln(c.stdout, "a rotation is running: no key can be removed yet")
	case len(s.Retired) > 0:
		fmt.Fprintf(c.stdout, "can be removed: %s (older backups still need them)\n", numbers(s.Retired))
	}
}

// numbers formats IDs in ascending order.
func numbers(ids []uint32) string {
	list := slices.Sorted(slices.Values(ids))
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}
