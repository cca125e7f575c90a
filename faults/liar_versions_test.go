package faults

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// memoryVersion is a stored version of a liar. Slices of versions, newest first, are replaced, never modified.
type memoryVersion struct {
	memoryObject
	id     string
	marker bool
	mode   string // its retention mode, as in the header
	hold   string
}

func (v *memoryVersion) locked(bypass bool) bool {
	return v.hold == "ON" || v.mode == "COMPLIANCE" || v.mode == "GOVERNANCE" && !bypass
}

// crashVersions damages the versions as the lie requires. Most lies are about one version.
func (l *liar) crashVersions() {
	is := func(n Name, i int) bool {
		v := l.now.shelves[n][i]
		switch l.lie {
		case "lost-version", "mixed-version":
			return !v.marker && v.mode+v.hold == "" && len(v.body) > 64
		case "lost-marker":
			return v.marker
		case "phantom-marker":
			return i == 0 && !v.marker && n.Bucket != goneBucket
		case "unlocked", "lost-lock":
			return v.mode != ""
		case "early":
			return n.Bucket == lifeBucket && strings.HasPrefix(n.Key, "k/")
		case "early-upload":
			return false
		case "shuffled":
			return i == 0 && len(l.now.shelves[n]) > 1
		case "merged":
			return i == 1
		}
		return false
	}
	for n, list := range l.now.shelves {
		for i := range list {
			if !is(n, i) {
				continue
			}
			list = slices.Clone(list)
			switch l.lie {
			case "mixed-version":
				list[i].body = slices.Clone(list[i].body)
				clear(list[i].body)
			case "phantom-marker":
				list = slices.Insert(list, 0, memoryVersion{id: l.versionID(), marker: true})
			case "unlocked":
				list[i].mode = ""
			case "shuffled":
				list[0], list[1] = list[1], list[0]
			case "merged":
				list[0].id = list[1].id
				list = slices.Delete(list, 1, 2)
			default:
				list = slices.Delete(list, i, i+1)
			}
			l.now.shelves[n] = list
			return
		}
	}
	switch l.lie {
	case "undeleted-version":
		if d := l.dropped; d.id != "" {
			n := Name{Bucket: d.tags, Key: d.key}
			d.tags = ""
			l.now.shelves[n] = append(slices.Clone(l.now.shelves[n]), d)
		}
	case "half-versions":
		if r := l.renamed; r.Key != "" && len(l.now.shelves[r]) > 0 && l.now.shelves[r][0].marker {
			l.now.shelves[r] = l.now.shelves[r][1:]
		}
	case "early-upload":
		maps.DeleteFunc(l.now.uploads, func(_ string, u memoryUpload) bool { return u.bucket == lifeBucket })
	case "lost-status":
		clear(l.now.status)
	case "lost-rules":
		clear(l.now.rules)
	}
}

func (l *liar) versionID() string {
	l.versions++
	return fmt.Sprintf("v%06d", l.versions)
}

// serveVersions serves a bucket other than the main one.
func (l *liar) serveVersions(w http.ResponseWriter, r *http.Request, n Name, body []byte) {
	q := r.URL.Query()
	switch {
	case q.Has("versioning") && r.Method == http.MethodPut:
		var in struct{ Status string }
		_ = xml.Unmarshal(body, &in)
		l.now.status[n.Bucket] = in.Status
	case q.Has("versioning"):
		writeXML(w, "VersioningConfiguration", "<Status>"+l.now.status[n.Bucket]+"</Status>")
	case q.Has("lifecycle") && r.Method == http.MethodPut:
		var in struct {
			Inside string `xml:",innerxml"`
		}
		_ = xml.Unmarshal(body, &in)
		l.now.rules[n.Bucket] = in.Inside
	case q.Has("lifecycle"):
		writeXML(w, "LifecycleConfiguration", l.now.rules[n.Bucket])
	case q.Has("versions"):
		l.listVersions(w, n.Bucket, q.Get("prefix"))
	case q.Has("uploads") && r.Method == http.MethodGet:
		l.listUploads(w, n.Bucket)
	case q.Has("uploads"):
		l.beginUpload(w, n)
	case q.Has("uploadId") && r.Method == http.MethodPost:
		if u, ok := l.now.uploads[q.Get("uploadId")]; ok {
			o := plain(n.Key, u.parts[1].body)
			sum, _ := hex.DecodeString(o.etag)
			o.etag = fmt.Sprintf("%x-1", md5.Sum(sum))
			l.add(w, n, memoryVersion{memoryObject: o})
			delete(l.now.uploads, q.Get("uploadId"))
			writeXML(w, "CompleteMultipartUploadResult", "<ETag>"+o.etag+"</ETag>")
		}
	case q.Has("uploadId"):
		l.upload(w, r, n.Key, q.Get("uploadId"), q.Get("partNumber"), body)
	case q.Has("delete"):
		l.deleteVersions(w, n.Bucket, body)
	default:
		l.version(w, r, n, q, body)
	}
}

// find returns the index of a version, or of the newest version if id is "". It returns -1 if the version does not
// exist.
func (l *liar) find(n Name, id string) int {
	return slices.IndexFunc(l.now.shelves[n], func(v memoryVersion) bool { return id == "" || v.id == id })
}

// change replaces a version.
func (l *liar) change(n Name, at int, fn func(v *memoryVersion)) {
	list := slices.Clone(l.now.shelves[n])
	fn(&list[at])
	l.now.shelves[n] = list
}

// version serves one version.
func (l *liar) version(w http.ResponseWriter, r *http.Request, n Name, q url.Values, body []byte) {
	id := q.Get("versionId")
	at := l.find(n, id)
	switch {
	case q.Has("tagging") && at >= 0 && r.Method == http.MethodPut:
		var in struct {
			Inside string `xml:",innerxml"`
		}
		_ = xml.Unmarshal(body, &in)
		l.change(n, at, func(v *memoryVersion) { v.tags = in.Inside })
	case q.Has("tagging") && at >= 0:
		writeXML(w, "Tagging", l.now.shelves[n][at].tags)
	case q.Has("legal-hold") && at >= 0:
		var in struct{ Status string }
		_ = xml.Unmarshal(body, &in)
		l.change(n, at, func(v *memoryVersion) { v.hold = in.Status })
	case r.Method == http.MethodPut:
		l.putVersion(w, r, n, body)
	case r.Method == http.MethodDelete && id == "":
		if l.now.status[n.Bucket] == "" {
			l.drop(n, nullID)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		l.add(w, n, memoryVersion{marker: true})
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete && at >= 0 && l.now.shelves[n][at].locked(r.Header.Get("x-amz-bypass-governance-retention") == "true") && l.lie != "no-lock":
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodDelete:
		l.drop(n, id)
		w.WriteHeader(http.StatusNoContent)
	case at < 0 || l.now.shelves[n][at].marker:
		w.WriteHeader(http.StatusNotFound)
	default:
		v := l.now.shelves[n][at]
		for name, value := range map[string]string{"ETag": `"` + v.etag + `"`, "x-amz-version-id": v.id, "x-amz-object-lock-mode": v.mode, "x-amz-object-lock-legal-hold": v.hold} {
			if value != "" {
				w.Header().Set(name, value)
			}
		}
		if v.mode != "" {
			w.Header().Set("x-amz-object-lock-retain-until-date", lockUntil.Format("2006-01-02T15:04:05.000Z"))
		}
		if v.tags != "" {
			w.Header().Set("x-amz-tagging-count", "1")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(v.body))) // net/http sets it only for short bodies
		_, _ = w.Write(v.body)
	}
}

// putVersion serves writes, appends, copies and renames.
func (l *liar) putVersion(w http.ResponseWriter, r *http.Request, n Name, body []byte) {
	o := memoryVersion{memoryObject: plain(n.Key, body), mode: r.Header.Get("x-amz-object-lock-mode"), hold: r.Header.Get("x-amz-object-lock-legal-hold")}
	sourceOf := func(header string) (Name, string) {
		from, query, _ := strings.Cut(strings.TrimPrefix(r.Header.Get(header), "/"), "?versionId=")
		from, _ = url.PathUnescape(from)
		return Name{Bucket: n.Bucket, Key: strings.TrimPrefix(from, n.Bucket+"/")}, query
	}
	switch {
	case r.URL.Query().Has("renameObject"):
		from, _ := sourceOf("x-amz-rename-source")
		o.memoryObject = l.now.shelves[from][0].memoryObject
		l.add(nil, from, memoryVersion{marker: true})
		l.renamed = from
	case r.Header.Get("x-amz-write-offset-bytes") != "":
		o.memoryObject = l.appended(l.now.shelves[n][0].memoryObject, o.memoryObject)
	case r.Header.Get("x-amz-copy-source") != "":
		from, id := sourceOf("x-amz-copy-source")
		o.memoryObject = l.now.shelves[from][l.find(from, id)].memoryObject
		o.etag = plain(n.Key, o.body).etag
		l.add(w, n, o)
		writeXML(w, "CopyObjectResult", "<ETag>"+o.etag+"</ETag>")
		return
	}
	w.Header().Set("ETag", `"`+o.etag+`"`)
	l.add(w, n, o)
}

// add adds a version as the newest. It sends the version ID if w is not nil.
func (l *liar) add(w http.ResponseWriter, n Name, v memoryVersion) {
	v.id = nullID
	list := l.now.shelves[n]
	if l.now.status[n.Bucket] == enabled {
		v.id = l.versionID()
	} else {
		list = slices.DeleteFunc(slices.Clone(list), func(v memoryVersion) bool { return v.id == nullID })
	}
	if w != nil && (v.id != nullID || v.marker) {
		w.Header().Set("x-amz-version-id", v.id)
	}
	v.key = n.Key
	l.now.shelves[n] = slices.Insert(slices.Clone(list), 0, v)
}

// drop permanently deletes a version.
func (l *liar) drop(n Name, id string) {
	at := l.find(n, id)
	if at < 0 {
		return
	}
	l.dropped = l.now.shelves[n][at]
	l.dropped.tags = n.Bucket
	l.now.shelves[n] = slices.Delete(slices.Clone(l.now.shelves[n]), at, at+1)
}

func (l *liar) deleteVersions(w http.ResponseWriter, bucket string, body []byte) {
	var in struct {
		Object []struct {
			Key string
			ID  string `xml:"VersionId"`
		}
	}
	_ = xml.Unmarshal(body, &in)
	s := ""
	for _, o := range in.Object {
		l.drop(Name{Bucket: bucket, Key: o.Key}, o.ID)
		s += "<Deleted><Key>" + o.Key + "</Key></Deleted>"
	}
	writeXML(w, "DeleteResult", s)
}

// listVersions lists the versions of the keys with a prefix, all in one page.
func (l *liar) listVersions(w http.ResponseWriter, bucket, prefix string) {
	s := ""
	for _, n := range slices.SortedFunc(maps.Keys(l.now.shelves), func(a, b Name) int { return strings.Compare(a.Key, b.Key) }) {
		if n.Bucket != bucket || !strings.HasPrefix(n.Key, prefix) {
			continue
		}
		for i, v := range l.now.shelves[n] {
			kind, more := "Version", fmt.Sprintf("<Size>%d</Size><ETag>%s</ETag>", len(v.body), v.etag)
			if v.marker {
				kind, more = "DeleteMarker", ""
			}
			latest := strconv.FormatBool(i == 0 && l.lie != "no-latest")
			s += "<" + kind + "><Key>" + n.Key + "</Key><VersionId>" + v.id + "</VersionId><IsLatest>" + latest + "</IsLatest>" + more + "</" + kind + ">"
		}
	}
	writeXML(w, "ListVersionsResult", s)
}
