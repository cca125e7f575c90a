package main

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// doubleChild replaces the pointer to the third child in the root of a table's B-tree with the pointer to the second
// child. Then the rows of the second child appear twice, and those of the third are hidden.
func doubleChild(t *testing.T, dir, table string) {
	path := filepath.Join(dir, "metadata.db")
	db, err := sql.Open("sqlite3", path)
	require.NoError(t, err)
	var root, pageSize int64
	require.NoError(t, db.QueryRow("SELECT rootpage FROM sqlite_master WHERE name = ?", table).Scan(&root))
	require.NoError(t, db.QueryRow("PRAGMA page_size").Scan(&pageSize))
	require.NoError(t, db.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	page := make([]byte, pageSize)
	_, err = f.ReadAt(page, (root-1)*pageSize)
	require.NoError(t, err)
	require.Contains(t, []byte{2, 5}, page[0], "the root is not an interior page")
	cells := int(binary.BigEndian.Uint16(page[3:]))
	require.GreaterOrEqual(t, cells, 3)
	const header = 12             // size of the header of an interior page; the offsets of the cells follow
	child := func(n int) []byte { // the page number in a cell
		at := binary.BigEndian.Uint16(page[header+2*n:])
		return page[at : at+4]
	}
	require.NotEqual(t, child(1), child(2))
	copy(child(2), child(1))
	_, err = f.WriteAt(page, (root-1)*pageSize)
	require.NoError(t, err)
}

// TestFsckRepairsATree: an interior page that refers to one child twice hides the rows of another. A repair restores
// all rows from the blocks; without records it keeps each row that can be reached, once.
func TestFsckRepairsATree(t *testing.T) {
	const keys = 1200
	for _, table := range []string{"objects", "data"} {
		for _, records := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, records %v", table, records), func(t *testing.T) {
				dir := t.TempDir()
				s := openStore(t, dir)
				b := s.OpenBucket("plain", core.VersioningOff)
				s.putAll(b, keys)
				_, before := s.contents()
				s.Close()
				require.Len(t, before, keys)
				doubleChild(t, dir, table)
				if !records {
					spoilRecords(t, dir)
				}
				r, text := fsckJSON(t, dir)
				require.True(t, r.Check.RowsLost(), text)
				r, text = fsckJSON(t, dir, "--repair")
				require.Zero(t, r.After.Found, text)
				s = openStore(t, dir)
				defer s.Close()
				_, after := s.contents()
				if records {
					require.Equal(t, before, after)
					return
				}
				require.NotEmpty(t, r.NotRebuilt)
				require.NotEmpty(t, after)
				for name, sum := range after {
					require.Equal(t, before[name], sum, name)
				}
				if table == "objects" {
					require.NotZero(t, r.Repair.Twice)
				}
			})
		}
	}
}
