package console

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"orcas/gate/session"
)

const (
	maxForm    = 8 << 20 // bytes of the form
	maxListing = 8 << 20 // bytes of a page of a listing
	errorsFile = "ERRORS.txt"
	maxErrors  = 1 << 20 // bytes of errorsFile
)

// zip sends objects as a ZIP archive, which is made while it is sent. The form has the fields session (the second token),
// bucket, base (the prefix that is cut off the names), name (of the archive), key (any number) and prefix (any number; all
// keys below it). All values except the token are percent-encoded, because forms change line breaks.
//
// Each object is a request of its own to S3, so the gate decides about each of them. An object that cannot be read is
// named in the file ERRORS.txt at the end of the archive. Nothing is compressed: most large objects already are, and a
// core would compress less than a network can send.
func (h *Handler) zip(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, errors.New("the form cannot be read, or is too large: choose fewer objects, or a folder"))
		return
	}
	if _, err := h.o.Sessions.AuthenticateForm(r, r.PostForm.Get(session.Field)); err != nil {
		session.Refuse(w, err)
		return
	}
	values := map[string][]string{}
	for _, name := range []string{"bucket", "base", "name", "key", "prefix"} {
		for _, v := range r.PostForm[name] {
			plain, err := url.PathUnescape(v)
			if err != nil {
				refuse(w, http.StatusBadRequest, fmt.Errorf("the field %s is not percent-encoded", name))
				return
			}
			values[name] = append(values[name], plain)
		}
	}
	first := func(name string) string { return append(values[name], "")[0] }
	a := &archive{
		h: h, ctx: r.Context(), outer: w, request: r, second: r.PostForm.Get(session.Field), bucket: first("bucket"), base: first("base"),
	}
	if a.bucket == "" || strings.Contains(a.bucket, "/") || len(values["key"])+len(values["prefix"]) == 0 {
		refuse(w, http.StatusBadRequest, errors.New("choose at least one object"))
		return
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", attachment(first("name")))
	w.Header().Set("Cache-Control", "no-store")
	a.zip = zip.NewWriter(w)
	if err := a.write(values["key"], values["prefix"]); err != nil {
		panic(http.ErrAbortHandler) // so that the browser does not take what it has for a whole archive
	}
}

// refuse responds with an error.
func refuse(w http.ResponseWriter, status int, err error) {
	respond(w, status, map[string]string{"error": err.Error()})
}

// archive is an archive that is being sent.
type archive struct {
	h            *Handler
	ctx          context.Context
	outer        http.ResponseWriter
	request      *http.Request
	second       string
	bucket, base string
	zip          *zip.Writer
	failed       bytes.Buffer
}

// write writes all objects. It returns an error if the archive cannot be sent any further.
func (a *archive) write(keys, prefixes []string) error {
	for _, key := range keys {
		if err := a.add(key); err != nil {
			return err
		}
	}
	for _, prefix := range prefixes {
		if err := a.addAll(prefix); err != nil {
			return err
		}
	}
	if a.failed.Len() > 0 {
		f, err := a.zip.Create(errorsFile)
		if err != nil {
			return err
		}
		if _, err := f.Write(a.failed.Bytes()); err != nil {
			return err
		}
	}
	return a.zip.Close()
}

// fail notes an object, or a prefix, that is not in the archive, or not whole.
func (a *archive) fail(what, why string) {
	if a.failed.Len() < maxErrors {
		fmt.Fprintf(&a.failed, "%q: %s\n", what, why)
	}
}

// listing is a page of the keys of a bucket.
type listing struct {
	Contents []struct{ Key string }
	Next     string `xml:"NextContinuationToken"`
}

// addAll adds all objects with a prefix.
func (a *archive) addAll(prefix string) error {
	for next := ""; ; {
		q := url.Values{"list-type": {"2"}, "encoding-type": {"url"}, "prefix": {prefix}}
		if next != "" {
			q.Set("continuation-token", next)
		}
		var page listing
		out := &collected{archive: a}
		if err := a.send("/"+a.bucket, q.Encode(), out); err != nil {
			return err
		}
		if out.status != http.StatusOK || xml.Unmarshal(out.body.Bytes(), &page) != nil {
			a.fail(prefix, "cannot be listed: "+codeOf(out.status, out.body.Bytes()))
			return nil
		}
		for _, c := range page.Contents {
			key, err := url.QueryUnescape(c.Key)
			if err != nil {
				a.fail(c.Key, "the listing is not valid")
				continue
			}
			if err := a.add(key); err != nil {
				return err
			}
		}
		if next = page.Next; next == "" {
			return nil
		}
	}
}

// add adds an object.
func (a *archive) add(key string) error {
	out := &entry{collected: collected{archive: a}, name: entryName(strings.TrimPrefix(key, a.base), key)}
	if err := a.send("/"+a.bucket+"/"+key, "", out); err != nil {
		return err
	}
	switch {
	case out.err != nil:
		return out.err
	case out.status != http.StatusOK:
		a.fail(key, codeOf(out.status, out.body.Bytes()))
	case out.written != out.length:
		a.fail(key, "only "+strconv.FormatInt(out.written, 10)+" of "+strconv.FormatInt(out.length, 10)+" bytes could be read")
	}
	return nil
}

// send sends a GET with the session of the user to S3. It returns an error if the browser has gone.
func (a *archive) send(path, query string, w http.ResponseWriter) (err error) {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	u := &url.URL{Path: path, RawQuery: query}
	r := &http.Request{
		Method: http.MethodGet, URL: u, RequestURI: u.RequestURI(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: a.request.Host,
		RemoteAddr: a.request.RemoteAddr, TLS: a.request.TLS, Body: http.NoBody,
		Header: http.Header{"Cookie": a.request.Header["Cookie"], session.Header: {a.second}, "User-Agent": a.request.Header["User-Agent"]},
	}
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the value itself is thrown
			panic(p)
		}
	}()
	a.h.o.S3.ServeHTTP(w, r.WithContext(a.ctx))
	return nil
}

// collected is a response that is kept. Its errors are short.
type collected struct {
	archive *archive
	header  http.Header
	status  int
	body    bytes.Buffer
}

// Unwrap is for the deadlines that S3 sets for a slow client.
func (c *collected) Unwrap() http.ResponseWriter { return c.archive.outer }

// Header implements http.ResponseWriter.
func (c *collected) Header() http.Header {
	if c.header == nil {
		c.header = http.Header{}
	}
	return c.header
}

// WriteHeader implements http.ResponseWriter.
func (c *collected) WriteHeader(status int) {
	if status >= 200 && c.status == 0 {
		c.status = status
	}
}

// Write implements io.Writer.
func (c *collected) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if c.body.Len()+len(b) > maxListing {
		return 0, io.ErrShortBuffer
	}
	return c.body.Write(b)
}

// entry is the response with an object, which becomes an entry of the archive.
type entry struct {
	collected
	name            string
	to              io.Writer
	length, written int64
	err             error // the archive cannot be sent any further
}

// WriteHeader implements http.ResponseWriter.
func (e *entry) WriteHeader(status int) {
	if e.status != 0 || status < 200 {
		return
	}
	e.status = status
	if status != http.StatusOK {
		return
	}
	e.length, _ = strconv.ParseInt(e.Header().Get("Content-Length"), 10, 64) // S3 sends it with every object
	modified, err := http.ParseTime(e.Header().Get("Last-Modified"))
	if err != nil {
		modified = time.Time{}
	}
	e.to, e.err = e.archive.zip.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Store, Modified: modified})
}

// Write implements io.Writer.
func (e *entry) Write(b []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	switch {
	case e.status != http.StatusOK:
		return e.collected.Write(b)
	case e.err != nil:
		return 0, e.err
	case strings.HasSuffix(e.name, "/"): // an entry of a directory has no content
		e.written += int64(len(b))
		return len(b), nil
	}
	n, err := e.to.Write(b)
	e.written += int64(n)
	e.err = err
	return n, err
}

// entryName returns the name of an entry. A program that unpacks the archive must not write outside of its directory, so
// parts such as ".." are replaced. A name that was changed gets a part of the hash of its key, so that names stay unique.
func entryName(name, key string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		clean := strings.Map(func(c rune) rune {
			if c < ' ' || c == 0x7f || strings.ContainsRune(`\:*?"<>|`, c) {
				return '_'
			}
			return c
		}, strings.ToValidUTF8(p, "_"))
		if clean == "." || clean == ".." || clean == "" && i < len(parts)-1 {
			clean = "_"
		}
		parts[i] = clean
	}
	clean := strings.Join(parts, "/")
	if clean == "" || clean == errorsFile {
		clean = "_" + clean
	}
	if clean == name {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	suffix := "~" + hex.EncodeToString(sum[:4])
	if dir, ok := strings.CutSuffix(clean, "/"); ok {
		return dir + suffix + "/"
	}
	return clean + suffix
}

// codeOf returns the error code in the response of S3.
func codeOf(status int, body []byte) string {
	var e struct{ Code, Message string }
	if xml.Unmarshal(body, &e) != nil || e.Code == "" {
		return "status " + strconv.Itoa(status)
	}
	return e.Code + ": " + e.Message
}
