package backup

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// patient reads files even if the drive is failing, since that is when a backup is needed most. It returns zeros for
// pages that cannot be read, so that only the frames in those pages are damaged.
type patient struct {
	r   io.ReaderAt
	bad bool // a page could not be read
}

// pageSize is the number of bytes that are skipped together if they cannot be read.
const pageSize = 4 << 10

// ReadAt implements io.ReaderAt.
func (p *patient) ReadAt(b []byte, off int64) (n int, err error) {
	n, err = p.r.ReadAt(b, off)
	if !errors.Is(err, unix.EIO) {
		return n, err
	}
	for n < len(b) {
		at := off + int64(n)
		page := b[n:min(len(b), n+int(pageSize-at%pageSize))]
		k, err := p.r.ReadAt(page, at)
		if errors.Is(err, unix.EIO) {
			clear(page[k:])
			k, err, p.bad = len(page), nil, true
		}
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}
