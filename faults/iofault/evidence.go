package iofault

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A violation that cannot be repeated must explain itself, so its report includes, besides the log of the server, how
// far a response that broke off had got, whether the kernel reset connections at that time, and whether the data
// directory is a true copy.

// detail describes a response that broke off, in parentheses, or returns "".
func (a *response) detail() string {
	if a.err == nil {
		return ""
	}
	return fmt.Sprintf(" (%v, after %d bytes and %v; meanwhile the kernel reset %d connections for lack of memory)",
		a.err, a.got, a.took, a.resets)
}

// resetsForMemory returns the number of connections that the kernel has reset when they were closed, because its
// memory for TCP (net.ipv4.tcp_mem) was exhausted. That breaks off a response that the server has written completely.
func resetsForMemory() int64 {
	text, _ := os.ReadFile("/proc/net/netstat") // without it, the number is 0
	names, rest, _ := bytes.Cut(text, []byte("\n"))
	values, _, _ := bytes.Cut(rest, []byte("\n"))
	i := slices.Index(strings.Fields(string(names)), "TCPAbortOnMemory")
	list := strings.Fields(string(values))
	if i < 0 || i >= len(list) {
		return 0
	}
	n, _ := strconv.ParseInt(list[i], 10, 64)
	return n
}

// compareBlocks compares the blocks in the initial data directory with those in the copy of it that a server has used.
// A server does not change them, but may delete some.
func compareBlocks(base, copied string) string {
	var same, size int64
	var other []string
	err := fs.WalkDir(os.DirFS(base), "blocks", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, err := os.ReadFile(filepath.Join(base, path))
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(copied, path))
		switch {
		case err != nil:
			other = append(other, err.Error())
		case !bytes.Equal(got, want):
			other = append(other, fmt.Sprintf("%s has %d bytes with SHA-256 %x, instead of %d with %x",
				path, len(got), sha256.Sum256(got), len(want), sha256.Sum256(want)))
		default:
			same, size = same+1, size+int64(len(want))
		}
		return nil
	})
	if err != nil {
		other = append(other, err.Error())
	}
	return fmt.Sprintf("%d files with %d bytes are as in the initial data directory; others: %q", same, size, other)
}
