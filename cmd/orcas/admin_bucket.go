package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"orcas/cmd/orcas/server"
)

type adminBucket struct {
	adminTarget
	Name        string `arg:"" help:"The bucket."`
	Compression string `placeholder:"LEVEL" help:"How its new content is compressed: off, fast, better, or default: as ORCAS_COMPRESSION says. What is stored already stays as it is."`
}

// Run shows the settings, and changes those that are given.
func (a *adminBucket) Run(c *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	method, query := http.MethodGet, url.Values{"name": {a.Name}}
	if a.Compression != "" {
		method = http.MethodPost
		query.Set("compression", a.Compression)
	}
	var b server.BucketSettings
	if err := a.call(ctx, c, method, "/-/admin/bucket", query, &b); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "%s: compression %s\n", b.Name, b.Compression)
	return nil
}
