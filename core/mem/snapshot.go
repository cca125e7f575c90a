package mem

import (
	"context"
	"errors"
	"maps"
	"slices"

	"orcas/core"
)

// Snapshot implements core.Snapshotter.
func (m *Meta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	rows, err := m.rows(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		if err := ctx.Err(); err != nil {
			return core.E("mem.Snapshot", core.Canceled, err)
		}
		if err := emit(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// rows returns all rows, in a fixed order.
func (m *Meta) rows(ctx context.Context) ([]core.Row, error) {
	end, err := m.begin(ctx, "mem.Snapshot")
	if err != nil {
		return nil, err
	}
	defer end()
	state := m.state
	rows := []core.Row{{State: &state}}
	for _, id := range slices.Sorted(maps.Keys(m.buckets)) {
		info := cloneBucket(m.buckets[id].info)
		rows = append(rows, core.Row{Bucket: &info})
	}
	for _, id := range slices.Sorted(maps.Keys(m.contents.byID)) {
		data := cloneData(m.contents.byID[id])
		rows = append(rows, core.Row{Data: &data})
	}
	for _, id := range slices.Sorted(maps.Keys(m.buckets)) {
		rows = m.buckets[id].rows(rows)
	}
	for _, id := range slices.Sorted(maps.Keys(m.lists)) {
		for _, number := range slices.Sorted(maps.Keys(m.lists[id].parts)) {
			rows = append(rows, core.Row{Part: &core.ListPart{List: id, PartInfo: clonePart(m.lists[id].parts[number])}})
		}
	}
	for _, g := range m.contents.garbage {
		g.Extents = slices.Clone(g.Extents)
		rows = append(rows, core.Row{Garbage: &g})
	}
	for _, kind := range slices.Sorted(maps.Keys(m.records)) {
		for _, key := range slices.Sorted(maps.Keys(m.records[kind])) {
			rows = append(rows, core.Row{Record: &core.Record{Kind: kind, Key: key, Value: slices.Clone(m.records[kind][key])}})
		}
	}
	return rows, nil
}

// rows appends the versions and uploads of a bucket.
func (b *bucket) rows(rows []core.Row) []core.Row {
	for _, key := range slices.Sorted(maps.Keys(b.versions)) {
		for _, o := range b.versions[key] {
			found := b.read(o)
			rows = append(rows, core.Row{Object: &found})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.uploads)) {
		u := cloneUpload(b.uploads[id])
		rows = append(rows, core.Row{Upload: &u})
	}
	return rows
}

// Restore implements core.Snapshotter.
func (m *Meta) Restore(ctx context.Context, next func() (*core.Row, error)) error {
	const op = "mem.Restore"
	end, err := m.begin(ctx, op)
	if err != nil {
		return err
	}
	empty := m.state.Seq == 0
	end()
	if !empty {
		return core.E(op, core.Conflict, errors.New("the metadata engine is not empty"))
	}
	fresh := NewMeta()
	for {
		if err := ctx.Err(); err != nil {
			return core.E(op, core.Canceled, err)
		}
		row, err := next()
		if err != nil {
			return err
		}
		if row == nil {
			break
		}
		if err := fresh.restoreRow(row); err != nil {
			return err
		}
	}
	if err := fresh.count(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take(fresh)
	return nil
}

// Reset implements core.Snapshotter.
func (m *Meta) Reset(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take(NewMeta())
	return nil
}

// take replaces the metadata of m with that of another Meta.
func (m *Meta) take(from *Meta) {
	m.state, m.buckets, m.names, m.contents = from.state, from.buckets, from.names, from.contents
	m.lists, m.records = from.lists, from.records
}

func (m *Meta) restoreRow(row *core.Row) error {
	switch {
	case row.State != nil:
		m.state = *row.State
	case row.Bucket != nil:
		m.buckets[row.Bucket.ID] = &bucket{
			info: cloneBucket(*row.Bucket), versions: map[string][]*core.ObjectInfo{}, uploads: map[core.UploadID]*core.UploadInfo{},
		}
		m.names[row.Bucket.Name] = row.Bucket.ID
	case row.Data != nil:
		m.restoreData(row.Data)
	case row.Object != nil:
		b := m.buckets[row.Object.Bucket]
		if b == nil {
			return fail(core.NoSuchBucket, "a version belongs to a bucket that does not exist")
		}
		for _, s := range row.Object.Segments {
			if s.Info != nil {
				m.restoreData(s.Info)
			}
		}
		o := cloneObject(row.Object)
		o.Latest = false
		all := append(b.versions[o.Key], &o)
		slices.SortFunc(all, func(x, y *core.ObjectInfo) int { return int(int64(x.Seq) - int64(y.Seq)) })
		b.versions[o.Key] = all
	case row.Upload != nil:
		b := m.buckets[row.Upload.Bucket]
		if b == nil {
			return fail(core.NoSuchBucket, "an upload belongs to a bucket that does not exist")
		}
		u := cloneUpload(row.Upload)
		b.uploads[u.ID] = &u
	case row.Part != nil:
		p := clonePart(&row.Part.PartInfo)
		m.listOf(row.Part.List).parts[p.Number] = &p
	case row.Garbage != nil:
		m.contents.insertGarbage(core.Garbage{ID: row.Garbage.ID, List: row.Garbage.List, Extents: slices.Clone(row.Garbage.Extents)})
	case row.Record != nil:
		if m.records[row.Record.Kind] == nil {
			m.records[row.Record.Kind] = map[string][]byte{}
		}
		m.records[row.Record.Kind][row.Record.Key] = slices.Clone(row.Record.Value)
	}
	return nil
}

func (m *Meta) restoreData(d *core.DataInfo) {
	data := cloneData(d)
	data.Refs = 0
	m.contents.byID[d.ID] = &data
}

func (m *Meta) listOf(id core.UploadID) *list {
	if m.lists[id] == nil {
		m.lists[id] = &list{parts: map[int]*core.PartInfo{}}
	}
	return m.lists[id]
}

// count computes the reference counts.
func (m *Meta) count() error {
	hold := func(segments []core.Segment) error {
		for _, s := range segments {
			if m.contents.byID[s.Data] == nil {
				return fail(core.NoSuchData, "a segment refers to content that does not exist")
			}
			m.contents.byID[s.Data].Refs++
		}
		return nil
	}
	for _, b := range m.buckets {
		for _, all := range b.versions {
			for _, o := range all {
				if err := hold(o.Segments); err != nil {
					return err
				}
				if o.List != 0 {
					m.listOf(o.List).objects++
				}
			}
		}
		for id := range b.uploads {
			m.listOf(id)
		}
	}
	for _, l := range m.lists {
		for _, p := range l.parts {
			if err := hold(p.Segments); err != nil {
				return err
			}
		}
	}
	maps.DeleteFunc(m.contents.byID, func(_ core.DataID, d *core.DataInfo) bool { return d.Refs == 0 })
	return nil
}

// Sync implements core.Syncer. It has nothing to do: the metadata is lost when the process ends, and not before.
func (m *Meta) Sync(ctx context.Context) (core.State, error) { return m.State(ctx) }
