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

// newExt ends the names of copies that are being made.
const newExt = ".new"

// block brings a block to the backup directory, or finds that it is there.
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
		b.problem("%s was missing: it was copied again", path)
		return e, b.copyNew(s, e, path)
	case old == nil:
		if st.Size() >= s.length {
			if adopted, err := b.adopt(s, e, path); err != nil || adopted {
				return e, err
			}
		}
		return e, b.copyNew(s, e, path)
	case st.Size() < old.Length:
		b.problem("%s was cut off at %d of %d bytes: it was copied again", path, st.Size(), old.Length)
		return e, b.copyNew(s, e, path)
	}
	if same, err := b.same(s, path, min(old.Length, s.length)); err != nil {
		return nil, err
	} else if !same {
		return nil, core.E("backup.Backup", core.Conflict, fmt.Errorf("%s is another block of the same name: either it is damaged (orcas backup --check tells), "+
			"or the store is a copy that went its own way, whose backups need a directory of their own", path))
	}
	switch {
	case s.length == old.Length:
		e.Sum, e.Damaged = old.Sum, old.Damaged
		return e, nil
	case s.length < old.Length:
		return e, b.sumAgain(s, e, path)
	case st.Sys().(*syscall.Stat_t).Nlink > 1: // whoever else has it did not ask for more
		return e, b.copyNew(s, e, path)
	}
	return e, b.extend(s, e, old, path)
}

// adopt takes a copy that no manifest names, if it is whole.
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

// sumAgain makes an entry for the beginning of a copy.
func (b *backup) sumAgain(s *source, e *entry, path string) error {
	p, err := b.verify(s, path)
	if err != nil {
		return err
	}
	e.Sum, e.Damaged = p.hash(), p.damaged
	return nil
}

// verify reads as much of a copy as belongs to s.
func (b *backup) verify(s *source, path string) (*pass, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := newPass(b.ctx, s, &patient{r: f}, nil)
	return p, p.run(0)
}

// same compares the first bytes of a block and the last of the first n with those of its copy.
func (b *backup) same(s *source, path string, n int64) (bool, error) {
	const few = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	original, err := os.Open(s.path)
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
		if string(theirs) != string(ours) && !r.bad { // else the copy is all there is
			return false, nil
		}
	}
	return true, nil
}

// extend appends to a copy what its block has grown by since.
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
		b.problem("%s was damaged: it was copied again", path)
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

// copyNew makes a copy in the place of what is there, if anything is.
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
	// A rename does nothing where both are names of one file.
	if removeErr := b.remove(temp); err == nil {
		err = removeErr
	}
	b.dirty[filepath.Dir(path)] = true
	return err
}

// copyTo makes a copy that lasts, but for its name.
func (b *backup) copyTo(s *source, e *entry, temp string) error {
	if st, err := os.Lstat(s.path); b.Link && s.closed && err == nil && st.Size() == s.length && b.repo.steps.Link(s.path, temp) == nil {
		if err := b.shared(s, e, temp); err != nil {
			return err
		}
		f, err := b.repo.steps.Open(temp)
		if err != nil {
			return err
		}
		return errors.Join(f.DataSync(), f.Close()) // nobody may have done it yet, where writes are answered before
	}
	f, err := b.repo.steps.Create(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	if b.cloner.clone(s.path, s.length, f) {
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

// cloner lets files share bytes, as long as the file system can.
type cloner struct {
	cannot bool
}

// clone lets f share the first length bytes of the file at path, and says whether it does.
func (c *cloner) clone(path string, length int64, f *durable.File) bool {
	if c.cannot {
		return false
	}
	from, err := os.Open(path)
	if err != nil {
		return false
	}
	defer from.Close()
	if err := f.Clone(from); err != nil {
		c.cannot = true
		return false
	}
	return f.Truncate(length) == nil
}

// fill writes a block to f, from an offset at which a frame begins, and syncs it.
func (b *backup) fill(s *source, e *entry, f *durable.File, from int64, sum *xxh3.Hasher) error {
	r, err := os.Open(s.path)
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

// damage notes what was found damaged. What a packed block ends with may be left of a batch that was never acknowledged: it is damage where
// the metadata names it, and where a record is missing (see judge).
func (b *backup) damage(s *source, e *entry, p *pass) error {
	e.Damaged = append(e.Damaged, p.damaged...)
	if p.tail < 0 {
		return nil
	}
	if s.info.Kind != core.Packed {
		e.Damaged = append(e.Damaged, fmt.Sprintf("no whole frame from byte %d on", p.tail))
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

// judge tells, where packed blocks end with what is no frame, whether a record has been there that a restore needs. That is asked once for a block, when
// it is copied, and all records behind the newest snapshot are read for it.
func (b *backup) judge() error {
	if len(b.torn) == 0 {
		return nil
	}
	snapshots, err := snapshot.List(b.ctx, b.Blocks)
	if err != nil {
		return err
	}
	st := core.State{}
	for _, s := range snapshots {
		err := snapshot.Read(b.ctx, b.Blocks, &s, func(*core.Row) error { return nil })
		if err == nil {
			st = s.State
			break
		}
		if !core.Is(err, core.Damaged) {
			return err
		}
	}
	gaps, err := batch.Gaps(b.ctx, b.Blocks, st, b.manifest.Seq)
	for _, g := range gaps {
		for _, e := range b.torn {
			e.Damaged = append(e.Damaged, fmt.Sprintf("its end, which may have held the record of the changes %d to %d: that is in no block", g.From, g.To))
		}
	}
	return err
}

// mkdir makes a directory of copies, once.
func (b *backup) mkdir(dir string) error {
	if b.made[dir] {
		return nil
	}
	b.made[dir] = true
	return b.repo.steps.MkdirAll(dir)
}

// remove takes a file away that need not be there, and was nobody's.
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

// fileWriter is io.Writer on a file.
type fileWriter struct {
	f  *durable.File
	at int64
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.f.WriteAt(p, w.at)
	w.at += int64(n)
	return n, err
}

// pass reads a block once, frame by frame: what it verified goes into the checksum and to the copy, and what it could not verify as well.
type pass struct {
	ctx     context.Context
	s       frame.Scanner
	strict  bool // a frame ends where the block ends
	sum     *xxh3.Hasher
	to      io.Writer
	damaged []string
	tail    int64       // where what is no frame begins, behind the last one; -1: nowhere
	tailID  core.DataID // where a header of content stands there
	last    bool        // the last frame is the last of its content
}

// newPass reads r and copies to to, which may be nil.
func newPass(ctx context.Context, s *source, r io.ReaderAt, to io.Writer) *pass {
	if to == nil {
		to = io.Discard
	}
	return &pass{ctx: ctx, s: frame.Scanner{R: r, Block: s.info.ID, Size: s.length}, strict: s.info.Kind != core.Packed, sum: xxh3.New(), to: to, tail: -1}
}

func (p *pass) hash() string { return sumText(p.sum) }

// emit takes the bytes between two offsets.
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

// run reads from an offset at which a frame begins, or from the start.
func (p *pass) run(at int64) error {
	headless := false
	if at == 0 {
		at = min(frame.BlockHeaderSize, p.s.Size)
		head, err := p.s.Bytes(0, int(at))
		if err != nil {
			return err
		}
		id, _, err := frame.DecodeBlockHeader(head)
		// Zeros are what a crash leaves of a block whose first commit never was: no damage, if there is no frame either.
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
		end := at + 1 // from where on the next frame is looked for
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
