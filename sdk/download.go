package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"orcas/internal/checksum"
)

// DownloadOptions are the options of Download and DownloadFile.
type DownloadOptions struct {
	VersionID   string
	Conditions  Conditions
	CustomerKey []byte // the key of Encryption.CustomerKey

	// Info is what the caller knows about the object, for example from a listing. It saves a request if the object is
	// small. The object need not be the same any more.
	Info *Info

	PartSize int64 // bytes per request; 0: 8 MiB, and more above 78 GiB. Objects of up to 16 MiB are read in one request
	Parallel int   // requests at the same time; 0: 4

	// StateFile is the path of a file that describes an unfinished download of DownloadFile. A later call with the same
	// file and target continues it, if the object is still the same. Use each file for one download at a time.
	StateFile string

	// Progress is called during the transfer, and once at its end, by one goroutine at a time. It must return quickly.
	Progress func(Progress)

	Root        *os.Root // DownloadFile: the path is inside of this directory, and does not leave it by symbolic links
	Preallocate bool     // DownloadFile: reserve the space first, so that a full disk is an error at once
	NoSync      bool     // DownloadFile: do not wait until the file is on the drive; a crash may leave it empty
}

// Download reads an object of any size into w. Large objects are read in several ranges at the same time, which are
// written out of order. If the object changes meanwhile, the error is ErrSourceChanged.
//
// The content is compared with the checksum of the object: with one of the whole content, with those of its parts, or
// with the ETag if that is made of MD5s. Transferred.Verified reports whether there was one. After an error, w has a part
// of the content, possibly a damaged one.
func (c *Client) Download(ctx context.Context, bucket, key string, w io.WriterAt, o *DownloadOptions) (*Transferred, error) {
	if o == nil {
		o = &DownloadOptions{}
	}
	if o.StateFile != "" {
		return nil, argument("Download", bucket, key, "only DownloadFile can use a state file")
	}
	d := c.newDownload(bucket, key, o)
	t := &Transferred{}
	err := d.look(ctx)
	if err == nil {
		err = d.run(ctx, w)
	}
	return d.result(t), err
}

// downloader is a download in progress.
type downloader struct {
	c           *Client
	bucket, key string
	o           DownloadOptions
	meter       *meter

	info     *Info // of the object; nil until its first response
	parted   bool  // read in ranges
	plan     partPlan
	verifier verifier // of ranges
	verified bool

	next struct {
		sync.Mutex
		number int // of the next range; guarded by the lock
	}

	temp  io.ReaderAt // DownloadFile: what has arrived
	state *stateKeeper
	known *transferState // what an earlier download has recorded; nil if there was none
}

func (c *Client) newDownload(bucket, key string, o *DownloadOptions) *downloader {
	d := &downloader{c: c, bucket: bucket, key: key, o: *o, meter: &meter{report: o.Progress}}
	if d.o.Parallel <= 0 {
		d.o.Parallel = transferParallel
	}
	return d
}

// result returns what was transferred.
func (d *downloader) result(t *Transferred) *Transferred {
	d.meter.finish(t)
	t.Verified = d.verified
	if i := d.info; i != nil {
		t.Info = i
		t.Written = Written{ETag: i.ETag, VersionID: i.VersionID, Checksums: i.Checksums, Size: i.Size, Modified: i.LastModified}
	}
	return t
}

// isParted reports whether the content of an object may have to be compared with the checksums of its parts.
func isParted(i *Info) bool {
	return i.ChecksumType == composite || strings.Contains(i.ETag, "-") && fullSum(i) == None
}

// fullSum returns the algorithm of the checksum of the whole content, or None if there is no such checksum. Checksums
// that can be combined come first.
func fullSum(i *Info) Algorithm {
	if i.ChecksumType == composite {
		return None
	}
	for _, a := range [...]Algorithm{CRC64NVME, CRC32C, CRC32, XXHASH3, XXHASH128, XXHASH64, SHA256, SHA1, SHA512, MD5} {
		if _, err := checksum.Decode(a, i.Checksums[a]); err == nil {
			return a
		}
	}
	return None
}

// look finds out how large the object is, unless the caller knows that it is small.
func (d *downloader) look(ctx context.Context) (err error) {
	if i := d.o.Info; i != nil && i.Size <= putMax && !isParted(i) {
		return nil
	}
	d.info, err = d.c.Head(d.meter.control(ctx), d.bucket, d.key,
		&GetOptions{VersionID: d.o.VersionID, Conditions: d.o.Conditions, CustomerKey: d.o.CustomerKey})
	if err != nil {
		return err
	}
	d.meter.size(d.info.Size)
	if d.info.Size <= putMax && !isParted(d.info) || d.info.Size == 0 {
		return nil
	}
	d.parted = true
	if d.plan, err = planParts(d.info.Size, d.o.PartSize); err != nil {
		return err
	}
	return d.chooseVerifier(ctx)
}

// run reads the content.
func (d *downloader) run(ctx context.Context, w io.WriterAt) error {
	if !d.parted {
		return d.whole(ctx, w)
	}
	err := parallel(ctx, min(d.o.Parallel, d.plan.count()), func(ctx context.Context) error {
		for {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			d.next.Lock()
			d.next.number++
			n := d.next.number
			d.next.Unlock()
			if n > d.plan.count() {
				return nil
			}
			if err := d.oneRange(ctx, w, n); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	d.verified, err = d.verifier.finish()
	if err != nil {
		return &Error{Op: "Download", Bucket: d.bucket, Key: d.key, Err: err}
	}
	return nil
}

// options returns the options of a request for a range of the object that was found.
func (d *downloader) options(offset, length int64) *GetOptions {
	o := &GetOptions{VersionID: d.o.VersionID, Offset: offset, Length: length, Conditions: d.o.Conditions, CustomerKey: d.o.CustomerKey}
	if d.info != nil {
		o.Conditions = Conditions{IfMatch: d.info.ETag}
		if d.info.VersionID != "" {
			o.VersionID = d.info.VersionID
		}
	}
	return o
}

// whole reads the content in one request.
func (d *downloader) whole(ctx context.Context, w io.WriterAt) error {
	part, f := d.meter.part(ctx)
	o, err := d.c.Get(part, d.bucket, d.key, d.options(0, 0))
	if err != nil {
		return d.changed(err)
	}
	defer o.Close()
	d.info = &o.Info
	d.meter.size(o.Info.Size)
	buf, release := d.c.w.step()
	defer release()
	for at := int64(0); ; {
		n, err := o.Read(buf)
		if n > 0 {
			if _, werr := w.WriteAt(buf[:n], at); werr != nil {
				return werr
			}
			at += int64(n)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return d.changed(err)
		}
	}
	f.complete(o.Length)
	if body, ok := o.ReadCloser.(*download); ok {
		d.verified = body.hash != nil
	}
	return nil
}

// changed makes the failure of the condition of a range ErrSourceChanged.
func (d *downloader) changed(err error) error {
	if d.info == nil || !errors.Is(err, ErrPreconditionFailed) && !(errors.Is(err, ErrNoSuchKey) || errors.Is(err, ErrNoSuchVersion)) {
		return err
	}
	return fmt.Errorf("%w: %w", failed(ErrSourceChanged, "the object changed while it was downloaded"), err)
}

// rangeStep is how many bytes are read and written at once.
const rangeStep = 256 << 10

// step returns a buffer of that size, and a function that must be called when it is not used any more.
func (w *wire) step() ([]byte, func()) {
	b, _ := w.steps.Get().(*[rangeStep]byte)
	if b == nil {
		b = new([rangeStep]byte)
	}
	return b[:], func() { w.steps.Put(b) }
}

// oneRange reads range n, or takes it from an earlier download.
func (d *downloader) oneRange(ctx context.Context, w io.WriterAt, n int) error {
	offset, size := d.plan.part(n)
	var buf []byte
	if d.verifier.ordered() { // its content has to be kept until that of all earlier ranges was hashed
		var release func()
		buf, release = d.c.w.buffer(size)
		defer release()
	}
	sum, err := d.take(n, buf)
	if err != nil {
		return err
	}
	if sum == nil {
		if sum, err = d.fetch(ctx, w, offset, size, buf); err != nil {
			return d.changed(err)
		}
	}
	if err := d.verifier.add(ctx, n, size, sum, buf); err != nil {
		return err
	}
	d.state.add(statePart{Number: n, Sum: encodeSum(sum)})
	return nil
}

// fetch requests a range, writes it, and returns its checksum. If buf is not empty, it gets the content.
func (d *downloader) fetch(ctx context.Context, w io.WriterAt, offset, size int64, buf []byte) ([]byte, error) {
	part, f := d.meter.part(ctx)
	options := d.options(offset, size)
	options.Unverified = true
	o, err := d.c.Get(part, d.bucket, d.key, options)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if o.Size != d.info.Size || o.Length != size {
		return nil, failed(ErrSourceChanged, "the object had %d bytes, and now has %d", d.info.Size, o.Size)
	}
	h := checksum.New(d.verifier.sum())
	step := buf
	if step == nil {
		var release func()
		step, release = d.c.w.step()
		defer release()
	}
	for done := int64(0); done < size; {
		b := step
		if buf != nil {
			b = buf[done:]
		}
		n, err := io.ReadFull(o, b[:min(int64(len(b)), rangeStep, size-done)])
		if err != nil {
			return nil, err
		}
		h.Write(b[:n])
		if _, err := w.WriteAt(b[:n], offset+done); err != nil {
			return nil, err
		}
		done += int64(n)
	}
	f.complete(size)
	return h.Sum(nil), nil
}

// take reads range n from the file of an earlier download. It returns nil and no error if it has to be requested.
func (d *downloader) take(n int, buf []byte) ([]byte, error) {
	if d.known == nil {
		return nil, nil
	}
	p := d.known.part(n)
	if p == nil || p.Sum == "" {
		return nil, nil
	}
	offset, size := d.plan.part(n)
	h := checksum.New(d.verifier.sum())
	step, release := d.c.w.step()
	defer release()
	for done := int64(0); done < size; {
		b := step
		if buf != nil {
			b = buf[done:]
		}
		b = b[:min(int64(len(b)), rangeStep, size-done)]
		if _, err := d.temp.ReadAt(b, offset+done); err != nil {
			return nil, nil // it will be written again
		}
		h.Write(b)
		done += int64(len(b))
	}
	sum := h.Sum(nil)
	if encodeSum(sum) != p.Sum {
		return nil, nil
	}
	d.meter.resume(size)
	return sum, nil
}
