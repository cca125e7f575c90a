package sigv4

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

func benchRequest(b *testing.B) (*http.Request, *Signer, *Verifier) {
	now := time.Now()
	s := &Signer{AccessKey: "AKIDBENCH", SecretKey: "0123456789012345678901234567890123456789", Region: "us-east-1"}
	r, err := http.NewRequest("PUT", "http://127.0.0.1:9000/bucket/some/prefix/0123456789abcdef?x-id=PutObject", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	r.Header.Set("X-Amz-Checksum-Crc32", "AAAAAA==")
	r.Header.Set("X-Amz-Sdk-Checksum-Algorithm", "CRC32")
	r.Header.Set("User-Agent", "bench")
	s.Sign(r, emptySHA256, now)
	v := &Verifier{Region: "us-east-1", Now: func() time.Time { return now }, Lookup: func(context.Context, string, string) (Credential, error) {
		return Credential{SecretKey: s.SecretKey}, nil
	}}
	return r, s, v
}

func BenchmarkVerify(b *testing.B) {
	r, _, v := benchRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	r, s, _ := benchRequest(b)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		s.Sign(r, emptySHA256, now)
	}
}

func BenchmarkVerifyPresigned(b *testing.B) {
	r, s, v := benchRequest(b)
	r.Header = http.Header{}
	s.Presign(r, time.Hour, v.Now())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBody(b *testing.B) {
	content := make([]byte, 1<<20)
	for _, mode := range []PayloadMode{PayloadSHA256, PayloadUnsigned, PayloadSigned, PayloadUnsignedTrailer} {
		b.Run(mode.String(), func(b *testing.B) {
			r, s, v := benchRequest(b)
			raw := content
			if mode.Chunked() {
				s.SignChunked(r, bytes.NewReader(content), Chunked{Mode: mode, Length: int64(len(content))}, v.Now())
				raw, _ = io.ReadAll(r.Body)
			} else {
				hash := UnsignedPayload
				if mode == PayloadSHA256 {
					hash = "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"
				}
				s.Sign(r, hash, v.Now())
				r.ContentLength = int64(len(raw))
			}
			a, err := v.Verify(r)
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 64<<10)
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				r.Body = io.NopCloser(bytes.NewReader(raw))
				body, err := a.Body(r)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = body.Read(buf)
				}
				if err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}
