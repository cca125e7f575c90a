package sdk

import (
	"bytes"
	"context"
	"iter"
	"net/http"
)

// emptyPagesMax is the number of pages without an entry, one after another, after which a listing fails.
const emptyPagesMax = 1000

// List returns the objects of a bucket in the byte order of their keys, and with a delimiter the common prefixes among
// them. The next page is requested while the caller uses the current one. An error ends the listing.
func (c *Client) List(ctx context.Context, bucket string, o *ListOptions) iter.Seq2[Entry, error] {
	return c.w.list(ctx, bucket, o, "List", "ListBucketResult", func(o *ListOptions, at cursor) string {
		q := new(query).set("list-type", "2").set("prefix", o.Prefix).set("delimiter", o.Delimiter).set("encoding-type", "url").
			number("max-keys", o.PageSize).set("continuation-token", at.token)
		if at.token == "" {
			q.set("start-after", o.StartAfter)
		}
		if o.Owner {
			q.set("fetch-owner", "true")
		}
		return q.String()
	})
}

// Versions returns the versions and delete markers of the objects of a bucket: keys in byte order, the versions of a key
// from the newest to the oldest. StartAfter is a key. See List.
func (c *Client) Versions(ctx context.Context, bucket string, o *ListOptions) iter.Seq2[Entry, error] {
	return c.w.list(ctx, bucket, o, "Versions", "ListVersionsResult", func(o *ListOptions, at cursor) string {
		if at.key == "" {
			at.key = o.StartAfter
		}
		return new(query).flag("versions").set("prefix", o.Prefix).set("delimiter", o.Delimiter).set("encoding-type", "url").
			number("max-keys", o.PageSize).set("key-marker", at.key).set("version-id-marker", at.version).String()
	})
}

// list implements List and Versions. params returns the query for the page at a cursor.
func (w *wire) list(ctx context.Context, bucket string, o *ListOptions, op, root string, params func(*ListOptions, cursor) string) iter.Seq2[Entry, error] {
	if o == nil {
		o = &ListOptions{}
	}
	options := *o
	return func(yield func(Entry, error) bool) {
		if options.PageSize < 0 || options.PageSize > 1000 {
			yield(Entry{}, argument(op, bucket, "", "the page size is %d, expected 0 to 1000", options.PageSize))
			return
		}
		fetch := func(ctx context.Context, at cursor, p *page) error {
			q := &call{op: op, method: http.MethodGet, bucket: bucket, query: params(&options, at), into: p.doc}
			r, err := w.do(ctx, q)
			if err != nil {
				return err
			}
			if err := p.parse(r.body, root); err != nil {
				return q.localError(err)
			}
			return nil
		}
		pages(ctx, &call{op: op, bucket: bucket}, fetch, yield)
	}
}

// pages yields the entries of all pages. It fetches a page while the one before is being used.
func pages(ctx context.Context, q *call, fetch func(context.Context, cursor, *page) error, yield func(Entry, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	current, spare := new(page), new(page)
	var loop loopCheck
	empty := 0
	err := fetch(ctx, cursor{}, current)
	for number := 0; ; number++ {
		if err != nil {
			yield(Entry{}, err)
			return
		}
		if empty++; len(current.objects)+len(current.prefixes) > 0 {
			empty = 0
		}
		if current.truncated {
			if err := loop.check(current.next, empty); err != nil {
				yield(Entry{}, q.localError(err))
				return
			}
		}
		var ahead chan error
		prefetch := func() {
			ahead = make(chan error, 1)
			at, p := current.next, spare
			go func() { ahead <- fetch(ctx, at, p) }()
		}
		// Many listings end within their first page: the second one is requested when half of the first has been used.
		wait := len(current.objects) / 2
		if number > 0 {
			wait = 0
		}
		for e := range current.entries() {
			if wait--; wait < 0 && ahead == nil && current.truncated {
				prefetch()
			}
			if !yield(e, nil) {
				cancel()
				if ahead != nil {
					<-ahead
				}
				return
			}
		}
		if !current.truncated {
			return
		}
		if ahead == nil {
			prefetch()
		}
		err = <-ahead
		current, spare = spare, current
	}
}

// entries returns the objects and prefixes of a page, in the order of their keys.
func (p *page) entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		prefixes := p.prefixes
		for i := range p.objects {
			for len(prefixes) > 0 && bytes.Compare(prefixes[0], p.objects[i].key) < 0 {
				if !yield(Entry{Prefix: string(prefixes[0])}) {
					return
				}
				prefixes = prefixes[1:]
			}
			if !yield(p.objects[i].entry()) {
				return
			}
		}
		for _, prefix := range prefixes {
			if !yield(Entry{Prefix: string(prefix)}) {
				return
			}
		}
	}
}

// loopCheck finds out whether a server sends a listing in circles (Brent's algorithm: it remembers the position after
// 1, 2, 4, 8 and so on pages).
type loopCheck struct {
	seen        cursor
	steps, next int
}

// check returns an error if the listing continues at a position where it was before, or nowhere, or makes no progress.
func (l *loopCheck) check(at cursor, empty int) error {
	switch {
	case at == cursor{}:
		return failed(ErrProtocol, "the listing is truncated, but the server did not say where it continues")
	case at == l.seen:
		return failed(ErrProtocol, "the server sends the listing in circles: it continues twice at %.80q", at.token+at.key+at.version)
	case empty >= emptyPagesMax:
		return failed(ErrProtocol, "the server sent %d empty pages of the listing", empty)
	}
	if l.steps >= l.next {
		l.seen, l.next = at, 2*l.next+1
		l.steps = 0
	}
	l.steps++
	return nil
}
