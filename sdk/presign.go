package sdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"orcas/internal/sigv4"
)

// PresignMax is the longest time for which a URL or a form can be valid.
const PresignMax = sigv4.MaxExpires

// PresignGet returns a URL with which anybody can read an object, until it expires. It sends nothing. The options that
// are headers of a request cannot be part of a URL: of them, the reader may send a range and conditions.
func (c *Client) PresignGet(bucket, key string, expires time.Duration, o *GetOptions) (string, error) {
	options := GetOptions{}
	if o != nil {
		options = *o
	}
	if options.rangeHeader() != "" || options.Conditions != (Conditions{}) || options.CustomerKey != nil {
		return "", argument("PresignGet", bucket, key, "only VersionID, Part and Response can be in a URL: send the others as headers")
	}
	options.Unverified = true // otherwise the reader would have to send a header
	q, err := c.w.reading("PresignGet", http.MethodGet, bucket, key, &options)
	if err != nil {
		return "", err
	}
	url, _, err := c.w.presign(q, expires)
	return url, err
}

// PresignPut returns a URL with which anybody can write an object, until it expires, and the headers that the request
// must have. It sends nothing. The checksum of the content can be demanded with ChecksumValue or SHA256.
func (c *Client) PresignPut(bucket, key string, expires time.Duration, o *PutOptions) (string, http.Header, error) {
	if o == nil {
		o = &PutOptions{}
	}
	q, err := objectCall("PresignPut", http.MethodPut, bucket, key)
	if err != nil {
		return "", nil, err
	}
	if err := o.Properties.write(q.header, c.w.secure); err != nil {
		return "", nil, q.localError(err)
	}
	o.Conditions.write(q.header, "If-")
	if o.ChecksumValue != "" {
		if !o.Checksum.Valid() {
			return "", nil, argument(q.op, bucket, key, "there is a checksum, but no algorithm of it")
		}
		set(q.header, o.Checksum.HeaderKey(), o.ChecksumValue)
	}
	set(q.header, "X-Amz-Content-Sha256", o.SHA256)
	return c.w.presign(q, expires)
}

// presign returns the URL of a call, and the headers that it needs.
func (w *wire) presign(q *call, expires time.Duration) (string, http.Header, error) {
	if err := q.check(); err != nil {
		return "", nil, err
	}
	keys, err := w.presignKeys(q, expires)
	if err != nil {
		return "", nil, err
	}
	r := w.newRequest(context.Background(), new(url.URL), q.method, w.address(q.bucket, q.key), q.query, q.header)
	r.Header.Del("User-Agent")
	return w.signerFor(keys).Presign(r, expires, w.config.Now()), r.Header, nil
}

// presignKeys returns the keys for signing in advance.
func (w *wire) presignKeys(q *call, expires time.Duration) (Keys, error) {
	if expires < time.Second || expires > PresignMax {
		return Keys{}, argument(q.op, q.bucket, q.key, "the time of validity is %s, expected 1 second to %s", expires, PresignMax)
	}
	if w.anonymous() {
		return Keys{}, q.localError(errors.New("the client has no credentials"))
	}
	keys, err := w.config.Credentials.Get(context.Background())
	if err == nil && keys.AccessKey == "" {
		err = errors.New("the client has no credentials")
	}
	if err != nil {
		return Keys{}, q.localError(err)
	}
	return keys, nil
}

// PostPolicy is what an HTML form may upload.
type PostPolicy struct {
	Key      string            // "${filename}" in it stands for the name of the file
	Expires  time.Duration     // up to PresignMax
	MinSize  int64             // bytes
	MaxSize  int64             // bytes; 0 is 5 GiB
	Fields   map[string]string // further fields with fixed values, such as Content-Type, acl or success_action_status
	Prefixes map[string]string // further fields that may have any value that begins so, such as Content-Type: image/
}

// PresignPost returns the URL and the fields of a form with which browsers can upload an object. The file is the last
// field of the form, and its name is file. It sends nothing.
func (c *Client) PresignPost(bucket string, p PostPolicy) (url string, fields map[string]string, err error) {
	q, err := objectCall("PresignPost", http.MethodPost, bucket, p.Key)
	if err != nil {
		return "", nil, err
	}
	if err := q.check(); err != nil {
		return "", nil, err
	}
	if p.MinSize < 0 || p.MaxSize < 0 || p.MaxSize > 0 && p.MinSize > p.MaxSize {
		return "", nil, argument(q.op, bucket, p.Key, "the size is limited to %d to %d bytes", p.MinSize, p.MaxSize)
	}
	keys, err := c.w.presignKeys(q, p.Expires)
	if err != nil {
		return "", nil, err
	}
	now := c.w.config.Now()
	signer := c.w.signerFor(keys)
	conditions := []any{map[string]string{"bucket": bucket}}
	const file = "${filename}"
	if n := len(p.Key) - len(file); n >= 0 && p.Key[n:] == file {
		conditions = append(conditions, []string{"starts-with", "$key", p.Key[:n]})
	} else {
		conditions = append(conditions, map[string]string{"key": p.Key})
	}
	largest := p.MaxSize
	if largest == 0 {
		largest = 5 << 30
	}
	conditions = append(conditions, []any{"content-length-range", p.MinSize, largest})
	fixed := signer.PostFields("", now)
	maps.Copy(fixed, p.Fields)
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		conditions = append(conditions, map[string]string{name: fixed[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Prefixes)) {
		conditions = append(conditions, []string{"starts-with", "$" + name, p.Prefixes[name]})
	}
	document, err := json.Marshal(map[string]any{"expiration": formatTime(now.Add(p.Expires)), "conditions": conditions})
	if err != nil {
		return "", nil, q.localError(err)
	}
	fields = signer.PostFields(base64.StdEncoding.EncodeToString(document), now)
	maps.Copy(fields, p.Fields)
	fields["key"] = p.Key
	a := c.w.address(bucket, "")
	return c.w.scheme + "://" + a.host + sigv4.Escape(a.path), fields, nil
}
