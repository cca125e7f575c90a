package mem

import (
	"context"
	"maps"
	"slices"

	"orcas/core"
)

// Tallies implements core.Tallier. Like Usage, it counts on every call.
func (m *Meta) Tallies(ctx context.Context, after core.BucketID, limit int) ([]core.BucketTally, error) {
	end, err := m.begin(ctx, "mem.Tallies")
	if err != nil {
		return nil, err
	}
	defer end()
	var found []core.BucketTally
	for _, id := range slices.Sorted(maps.Keys(m.buckets)) {
		if len(found) < limit && id > after {
			found = append(found, core.BucketTally{Bucket: id, Tally: m.tally(m.buckets[id])})
		}
	}
	return found, nil
}

// tally counts what a bucket holds.
func (m *Meta) tally(b *bucket) (t core.Tally) {
	for key, all := range b.versions {
		for _, o := range all {
			t = t.Plus(core.TallyOf(o, o == b.current(key)))
		}
	}
	for id := range b.uploads {
		t.Uploads++
		for _, p := range m.lists[id].parts {
			t.UploadBytes += p.Size
		}
	}
	return t
}
