package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe"

	sqlite3 "github.com/mattn/go-sqlite3"

	"orcas/core"
)

// conn is a connection of the SQLite driver with its prepared statements, for one goroutine at a time. The overhead of
// database/sql would exceed the cost of many statements.
type conn struct {
	c          *sqlite3.SQLiteConn
	statements [numStatements]*prepared
	args       []driver.NamedValue
	ran        int  // the number of statements so far; tests check the number per write
	open       bool // a transaction is open (see transaction.go)
}

// prepared is a statement with memory for a row. It has one cursor: it must not be used again while its rows are read.
type prepared struct {
	s    *sqlite3.SQLiteStmt
	cols []driver.Value
}

// role has the settings of a connection, which depend on its purpose.
type role struct {
	synchronous string // NORMAL, FULL, or OFF for Options.Bulk
	cacheKiB    int
	readOnly    bool
	busyMillis  int
}

// connect opens a connection and verifies its settings. They are read back because the driver has its own default of
// synchronous, and SQLite may refuse a journal_mode.
func connect(path string, r role) (*conn, error) {
	escape := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")
	dsn := fmt.Sprintf("file:%s?_mutex=no&_busy_timeout=%d&_synchronous=%s&_cache_size=-%d", escape.Replace(path), r.busyMillis,
		r.synchronous, r.cacheKiB)
	if r.readOnly {
		dsn += "&_query_only=1"
	} else {
		dsn += "&_journal_mode=WAL"
	}
	dc, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	c := &conn{c: dc.(*sqlite3.SQLiteConn)}
	// On macOS, fullfsync makes SQLite flush the cache of the drive, without which a sync does not survive a power cut.
	// Elsewhere it has no effect.
	err = c.run("PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY; PRAGMA fullfsync=1; PRAGMA checkpoint_fullfsync=1")
	if err == nil {
		err = c.verify(r.synchronous)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// verify reads back the settings that durability depends on.
func (c *conn) verify(synchronous string) error {
	level := map[string]int64{"OFF": 0, "NORMAL": 1, "FULL": 2}[synchronous]
	for _, want := range []struct {
		pragma string
		value  driver.Value
	}{{"journal_mode", "wal"}, {"synchronous", level}, {"wal_autocheckpoint", int64(0)}} {
		got, err := c.pragma(want.pragma)
		if err != nil {
			return err
		}
		if len(got) == 0 || got[0] != want.value {
			return fmt.Errorf("PRAGMA %s is %v, not %v", want.pragma, got, want.value)
		}
	}
	return nil
}

// close finalizes the statements and closes the connection.
func (c *conn) close() error {
	var errs []error
	for _, p := range c.statements {
		if p != nil {
			errs = append(errs, p.s.Close())
		}
	}
	return errors.Join(append(errs, c.c.Close())...)
}

// errRolledBack is returned if SQLite has rolled back a transaction after an error that was not noticed.
var errRolledBack = errors.New("SQLite has rolled back the transaction")

// isLost reports whether SQLite has rolled back the open transaction. It does so after an I/O error in any statement,
// even one that only reads, and if it runs out of memory or the drive is full. Later statements would be transactions of
// their own.
func (c *conn) isLost() bool { return c.open && c.c.AutoCommit() }

// run executes SQL without parameters and without preparing it, for rare statements.
func (c *conn) run(sql string) error {
	_, err := c.c.Exec(sql, nil)
	return err
}

// pragma returns the first row of a pragma, or nil if there is none.
func (c *conn) pragma(name string) ([]driver.Value, error) {
	rows, err := c.c.Query("PRAGMA "+name, nil)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	err = rows.Next(row)
	if err == io.EOF {
		row, err = nil, nil
	}
	return row, errors.Join(err, rows.Close())
}

func (c *conn) prepare(st statement) (*prepared, error) {
	if p := c.statements[st]; p != nil {
		return p, nil
	}
	s, err := c.c.Prepare(statementSQL[st])
	if err != nil {
		return nil, err
	}
	p := &prepared{s: s.(*sqlite3.SQLiteStmt)}
	c.statements[st] = p
	return p, nil
}

// bind converts the arguments of a statement for the driver, which copies them.
func (c *conn) bind(args []driver.Value) []driver.NamedValue {
	c.ran++
	c.args = c.args[:0]
	for i, v := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.args
}

// exec runs a statement and returns the number of rows that it changed.
func (c *conn) exec(st statement, args ...driver.Value) (int64, error) {
	p, err := c.prepare(st)
	if err != nil {
		return 0, err
	}
	r, err := p.s.ExecContext(background, c.bind(args))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// cursor iterates over the rows of a query. Until it is closed, the connection keeps its snapshot.
type cursor struct {
	rows driver.Rows
	cols []driver.Value // the current row
}

// query runs a statement; the caller closes the cursor.
func (c *conn) query(st statement, args ...driver.Value) (cursor, error) {
	p, err := c.prepare(st)
	if err != nil {
		return cursor{}, err
	}
	rows, err := p.s.QueryContext(background, c.bind(args))
	if err != nil {
		return cursor{}, err
	}
	if p.cols == nil {
		p.cols = make([]driver.Value, len(rows.Columns()))
	}
	return cursor{rows, p.cols}, nil
}

// next moves to the next row and reports whether there is one.
func (r *cursor) next() (bool, error) {
	switch err := r.rows.Next(r.cols); err {
	case nil:
		return true, nil
	case io.EOF:
		return false, nil
	default:
		return false, err
	}
}

// close ends the query. It may be called twice.
func (r *cursor) close() {
	if r.rows != nil {
		r.rows.Close() // its error is that of the last step, which next has already returned
		r.rows = nil
	}
}

// each runs a statement and calls fn with each row, until fn returns an error. The row is valid only during the call.
func (c *conn) each(fn func(cols []driver.Value) error, st statement, args ...driver.Value) error {
	r, err := c.query(st, args...)
	if err != nil {
		return err
	}
	defer r.close()
	for {
		ok, err := r.next()
		if err != nil || !ok {
			return err
		}
		if err := fn(r.cols); err != nil {
			return err
		}
	}
}

// row runs a statement and returns its first row, or nil if there is none. The row is valid until the statement runs
// again.
func (c *conn) row(st statement, args ...driver.Value) ([]driver.Value, error) {
	r, err := c.query(st, args...)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if ok, err := r.next(); !ok {
		return nil, err
	}
	return r.cols, nil
}

// blob returns the bytes of a string as an argument, without copying them. It never returns nil, which would be NULL.
func blob(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// bornWith returns the value of the column data in objects and history: the content that was written with the version,
// or NULL.
func bornWith(id core.DataID) driver.Value {
	if id == 0 {
		return nil
	}
	return int64(id)
}

// integer and bytes return the value of a column; NULL becomes 0 and nil. The schema is STRICT, so a column has the
// expected type unless the file is damaged.
func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func bytes(v driver.Value) []byte {
	b, _ := v.([]byte)
	return b
}

// text returns a column as a string without copying it. The driver allocates the bytes for each row and keeps no
// reference to them.
func text(v driver.Value) string {
	b := bytes(v)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// damagedError reports damage in the database. It does not unwrap to its cause, which could be mistaken for a failed
// check.
type damagedError struct {
	kind core.Kind // Damaged, or Unsupported if a newer version of the program wrote the row
	text string
}

func (e damagedError) Error() string { return e.text }

func damaged(what string, err error) error {
	if err == nil {
		return nil
	}
	kind := core.Damaged
	if core.Is(err, core.Unsupported) {
		kind = core.Unsupported
	}
	return damagedError{kind, what + ": " + core.Text(err)}
}

// kindOf returns the kind of a database error for callers of Meta.
func kindOf(err error) core.Kind {
	var known *core.Error
	var hurt damagedError
	var e sqlite3.Error
	switch {
	case errors.As(err, &hurt):
		return hurt.kind
	case errors.As(err, &e):
		switch e.Code {
		case sqlite3.ErrFull:
			return core.NoSpace
		case sqlite3.ErrCorrupt, sqlite3.ErrNotADB, sqlite3.ErrIoErr:
			return core.Damaged
		case sqlite3.ErrBusy, sqlite3.ErrLocked:
			return core.Busy
		}
	case errors.As(err, &known):
		return known.Kind
	}
	return core.Internal
}

// isDamage reports whether err is damage that a change can ignore. A failed read is not: SQLite rolls back the open
// transaction after it.
func isDamage(err error) bool {
	var e sqlite3.Error
	return kindOf(err) == core.Damaged && !(errors.As(err, &e) && e.Code == sqlite3.ErrIoErr)
}

// isWriteFault reports whether err leaves the state of the files on disk unknown: whether it is an I/O error other than
// a failed read.
func isWriteFault(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.Code == sqlite3.ErrIoErr && e.ExtendedCode != sqlite3.ErrIoErrRead &&
		e.ExtendedCode != sqlite3.ErrIoErrShortRead
}

// wrap adds the operation and the kind to an error of the database.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if known, ok := err.(*core.Error); ok && known.Op == op {
		return err // the operation has been added already
	}
	return core.E(op, kindOf(err), err)
}
