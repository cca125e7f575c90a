package sqlite

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"

	"orcas/core"
)

// applicationID is the application ID of an ORCAS database: "ORCA".
const applicationID = 0x4f524341

// step migrates a database from one schema version to the next, in a transaction. If it returns more, it is called again,
// in another transaction; if it is interrupted, the next start begins it again.
type step func(c *conn) (more bool, err error)

// steps returns the migrations: step i migrates version i to version i+1. A step never changes after its release.
func steps() []step {
	return []step{once(createTables), once(createHashRuns), once(createBlocks), once(addBriefs), fillBriefs(fillTogether), once(tallyAll), once(addTotal)}
}

// SchemaVersion returns the version of the schema to which this program migrates a database.
func SchemaVersion() int { return len(steps()) }

// once returns the step that fn does in one transaction.
func once(fn func(c *conn) error) step {
	return func(c *conn) (more bool, err error) { return false, fn(c) }
}

// createTables creates schema version 1. The package comment describes the tables, except finds and finds_upto, which
// became the tables of the hash index in version 2.
func createTables(c *conn) error {
	return c.run(`
CREATE TABLE state (
	id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, next_data INTEGER NOT NULL, floor BLOB NOT NULL
) STRICT;
INSERT INTO state VALUES (1, 0, 1, x'` + hex.EncodeToString(stateKey(0, 1).appendSum(make([]byte, 16))) + `');
CREATE TABLE buckets (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, info BLOB NOT NULL) STRICT;
CREATE TABLE objects (
	bucket INTEGER NOT NULL, key BLOB NOT NULL, seq INTEGER NOT NULL, nullver INTEGER NOT NULL, data INTEGER,
	PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE history (
	bucket INTEGER NOT NULL, key BLOB NOT NULL, seq INTEGER NOT NULL, nullver INTEGER NOT NULL, data INTEGER,
	PRIMARY KEY (bucket, key, seq DESC)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX history_null ON history (bucket, key) WHERE nullver = 1;
CREATE TABLE data (
	id INTEGER PRIMARY KEY, refs INTEGER NOT NULL, sha256 BLOB NOT NULL, info BLOB NOT NULL, object BLOB
) STRICT;
CREATE TABLE finds (hash INTEGER NOT NULL, data INTEGER NOT NULL, PRIMARY KEY (hash, data)) STRICT, WITHOUT ROWID;
CREATE TABLE finds_upto (id INTEGER PRIMARY KEY CHECK (id = 1), data INTEGER NOT NULL) STRICT;
INSERT INTO finds_upto VALUES (1, 1);
CREATE TABLE infos (seq INTEGER PRIMARY KEY, info BLOB NOT NULL) STRICT;
CREATE TABLE uploads (
	bucket INTEGER NOT NULL, key BLOB NOT NULL, id INTEGER NOT NULL, info BLOB NOT NULL,
	PRIMARY KEY (bucket, key, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE parts (
	list INTEGER NOT NULL, number INTEGER NOT NULL, seq INTEGER NOT NULL, info BLOB NOT NULL,
	PRIMARY KEY (list, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE lists (id INTEGER PRIMARY KEY, refs INTEGER NOT NULL) STRICT;
CREATE TABLE garbage (id INTEGER PRIMARY KEY, list INTEGER NOT NULL, extents BLOB NOT NULL) STRICT;
CREATE TABLE records (
	kind BLOB NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
	PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE tallies (
	bucket INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, objects INTEGER NOT NULL, seal BLOB NOT NULL
) STRICT;
PRAGMA application_id = ` + fmt.Sprint(applicationID))
}

// createHashRuns migrates to schema version 2: the pairs of the table finds become one run of the hash index.
func createHashRuns(c *conn) error {
	if err := c.run(`
CREATE TABLE hash_runs (id INTEGER PRIMARY KEY, info BLOB NOT NULL) STRICT;
CREATE TABLE hash_pages (id INTEGER PRIMARY KEY, pairs BLOB NOT NULL) STRICT;
CREATE TABLE hash_late (id INTEGER PRIMARY KEY, data INTEGER NOT NULL) STRICT;
ALTER TABLE finds_upto RENAME TO hash_upto`); err != nil {
		return err
	}
	s := hashRuns{c: c, pageLength: pageLength}
	r := s.newRun(0, s.nextAge(), 0)
	for _, half := range []string{"hash >= 0", "hash < 0"} { // the column was signed
		if err := c.scan(background, "SELECT hash, data FROM finds WHERE "+half+" ORDER BY hash, data", func(cols []driver.Value) error {
			r.pairs++
			s.page.add(hashPair{hash: uint64(integer(cols[0])), data: core.DataID(integer(cols[1]))})
			if s.page.isFull(s.pageLength) {
				return s.writePage(r)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	err := s.writePage(r)
	if err == nil && r.pairs > 0 {
		err = s.writeRow(r)
	}
	return errors.Join(err, c.run("DROP TABLE finds"))
}

// migrate migrates the database to the newest schema version. After each transaction of a longer step, the log is copied
// into the database, so that the log remains short.
func migrate(c *conn, steps []step) error {
	row, err := c.pragma("user_version")
	if err != nil {
		return err
	}
	version := int(integer(row[0]))
	if row, err = c.pragma("application_id"); err != nil {
		return err
	}
	if id := integer(row[0]); id != applicationID && (id != 0 || version != 0) {
		return core.E("sqlite.Open", core.Unsupported, errors.New("the file is a database of another application"))
	}
	if version > len(steps) {
		return core.E("sqlite.Open", core.Unsupported,
			fmt.Errorf("the database was written by a newer version of ORCAS: it has schema version %d, but this version supports only versions up to %d", version, len(steps)))
	}
	for version < len(steps) {
		more := false
		err := c.run("BEGIN IMMEDIATE")
		if err == nil {
			more, err = steps[version](c)
		}
		if err == nil && c.c.AutoCommit() {
			err = errRolledBack
		}
		if err == nil && more {
			if err = c.run("COMMIT"); err == nil {
				_, err = c.checkpoint("PASSIVE")
			}
		} else if err == nil {
			err = c.run(fmt.Sprintf("PRAGMA user_version = %d; COMMIT", version+1))
		}
		if err != nil {
			if !c.c.AutoCommit() {
				err = errors.Join(err, c.run("ROLLBACK"))
			}
			return fmt.Errorf("migration to schema version %d: %w", version+1, err)
		}
		if !more {
			version++
		}
	}
	return nil
}
