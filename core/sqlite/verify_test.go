package sqlite

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// TestSalvage checks that Salvage reports damaged rows and skips them, that a snapshot fails because of them, and that
// Verify finds damage that neither can see.
func TestSalvage(t *testing.T) {
	ctx := context.Background()
	m := openAt(t, t.TempDir(), Options{})
	defer m.Close()
	changes := []core.Change{&core.PutBucket{Info: core.BucketInfo{Name: "b"}}}
	for i, key := range []string{"a", "b", "c", "d"} {
		d := &core.DataInfo{ID: core.DataID(i + 1), Size: 1, Extents: []core.Extent{{Offset: 64, Length: 81}}}
		changes = append(changes, &core.PutObject{Object: core.ObjectInfo{
			Bucket: 1, Key: key, Size: 1, Segments: []core.Segment{{Data: d.ID, Length: 1, Info: d}},
		}})
	}
	for i, c := range changes {
		c.SetStamp(core.Seq(i + 1))
	}
	_, err := m.Apply(ctx, changes)
	require.NoError(t, err)
	lines, err := m.Verify(ctx)
	require.NoError(t, err)
	require.Empty(t, lines)
	for _, sql := range []string{
		"UPDATE data SET info = x'00010203' WHERE id = 1",
		"DELETE FROM data WHERE id = 2",
		"DELETE FROM objects WHERE key = CAST('c' AS BLOB)",
	} {
		require.NoError(t, m.runSQL(sql))
	}
	err = m.Snapshot(ctx, func(*core.Row) error { return nil })
	require.True(t, core.Is(err, core.Damaged), err)
	var keys, lost []string
	require.NoError(t, m.Salvage(ctx, func(r *core.Row) error {
		if r.Object != nil {
			keys = append(keys, r.Object.Key)
		}
		return nil
	}, func(what string, err error) {
		require.Error(t, err)
		lost = append(lost, what)
	}))
	require.Equal(t, []string{"d"}, keys)
	require.Len(t, lost, 2)
	require.Contains(t, lost[0], `key "a"`)
	require.Contains(t, lost[1], `key "b"`)
	lines, err = m.Verify(ctx)
	require.NoError(t, err)
	require.Equal(t, "content 3 belongs to a version that does not exist", strings.Join(lines, "\n"))
}
