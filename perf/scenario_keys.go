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

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// prepared seeds the scenario's keys.
func (s *session) prepared() (*Contents, func(uint64) string, uint64, error) {
	size, keys := s.p.sizes[0], s.p.keys[0]
	c := s.contents(size)
	return c, seedName(size), uint64(keys), s.seed(c, keys, seedName(size))
}

func runHead(s *session) error {
	c, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	res, err := s.load(&Load{Rate: s.p.rates[0], Duration: s.p.duration, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
		return loadgen.Request{Op: "head", Method: http.MethodHead, Path: s.path(name(scatter(n, int(keys))))},
			Expect{Status: http.StatusOK, Check: func(a *loadgen.Reply) error {
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

func runDeletes(s *session) error {
	c, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	res, err := s.load(&Load{Rate: s.p.rates[0], Count: keys, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
		return loadgen.Request{Op: "delete", Method: http.MethodDelete, Path: s.path(name(n))}, Expect{Status: http.StatusNoContent}
	}})
	if err != nil {
		return err
	}
	s.add(res, "delete", "", c.size)
	return s.gone(name(0))
}

// gone returns an error if a key still exists.
func (s *session) gone(key string) error {
	_, err := s.once(loadgen.Request{Method: http.MethodGet, Path: s.path(key)}, http.StatusNotFound)
	return err
}

// deleteBatch returns a DeleteObjects request.
func deleteBatch(bucket string, keys []string) loadgen.Request {
	var b bytes.Buffer
	b.WriteString("<Delete><Quiet>true</Quiet>")
	for _, k := range keys {
		b.WriteString("<Object><Key>")
		_ = xml.EscapeText(&b, []byte(k)) // writing to a buffer never fails
		b.WriteString("</Key></Object>")
	}
	b.WriteString("</Delete>")
	call := loadgen.Request{Op: "delete-batch", Method: http.MethodPost, Path: "/" + bucket, Query: "delete="}
	return withBody(call, b.Bytes())
}

// withBody adds a body to call, with its SHA-256 and the Content-MD5 that some calls require.
func withBody(call loadgen.Request, body []byte) loadgen.Request {
	sum, sha := md5.Sum(body), sha256.Sum256(body)
	call.Body, call.Hash = body, hex.EncodeToString(sha[:])
	call.Header = append(call.Header, loadgen.Header{Name: "Content-Md5", Value: base64.StdEncoding.EncodeToString(sum[:])})
	return call
}

func runDeleteBatches(s *session) error {
	const batch = 10
	c, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	res, err := s.load(&Load{Rate: s.p.rates[0], Count: keys / batch, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
		var names []string
		for i := range uint64(batch) {
			names = append(names, s.prefix+name(n*batch+i))
		}
		call := deleteBatch(s.bucket, names)
		call.Keep = true
		return call, Expect{Status: http.StatusOK, Check: func(a *loadgen.Reply) error {
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

func runCopies(s *session) error {
	c, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	base := s.fresh()
	res, err := s.load(&Load{Rate: s.p.rates[0], Duration: s.p.duration, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
		return loadgen.Request{Op: "copy", Method: http.MethodPut, Path: s.path("copy/" + key(base+n)), Header: []loadgen.Header{{Name: "X-Amz-Copy-Source", Value: s.path(name(n % keys))}}},
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

func runTagging(s *session) error {
	_, name, keys, err := s.prepared()
	if err != nil {
		return err
	}
	const document = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
	put := withBody(loadgen.Request{Op: "put-tagging", Method: http.MethodPut, Query: "tagging=", Keep: true}, []byte(document))
	put.Path = s.path(name(0))
	if err := s.serves(put); err != nil {
		return err
	}
	for _, op := range []string{"put-tagging", "get-tagging"} {
		res, err := s.load(&Load{Rate: s.p.rates[0], Duration: s.p.duration, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			call := put
			if op == "get-tagging" {
				call = loadgen.Request{Op: op, Method: http.MethodGet, Query: "tagging=", Keep: true}
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

// serves tries a call. It returns ErrUnsupported if the server does not support it.
func (s *session) serves(call loadgen.Request) error {
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

// runList grows a namespace and lists it at each size. The top level is f0..f9, each with m0000000.., each with ten
// keys.
func runList(s *session) error {
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
		res, err := s.load(&Load{Workers: 1, Count: uint64(s.p.turns), Script: true, Next: func(*Worker, uint64) (loadgen.Request, Expect) {
			return loadgen.Request{Op: "list", Method: http.MethodGet, Path: "/" + s.bucket, Query: v.query}, Expect{Status: http.StatusOK}
		}})
		if err != nil {
			return err
		}
		s.add(res, "list", v.variant, 0).Values = map[string]float64{"keys": float64(keys)}
		if err := s.nullPage(v.variant, v.query, keys); err != nil {
			return err
		}
	}
	s.o.Progress.Step(fmt.Sprintf("walk over %d keys", keys))
	return s.walk(root, keys)
}

// nullPage sends the null server the same number of requests, for as many bytes as a page of the listing has.
func (s *session) nullPage(variant, query string, keys int) error {
	with, err := s.withNull()
	if err != nil || !with {
		return err
	}
	page, err := s.once(loadgen.Request{Method: http.MethodGet, Path: "/" + s.bucket, Query: query}, http.StatusOK)
	if err != nil {
		return err
	}
	l := s.ofNull(s.nullLoad(http.MethodGet, len(page.Body), 1, 0))
	l.Count = uint64(s.p.turns)
	res, err := s.load(l)
	if err != nil {
		return err
	}
	row := s.add(res, "get", result.NullVariant(variant), 0)
	row.Operation, row.Values = "list", map[string]float64{"keys": float64(keys), "page_bytes": float64(len(page.Body))}
	return nil
}

// walk lists all keys page by page, and returns an error if their number is not keys.
func (s *session) walk(query string, keys int) error {
	pages, found, last := (keys+999)/1000, 0, ""
	start := time.Now()
	res, err := s.load(&Load{Workers: 1, Count: uint64(pages), Script: true, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) {
		q := query
		if n > 0 {
			q = "continuation-token=" + url.QueryEscape(last) + "&" + query
		}
		return loadgen.Request{Op: "list", Method: http.MethodGet, Path: "/" + s.bucket, Query: q, Keep: true},
			Expect{Status: http.StatusOK, Check: func(a *loadgen.Reply) error {
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

// element returns the text of an element of an XML document, or "" if there is none.
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

// runMultipart uploads files in parts; each worker uploads files of its own. An upload that has begun is completed:
// with many workers, all of them are in their first upload for a long time, and a load that ended before that would
// have sent bytes but completed no uploads.
func runMultipart(s *session) error {
	size, parts := s.p.sizes[0], s.p.parts
	with, err := s.withNull()
	if err != nil {
		return err
	}
	c := s.contents(size)
	for _, workers := range s.p.workers {
		base := s.fresh()
		s.o.Progress.Step(fmt.Sprintf("%d concurrent uploads", workers))
		uploads := &uploadScript{s: s, c: c, parts: parts, base: base}
		res, err := s.load(&Load{Workers: workers, Duration: s.p.duration, MaxBytes: s.p.maxBytes, Script: true, Next: uploads.next, Unfinished: uploads.unfinished})
		if err != nil {
			return err
		}
		s.add(res, "all", "", size) // only this row has CPU times
		for _, op := range []string{"create", "part", "complete"} {
			if !res.Has(op) {
				continue // the load was too short
			}
			row := s.add(res, op, "", size)
			row.Values = map[string]float64{"parts": float64(parts)}
			if op == "complete" {
				row.Values["uploads_per_min"] = row.ThroughputRPS * 60
			}
		}
		if with {
			l := s.ofNull(s.nullLoad(http.MethodPut, size, workers, s.p.duration/2))
			if res, err = s.load(l); err != nil {
				return err
			}
			s.add(res, "part", "null", size)
		}
	}
	return nil
}

// uploadScript generates the requests of runMultipart.
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

func (u *uploadScript) next(w *Worker, n uint64) (loadgen.Request, Expect) {
	up, _ := w.State.(*upload)
	switch {
	case up == nil || !w.OK || len(up.etags) > u.parts: // first request, or after a failure or a complete
		up = &upload{number: u.base + n}
		w.State = up
		return loadgen.Request{Op: "create", Method: http.MethodPost, Path: u.path(up), Query: "uploads=", Keep: true}, Expect{Status: http.StatusOK}
	case up.id == "":
		up.id = element(w.Last.Body, "UploadId")
	default:
		up.etags = append(up.etags, w.Last.ETag)
	}
	if len(up.etags) < u.parts {
		body, hash := w.Body(u.c, up.number<<8+uint64(len(up.etags)))
		return loadgen.Request{Op: "part", Method: http.MethodPut, Path: u.path(up), Query: "partNumber=" + strconv.Itoa(len(up.etags)+1) + "&uploadId=" + url.QueryEscape(up.id),
			Body: body, Hash: hash, Keep: true}, Expect{Status: http.StatusOK}
	}
	var b strings.Builder
	b.WriteString("<CompleteMultipartUpload>")
	for i, etag := range up.etags {
		fmt.Fprintf(&b, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, etag)
	}
	b.WriteString("</CompleteMultipartUpload>")
	up.etags = append(up.etags, "") // marks the upload as complete
	return withBody(loadgen.Request{Op: "complete", Method: http.MethodPost, Path: u.path(up), Query: "uploadId=" + url.QueryEscape(up.id), Keep: true}, []byte(b.String())),
		Expect{Status: http.StatusOK, Check: func(a *loadgen.Reply) error {
			if element(a.Body, "ETag") == "" {
				return fmt.Errorf("not completed: %s", describe(*a))
			}
			return nil
		}}
}

// unfinished reports whether a worker's upload has begun and is not yet complete.
func (u *uploadScript) unfinished(w *Worker) bool {
	up, _ := w.State.(*upload)
	return up != nil && w.OK && len(up.etags) <= u.parts
}

func (u *uploadScript) path(up *upload) string { return u.s.path("upload-" + key(up.number)) }
