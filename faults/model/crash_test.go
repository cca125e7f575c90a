package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// database is the state of the database after a crash.
type database int

const (
	kept  database = iota // the database of the running server
	older                 // the database at the last call of remember
	gone                  // no database
)

// remember copies the current database for later crashes.
func (m *machine) remember() error {
	return untorn(func() error {
		if err := os.RemoveAll(m.memory()); err != nil {
			return err
		}
		return copyDatabase(m.dir, m.memory())
	})
}

func (m *machine) memory() string { return filepath.Join(m.root, "remembered") }

// crash ends the server as a SIGKILL would: the next one starts on a copy of the current files.
func (m *machine) crash(d database) error {
	return errors.Join(m.die(d), m.start())
}

// die makes the copy, which becomes the current data directory, and ends the server.
func (m *machine) die(d database) error {
	old, next := m.dir, m.nextDir()
	err := untorn(func() error {
		if err := os.RemoveAll(next); err != nil {
			return err
		}
		return m.copy(d, old, next)
	})
	m.dir = next
	return errors.Join(err, m.cut(), os.RemoveAll(old))
}

// cut immediately ends the server and all of its connections.
func (m *machine) cut() error {
	m.http.CloseIdleConnections()
	m.admin.http.CloseIdleConnections()
	err := m.server.Close()
	m.stop()
	<-m.ran // an error is only a consequence of Close
	m.server = nil
	return err
}

// copy copies a data directory. It returns errTorn if the copy is inconsistent.
func (m *machine) copy(d database, from, to string) error {
	before, err := takeStock(from)
	if err != nil {
		return err
	}
	switch d {
	case kept:
		err = copyDatabase(from, to)
	case older:
		err = copyDatabase(m.memory(), to)
	}
	if err == nil {
		err = copyBlocks(from, to)
	}
	if err != nil {
		return err
	}
	after, err := takeStock(from)
	if err == nil && !before.still(after) {
		err = errTorn
	}
	return err
}

// errTorn is the error of a copy with files in states that never existed at the same time, which no crash would leave.
var errTorn = errors.New("the server moved its files while they were copied")

// untorn repeats a copy until it is consistent.
func untorn(try func() error) (err error) {
	for range 1000 {
		if err = try(); !errors.Is(err, errTorn) {
			return err
		}
	}
	return err
}

// stock is the sizes of all blocks by path.
type stock map[string]int64

func takeStock(dir string) (stock, error) {
	s := stock{}
	return s, filepath.WalkDir(filepath.Join(dir, "blocks"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				s[path] = info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// still reports whether a copy that was made between the two stocks, first of the packed blocks and snapshots and then
// of the large blocks, is consistent. It is if no block was deleted, including new ones; if only large blocks were
// created, which are not used before they are recorded; and if at most one packed block grew.
func (s stock) still(after stock) bool {
	newest := map[string]uint64{} // the highest block number by generation
	grew := 0
	for path, size := range s {
		now, there := after[path]
		if !there {
			return false
		}
		if filepath.Ext(path) == ".packed" && now != size {
			grew++
		}
		generation, number := place(path)
		newest[generation] = max(newest[generation], number)
	}
	came, last := map[string]uint64{}, map[string]uint64{}
	for path := range after {
		if _, old := s[path]; old {
			continue
		}
		if filepath.Ext(path) != ".large" {
			return false
		}
		generation, number := place(path)
		came[generation]++
		last[generation] = max(last[generation], number)
	}
	for generation, n := range came {
		if last[generation]-newest[generation] != n {
			return false
		}
	}
	return grew <= 1
}

// place returns the generation and the number of a block from its path, GENERATION/DIRECTORY/NUMBER.KIND.
func place(path string) (generation string, number uint64) {
	number, _ = strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), 16, 32) // the server writes valid numbers
	return filepath.Dir(filepath.Dir(path)), number
}

const databaseFile = "metadata.db"

// copyDatabase copies the files of a database, if there are any. If the log is being written, the copy ends somewhere
// in it. If the log restarted during the copy, its earlier content may be in neither copied file: errTorn.
func copyDatabase(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	before, err := logHeader(from)
	if err != nil {
		return err
	}
	for _, ext := range []string{"", "-wal"} {
		err := copyFile(filepath.Join(from, databaseFile+ext), filepath.Join(to, databaseFile+ext))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	after, err := logHeader(from)
	if err == nil && !bytes.Equal(before, after) {
		err = errTorn
	}
	return err
}

// logHeader returns the header of the log of a database, which changes each time the log restarts.
func logHeader(dir string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, databaseFile+"-wal"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 32))
}

// copyBlocks copies everything except the database: packed blocks first, because their records refer only to large
// blocks that are complete. Large blocks never change again, so they are linked.
func copyBlocks(from, to string) error {
	for _, large := range []bool{false, true} {
		err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(from, path) // path is below from
			target := filepath.Join(to, rel)
			isLarge := filepath.Ext(rel) == ".large"
			switch {
			case errors.Is(err, fs.ErrNotExist): // deleted in the meantime
				return nil
			case err != nil:
				return err
			case d.IsDir():
				return os.MkdirAll(target, 0o755)
			case strings.HasPrefix(rel, databaseFile) || rel == "LOCK" || isLarge != large:
				return nil
			case isLarge:
				err = os.Link(path, target)
			default:
				err = copyFile(path, target)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file that may be growing, with its mode: a server refuses a key file that others can read.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	// Not ReadFrom: on some file systems, the kernel would clone or copy data that is not written yet.
	_, err = io.Copy(struct{ io.Writer }{out}, struct{ io.Reader }{in})
	return errors.Join(err, out.Close())
}

// TestStock checks which copies count as torn, given what a server may do while it is copied.
func TestStock(t *testing.T) {
	block := func(number int, kind string) string {
		return fmt.Sprintf("/data/blocks/00000002/00000/%08x.%s", number, kind)
	}
	before := stock{block(1, "packed"): 8 << 20, block(2, "large"): 70_000, block(9, "packed"): 100, "/data/blocks/00000001/00000/0000000c.packed": 500}
	for name, c := range map[string]struct {
		change func(s stock)
		want   bool
	}{
		"nothing":                 {func(stock) {}, true},
		"writes":                  {func(s stock) { s[block(9, "packed")] += 100; s[block(10, "large")] = 1; s[block(11, "large")] = 1 }, true},
		"an unlink":               {func(s stock) { delete(s, block(2, "large")) }, false},
		"another packed block":    {func(s stock) { s[block(10, "packed")] = 100 }, false},
		"two that grow":           {func(s stock) { s[block(1, "packed")]++; s[block(9, "packed")]++ }, false},
		"a snapshot":              {func(s stock) { s[block(10, "snapshot")] = 100 }, false},
		"one created and deleted": {func(s stock) { s[block(11, "large")] = 1 }, false},
	} {
		after := stock{}
		for path, size := range before {
			after[path] = size
		}
		c.change(after)
		require.Equal(t, c.want, before.still(after), name)
	}
}
