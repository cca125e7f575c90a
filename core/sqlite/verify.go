package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"orcas/core"
)

// verifyMax is the maximum number of findings per query of Verify.
const verifyMax = 100

// Verify performs the checks that a snapshot does not: of the file and its indexes (with PRAGMA integrity_check), for
// orphaned rows, keys with two current versions, damaged pages of the hash index, columns brief that differ from their
// versions, tallies that differ from the usage of their buckets, and blocks whose recorded content differs from their
// content. It uses one read transaction, reads the whole file, and returns one line per finding.
func (m *Meta) Verify(ctx context.Context) ([]string, error) {
	var lines []string
	err := m.readLong(ctx, "sqlite.Verify", func(ctx context.Context, c *conn) error {
		return c.snapshot(func() error {
			questions := []struct{ sql, text string }{
				{"PRAGMA integrity_check(100)", "%s"},
				{"SELECT id FROM data WHERE object IS NOT NULL AND id NOT IN (SELECT data FROM objects WHERE data IS NOT NULL " +
					"UNION ALL SELECT data FROM history WHERE data IS NOT NULL)", "content %d belongs to a version that does not exist"},
				{"SELECT data, count(*) AS n FROM (SELECT data FROM objects WHERE data IS NOT NULL UNION ALL " +
					"SELECT data FROM history WHERE data IS NOT NULL) GROUP BY data HAVING n > 1", "content %d belongs to %d versions"},
				{"SELECT seq FROM infos WHERE seq NOT IN (SELECT seq FROM objects WHERE data IS NULL UNION ALL " +
					"SELECT seq FROM history WHERE data IS NULL)", "the info of version %d does not belong to any version"},
				{"SELECT o.key, o.bucket FROM objects o JOIN history h ON h.bucket = o.bucket AND h.key = o.key AND h.seq >= o.seq",
					"key %q in the bucket with ID %d has a version that is newer than its current one"},
				{"SELECT o.key, o.bucket FROM objects o JOIN history h ON h.bucket = o.bucket AND h.key = o.key WHERE o.nullver = 1 AND h.nullver = 1",
					"key %q in the bucket with ID %d has two null versions"},
			}
			for _, q := range questions {
				if err := ctx.Err(); err != nil {
					return err
				}
				err := c.scan(ctx, q.sql+limitOf(q.sql), func(cols []driver.Value) error {
					if cols[0] != "ok" {
						lines = append(lines, nameRow(q.text, cols))
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			add := func(line string) { lines = append(lines, line) }
			if err := c.verifyHashIndex(ctx, add); err != nil {
				return err
			}
			n := newBucketCount()
			if err := c.verifyBriefs(ctx, n, add); err != nil {
				return err
			}
			if err := c.verifyTallies(ctx, n, add); err != nil {
				return err
			}
			return c.verifyBlocks(ctx, add)
		})
	})
	return lines, err
}

// verifyHashIndex checks that every run of the hash index and each of its pages can be read, that the pairs of a run are
// in order, and that every page belongs to a run. It does not compare the pairs with the content.
func (c *conn) verifyHashIndex(ctx context.Context, add func(line string)) error {
	runs, found := map[runID]bool{}, 0
	report := func(line string) {
		if found++; found <= verifyMax {
			add(line)
		}
	}
	if err := c.scan(ctx, "SELECT id, info FROM hash_runs", func(cols []driver.Value) error {
		id := runID(integer(cols[0]))
		runs[id] = true
		if _, err := decodeRun(id, bytes(cols[1])); err != nil {
			report(core.Text(err))
		}
		return nil
	}); err != nil {
		return err
	}
	var last hashPair
	var run runID
	return c.scan(ctx, "SELECT id, pairs FROM hash_pages ORDER BY id", func(cols []driver.Value) error {
		id := integer(cols[0])
		if runOf(id) != run {
			run, last = runOf(id), hashPair{}
		}
		if !runs[run] {
			report(fmt.Sprintf("page %d of the hash index belongs to no run", id))
			return nil
		}
		p, err := openPage(id, bytes(cols[1]))
		if err != nil {
			report(core.Text(err))
			return nil
		}
		inOrder := true
		for pair, ok := p.next(); ok; pair, ok = p.next() {
			inOrder = inOrder && comparePairs(last, pair) < 0
			last = pair
		}
		if !inOrder || len(p.rest) > 0 || id < run.pageOf(last.hash) {
			report(fmt.Sprintf("page %d of the hash index is not in order", id))
		}
		return nil
	})
}

// limitOf returns the LIMIT clause of a query. It returns an empty string for a pragma, whose argument is the limit.
func limitOf(sql string) string {
	if sql[0] == 'P' {
		return ""
	}
	return fmt.Sprint(" LIMIT ", verifyMax)
}
