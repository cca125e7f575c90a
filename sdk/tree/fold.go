package tree

import (
	"hash/maphash"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"
)

// foldsCase reports whether the file system of a directory treats names that differ only in case as the same.
func foldsCase(dir string) bool {
	usual := runtime.GOOS == "windows" || runtime.GOOS == "darwin" || runtime.GOOS == "ios"
	abs, err := filepath.Abs(dir)
	if err != nil {
		return usual
	}
	for parent := abs; ; parent = filepath.Dir(parent) {
		if parent == filepath.Dir(parent) {
			return usual
		}
		info, err := os.Lstat(parent)
		if err != nil {
			continue // not created yet: the file system is that of the directory above
		}
		name := filepath.Base(parent)
		swapped := swapCase(name)
		if swapped == name {
			continue // no letters
		}
		other, err := os.Lstat(filepath.Join(filepath.Dir(parent), swapped))
		return err == nil && os.SameFile(info, other)
	}
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

// folded finds paths that differ only in case. It keeps 8 bytes per path and a map's overhead.
type folded struct {
	seed maphash.Seed
	seen map[uint64]struct{}
}

func newFolded() *folded { return &folded{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}} }

// add reports whether another path was added that differs only in case.
func (f *folded) add(path string) bool {
	sum := maphash.String(f.seed, strings.ToLower(strings.ToUpper(path)))
	_, twice := f.seen[sum]
	f.seen[sum] = struct{}{}
	return twice
}
