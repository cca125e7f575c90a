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
	MaxBytes    string `placeholder:"N" help:"How many bytes it may hold, all versions and parts of uploads together, or none: as many as there is room for. Where it had no quota, what it holds is counted first."`
	MaxObjects  string `placeholder:"N" help:"How many versions it may hold, or none."`
}

// Run shows the settings, and changes those that are given.
func (a *adminBucket) Run(c *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	method, query := http.MethodGet, url.Values{"name": {a.Name}}
	for name, value := range map[string]string{"compression": a.Compression, "max-bytes": a.MaxBytes, "max-objects": a.MaxObjects} {
		if value != "" {
			method = http.MethodPost
			query.Set(name, value)
		}
	}
	var b server.BucketSettings
	if err := a.call(ctx, c, method, "/-/admin/bucket", query, &b); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "%s: compression %s, %s\n", b.Name, b.Compression, quotaText(&b))
	return nil
}

// quotaText says how much a bucket may hold, and how much it does.
func quotaText(b *server.BucketSettings) string {
	if b.MaxBytes == 0 && b.MaxObjects == 0 {
		return "no quota"
	}
	of := func(held, bound int64, what string) string {
		if bound == 0 {
			return fmt.Sprint(held, " ", what)
		}
		return fmt.Sprint(held, " of ", bound, " ", what)
	}
	return "quota: " + of(b.Bytes, b.MaxBytes, "bytes") + ", " + of(b.Objects, b.MaxObjects, "objects")
}
