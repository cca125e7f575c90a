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

// conn is a connection of the driver's own, with the statements that were used on it. One goroutine uses it at a time.
// database/sql would cost more than many of the statements do.
type conn struct {
	c          *sqlite3.SQLiteConn
	statements [numStatements]*prepared
	args       []driver.NamedValue
	ran        int // statements so far: what a write costs is told by how many it takes
}

// prepared is a statement with room for a row. It has one cursor: a statement is not used again while its rows are read.
type prepared struct {
	s    *sqlite3.SQLiteStmt
	cols []driver.Value
}

// role is what a connection is for.
type role struct {
	synchronous string // NORMAL or FULL
	cacheKiB    int
	readOnly    bool
	busyMillis  int
}

// connect opens a connection and makes sure that it is as asked for. The driver sets synchronous by itself and
// journal_mode may be refused, so both are read back.
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
	err = c.run("PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY")
	if err == nil {
		err = c.verify(r.synchronous)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// verify reads the settings back that durability depends on.
func (c *conn) verify(synchronous string) error {
	level := map[string]int64{"NORMAL": 1, "FULL": 2}[synchronous]
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

// run executes SQL that has no parameters and is not used often.
func (c *conn) run(sql string) error {
	_, err := c.c.Exec(sql, nil)
	return err
}

// pragma returns the first row that a pragma answers with, nil where it answers with none.
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

// bind lends the arguments of a statement that is about to run to the driver, which copies them.
func (c *conn) bind(args []driver.Value) []driver.NamedValue {
	c.ran++
	c.args = c.args[:0]
	for i, v := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.args
}

// exec runs a statement and returns how many rows it changed.
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

// cursor is the rows of a query. Not closed, it keeps the connection's snapshot.
type cursor struct {
	rows driver.Rows
	cols []driver.Value // of the row that next moved to
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

// next moves to the next row and says whether there is one.
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
		r.rows.Close() // gives the error of the last step again, which next returned
		r.rows = nil
	}
}

// each runs a statement and calls fn with each row, until that gives an error. The row is good during the call.
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

// row runs a statement and returns its first row, nil where it has none. The row is good until the statement is used again.
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

// blob gives the bytes of a string to bind, without a copy; never nil, which would be NULL.
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

// bornWith is the column data of objects and history.
func bornWith(id core.DataID) driver.Value {
	if id == 0 {
		return nil
	}
	return int64(id)
}

// integer and bytes read a column; NULL is 0 and nil. The schema is STRICT, so a column has the type that it should have
// unless the file is damaged.
func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func bytes(v driver.Value) []byte {
	b, _ := v.([]byte)
	return b
}

// text reads a column as a string without a copy: the driver made the bytes for this row and keeps no hold of them.
func text(v driver.Value) string {
	b := bytes(v)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// damagedError is an error in what the database holds. It hides what it wraps, so that it is never taken for a failed check.
type damagedError struct {
	kind core.Kind // Damaged, or Unsupported where a newer program wrote it
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
	return damagedError{kind, what + ": " + err.Error()}
}

// kindOf says what an error of the database means to a caller of Meta.
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

// isWriteFault says whether err leaves it open what is on disk: an I/O error other than a failed read.
func isWriteFault(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.Code == sqlite3.ErrIoErr && e.ExtendedCode != sqlite3.ErrIoErrRead &&
		e.ExtendedCode != sqlite3.ErrIoErrShortRead
}

// wrap gives an error of the database its operation and kind.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return core.E(op, kindOf(err), err)
}
