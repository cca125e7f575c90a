package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// verifyMax bounds the lines of each question that Verify asks.
const verifyMax = 100

// Verify looks for what the rows of a snapshot do not show, in one reading transaction: SQLite's own check of the file with its indexes; rows that
// nothing leads to; keys with two newest versions; tallies that are not what their buckets hold. It returns a line for each thing that is wrong. It reads the whole file.
func (m *Meta) Verify(ctx context.Context) ([]string, error) {
	var lines []string
	m.check.snapshots.Add(1)
	defer m.check.snapshots.Add(-1)
	err := m.read(ctx, "sqlite.Verify", func(c *conn) error {
		return c.snapshot(func() error {
			for _, q := range []struct{ sql, text string }{
				{"PRAGMA integrity_check(100)", "%s"},
				{"SELECT id FROM data WHERE object IS NOT NULL AND id NOT IN (SELECT data FROM objects WHERE data IS NOT NULL " +
					"UNION ALL SELECT data FROM history WHERE data IS NOT NULL)", "content %d was born with a version that is not there"},
				{"SELECT data, count(*) AS n FROM (SELECT data FROM objects WHERE data IS NOT NULL UNION ALL " +
					"SELECT data FROM history WHERE data IS NOT NULL) GROUP BY data HAVING n > 1", "content %d was born with %d versions"},
				{"SELECT seq FROM infos WHERE seq NOT IN (SELECT seq FROM objects WHERE data IS NULL UNION ALL " +
					"SELECT seq FROM history WHERE data IS NULL)", "the info of version %d belongs to no version"},
				{"SELECT o.key, o.bucket FROM objects o JOIN history h ON h.bucket = o.bucket AND h.key = o.key AND h.seq >= o.seq",
					"key %q in bucket number %d has a version that is newer than its listed one"},
				{"SELECT o.key, o.bucket FROM objects o JOIN history h ON h.bucket = o.bucket AND h.key = o.key WHERE o.nullver = 1 AND h.nullver = 1",
					"key %q in bucket number %d has two null versions"},
			} {
				if err := ctx.Err(); err != nil {
					return err
				}
				err := c.scan(q.sql+limitOf(q.sql), func(cols []driver.Value) error {
					if cols[0] != "ok" {
						lines = append(lines, nameRow(q.text, cols))
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return c.verifyTallies(func(line string) { lines = append(lines, line) })
		})
	})
	return lines, err
}

// limitOf bounds a query; a pragma has its own bound.
func limitOf(sql string) string {
	if sql[0] == 'P' {
		return ""
	}
	return fmt.Sprint(" LIMIT ", verifyMax)
}
