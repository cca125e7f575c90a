package iofault

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orcas/s3/sigv4"
)

// client speaks S3, one connection per request, and shows answers as they are.
type client struct {
	endpoint string
	admin    string
	http     *http.Client
	signer   *sigv4.Signer
}

func newClient(p *process) *client {
	return &client{
		endpoint: p.endpoint, admin: p.admin,
		http:   &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: requestMax}, Timeout: requestMax},
		signer: &sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"},
	}
}

// answer is what came back, and how.
type answer struct {
	status int // 0: no answer, or one that broke off
	header http.Header
	body   []byte
	admin  bool // of the admin listener: its errors are JSON
	err    error
}

// errorXML is the error document of S3.
type errorXML struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

// failure says how a request failed: "" where it did not, else the status and the code of the error document. bad says that
// it did so in a way that no client has to expect.
func (a *answer) failure() (text string, bad bool) {
	var timeout net.Error
	switch {
	case a.err != nil && errors.As(a.err, &timeout) && timeout.Timeout():
		return "hang: " + a.err.Error(), true
	case a.err != nil:
		return "broken: " + a.err.Error(), false
	}
	var e errorXML
	isError := xml.Unmarshal(a.body, &e) == nil && e.Code != ""
	if a.admin && a.status >= 300 {
		var failed struct{ Error string }
		isError = json.Unmarshal(a.body, &failed) == nil && failed.Error != ""
		e.Code = "of the admin listener"
	}
	switch {
	case a.status < 300 && !isError:
		return "", false
	case !isError:
		return fmt.Sprintf("%d without an error document: %.200q", a.status, a.body), true
	}
	text = fmt.Sprintf("%d %s", a.status, e.Code)
	return text, a.status >= 300 && a.status < 500 // a 200 that turned into an error is S3's way with long requests
}

// do sends a request for a key ("" the bucket) and reads the answer.
func (c *client) do(method, key, query string, header map[string]string, body []byte) *answer {
	u := c.endpoint + "/" + bucket
	if key != "" {
		u += "/" + key
	}
	if query != "" {
		u += "?" + query
	}
	return c.send(method, u, key, header, body)
}

// send sends a request to a URL, which is that of a key, and reads the answer.
func (c *client) send(method, u, key string, header map[string]string, body []byte) *answer {
	req, err := http.NewRequest(method, u, bytes.NewReader(body))
	if err != nil {
		return &answer{err: err}
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	customerHeader(req, key)
	sum := sha256.Sum256(body)
	c.signer.Sign(req, hex.EncodeToString(sum[:]), time.Now())
	res, err := c.http.Do(req)
	if err != nil {
		return &answer{err: err}
	}
	defer res.Body.Close()
	a := &answer{status: res.StatusCode, header: res.Header}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		a.status, a.err = 0, err
	}
	return a
}

func etagOf(s string) string { return strings.Trim(s, `"`) }

// ask makes a request of the admin listener.
func (c *client) ask(method, what string) *answer {
	a := c.send(method, c.admin+"/-/admin/"+what, "", nil, nil)
	a.admin = true
	return a
}

// listed is an object in a listing.
type listed struct {
	Key, ETag string
	Size      int64
}

// list returns the objects of the bucket, read in pages of three.
func (c *client) list() ([]listed, *answer) {
	var all []listed
	for token := ""; ; {
		query := "list-type=2&max-keys=3"
		if token != "" {
			query += "&continuation-token=" + url.QueryEscape(token)
		}
		a := c.do(http.MethodGet, "", query, nil, nil)
		var page struct {
			Contents              []listed
			NextContinuationToken string
		}
		if text, _ := a.failure(); text != "" {
			return nil, a
		}
		if err := xml.Unmarshal(a.body, &page); err != nil {
			return nil, &answer{err: err}
		}
		all = append(all, page.Contents...)
		if token = page.NextContinuationToken; token == "" {
			return all, a
		}
	}
}

// uploads returns the ids of the uploads in progress.
func (c *client) uploads() (map[string]bool, *answer) {
	a := c.do(http.MethodGet, "", "uploads", nil, nil)
	var page struct {
		Upload []struct{ UploadId string } //nolint // as S3 spells it
	}
	if text, _ := a.failure(); text != "" {
		return nil, a
	}
	if err := xml.Unmarshal(a.body, &page); err != nil {
		return nil, &answer{err: err}
	}
	ids := map[string]bool{}
	for _, u := range page.Upload {
		ids[u.UploadId] = true
	}
	return ids, a
}

// parts returns the ETags of the parts of an upload.
func (c *client) parts(key, id string) (map[int]string, *answer) {
	a := c.do(http.MethodGet, key, "uploadId="+id, nil, nil)
	var page struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if text, _ := a.failure(); text != "" {
		return nil, a
	}
	if err := xml.Unmarshal(a.body, &page); err != nil {
		return nil, &answer{err: err}
	}
	etags := map[int]string{}
	for _, p := range page.Part {
		etags[p.PartNumber] = etagOf(p.ETag)
	}
	return etags, a
}
