package sigv4

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzVerify passes arbitrary requests to Verify. Only the signatures of the examples are valid, nothing panics, and
// every error has a code.
func FuzzVerify(f *testing.F) {
	for _, e := range examples {
		r := e.request()
		f.Add(r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("X-Amz-Date"), r.Header.Get("X-Amz-Content-Sha256"))
	}
	presigned, _ := url.Parse(examplePresigned)
	f.Add("GET", presigned.Path, presigned.RawQuery, "", "", "")
	f.Add("GET", "/", "%", "AWS4-HMAC-SHA256 Credential=////,SignedHeaders=;,Signature=,", "0", "STREAMING")
	v := exampleVerifier()
	f.Fuzz(func(t *testing.T, method, path, query, authorization, date, payload string) {
		r := &http.Request{Method: method, Host: "examplebucket.s3.amazonaws.com", URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}}
		for name, value := range map[string]string{"Authorization": authorization, "X-Amz-Date": date, "X-Amz-Content-Sha256": payload} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		r.Header.Set("Range", "bytes=0-9")
		a, err := v.Verify(r)
		var e *Error
		switch {
		case err == nil && !strings.Contains(authorization+query, string(a.seed[:])):
			t.Fatal("accepted a signature that the request does not have")
		case errors.Is(err, ErrAnonymous):
			if authorization != "" || !a.Anonymous() {
				t.Fatal("not anonymous")
			}
		case err != nil && (!errors.As(err, &e) || e.Code == "" || a != nil):
			t.Fatalf("%v %v", a, err)
		}
	})
}

// FuzzBody decodes arbitrary bytes as a chunked body. Read must never return more content than announced, and must
// return io.EOF only after all of it.
func FuzzBody(f *testing.F) {
	const content = "a short piece of content, in chunks of ten bytes"
	for i, mode := range chunkedModes {
		_, _, raw := chunkedBody(f, mode, content, 10)
		f.Add(uint8(i), raw, 10)
	}
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte, piece int) {
		mode := chunkedModes[int(kind)%len(chunkedModes)]
		a, r, good := chunkedBody(t, mode, content, 10)
		r.Body = io.NopCloser(bytes.NewReader(raw))
		b, err := a.Body(r)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		buf := make([]byte, max(1, piece&0xff))
		for err == nil {
			var n int
			n, err = b.Read(buf)
			got = append(got, buf[:n]...)
		}
		var e *Error
		switch {
		case err == io.EOF && len(got) != len(content):
			t.Fatalf("io.EOF after %d bytes", len(got))
		case err == io.EOF && mode.signed() && string(got) != content:
			t.Fatalf("accepted %q, which was not signed", got)
		case err != io.EOF && (!errors.As(err, &e) || e.Code == "" || len(got) >= len(content)):
			t.Fatalf("error after %d bytes: %v", len(got), err)
		case err != io.EOF && bytes.Equal(raw, good):
			t.Fatal(err)
		}
	})
}

// FuzzQuery compares the canonical form of a query with the values that net/url parses from it, because the handler of
// a request must see the query that was signed.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"a=b&c", "a+b=%2B&&=x", "a=%zz", "x;y", "a=1&a=0&a", "%C3%BC=\xff", "X-Amz-SignedHeaders=a;b"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var s scratch
		ok := s.parseQuery(raw, &claim{})
		want, err := url.ParseQuery(raw)
		if strings.Contains(raw, querySignedHeaders) && strings.Contains(raw, ";") {
			return
		}
		if ok != (err == nil) {
			t.Fatalf("%q: valid is %v, but net/url returns the error %v", raw, ok, err)
		}
		if !ok {
			return
		}
		s.sortPairs()
		canonical := string(s.appendQuery(nil, ""))
		got, err := url.ParseQuery(canonical)
		if err != nil || strings.ContainsAny(canonical, "+;") {
			t.Fatalf("%q became %q: %v", raw, canonical, err)
		}
		for name := range want {
			if len(got[name]) != len(want[name]) {
				t.Fatalf("%q became %q", raw, canonical)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q became %q", raw, canonical)
		}
		var again scratch
		again.parseQuery(canonical, nil)
		again.sortPairs()
		if string(again.appendQuery(nil, "")) != canonical {
			t.Fatalf("the canonical form of %q is different", canonical)
		}
	})
}
