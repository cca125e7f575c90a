package faults

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// liar is a small S3 server in memory for tests of the bench. It breaks the promise that its lie names, which the bench
// must find. If the lie is "", it breaks none.
type liar struct {
	lie string

	mu      sync.Mutex // guards the fields below
	down    bool
	server  *httptest.Server
	now     memory
	durable memory // the data that a kill leaves if the lie is "memory"
	writes  int
	last    map[string]memoryObject // by event ("put", "delete", "replace"): the last object put, deleted, or replaced
	uploads int
	keys    int             // number of access keys created
	retired map[Name]string // the last access keys that were replaced

	versions int           // number of version IDs assigned
	dropped  memoryVersion // the last version that was permanently deleted; tags is its bucket
	renamed  Name          // the last key with versions that was renamed
}

// memory is the data of a liar.
type memory struct {
	objects map[string]memoryObject
	uploads map[string]memoryUpload
	buckets map[string]bool // the buckets other than the one with the objects
	shelves map[Name][]memoryVersion
	status  map[string]string // versioning status by bucket
	rules   map[string]string // lifecycle rules by bucket, as XML
	papers  map[string]string // documents of the main bucket, as they were sent
	ids     map[Name]string   // labels of identities and their parts
}

type memoryObject struct {
	key  string
	body []byte
	etag string
	tags string // as XML
}

type memoryUpload struct {
	key    string
	parts  map[int]memoryObject
	bucket string // "" for the main one
}

// newLiar returns a server with a lie; "" for none.
func newLiar(lie string) *liar {
	empty := memory{}.clone()
	return &liar{lie: lie, now: empty, durable: empty.clone(), last: map[string]memoryObject{}, retired: map[Name]string{}}
}

func (m memory) clone() memory {
	c := memory{map[string]memoryObject{}, map[string]memoryUpload{}, map[string]bool{}, map[Name][]memoryVersion{}, map[string]string{}, map[string]string{}, map[string]string{}, map[Name]string{}}
	maps.Copy(c.objects, m.objects)
	maps.Copy(c.buckets, m.buckets)
	maps.Copy(c.shelves, m.shelves)
	maps.Copy(c.status, m.status)
	maps.Copy(c.rules, m.rules)
	maps.Copy(c.papers, m.papers)
	maps.Copy(c.ids, m.ids)
	for id, u := range m.uploads {
		c.uploads[id] = memoryUpload{u.key, maps.Clone(u.parts), u.bucket}
	}
	return c
}

func (l *liar) Start(context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lie == "dead" && l.writes > 0 {
		return "", fmt.Errorf("the liar does not start again")
	}
	l.down = false
	l.server = httptest.NewServer(l)
	return l.server.URL, nil
}

// Admin implements Server.
func (l *liar) Admin() string { return l.server.URL }

// Credentials implements Server. A liar does not check them.
func (l *liar) Credentials() Credentials { return Credentials{"liar", "liar"} }

func (l *liar) Stop() error { return l.Kill() }

func (l *liar) Kill() error {
	l.mu.Lock()
	if l.down {
		l.mu.Unlock()
		return nil
	}
	l.down = true
	l.crash()
	l.mu.Unlock()
	l.server.CloseClientConnections()
	l.server.Close()
	return nil
}

// crash damages the data as the lie requires.
func (l *liar) crash() {
	put := l.last["put"]
	switch l.lie {
	case "memory":
		l.now = l.durable.clone()
	case "torn":
		o := l.now.objects[put.key]
		o.body = bytes.Clone(o.body)
		clear(o.body[len(o.body)/2:])
		l.now.objects[put.key] = o
	case "mixed":
		o := l.now.objects[put.key]
		o.body = l.last["replace"].body
		l.now.objects[put.key] = o
	case "undelete":
		if d := l.last["delete"]; d.key != "" {
			l.now.objects[d.key] = d
		}
	case "half-rename":
		if r := l.last["rename"]; r.key != "" {
			l.now.objects[r.key] = r
		}
	case "stale":
		if r := l.last["replace"]; l.now.objects[r.key].key != "" {
			l.now.objects[r.key] = r
		}
	case "tag":
		for key, o := range l.now.objects {
			o.tags = ""
			l.now.objects[key] = o
		}
	case "lost-part":
		for _, u := range l.now.uploads {
			delete(u.parts, 1)
		}
	case "lost-upload":
		clear(l.now.uploads)
	case "lost-bucket":
		clear(l.now.buckets)
	case "lost-document":
		clear(l.now.papers)
	case "lost-identity":
		clear(l.now.ids)
	case "lost-tags":
		maps.DeleteFunc(l.now.ids, func(n Name, _ string) bool { return strings.HasSuffix(n.Identity, "/tag") })
	case "old-keys":
		for n, access := range l.retired {
			l.now.ids[n] = access
		}
	case "undead-upload":
		l.now.uploads["undead"] = memoryUpload{"large/00000", map[int]memoryObject{}, ""}
	}
	l.crashVersions()
}

// wrote counts a write.
func (l *liar) wrote() {
	if l.writes++; l.writes%100 == 0 {
		l.durable = l.now.clone()
	}
}

// put stores an object.
func (l *liar) put(o memoryObject) {
	if old, ok := l.now.objects[o.key]; ok {
		l.last["replace"] = old
	}
	l.now.objects[o.key] = o
	if len(o.body) > 64 {
		l.last["put"] = o
	}
}

// remove deletes an object.
func (l *liar) remove(key string) {
	if old, ok := l.now.objects[key]; ok {
		l.last["delete"] = old
	}
	delete(l.now.objects, key)
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || l.down {
		panic(http.ErrAbortHandler)
	}
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+bucket), "/")
	q := r.URL.Query()
	if r.Method != http.MethodGet {
		defer l.wrote()
	}
	name, inside, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	named := slices.ContainsFunc([]string{"versioning", "lifecycle", "versions", "uploads", "delete"}, q.Has)
	switch {
	case strings.HasPrefix(r.URL.Path, "/-/admin/"):
		l.admin(w, r, string(body))
	case r.URL.Path == "/" && r.Method == http.MethodPost:
		l.form(w, r, string(body))
	case r.URL.Path == "/" || name != bucket && inside == "" && !named:
		if l.bucket(w, r.Method, name); r.Header.Get("x-amz-bucket-object-lock-enabled") != "" {
			l.now.status[name] = enabled
		}
	case name != bucket:
		l.serveVersions(w, r, Name{Bucket: name, Key: inside}, body)
	case q.Has(policyDocument):
		l.document(w, r.Method, policyDocument, body)
	case q.Has(corsDocument):
		l.document(w, r.Method, corsDocument, body)
	case q.Has("uploads") && r.Method == http.MethodGet:
		l.listUploads(w, "")
	case q.Has("uploads"):
		l.beginUpload(w, Name{Key: key})
	case q.Has("uploadId"):
		l.upload(w, r, key, q.Get("uploadId"), q.Get("partNumber"), body)
	case q.Has("tagging"):
		l.tagging(w, r.Method, key, body)
	case q.Has("delete"):
		l.deleteMany(w, body)
	case key == "" && r.Method == http.MethodGet:
		l.list(w, q.Get("continuation-token"), q.Get("max-keys"), q.Get("delimiter"))
	case key == "":
	default:
		l.object(w, r, key, body)
	}
}

// document serves a document of the main bucket.
func (l *liar) document(w http.ResponseWriter, method, kind string, body []byte) {
	switch old, exists := l.now.papers[kind]; {
	case method == http.MethodPut:
		l.now.papers[kind] = string(body)
		w.WriteHeader(http.StatusNoContent)
	case method == http.MethodDelete:
		delete(l.now.papers, kind)
		w.WriteHeader(http.StatusNoContent)
	case !exists:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = io.WriteString(w, old)
	}
}

// bucket creates or deletes an empty bucket, or lists all.
func (l *liar) bucket(w http.ResponseWriter, method, name string) {
	switch method {
	case http.MethodPut:
		l.now.buckets[name] = true
	case http.MethodDelete:
		delete(l.now.buckets, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		s := "<Bucket><Name>" + bucket + "</Name></Bucket>"
		for b := range l.now.buckets {
			s += "<Bucket><Name>" + b + "</Name></Bucket>"
		}
		writeXML(w, "ListAllMyBucketsResult", "<Buckets>"+s+"</Buckets>")
	}
}

func (l *liar) object(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	old, exists := l.now.objects[key]
	switch r.Method {
	case http.MethodGet:
		if !exists {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", `"`+old.etag+`"`)
		if old.tags != "" {
			w.Header().Set("x-amz-tagging-count", "1")
		}
		w.Write(old.body)
	case http.MethodDelete:
		l.remove(key)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPut:
		match := r.Header.Get("If-Match")
		refused := r.Header.Get("If-None-Match") != "" && exists || match != "" && match != `"`+old.etag+`"`
		if refused && l.lie != "condition" {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		o := plain(key, body)
		if r.URL.Query().Has("renameObject") {
			o = l.rename(r.Header.Get("x-amz-rename-source"), key)
		} else if r.Header.Get("x-amz-write-offset-bytes") != "" {
			o = l.appended(old, o)
			w.Header().Set("ETag", `"`+o.etag+`"`)
		} else if from := r.Header.Get("x-amz-copy-source"); from != "" {
			o = l.now.objects[strings.TrimPrefix(from, bucket+"/")]
			o.key, o.etag = key, plain(key, o.body).etag
			writeXML(w, "CopyObjectResult", "<ETag>"+o.etag+"</ETag>")
		} else if l.lie == "etag" && len(body)%50 == 0 {
			w.Header().Set("ETag", `"0"`)
		} else {
			w.Header().Set("ETag", `"`+o.etag+`"`)
		}
		l.put(o)
	}
}

// rename removes an object, and returns it with its new key.
func (l *liar) rename(from, to string) memoryObject {
	from, _ = url.PathUnescape(from)
	o := l.now.objects[strings.TrimPrefix(from, "/"+bucket+"/")]
	l.remove(o.key)
	l.last["rename"] = o
	o.key = to
	return o
}

// appended returns old with the content of more appended.
func (l *liar) appended(old, more memoryObject) memoryObject {
	before, count, _ := strings.Cut(old.etag, "-")
	n, _ := strconv.Atoi(count)
	sums, _ := hex.DecodeString(before + more.etag)
	if l.lie != "append" {
		more.body = slices.Concat(old.body, more.body)
	}
	more.etag, more.tags = fmt.Sprintf("%x-%d", md5.Sum(sums), max(n, 1)+1), old.tags
	return more
}

// tagging serves the tags of an object. It stores them as XML.
func (l *liar) tagging(w http.ResponseWriter, method, key string, body []byte) {
	o, exists := l.now.objects[key]
	if !exists {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch method {
	case http.MethodGet:
		writeXML(w, "Tagging", o.tags)
		return
	case http.MethodDelete:
		o.tags = ""
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPut:
		var in struct {
			Inside string `xml:",innerxml"`
		}
		if err := xml.Unmarshal(body, &in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		o.tags = in.Inside
	}
	l.now.objects[key] = o
}

func (l *liar) upload(w http.ResponseWriter, r *http.Request, key, id, number string, body []byte) {
	u, ok := l.now.uploads[id]
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPut:
		n, _ := strconv.Atoi(number)
		if from := r.Header.Get("x-amz-copy-source"); from != "" {
			var first, last int
			fmt.Sscanf(r.Header.Get("x-amz-copy-source-range"), "bytes=%d-%d", &first, &last)
			body = l.now.objects[strings.TrimPrefix(from, bucket+"/")].body[first : last+1]
			if l.lie == "copied-part" {
				body = bytes.Clone(body)
				body[0]++
			}
			writeXML(w, "CopyPartResult", "<ETag>"+plain(number, body).etag+"</ETag>")
			u.parts[n] = plain(number, body)
			return
		}
		u.parts[n] = plain(number, body)
		w.Header().Set("ETag", `"`+u.parts[n].etag+`"`)
	case r.Method == http.MethodDelete:
		delete(l.now.uploads, id)
	case r.Method == http.MethodGet:
		s := ""
		for n, p := range u.parts {
			s += fmt.Sprintf("<Part><PartNumber>%d</PartNumber><Size>%d</Size><ETag>%s</ETag></Part>", n, len(p.body), p.etag)
		}
		writeXML(w, "ListPartsResult", s)
	case r.Method == http.MethodPost:
		o := memoryObject{key: key}
		var sums []byte
		for _, n := range slices.Sorted(maps.Keys(u.parts)) {
			sum := md5.Sum(u.parts[n].body)
			sums = append(sums, sum[:]...)
			o.body = append(o.body, u.parts[n].body...)
		}
		o.etag = fmt.Sprintf("%x-%d", md5.Sum(sums), len(u.parts))
		l.put(o)
		delete(l.now.uploads, id)
		writeXML(w, "CompleteMultipartUploadResult", "<ETag>"+o.etag+"</ETag>")
	}
}

func (l *liar) deleteMany(w http.ResponseWriter, body []byte) {
	var in struct {
		Object []struct{ Key string }
	}
	if err := xml.Unmarshal(body, &in); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s := ""
	for i, o := range in.Object {
		if l.lie != "multi-delete" || i != 1 {
			l.remove(o.Key)
		}
		s += "<Deleted><Key>" + o.Key + "</Key></Deleted>"
	}
	writeXML(w, "DeleteResult", s)
}

func (l *liar) list(w http.ResponseWriter, after, limit, delimiter string) {
	n, _ := strconv.Atoi(limit)
	if delimiter != "" {
		l.listDirectories(w, delimiter)
		return
	}
	s, last := "", ""
	for i, key := range slices.Sorted(maps.Keys(l.now.objects)) {
		if key <= after || l.lie == "hidden" && i == 7 {
			continue
		}
		if n--; n < 0 {
			s += "<IsTruncated>true</IsTruncated><NextContinuationToken>" + last + "</NextContinuationToken>"
			break
		}
		o := l.now.objects[key]
		size := len(o.body)
		if l.lie == "listing" && i == 7 {
			size++
		}
		s += fmt.Sprintf("<Contents><Key>%s</Key><Size>%d</Size><ETag>%s</ETag></Contents>", key, size, o.etag)
		last = key
	}
	writeXML(w, "ListBucketResult", s)
}

// listDirectories lists the common prefixes, all in one page.
func (l *liar) listDirectories(w http.ResponseWriter, delimiter string) {
	s := ""
	dirs := map[string]bool{}
	for key := range l.now.objects {
		dir, _, _ := strings.Cut(key, delimiter)
		if !dirs[dir] && (l.lie != "directory" || dir != "small") {
			s += "<CommonPrefixes><Prefix>" + dir + delimiter + "</Prefix></CommonPrefixes>"
		}
		dirs[dir] = true
	}
	writeXML(w, "ListBucketResult", s)
}

func (l *liar) beginUpload(w http.ResponseWriter, n Name) {
	l.uploads++
	id := fmt.Sprintf("u%d", l.uploads)
	l.now.uploads[id] = memoryUpload{n.Key, map[int]memoryObject{}, n.Bucket}
	writeXML(w, "InitiateMultipartUploadResult", "<UploadId>"+id+"</UploadId>")
}

func (l *liar) listUploads(w http.ResponseWriter, bucket string) {
	s := ""
	for id, u := range l.now.uploads {
		if u.bucket != bucket {
			continue
		}
		s += "<Upload><Key>" + u.key + "</Key><UploadId>" + id + "</UploadId></Upload>"
	}
	writeXML(w, "ListMultipartUploadsResult", s)
}

// plain returns an object with a body.
func plain(key string, body []byte) memoryObject {
	sum := md5.Sum(body)
	return memoryObject{key: key, body: body, etag: hex.EncodeToString(sum[:])}
}

// writeXML writes an XML document.
func writeXML(w http.ResponseWriter, name, inner string) {
	fmt.Fprintf(w, "<%s>%s</%s>", name, inner, name)
}
