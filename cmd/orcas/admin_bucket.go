package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"orcas/admin"
	"orcas/internal/bytesize"
)

type adminBucket struct {
	adminTarget
	Name        string `arg:"" help:"Show or change the settings of this bucket."`
	Compression string `placeholder:"LEVEL" help:"Compress new content of the bucket at this level: off, fast, better, or default (the level of ORCAS_COMPRESSION). Stored content does not change."`
	ChunkSize   string `placeholder:"SIZE" help:"Store new large objects in chunks of this size: a multiple of 256KiB up to 64MiB, or default (4MiB). Stored content does not change."`
	MaxBytes    string `placeholder:"SIZE" help:"Limit the total size of the bucket, including all versions and uploaded parts, for example to 10GiB; \"none\" removes the limit."`
	MaxObjects  string `placeholder:"N" help:"Limit the number of object versions in the bucket; \"none\" removes the limit."`
	Public      string `enum:",read,none" default:"" placeholder:"ACCESS" help:"Let everybody read the objects of the bucket without credentials (read), or nobody (none): changes its policy and its public access block."`
}

// Run changes the given settings, and prints all of them.
func (a *adminBucket) Run(ctx context.Context, c *console) error {
	method, query := http.MethodGet, url.Values{"name": {a.Name}}
	given := map[string]string{
		"compression": a.Compression, "chunk-size": a.ChunkSize, "max-bytes": a.MaxBytes, "max-objects": a.MaxObjects, "public": a.Public,
	}
	for name, value := range given {
		if value != "" {
			method = http.MethodPost
			query.Set(name, value)
		}
	}
	var b admin.BucketSettings
	if err := a.call(ctx, c, method, "/-/admin/bucket", query, &b); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "%s: compression %s, chunks of %s, %s, public access: %s\n",
		b.Name, b.Compression, bytesize.Format(b.ChunkSize), quotaText(&b), b.Public)
	fmt.Fprintf(c.stdout, "%s: %s\n", b.Name, holdsText(&b.Holds))
	return nil
}

// holdsText describes what a bucket holds.
func holdsText(h *admin.Holds) string {
	part := func(n int64, noun string, size int64) string {
		return fmt.Sprintf("%s (%s)", counted(n, noun), bytesText(size))
	}
	text := part(h.Objects, "object", h.Bytes) + ", " + part(h.NoncurrentVersions, "noncurrent version", h.NoncurrentBytes) + ", " +
		part(h.Uploads, "unfinished upload", h.UploadBytes)
	if h.DeleteMarkers > 0 {
		text += ", " + counted(h.DeleteMarkers, "delete marker")
	}
	return text
}

// counted returns a number with a noun in the singular or the plural.
func counted[T int | int64 | uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// bytesText formats a size.
func bytesText(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1024:
		return fmt.Sprint(n, " bytes")
	}
	return bytesize.Round(n)
}

// quotaText describes the quota and the usage of a bucket.
func quotaText(b *admin.BucketSettings) string {
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
