package sdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"

	"orcas/internal/checksum"
)

// multipart sends the content in parts.
func (u *uploader) multipart(ctx context.Context) (*Written, error) {
	if err := u.checkConditions(ctx); err != nil {
		return nil, err
	}
	w, err := u.resume(ctx)
	if w != nil || err != nil {
		return w, err
	}
	if w, err = u.decideParts(ctx); w != nil || err != nil {
		return w, err
	}
	if u.id == "" {
		if err := u.create(ctx); err != nil {
			return nil, err
		}
	}
	if err = u.sendParts(ctx); err == nil {
		w, err = u.complete(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, u.giveUp(ctx, err))
	}
	if u.state != nil {
		return w, os.Remove(u.o.StateFile)
	}
	return w, nil
}

// checkConditions returns the error that the end of the upload would return, before everything is sent in vain. The
// server checks the conditions again.
func (u *uploader) checkConditions(ctx context.Context) error {
	if u.o.IfMatch == "" && u.o.IfNoneMatch == "" {
		return nil
	}
	info, err := u.c.Head(u.meter.control(ctx), u.bucket, u.key, &GetOptions{CustomerKey: u.o.Encryption.CustomerKey})
	unmet := func(text string) error {
		return &Error{Op: "Upload", Bucket: u.bucket, Key: u.key, Err: failed(ErrPreconditionFailed, "%s", text)}
	}
	switch {
	case errors.Is(err, ErrNoSuchBucket):
		return err
	case errors.Is(err, ErrNoSuchKey) && u.o.IfMatch != "":
		return unmet("the object does not exist")
	case err != nil: // also if the caller may not read
		return nil
	case u.o.IfNoneMatch == "*":
		return unmet("the object exists")
	case u.o.IfMatch != "" && u.o.IfMatch != "*" && unquote(u.o.IfMatch) != info.ETag:
		return unmet("the object has the ETag " + info.ETag)
	}
	return nil
}

// decideParts finds out what the server has: all of the content, to which the object then refers, or parts of it.
func (u *uploader) decideParts(ctx context.Context) (*Written, error) {
	if u.src.at == nil || u.asks() == RefOff {
		return nil, nil
	}
	var spans []*span
	whole := &span{size: u.src.size, sha: u.o.SHA256}
	if u.id == "" {
		spans = append(spans, whole)
	}
	u.spans = map[int]*span{}
	for n := 1; n <= u.plan.count(); n++ {
		if _, done := u.listed[n]; done {
			continue
		}
		s := &span{number: n}
		s.offset, s.size = u.plan.part(n)
		spans = append(spans, s)
		u.spans[n] = s
	}
	if err := u.decide(ctx, u.src, spans); err != nil {
		return nil, err
	}
	if !whole.refer {
		return nil, nil
	}
	if err := u.src.unchanged(); err != nil {
		return nil, err
	}
	return u.referWhole(ctx, whole)
}

// create begins the upload, and records that it did.
func (u *uploader) create(ctx context.Context) (err error) {
	o := u.o.PutOptions
	o.Checksum = u.sum
	if u.id, err = u.c.CreateUpload(u.meter.control(ctx), u.bucket, u.key, &o); err != nil {
		return err
	}
	if u.o.StateFile == "" {
		return nil
	}
	s := u.newState()
	s.UploadID = u.id
	if err := s.save(u.o.StateFile); err != nil { // nobody would find this upload
		return errors.Join(err, u.giveUp(ctx, err))
	}
	u.state = newStateKeeper(u.o.StateFile, s)
	return nil
}

// giveUp handles an upload that has failed with err: its state is written, or it is aborted, if there is no state
// file or the upload can never succeed.
func (u *uploader) giveUp(ctx context.Context, err error) error {
	hopeless := errors.Is(err, ErrPreconditionFailed) || errors.Is(err, ErrChecksum) || errors.Is(err, ErrInvalidPart) ||
		errors.Is(err, ErrNoSuchUpload) || errors.Is(err, ErrSourceChanged) || errors.Is(err, ErrNoSuchBucket)
	if u.state != nil && !hopeless {
		return u.state.save()
	}
	// The caller may have ended its context, which is no reason to leave parts behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = u.c.AbortUpload(u.meter.control(ctx), u.bucket, u.key, u.id) // the first error is the one that counts
	if u.state != nil {
		return os.Remove(u.o.StateFile)
	}
	return nil
}

// uploadedPart is a part to send.
type uploadedPart struct {
	number       int
	offset, size int64
	data         []byte // nil: read it from the source
	release      func() // returns the buffer of data
}

// sendParts sends all parts, several at the same time.
func (u *uploader) sendParts(ctx context.Context) error {
	workers := u.o.Parallel
	if u.src.at != nil {
		workers = min(workers, u.plan.count())
	} else {
		workers = int(max(1, min(int64(workers), streamBuffersMax/u.plan.partSize)))
	}
	return parallel(ctx, workers, func(ctx context.Context) error {
		for {
			p, err := u.nextPart(ctx)
			if p == nil || err != nil {
				return err
			}
			err = u.sendPart(ctx, p)
			p.release()
			if err != nil {
				return err
			}
		}
	})
}

// nextPart returns the next part, or nil after the last one.
func (u *uploader) nextPart(ctx context.Context) (*uploadedPart, error) {
	u.next.Lock()
	defer u.next.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if u.next.done {
		return nil, nil
	}
	p := &uploadedPart{number: u.next.number + 1, release: func() {}}
	if u.plan.size >= 0 {
		if p.number > u.plan.count() {
			u.next.done = true
			if u.src.at == nil {
				return nil, u.src.atEnd()
			}
			return nil, nil
		}
		p.offset, p.size = u.plan.part(p.number)
	} else {
		p.size = streamPart(p.number, u.plan.partSize)
	}
	u.next.number++
	if u.src.at != nil {
		return p, nil
	}
	p.data, p.release = u.c.w.buffer(p.size)
	n, err := io.ReadFull(u.src.reader, p.data)
	switch {
	case err != nil && u.plan.size < 0 && (err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)):
		u.next.done = true
		p.data, p.size = p.data[:n], int64(n)
		if n == 0 {
			p.release()
			return nil, nil
		}
	case err != nil:
		p.release()
		return nil, u.src.shorter(err)
	}
	if p.number > partsMax {
		p.release()
		return nil, failed(ErrInvalidArgument, "the source is too large for %d parts: set UploadOptions.Size", partsMax)
	}
	return p, nil
}

// buffer returns a buffer of n bytes, and a function that must be called when it is not used any more.
func (w *wire) buffer(n int64) ([]byte, func()) {
	if n > partSizeDefault {
		return make([]byte, n), func() {}
	}
	b, _ := w.buffers.Get().(*[partSizeDefault]byte)
	if b == nil {
		b = new([partSizeDefault]byte)
	}
	return b[:n], func() { w.buffers.Put(b) }
}

// sendPart makes sure that the server has a part: it has it from an earlier attempt, or can refer to it, or gets it.
func (u *uploader) sendPart(ctx context.Context, p *uploadedPart) error {
	if had, listed := u.listed[p.number]; listed {
		if s := u.known.part(p.number); s != nil && s.Sum != "" && u.src.id.Path != "" && had.Size == p.size && s.Sum == had.Checksums[u.sum] {
			return u.resumed(p, had) // the file has not changed since the sum was computed
		}
	}
	if s := u.spans[p.number]; s != nil && s.refer {
		if done, err := u.referPart(ctx, p, s); done || err != nil {
			return err
		}
	}
	body, err := u.read(ctx, p)
	if err != nil {
		return err
	}
	if had, listed := u.listed[p.number]; listed && had.Size == p.size && body.matches(&had, u.sum) {
		return u.resumed(p, had)
	}
	if u.src.at == nil {
		if done, err := u.referStreamed(ctx, p, body); done || err != nil {
			return err
		}
	}
	part, f := u.meter.part(ctx)
	q, err := uploadCall("UploadPart", http.MethodPut, u.bucket, u.key, u.id, p.number)
	if err != nil {
		return err
	}
	if err := customerKey(q.header, customerPrefix, u.o.Encryption.CustomerKey, u.c.w.secure); err != nil {
		return q.localError(err)
	}
	q.body = partBody(body.reader, 0, p.size, body.sha)
	if u.sum != None {
		set(q.header, u.sum.HeaderKey(), encodeSum(body.sum))
	} else {
		set(q.header, "Content-Md5", base64.StdEncoding.EncodeToString(body.sum))
		q.body.md5 = true
	}
	done, err := u.c.w.part(part, q, p.number, p.size, u.sum)
	if errors.Is(err, ErrChecksum) {
		if changed := u.src.unchanged(); changed != nil {
			return changed
		}
	}
	if err != nil {
		return err
	}
	f.complete(p.size)
	u.record(done, body.sum)
	return nil
}

// resumed takes over a part that the server has from an earlier attempt.
func (u *uploader) resumed(p *uploadedPart, had Part) error {
	u.meter.resume(p.size)
	sum, err := checksum.Decode(u.sum, had.Checksums[u.sum])
	if err != nil { // compared with its ETag
		sum = nil
	}
	u.record(had, sum)
	return nil
}

// partContent is the content of a part, and what is known about it.
type partContent struct {
	reader io.ReadSeeker
	sum    []byte // its checksum, or the MD5 if the upload has none
	sha    string
}

// read reads a part and computes its checksum. Parts that are too large for memory are read again when they are sent.
func (u *uploader) read(ctx context.Context, p *uploadedPart) (*partContent, error) {
	a := u.sum
	if a == None {
		a = MD5
	}
	if p.data == nil && p.size <= partBufferMax {
		p.data, p.release = u.c.w.buffer(p.size)
		if _, err := io.ReadFull(u.src.open(p.offset, p.size), p.data); err != nil {
			return nil, u.src.shorter(err)
		}
	}
	if p.data != nil {
		return &partContent{reader: bytes.NewReader(p.data), sum: checksum.Sum(a, p.data)}, nil
	}
	s := span{number: p.number, offset: p.offset, size: p.size}
	if err := s.hash(ctx, u.src, a, false); err != nil {
		return nil, err
	}
	return &partContent{reader: u.src.open(p.offset, p.size), sum: s.sum}, nil
}

// matches reports whether a part that the server has is this content.
func (c *partContent) matches(had *Part, a Algorithm) bool {
	if a != None && had.Checksums[a] != "" {
		return had.Checksums[a] == encodeSum(c.sum)
	}
	return a == None && had.ETag == hex.EncodeToString(c.sum)
}

// referPart refers to a part. It returns false and no error if the part has to be sent.
func (u *uploader) referPart(ctx context.Context, p *uploadedPart, s *span) (bool, error) {
	o := &PartOptions{}
	if s.sum != nil && u.sum != None {
		o.Checksum, o.ChecksumValue = u.sum, encodeSum(s.sum)
	}
	part, err := u.c.ReferPart(u.meter.control(ctx), u.bucket, u.key, u.id, p.number, p.size, s.sha, o)
	if err != nil {
		return false, u.sendsInstead(err)
	}
	u.meter.refer(p.size)
	u.record(part, s.sum)
	return true, nil
}

// referStreamed does for a part in memory what decide does for all parts of a file.
func (u *uploader) referStreamed(ctx context.Context, p *uploadedPart, body *partContent) (bool, error) {
	s := &span{number: p.number, size: p.size}
	memory := &source{at: bytes.NewReader(p.data), size: p.size}
	if err := u.decide(ctx, memory, []*span{s}); err != nil {
		return false, err
	}
	body.sha = s.sha
	if !s.refer {
		return false, nil
	}
	if s.sum == nil {
		s.sum = body.sum
	}
	return u.referPart(ctx, p, s)
}

// record adds a part that the server has.
func (u *uploader) record(p Part, sum []byte) {
	if sum != nil && u.sum != None {
		p.Checksums = Checksums{u.sum: encodeSum(sum)}
	}
	u.mu.Lock()
	for len(u.parts) < p.Number {
		u.parts = append(u.parts, Part{})
	}
	u.parts[p.Number-1] = p
	u.mu.Unlock()
	text := ""
	if sum != nil && u.sum != None {
		text = encodeSum(sum)
	}
	u.state.add(statePart{Number: p.Number, ETag: p.ETag, Sum: text})
}

// complete makes the parts an object.
func (u *uploader) complete(ctx context.Context) (*Written, error) {
	if err := u.src.unchanged(); err != nil {
		return nil, err
	}
	o := &CompleteOptions{Conditions: u.o.Conditions, CustomerKey: u.o.Encryption.CustomerKey}
	for i := range u.parts {
		o.Size += u.parts[i].Size
	}
	sum, err := u.wholeSum()
	if err != nil {
		return nil, err
	}
	if u.sum != None && u.sum.CanCombine() {
		o.Checksum, o.ChecksumValue = u.sum, sum
	}
	if u.state != nil {
		_ = u.state.save() // costs only work if it fails: if the program ends before it removes the file, wasCompleted needs all parts
	}
	ctx = u.meter.control(ctx)
	w, err := u.c.CompleteUpload(ctx, u.bucket, u.key, u.id, u.parts, o)
	var e *Error
	if errors.Is(err, ErrNoSuchUpload) && errors.As(err, &e) && e.Attempts > 1 { // the response to an earlier attempt was lost
		if w, _ := u.completed(ctx, u.parts); w != nil {
			return w, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if got := w.Checksums[u.sum]; u.sum != None && got != "" && baseSum(got) != baseSum(sum) {
		return nil, &Error{Op: "Upload", Bucket: u.bucket, Key: u.key, Uncertain: true,
			Err: failed(ErrChecksum, "the object has the %s %s, expected %s", u.sum, got, sum)}
	}
	w.Checksums = maps.Clone(w.Checksums)
	return w, nil
}

// wholeSum returns the checksum of the object from those of its parts, or "". It returns ErrChecksum if the caller expects
// another one.
func (u *uploader) wholeSum() (string, error) {
	if u.sum == None {
		return "", nil
	}
	var whole []byte
	for i := range u.parts {
		p := &u.parts[i]
		sum, err := checksum.Decode(u.sum, p.Checksums[u.sum])
		if err != nil {
			return "", nil // the server keeps the sums of its parts to itself
		}
		switch {
		case !u.sum.CanCombine():
			whole = append(whole, sum...)
		case i == 0:
			whole = sum
		default:
			if whole, err = checksum.Combine(u.sum, whole, sum, p.Size); err != nil {
				return "", err
			}
		}
	}
	if !u.sum.CanCombine() {
		return encodeSum(checksum.Sum(u.sum, whole)), nil
	}
	if want := u.o.ChecksumValue; want != "" && want != encodeSum(whole) {
		return "", &Error{Op: "Upload", Bucket: u.bucket, Key: u.key,
			Err: failed(ErrChecksum, "the content has the %s %s, and UploadOptions has %s", u.sum, encodeSum(whole), want)}
	}
	return encodeSum(whole), nil
}

func encodeSum(sum []byte) string { return checksum.Encode(sum) }
