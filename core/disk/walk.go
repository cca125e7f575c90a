package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"orcas/core"
)

// Walk implements core.Blocks. Directories that hold only blocks before from are not read.
func (s *Store) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	const op = "disk.Walk"
	first := core.MakeBlockID(s.number, 0, 0)
	if bytes.Compare(from[:], first[:]) < 0 {
		from = first
	}
	if from.Store() != s.number {
		return nil // it is behind all of ours
	}
	generations, err := s.list(s.blocksDir(), 8, true)
	if err != nil {
		return fail(op, err)
	}
	for _, g := range generations {
		if g.number < from.Generation() {
			continue
		}
		dirs, err := s.list(filepath.Join(s.blocksDir(), g.name), 5, true)
		if err != nil {
			return fail(op, err)
		}
		for _, d := range dirs {
			if g.number == from.Generation() && d.number < from.Number()/blocksPerDir {
				continue
			}
			if err := s.walkDir(ctx, g, d, from, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// walkDir walks the blocks of one directory of files.
func (s *Store) walkDir(ctx context.Context, g, d entry, from core.BlockID, fn func(core.BlockInfo) error) error {
	const op = "disk.Walk"
	files, err := s.list(filepath.Join(s.blocksDir(), g.name, d.name), 8, false)
	if err != nil {
		return fail(op, err)
	}
	for _, f := range files {
		info := core.BlockInfo{ID: core.MakeBlockID(s.number, g.number, f.number), Kind: kindOf(filepath.Ext(f.name))}
		if bytes.Compare(info.ID[:], from[:]) < 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return core.E(op, core.Canceled, err)
		}
		st, err := os.Lstat(filepath.Join(s.blocksDir(), g.name, d.name, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return fail(op, err)
		}
		info.Size = st.Size()
		if err := fn(info); err != nil {
			return err
		}
	}
	return nil
}

// entry is a name in the tree of blocks, and the number that it stands for.
type entry struct {
	name   string
	number uint32
}

// list returns the directories, or the files of blocks, in dir, whose names begin with so many hexadecimal digits, in order.
// What else is there is left alone, and a line in the log says so. A directory that is gone is empty, but for the topmost.
func (s *Store) list(dir string, digits int, dirs bool) ([]entry, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) && dir != s.blocksDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := make([]entry, 0, len(found))
	for _, f := range found {
		name, ext := f.Name(), ""
		if !dirs {
			ext = filepath.Ext(name)
		}
		n, err := strconv.ParseUint(name[:len(name)-len(ext)], 16, 32)
		known := f.IsDir() == dirs && (dirs || kindOf(ext) != 0)
		if !known || err != nil || name != fmt.Sprintf("%0*x", digits, n)+ext {
			s.log.Warn("a file that is no block lies among the blocks", "path", filepath.Join(dir, name))
			continue
		}
		list = append(list, entry{name, uint32(n)})
	}
	return list, nil
}
