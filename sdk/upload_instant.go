package sdk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync"

	"orcas/internal/checksum"
)

// span is content that an upload may refer to: a part, or all of it.
type span struct {
	number       int // of the part; 0: all
	offset, size int64

	head  string // SHA-256 of its first HeadSize bytes, in hexadecimal
	sha   string // of all bytes
	sum   []byte // checksum of all bytes; nil if it is not known
	refer bool   // the server has it

	// The states of the hashes after the head. The SHA-256 of the whole begins with that of the head.
	headSHA, headSum hash.Hash
}

// hash reads the span, from where readHead has stopped, and computes its checksum with the algorithm a, unless that is
// None, and if sha is set its SHA-256.
func (s *span) hash(ctx context.Context, src *source, a Algorithm, sha bool) error {
	from := int64(0)
	if s.headSHA != nil {
		from = min(s.size, HeadSize)
	}
	sum, whole := s.headSum, s.headSHA
	if sum == nil && a != None {
		sum = checksum.New(a)
	}
	if whole == nil && sha {
		whole = sha256.New()
	}
	s.headSum, s.headSHA = nil, nil
	buf := pieces.Get().(*[64 << 10]byte)
	defer pieces.Put(buf)
	r := src.open(s.offset+from, s.size-from)
	for left := s.size - from; left > 0; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n, err := io.ReadFull(r, buf[:min(left, int64(len(buf)))])
		if err != nil {
			return src.shorter(err)
		}
		if sum != nil {
			sum.Write(buf[:n])
		}
		if whole != nil {
			whole.Write(buf[:n])
		}
		left -= int64(n)
	}
	if sum != nil {
		s.sum = sum.Sum(nil)
	}
	if whole != nil {
		s.sha = hex.EncodeToString(whole.Sum(nil))
	}
	return nil
}

// readHead computes the hash of the head.
func (s *span) readHead(src *source, a Algorithm) error {
	buf := pieces.Get().(*[64 << 10]byte)
	defer pieces.Put(buf)
	b := buf[:min(s.size, HeadSize)]
	if _, err := io.ReadFull(src.open(s.offset, int64(len(b))), b); err != nil {
		return src.shorter(err)
	}
	s.headSHA = sha256.New()
	s.headSHA.Write(b)
	s.head = hex.EncodeToString(s.headSHA.Sum(nil)) // does not change the state
	if a != None {
		s.headSum = checksum.New(a)
		s.headSum.Write(b)
	}
	return nil
}

// asks returns the level at which to ask about this upload. Content that is encrypted with a customer's key is never
// shared.
func (u *uploader) asks() RefLevel {
	if u.o.Encryption.CustomerKey != nil {
		return RefOff
	}
	return u.c.w.asks(u.bucket, u.level)
}

// decide asks the server which spans it has, as docs/instant.md describes it, and sets their refer. With FAST it first
// asks about all of them with the hash of their heads, and goes on with those that the server may have. With FULL it
// does the first step only for all of a large object, because most such objects were written in parts.
//
// An error that concerns only the questions leaves everything to be sent.
func (u *uploader) decide(ctx context.Context, src *source, spans []*span) error {
	level := u.asks()
	if level == RefOff {
		return nil
	}
	var heads, rest []*span
	for _, s := range spans {
		switch {
		case s.size == 0 || s.size > partSizeMax:
		case s.sha == "" && (level == RefFast || s.number == 0 && s.size > putMax):
			heads = append(heads, s)
		default:
			rest = append(rest, s)
		}
	}
	if len(heads) > 0 {
		likely, err := u.askHeads(ctx, src, heads)
		if err != nil {
			return u.sendsInstead(err)
		}
		rest = append(rest, likely...)
	}
	return u.askWhole(ctx, src, rest)
}

// askHeads returns the spans that the server may have. If the head of a span is all of it, the server has it.
func (u *uploader) askHeads(ctx context.Context, src *source, spans []*span) (likely []*span, err error) {
	if err := u.each(ctx, spans, func(_ context.Context, s *span) error { return s.readHead(src, u.sum) }); err != nil {
		return nil, err
	}
	ids := make([]ContentID, len(spans))
	for i, s := range spans {
		ids[i] = ContentID{Size: s.size, HeadSHA256: s.head}
	}
	states, err := u.c.FindContent(u.meter.control(ctx), u.bucket, ids, u.o.Encryption)
	if err != nil {
		return nil, err
	}
	for i, s := range spans {
		switch {
		case states[i] == ContentAbsent:
			s.headSHA, s.headSum = nil, nil
		case s.size <= HeadSize:
			s.sha, s.refer = s.head, states[i] == ContentPresent
			if s.headSum != nil {
				s.sum = s.headSum.Sum(nil)
			}
		default:
			likely = append(likely, s)
		}
	}
	return likely, nil
}

// askWhole asks about spans with the hash of all their bytes.
func (u *uploader) askWhole(ctx context.Context, src *source, spans []*span) error {
	if len(spans) == 0 {
		return nil
	}
	err := u.each(ctx, spans, func(ctx context.Context, s *span) error {
		if s.sha != "" {
			return nil
		}
		return s.hash(ctx, src, u.sum, true)
	})
	if err != nil {
		return err
	}
	ids := make([]ContentID, len(spans))
	for i, s := range spans {
		ids[i] = ContentID{Size: s.size, SHA256: s.sha}
	}
	states, err := u.c.FindContent(u.meter.control(ctx), u.bucket, ids, u.o.Encryption)
	if err != nil {
		return u.sendsInstead(err)
	}
	for i, s := range spans {
		s.refer = states[i] == ContentPresent
	}
	return nil
}

// each calls work for every span, several at the same time.
func (u *uploader) each(ctx context.Context, spans []*span, work func(context.Context, *span) error) error {
	var mu sync.Mutex
	next := 0
	return parallel(ctx, min(u.o.Parallel, len(spans)), func(ctx context.Context) error {
		for {
			mu.Lock()
			i := next
			next++
			mu.Unlock()
			if i >= len(spans) {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := work(ctx, spans[i]); err != nil {
				return err
			}
		}
	})
}
