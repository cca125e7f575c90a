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
	"orcas/internal/s3client"
)

// Features says how the servers of a bench keep content. Content is always shared where it is equal.
type Features struct {
	Compression string // off ("", too), fast or better
	Encrypted   bool   // all of it, under the first master key
}

// FeaturesAsked are what the variables ask for, see the package.
func FeaturesAsked() Features {
	return Features{os.Getenv("ORCAS_FAULTS_COMPRESSION"), os.Getenv("ORCAS_FAULTS_ENCRYPTION") == "1"}
}

// The master keys, as a server takes them.
var (
	oldKey = "1:" + strings.Repeat("e5", 32)
	newKey = "2:" + strings.Repeat("7c", 32)
)

// encrypting is the environment in which everything is encrypted, under the first of the keys, and compressed.
func encrypting(keys ...string) []string {
	return []string{"ORCAS_COMPRESSION=better", "ORCAS_ENCRYPTION=all", "ORCAS_MASTER_KEY=" + strings.Join(keys, ",")}
}

// env returns the environment of a server: that of the features, and more, which wins.
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

// customers is what the keys of objects begin with whose content is encrypted with a customer's key.
const customers = "customer-"

// customerHeader returns the headers with the customer's key, for an object that is encrypted with one.
func customerHeader(key string) []s3client.Header {
	if !strings.HasPrefix(key, customers) {
		return nil
	}
	secret := []byte(strings.Repeat("c", 32))
	sum := md5.Sum(secret)
	const name = "X-Amz-Server-Side-Encryption-Customer-"
	return []s3client.Header{
		{Name: name + "Algorithm", Value: "AES256"}, {Name: name + "Key", Value: base64.StdEncoding.EncodeToString(secret)},
		{Name: name + "Key-Md5", Value: base64.StdEncoding.EncodeToString(sum[:])},
	}
}

// again puts the content of an object under another key: it need not be stored once more. asked: nor sent, where the
// server answers before the body.
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

// finishRotation rotates unless the server says that it needs the new key alone, which must then be so.
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

// rotate has every data key wrapped by the newest master key. When that is acknowledged, the server must do without the
// old one.
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

// recount has the references counted, and every content read.
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

// shared are the steps of content that is there already: small and large, sent and not even sent, its first owner
// deleted or overwritten.
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

// customersOwn are the steps of content with a customer's key.
func customersOwn(r *run) {
	r.put(customers+"small", smallSize)
	r.put(customers+"large", 1<<20)
	r.multipart(customers+"parts", partSize, smallSize)
	r.again(customers+"again", customers+"small", false) // which shares nothing
	r.remove(customers + "stocked")
	r.get(customers + "small")
}

// rotation are the steps of a change of the master key.
func rotation(r *run) {
	r.put("new", smallSize)
	r.again("small-too", "small", true) // under another master key: this is stored
	r.rotate()
	r.again("small-three", "small", true)
	r.remove("small")
	r.get("large")
}

// String names the features behind a script.
func (f Features) String() (s string) {
	if f.Compression != "" {
		s += "; compressed"
	}
	if f.Encrypted {
		s += "; encrypted"
	}
	return s
}
