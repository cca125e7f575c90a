package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"orcas/core"
)

// Walk implements core.Blocks. It does not read directories that contain only blocks before from.
func (s *Store) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	const op = "disk.Walk"
	first := core.MakeBlockID(s.number, 0, 0)
	if from.Compare(first) < 0 {
		from = first
	}
	if from.Store() != s.number {
		return nil // all blocks of this store are before from
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
		if info.ID.Compare(from) < 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return core.E(op, core.Canceled, err)
		}
		st, err := os.Lstat(filepath.Join(s.blocksDir(), g.name, d.name, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted in the meantime
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

// entry is a name in the tree of blocks and the number in that name.
type entry struct {
	name   string
	number uint32
}

// list returns, in order, the directories or block files in dir whose names begin with the given number of hexadecimal
// digits. It logs and ignores other names. A missing directory counts as empty, except the directory of all blocks.
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
		if dir == s.blocksDir() && (name == markerFile || name == markerFile+".new" || name == lostFound) {
			continue
		}
		if !dirs {
			ext = filepath.Ext(name)
		}
		n, err := strconv.ParseUint(name[:len(name)-len(ext)], 16, 32)
		known := f.IsDir() == dirs && (dirs || kindOf(ext) != 0)
		if !known || err != nil || name != fmt.Sprintf("%0*x", digits, n)+ext {
			s.log.Warn("a file in the directory of the blocks is not a block: ignoring it", "path", filepath.Join(dir, name))
			continue
		}
		list = append(list, entry{name, uint32(n)})
	}
	return list, nil
}
