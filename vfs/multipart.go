package vfs

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
)

// MinPartSize is the smallest part that is not the last one, in bytes, as S3 has it.
const MinPartSize = 5 << 20

// maxCompleteTries bounds how often Complete is computed again because a part was replaced meanwhile.
const maxCompleteTries = 8

// CreateUpload begins a multipart upload of u.Key in b. Retention counts from here on, b's where u.Lock has none.
func (f *FS) CreateUpload(ctx context.Context, b *core.BucketInfo, u core.UploadInfo) (*core.UploadInfo, error) {
	u.ID, u.Bucket, u.Initiated = 0, b.ID, f.time()
	u.Lock = lockOf(b, u.Lock, u.Initiated)
	res, err := f.writer.Do(ctx, batch.Write{Change: &core.CreateUpload{Upload: u}})
	if err != nil {
		return nil, err
	}
	u.ID = core.UploadID(res.Seq)
	return &u, nil
}

// Upload returns an upload in progress.
func (f *FS) Upload(ctx context.Context, b *core.BucketInfo, key string, id core.UploadID) (*core.UploadInfo, error) {
	return f.meta.Upload(ctx, b.ID, key, id)
}

// Parts returns up to limit parts of an upload in progress with numbers above after, and whether more follow.
func (f *FS) Parts(ctx context.Context, b *core.BucketInfo, key string, id core.UploadID, after, limit int) ([]core.PartInfo, bool, error) {
	if _, err := f.meta.Upload(ctx, b.ID, key, id); err != nil {
		return nil, false, err
	}
	parts, err := f.meta.Parts(ctx, id, after, limit+1)
	if err != nil || len(parts) <= limit {
		return parts, false, err
	}
	return parts[:limit], true, nil
}

// ObjectParts returns up to limit parts of a multipart object with numbers above after.
func (f *FS) ObjectParts(ctx context.Context, o *core.ObjectInfo, after, limit int) ([]core.PartInfo, error) {
	if o.List == 0 {
		return nil, nil
	}
	return f.meta.Parts(ctx, o.List, after, limit)
}

// PartRequest is a part to be written.
type PartRequest struct {
	Bucket  *core.BucketInfo
	Key     string
	Upload  core.UploadID
	Number  int      // 1..10000
	Content *Content // taken over by a successful PutPart
	Sums    []core.Checksum
}

// PutPart writes a part of an upload, in place of an older one of that number. Errors as for Put.
func (f *FS) PutPart(ctx context.Context, r PartRequest) (*core.PartInfo, error) {
	change := &core.PutPart{
		Bucket: r.Bucket.ID, Key: r.Key, Upload: r.Upload,
		Part: core.PartInfo{
			Number: r.Number, Modified: f.time(), Size: r.Content.Size(), ETag: r.Content.etag(), Sums: r.Sums,
		},
	}
	res, err := r.Content.put(ctx, place{change, &change.Part.Segments, &change.Source})
	if err != nil {
		return nil, err
	}
	change.Part.Seq = res.Seq
	return &change.Part, nil
}

// CopyPartRequest is a part that is a run of a version that Stat returned.
type CopyPartRequest struct {
	Source       *core.ObjectInfo
	From, Length int64
	Bucket       *core.BucketInfo
	Key          string
	Upload       core.UploadID
	Number       int
	Algorithms   []checksum.Algorithm // checksums to be kept with the part
	Customer     *codec.Key           // the customer's key, to read the source; nil: it takes none
	Recode       *Recode              // the content is encrypted anew; nil: the part refers to that of the source
}

// CopyPart writes a part by reference. Its content is read once, for its ETag and checksums, unless it is a whole plain object of which
// they are known; it is not written. Conflict: the source is not there any more.
func (f *FS) CopyPart(ctx context.Context, r CopyPartRequest) (*core.PartInfo, error) {
	if err := f.RoomForPart(ctx, r.Bucket, r.Upload, r.Number, r.Length); err != nil {
		return nil, err
	}
	source, err := f.reopen(ctx, r.Source)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	r.Source = source.Info
	if r.Recode != nil {
		return f.copyPart(ctx, &r, source)
	}
	etag, sums, err := f.sumsOf(ctx, r.Source, r.Customer, r.From, r.Length, r.Algorithms)
	if err != nil {
		return nil, err
	}
	segments, err := f.slice(ctx, r.Source, r.From, r.Length)
	if err != nil {
		return nil, err
	}
	change := &core.PutPart{
		Bucket: r.Bucket.ID, Key: r.Key, Upload: r.Upload,
		Part:   core.PartInfo{Number: r.Number, Modified: f.time(), Size: r.Length, ETag: etag, Sums: sums, Segments: segments},
		Source: &core.Source{Bucket: r.Source.Bucket, Key: r.Source.Key, Seq: r.Source.Seq},
	}
	res, err := f.writer.Do(ctx, batch.Write{Change: change})
	if err != nil {
		return nil, err
	}
	change.Part.Seq = res.Seq
	return &change.Part, nil
}

// sumsOf returns the MD5, as an ETag, and the checksums of a run of a version that becomes an object or a part of its own. It reads only what is
// not known.
func (f *FS) sumsOf(ctx context.Context, o *core.ObjectInfo, customer *codec.Key, from, n int64, algs []checksum.Algorithm) (string, []core.Checksum, error) {
	if from == 0 && n == o.Size && isMD5(o.ETag) {
		if sums, ok := pick(o.Sums, algs); ok {
			return o.ETag, sums, nil
		}
	}
	sums, err := f.Sums(ctx, o, customer, from, n, append([]checksum.Algorithm{checksum.MD5}, algs...)...)
	if err != nil {
		return "", nil, err
	}
	return hex.EncodeToString(sums[0].Value), sums[1:], nil
}

// Sums reads a run of a version that Stat returned and returns its checksums, in the order of algs. It is read with the customer's key; nil: it takes
// none. Conflict: it is not there any more.
func (f *FS) Sums(ctx context.Context, o *core.ObjectInfo, customer *codec.Key, from, n int64, algs ...checksum.Algorithm) ([]core.Checksum, error) {
	object, err := f.reopen(ctx, o)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	object.Unlock(customer)
	section, err := object.Range(ctx, from, n)
	if err != nil {
		return nil, err
	}
	defer section.Close()
	writers, sums := make([]io.Writer, len(algs)), make([]core.Checksum, len(algs))
	for i, a := range algs {
		writers[i] = checksum.New(a)
	}
	if _, err := section.WriteTo(io.MultiWriter(writers...)); err != nil {
		return nil, err
	}
	for i, a := range algs {
		sums[i] = core.Checksum{Algorithm: a, Value: writers[i].(interface{ Sum([]byte) []byte }).Sum(nil)}
	}
	return sums, nil
}

func isMD5(etag string) bool {
	_, err := hex.DecodeString(etag)
	return err == nil && len(etag) == 2*md5.Size
}

// pick returns those of sums that are of algs and of the whole content, and whether all were there.
func pick(sums []core.Checksum, algs []checksum.Algorithm) ([]core.Checksum, bool) {
	out := make([]core.Checksum, 0, len(algs))
	for _, a := range algs {
		s, ok := find(sums, a)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// find returns the checksum of an algorithm that is of the whole content.
func find(sums []core.Checksum, a checksum.Algorithm) (core.Checksum, bool) {
	for _, s := range sums {
		if s.Algorithm == a && !s.Composite {
			return s, true
		}
	}
	return core.Checksum{}, false
}

// slice returns references to a run of an object's content.
func (f *FS) slice(ctx context.Context, o *core.ObjectInfo, from, n int64) ([]core.Segment, error) {
	if from < 0 || n < 0 || from > o.Size || n > o.Size-from {
		return nil, badRange("vfs.CopyPart", from, n, o.Size)
	}
	s := &Section{ctx: ctx, fs: f}
	s.seek(o, from)
	from = s.skip
	var out []core.Segment
	for n > 0 {
		if len(s.segments) == 0 {
			if err := s.more(); err != nil {
				return nil, err
			}
			continue
		}
		seg := s.segments[0]
		s.segments = s.segments[1:]
		if from >= seg.Length {
			from -= seg.Length
			continue
		}
		length := min(seg.Length-from, n)
		out = append(out, core.Segment{Data: seg.Data, From: seg.From + from, Length: length})
		from, n = 0, n-length
	}
	return out, nil
}

// AbortUpload lets go of an upload and its parts.
func (f *FS) AbortUpload(ctx context.Context, b *core.BucketInfo, key string, id core.UploadID) error {
	_, err := f.writer.Do(ctx, batch.Write{Change: &core.AbortUpload{Bucket: b.ID, Key: key, Upload: id}})
	return err
}

// CompletedPart is a part as the client names it. ETag without quotes; Sums are what it claims of the part.
type CompletedPart struct {
	Number int
	ETag   string
	Sums   []core.Checksum
}

// CompleteRequest makes an object of parts, in ascending order of numbers. Sums and Size (-1: not given) are what the client claims of the
// object.
type CompleteRequest struct {
	Bucket *core.BucketInfo
	Key    string
	Upload core.UploadID
	Parts  []CompletedPart
	If     core.Precondition
	Sums   []core.Checksum
	Size   int64
}

// CompleteUpload makes an object of parts, by reference, at one commit point. InvalidPart: a part is not there or is another one;
// TooSmall: a part that is not the last is below MinPartSize; BadDigest: a claimed checksum differs; InvalidArgument: the size differs, or a claimed
// checksum cannot be computed.
func (f *FS) CompleteUpload(ctx context.Context, r CompleteRequest) (*core.ObjectInfo, error) {
	for try := 1; ; try++ {
		change, err := f.complete(ctx, &r)
		if err != nil {
			return nil, err
		}
		res, err := f.writer.Do(ctx, batch.Write{Change: change})
		if err == nil {
			change.Object.List = r.Upload
			return written(&change.Object, res), nil
		}
		if !core.Is(err, core.Conflict) || try == maxCompleteTries {
			return nil, err
		}
	}
}

// complete computes the object from the parts as they are now.
func (f *FS) complete(ctx context.Context, r *CompleteRequest) (*core.CompleteUpload, error) {
	u, err := f.meta.Upload(ctx, r.Bucket.ID, r.Key, r.Upload)
	if err != nil {
		return nil, err
	}
	parts, err := f.chosen(ctx, r)
	if err != nil {
		return nil, err
	}
	o := core.ObjectInfo{
		Bucket: r.Bucket.ID, Key: r.Key, Modified: f.time(), Attrs: u.Attrs, Tags: u.Tags, Owner: u.Owner, Lock: u.Lock, Parts: len(parts),
	}
	change := &core.CompleteUpload{Upload: r.Upload, If: r.If, Parts: make([]core.PartRef, len(parts))}
	hash := md5.New()
	for i := range parts {
		p := &parts[i]
		if i > 0 && i%core.IndexStride == 0 {
			o.Index = append(o.Index, core.PartIndex{After: parts[i-1].Number, Offset: o.Size})
		}
		if i < len(parts)-1 && p.Size < MinPartSize {
			return nil, core.E("vfs.Complete", core.TooSmall, &SmallPartError{p.Number, p.Size, p.ETag})
		}
		raw, err := hex.DecodeString(p.ETag)
		if err != nil {
			return nil, core.E("vfs.Complete", core.Internal, fmt.Errorf("part %d: %w", p.Number, err))
		}
		_, _ = hash.Write(raw) // hash.Hash never fails
		o.Size += p.Size
		change.Parts[i] = core.PartRef{Number: p.Number, Seq: p.Seq}
	}
	o.ETag = fmt.Sprintf("%x-%d", hash.Sum(nil), len(parts))
	if r.Size >= 0 && r.Size != o.Size {
		return nil, core.E("vfs.Complete", core.InvalidArgument, &SizeError{r.Size, o.Size})
	}
	if o.Sums, err = objectSums(u, parts); err != nil {
		return nil, err
	}
	if err := holdClaims(r.Sums, o.Sums, parts); err != nil {
		return nil, err
	}
	change.Object = o
	return change, nil
}

// PartError is the cause of InvalidPart: the part as it was named, and what is wrong with it.
type PartError struct {
	CompletedPart
	Why string
}

// Error tells the number of the part.
func (e *PartError) Error() string { return fmt.Sprintf("part %d %s", e.Number, e.Why) }

// SmallPartError is the cause of TooSmall: a part that is not the last and has fewer than MinPartSize bytes.
type SmallPartError struct {
	Number int
	Size   int64 // in bytes
	ETag   string
}

// Error tells number and size.
func (e *SmallPartError) Error() string { return fmt.Sprintf("part %d has %d bytes", e.Number, e.Size) }

func invalidPart(p CompletedPart, why string) error {
	return core.E("vfs.Complete", core.InvalidPart, &PartError{p, why})
}

// SizeError is the cause of InvalidArgument where an object has another size than was claimed, both in bytes.
type SizeError struct{ Claimed, Actual int64 }

// Error tells both sizes.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the object has %d bytes, not %d", e.Actual, e.Claimed)
}

// chosen returns the parts that the request names, as they are now.
func (f *FS) chosen(ctx context.Context, r *CompleteRequest) ([]core.PartInfo, error) {
	out := make([]core.PartInfo, 0, len(r.Parts))
	var page []core.PartInfo
	after := 0
	for _, want := range r.Parts {
		for len(page) == 0 || page[0].Number < want.Number {
			if len(page) > 0 {
				page = page[1:]
				continue
			}
			var err error
			if page, err = f.meta.Parts(ctx, r.Upload, max(after, want.Number-1), partsPage); err != nil {
				return nil, err
			}
			if len(page) == 0 {
				return nil, invalidPart(want, "is not there")
			}
			after = page[len(page)-1].Number
		}
		p := page[0]
		if p.Number != want.Number || !strings.EqualFold(p.ETag, want.ETag) {
			return nil, invalidPart(want, "is not there, or another one")
		}
		for _, claim := range want.Sums {
			if s, ok := find(p.Sums, claim.Algorithm); !ok || string(s.Value) != string(claim.Value) {
				return nil, invalidPart(want, "has another "+claim.Algorithm.Name())
			}
		}
		p.Segments = nil // they are not needed, and there may be thousands
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, core.E("vfs.Complete", core.InvalidArgument, errors.New("no parts"))
	}
	return out, nil
}

// objectSums computes the object's checksum from those of the parts: of the algorithm and type that the upload announced, and
// else the combined checksum of an algorithm that all parts have, CRC64NVME before others.
func objectSums(u *core.UploadInfo, parts []core.PartInfo) ([]core.Checksum, error) {
	if u.Algorithm != checksum.None {
		s, err := objectSum(u.Algorithm, u.Composite, parts)
		if err != nil {
			return nil, err
		}
		return []core.Checksum{s}, nil
	}
	for _, a := range []checksum.Algorithm{checksum.CRC64NVME, checksum.CRC32, checksum.CRC32C} {
		if s, err := objectSum(a, false, parts); err == nil {
			return []core.Checksum{s}, nil
		}
	}
	return nil, nil
}

func objectSum(a checksum.Algorithm, composite bool, parts []core.PartInfo) (core.Checksum, error) {
	var all []byte // combined, or the parts' values one after the other
	for i := range parts {
		s, ok := find(parts[i].Sums, a)
		if !ok {
			return core.Checksum{}, core.E("vfs.Complete", core.InvalidPart, fmt.Errorf("part %d has no %v", parts[i].Number, a))
		}
		if composite || i == 0 {
			all = append(all, s.Value...)
			continue
		}
		var err error
		if all, err = checksum.Combine(a, all, s.Value, parts[i].Size); err != nil {
			return core.Checksum{}, core.E("vfs.Complete", core.InvalidArgument, err)
		}
	}
	if composite {
		return core.Checksum{Algorithm: a, Composite: true, Parts: len(parts), Value: checksum.Sum(a, all)}, nil
	}
	return core.Checksum{Algorithm: a, Value: all}, nil
}

// holdClaims compares what the client claims of the object with what it is. Where the object keeps no checksum of that kind, it is
// computed from the parts, and where that cannot be, the claim is an InvalidArgument.
func holdClaims(claims, sums []core.Checksum, parts []core.PartInfo) error {
	for _, claim := range claims {
		i := slices.IndexFunc(sums, func(s core.Checksum) bool {
			return s.Algorithm == claim.Algorithm && s.Composite == claim.Composite
		})
		var s core.Checksum
		if i >= 0 {
			s = sums[i]
		} else {
			var err error
			if s, err = objectSum(claim.Algorithm, claim.Composite, parts); err != nil {
				return core.E("vfs.Complete", core.InvalidArgument, err)
			}
		}
		if !bytes.Equal(s.Value, claim.Value) {
			return core.E("vfs.Complete", core.BadDigest, fmt.Errorf("the object's %v differs", claim.Algorithm))
		}
	}
	return nil
}
