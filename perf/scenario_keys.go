package perf

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// prepared seeds the scenario's keys.
func (s *session) prepared() (*Contents, func(uint64) string, uint64, error) {
	size, keys := s.p.sizes[0], s.p.keys[0]
	c := s.contents(size)
	return c, seedName(size), uint64(keys), s.seed(c, keys, seedName(size))
}

func (s *session) head() error {
	c, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	res, err := s.load(&Load{Rate: s.p.rates[0], Duration: s.p.duration, Next: func(_ *Worker, n uint64) (Call, Expect) {
		return Call{Op: "head", Method: http.MethodHead, Path: s.path(name(scatter(n, int(keys))))},
			Expect{Status: http.StatusOK, Check: func(a *Answer) error {
				if a.Size != int64(c.size) {
					return fmt.Errorf("length %d, not %d", a.Size, c.size)
				}
				return nil
			}}
	}})
	if err == nil {
		s.add(res, "head", "", c.size)
	}
	return err
}

func (s *session) deletes() error {
	c, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	res, err := s.load(&Load{Rate: s.p.rates[0], Count: keys, Next: func(_ *Worker, n uint64) (Call, Expect) {
		return Call{Op: "delete", Method: http.MethodDelete, Path: s.path(name(n))}, Expect{Status: http.StatusNoContent}
	}})
	if err != nil {
		return err
	}
	s.add(res, "delete", "", c.size)
	return s.gone(name(0))
}

// gone fails where a key is still there.
func (s *session) gone(key string) error {
	_, err := s.once(Call{Method: http.MethodGet, Path: s.path(key)}, http.StatusNotFound)
	return err
}

// deleteBatch is a DeleteObjects.
func deleteBatch(bucket string, keys []string) Call {
	var b bytes.Buffer
	b.WriteString("<Delete><Quiet>true</Quiet>")
	for _, k := range keys {
		b.WriteString("<Object><Key>")
		_ = xml.EscapeText(&b, []byte(k)) // a buffer takes everything
		b.WriteString("</Key></Object>")
	}
	b.WriteString("</Delete>")
	call := Call{Op: "delete-batch", Method: http.MethodPost, Path: "/" + bucket, Query: "delete="}
	return withBody(call, b.Bytes())
}

// withBody gives call a body, with its SHA-256 and the Content-MD5 that some calls must have.
func withBody(call Call, body []byte) Call {
	sum, sha := md5.Sum(body), sha256.Sum256(body)
	call.Body, call.Hash = body, hex.EncodeToString(sha[:])
	call.Header = append(call.Header, Header{"Content-Md5", base64.StdEncoding.EncodeToString(sum[:])})
	return call
}

func (s *session) deleteBatches() error {
	const batch = 10
	c, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	res, err := s.load(&Load{Rate: s.p.rates[0], Count: keys / batch, Next: func(_ *Worker, n uint64) (Call, Expect) {
		var names []string
		for i := range uint64(batch) {
			names = append(names, s.prefix+name(n*batch+i))
		}
		call := deleteBatch(s.bucket, names)
		call.Keep = true
		return call, Expect{Status: http.StatusOK, Check: func(a *Answer) error {
			if bytes.Contains(a.Body, []byte("<Error>")) {
				return fmt.Errorf("not all keys were deleted: %s", describe(*a))
			}
			return nil
		}}
	}})
	if err != nil {
		return err
	}
	s.add(res, "delete-batch", "", c.size).Values = map[string]float64{"keys_per_request": batch}
	return s.gone(name(0))
}

func (s *session) copies() error {
	c, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	base := s.fresh()
	res, err := s.load(&Load{Rate: s.p.rates[0], Duration: s.p.duration, Next: func(_ *Worker, n uint64) (Call, Expect) {
		return Call{Op: "copy", Method: http.MethodPut, Path: s.path("copy/" + key(base+n)), Header: []Header{{"X-Amz-Copy-Source", s.path(name(n % keys))}}},
			Expect{Status: http.StatusOK}
	}})
	if err != nil {
		return err
	}
	s.add(res, "copy", "", c.size)
	call, want := s.get(c, "copy/"+key(base), 0)
	a, err := s.once(call, want.Status)
	if err == nil {
		err = want.mismatch(&a)
	}
	return err
}

func (s *session) tagging() error {
	_, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	const document = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
	put := withBody(Call{Op: "put-tagging", Method: http.MethodPut, Query: "tagging=", Keep: true}, []byte(document))
	put.Path = s.path(name(0))
	if err := s.serves(put); err != nil {
		return err
	}
	for _, op := range []string{"put-tagging", "get-tagging"} {
		res, err := s.load(&Load{Rate: s.p.rates[0], Duration: s.p.duration, Next: func(_ *Worker, n uint64) (Call, Expect) {
			call := put
			if op == "get-tagging" {
				call = Call{Op: op, Method: http.MethodGet, Query: "tagging=", Keep: true}
			}
			call.Path = s.path(name(n % keys))
			return call, Expect{Status: http.StatusOK}
		}})
		if err != nil {
			return err
		}
		s.add(res, op, "", s.p.sizes[0])
	}
	return nil
}

// serves tries a call out; ErrUnsupported where the server says that it does not know it.
func (s *session) serves(call Call) error {
	call.Keep = true
	a, err := once(s.ctx, s.target, call)
	if err != nil {
		return err
	}
	if a.Status == http.StatusNotImplemented || a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusBadRequest && !strings.Contains(string(a.Body), "Malformed") {
		return unsupported(fmt.Sprintf("%v: %s %s: %s", ErrUnsupported, call.Method, call.Query, describe(a)))
	}
	if a.Status/100 != 2 {
		return fmt.Errorf("%s %s: %s", call.Method, call.Query, describe(a))
	}
	return nil
}

// list grows a namespace and lists it at each size. Keys are f0..f9, each with m0000000.., each with ten keys.
func (s *session) list() error {
	c := s.contents(16)
	name := func(n uint64) string { return fmt.Sprintf("f%d/m%07d/%08d", n%10, n/100, n) }
	have := 0
	for _, keys := range s.p.keys {
		from := uint64(have)
		if err := s.seed(c, keys-have, func(n uint64) string { return name(from + n) }); err != nil {
			return err
		}
		have = keys
		s.out.SeedCount = keys
		if err := s.listAt(keys); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) listAt(keys int) error {
	root := "list-type=2&prefix=" + url.QueryEscape(s.prefix)
	for _, v := range []struct{ variant, query string }{
		{"first page", root},
		{"few prefixes", "delimiter=%2F&" + root},
		{"many prefixes", "delimiter=%2F&" + root + "f0%2F"},
	} {
		s.o.Progress.Step(fmt.Sprintf("%s of %d keys", v.variant, keys))
		res, err := s.load(&Load{Workers: 1, Count: uint64(s.p.turns), Script: true, Next: func(*Worker, uint64) (Call, Expect) {
			return Call{Op: "list", Method: http.MethodGet, Path: "/" + s.bucket, Query: v.query}, Expect{Status: http.StatusOK}
		}})
		if err != nil {
			return err
		}
		s.add(res, "list", v.variant, 0).Values = map[string]float64{"keys": float64(keys)}
	}
	s.o.Progress.Step(fmt.Sprintf("walk over %d keys", keys))
	return s.walk(root, keys)
}

// walk lists everything, page after page, and counts.
func (s *session) walk(query string, keys int) error {
	pages, found, last := (keys+999)/1000, 0, ""
	start := time.Now()
	res, err := s.load(&Load{Workers: 1, Count: uint64(pages), Script: true, Next: func(w *Worker, n uint64) (Call, Expect) {
		q := query
		if n > 0 {
			q = "continuation-token=" + url.QueryEscape(last) + "&" + query
		}
		return Call{Op: "list", Method: http.MethodGet, Path: "/" + s.bucket, Query: q, Keep: true},
			Expect{Status: http.StatusOK, Check: func(a *Answer) error {
				found += bytes.Count(a.Body, []byte("<Contents>"))
				last = element(a.Body, "NextContinuationToken")
				return nil
			}}
	}})
	if err != nil {
		return err
	}
	if found != keys || last != "" {
		return fmt.Errorf("a walk over %d keys found %d", keys, found)
	}
	took := time.Since(start).Seconds()
	s.add(res, "list", "walk", 0).Values = map[string]float64{"keys": float64(keys), "walk_sec": took, "keys_per_sec": float64(keys) / took}
	return nil
}

// element returns the text of an element of an XML document; "" where it is not there.
func element(body []byte, name string) string {
	_, after, _ := bytes.Cut(body, []byte("<"+name+">"))
	text, _, found := bytes.Cut(after, []byte("</"+name+">"))
	if !found {
		return ""
	}
	return unescape(string(text))
}

func unescape(s string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#34;", `"`, "&#39;", "'", "&amp;", "&").Replace(s)
}

// multipart uploads files in parts, each worker its own.
func (s *session) multipart() error {
	size, parts := s.p.sizes[0], s.p.keys[0]
	c := s.contents(size)
	for _, workers := range s.p.workers {
		base := s.fresh()
		s.o.Progress.Step(fmt.Sprintf("%d uploads at once", workers))
		uploads := &uploadScript{s: s, c: c, parts: parts, base: base}
		res, err := s.load(&Load{Workers: workers, Duration: s.p.duration, MaxBytes: s.p.maxBytes, Script: true, Next: uploads.next})
		if err != nil {
			return err
		}
		s.add(res, "all", "", size) // it alone has CPU time
		for _, op := range []string{"create", "part", "complete"} {
			if !res.Has(op) {
				continue // the time was too short
			}
			row := s.add(res, op, "", size)
			row.Values = map[string]float64{"parts": float64(parts)}
			if op == "complete" {
				row.Values["uploads_per_min"] = row.ThroughputRPS * 60
			}
		}
	}
	return nil
}

// uploadScript is what the workers of multipart do.
type uploadScript struct {
	s     *session
	c     *Contents
	parts int
	base  uint64
}

// upload is one upload of one worker.
type upload struct {
	number uint64
	id     string
	etags  []string
}

func (u *uploadScript) next(w *Worker, n uint64) (Call, Expect) {
	up, _ := w.State.(*upload)
	switch {
	case up == nil || !w.OK || len(up.etags) > u.parts: // the first, after a failure, or after a complete
		up = &upload{number: u.base + n}
		w.State = up
		return Call{Op: "create", Method: http.MethodPost, Path: u.path(up), Query: "uploads=", Keep: true}, Expect{Status: http.StatusOK}
	case up.id == "":
		up.id = element(w.Last.Body, "UploadId")
	default:
		up.etags = append(up.etags, w.Last.ETag)
	}
	if len(up.etags) < u.parts {
		body, hash := w.Body(u.c, up.number<<8+uint64(len(up.etags)))
		return Call{Op: "part", Method: http.MethodPut, Path: u.path(up), Query: "partNumber=" + strconv.Itoa(len(up.etags)+1) + "&uploadId=" + url.QueryEscape(up.id),
			Body: body, Hash: hash, Keep: true}, Expect{Status: http.StatusOK}
	}
	var b strings.Builder
	b.WriteString("<CompleteMultipartUpload>")
	for i, etag := range up.etags {
		fmt.Fprintf(&b, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, etag)
	}
	b.WriteString("</CompleteMultipartUpload>")
	up.etags = append(up.etags, "") // it is complete now
	return withBody(Call{Op: "complete", Method: http.MethodPost, Path: u.path(up), Query: "uploadId=" + url.QueryEscape(up.id), Keep: true}, []byte(b.String())),
		Expect{Status: http.StatusOK, Check: func(a *Answer) error {
			if element(a.Body, "ETag") == "" {
				return fmt.Errorf("not completed: %s", describe(*a))
			}
			return nil
		}}
}

func (u *uploadScript) path(up *upload) string { return u.s.path("upload-" + key(up.number)) }
