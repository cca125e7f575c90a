package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"orcas/internal/bytesize"
	"orcas/sdk/tree"
)

// connection are the flags of all commands that use a server.
type connection struct {
	Endpoint  string `placeholder:"URL" help:"Use this server for s3:// addresses: http(s)://HOST[:PORT]. It overrides AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and the profile."`
	Region    string `placeholder:"REGION" help:"Use this region for s3:// addresses. It overrides AWS_REGION, AWS_DEFAULT_REGION and the profile."`
	CA        string `name:"ca" placeholder:"FILE" help:"Trust the certificates in this file (PEM) for s3:// addresses. It overrides AWS_CA_BUNDLE."`
	Data      string `placeholder:"DIR" help:"Use the root credentials in the data directory of a local server for s3:// addresses, and its certificate. The endpoint is http://127.0.0.1:9000 unless it is configured."`
	Anonymous bool   `help:"Do not sign requests for s3:// addresses, which suffices for public buckets."`
	JSON      bool   `name:"json" help:"Print a JSON object per line."`
}

// transfer are the flags of commands that send or receive content.
type transfer struct {
	Parallel   int    `placeholder:"N" help:"Transfer this many small files at the same time (default 64), and fewer large ones."`
	Bandwidth  rate   `placeholder:"RATE" help:"Transfer at most this many bytes per second in total, such as 10MiB/s."`
	RefLevel   string `enum:"OFF,FULL,FAST," default:"" placeholder:"LEVEL" help:"Ask the server whether it already has the content before sending it: OFF sends everything, FULL asks with the hash of all content, FAST with the hash of its first 64 KiB first. It overrides the profile, which overrides ORCAS_REF_LEVEL (default FAST). Servers other than ORCAS get everything."`
	PartSize   size   `placeholder:"SIZE" help:"Use parts of this size for large files, such as 16MiB. By default it depends on the size of the file."`
	NoProgress bool   `help:"Do not show the progress. It is shown on terminals only."`
	Quiet      bool   `short:"q" help:"Print errors only."`
}

// Validate is called by kong.
func (t *transfer) Validate() error {
	if t.Parallel < 0 {
		return fmt.Errorf("--parallel: expected 1 or more, not %d", t.Parallel)
	}
	return nil
}

// properties are the flags for what a write stores with the content.
type properties struct {
	ContentType  string            `placeholder:"TYPE" help:"Store this content type. By default it depends on the ending of the name."`
	CacheControl string            `placeholder:"TEXT" help:"Store this Cache-Control header."`
	StorageClass string            `placeholder:"CLASS" help:"Store with this storage class."`
	Metadata     map[string]string `mapsep:"none" sep:"none" placeholder:"NAME=VALUE" help:"Store this metadata. The flag can be repeated."`
	Tags         map[string]string `name:"tag" mapsep:"none" sep:"none" placeholder:"NAME=VALUE" help:"Store this tag. The flag can be repeated."`
	ACL          string            `name:"acl" placeholder:"ACL" help:"Store with this canned ACL, such as private."`
	SSE          string            `name:"sse" placeholder:"ALGORITHM" help:"Encrypt at the server: AES256, or aws:kms where the server has it."`
}

// filters are the flags that choose files of a tree.
type filters struct {
	Include patterns `sep:"none" placeholder:"PATTERN" help:"Transfer paths that match the pattern, such as '*.jpg'. It can be repeated and combined with --exclude: the last pattern that matches a path decides."`
	Exclude patterns `sep:"none" placeholder:"PATTERN" help:"Ignore paths that match the pattern, such as '/tmp/' or '*.{log,bak}', on both sides. See --include."`
}

// patterns are the patterns of one flag, with their positions in the command line.
type patterns []positioned

type positioned struct {
	text string
	left int // arguments after it
}

// Decode is called by kong for each use of the flag.
func (p *patterns) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("pattern", &text); err != nil {
		return err
	}
	*p = append(*p, positioned{text, ctx.Scan.Len()})
	return nil
}

// list returns the patterns of both flags in the order of the command line.
func (f *filters) list() ([]tree.Pattern, error) {
	type one struct {
		positioned
		flag string
		make func(string) (tree.Pattern, error)
	}
	var all []one
	for _, p := range f.Include {
		all = append(all, one{p, "--include", tree.Include})
	}
	for _, p := range f.Exclude {
		all = append(all, one{p, "--exclude", tree.Exclude})
	}
	slices.SortStableFunc(all, func(a, b one) int { return cmp.Compare(b.left, a.left) })
	var list []tree.Pattern
	for _, o := range all {
		pattern, err := o.make(o.text)
		if err != nil {
			return nil, usagef("%s: %s", o.flag, strings.TrimPrefix(err.Error(), "tree: "))
		}
		list = append(list, pattern)
	}
	return list, nil
}

// size is a number of bytes, such as 64KiB.
type size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *size) UnmarshalText(text []byte) error {
	n, err := bytesize.Parse(string(text))
	*s = size(n)
	return err
}

// rate is a number of bytes per second, such as 10MiB/s.
type rate int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *rate) UnmarshalText(text []byte) error {
	n, err := bytesize.Parse(strings.TrimSuffix(string(text), "/s"))
	if err != nil {
		return err
	}
	if n < 1 {
		return errors.New("expected at least 1 byte per second")
	}
	*r = rate(n)
	return nil
}

// age is a point in time: an RFC 3339 time, a date, or a duration before now, such as 90m, 36h or 30d.
type age struct {
	text string
	at   time.Time     // if it is a time
	ago  time.Duration // otherwise
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *age) UnmarshalText(text []byte) error {
	a.text = string(text)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, a.text, time.Local); err == nil {
			a.at = t
			return nil
		}
	}
	d, err := parseDuration(a.text)
	if err != nil || d < 0 {
		return fmt.Errorf("expected an age such as 90m, 36h or 30d, or a time such as 2026-01-31 or 2026-01-31T12:00:00Z, not %q", a.text)
	}
	a.ago = d
	return nil
}

// before returns the point in time, relative to now.
func (a *age) before(now time.Time) time.Time {
	if !a.at.IsZero() {
		return a.at
	}
	return now.Add(-a.ago)
}

func (a *age) set() bool { return a.text != "" }

// duration is a time.Duration that may also have days and weeks, such as 7d.
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := parseDuration(string(text))
	*d = duration(v)
	return err
}

// parseDuration is time.ParseDuration with days (d) and weeks (w), which stand alone.
func parseDuration(text string) (time.Duration, error) {
	unit := 24 * time.Hour
	number, days := strings.CutSuffix(text, "d")
	if !days {
		unit *= 7
		number, days = strings.CutSuffix(text, "w")
	}
	if days {
		var n uint16
		if _, err := fmt.Sscanf(number+"\n", "%d\n", &n); err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 90m, 36h or 30d", text)
		}
		return time.Duration(n) * unit, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 90m, 36h or 30d", text)
	}
	return d, nil
}
