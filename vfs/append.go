package vfs

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
	"orcas/internal/mutant"
)

// MaxAppends is the maximum number of pieces of an object, appended or uploaded as parts. S3 has the same limit.
const MaxAppends = 10_000

// AppendRequest appends content to a version. The new version keeps the Attrs and Tags of Base. Sums are checksums of
// the whole new object.
type AppendRequest struct {
	PutRequest
	Base       *core.ObjectInfo   // the current version of the key, from Stat
	Encryption content.Encryption // how to encrypt the content; a customer key also decrypts Base
}

// Append writes a version with the content of Base, by reference, followed by the new content. It returns the errors of
// Put, Conflict if Base is no longer the current version or its tags have changed, and TooLarge if the object already
// has MaxAppends pieces.
//
// A version may have only a few segments of its own. When the limit is reached, the smallest segments at the end are
// merged into one, together with the new content if it is small. Each remaining segment is at least twice as large as
// everything after it, so n appends of equal size write less than log2(n) times their bytes.
func (f *FS) Append(ctx context.Context, r AppendRequest) (*core.ObjectInfo, error) {
	base := r.Base
	etag, err := appendedETag(base.ETag, r.Content.Sum(checksum.MD5))
	if err != nil {
		return nil, err
	}
	segments, contents, err := f.planAppend(ctx, &r)
	if err != nil {
		return nil, err
	}
	defer contents[0].Discard()
	var write batch.Write
	for _, c := range contents {
		segment, w, err := c.Commit(ctx)
		if err != nil {
			return nil, err
		}
		segments = append(segments, segment...)
		if w.Info != nil { // small content is part of its write; at most one of contents is small
			write = w
		}
	}
	now := f.time()
	change := &core.PutObject{
		Object: core.ObjectInfo{
			Bucket: r.Bucket.ID, Key: r.Key, Modified: now, Lock: lockOf(r.Bucket, r.Lock, now),
			Size: base.Size + r.Content.Size(), ETag: etag, Sums: r.Sums,
			Attrs: base.Attrs, Tags: base.Tags, Owner: r.Owner, Segments: segments, List: base.List, Index: base.Index,
		},
		If: r.If,
	}
	change.If.Seq, change.If.HasTags, change.If.Tags = base.Seq, !mutant.Is("no-tags-condition"), base.Tags
	write.Change = change
	res, err := f.writer.Do(ctx, write)
	for _, c := range contents {
		c.Finish(ctx, res)
	}
	if err != nil {
		return nil, err
	}
	return written(&change.Object, res), nil
}

// planAppend returns the segments of Base to keep, and the one or two Contents to append to them.
func (f *FS) planAppend(ctx context.Context, r *AppendRequest) ([]core.Segment, []*content.Content, error) {
	old := r.Base.Segments
	if len(old) < core.MaxInlineSegments {
		return references(old), []*content.Content{r.Content}, nil
	}
	body, small := r.Content.Bytes()
	from, size := firstMerged(old, int64(len(body)))
	merged, err := f.NewContent(ctx, r.Bucket, size)
	if err != nil {
		return nil, nil, err
	}
	merged.Beside() // the new content is in memory
	merged.Describe(r.Base.Attrs)
	if err = merged.Encrypt(ctx, r.Encryption); err == nil {
		err = f.merge(ctx, merged, r, size-int64(len(body)), body)
	}
	if err != nil {
		merged.Discard()
		return nil, nil, err
	}
	contents := []*content.Content{merged}
	if !small {
		contents = append(contents, r.Content)
	}
	return references(old[:from]), contents, nil
}

// firstMerged returns the index of the first segment to merge, and the size of the merged segment, with extra bytes at
// its end.
func firstMerged(segments []core.Segment, extra int64) (from int, size int64) {
	from, size = len(segments), extra
	for from > 0 && (from == len(segments) || len(segments)-from < 2 && extra == 0 ||
		segments[from-1].Length < 2*size) {
		from--
		size += segments[from].Length
	}
	return from, size
}

// merge reads the last n bytes of Base, followed by body, into a Content.
func (f *FS) merge(ctx context.Context, into *content.Content, r *AppendRequest, n int64, body []byte) error {
	open, err := f.reopen(ctx, r.Base)
	if err != nil {
		return err
	}
	defer open.Close()
	open.Unlock(r.Encryption.Customer)
	section, err := open.Range(ctx, r.Base.Size-n, n)
	if err != nil {
		return err
	}
	defer section.Close()
	_, err = into.ReadFrom(io.MultiReader(section, bytes.NewReader(body)))
	return err
}

// appendedETag computes the new ETag of an object to which content was appended, from its old ETag and the MD5 of the
// content. Like the ETag of a multipart object, it is a hash of the two hashes, followed by the number of pieces.
func appendedETag(old string, sum []byte) (string, error) {
	const op = "vfs.Append"
	before, count, several := strings.Cut(old, "-")
	raw, err := hex.DecodeString(before)
	n := 1
	if err == nil && several {
		n, err = strconv.Atoi(count)
	}
	if err != nil {
		return "", core.E(op, core.Internal, fmt.Errorf("the ETag of the object is %q: expected an MD5 and a number", old))
	}
	if n++; n > MaxAppends {
		return "", core.E(op, core.TooLarge, fmt.Errorf("the object already has %d pieces, the maximum", MaxAppends))
	}
	all := md5.Sum(append(raw, sum...))
	return hex.EncodeToString(all[:]) + "-" + strconv.Itoa(n), nil
}

// FullSum returns a checksum of the whole content of a version that Stat returned, with an algorithm whose checksums
// can be combined. If neither the version nor all of its parts have such a checksum, FullSum reads the content, with
// the customer key if one is needed, and returns its CRC64NVME. It returns Conflict if the version no longer exists.
func (f *FS) FullSum(ctx context.Context, o *core.ObjectInfo, customer *codec.Key) (core.Checksum, error) {
	for _, s := range o.Sums {
		if s.Algorithm.CanCombine() && !s.Composite {
			return s, nil
		}
	}
	if o.List != 0 && len(o.Segments) == 0 && len(o.Sums) > 0 && o.Sums[0].Algorithm.CanCombine() {
		if s, err := f.combineParts(ctx, o, o.Sums[0].Algorithm); !core.Is(err, core.InvalidPart) {
			return s, err
		}
	}
	sums, err := f.Sums(ctx, o, customer, 0, o.Size, checksum.CRC64NVME)
	if err != nil {
		return core.Checksum{}, err
	}
	return sums[0], nil
}

// combineParts computes the checksum of a multipart object from the checksums of its parts. It returns InvalidPart if a
// part has none.
func (f *FS) combineParts(ctx context.Context, o *core.ObjectInfo, a checksum.Algorithm) (core.Checksum, error) {
	all, size := checksum.Sum(a, nil), int64(0)
	for after := 0; size < o.Size; {
		parts, err := f.meta.Parts(ctx, o.List, after, partsPage, core.WithoutContent)
		if err != nil {
			return core.Checksum{}, err
		}
		if len(parts) == 0 {
			return core.Checksum{}, core.E("vfs.FullSum", core.Conflict, errors.New("the parts no longer exist"))
		}
		for i := range parts {
			s, ok := content.FindSum(parts[i].Sums, a)
			if !ok {
				err := fmt.Errorf("part %d has no %v checksum", parts[i].Number, a)
				return core.Checksum{}, core.E("vfs.FullSum", core.InvalidPart, err)
			}
			if all, err = checksum.Combine(a, all, s.Value, parts[i].Size); err != nil {
				return core.Checksum{}, core.E("vfs.FullSum", core.Internal, err)
			}
			size += parts[i].Size
			after = parts[i].Number
		}
	}
	return core.Checksum{Algorithm: a, Value: all}, nil
}
