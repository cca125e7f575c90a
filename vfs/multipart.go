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
	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
)

// MinPartSize is the minimum size of a part that is not the last one, in bytes. S3 has the same limit.
const MinPartSize = 5 << 20

// partsPage is the number of parts of a long segment list that are read per call.
const partsPage = 1000

// maxCompleteTries is how often CompleteUpload tries to commit if parts are replaced in the meantime.
const maxCompleteTries = 8

// CreateUpload begins a multipart upload of u.Key in b. Retention starts now. If u.Lock has no Mode, the default
// retention of b applies.
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

// Parts returns up to limit parts of an upload in progress with numbers above after, without the DataInfo of their
// segments, and reports whether there are more.
func (f *FS) Parts(
	ctx context.Context, b *core.BucketInfo, key string, id core.UploadID, after, limit int,
) ([]core.PartInfo, bool, error) {
	if _, err := f.meta.Upload(ctx, b.ID, key, id); err != nil {
		return nil, false, err
	}
	parts, err := f.meta.Parts(ctx, id, after, limit+1, core.WithoutContent)
	if err != nil || len(parts) <= limit {
		return parts, false, err
	}
	return parts[:limit], true, nil
}

// ObjectParts returns up to limit parts of a multipart object with numbers above after, without the DataInfo of their
// segments.
func (f *FS) ObjectParts(ctx context.Context, o *core.ObjectInfo, after, limit int) ([]core.PartInfo, error) {
	if o.List == 0 {
		return nil, nil
	}
	return f.meta.Parts(ctx, o.List, after, limit, core.WithoutContent)
}

// PartRequest is a part to be written.
type PartRequest struct {
	Bucket  *core.BucketInfo
	Key     string
	Upload  core.UploadID
	Number  int              // 1..10000
	Content *content.Content // owned by the part after a successful PutPart
	Sums    []core.Checksum
}

// PutPart writes a part of an upload. It replaces an existing part with that number. It returns the errors of Put.
func (f *FS) PutPart(ctx context.Context, r PartRequest) (*core.PartInfo, error) {
	change := &core.PutPart{
		Bucket: r.Bucket.ID, Key: r.Key, Upload: r.Upload,
		Part: core.PartInfo{
			Number: r.Number, Modified: f.time(), Size: r.Content.Size(), ETag: etagOf(r.Content), Sums: r.Sums,
		},
	}
	target := content.Target{Change: change, Segments: &change.Part.Segments, Source: &change.Source}
	res, err := r.Content.Put(ctx, target)
	if err != nil {
		return nil, err
	}
	change.Part.Seq = res.Seq
	return &change.Part, nil
}

// CopyPartRequest is a part with Length bytes of a version that Stat returned, beginning at From.
type CopyPartRequest struct {
	Source       *core.ObjectInfo
	From, Length int64
	Bucket       *core.BucketInfo
	Key          string
	Upload       core.UploadID
	Number       int
	Algorithms   []checksum.Algorithm // of the checksums that are stored with the part
	Customer     *codec.Key           // the customer key of the source; nil if it has none
	Recode       *Recode              // encrypt the content again; nil to refer to the content of the source
}

// CopyPart writes a part by reference. It does not write the content, but reads it once for its ETag and checksums,
// unless the part is a whole object whose MD5 and checksums are known. It returns Conflict if the source no longer
// exists.
func (f *FS) CopyPart(ctx context.Context, r CopyPartRequest) (*core.PartInfo, error) {
	if err := f.RoomForPart(ctx, r.Bucket, r.Upload, r.Number, r.Length); err != nil {
		return nil, err
	}
	if r.Recode != nil {
		return f.copyPart(ctx, &r)
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
		Part: core.PartInfo{
			Number: r.Number, Modified: f.time(), Size: r.Length, ETag: etag, Sums: sums, Segments: segments,
		},
		Source: &core.Source{Bucket: r.Source.Bucket, Key: r.Source.Key, Seq: r.Source.Seq},
	}
	res, err := f.writer.Do(ctx, batch.Write{Change: change})
	if err != nil {
		return nil, err
	}
	change.Part.Seq = res.Seq
	return &change.Part, nil
}

// sumsOf returns the MD5, as an ETag, and the checksums of n bytes of a version, for a copy. It reads the content only
// if they are unknown.
func (f *FS) sumsOf(
	ctx context.Context, o *core.ObjectInfo, customer *codec.Key, from, n int64, algs []checksum.Algorithm,
) (string, []core.Checksum, error) {
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

// Sums reads n bytes of a version that Stat returned, and returns their checksums, in the order of algs. Customer is
// the customer key of the version, or nil if it has none. Sums returns Conflict if the version no longer exists.
func (f *FS) Sums(
	ctx context.Context, o *core.ObjectInfo, customer *codec.Key, from, n int64, algs ...checksum.Algorithm,
) ([]core.Checksum, error) {
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

// pick returns the checksums of the whole content for algs, and reports whether sums has all of them.
func pick(sums []core.Checksum, algs []checksum.Algorithm) ([]core.Checksum, bool) {
	out := make([]core.Checksum, 0, len(algs))
	for _, a := range algs {
		s, ok := content.FindSum(sums, a)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// slice returns segments that refer to n bytes of a version that Stat returned. It returns Conflict if the version no
// longer exists.
func (f *FS) slice(ctx context.Context, o *core.ObjectInfo, from, n int64) ([]core.Segment, error) {
	if from < 0 || n < 0 || from > o.Size || n > o.Size-from {
		return nil, badRange("vfs.CopyPart", from, n, o.Size)
	}
	source, err := f.reopen(ctx, o)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	return f.Slice(ctx, source.Info, from, n)
}

// AbortUpload deletes an upload and its parts.
func (f *FS) AbortUpload(ctx context.Context, b *core.BucketInfo, key string, id core.UploadID) error {
	_, err := f.writer.Do(ctx, batch.Write{Change: &core.AbortUpload{Bucket: b.ID, Key: key, Upload: id}})
	return err
}

// CompletedPart is a part in a client's request to complete an upload. ETag has no quotes. Sums are the checksums that
// the client expects.
type CompletedPart struct {
	Number int
	ETag   string
	Sums   []core.Checksum
}

// CompleteRequest creates an object from parts, which must be in ascending order of their numbers. Sums and Size are
// the checksums and the size that the client expects; Size is -1 if the client did not send it.
type CompleteRequest struct {
	Bucket *core.BucketInfo
	Key    string
	Upload core.UploadID
	Begun  *core.UploadInfo // the upload, from FS.Upload; if nil, CompleteUpload reads it
	Parts  []CompletedPart
	If     core.Precondition
	Sums   []core.Checksum
	Size   int64
}

// CompleteUpload creates an object from parts, by reference, at one commit point. It returns InvalidPart if a part does
// not exist or differs, TooSmall if a part other than the last is smaller than MinPartSize, BadDigest if an expected
// checksum differs, and InvalidArgument if the size differs or an expected checksum cannot be computed.
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
	if r.Begun == nil {
		var err error
		if r.Begun, err = f.meta.Upload(ctx, r.Bucket.ID, r.Key, r.Upload); err != nil {
			return nil, err
		}
	}
	u := r.Begun // it does not change; Apply checks that it still exists
	parts, err := f.chosen(ctx, r)
	if err != nil {
		return nil, err
	}
	o := core.ObjectInfo{
		Bucket: r.Bucket.ID, Key: r.Key, Modified: f.time(), Parts: len(parts),
		Attrs: u.Attrs, Tags: u.Tags, Owner: u.Owner, Lock: u.Lock,
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
			return nil, core.E("vfs.Complete", core.Internal, fmt.Errorf("part %d has the ETag %q: %w", p.Number, p.ETag, err))
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
	if err := checkClaims(r.Sums, o.Sums, parts); err != nil {
		return nil, err
	}
	change.Object = o
	return change, nil
}

// PartError is the cause of InvalidPart: the part in the request, and what is wrong with it.
type PartError struct {
	CompletedPart
	Why string
}

// Error returns the number of the part and what is wrong with it.
func (e *PartError) Error() string { return fmt.Sprintf("part %d %s", e.Number, e.Why) }

// SmallPartError is the cause of TooSmall: a part other than the last with fewer than MinPartSize bytes.
type SmallPartError struct {
	Number int
	Size   int64 // in bytes
	ETag   string
}

// Error returns the number of the part, its size and the limit.
func (e *SmallPartError) Error() string {
	return fmt.Sprintf("part %d has %d bytes: expected at least %d", e.Number, e.Size, MinPartSize)
}

func invalidPart(p CompletedPart, why string) error {
	return core.E("vfs.Complete", core.InvalidPart, &PartError{p, why})
}

// SizeError is the cause of InvalidArgument if an object does not have the expected size. Both sizes are in bytes.
type SizeError struct{ Claimed, Actual int64 }

// Error returns both sizes.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the object has %d bytes: expected %d", e.Actual, e.Claimed)
}

// chosen returns the parts that the request refers to, as they are now.
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
			page, err = f.meta.Parts(ctx, r.Upload, max(after, want.Number-1), partsPage, core.WithoutContent)
			if err != nil {
				return nil, err
			}
			if len(page) == 0 {
				return nil, invalidPart(want, "does not exist")
			}
			after = page[len(page)-1].Number
		}
		p := page[0]
		if p.Number != want.Number || !strings.EqualFold(p.ETag, want.ETag) {
			return nil, invalidPart(want, "does not exist or has a different ETag")
		}
		for _, claim := range want.Sums {
			if s, ok := content.FindSum(p.Sums, claim.Algorithm); !ok || string(s.Value) != string(claim.Value) {
				return nil, invalidPart(want, "has a different "+claim.Algorithm.Name()+" checksum")
			}
		}
		p.Segments = nil // not needed, and there may be thousands of them
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, core.E("vfs.Complete", core.InvalidArgument, errors.New("the request lists no parts"))
	}
	return out, nil
}

// objectSums computes the checksum of the object from those of the parts. It uses the algorithm and type of the upload.
// If the upload has none, it uses an algorithm that all parts have, preferably CRC64NVME.
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
	var all []byte // the combined checksum, or the checksums of the parts one after the other
	for i := range parts {
		s, ok := content.FindSum(parts[i].Sums, a)
		if !ok {
			err := fmt.Errorf("part %d has no %v checksum", parts[i].Number, a)
			return core.Checksum{}, core.E("vfs.Complete", core.InvalidPart, err)
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

// checkClaims compares the checksums that the client sent with those of the object. If the object does not have such a
// checksum, it is computed from the parts. If that is impossible, checkClaims returns InvalidArgument.
func checkClaims(claims, sums []core.Checksum, parts []core.PartInfo) error {
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
			return core.E("vfs.Complete", core.BadDigest, fmt.Errorf("the object has a different %v checksum", claim.Algorithm))
		}
	}
	return nil
}
