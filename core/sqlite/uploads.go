package sqlite

import (
	"fmt"
	"math"

	"orcas/core"
	"orcas/core/encoding"
)

// maxPart is the highest part number.
const maxPart = 10_000

// noUpload returns the error of a change that refers to a missing upload.
func noUpload(id core.UploadID, key string) error {
	return fail(core.NoSuchUpload, fmt.Sprintf("upload %d of key %q", id, key))
}

func (w *writer) createUpload(c *core.CreateUpload) error {
	b, exists, err := w.bucket(c.Upload.Bucket)
	switch {
	case err != nil:
		return err
	case !exists:
		return noBucket(c.Upload.Bucket)
	case !b.locks && !c.Upload.Lock.IsZero():
		return fail(core.BucketState, "object lock is not enabled for the bucket")
	}
	w.infoBuf = uploadKey(int64(c.Upload.Bucket), c.Upload.Key, int64(c.Seq)).appendSum(encoding.AppendUpload(w.infoBuf[:0], &c.Upload))
	w.tallies.add(c.Upload.Bucket, b.tally, core.Tally{Uploads: 1})
	_, err = w.c.exec(insertUpload, int64(c.Upload.Bucket), blob(c.Upload.Key), int64(c.Seq), w.infoBuf)
	return err
}

func (w *writer) putPart(c *core.PutPart) error {
	w.sawData(c.Part.Segments)
	if c.Part.Number < 1 || c.Part.Number > maxPart {
		return fail(core.InvalidArgument, fmt.Sprintf("part number %d is not between 1 and %d", c.Part.Number, maxPart))
	}
	upload, err := w.c.row(selectUpload, int64(c.Bucket), blob(c.Key), int64(c.Upload))
	if err != nil {
		return err
	}
	if upload == nil {
		return noUpload(c.Upload, c.Key)
	}
	found, err := w.contents.check(c.Source, c.Part.Segments)
	if err != nil {
		return err
	}
	old, err := w.part(c.Upload, c.Part.Number)
	if err != nil {
		return err
	}
	if err := w.chargePart(c, old); err != nil {
		return err
	}
	if err := w.contents.incRef(c.Part.Segments, nil); err != nil {
		return err
	}
	if err := w.contents.mergeSums(c.Source, found); err != nil {
		return err
	}
	w.infoBuf = partKey(int64(c.Upload), int64(c.Part.Number), int64(c.Seq)).appendSum(encoding.AppendPart(w.infoBuf[:0], &c.Part))
	if _, err := w.c.exec(upsertPart, int64(c.Upload), int64(c.Part.Number), int64(c.Seq), w.infoBuf); err != nil {
		return err
	}
	if old == nil {
		return nil
	}
	return w.contents.decRef(old.Segments, nil)
}

// chargePart adds the size of a part to the usage of a bucket, less the part that it replaces.
func (w *writer) chargePart(c *core.PutPart, old *core.PartInfo) error {
	b, _, err := w.bucket(c.Bucket)
	if err != nil {
		return err
	}
	more := c.Part.Size
	if old != nil {
		more -= old.Size
	}
	if err := b.tally.admit(core.Usage{Bytes: more}); err != nil {
		return err
	}
	w.tallies.add(c.Bucket, b.tally, core.Tally{UploadBytes: more})
	return nil
}

// part reads a part. It returns nil if there is no part with that number.
func (w *writer) part(list core.UploadID, number int) (*core.PartInfo, error) {
	row, err := w.c.row(selectPart, int64(list), int64(number))
	if row == nil {
		return nil, err
	}
	return decodePart(list, int64(number), row)
}

func (w *writer) completeUpload(c *core.CompleteUpload) (core.Version, error) {
	if len(c.Parts) == 0 || len(c.Object.Segments) > 0 || c.Object.Marker {
		return 0, fail(core.InvalidArgument, "CompleteUpload requires parts, and an object without segments")
	}
	for i := 1; i < len(c.Parts); i++ {
		if c.Parts[i].Number <= c.Parts[i-1].Number {
			return 0, fail(core.InvalidArgument, "parts are not in ascending order")
		}
	}
	bucket, key := c.Object.Bucket, c.Object.Key
	upload, err := w.c.upload(bucket, key, c.Upload)
	if err != nil {
		return 0, err
	}
	if upload == nil {
		return 0, noUpload(c.Upload, key)
	}
	b, _, err := w.bucket(bucket)
	if err != nil {
		return 0, err
	}
	cur, err := w.c.find(bucket, key, core.Current, depthFor(&c.If))
	if err != nil {
		return 0, err
	}
	if err := c.If.Check(infoOf(cur)); err != nil {
		return 0, err
	}
	unnamed, held, err := w.matchParts(c)
	if err != nil {
		return 0, err
	}
	if err := w.chargeComplete(c, b, cur, held); err != nil {
		return 0, err
	}
	for _, number := range unnamed {
		if err := w.dropPart(c.Upload, number); err != nil {
			return 0, err
		}
	}
	if _, err := w.c.exec(deleteUpload, int64(bucket), blob(key), int64(c.Upload)); err != nil {
		return 0, err
	}
	if _, err := w.c.exec(insertList, int64(c.Upload)); err != nil {
		return 0, err
	}
	w.object = c.Object
	o := &w.object
	o.Seq, o.Latest, o.Null, o.List = c.Seq, false, b.versioning != core.VersioningEnabled, c.Upload
	o.Attrs, o.Tags, o.Lock, o.Owner = upload.Attrs, upload.Tags, upload.Lock, upload.Owner
	w.encode(o)
	return o.Version(), w.putVersion(b, o, cur)
}

// chargeComplete checks the quota for an object, less its parts and the version that it replaces, and subtracts the
// upload, whose parts have held bytes.
func (w *writer) chargeComplete(c *core.CompleteUpload, b bucketState, cur *version, held int64) error {
	replaced, err := w.replaced(b, c.Object.Bucket, c.Object.Key, cur)
	if err != nil {
		return err
	}
	if err := b.tally.admit(core.UsageOf(&c.Object).Minus(replaced).Minus(core.Usage{Bytes: held})); err != nil {
		return err
	}
	w.tallies.add(c.Object.Bucket, b.tally, core.Tally{Uploads: -1, UploadBytes: -held})
	return nil
}

// matchParts compares the parts in the change with the stored parts. It returns the numbers of the stored parts that are
// not in the change, and the size of all stored parts. Both lists are in order, so one pass is enough.
func (w *writer) matchParts(c *core.CompleteUpload) (unnamed []int, held int64, err error) {
	r, err := w.c.query(selectPartSizes, int64(c.Upload))
	if err != nil {
		return nil, 0, err
	}
	defer r.close()
	named := c.Parts
	for {
		ok, err := r.next()
		if err != nil {
			return nil, 0, err
		}
		number := math.MaxInt
		if ok {
			number = int(integer(r.cols[0]))
			held += partSize(c.Upload, r.cols)
		}
		switch {
		case len(named) > 0 && named[0].Number < number:
			return nil, 0, fail(core.InvalidPart, fmt.Sprintf("part %d does not exist", named[0].Number))
		case !ok:
			return unnamed, held, nil
		case len(named) > 0 && named[0].Number == number:
			if named[0].Seq != core.Seq(integer(r.cols[1])) {
				return nil, 0, fail(core.Conflict, fmt.Sprintf("part %d was replaced in the meantime", number))
			}
			named = named[1:]
		default:
			unnamed = append(unnamed, number)
		}
	}
}

// dropPart deletes a part and its references.
func (w *writer) dropPart(list core.UploadID, number int) error {
	p, err := w.part(list, number)
	if err != nil || p == nil {
		return err
	}
	if _, err := w.c.exec(deletePart, int64(list), int64(number)); err != nil {
		return err
	}
	return w.contents.decRef(p.Segments, nil)
}

func (w *writer) abortUpload(c *core.AbortUpload) error {
	upload, err := w.c.row(selectUpload, int64(c.Bucket), blob(c.Key), int64(c.Upload))
	if err != nil {
		return err
	}
	if upload == nil {
		return noUpload(c.Upload, c.Key)
	}
	b, _, err := w.bucket(c.Bucket)
	if err != nil {
		return err
	}
	parts, err := w.partsHeld(c.Upload)
	if err != nil {
		return err
	}
	w.tallies.add(c.Bucket, b.tally, core.Tally{Uploads: -1, UploadBytes: -parts})
	if _, err := w.c.exec(deleteUpload, int64(c.Bucket), blob(c.Key), int64(c.Upload)); err != nil {
		return err
	}
	if row, err := w.c.row(anyPart, int64(c.Upload)); err != nil || row == nil {
		return err
	}
	return w.contents.writeFreedList(w.state.Seq, c.Upload)
}
