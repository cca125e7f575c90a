package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"orcas/admin"
)

type adminLoginLink struct{ adminTarget }

// Help is called by kong.
func (adminLoginLink) Help() string {
	return "The link works once, within 15 minutes, and signs in as the access key of this command. Anybody who has it can use it: do not pass it on."
}

// Run prints a link.
func (a *adminLoginLink) Run(ctx context.Context, c *console) error {
	var l admin.LoginLink
	if err := a.call(ctx, c, http.MethodPost, "/-/admin/login-link", nil, &l); err != nil || a.JSON {
		return err
	}
	fmt.Fprintln(c.stdout, l.URL)
	fmt.Fprintf(c.stderr, "It works once, until %s.\n", l.Expires.Local().Format(time.TimeOnly))
	return nil
}
