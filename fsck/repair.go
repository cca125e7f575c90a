package fsck

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/core/ids"
	"orcas/internal/mutant"
)

// RepairReport describes what Repair did.
type RepairReport struct {
	Rows    int64        `json:"rows"`     // rows written
	Twice   int64        `json:"twice"`    // duplicate rows, which were skipped
	Added   []string     `json:"added"`    // buckets created for versions and uploads whose bucket did not exist
	LeftOut []Difference `json:"left_out"` // rows that could not be kept
	Listed  int          `json:"listed"`   // versions whose mark as the newest version of their key was corrected
}

// Repair copies the consistent rows of one engine (from) into an empty engine (to):
//
//   - It recounts references and rebuilds indexes (core.Snapshotter.Restore).
//   - The version with the highest sequence becomes the newest of its key.
//   - Of several null versions of a key, it keeps the newest.
//   - If a damaged tree yields a row twice, it writes the row once.
//   - It leaves out and reports versions whose content has no row, and rows that cannot be read.
//   - If the bucket of a version or upload does not exist, it creates a bucket named recovered-NUMBER.
//
// Rows that are unreachable in the engine are lost; see Report.RowsLost. Repair cannot fix problems with blocks, such
// as missing blocks and overlapping extents.
func Repair(ctx context.Context, from core.Snapshotter, to core.Snapshotter) (*RepairReport, error) {
	r := &repair{ctx: ctx, from: from, contents: map[core.DataID]bool{}, buckets: map[core.BucketID]string{}, names: map[string]bool{},
		newest: map[xxh3.Uint128]core.Seq{}, null: map[xxh3.Uint128]core.Seq{}, lists: map[core.UploadID]*listUse{}, missing: map[core.BucketID]string{},
		seen: map[rowKey]bool{}}
	if meta, ok := core.As[core.Meta](from); ok {
		r.codec = codecOf(ctx, meta)
	}
	var err error
	for _, pass := range []func(*core.Row) error{r.learn, r.learnParts, r.learnNewest} {
		if err == nil {
			err = r.each(pass)
		}
	}
	if err == nil {
		r.lost = func(what string, err error) {
			r.leaveOut(Difference{Kind: KindRow, Where: what, Text: core.Text(err)})
		}
		err = r.write(to)
	}
	if err != nil {
		return &r.report, core.E("fsck.Repair", core.Internal, err)
	}
	return &r.report, nil
}

// repair is one run of Repair.
type repair struct {
	ctx    context.Context
	from   core.Snapshotter
	codec  *ids.Codec
	report RepairReport
	lost   func(what string, err error) // called for rows that cannot be read; may be nil

	state    core.State
	contents map[core.DataID]bool // content that has a row
	buckets  map[core.BucketID]string
	names    map[string]bool
	missing  map[core.BucketID]string  // owners of the buckets to be created
	newest   map[xxh3.Uint128]core.Seq // the newest version of each key
	null     map[xxh3.Uint128]core.Seq // the newest null version of each key
	lists    map[core.UploadID]*listUse
	seen     map[rowKey]bool // rows that write has already read
	extra    []*core.Row
}

// rowKey identifies a row.
type rowKey struct {
	kind byte
	a, b uint64
}

// keyOfRow returns the key of a row, which must be unique.
func keyOfRow(row *core.Row) rowKey {
	switch {
	case row.Bucket != nil:
		return rowKey{'b', uint64(row.Bucket.ID), 0}
	case row.Data != nil:
		return rowKey{'d', uint64(row.Data.ID), 0}
	case row.Object != nil:
		return rowKey{'o', uint64(row.Object.Seq), 0}
	case row.Upload != nil:
		return rowKey{'u', uint64(row.Upload.ID), 0}
	case row.Part != nil:
		return rowKey{'p', uint64(row.Part.List), uint64(row.Part.Number)}
	case row.Garbage != nil:
		return rowKey{'g', row.Garbage.ID, 0}
	case row.Record != nil:
		h := xxh3.HashString128(row.Record.Kind + "\x00" + row.Record.Key)
		return rowKey{'r', h.Hi, h.Lo}
	}
	return rowKey{}
}

// listUse records the references to a list of parts.
type listUse struct {
	versions, upload, garbage bool
	broken                    string // why versions with this list cannot be kept; empty if they can
}

func (r *repair) each(emit func(*core.Row) error) error {
	lost := r.lost
	if lost == nil {
		lost = func(string, error) {}
	}
	return EachRow(r.ctx, r.from, emit, lost)
}

func (r *repair) list(id core.UploadID) *listUse {
	if r.lists[id] == nil {
		r.lists[id] = &listUse{}
	}
	return r.lists[id]
}

// learn records the rows that other rows depend on.
func (r *repair) learn(row *core.Row) error {
	switch {
	case row.State != nil:
		r.state = *row.State
	case row.Bucket != nil:
		r.buckets[row.Bucket.ID] = row.Bucket.Name
		r.names[row.Bucket.Name] = true
	case row.Data != nil:
		r.learnContent(row.Data)
	case row.Object != nil:
		o := row.Object
		for _, s := range o.Segments {
			if s.Info != nil {
				r.learnContent(s.Info)
			}
		}
		r.state.Seq = max(r.state.Seq, o.Seq)
		r.needBucket(o.Bucket, o.Owner)
		if o.List != 0 {
			r.list(o.List).versions = true
		}
	case row.Upload != nil:
		r.list(row.Upload.ID).upload = true
		r.state.Seq = max(r.state.Seq, core.Seq(row.Upload.ID))
		r.needBucket(row.Upload.Bucket, row.Upload.Owner)
	case row.Part != nil:
		r.state.Seq = max(r.state.Seq, row.Part.Seq)
	case row.Garbage != nil && row.Garbage.List != 0:
		r.list(row.Garbage.List).garbage = true
	}
	return nil
}

func (r *repair) learnContent(d *core.DataInfo) {
	r.contents[d.ID] = true
	r.state.NextData = max(r.state.NextData, d.ID+1)
}

func (r *repair) needBucket(id core.BucketID, owner string) {
	if _, ok := r.buckets[id]; !ok {
		r.missing[id] = owner
	}
}

// learnParts finds the lists with parts whose content is missing.
func (r *repair) learnParts(row *core.Row) error {
	if row.Part == nil {
		return nil
	}
	if id := r.without(row.Part.Segments); id != 0 {
		r.list(row.Part.List).broken = fmt.Sprintf("part %d refers to content %d, which does not exist", row.Part.Number, id)
	}
	return nil
}

// learnNewest finds the newest versions among those that are kept.
func (r *repair) learnNewest(row *core.Row) error {
	if o := row.Object; o != nil && r.lacks(o) == "" {
		k := keyOf(o.Bucket, o.Key)
		r.newest[k] = max(r.newest[k], o.Seq)
		if o.Null {
			r.null[k] = max(r.null[k], o.Seq)
		}
	}
	return nil
}

// lacks returns a message about missing content of a version, or "" if all content exists.
func (r *repair) lacks(o *core.ObjectInfo) string {
	if id := r.without(o.Segments); id != 0 {
		return fmt.Sprintf("content %d does not exist", id)
	}
	if o.List != 0 {
		return r.list(o.List).broken
	}
	return ""
}

// without returns the first DataID that does not exist, or 0 if all exist.
func (r *repair) without(segments []core.Segment) core.DataID {
	for _, s := range segments {
		if !r.contents[s.Data] {
			return s.Data
		}
	}
	return 0
}

// write restores the rows that can be kept.
func (r *repair) write(to core.Snapshotter) error {
	for id, owner := range r.missing {
		b := &core.BucketInfo{ID: id, Name: fmt.Sprint("recovered-", uint64(id)), Owner: owner, Versioning: core.VersioningSuspended}
		for r.names[b.Name] {
			b.Name += "-x"
		}
		r.buckets[id] = b.Name
		r.extra = append(r.extra, &core.Row{Bucket: b})
		r.report.Added = append(r.report.Added, fmt.Sprintf("bucket %s, to replace missing bucket %d", b.Name, id))
	}
	var walkErr error
	next, stop := iter.Pull(func(yield func(*core.Row) bool) {
		walkErr = r.each(func(row *core.Row) error {
			if !yield(row) {
				return errEnough
			}
			return nil
		})
	})
	defer stop()
	begun := false
	return to.Restore(r.ctx, func() (*core.Row, error) {
		for {
			if begun && len(r.extra) > 0 {
				row := r.extra[0]
				r.extra = r.extra[1:]
				r.report.Rows++
				return row, nil
			}
			row, ok := next()
			if !ok {
				return nil, walkErr
			}
			begun = true
			if r.again(row) {
				continue
			}
			if r.keep(row) {
				r.report.Rows++
				return row, nil
			}
		}
	})
}

// again reports whether a row was read before, as happens if two pages of a damaged tree refer to the same page.
func (r *repair) again(row *core.Row) bool {
	key := keyOfRow(row)
	if r.seen[key] && !mutant.Is("rows-twice") {
		r.report.Twice++
		return true
	}
	r.seen[key] = true
	return false
}

// keep corrects a row, and reports whether it can be kept.
func (r *repair) keep(row *core.Row) bool {
	switch {
	case row.State != nil:
		row.State = &r.state
	case row.Object != nil:
		if o := row.Object; !r.keepVersion(o) {
			if len(o.Segments) != 1 || o.Segments[0].Info == nil {
				return false
			}
			row.Object, row.Data = nil, o.Segments[0].Info // keep the content, because other rows may refer to it
		}
	case row.Part != nil:
		return r.keepPart(row.Part)
	case row.Garbage != nil && row.Garbage.List != 0:
		if l := r.list(row.Garbage.List); l.versions || l.upload {
			r.leaveOut(Difference{Kind: KindList, Where: fmt.Sprint("garbage ", row.Garbage.ID), Text: "its list of parts is in use"})
			return false
		}
	}
	return true
}

func (r *repair) keepVersion(o *core.ObjectInfo) bool {
	k := keyOf(o.Bucket, o.Key)
	out := Difference{Kind: KindNoContent, Where: versionName(r.codec, r.buckets, o).String(), Text: r.lacks(o), Bytes: o.Size}
	if out.Text == "" && o.Null && r.null[k] != o.Seq {
		out.Kind, out.Text = KindNull, "the key has a newer null version"
	}
	if out.Text != "" {
		r.leaveOut(out)
		return false
	}
	if latest := r.newest[k] == o.Seq; latest != o.Latest {
		if !o.Marker {
			r.report.Listed++
		}
		o.Latest = latest
	}
	return true
}

func (r *repair) keepPart(p *core.ListPart) bool {
	l := r.list(p.List)
	out := Difference{Kind: KindList, Where: fmt.Sprint("part ", p.Number, " of list ", p.List), Bytes: p.Size}
	switch id := r.without(p.Segments); {
	case id != 0:
		out.Kind, out.Text = KindNoContent, fmt.Sprintf("content %d does not exist", id)
	case l.broken != "" && l.versions:
		out.Text = "another part cannot be kept: " + l.broken
	case !l.versions && !l.upload && !l.garbage:
		out.Text = "its list of parts is unreferenced"
	default:
		return true
	}
	r.leaveOut(out)
	return false
}

func (r *repair) leaveOut(d Difference) { r.report.LeftOut = append(r.report.LeftOut, d) }

func keyOf(bucket core.BucketID, key string) xxh3.Uint128 {
	var b [512]byte
	return xxh3.Hash128(append(binary.BigEndian.AppendUint64(b[:0], uint64(bucket)), key...))
}
