package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"slices"
	"strings"

	"orcas/core"
	"orcas/core/encoding"
)

// listing builds one page. It reads keys in order and, if a key is rolled up into a common prefix, seeks past that
// prefix. So it reads only rows that it returns, and one per common prefix.
type listing struct {
	c    *conn
	q    core.ListQuery
	page *core.ListPage

	objectDecoder encoding.ObjectDecoder
}

// List implements core.Meta.
func (m *Meta) List(ctx context.Context, q core.ListQuery) (*core.ListPage, error) {
	const op = "sqlite.List"
	if q.Limit < 1 {
		return nil, core.E(op, core.InvalidArgument, errors.New("the limit must be at least 1"))
	}
	l := &listing{q: q, page: &core.ListPage{}}
	isTouched := func() bool { return m.w.tx.touched.has(placeOfBucket(q.Bucket)) }
	err := m.readCommitted(ctx, op, isTouched, func(c *conn) error {
		l.c = c
		return c.snapshot(l.fill)
	})
	if err != nil {
		return nil, err
	}
	return l.page, nil
}

// fill fills the page. It reads a run of rows, and another run after each common prefix.
func (l *listing) fill() error {
	from := max(l.q.Prefix, following(l.q.After.Key))
	if prefix, rolled := core.CommonPrefix(l.q.After.Key, l.q.Prefix, l.q.Delimiter); rolled && prefix == l.q.After.Key {
		if from = core.Successor(prefix); from == "" {
			return nil
		}
	} else if l.q.After.Key != "" && l.q.After.Key >= l.q.Prefix && (l.q.After.Version != 0 || l.q.After.Upload != 0) {
		from = l.q.After.Key
	}
	for {
		rolled, err := l.run(from)
		if err != nil || rolled == "" {
			return err
		}
		if from = core.Successor(rolled); from == "" {
			return nil
		}
	}
}

// run reads rows, beginning at a key, until the page is full, the listing ends, or a key is rolled up. If a key is
// rolled up, it returns the common prefix.
func (l *listing) run(from string) (rolled string, err error) {
	switch l.q.Kind {
	case core.ListVersions:
		return l.versions(from)
	case core.ListUploads:
		return l.uploads(from)
	}
	return l.objects(from)
}

// take decides whether an entry with this key belongs on the page. It returns stop if the page or this run is complete,
// and the common prefix if the key is rolled up, which it adds to the page.
func (l *listing) take(key string) (rolled string, stop bool) {
	p := l.page
	if !strings.HasPrefix(key, l.q.Prefix) {
		return "", true
	}
	prefix, isRolled := core.CommonPrefix(key, l.q.Prefix, l.q.Delimiter)
	if len(p.Objects)+len(p.Uploads)+len(p.Prefixes) == l.q.Limit {
		p.Truncated = true
		return "", true
	}
	if isRolled {
		p.Prefixes = append(p.Prefixes, prefix)
		p.Next = core.Cursor{Key: prefix}
		return prefix, true
	}
	return "", false
}

func (l *listing) objects(from string) (string, error) {
	st := listObjects
	if l.q.Brief {
		st = listBriefs
	}
	r, err := l.c.query(st, int64(l.q.Bucket), blob(from))
	if err != nil {
		return "", err
	}
	defer r.close()
	for {
		ok, err := r.next()
		if err != nil || !ok {
			return "", err
		}
		key := text(r.cols[0])
		if rolled, stop := l.take(key); stop {
			return rolled, nil
		}
		if l.q.Brief {
			err = l.addBrief(&r, key)
		} else {
			err = l.add(&r, key, true)
		}
		if err != nil {
			return "", err
		}
		l.page.Next = core.Cursor{Key: key}
	}
}

// When a page has manyObjects objects, memory for the rest of the page is allocated in one step, for at most maxGrown
// objects in total.
const manyObjects, maxGrown = 64, 1000

// grow adds an object to the page and returns it.
func (l *listing) grow() *core.ObjectInfo {
	if n := len(l.page.Objects); n == manyObjects {
		l.page.Objects = slices.Grow(l.page.Objects, max(0, min(l.q.Limit, maxGrown)-n))
	}
	l.page.Objects = append(l.page.Objects, core.ObjectInfo{})
	return &l.page.Objects[len(l.page.Objects)-1]
}

// add adds the version in the current row of r to the page.
func (l *listing) add(r *cursor, key string, latest bool) error {
	o := l.grow()
	*o = core.ObjectInfo{Bucket: l.q.Bucket, Key: key, Seq: core.Seq(integer(r.cols[1])), Latest: latest}
	err := l.c.decodeObject(o, integer(r.cols[2]), bytes(r.cols[3]), &l.objectDecoder)
	if l.q.Brief {
		*o = o.Brief()
	}
	return err
}

// stream is a query in the order of keys, with its current row.
type stream struct {
	cursor
	has bool // there is a current row
	key string
}

func (l *listing) stream(st statement, from string) (s stream, err error) {
	s.cursor, err = l.c.query(st, int64(l.q.Bucket), blob(from))
	if err != nil {
		return s, err
	}
	return s, s.advance()
}

func (s *stream) advance() (err error) {
	if s.has, err = s.next(); s.has {
		s.key = text(s.cols[0])
	}
	return err
}

// versions merges objects and history by key; the version in objects is the newest of its key.
func (l *listing) versions(from string) (string, error) {
	if after := l.q.After; after.Version != 0 && from == after.Key {
		rolled, stop, err := l.older(from, int64(min(after.Version, math.MaxInt64)))
		if err != nil || stop {
			return rolled, err
		}
		from = following(from)
	}
	current, err := l.stream(listObjects, from)
	defer current.close()
	if err != nil {
		return "", err
	}
	old, err := l.stream(listHistory, from)
	defer old.close()
	if err != nil {
		return "", err
	}
	last := ""
	for current.has || old.has {
		s, latest := &current, true
		if !current.has || old.has && old.key < current.key {
			s, latest = &old, old.key != last
		}
		last = s.key
		if rolled, stop, err := l.addVersion(&s.cursor, s.key, latest); err != nil || stop {
			return rolled, err
		}
		if err := s.advance(); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (l *listing) addVersion(r *cursor, key string, latest bool) (rolled string, stop bool, err error) {
	if rolled, stop := l.take(key); stop {
		return rolled, true, nil
	}
	l.page.Next = core.Cursor{Key: key, Version: core.Version(integer(r.cols[1]))}
	return "", false, l.add(r, key, latest)
}

// older lists the versions of a key that are older than a sequence.
func (l *listing) older(key string, seq int64) (rolled string, stop bool, err error) {
	newest, err := l.c.newest(l.q.Bucket, key)
	if err != nil {
		return "", true, err
	}
	for _, st := range []statement{listObject, listOlder} {
		r, err := l.c.query(st, int64(l.q.Bucket), blob(key), seq)
		if err != nil {
			return "", true, err
		}
		defer r.close()
		for {
			ok, err := r.next()
			if err != nil {
				return "", true, err
			}
			if !ok {
				break
			}
			if rolled, stop, err := l.addVersion(&r, key, integer(r.cols[1]) == newest); err != nil || stop {
				return rolled, true, err
			}
		}
	}
	return "", false, nil
}

// newest returns the sequence of the newest version of a key, or 0 if there is none.
func (c *conn) newest(bucket core.BucketID, key string) (int64, error) {
	for _, st := range []statement{selectObject, selectNewest} {
		if row, err := c.row(st, int64(bucket), blob(key)); err != nil || row != nil {
			if err != nil {
				return 0, err
			}
			return integer(row[0]), nil
		}
	}
	return 0, nil
}

func (l *listing) uploads(from string) (string, error) {
	if after := l.q.After; from == after.Key && after.Upload != 0 {
		rolled, stop, err := l.uploadRows(listLaterUploads, int64(l.q.Bucket), blob(from), int64(after.Upload))
		if err != nil || stop {
			return rolled, err
		}
		from = following(from)
	}
	rolled, _, err := l.uploadRows(listUploads, int64(l.q.Bucket), blob(from))
	return rolled, err
}

func (l *listing) uploadRows(st statement, args ...driver.Value) (rolled string, stop bool, err error) {
	r, err := l.c.query(st, args...)
	if err != nil {
		return "", true, err
	}
	defer r.close()
	for {
		ok, err := r.next()
		if err != nil || !ok {
			return "", err != nil, err
		}
		u := core.UploadInfo{Bucket: l.q.Bucket, Key: text(r.cols[0]), ID: core.UploadID(integer(r.cols[1]))}
		if rolled, stop := l.take(u.Key); stop {
			return rolled, true, nil
		}
		if err := decodeUpload(bytes(r.cols[2]), &u); err != nil {
			return "", true, err
		}
		l.page.Uploads = append(l.page.Uploads, u)
		l.page.Next = core.Cursor{Key: u.Key, Upload: u.ID}
	}
}
