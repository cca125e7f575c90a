package console

import (
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"orcas/gate/session"
)

// mountPrefix is the path under which the page has S3, in path style.
const mountPrefix = "/-/s3/"

// Parameters of the mount, which S3 does not see.
const (
	keyParameter      = "x-orcas-key"      // the key, if browsers would change it in a path because of "." or ".."
	downloadParameter = "x-orcas-download" // to save an object instead of showing it
)

// dispositionHeader has the Content-Disposition of an object, which the mount replaces, so that the page can keep it when it
// changes other metadata.
const dispositionHeader = "X-Orcas-Content-Disposition"

// objectPolicy is the Content-Security-Policy of objects: if one is shown, it can load and run nothing.
const objectPolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"

// pdfPolicy is that of PDF files. The viewer of Chromium does not work in a sandbox. It runs in an origin of its own.
const pdfPolicy = "default-src 'none'; object-src 'self'; frame-ancestors 'none'"

// shown are the media types of objects that browsers may show. None of them can contain scripts, except PDF, whose viewers
// keep them apart.
var shown = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true, "image/bmp": true, "image/x-icon": true,
	"audio/mpeg": true, "audio/mp4": true, "audio/ogg": true, "audio/wav": true, "audio/x-wav": true, "audio/flac": true, "audio/webm": true,
	"audio/aac": true, "video/mp4": true, "video/webm": true, "video/ogg": true, "video/quicktime": true, "video/x-matroska": true,
	"application/pdf": true, "text/plain": true,
}

// mount passes a request on to S3. The sender must have a session: signatures and anonymous access belong to the address
// of S3.
func (h *Handler) mount(w http.ResponseWriter, r *http.Request) {
	if !h.o.Sessions.Has(r) {
		session.Refuse(w, session.ErrEnded)
		return
	}
	if _, err := h.o.Sessions.Authenticate(r); err != nil { // S3 would not distinguish the end of a session
		session.Refuse(w, err)
		return
	}
	q := r.URL.Query()
	if r.Header.Get("Authorization") != "" || q.Has("X-Amz-Signature") || q.Has("Signature") || r.Method == http.MethodOptions {
		http.Error(w, "requests for "+mountPrefix+" have a session instead of a signature", http.StatusForbidden)
		return
	}
	download := q.Has(downloadParameter)
	inner := r.Clone(r.Context())
	if !rewrite(inner, q) {
		http.Error(w, keyParameter+" needs a bucket in the path, and no key", http.StatusBadRequest)
		return
	}
	h.o.S3.ServeHTTP(&guarded{ResponseWriter: w, download: download, key: inner.URL.Path}, inner)
}

// rewrite changes the URL of a request to that of S3.
func rewrite(r *http.Request, q url.Values) bool {
	strip := func(p string) string { return "/" + strings.TrimPrefix(p, mountPrefix) }
	u := *r.URL
	u.Path = strip(u.Path)
	if u.RawPath != "" {
		u.RawPath = strip(u.RawPath)
	}
	if q.Has(keyParameter) {
		bucket := strings.Trim(u.Path, "/")
		if bucket == "" || strings.Contains(bucket, "/") {
			return false
		}
		u.Path, u.RawPath = "/"+bucket+"/"+q.Get(keyParameter), ""
	}
	var kept []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(part, "=")
		if name != keyParameter && name != downloadParameter && part != "" {
			kept = append(kept, part)
		}
	}
	u.RawQuery = strings.Join(kept, "&")
	r.URL, r.RequestURI = &u, u.RequestURI()
	return true
}

// guarded is the response to a request of S3. It makes sure that a browser shows nothing but content of a few types.
type guarded struct {
	http.ResponseWriter
	download bool
	key      string
	done     bool
}

// Unwrap is for http.ResponseController.
func (g *guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (g *guarded) WriteHeader(status int) {
	if !g.done && status >= 200 {
		g.done = true
		g.guard(status)
	}
	g.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (g *guarded) Write(b []byte) (int, error) {
	if !g.done {
		g.WriteHeader(http.StatusOK)
	}
	return g.ResponseWriter.Write(b)
}

// guard sets the headers of the response. Those of the object must not weaken them.
func (g *guarded) guard(status int) {
	header := g.Header()
	for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers", "Refresh", "Link"} {
		header.Del(name)
	}
	if own := header.Get("Content-Disposition"); own != "" {
		header.Set(dispositionHeader, own)
	}
	harden(header)
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	header.Set("Content-Security-Policy", objectPolicy)
	if kind == "application/pdf" {
		header.Set("Content-Security-Policy", pdfPolicy)
	}
	if status/100 == 3 && header.Get("Location") != "" {
		header.Del("Location") // of a redirect in the metadata; the page does not follow it
	}
	if g.download || !shown[kind] {
		header.Set("Content-Disposition", attachment(g.key))
	} else {
		header.Set("Content-Disposition", "inline")
	}
}

// attachment returns the Content-Disposition of a download. The name is the last part of the key.
func attachment(key string) string {
	name := key[strings.LastIndexByte(strings.TrimRight(key, "/"), '/')+1:]
	name = strings.TrimRight(name, "/")
	if !utf8.ValidString(name) {
		name = strings.ToValidUTF8(name, "_")
	}
	name = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '\\' {
			return '_'
		}
		return c
	}, name)
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": name}); v != "" && name != "" {
		return v
	}
	return "attachment"
}
