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
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
	"orcas/internal/mutant"
)

// MaxAppends is the most pieces, appended one by one or uploaded as parts, that an object may be made of, as S3 has it.
const MaxAppends = 10_000

// AppendRequest puts content behind that of a version. Attrs and Tags are those of the version; Sums are of all of the content.
type AppendRequest struct {
	PutRequest
	Base       *core.ObjectInfo // the current version of the key, which Stat returned
	Encryption Encryption       // of the content; with a customer's key that of Base too
}

// Append writes a version that is another one and new content behind it: it refers to the content that is there. Errors as for Put;
// Conflict: Base is not the current version any more, or has other tags; TooLarge: the object is made of MaxAppends pieces already.
//
// A version holds few segments. When they are full, the smallest at the end are written again as one, with the new content where
// that is small. What stays is at least twice as large as what follows it, so n appends of equal size write less than log2(n) times their bytes.
func (f *FS) Append(ctx context.Context, r AppendRequest) (*core.ObjectInfo, error) {
	base := r.Base
	etag, err := appendedETag(base.ETag, r.Content.Sum(checksum.MD5))
	if err != nil {
		return nil, err
	}
	segments, contents, err := f.behind(ctx, &r)
	if err != nil {
		return nil, err
	}
	defer contents[0].Discard()
	var write batch.Write
	for _, c := range contents {
		segment, w, err := c.commit(ctx)
		if err != nil {
			return nil, err
		}
		segments = append(segments, segment...)
		if w.Info != nil { // of two, one is large
			write = w
		}
	}
	now := f.time()
	change := &core.PutObject{
		Object: core.ObjectInfo{
			Bucket: r.Bucket.ID, Key: r.Key, Modified: now, Lock: lockOf(r.Bucket, r.Lock, now), Size: base.Size + r.Content.Size(), ETag: etag, Sums: r.Sums,
			Attrs: base.Attrs, Tags: base.Tags, Owner: r.Owner, Segments: segments, List: base.List, Index: base.Index,
		},
		If: r.If,
	}
	change.If.Seq, change.If.HasTags, change.If.Tags = base.Seq, !mutant.Is("no-tags-condition"), base.Tags
	write.Change = change
	res, err := f.writer.Do(ctx, write)
	for _, c := range contents {
		c.written(ctx, res)
	}
	if err != nil {
		return nil, err
	}
	return written(&change.Object, res), nil
}

// behind returns the segments of the base that stay, and the contents that follow them.
func (f *FS) behind(ctx context.Context, r *AppendRequest) ([]core.Segment, []*Content, error) {
	old := r.Base.Segments
	if len(old) < core.MaxInlineSegments {
		return references(old), []*Content{r.Content}, nil
	}
	body, small := r.Content.small()
	from, size := firstMerged(old, int64(len(body)))
	merged, err := f.NewContent(ctx, r.Bucket, size)
	if err != nil {
		return nil, nil, err
	}
	merged.Describe(r.Base.Attrs)
	if err = merged.Encrypt(ctx, r.Encryption); err == nil {
		err = f.merge(ctx, merged, r, size-int64(len(body)), body)
	}
	if err != nil {
		merged.Discard()
		return nil, nil, err
	}
	contents := []*Content{merged}
	if !small {
		contents = append(contents, r.Content)
	}
	return references(old[:from]), contents, nil
}

// firstMerged returns which segment is the first of those that become one, and the size of that, with extra bytes at its end.
func firstMerged(segments []core.Segment, extra int64) (from int, size int64) {
	from, size = len(segments), extra
	for from > 0 && (from == len(segments) || len(segments)-from < 2 && extra == 0 || segments[from-1].Length < 2*size) {
		from--
		size += segments[from].Length
	}
	return from, size
}

// merge reads the last n bytes of a version, and then body, into content.
func (f *FS) merge(ctx context.Context, into *Content, r *AppendRequest, n int64, body []byte) error {
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

// small returns content that is in memory, and whether it is.
func (c *Content) small() ([]byte, bool) {
	if c.large != nil {
		return nil, false
	}
	return c.buffer.Content()[:c.size], true
}

// appendedETag returns the ETag of an object to which content of an MD5 is appended: as that of a multipart upload, of what was there
// and what came, with the number of pieces.
func appendedETag(old string, sum []byte) (string, error) {
	const op = "vfs.Append"
	before, count, several := strings.Cut(old, "-")
	raw, err := hex.DecodeString(before)
	n := 1
	if err == nil && several {
		n, err = strconv.Atoi(count)
	}
	if err != nil {
		return "", core.E(op, core.Internal, fmt.Errorf("ETag %q", old))
	}
	if n++; n > MaxAppends {
		return "", core.E(op, core.TooLarge, errors.New("too many pieces"))
	}
	all := md5.Sum(append(raw, sum...))
	return hex.EncodeToString(all[:]) + "-" + strconv.Itoa(n), nil
}

// FullSum returns a checksum of all content of a version that Stat returned, of an algorithm whose checksums can be combined: one that
// is known of it or of all of its parts; else the content is read, with the customer's key where it takes one, for its CRC64NVME. Conflict: the version is not there any more.
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

// combineParts computes the checksum of a multipart object from those of its parts; InvalidPart where one has none.
func (f *FS) combineParts(ctx context.Context, o *core.ObjectInfo, a checksum.Algorithm) (core.Checksum, error) {
	all, size := checksum.Sum(a, nil), int64(0)
	for after := 0; size < o.Size; {
		parts, err := f.meta.Parts(ctx, o.List, after, partsPage)
		if err != nil {
			return core.Checksum{}, err
		}
		if len(parts) == 0 {
			return core.Checksum{}, core.E("vfs.FullSum", core.Conflict, errors.New("the parts are gone"))
		}
		for i := range parts {
			s, ok := find(parts[i].Sums, a)
			if !ok {
				return core.Checksum{}, core.E("vfs.FullSum", core.InvalidPart, fmt.Errorf("part %d has no %v", parts[i].Number, a))
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
