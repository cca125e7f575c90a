package iofault

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"

	"orcas/content"
	"orcas/fsck"
)

// Features are the settings of servers for stored content. Equal content is always shared.
type Features struct {
	Compression string // off (or ""), fast or better
	Encrypted   bool   // everything is encrypted, with the first master key
}

// FeaturesAsked returns the features that the environment selects, see the package comment.
func FeaturesAsked() Features {
	return Features{os.Getenv("ORCAS_FAULTS_COMPRESSION"), os.Getenv("ORCAS_FAULTS_ENCRYPTION") == "1"}
}

// The master keys, as a server takes them.
var (
	oldKey = "1:" + strings.Repeat("e5", 32)
	newKey = "2:" + strings.Repeat("7c", 32)
)

// encrypting returns the environment in which everything is compressed, and encrypted with the first of the keys.
func encrypting(keys ...string) []string {
	return []string{"ORCAS_COMPRESSION=better", "ORCAS_ENCRYPTION=all", "ORCAS_MASTER_KEY=" + strings.Join(keys, ",")}
}

// env returns the environment of a server: that of the features, and more, which takes precedence.
func (f Features) env(more []string) []string {
	env := []string{"ORCAS_SSEC_OVER_HTTP=true"}
	if f.Compression != "" {
		env = append(env, "ORCAS_COMPRESSION="+f.Compression)
	}
	if f.Encrypted {
		env = append(env, encrypting(oldKey)[1:]...)
	}
	return append(env, more...)
}

// customers is the prefix of the keys of objects that are encrypted with a customer key.
const customers = "customer-"

// setCustomerKey sets the headers with the customer key, if the object is encrypted with it.
func setCustomerKey(h http.Header, key string) {
	if !strings.HasPrefix(key, customers) {
		return
	}
	secret := []byte(strings.Repeat("c", 32))
	sum := md5.Sum(secret)
	const name = "X-Amz-Server-Side-Encryption-Customer-"
	h.Set(name+"Algorithm", "AES256")
	h.Set(name+"Key", base64.StdEncoding.EncodeToString(secret))
	h.Set(name+"Key-Md5", base64.StdEncoding.EncodeToString(sum[:]))
}

// again writes the content of an object under another key, so that the server can share it. If asked is set, it sends
// Expect: 100-continue, so that the server can respond before it receives the body.
func (r *run) again(key, of string, asked bool) {
	v := r.m.has(of)
	if r.over || v == nil {
		return
	}
	var header map[string]string
	if asked {
		header = map[string]string{"Expect": "100-continue"}
	}
	r.m.may(key, v)
	a, ok := r.send(http.MethodPut, key, "", header, v.Bytes())
	if ok {
		r.m.is(key, v)
		r.tag("PUT "+key, a.header.Get("ETag"), v)
	}
}

// finishRotation rotates unless the server reports that it needs only the new key, which must then be true.
func (r *run) finishRotation() {
	a := r.c.ask(http.MethodGet, "keys")
	var status content.RotateStatus
	if !r.judge("keys", a) {
		return
	}
	if err := json.Unmarshal(a.body, &status); err != nil || len(status.Needed) == 0 {
		r.bad("keys: %v: %s", err, a.body)
	}
	if r.rotated = slices.Equal(status.Needed, []uint32{2}); !r.rotated {
		r.rotate()
	}
}

// rotate requests that every data key is wrapped with the newest master key. Once that is acknowledged, the server must
// work without the old key.
func (r *run) rotate() {
	if r.over {
		return
	}
	a := r.c.ask(http.MethodPost, "keys?wait=true")
	if !r.judge("rotation", a) {
		return
	}
	var status content.RotateStatus
	if err := json.Unmarshal(a.body, &status); err != nil || status.Newest != 2 || !slices.Equal(status.Needed, []uint32{2}) {
		r.bad("rotation: %v: %s", err, a.body)
	}
	r.rotated = true
}

// recount runs fsck, which recounts all references and reads all content.
func (r *run) recount() {
	a := r.c.ask(http.MethodPost, "fsck?content=true")
	if !r.judge("fsck", a) {
		return
	}
	var report fsck.Report
	if err := json.Unmarshal(a.body, &report); err != nil || report.Error != "" || report.Found > 0 {
		r.bad("fsck: %v: %s", err, a.body)
	}
}

// shared are the steps with content that is already stored: small and large, sent with and without 100-continue, and
// with its first owner deleted or overwritten.
func shared(r *run) {
	r.again("equal", "small", false)
	r.again("equal-unsent", "small", true)
	r.remove("small")
	r.again("equal-large", "large", false)
	r.put("large", 10)
	r.again("equal-large-unsent", "equal-large", true)
	r.put("new", smallSize)
	r.again("new-too", "new", true)
	r.get("equal")
}

// customersOwn are the steps with content that is encrypted with a customer key.
func customersOwn(r *run) {
	r.put(customers+"small", smallSize)
	r.put(customers+"large", 1<<20)
	r.multipart(customers+"parts", partSize, smallSize)
	r.again(customers+"again", customers+"small", false) // such content is not shared
	r.remove(customers + "stocked")
	r.get(customers + "small")
}

// rotation are the steps with a rotation of the master key.
func rotation(r *run) {
	r.put("new", smallSize)
	r.again("small-too", "small", true) // stored again, because the master key is another one
	r.rotate()
	r.again("small-three", "small", true)
	r.remove("small")
	r.get("large")
}

// String returns the features as a suffix for the name of a script.
func (f Features) String() (s string) {
	if f.Compression != "" {
		s += "; compressed"
	}
	if f.Encrypted {
		s += "; encrypted"
	}
	return s
}
