package client

import (
	"context"
	"strings"
	"time"

	"orcas/sdk"
)

// completeLimit is the number of completions that are listed, and completeTimeout how long a shell waits for them.
const (
	completeLimit   = 200
	completeTimeout = 2 * time.Second
)

// completeCommand prints the addresses that begin with a text, for the scripts of orcas completion.
type completeCommand struct {
	Prefix string `arg:"" optional:"" help:"Print addresses that begin with this text."`
}

// Run prints profiles, buckets, or keys up to the next slash. A shell shows no errors here, so they end the list.
func (c *completeCommand) Run(ctx context.Context, console *Console) error {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	s, err := (&connection{}).start(ctx, console)
	if err != nil {
		return nil
	}
	defer func() { _ = s.end(nil) }()
	for _, address := range c.list(s) {
		if !strings.ContainsAny(address, "\n\r\x00") {
			s.out.line("%s", address)
		}
	}
	return nil
}

// list returns the completions.
func (c *completeCommand) list(s *session) (list []string) {
	if !strings.Contains(c.Prefix, "://") {
		for _, name := range append(s.profiles.Names(), "s3") {
			if root := name + "://"; name != "default" && strings.HasPrefix(root, c.Prefix) {
				list = append(list, root)
			}
		}
		return list
	}
	at, err := parseAddress(c.Prefix)
	if err != nil || at.Local {
		return nil
	}
	r, err := s.open(at)
	if err != nil {
		return nil
	}
	if !strings.Contains(strings.TrimPrefix(c.Prefix, at.root()), "/") {
		for b, err := range r.Buckets(s.ctx, at.Bucket) {
			if err != nil || len(list) == completeLimit {
				break
			}
			if strings.HasPrefix(b.Name, at.Bucket) {
				list = append(list, r.address(b.Name, "").String()+"/")
			}
		}
		return list
	}
	for e, err := range r.List(s.ctx, at.Bucket, &sdk.ListOptions{Prefix: at.Key, Delimiter: "/", PageSize: completeLimit}) {
		if err != nil || len(list) == completeLimit {
			break
		}
		list = append(list, at.object(e.Prefix+e.Key).String())
	}
	return list
}
