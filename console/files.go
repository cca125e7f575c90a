package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
)

//go:embed web
var web embed.FS

// policy is the Content-Security-Policy of the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; media-src 'self'; " +
	"font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// types are the media types of the files, by the end of their names.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
	"": "text/plain; charset=utf-8",
}

// file is a file of the page.
type file struct {
	kind          string
	etag          string
	plain, packed []byte
}

// load compresses the files of the page, and returns them by their paths below web.
func load() (map[string]*file, error) {
	files := map[string]*file{}
	err := fs.WalkDir(web, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		plain, err := web.ReadFile(name)
		if err != nil {
			return err
		}
		kind, ok := types[path.Ext(name)]
		if !ok {
			return fmt.Errorf("console: %s: unknown type of file", name)
		}
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
		_, _ = z.Write(plain)                                      // a buffer accepts everything
		_ = z.Close()
		sum := sha256.Sum256(plain)
		files[strings.TrimPrefix(name, "web/")] = &file{kind, `"` + hex.EncodeToString(sum[:16]) + `"`, plain, packed.Bytes()}
		return nil
	})
	return files, err
}

// acceptsGzip reports whether a browser accepts gzip. All of them do.
func acceptsGzip(accept string) bool {
	return slices.ContainsFunc(strings.Split(accept, ","), func(s string) bool { return strings.TrimSpace(s) == "gzip" })
}

// page serves a file of the page.
func (h *Handler) page(w http.ResponseWriter, r *http.Request, name string) {
	header := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if name == "" {
		name = "index.html"
	}
	f := h.files[name]
	if f == nil {
		http.Error(w, "the console has no such file", http.StatusNotFound)
		return
	}
	header.Set("Content-Security-Policy", policy)
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	header.Set("Cache-Control", "no-cache") // the browser keeps it, and asks whether it has changed
	header.Set("Vary", "Accept-Encoding")
	header.Set("Content-Type", f.kind)
	content, etag := f.plain, f.etag
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		header.Set("Content-Encoding", "gzip")
		content, etag = f.packed, strings.TrimSuffix(etag, `"`)+`-gzip"`
	}
	header.Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Length", fmt.Sprint(len(content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // an error here means that the client has disconnected
	}
}
