package mem

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"orcas/core"
)

// item is an entry of a listing: a version of a key, or an upload.
type item struct {
	key    string
	object *core.ObjectInfo
	upload *core.UploadInfo
}

// List implements core.Meta in the simplest way: it sorts all items, skips those up to the cursor, rolls up the rest,
// and stops at the limit.
func (m *Meta) List(ctx context.Context, q core.ListQuery) (*core.ListPage, error) {
	end, err := m.begin(ctx, "mem.List")
	if err != nil {
		return nil, err
	}
	defer end()
	if q.Limit < 1 {
		return nil, core.E("mem.List", core.InvalidArgument, errors.New("the limit must be at least 1"))
	}
	page := &core.ListPage{}
	b := m.buckets[q.Bucket]
	if b == nil {
		return page, nil
	}
	for _, it := range b.items(q) {
		if !isAfter(it, q) {
			continue
		}
		prefix, rolled := core.CommonPrefix(it.key, q.Prefix, q.Delimiter)
		if n := len(page.Prefixes); rolled && n > 0 && page.Prefixes[n-1] == prefix {
			continue
		}
		if len(page.Objects)+len(page.Uploads)+len(page.Prefixes) == q.Limit {
			page.Truncated = true
			break
		}
		switch {
		case rolled:
			page.Prefixes = append(page.Prefixes, prefix)
			page.Next = core.Cursor{Key: prefix}
		case it.upload != nil:
			page.Uploads = append(page.Uploads, cloneUpload(it.upload))
			page.Next = core.Cursor{Key: it.key, Upload: it.upload.ID}
		default:
			o := b.read(it.object)
			if q.Brief {
				o = o.Brief()
			}
			page.Objects = append(page.Objects, o)
			if page.Next = (core.Cursor{Key: it.key}); q.Kind == core.ListVersions {
				page.Next.Version = core.Version(o.Seq)
			}
		}
	}
	return page, nil
}

// items returns all entries with the kind and prefix of the query, in order.
func (b *bucket) items(q core.ListQuery) []item {
	var items []item
	if q.Kind == core.ListUploads {
		for _, u := range b.uploads {
			if strings.HasPrefix(u.Key, q.Prefix) {
				items = append(items, item{key: u.Key, upload: u})
			}
		}
		slices.SortFunc(items, func(x, y item) int {
			return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.upload.ID, y.upload.ID))
		})
		return items
	}
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(b.versions)), func(key string) bool { return !strings.HasPrefix(key, q.Prefix) })
	slices.Sort(keys)
	for _, key := range keys {
		if q.Kind == core.ListVersions {
			for _, o := range slices.Backward(b.versions[key]) {
				items = append(items, item{key: key, object: o})
			}
		} else if o := b.current(key); !o.Marker {
			items = append(items, item{key: key, object: o})
		}
	}
	return items
}

// isAfter reports whether an item is after the cursor of the query.
func isAfter(it item, q core.ListQuery) bool {
	prefix, rolled := core.CommonPrefix(q.After.Key, q.Prefix, q.Delimiter)
	if rolled && prefix == q.After.Key && strings.HasPrefix(it.key, prefix) {
		return false
	}
	if it.key != q.After.Key {
		return it.key > q.After.Key
	}
	switch q.Kind {
	case core.ListVersions:
		return q.After.Version != 0 && it.object.Seq < core.Seq(q.After.Version)
	case core.ListUploads:
		return q.After.Upload != 0 && it.upload.ID > q.After.Upload
	}
	return false
}
