package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/core/frame"
	"orcas/core/sqlite"
	"orcas/fsck"
	"orcas/storetest"
)

// damage is a way to damage the store that filled creates, and the differences that fsck then reports.
type damage struct {
	damage func(t *testing.T, dir string)
	kinds  []string // kinds of differences before the repair
	left   []string // kinds of differences after the repair
	gone   int      // number of versions that the repair drops
	other  bool     // versions have other names after the repair
	where  string   // location that the report names
	healed bool     // the start of a server repairs the damage
}

// damages are ways to damage a store. Together they cause every kind of difference that fsck knows.
func damages() map[string]damage {
	return map[string]damage{
		"references": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "UPDATE data SET refs = refs + 1 WHERE id = (SELECT max(data) FROM objects)")
			},
			kinds: []string{fsck.KindReferences}, where: "versioned/",
		},
		"references to a segment list": {
			damage: func(t *testing.T, dir string) { change(t, dir, "DELETE FROM parts WHERE number = 2") },
			kinds:  []string{fsck.KindUnused, fsck.KindSize, fsck.KindEngine}, left: []string{fsck.KindSize},
		},
		"shared content is missing": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "DELETE FROM data WHERE object IS NOT NULL AND refs = 6")
			},
			kinds: []string{fsck.KindRow, fsck.KindNoContent, fsck.KindEngine}, gone: 6, where: "copy-4",
		},
		"content of a part is missing": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "DELETE FROM data WHERE object IS NULL AND id = (SELECT min(id) FROM data WHERE object IS NULL)")
			},
			kinds: []string{fsck.KindNoContent, fsck.KindEngine}, gone: 2, where: "multipart-copy",
		},
		"a damaged row": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "UPDATE data SET info = x'0102030405' WHERE id = (SELECT max(data) FROM objects)")
			},
			kinds: []string{fsck.KindRow}, gone: 1, where: "v-1",
		},
		"current version not listed": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "INSERT INTO history SELECT bucket, key, seq, nullver, data FROM objects WHERE key = x'76' || '-7' OR key = CAST('v-7' AS BLOB)",
					"DELETE FROM objects WHERE key = CAST('v-7' AS BLOB)")
			},
			kinds: []string{fsck.KindLatest, fsck.KindEngine}, where: "v-7",
		},
		"noncurrent version listed": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "CREATE TABLE t AS SELECT bucket, key, seq, nullver, data FROM objects WHERE key = CAST('v-8' AS BLOB)",
					"UPDATE objects SET (seq, nullver, data) = (SELECT seq, nullver, data FROM history h WHERE h.key = objects.key ORDER BY seq LIMIT 1) WHERE key = CAST('v-8' AS BLOB)",
					"DELETE FROM history WHERE (bucket, key, seq) IN (SELECT bucket, key, seq FROM objects)",
					"INSERT INTO history SELECT * FROM t", "DROP TABLE t")
			},
			kinds: []string{fsck.KindLatest, fsck.KindEngine}, where: "v-8",
		},
		"missing bucket": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "DELETE FROM buckets WHERE name = CAST('versioned' AS BLOB)")
			},
			kinds: []string{fsck.KindBucket, fsck.KindEngine}, other: true,
		},
		"orphaned part list": {
			damage: func(t *testing.T, dir string) { change(t, dir, "DELETE FROM uploads") },
			kinds:  []string{fsck.KindList, fsck.KindEngine},
		},
		"damaged tally": {
			damage: func(t *testing.T, dir string) { change(t, dir, "UPDATE tallies SET info = x'00'") },
			kinds:  []string{fsck.KindEngine},
		},
		"wrong size in the listing": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "UPDATE objects SET brief = NULL WHERE key = CAST('small-9' AS BLOB)",
					"UPDATE objects SET brief = x'0000' WHERE key = CAST('small-10' AS BLOB)")
			},
			kinds: []string{fsck.KindEngine},
		},
		"missing tally": {
			damage: func(t *testing.T, dir string) { change(t, dir, "DELETE FROM tallies") },
			kinds:  []string{fsck.KindEngine},
		},
		"content without its first version": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "DELETE FROM objects WHERE key = CAST('small-9' AS BLOB)")
			},
			kinds: []string{fsck.KindEngine}, other: true, // the key is stored nowhere else
		},
		"missing block": {
			damage: func(t *testing.T, dir string) { require.NoError(t, os.Remove(blockFiles(t, dir, ".large")[0])) },
			kinds:  []string{fsck.KindNoBlock}, left: []string{fsck.KindNoBlock}, where: "plain/\"copy-0\"",
		},
		"truncated block": {
			damage: func(t *testing.T, dir string) {
				require.NoError(t, os.Truncate(blockFiles(t, dir, ".large")[0], 100_000))
			},
			kinds: []string{fsck.KindExtent, fsck.KindContent}, left: []string{fsck.KindExtent, fsck.KindContent},
		},
		"damaged block header": {
			damage: func(t *testing.T, dir string) { storetest.FlipFile(t, blockFiles(t, dir, ".packed")[0], 20) },
			kinds:  []string{fsck.KindHeader}, left: []string{fsck.KindHeader},
		},
		"damaged content": {
			damage: func(t *testing.T, dir string) { storetest.FlipFile(t, blockFiles(t, dir, ".large")[1], 1_000_000) },
			kinds:  []string{fsck.KindContent}, left: []string{fsck.KindContent}, where: "part 1",
		},
		"two null versions": {
			damage: func(t *testing.T, dir string) {
				alterOnce := map[bool]bool{}
				alter(t, dir, func(r *core.Row) {
					if o := r.Object; o != nil && o.Key == "v-6" && !alterOnce[o.Latest] {
						alterOnce[o.Latest], o.Null = true, true
					}
				})
			},
			kinds: []string{fsck.KindNull, fsck.KindEngine}, gone: 1, other: true, where: "v-6",
		},
		"DataID above the counter": {
			damage: func(t *testing.T, dir string) {
				alter(t, dir, func(r *core.Row) {
					if r.State != nil {
						r.State.NextData -= 3
					}
				})
			},
			kinds: []string{fsck.KindNumber}, where: "content ",
		},
		"overlapping extents": {
			damage: func(t *testing.T, dir string) {
				var first *core.DataInfo
				alter(t, dir, func(r *core.Row) {
					if r.Object == nil || r.Object.Key != "small-20" && r.Object.Key != "small-21" {
						return
					}
					if d := r.Object.Segments[0].Info; first == nil {
						first = d
					} else {
						d.Extents[0].Offset = first.Extents[0].Offset
					}
				})
			},
			kinds: []string{fsck.KindOverlap, fsck.KindContent}, left: []string{fsck.KindOverlap, fsck.KindContent}, where: "small-2",
		},
		"missing dictionary": {
			damage: func(t *testing.T, dir string) {
				alter(t, dir, func(r *core.Row) {
					if r.Object != nil && r.Object.Key == "small-20" {
						r.Object.Segments[0].Info.Codec, r.Object.Segments[0].Info.Dictionary = frame.Zstd, 77
					}
				})
			},
			kinds: []string{fsck.KindDictionary}, left: []string{fsck.KindDictionary}, where: "small-20",
		},
		"an index in the wrong order": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "PRAGMA writable_schema = ON; "+
					"UPDATE sqlite_schema SET sql = replace(sql, 'PRIMARY KEY (bucket, key)', 'PRIMARY KEY (bucket DESC, key)') WHERE name = 'objects'")
			},
			kinds: []string{fsck.KindListing, fsck.KindLatest, fsck.KindEngine}, where: "v-5",
		},
		"damaged snapshot": {
			damage: func(t *testing.T, dir string) {
				s := openStore(t, dir)
				s.reclaims(true, 0)
				s.Close()
				storetest.FlipFile(t, blockFiles(t, dir, ".snapshot")[0], 200)
			},
			kinds: []string{fsck.KindSnapshot}, left: []string{fsck.KindSnapshot},
		},
		"outdated database": {
			damage: func(t *testing.T, dir string) {
				database := filepath.Join(dir, "metadata.db")
				old, err := os.ReadFile(database)
				require.NoError(t, err)
				s := openStore(t, dir)
				for i := range 30 {
					s.In(s.OpenBucket("plain", 0)).Put(fmt.Sprint("late-", i), s.body(2000))
					s.In(s.OpenBucket("plain", 0)).Delete(fmt.Sprint("late-", i))
				}
				s.reclaims(true, 0)
				s.Close()
				require.NoError(t, os.WriteFile(database, old, 0o600))
			},
			kinds: []string{fsck.KindGap}, healed: true,
		},
	}
}

// alter replaces the database with one that has the same rows after fn has modified them.
func alter(t *testing.T, dir string, fn func(r *core.Row)) {
	path := filepath.Join(dir, "metadata.db")
	old, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	var rows []*core.Row
	require.NoError(t, old.Snapshot(ctx, func(r *core.Row) error {
		r, err := encoding.DecodeRow(encoding.AppendRow(nil, r)) // a copy, which stays valid
		if err == nil {
			fn(r)
			rows = append(rows, r)
		}
		return err
	}))
	require.NoError(t, old.Close())
	require.NoError(t, os.Remove(path))
	fresh, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, fresh.Restore(ctx, func() (*core.Row, error) {
		if len(rows) == 0 {
			return nil, nil
		}
		r := rows[0]
		rows = rows[1:]
		return r, nil
	}))
	require.NoError(t, fresh.Close())
}

// checkOnline starts a server on a copy of a data directory and returns the report of orcas admin fsck.
func checkOnline(t *testing.T, dir string) (r fsck.Report, text string) {
	data := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(data, os.DirFS(dir)))
	idle := []string{"ORCAS_MIN_FREE=0", "ORCAS_RECLAIM_ENABLED=false", "ORCAS_SCRUB_DAYS=0", "ORCAS_LIFECYCLE_INTERVAL_SEC=3600"}
	serveWith(t, data, idle, func(_ *s3.Client, admin string) {
		status, stdout, stderr := orcas("admin", "fsck", "--content", "--json", "--data", data, "--admin-address", admin)
		require.NoError(t, json.Unmarshal([]byte(stdout), &r), stderr)
		require.Equal(t, r.Found > 0, status == exitFailed, stderr)
		text = stdout
	})
	return r, text
}

// TestDamagesAreOfEveryKind: damages cause every kind of difference, and operations.md lists all kinds.
func TestDamagesAreOfEveryKind(t *testing.T) {
	of := map[string]bool{}
	for _, c := range damages() {
		for _, kind := range c.kinds {
			of[kind] = true
		}
	}
	source, err := os.ReadFile("../../fsck/check.go")
	require.NoError(t, err)
	var known []string
	for _, m := range regexp.MustCompile(`\tKind[A-Z]\w+ += "([a-z-]+)"`).FindAllSubmatch(source, -1) {
		known = append(known, string(m[1]))
	}
	slices.Sort(known)
	require.Equal(t, known, slices.Sorted(maps.Keys(of)))
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	var listed []string
	_, table, found := bytes.Cut(text, []byte("| kind | means | `--repair` |\n"))
	require.True(t, found)
	for line := range bytes.Lines(table) {
		if !bytes.HasPrefix(line, []byte("|")) {
			break
		}
		cell, _, _ := bytes.Cut(line[1:], []byte("|"))
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllSubmatch(cell, -1) {
			listed = append(listed, string(m[1]))
		}
	}
	slices.Sort(listed)
	require.Equal(t, known, listed, "the table in operations.md")
}
