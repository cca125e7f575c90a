package tree

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"orcas/internal/checksum"
	"orcas/sdk"
)

// verdict is the result of a comparison.
type verdict uint8

const (
	equal verdict = iota
	differs
	unknown // a request, or reading the file, is needed to know
)

// compare compares two entries of the same path with what their listings contain. The reason belongs to differs.
func (e *engine) compare(from, to *entry) (verdict, string) {
	o := e.options
	switch {
	case o.Always:
		return differs, "always"
	case from.size != to.size:
		return differs, "size"
	case o.SizeOnly:
		return equal, ""
	case e.from.remote() && e.to.remote() && from.etag != "" && from.etag == to.etag:
		return equal, ""
	case o.Checksum:
		return unknown, ""
	case from.modified <= to.modified:
		return equal, ""
	case e.from.remote() && e.to.remote():
		return differs, "newer"
	}
	return unknown, ""
}

// resolve finishes a comparison whose verdict is unknown.
func (e *engine) resolve(ctx context.Context, from, to *entry) (verdict, string, error) {
	if e.options.Checksum {
		same, err := e.sameContent(ctx, from, to)
		if err != nil || same {
			return equal, "", err
		}
		return differs, "checksum", nil
	}
	place, object, other := &e.to, to, from
	if e.from.remote() {
		place, object, other = &e.from, from, to
	}
	info, err := place.client.Head(ctx, place.bucket, place.prefix+object.path, &sdk.GetOptions{CustomerKey: e.customerKey(place)})
	if err != nil {
		return unknown, "", err
	}
	recorded := readAttributes(info.Metadata).modified
	if !recorded.IsZero() && sameTime(recorded, other.modified) {
		return equal, "", nil
	}
	return differs, "newer", nil
}

// customerKey returns the key with which the objects of a place are encrypted. Between buckets, only those of the target
// are.
func (e *engine) customerKey(p *Place) []byte {
	if p == &e.from && e.to.remote() {
		return nil
	}
	return e.options.Put.Encryption.CustomerKey
}

// sameTime compares a recorded time with that of a file. Whole seconds were recorded by programs that do not know more.
func sameTime(recorded time.Time, ns int64) bool {
	if recorded.Nanosecond() == 0 {
		return recorded.Unix() == time.Unix(0, ns).Unix()
	}
	return recorded.UnixNano() == ns
}

// sums are the checksums of some content that are known: the ETag if it is an MD5, and those of an Info.
type sums map[sdk.Algorithm]string // in hexadecimal for MD5, otherwise in Base64

// objectSums returns the checksums of an object that are of its whole content.
func (e *engine) objectSums(ctx context.Context, p *Place, object *entry) (sums, *sdk.Info, error) {
	info, err := p.client.Head(ctx, p.bucket, p.prefix+object.path, &sdk.GetOptions{VersionID: object.version, CustomerKey: e.customerKey(p)})
	if err != nil {
		return nil, nil, err
	}
	known := sums{}
	if info.ChecksumType != "COMPOSITE" {
		for a, v := range info.Checksums {
			if a.Valid() && !strings.Contains(v, "-") {
				known[a] = v
			}
		}
	}
	if isMD5(info.ETag) && info.Encryption.KMSKeyID == "" && info.Encryption.Algorithm != "aws:kms" {
		known[sdk.MD5] = info.ETag
	}
	return known, info, nil
}

// isMD5 reports whether an ETag has the form of an MD5.
func isMD5(etag string) bool {
	if len(etag) != 32 {
		return false
	}
	_, err := hex.DecodeString(etag)
	return err == nil
}

// sameContent compares the content of two files of the same size by checksums. It reads local files.
func (e *engine) sameContent(ctx context.Context, from, to *entry) (bool, error) {
	if e.from.remote() && e.to.remote() {
		return e.sameObjects(ctx, from, to)
	}
	place, object, local, name := &e.to, to, e.fromLocal, from
	if e.from.remote() {
		place, object, local, name = &e.from, from, e.toLocal, to
	}
	open := func() (io.ReadCloser, error) { return local.content(name) }
	if isMD5(object.etag) {
		got, err := sumsOf(open, []sdk.Algorithm{sdk.MD5})
		if err != nil {
			return false, err
		}
		if got[sdk.MD5] == object.etag {
			return true, nil
		}
	}
	known, info, err := e.objectSums(ctx, place, object)
	if err != nil {
		return false, err
	}
	for a, want := range known { // any one of them
		got, err := sumsOf(open, []sdk.Algorithm{a})
		return err == nil && got[a] == want, err
	}
	return e.sameParts(ctx, place, object, info, open)
}

// sameObjects compares two objects by a checksum that both have.
func (e *engine) sameObjects(ctx context.Context, from, to *entry) (bool, error) {
	a, _, err := e.objectSums(ctx, &e.from, from)
	if err != nil {
		return false, err
	}
	b, _, err := e.objectSums(ctx, &e.to, to)
	if err != nil {
		return false, err
	}
	for algorithm, sum := range a {
		if other, ok := b[algorithm]; ok {
			return sum == other, nil
		}
	}
	return false, nil // nothing to compare: the copy makes them equal
}

// sameParts compares a file with an object whose only checksum is an ETag of parts: the MD5 of the MD5s of all parts. The
// size of the parts is that of the first one.
func (e *engine) sameParts(ctx context.Context, place *Place, object *entry, info *sdk.Info, open func() (io.ReadCloser, error)) (bool, error) {
	hash, count, ok := strings.Cut(info.ETag, "-")
	if !ok || !isMD5(hash) {
		return false, nil
	}
	first, err := place.client.Get(ctx, place.bucket, place.prefix+object.path, &sdk.GetOptions{Part: 1, Unverified: true, CustomerKey: e.customerKey(place)})
	if err != nil {
		return false, err
	}
	partSize := first.Length
	_ = first.Close() // only its length is of interest
	if partSize <= 0 {
		return false, nil
	}
	f, err := open()
	if err != nil {
		return false, err
	}
	defer f.Close()
	all, n := checksum.New(sdk.MD5), 0
	for left := info.Size; left > 0; left -= partSize {
		part := checksum.New(sdk.MD5)
		if _, err := io.CopyN(part, f, min(partSize, left)); err != nil {
			return false, fmt.Errorf("the file became shorter: %w", err)
		}
		_, _ = all.Write(part.Sum(nil)) // hashes never fail
		n++
	}
	return fmt.Sprint(n) == count && hex.EncodeToString(all.Sum(nil)) == hash, nil
}

// sumsOf computes checksums of a file.
func sumsOf(open func() (io.ReadCloser, error), algorithms []sdk.Algorithm) (sums, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var hashes []hash.Hash
	var writers []io.Writer
	for _, a := range algorithms {
		h := checksum.New(a)
		hashes, writers = append(hashes, h), append(writers, h)
	}
	buf := copyBuffers.Get().(*[copyBufferSize]byte)
	defer copyBuffers.Put(buf)
	if _, err := io.CopyBuffer(io.MultiWriter(writers...), struct{ io.Reader }{f}, buf[:]); err != nil {
		return nil, err
	}
	got := sums{}
	for i, a := range algorithms {
		if got[a] = checksum.Encode(hashes[i].Sum(nil)); a == sdk.MD5 {
			got[a] = hex.EncodeToString(hashes[i].Sum(nil))
		}
	}
	return got, nil
}
