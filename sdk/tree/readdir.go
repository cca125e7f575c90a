package tree

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
)

// names are the names in a directory, in the byte order of the keys that their files have: a directory's name ends with
// "/", and that of a stored symbolic link with linkSuffix. A million names of 20 bytes need 36 MB.
type names struct {
	text   []byte // all names
	items  []nameItem
	common int  // bytes that all names have in common at the beginning
	hidden bool // the directory has something else, that is not part of the tree
}

// nameItem is a name in names.text. It has no pointers, so the garbage collector does not look at it.
type nameItem struct {
	order  uint64 // the 8 bytes after the common ones, most significant first
	offset uint32
	length uint16
	kind   kind
}

func (n *names) bytes(i int) []byte {
	item := &n.items[i]
	return n.text[item.offset:][:item.length]
}

// add adds a name. It fails if the names have more than 4 GiB.
func (n *names) add(name string, k kind) error {
	suffix := ""
	switch k {
	case directory:
		suffix = "/"
	case link:
		suffix = linkSuffix
	}
	length := len(name) + len(suffix)
	if len(n.text)+length > math.MaxUint32 || length > math.MaxUint16 {
		return errors.New("the directory has too many names")
	}
	n.items = append(n.items, nameItem{offset: uint32(len(n.text)), length: uint16(length), kind: k})
	n.text = append(append(n.text, name...), suffix...)
	return nil
}

// sort puts the names in order. Most comparisons look at one integer of each.
func (n *names) sort() {
	if len(n.items) < 2 {
		return
	}
	n.common = len(n.bytes(0))
	first := n.bytes(0)
	for i := range n.items {
		name := n.bytes(i)
		n.common = min(n.common, len(name))
		for k := range n.common {
			if name[k] != first[k] {
				n.common = k
				break
			}
		}
	}
	for i := range n.items {
		var order [8]byte
		copy(order[:], n.bytes(i)[n.common:])
		n.items[i].order = binary.BigEndian.Uint64(order[:])
	}
	slices.SortFunc(n.items, func(a, b nameItem) int {
		if a.order != b.order {
			return cmp.Compare(a.order, b.order)
		}
		return bytes.Compare(n.text[a.offset:][:a.length], n.text[b.offset:][:b.length])
	})
}

// readNames reads a directory. classify returns the kind of a name, and whether the name is part of the tree.
func readNames(dir *os.File, classify func(name string, t fs.FileMode) (kind, bool)) (*names, error) {
	n := &names{}
	for {
		list, err := dir.ReadDir(1024)
		for _, d := range list {
			k, ok := classify(d.Name(), d.Type())
			if !ok {
				n.hidden = true
				continue
			}
			if err := n.add(d.Name(), k); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	n.sort()
	return n, nil
}
