package coretest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/mem"
	"orcas/internal/checksum"
)

// render formats a page as one line: objects as their key (for ListVersions followed by :sequence, d for a delete
// marker, and * for the newest version), uploads as key#number, common prefixes in brackets, and ... if there are more
// pages. Sequences are relative to base.
func render(page *core.ListPage, kind core.ListKind, base core.Seq) string {
	type entry struct {
		key  string
		n    uint64
		text string
	}
	var entries []entry
	for i, o := range page.Objects {
		text := o.Key
		if kind == core.ListVersions {
			text += fmt.Sprintf(":%d", o.Seq-base)
			if o.Marker {
				text += "d"
			}
			if o.Latest {
				text += "*"
			}
		}
		entries = append(entries, entry{o.Key, uint64(i), text})
	}
	for i, u := range page.Uploads {
		entries = append(entries, entry{u.Key, uint64(i), fmt.Sprintf("%s#%d", u.Key, core.Seq(u.ID)-base)})
	}
	for _, p := range page.Prefixes {
		entries = append(entries, entry{p, 0, "[" + p + "]"})
	}
	slices.SortStableFunc(entries, func(x, y entry) int { return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.n, y.n)) })
	var out []string
	for _, e := range entries {
		out = append(out, e.text)
	}
	if page.Truncated {
		out = append(out, "...")
	}
	return strings.Join(out, " ")
}

// list requests one page.
func (r *reader) list(q core.ListQuery) *core.ListPage {
	page, err := r.m.List(r.ctx, q)
	require.NoError(r.t, err)
	n := len(page.Objects) + len(page.Uploads) + len(page.Prefixes)
	require.LessOrEqual(r.t, n, q.Limit, "%+v", q)
	if page.Truncated {
		require.Equal(r.t, q.Limit, n, "all pages except the last must be full: %+v", q)
	}
	for _, o := range page.Objects {
		require.Equal(r.t, q.Bucket, o.Bucket)
		for _, s := range o.Segments {
			require.Nil(r.t, s.Info, "a listing must not resolve segments")
		}
	}
	return page
}

// pages reads a whole listing and joins its pages with |.
func (r *reader) pages(q core.ListQuery, base core.Seq) string {
	var pages []string
	for {
		page := r.list(q)
		pages = append(pages, strings.TrimSuffix(strings.TrimSuffix(render(page, q.Kind, base), "..."), " "))
		if !page.Truncated {
			return strings.Join(pages, "|")
		}
		require.NotEqual(r.t, q.After, page.Next, "the listing does not advance: %+v", q)
		q.After = page.Next
	}
}

// fill puts keys in the given order, in one batch.
func (h *harness) fill(b *core.BucketInfo, keys ...string) {
	var changes []core.Change
	for _, key := range keys {
		changes = append(changes, &core.PutObject{Object: h.object(b, key, h.content(1))})
	}
	h.apply(changes...)
}

// listCase is a query, and the pages that it must return.
type listCase struct {
	prefix, delimiter string
	after             string
	limit             int
	want              string
}

func listed(keys []string, cases []listCase) func(h *harness) {
	return func(h *harness) {
		h.fill(h.bucket("aaa", core.VersioningOff), keys...)
		b := h.bucket("b", core.VersioningOff)
		shuffled := slices.Clone(keys)
		slices.Reverse(shuffled)
		h.fill(b, shuffled...)
		h.fill(h.bucket("c", core.VersioningOff), keys...)
		for _, c := range cases {
			q := core.ListQuery{Bucket: b.ID, Prefix: c.prefix, Delimiter: c.delimiter, After: core.Cursor{Key: c.after}, Limit: c.limit}
			require.Equal(h.t, c.want, h.pages(q, 0), "%+v", q)
		}
		h.sameListings(b)
	}
}

// sameListings compares the results of many listing queries with those of the model after the same changes.
func (h *harness) sameListings(b *core.BucketInfo) {
	model := mem.NewMeta()
	_, err := model.Apply(h.ctx, h.history)
	require.NoError(h.t, err)
	versions, uploads, marks := h.landmarks(model, b)
	for _, kind := range []core.ListKind{core.ListObjects, core.ListVersions, core.ListUploads} {
		cursors := []core.Cursor{{}}
		for _, key := range marks {
			cursors = append(cursors, core.Cursor{Key: key})
		}
		switch kind {
		case core.ListVersions:
			cursors = append(cursors, versions...)
		case core.ListUploads:
			cursors = append(cursors, uploads...)
		}
		for _, prefix := range []string{"", "a", "a/", "a/b", "b", "\xff", "zz"} {
			for _, delimiter := range []string{"", "/", "b", "//", "\xff", "/b"} {
				for _, after := range cursors {
					for _, limit := range []int{1, 2, 1000} {
						q := core.ListQuery{Kind: kind, Bucket: b.ID, Prefix: prefix, Delimiter: delimiter, After: after, Limit: limit, Brief: limit == 2}
						samePage(h.t, h.ctx, model, h.m, q)
					}
				}
			}
		}
	}
}

// landmarks returns cursors for a bucket: every version, every upload, every key, and the positions just before and
// after them.
func (r *reader) landmarks(model core.Meta, b *core.BucketInfo) (versions, uploads []core.Cursor, keys []string) {
	seen := map[string]bool{}
	mark := func(key string) {
		for _, k := range []string{key, key + "\x00", key + "/", strings.TrimRight(key, "/"), key[:1]} {
			if !seen[k] && k != "" {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	all := core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 100}
	page, err := model.List(r.ctx, all)
	require.NoError(r.t, err)
	for _, o := range page.Objects {
		mark(o.Key)
		for d := range core.Version(3) {
			versions = append(versions, core.Cursor{Key: o.Key, Version: core.Version(o.Seq) + 1 - d})
		}
	}
	all.Kind = core.ListUploads
	page, err = model.List(r.ctx, all)
	require.NoError(r.t, err)
	for _, u := range page.Uploads {
		mark(u.Key)
		for d := range core.UploadID(3) {
			uploads = append(uploads, core.Cursor{Key: u.Key, Upload: u.ID + 1 - d})
		}
	}
	return versions, uploads, keys
}

func listCases() []metaCase {
	tree := []string{"a", "a/", "a/b", "a/b/c", "a/c", "ab", "b", "b/x/y", "c/"}
	return []metaCase{
		{"list/a tree", listed(tree, []listCase{
			{"", "", "", 100, "a a/ a/b a/b/c a/c ab b b/x/y c/"},
			{"", "", "", 4, "a a/ a/b a/b/c|a/c ab b b/x/y|c/"},
			{"", "/", "", 100, "a [a/] ab b [b/] [c/]"},
			{"", "/", "", 1, "a|[a/]|ab|b|[b/]|[c/]"},
			{"", "/", "", 2, "a [a/]|ab b|[b/] [c/]"},
			{"", "/", "", 3, "a [a/] ab|b [b/] [c/]"},
			{"a", "/", "", 100, "a [a/] ab"},
			{"a/", "/", "", 100, "a/ a/b [a/b/] a/c"},
			{"a/", "/", "", 1, "a/|a/b|[a/b/]|a/c"},
			{"a/b", "/", "", 1, "a/b|[a/b/]"},
			{"b", "/", "", 10, "b [b/]"},
			{"b/", "/", "", 10, "[b/x/]"},
			{"b/x", "/", "", 10, "[b/x/]"},
			{"b/x/", "/", "", 10, "b/x/y"},
			{"c/", "/", "", 10, "c/"},
			{"d", "/", "", 10, ""},
			{"a/b/c", "/", "", 10, "a/b/c"},
			{"a/b/cc", "", "", 10, ""},
		})},
		{"list/after", listed(tree, []listCase{
			{"", "", "a", 100, "a/ a/b a/b/c a/c ab b b/x/y c/"},
			{"", "", "a/a", 2, "a/b a/b/c|a/c ab|b b/x/y|c/"},
			{"", "", "c/", 100, ""},
			{"", "", "c", 100, "c/"},
			{"", "", "zzz", 100, ""},
			{"", "/", "a", 100, "[a/] ab b [b/] [c/]"},
			{"", "/", "a/", 100, "ab b [b/] [c/]"},
			{"", "/", "a/b", 100, "[a/] ab b [b/] [c/]"}, // within a prefix: later keys below it are still listed
			{"", "/", "a/c", 100, "ab b [b/] [c/]"},
			{"", "/", "b/x/y", 100, "[c/]"},
			{"", "/", "b/", 100, "[c/]"},
			{"", "/", "bb/", 100, "[c/]"}, // a prefix that no key has
			{"", "/", "a0/", 100, "ab b [b/] [c/]"},
			{"a/", "/", "a/", 100, "a/b [a/b/] a/c"}, // a key, not a common prefix of this query
			{"a/", "/", "a/b/", 100, "a/c"},
			{"a/", "/", "a/b", 100, "[a/b/] a/c"},
			{"a/", "/", "A", 100, "a/ a/b [a/b/] a/c"},
			{"a/", "/", "b", 100, ""},
			{"b", "", "a", 100, "b b/x/y"},
			{"", "/", "a/", 1, "ab|b|[b/]|[c/]"},
		})},
		{"list/delimiters of any length", listed([]string{"a::b::c", "a::b:d", "a:b", "aa", "aaa", "aaaa", "baab"}, []listCase{
			{"", "::", "", 100, "[a::] a:b aa aaa aaaa baab"},
			{"", ":", "", 100, "[a:] aa aaa aaaa baab"},
			{"a::", "::", "", 100, "[a::b::] a::b:d"},
			{"", "aa", "", 100, "a::b::c a::b:d a:b [aa] [baa]"},
			{"a", "aa", "", 100, "a::b::c a::b:d a:b aa [aaa]"},
			{"a", "aa", "", 1, "a::b::c|a::b:d|a:b|aa|[aaa]"},
			{"", "a", "", 100, "[a] [ba]"},
			{"", "a", "a", 100, "[ba]"},
			{"", "a::b::c", "", 100, "[a::b::c] a::b:d a:b aa aaa aaaa baab"},
			{"", "::b::cx", "", 100, "a::b::c a::b:d a:b aa aaa aaaa baab"},
		})},
		{"list/the highest bytes", listed([]string{"\x01", "\x7f", "\x80", "\xff", "\xff\xff", "\xff\xff\xff", "\xff/a", "\xff/b", "\xff\xff/"}, []listCase{
			{"\xff", "", "", 100, "\xff \xff/a \xff/b \xff\xff \xff\xff/ \xff\xff\xff"},
			{"\xff", "", "", 2, "\xff \xff/a|\xff/b \xff\xff|\xff\xff/ \xff\xff\xff"},
			{"\xff", "/", "", 1, "\xff|[\xff/]|\xff\xff|[\xff\xff/]|\xff\xff\xff"},
			{"\xff\xff", "\xff", "", 1, "\xff\xff|\xff\xff/|[\xff\xff\xff]"},
			{"", "\xff", "", 1, "\x01|\x7f|\x80|[\xff]"},
			{"", "\xff", "\xff", 1, ""},
			{"", "", "\xff\xff\xff", 100, ""},
			{"", "/", "\x80", 100, "\xff [\xff/] \xff\xff [\xff\xff/] \xff\xff\xff"},
		})},
		{"list/Truncated is exact", listed([]string{"a/1", "a/2", "b/1", "b/2"}, []listCase{
			{"", "/", "", 2, "[a/] [b/]"},
			{"", "/", "", 1, "[a/]|[b/]"},
			{"", "/", "a/", 1, "[b/]"},
			{"b/", "/", "", 2, "b/1 b/2"},
			{"a", "/", "", 1, "[a/]"},
			{"", "", "", 4, "a/1 a/2 b/1 b/2"},
		})},
		{"list/every byte, in order", listEveryByteInOrder},
		{"list/keys with NUL", listed([]string{"a", "a\x00", "a\x00/b", "a\x00\x00", "b"}, []listCase{
			{"", "", "", 1, "a|a\x00|a\x00\x00|a\x00/b|b"},
			{"a\x00", "/", "", 1, "a\x00|a\x00\x00|[a\x00/]"},
			{"", "\x00", "", 1, "a|[a\x00]|b"},
			{"", "", "a", 100, "a\x00 a\x00\x00 a\x00/b b"},
		})},
		{"list/the limit must be positive", listLimitBelowOne},
		{"list/delete markers and old versions are not listed", listHidesMarkersAndOldVersions},
		{"list/one entry per key, the newest version", listOneEntryPerKey},
		{"list/keys change between pages", listAfterPageChanged},
		{"list/brief objects", listBriefObjects},
		{"list/brief objects follow every change", listBriefFollowsChanges},
	}
}

// listBriefObjects lists objects with usual and unusual values of the fields of a brief listing.
func listBriefObjects(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	sum := func(n int, composite bool) core.Checksum {
		return core.Checksum{Algorithm: checksum.SHA256, Composite: composite, Parts: n, Value: make([]byte, 32)}
	}
	class := func(value string) []core.Attr {
		return []core.Attr{{Name: "Content-Type", Value: "text/plain"}, {Name: core.StorageClassAttr, Value: value}}
	}
	for i, set := range []func(o *core.ObjectInfo){
		func(o *core.ObjectInfo) {},
		func(o *core.ObjectInfo) { o.ETag = "" },
		func(o *core.ObjectInfo) { o.ETag = "not an MD5" },
		func(o *core.ObjectInfo) { o.ETag = strings.Repeat("long", 100) },
		func(o *core.ObjectInfo) { o.ETag += "-12" },
		func(o *core.ObjectInfo) { o.Modified = time.Time{} },
		func(o *core.ObjectInfo) { o.Modified = time.UnixMilli(-5).UTC() },
		func(o *core.ObjectInfo) { o.Sums = nil },
		func(o *core.ObjectInfo) { o.Sums = []core.Checksum{sum(0, false), sum(3, true)} },
		func(o *core.ObjectInfo) { o.Sums = []core.Checksum{sum(3, true), sum(0, false)} },
		func(o *core.ObjectInfo) { o.Attrs = nil },
		func(o *core.ObjectInfo) { o.Attrs = class("GLACIER") },
		func(o *core.ObjectInfo) { o.Attrs = class(strings.Repeat("long", 100)) },
	} {
		for _, content := range [][]core.Segment{nil, {h.content(100)}, {h.content(1), h.content(100_000)}} {
			o := h.object(b, fmt.Sprintf("%02d/%d", i, len(content)), content...)
			set(&o)
			h.ok(&core.PutObject{Object: o})
			page := h.list(core.ListQuery{Bucket: b.ID, Prefix: o.Key, Limit: 1, Brief: true})
			want := h.get(b, o.Key, core.Current).Brief()
			require.Equal(h.t, normalObject(&want), normalObject(&page.Objects[0]))
			require.Equal(h.t, o.ETag, page.Objects[0].ETag)
			require.Equal(h.t, o.Size, page.Objects[0].Size)
			require.Equal(h.t, core.AttrValue(o.Attrs, core.StorageClassAttr), core.AttrValue(page.Objects[0].Attrs, core.StorageClassAttr))
		}
	}
	h.sameListings(b)
	h.state() // compares both forms
}

// listBriefFollowsChanges checks that a brief listing shows the version that a change makes the current one.
func listBriefFollowsChanges(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	shows := func(want *core.ObjectInfo) {
		page := h.list(core.ListQuery{Bucket: b.ID, Limit: 2, Brief: true})
		require.Len(h.t, page.Objects, 1)
		brief := want.Brief()
		brief.Latest = true
		require.Equal(h.t, normalObject(&brief), normalObject(&page.Objects[0]))
	}
	put := func(size int64) *core.ObjectInfo {
		r := h.ok(&core.PutObject{Object: h.object(b, "k", h.content(size))})
		o := h.get(b, "k", r.Version)
		shows(o)
		return o
	}
	first, second, third := put(1), put(20), put(300)
	h.ok(&core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true, Tags: []core.Attr{{Name: "a", Value: "b"}}})
	shows(third)
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: third.Version()})
	shows(second)
	marker := h.remove(b, "k")
	require.Empty(h.t, h.list(core.ListQuery{Bucket: b.ID, Limit: 2, Brief: true}).Objects)
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: marker.Version})
	shows(second)
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: second.Version()})
	shows(first)
}

func listEveryByteInOrder(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	var keys []string
	for c := 255; c > 0; c-- {
		keys = append(keys, string([]byte{byte(c)}), string([]byte{'k', byte(c)}))
	}
	h.fill(b, keys...)
	slices.Sort(keys)
	for _, limit := range []int{7, 255, 1000} {
		var got []string
		require.NoError(h.t, eachPageOf(h, core.ListQuery{Bucket: b.ID, Limit: limit}, func(page *core.ListPage) {
			for _, o := range page.Objects {
				got = append(got, o.Key)
			}
		}))
		require.Equal(h.t, keys, got)
	}
}

func listLimitBelowOne(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	for _, limit := range []int{0, -1} {
		_, err := h.m.List(h.ctx, core.ListQuery{Bucket: b.ID, Limit: limit})
		require.True(h.t, core.Is(err, core.InvalidArgument), err)
	}
}

func listHidesMarkersAndOldVersions(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	h.fill(b, "a", "a", "b", "c/1", "c/2", "d/1", "e")
	for _, key := range []string{"b", "c/1", "c/2", "e", "new", "z/1"} {
		h.remove(b, key)
	}
	require.Equal(h.t, "a|d/1", h.pages(core.ListQuery{Bucket: b.ID, Limit: 1}, 0))
	require.Equal(h.t, "a|[d/]", h.pages(core.ListQuery{Bucket: b.ID, Delimiter: "/", Limit: 1}, 0))
	require.Equal(h.t, "a [d/]", h.pages(core.ListQuery{Bucket: b.ID, Delimiter: "/", Limit: 2}, 0))
	require.Equal(h.t, "", h.pages(core.ListQuery{Bucket: b.ID, Prefix: "c", Delimiter: "/", Limit: 2}, 0))
	r := h.get(b, "b", core.Current)
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "b", Version: r.Version()})
	require.Equal(h.t, "a b [d/]", h.pages(core.ListQuery{Bucket: b.ID, Delimiter: "/", Limit: 9}, 0), "the version below the deleted version must be listed again")
	h.sameListings(b)
}

func listOneEntryPerKey(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	h.put(b, "k")
	o := h.put(b, "k")
	page := h.list(core.ListQuery{Bucket: b.ID, Limit: 10})
	require.Len(h.t, page.Objects, 1)
	want := normalObject(o)
	stripInfo(want.Segments)
	require.Equal(h.t, want, normalObject(&page.Objects[0]))
}

func listAfterPageChanged(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.fill(b, "a", "b", "c", "d", "e")
	page := h.list(core.ListQuery{Bucket: b.ID, Limit: 2})
	h.remove(b, "b")
	h.put(b, "bb")
	h.put(b, "aa")
	require.Equal(h.t, "bb c|d e", h.pages(core.ListQuery{Bucket: b.ID, Limit: 2, After: page.Next}, 0))
}

func eachPageOf(h *harness, q core.ListQuery, fn func(*core.ListPage)) error {
	for {
		page := h.list(q)
		fn(page)
		if !page.Truncated {
			return nil
		}
		q.After = page.Next
	}
}

// versionBucket creates a bucket with versions, delete markers, and null versions. Their sequences, relative to the
// returned sequence, are:
//
//	a: 2 9 (newest)    b/1: 3, deleted at 4    b/2: 5    c: null 6, deleted at 7    d: 8
func (h *harness) versionBucket() (*core.BucketInfo, core.Seq) {
	b := h.bucket("b", core.VersioningEnabled)
	base := h.seq - 1
	for _, step := range []string{"+a", "+b/1", "-b/1", "+b/2", "+c", "-c", "+d", "+a"} {
		if step[0] == '+' {
			h.put(b, step[1:])
		} else {
			h.remove(b, step[1:])
		}
	}
	return b, base
}

func listVersionCases() []metaCase {
	return []metaCase{
		{"list versions/order and flags", func(h *harness) {
			b, base := h.versionBucket()
			q := core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 100}
			require.Equal(h.t, "a:9* a:2 b/1:4d* b/1:3 b/2:5* c:7d* c:6 d:8*", h.pages(q, base))
			q.Delimiter = "/"
			require.Equal(h.t, "a:9* a:2 [b/] c:7d* c:6 d:8*", h.pages(q, base))
			q.Prefix = "b"
			require.Equal(h.t, "[b/]", h.pages(q, base))
			q.Prefix = "b/"
			require.Equal(h.t, "b/1:4d* b/1:3 b/2:5*", h.pages(q, base))
			h.sameListings(b)
		}},
		{"list versions/a page may end within a key", func(h *harness) {
			b, base := h.versionBucket()
			q := core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 1}
			require.Equal(h.t, "a:9*|a:2|b/1:4d*|b/1:3|b/2:5*|c:7d*|c:6|d:8*", h.pages(q, base))
			q.Limit = 3
			require.Equal(h.t, "a:9* a:2 b/1:4d*|b/1:3 b/2:5* c:7d*|c:6 d:8*", h.pages(q, base))
			q.Delimiter = "/"
			require.Equal(h.t, "a:9* a:2 [b/]|c:7d* c:6 d:8*", h.pages(q, base))
		}},
		{"list versions/after", func(h *harness) {
			b, base := h.versionBucket()
			for _, c := range []struct {
				key     string
				version core.Version
				want    string
			}{
				{"a", 0, "b/1:4d* b/1:3 b/2:5* c:7d* c:6 d:8*"},
				{"a", 9, "a:2 b/1:4d* b/1:3 b/2:5* c:7d* c:6 d:8*"},
				{"a", 5, "a:2 b/1:4d* b/1:3 b/2:5* c:7d* c:6 d:8*"}, // a version that does not exist
				{"a", 2, "b/1:4d* b/1:3 b/2:5* c:7d* c:6 d:8*"},
				{"a", 1, "b/1:4d* b/1:3 b/2:5* c:7d* c:6 d:8*"},
				{"a", 50, "a:9* a:2 b/1:4d* b/1:3 b/2:5* c:7d* c:6 d:8*"},
				{"bb", 4, "c:7d* c:6 d:8*"}, // a key that does not exist
				{"d", 8, ""},
				{"c", 7, "c:6 d:8*"},
			} {
				q := core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 100, After: core.Cursor{Key: c.key, Version: c.version}}
				if c.version != 0 {
					q.After.Version += core.Version(base)
				}
				require.Equal(h.t, c.want, h.pages(q, base), "%+v", c)
			}
			q := core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Delimiter: "/", Limit: 100, After: core.Cursor{Key: "b/"}}
			require.Equal(h.t, "c:7d* c:6 d:8*", h.pages(q, base))
			q.After = core.Cursor{Key: "b/1", Version: core.Version(base + 4)}
			require.Equal(h.t, "[b/] c:7d* c:6 d:8*", h.pages(q, base))
			q.After = core.Cursor{Key: "b/2", Version: core.Version(base + 5)}
			require.Equal(h.t, "c:7d* c:6 d:8*", h.pages(q, base))
		}},
		{"list versions/null versions are in the order of their sequences", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			base := h.seq
			h.put(b, "k") // 1, null
			h.set(b, core.VersioningEnabled)
			h.put(b, "k") // 3
			h.set(b, core.VersioningSuspended)
			h.put(b, "k") // 5, null
			h.set(b, core.VersioningEnabled)
			h.put(b, "k") // 7
			q := core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 1}
			require.Equal(h.t, "k:7*|k:5|k:3", h.pages(q, base))
			h.sameListings(b)
		}},
		{"list versions/Truncated is exact", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			base := h.seq
			h.put(b, "a/1")
			h.remove(b, "a/1")
			h.put(b, "a/2")
			require.Equal(h.t, "[a/]", render(h.list(core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Delimiter: "/", Limit: 1}), core.ListVersions, base))
			require.Equal(h.t, "a/1:2d* a/1:1 a/2:3*", render(h.list(core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 3}), core.ListVersions, base))
			require.Equal(h.t, "a/1:2d* a/1:1 ...", render(h.list(core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 2}), core.ListVersions, base))
		}},
		{"list versions/many versions of one key", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			h.fill(b, slices.Repeat([]string{"k"}, 2100)...)
			for _, limit := range []int{999, 1000, 2100} {
				n, last := 0, core.Seq(1<<62)
				require.NoError(h.t, eachPageOf(h, core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: limit}, func(page *core.ListPage) {
					for _, o := range page.Objects {
						require.Equal(h.t, n == 0, o.Latest)
						require.Less(h.t, o.Seq, last)
						n, last = n+1, o.Seq
					}
				}))
				require.Equal(h.t, 2100, n)
			}
		}},
	}
}

func listUploadCases() []metaCase {
	return []metaCase{
		{"list uploads/order, paging, after", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			base := h.seq
			for _, key := range []string{"c", "a", "b/2", "b/1", "a", "a", "b/1"} {
				h.begin(b, key)
			}
			h.put(b, "object")
			q := core.ListQuery{Kind: core.ListUploads, Bucket: b.ID, Limit: 100}
			require.Equal(h.t, "a#2 a#5 a#6 b/1#4 b/1#7 b/2#3 c#1", h.pages(q, base))
			q.Limit = 2
			require.Equal(h.t, "a#2 a#5|a#6 b/1#4|b/1#7 b/2#3|c#1", h.pages(q, base))
			q.Delimiter = "/"
			require.Equal(h.t, "a#2 a#5|a#6 [b/]|c#1", h.pages(q, base))
			q.Limit, q.After = 100, core.Cursor{Key: "a", Upload: core.UploadID(base + 5)}
			require.Equal(h.t, "a#6 [b/] c#1", h.pages(q, base))
			q.After.Upload = core.UploadID(base + 3) // an upload that does not exist
			require.Equal(h.t, "a#5 a#6 [b/] c#1", h.pages(q, base))
			q.After = core.Cursor{Key: "a"}
			require.Equal(h.t, "[b/] c#1", h.pages(q, base))
			q.After = core.Cursor{Key: "b/"}
			require.Equal(h.t, "c#1", h.pages(q, base))
			q.After = core.Cursor{Key: "b/1", Upload: core.UploadID(base + 7)}
			require.Equal(h.t, "[b/] c#1", h.pages(q, base))
			q.After, q.Prefix = core.Cursor{}, "b/"
			require.Equal(h.t, "b/1#4 b/1#7 b/2#3", h.pages(q, base))
			h.sameListings(b)
		}},
		{"list uploads/completed and aborted uploads are not listed", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			base := h.seq
			x, y := h.begin(b, "a"), h.begin(b, "b")
			h.begin(b, "c")
			h.ok(&core.AbortUpload{Bucket: b.ID, Key: "a", Upload: x})
			h.ok(h.complete(b, "b", y, h.part(b, "b", y, 1)))
			require.Equal(h.t, "c#3", h.pages(core.ListQuery{Kind: core.ListUploads, Bucket: b.ID, Limit: 1}, base))
		}},
		{"list uploads/every field", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			id := h.begin(b, "k")
			page := h.list(core.ListQuery{Kind: core.ListUploads, Bucket: b.ID, Limit: 1})
			u, err := h.m.Upload(h.ctx, b.ID, "k", id)
			require.NoError(h.t, err)
			require.Equal(h.t, normalUpload(u), normalUpload(&page.Uploads[0]))
			require.False(h.t, page.Truncated)
		}},
	}
}
