package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"orcas/core"
	"orcas/internal/mutant"
)

// # Snapshots without a long read
//
// A snapshot must contain all metadata as of one sequence S. A read transaction gives exactly that, but SQLite cannot
// restart its log before the transaction ends, and the log grew to 1.86 GB beside a snapshot of 4.5 million objects. So
// a snapshot reads ranges of rows (dumpRows) in one short transaction each. Meanwhile, the writer saves a before-image
// of each row that it changes: the row as it was at S. With them, the snapshot undoes the changes of each range:
//
//  1. Under Meta.mu, with everything committed, S becomes the current state, and triggers are created that save images.
//  2. The rows of a range are read. This transaction sees any number of changes after S.
//  3. Then the images of the range are read. An image replaces the row with its key, or adds a row that was deleted. An
//     image can also say that there was no row with that key: then a row that was read is dropped.
//
// Why that is exact: only the first change of a row after S saves an image, so an image is the row as of S. If there is
// no image of a key after the range was read, then the row has not changed from S until then, so the row that was read
// is the row as of S. Images of uncommitted changes are correct as well. A rollback removes its images together with its
// changes, because both are in the same transaction.
//
// Triggers save the images, so no statement can forget to. REPLACE would not run triggers, so no statement on these
// tables uses it. Most writes insert a new row, and need no image: the row's sequence or ID shows that it is newer than
// S (imagedTable.fresh). Other rows with a new key need an image which says that the key had no row: a version that
// moves to history or back, a record, and content whose DataID was assigned before S but which is committed after S.
//
// The row of a version is read together with the row of its content (data) or with its info (infos). These have images
// of their own, which are looked up by ID for the versions of a range. So all images are kept until the snapshot ends.
//
// The images are in a second database, attached to the writer's connection. Its file is next to the main database, so
// that it does not need space on another drive. The file is unlinked as soon as it is open, and never synced. It grows
// to about the size of the rows that are changed during the snapshot (303 bytes for a small object that is overwritten),
// at most maxImageBytes; then the snapshot returns Busy. Without a snapshot there are no triggers.
//
// With 300,000 objects in the order of their keys a row costs 3.2 microseconds of CPU, and 2.4 in one long read. With
// random keys it costs 6.8 in both, because the content of neighboring keys is spread over the table data.
//
// # Hidden rows
//
// Reclaim deletes the records that a snapshot covers, so a snapshot without a row loses that row if the database is lost
// too. SQLite notices many damaged pages, but not if the number of cells in a page is too small, or if an inner page
// refers to the wrong page of the same kind: then rows are missing from a scan, without an error. Row checksums cannot
// show that. So the snapshot compares tables with each other:
//
//   - The references that versions and parts make to content must be the ones that the rows of the content count. For
//     both, a sum over the hashes of DataIDs is computed. So a row that is missing in one of the tables is noticed.
//   - Versions whose info is in infos must be the ones that have a row there, by a sum over the hashes of sequences.
//   - The other tables (buckets, uploads, garbage, records) are small. PRAGMA integrity_check verifies that every byte of
//     their pages belongs to a cell or to free space, and that the rows are in order.

// maxImageBytes is the maximum size of the images of a snapshot, in bytes.
const maxImageBytes = 1 << 30

// errImages ends a snapshot.
var errImages = errors.New("the snapshot was ended, because too many of the rows that it had to keep were changed while it was written: " +
	"try again when there are fewer writes")

// imagedTable is a table whose before-images are saved while a snapshot is read.
type imagedTable struct {
	name    string
	columns []string // the columns of the key come first
	keys    int      // the number of columns of the key
	order   string   // the order of the rows

	// fresh is the condition that $row was inserted after the snapshot began, with $seq and $data for the sequence and
	// the next DataID at that time.
	fresh string
}

var (
	imagedBuckets = imagedTable{"buckets", []string{"id", "name", "info"}, 1, "id", "$row.id > $seq"}
	imagedObjects = imagedTable{"objects", []string{"bucket", "key", "seq", "nullver", "data"}, 2, "bucket, key", "$row.seq > $seq"}
	imagedHistory = imagedTable{"history", []string{"bucket", "key", "seq", "nullver", "data"}, 3, "bucket, key, seq DESC", "$row.seq > $seq"}
	imagedInfos   = imagedTable{"infos", []string{"seq", "info"}, 1, "seq", "$row.seq > $seq"}
	imagedUploads = imagedTable{"uploads", []string{"bucket", "key", "id", "info"}, 3, "bucket, key, id", "$row.id > $seq"}
	imagedParts   = imagedTable{"parts", []string{"list", "number", "seq", "info"}, 2, "list, number", "$row.seq > $seq"}
	imagedGarbage = imagedTable{"garbage", []string{"id", "list", "extents"}, 1, "id", "$row.id > 2 * $seq + 1"}
	imagedRecords = imagedTable{"records", []string{"kind", "key", "value"}, 2, "kind, key", "0"}
	// The highest DataID does not raise the next DataID (see sawData).
	imagedData = imagedTable{"data", []string{"id", "refs", "sha256", "info", "object"}, 1, "id", "$row.id BETWEEN $data AND 9223372036854775806"}

	imagedTables = []imagedTable{imagedBuckets, imagedObjects, imagedHistory, imagedInfos, imagedUploads, imagedParts, imagedGarbage, imagedRecords, imagedData}
)

// isFresh returns the condition that a row was inserted after a snapshot with this state began.
func (t *imagedTable) isFresh(row string, s core.State) string {
	return strings.NewReplacer("$row", row, "$seq", fmt.Sprint(s.Seq), "$data", fmt.Sprint(s.NextData)).Replace(t.fresh)
}

// images returns the name of the table with the images. Its last column, present, is 0 if there was no row.
func (t *imagedTable) images() string { return "was_" + t.name }

// create returns the statements that create the table of the images and the triggers. The triggers have ON CONFLICT
// instead of OR IGNORE, which the statement that runs a trigger would override.
func (t *imagedTable) create(s core.State) string {
	var old, absent []string
	for i, column := range t.columns {
		old = append(old, "OLD."+column)
		if i < t.keys {
			absent = append(absent, "NEW."+column)
		} else {
			absent = append(absent, "NULL")
		}
	}
	sql := fmt.Sprintf("CREATE TABLE images.%s (%s, present, PRIMARY KEY (%s)) WITHOUT ROWID;\n", t.images(), strings.Join(t.columns, ", "), t.order)
	for _, g := range []struct{ event, row, values string }{
		{"BEFORE UPDATE", "OLD", strings.Join(old, ", ") + ", 1"},
		{"BEFORE DELETE", "OLD", strings.Join(old, ", ") + ", 1"},
		{"AFTER INSERT", "NEW", strings.Join(absent, ", ") + ", 0"},
	} {
		if mutant.Is("no-image-of-history") && t.name == "history" && g.row == "OLD" || mutant.Is("no-absent-image") && g.row == "NEW" {
			continue
		}
		sql += fmt.Sprintf("CREATE TEMP TRIGGER %s %s ON main.%s WHEN NOT (%s) BEGIN INSERT INTO %s VALUES (%s) ON CONFLICT DO NOTHING; END;\n",
			t.trigger(g.event), g.event, t.name, t.isFresh(g.row, s), t.images(), g.values)
	}
	return sql
}

func (t *imagedTable) trigger(event string) string {
	return "image_" + t.name + "_" + strings.ReplaceAll(event, " ", "_")
}

// startImages makes the writer save images, and sets the state of the snapshot. The caller then calls endImages, even
// after an error.
func (d *dump) startImages() error {
	m := d.m
	return d.withWriter(func(c *conn) error {
		if m.imaged != nil { // the drive was full at the end of the last snapshot
			if err := m.imaged.dropImages(); err != nil {
				return err
			}
		}
		if err := m.commit(d.op); err != nil {
			return err
		}
		d.state = m.w.state
		file := m.path + "-images"
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) // SQLite would create a file that all users can read
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if _, err = c.c.Exec("ATTACH ?1 AS images", []driver.Value{file}); err == nil {
			m.imaged = d
		}
		if err = errors.Join(err, os.Remove(file)); err != nil {
			return err
		}
		sql := "PRAGMA images.journal_mode=MEMORY; PRAGMA images.synchronous=OFF; PRAGMA images.locking_mode=EXCLUSIVE; PRAGMA images.cache_size=-2048;\n"
		for i := range imagedTables {
			sql += imagedTables[i].create(d.state)
		}
		return c.run(sql)
	})
}

// endImages deletes the triggers and the images. If the open transaction cannot be committed because the drive is full,
// it tries again until it can.
func (d *dump) endImages() {
	drop := func() error {
		d.m.mu.Lock()
		defer d.m.mu.Unlock()
		return d.dropImages()
	}
	if drop() == nil {
		return
	}
	go func() {
		for {
			select {
			case <-d.m.done:
				return
			case <-time.After(time.Second):
			}
			if drop() == nil {
				return
			}
		}
	}()
}

// dropImages deletes the triggers and the images of d, if they still exist. The caller holds Meta.mu.
func (d *dump) dropImages() error {
	m := d.m
	if m.imaged != d || m.stopped != nil { // without writes, the triggers do not run
		return nil
	}
	if err := m.commit(d.op); err != nil {
		return err
	}
	sql := ""
	for i := range imagedTables {
		for _, event := range []string{"BEFORE UPDATE", "BEFORE DELETE", "AFTER INSERT"} {
			sql += "DROP TRIGGER IF EXISTS temp." + imagedTables[i].trigger(event) + ";\n"
		}
	}
	err := m.w.c.run(sql + "DETACH images")
	if err == nil {
		m.imaged = nil
	}
	return err
}

// withWriter runs fn with the writer's connection.
func (d *dump) withWriter(fn func(c *conn) error) error {
	m := d.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return m.errStopped("sqlite.Snapshot")
	}
	return fn(m.w.c)
}

// imageBytes returns the size of the images, in bytes, or an error if they need too much space.
func (c *conn) imageBytes() (n int64, err error) {
	row, err := c.pragma("images.page_count")
	if err == nil {
		n = integer(row[0]) * pageSize
	}
	if n > maxImageBytes {
		err = core.E("sqlite.Snapshot", core.Busy, errImages)
	}
	return n, err
}
