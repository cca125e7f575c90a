package sdk

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"orcas/internal/checksum"
)

// verifier compares the content of a download that arrives in ranges with what the server says about the object.
type verifier interface {
	// sum returns the algorithm of the sums of the ranges.
	sum() Algorithm
	// ordered reports whether add needs the content of a range, not only its sum.
	ordered() bool
	// add adds range n, from 1. It may wait until all earlier ranges were added.
	add(ctx context.Context, n int, size int64, sum, content []byte) error
	// finish reports, after all ranges were added, whether there was something to compare with. It returns ErrChecksum if
	// the content is another one.
	finish() (bool, error)
}

// chooseVerifier sets the verifier for the object: the sums of the ranges are combined if that is possible, because then
// their order does not matter.
func (d *downloader) chooseVerifier(ctx context.Context) error {
	a := fullSum(d.info)
	switch {
	case a.CanCombine():
		d.verifier = &combining{algorithm: a, want: d.info.Checksums[a], sums: make([]rangeSum, d.plan.count())}
		return nil
	case a != None:
		d.verifier = newInOrder(a, d.info.Checksums[a], false, []int64{d.info.Size})
		return nil
	}
	if i := d.info; isMD5Text(i.ETag) && hasMD5ETag(i) {
		sum, _ := hex.DecodeString(i.ETag) // it has the form
		d.verifier = newInOrder(MD5, encodeSum(sum), false, []int64{i.Size})
		return nil
	}
	parts, err := d.partSizes(ctx)
	if err != nil {
		return err
	}
	if d.verifier = d.ofParts(parts); d.verifier == nil {
		d.verifier = &combining{algorithm: CRC64NVME}
	}
	return nil
}

// ofParts returns the verifier for an object in parts of the given sizes, or nil if it has neither a checksum nor an ETag
// that can be compared.
func (d *downloader) ofParts(sizes []int64) verifier {
	if sizes == nil {
		return nil
	}
	for a, value := range d.info.Checksums {
		base, count, _ := strings.Cut(value, "-")
		if _, err := checksum.Decode(a, base); err == nil && (count == "" || count == strconv.Itoa(len(sizes))) {
			return newInOrder(a, base, true, sizes)
		}
	}
	base, count, _ := strings.Cut(d.info.ETag, "-")
	if !isMD5Text(base) || count != strconv.Itoa(len(sizes)) || !hasMD5ETag(d.info) {
		return nil
	}
	sum, _ := hex.DecodeString(base) // it has the form
	return newInOrder(MD5, encodeSum(sum), true, sizes)
}

// isMD5Text reports whether s is an MD5 in hexadecimal.
func isMD5Text(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == md5.Size
}

// hasMD5ETag reports whether the ETag of an object is made of MD5s: with other keys than the server's own it is not.
func hasMD5ETag(i *Info) bool {
	return (i.Encryption.Algorithm == "" || i.Encryption.Algorithm == "AES256") && i.Encryption.CustomerKey == nil
}

// partSizes returns the sizes of the parts of the object, or nil if they are unknown. It asks for the sizes of the first
// and the last part: nearly all uploads have parts of one size, except the last.
func (d *downloader) partSizes(ctx context.Context) ([]int64, error) {
	_, text, _ := strings.Cut(d.info.ETag, "-")
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 || count > partsMax {
		return nil, nil
	}
	o := d.options(0, 0)
	o.Part = 1
	part, err := d.headPart(ctx, o)
	if err != nil || part < 1 { // servers without part numbers
		return nil, ctx.Err()
	}
	sizes := make([]int64, count)
	left := d.info.Size
	for i := range sizes {
		sizes[i] = min(part, left)
		left -= sizes[i]
	}
	if left > 0 || sizes[count-1] == 0 {
		return d.unevenParts(ctx, count)
	}
	return sizes, nil
}

// headPart returns the size of a part in bytes.
func (d *downloader) headPart(ctx context.Context, o *GetOptions) (int64, error) {
	q, err := d.c.w.reading("Head", http.MethodHead, d.bucket, d.key, o)
	if err != nil {
		return 0, err
	}
	q.stream = true
	r, err := d.c.w.do(d.meter.control(ctx), q)
	if err != nil {
		return 0, err
	}
	return r.length, r.stream.Close()
}

// unevenParts asks for the size of every part.
func (d *downloader) unevenParts(ctx context.Context, count int) ([]int64, error) {
	sizes := make([]int64, count)
	left := d.info.Size
	for i := range sizes {
		o := d.options(0, 0)
		o.Part = i + 1
		n, err := d.headPart(ctx, o)
		if err != nil || n < 1 {
			return nil, ctx.Err()
		}
		sizes[i] = n
		left -= n
	}
	if left != 0 {
		return nil, nil
	}
	return sizes, nil
}

// combining combines the CRCs of ranges into that of the content.
type combining struct {
	algorithm Algorithm
	want      string // "": there is nothing to compare with

	mu   sync.Mutex
	sums []rangeSum // guarded by mu
}

type rangeSum struct {
	sum  []byte
	size int64
}

func (c *combining) sum() Algorithm { return c.algorithm }
func (c *combining) ordered() bool  { return false }

func (c *combining) add(_ context.Context, n int, size int64, sum, _ []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want != "" {
		c.sums[n-1] = rangeSum{sum, size}
	}
	return nil
}

func (c *combining) finish() (bool, error) {
	if c.want == "" {
		return false, nil
	}
	var whole []byte
	for i, s := range c.sums {
		if i == 0 {
			whole = s.sum
			continue
		}
		var err error
		if whole, err = checksum.Combine(c.algorithm, whole, s.sum, s.size); err != nil {
			return false, err
		}
	}
	return true, compareSum(c.algorithm, c.want, encodeSum(whole))
}

func compareSum(a Algorithm, want, got string) error {
	if got != want {
		return failed(ErrChecksum, "the content has the %s %s, expected %s", a, got, want)
	}
	return nil
}

// inOrder hashes the content in the order of its ranges: all of it, or each part, and then the hashes of the parts.
type inOrder struct {
	algorithm Algorithm
	want      string
	composite bool
	parts     []int64 // sizes of the parts that are not complete yet

	mu      sync.Mutex // guards the fields below, and parts
	turn    int        // the number of the next range
	waiting map[int]chan struct{}
	hash    hash.Hash
	left    int64     // bytes of the current part
	whole   hash.Hash // of the hashes of the parts
}

func newInOrder(a Algorithm, want string, composite bool, parts []int64) *inOrder {
	return &inOrder{algorithm: a, want: want, composite: composite, parts: parts, turn: 1, waiting: map[int]chan struct{}{},
		hash: checksum.New(a), left: parts[0], whole: checksum.New(a)}
}

// sum returns the algorithm for the sums of ranges in the state file. They are not those of the object.
func (v *inOrder) sum() Algorithm { return CRC64NVME }
func (v *inOrder) ordered() bool  { return true }

func (v *inOrder) add(ctx context.Context, n int, _ int64, _, content []byte) error {
	v.mu.Lock()
	if v.turn != n {
		ready := make(chan struct{})
		v.waiting[n] = ready
		v.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		v.mu.Lock()
	}
	defer v.mu.Unlock()
	for len(content) > 0 && len(v.parts) > 0 {
		b := content[:min(int64(len(content)), v.left)]
		v.hash.Write(b)
		content, v.left = content[len(b):], v.left-int64(len(b))
		if v.left == 0 {
			v.endPart()
		}
	}
	v.turn++
	if ready := v.waiting[v.turn]; ready != nil {
		delete(v.waiting, v.turn)
		close(ready)
	}
	return nil
}

// endPart adds the hash of a part to that of the whole. The caller holds the lock.
func (v *inOrder) endPart() {
	if v.composite {
		v.whole.Write(v.hash.Sum(nil))
		v.hash.Reset()
	}
	if v.parts = v.parts[1:]; len(v.parts) > 0 {
		v.left = v.parts[0]
	}
}

func (v *inOrder) finish() (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.parts) > 0 {
		return false, fmt.Errorf("sdk: %d parts of the object were not read", len(v.parts))
	}
	sum := v.hash
	if v.composite {
		sum = v.whole
	}
	return true, compareSum(v.algorithm, v.want, encodeSum(sum.Sum(nil)))
}
