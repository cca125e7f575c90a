package tree

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"orcas/sdk"
)

// kind is what an entry of a tree is.
type kind uint8

const (
	file      kind = iota
	directory      // its path ends with "/". In a bucket, an empty object whose key ends with "/"
	link           // a symbolic link, whose path ends with linkSuffix; local only
	other          // a local link that is not followed, a device, a pipe or a socket
)

// entry is an element of a tree: a local file or directory, or an object.
type entry struct {
	path     string // relative, with slashes; the end of the key
	kind     kind
	size     int64
	modified int64 // nanoseconds since 1970

	etag    string // objects only
	version string // objects only, in listings of versions

	mode         fs.FileMode // local files only: type and permissions
	owner, group uint32      // if owned
	owned        bool        // this system has owners

	partial bool // a local directory that has something that is not part of the tree

	err error // the entry could not be read
}

// name returns the path of a local file: the path in the tree without what stands for its type.
func (e *entry) name() string {
	switch e.kind {
	case directory:
		return strings.TrimSuffix(e.path, "/")
	case link:
		return strings.TrimSuffix(e.path, linkSuffix)
	}
	return e.path
}

// Streams pass entries in batches: the producer is ahead of the consumer by at most streamBatches batches.
const (
	batchEntries  = 256
	streamBatches = 24
)

// batch is a part of a stream. The entries are complete when ready is closed.
type batch struct {
	entries []entry
	ready   chan struct{} // nil: ready
	err     error         // ends the stream
}

// stream is a tree as a sequence of entries in the byte order of their paths. It is used by one goroutine.
type stream struct {
	ctx     context.Context
	batches <-chan *batch
	current []entry
	last    string // the path of the last entry
	started bool
	where   string // the tree, for errors
	err     error
}

// next returns the next entry, which is valid until the next call, or nil at the end or after an error.
func (s *stream) next() *entry {
	for len(s.current) == 0 {
		if s.err != nil {
			return nil
		}
		select {
		case b, ok := <-s.batches:
			if !ok {
				s.err = s.ctx.Err()
				return nil
			}
			if b.ready != nil {
				<-b.ready
			}
			s.current, s.err = b.entries, b.err
		case <-s.ctx.Done():
			s.err = s.ctx.Err()
		}
	}
	e := &s.current[0]
	s.current = s.current[1:]
	if s.started && e.path <= s.last {
		s.err, s.current = fmt.Errorf("tree: the listing of %s is not in order: %q comes after %q", s.where, e.path, s.last), nil
		return nil
	}
	s.last, s.started = e.path, true
	return e
}

// drain waits for the goroutines of the stream. The context of the stream must have ended, or the stream.
func (s *stream) drain() {
	for range s.batches {
	}
}

// remoteStream lists the objects below a prefix. The next page is requested while the entries of the last one are used.
func remoteStream(ctx context.Context, p *Place, f filter) *stream {
	batches := make(chan *batch, streamBatches)
	go func() {
		defer close(batches)
		l := &lister{ctx: ctx, batches: batches, filter: f, prefix: p.prefix}
		for e, err := range p.client.List(ctx, p.bucket, &sdk.ListOptions{Prefix: p.prefix}) {
			if err == nil {
				err = l.add(&e)
			}
			if err != nil {
				l.flush(err)
				return
			}
		}
		l.flush(nil)
	}()
	return &stream{ctx: ctx, batches: batches, where: p.String()}
}

// lister collects the entries of a listing in batches.
type lister struct {
	ctx     context.Context
	batches chan<- *batch
	entries []entry
	filter  filter
	prefix  string
}

// add adds an object. It returns an error if the server should not have listed it.
func (l *lister) add(e *sdk.Entry) error {
	path, ok := strings.CutPrefix(e.Key, l.prefix)
	if !ok || e.Prefix != "" {
		return fmt.Errorf("tree: the server listed %q, which is not below the prefix %q", e.Key+e.Prefix, l.prefix)
	}
	if path == "" || !l.filter.includes(path) {
		return nil // the marker of the directory itself, or excluded
	}
	n := entry{path: path, size: e.Size, modified: e.LastModified.UnixNano(), etag: e.ETag}
	if strings.HasSuffix(path, "/") && e.Size == 0 {
		n.kind = directory
	}
	if l.entries == nil {
		l.entries = make([]entry, 0, batchEntries)
	}
	if l.entries = append(l.entries, n); len(l.entries) == batchEntries {
		return l.flush(nil)
	}
	return nil
}

// flush passes on the entries that have been collected.
func (l *lister) flush(err error) error {
	if len(l.entries) == 0 && err == nil {
		return nil
	}
	select {
	case l.batches <- &batch{entries: l.entries, err: err}:
		l.entries = nil
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// pair is an element of two trees: the entries with the same path. One of them may be nil.
type pair struct{ from, to *entry }

// join merges two streams. Either may be nil. Each entry is valid until the next call of next.
type join struct {
	a, b         *stream
	nextA, nextB *entry
	haveA, haveB bool
}

// next returns the next pair, and false at the end or after an error of a stream.
func (j *join) next() (pair, bool) {
	if !j.haveA && j.a != nil {
		j.nextA, j.haveA = j.a.next(), true
		if j.a.err != nil {
			return pair{}, false
		}
	}
	if !j.haveB && j.b != nil {
		j.nextB, j.haveB = j.b.next(), true
		if j.b.err != nil {
			return pair{}, false
		}
	}
	a, b := j.nextA, j.nextB
	switch {
	case a == nil && b == nil:
		return pair{}, false
	case b == nil || a != nil && a.path < b.path:
		j.haveA = false
		return pair{from: a}, true
	case a == nil || b.path < a.path:
		j.haveB = false
		return pair{to: b}, true
	}
	j.haveA, j.haveB = false, false
	return pair{a, b}, true
}

// drain waits for the goroutines of both streams, whose context must have ended.
func (j *join) drain() {
	for _, s := range []*stream{j.a, j.b} {
		if s != nil {
			s.drain()
		}
	}
}

// err returns the error that ended the join, if there is one.
func (j *join) err() error {
	for _, s := range []*stream{j.a, j.b} {
		if s != nil && s.err != nil {
			return s.err
		}
	}
	return nil
}
