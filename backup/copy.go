package backup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/zeebo/xxh3"

	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
	"orcas/core/snapshot"
	"orcas/internal/durable"
)

// newExt is the extension of unfinished copies.
const newExt = ".new"

// block copies a block to the backup directory, or reuses or extends the existing copy.
func (b *backup) block(s *source) (*entry, error) {
	e := &entry{Block: s.info.ID.String(), Kind: kindNames[s.info.Kind], Name: s.name, Length: s.length}
	path := b.repo.path(s.name)
	old := b.known[s.name]
	st, err := os.Lstat(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil && old == nil:
		return e, b.copyNew(s, e, path)
	case err != nil:
		b.problem("%s was missing, and was copied again", path)
		return e, b.copyNew(s, e, path)
	case old == nil:
		if st.Size() >= s.length {
			if adopted, err := b.adopt(s, e, path); err != nil || adopted {
				return e, err
			}
		}
		return e, b.copyNew(s, e, path)
	case st.Size() < old.Length:
		b.problem("%s was truncated to %d of %d bytes, and was copied again", path, st.Size(), old.Length)
		return e, b.copyNew(s, e, path)
	}
	if same, err := b.same(s, path, min(old.Length, s.length)); err != nil {
		return nil, err
	} else if !same {
		return nil, core.E("backup.Backup", core.Conflict, fmt.Errorf("%s differs from the block in the store: either the copy is damaged (run orcas backup --check), "+
			"or this store is a copy that has been written to, which needs its own backup directory", path))
	}
	switch {
	case s.length == old.Length:
		e.Sum, e.Damaged = old.Sum, old.Damaged
		return e, nil
	case s.length < old.Length:
		return e, b.sumAgain(s, e, path)
	case st.Sys().(*syscall.Stat_t).Nlink > 1: // other hard links must not change
		return e, b.copyNew(s, e, path)
	}
	return e, b.extend(s, e, old, path)
}

// adopt uses an existing copy to which no manifest refers, if it is intact, and reports whether it did.
func (b *backup) adopt(s *source, e *entry, path string) (bool, error) {
	p, err := b.verify(s, path)
	if err != nil || len(p.damaged) > 0 || p.tail >= 0 {
		return false, err
	}
	if same, err := b.same(s, path, s.length); err != nil || !same {
		return false, err
	}
	e.Sum = p.hash()
	b.dirty[filepath.Dir(path)] = true
	return true, nil
}

// sumAgain fills in e for a copy that is longer than the source: only its first s.length bytes belong to the backup.
func (b *backup) sumAgain(s *source, e *entry, path string) error {
	p, err := b.verify(s, path)
	if err != nil {
		return err
	}
	e.Sum, e.Damaged = p.hash(), p.damaged
	return nil
}

// verify reads and verifies the first s.length bytes of a copy.
func (b *backup) verify(s *source, path string) (*pass, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := newPass(b.ctx, s, &patient{r: f}, nil)
	return p, p.run(0)
}

// same reports whether a block and its copy have the same bytes at the beginning and before offset n, up to 4 KiB each.
// Bytes of the block that cannot be read count as the same.
func (b *backup) same(s *source, path string, n int64) (bool, error) {
	const few = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	original, err := b.open(s.info.ID, s.length)
	if err != nil {
		return false, err
	}
	defer original.Close()
	r := &patient{r: original}
	for _, at := range []int64{0, max(0, n-few)} {
		theirs, ours := make([]byte, min(few, n-at)), make([]byte, min(few, n-at))
		if k, err := r.ReadAt(theirs, at); k < len(theirs) {
			return false, err
		}
		if k, err := f.ReadAt(ours, at); k < len(ours) {
			return false, err
		}
		// If the block cannot be read, keep the copy, which may be the only intact one.
		if string(theirs) != string(ours) && !r.bad {
			return false, nil
		}
	}
	return true, nil
}

// extend appends the new bytes of a block to its copy. If the copy is damaged, extend replaces it with a complete new
// copy.
func (b *backup) extend(s *source, e, old *entry, path string) error {
	sum := xxh3.New()
	read, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(sum, io.NewSectionReader(read, 0, old.Length))
	if err = errors.Join(err, read.Close()); err != nil {
		return err
	}
	if sumText(sum) != old.Sum {
		b.problem("%s was damaged, and was copied again", path)
		return b.copyNew(s, e, path)
	}
	f, err := b.repo.steps.Open(path)
	if err != nil {
		return err
	}
	b.report.CopiedBlocks++
	e.Damaged = old.Damaged
	err = b.fill(s, e, f, old.Length, sum)
	return errors.Join(err, f.Close())
}

// copyNew makes a complete copy, and replaces the existing copy, if any.
func (b *backup) copyNew(s *source, e *entry, path string) error {
	if err := b.mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	temp := path + newExt
	if err := b.remove(temp); err != nil {
		return err
	}
	b.report.CopiedBlocks++
	err := b.copyTo(s, e, temp)
	if err == nil {
		err = b.repo.steps.Rename(temp, path)
	}
	// Rename does nothing if both names are hard links to the same file, so temp may still exist.
	if removeErr := b.remove(temp); err == nil {
		err = removeErr
	}
	b.dirty[filepath.Dir(path)] = true
	return err
}

// copyTo makes a copy and syncs the file, but not its directory.
func (b *backup) copyTo(s *source, e *entry, temp string) error {
	if b.link(s, temp) {
		if err := b.shared(s, e, temp); err != nil {
			return err
		}
		f, err := b.repo.steps.Open(temp)
		if err != nil {
			return err
		}
		return errors.Join(f.DataSync(), f.Close()) // with relaxed durability the original may not be synced yet
	}
	f, err := b.repo.steps.Create(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	if b.filer != nil && b.cloner.clone(b.filer.BlockFile(s.info), s.length, f) {
		if err := b.shared(s, e, temp); err != nil {
			return err
		}
		return errors.Join(f.DataSync(), f.Close())
	}
	if err := b.fill(s, e, f, 0, xxh3.New()); err != nil {
		return err
	}
	return f.Close()
}

// link makes the copy a hard link to the file of a block, and reports whether it succeeded. It does so only if
// Options.Link is set, the block is closed, and all of the block belongs to the backup.
func (b *backup) link(s *source, temp string) bool {
	if !b.Link || !s.closed || b.filer == nil {
		return false
	}
	path := b.filer.BlockFile(s.info)
	st, err := os.Lstat(path)
	return err == nil && st.Size() == s.length && b.repo.steps.Link(path, temp) == nil
}

// shared verifies a copy that shares its bytes with the block.
func (b *backup) shared(s *source, e *entry, path string) error {
	p, err := b.verify(s, path)
	if err != nil {
		return err
	}
	b.report.SharedBytes += s.length
	e.Sum = p.hash()
	return b.damage(s, e, p)
}

// cloner makes files share bytes, if the file system supports it.
type cloner struct {
	unsupported bool // a clone has failed
}

// clone makes f share the first length bytes of the file at path, and reports whether it succeeded.
func (c *cloner) clone(path string, length int64, f *durable.File) bool {
	if c.unsupported {
		return false
	}
	from, err := os.Open(path)
	if err != nil {
		return false
	}
	defer from.Close()
	if err := f.Clone(from); err != nil {
		c.unsupported = true
		return false
	}
	return f.Truncate(length) == nil
}

// fill copies a block to f, beginning at an offset, and syncs f. The offset must be 0 or the beginning of a frame.
func (b *backup) fill(s *source, e *entry, f *durable.File, from int64, sum *xxh3.Hasher) error {
	r, err := b.open(s.info.ID, s.length)
	if err != nil {
		return err
	}
	defer r.Close()
	out := bufio.NewWriterSize(&fileWriter{f, from}, 1<<20)
	p := newPass(b.ctx, s, &patient{r: r}, out)
	p.sum = sum
	if err := p.run(from); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if err := f.DataSync(); err != nil {
		return err
	}
	b.report.CopiedBytes += s.length - from
	e.Sum = p.hash()
	return b.damage(s, e, p)
}

// damage records the damage that a pass found. Bytes at the end of a packed block that are not a frame may be left over
// from a batch that was never acknowledged. They are damage only if the metadata refers to them, or if a record is
// missing (see judge).
func (b *backup) damage(s *source, e *entry, p *pass) error {
	e.Damaged = append(e.Damaged, p.damaged...)
	if p.tail < 0 {
		return nil
	}
	if s.info.Kind != core.Packed {
		e.Damaged = append(e.Damaged, fmt.Sprintf("no intact frame from byte %d on", p.tail))
		return nil
	}
	b.torn = append(b.torn, e)
	if p.tailID == 0 {
		return nil
	}
	infos, err := b.Meta.Data(b.ctx, []core.DataID{p.tailID})
	if err == nil && len(infos) > 0 && isIn(infos[0].Extents, s.info.ID, p.tail) {
		e.Damaged = append(e.Damaged, fmt.Sprintf("the frame at byte %d", p.tail))
	}
	return err
}

// judge checks whether a restore would lack records. Then the packed blocks whose last bytes are not a frame may have
// had them, so judge records these bytes as damaged. It also records that the damaged snapshots are needed: records that
// a snapshot covers may have been deleted. To find out, it reads all records after the newest intact snapshot. A packed
// block is checked only once, when it is copied.
func (b *backup) judge() error {
	var damaged []*entry
	for _, e := range b.manifest.Blocks {
		if e.Kind == kindNames[core.Snapshot] && len(e.Damaged) > 0 {
			damaged = append(damaged, e)
		}
	}
	if len(b.torn)+len(damaged) == 0 {
		return nil
	}
	snapshots, err := snapshot.List(b.ctx, b.Blocks)
	if err != nil {
		return err
	}
	st := core.State{}
	newest, err := snapshot.Newest(b.ctx, b.Blocks, snapshots)
	if err != nil {
		return err
	}
	if newest != nil {
		st = newest.State
	}
	gaps, err := batch.Gaps(b.ctx, b.Blocks, st, b.manifest.Seq)
	for _, g := range gaps {
		for _, e := range b.torn {
			e.Damaged = append(e.Damaged, fmt.Sprintf("its end, which may have been the record of changes %d to %d: no block has this record", g.From, g.To))
		}
	}
	for _, e := range damaged {
		e.Needed = len(gaps) > 0
	}
	return err
}

// mkdir creates a directory for copies, unless this backup has already done so.
func (b *backup) mkdir(dir string) error {
	if b.made[dir] {
		return nil
	}
	b.made[dir] = true
	return b.repo.steps.MkdirAll(dir)
}

// remove deletes a file, if it exists.
func (b *backup) remove(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return b.repo.steps.Remove(path)
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// fileWriter is an io.Writer that writes to a file, beginning at offset at.
type fileWriter struct {
	f  *durable.File
	at int64
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.f.WriteAt(p, w.at)
	w.at += int64(n)
	return n, err
}

// pass reads a block once and verifies it frame by frame. All bytes go into the checksum and to the copy, including
// damaged ones.
type pass struct {
	ctx     context.Context
	s       frame.Scanner
	strict  bool // the block must end with the last frame of its content
	sum     *xxh3.Hasher
	to      io.Writer
	damaged []string
	tail    int64       // offset of the bytes after the last frame, if they are not a frame; -1 if there are none
	tailID  core.DataID // the DataID in the frame header at that offset, if there is one
	last    bool        // the last frame that was read is the last frame of its content
}

// newPass returns a pass that reads r and writes the copy to to, which may be nil.
func newPass(ctx context.Context, s *source, r io.ReaderAt, to io.Writer) *pass {
	if to == nil {
		to = io.Discard
	}
	return &pass{ctx: ctx, s: frame.Scanner{R: r, Block: s.info.ID, Size: s.length}, strict: s.info.Kind != core.Packed, sum: xxh3.New(), to: to, tail: -1}
}

func (p *pass) hash() string { return sumText(p.sum) }

// emit adds the bytes between two offsets to the checksum and the copy.
func (p *pass) emit(from, to int64) error {
	const piece = 1 << 20
	for from < to {
		if err := p.ctx.Err(); err != nil {
			return core.E("backup.copy", core.Canceled, err)
		}
		n := min(piece, to-from)
		raw, err := p.s.Bytes(from, int(n))
		if frame.Broken(err) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		_, _ = p.sum.Write(raw)
		if _, err := p.to.Write(raw); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// run reads from an offset to the end of the block. The offset must be 0 or the beginning of a frame.
func (p *pass) run(at int64) error {
	headless := false
	if at == 0 {
		at = min(frame.BlockHeaderSize, p.s.Size)
		head, err := p.s.Bytes(0, int(at))
		if err != nil {
			return err
		}
		id, _, err := frame.DecodeBlockHeader(head)
		// A crash before the first commit of a block leaves zeros. They are not damage if no frame follows.
		headless = errors.Is(err, frame.ErrNotFrame) && len(bytes.Trim(head, "\x00")) == 0
		if !headless && (err != nil || id != p.s.Block) {
			p.damaged = append(p.damaged, "its header")
		}
		if err := p.emit(0, at); err != nil {
			return err
		}
	}
	for at < p.s.Size {
		h, err := p.s.Header(at)
		end := at + 1 // the offset from which to search for the next frame
		if err == nil {
			if _, err = p.s.Payload(h); err == nil {
				p.last = h.Last
				if headless {
					headless = false
					p.damaged = append(p.damaged, "its header")
				}
				if err := p.emit(at, h.End()); err != nil {
					return err
				}
				at = h.End()
				continue
			}
			if end = h.End(); end > p.s.Size {
				end = at + 1
			}
		}
		if !frame.Broken(err) {
			return err
		}
		next, err := p.s.Next(end)
		if err != nil {
			return err
		}
		if next < 0 {
			p.tail = at
			if h.Type == frame.Data {
				p.tailID = core.DataID(h.ID)
			}
			return p.emit(at, p.s.Size)
		}
		p.damaged = append(p.damaged, fmt.Sprintf("bytes %d to %d", at, next-1))
		if err := p.emit(at, next); err != nil {
			return err
		}
		at = next
	}
	if p.strict && !p.last {
		p.tail = p.s.Size
	}
	return nil
}
