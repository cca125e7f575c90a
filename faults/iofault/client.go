package iofault

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orcas/sdk"
)

// client sends requests to a server, each over a connection of its own, and returns the responses unchanged.
type client struct {
	s3    *sdk.Client
	admin *sdk.Client
}

func newClient(p *process) *client {
	transport := &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: requestMax}
	return &client{s3: newSDK(p.endpoint, transport), admin: newSDK(p.admin, transport)}
}

// newSDK returns a client that is used in its raw mode, which never retries and does not interpret responses.
func newSDK(endpoint string, transport http.RoundTripper) *sdk.Client {
	c, err := sdk.New(sdk.Config{Endpoint: endpoint, Transport: transport, IdleTimeout: requestMax, Credentials: sdk.Static(accessKey, secretKey)})
	if err != nil {
		panic(err) // the process has printed the endpoint, which is valid
	}
	return c
}

// response is the response to a request, or its error.
type response struct {
	status int // 0 if there was no response, or an incomplete one
	header http.Header
	body   []byte
	admin  bool // it is from the admin API, whose errors are JSON
	cut    bool // it began with a 200 and broke off; do sets this only for downloads
	err    error

	// Of a request that failed with err:
	got    int // bytes of the body that arrived
	took   time.Duration
	resets int64 // see resetsForMemory
}

// errorXML is the error document of S3.
type errorXML struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

// failure describes how a request failed: the status and the code of the error document, or "" if it succeeded. bad is
// set for failures that clients need not expect.
func (a *response) failure() (text string, bad bool) {
	var timeout net.Error
	switch {
	case a.err != nil && errors.As(a.err, &timeout) && timeout.Timeout():
		return "hang: " + a.err.Error(), true
	case a.cut:
		return "a download that broke off", false
	case a.err != nil:
		return "broken: " + a.err.Error(), false
	}
	var e errorXML
	isError := xml.Unmarshal(a.body, &e) == nil && e.Code != ""
	if a.admin && a.status >= 300 {
		var failed struct{ Error string }
		isError = json.Unmarshal(a.body, &failed) == nil && failed.Error != ""
		e.Code = "of the admin API"
	}
	switch {
	case a.status < 300 && !isError:
		return "", false
	case !isError:
		return fmt.Sprintf("%d without an error document: %.200q", a.status, a.body), true
	}
	text = fmt.Sprintf("%d %s", a.status, e.Code)
	return text, a.status >= 300 && a.status < 500 // S3 may response a long request with 200 and an error document
}

// do sends a request for a key ("" for the bucket), with the customer key if the object needs one, and reads the
// response.
func (c *client) do(method, key, query string, header map[string]string, body []byte) *response {
	q := &sdk.Request{Method: method, Path: "/" + bucket, Query: query, Body: body, Header: http.Header{}}
	if key != "" {
		q.Path += "/" + key
	}
	for name, value := range header {
		q.Header.Set(name, value)
	}
	if method != http.MethodDelete {
		setCustomerKey(q.Header, key)
	}
	a := send(c.s3, q)
	a.cut = a.cut && method == http.MethodGet && key != "" && query == ""
	return a
}

// send sends a request and reads the response.
func send(c *sdk.Client, q *sdk.Request) *response {
	begun, resets := time.Now(), resetsForMemory()
	ctx, cancel := context.WithTimeout(context.Background(), requestMax)
	defer cancel()
	got, err := c.Fetch(ctx, q)
	if err != nil {
		a := &response{err: err, took: time.Since(begun), resets: resetsForMemory() - resets}
		if got != nil {
			a.cut, a.got = got.Status == http.StatusOK, len(got.Body)
		}
		return a
	}
	return &response{status: got.Status, header: got.Header, body: got.Body}
}

func etagOf(s string) string { return strings.Trim(s, `"`) }

// ask sends an admin API request.
func (c *client) ask(method, what string) *response {
	path, query, _ := strings.Cut("/-/admin/"+what, "?")
	a := send(c.admin, &sdk.Request{Method: method, Path: path, Query: query})
	a.admin = true
	return a
}

// listed is an object in a listing.
type listed struct {
	Key, ETag string
	Size      int64
}

// list returns the objects of the bucket, in pages of three.
func (c *client) list() ([]listed, *response) {
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
			return nil, &response{err: err}
		}
		all = append(all, page.Contents...)
		if token = page.NextContinuationToken; token == "" {
			return all, a
		}
	}
}

// uploads returns the IDs of the uploads in progress.
func (c *client) uploads() (map[string]bool, *response) {
	a := c.do(http.MethodGet, "", "uploads", nil, nil)
	var page struct {
		Upload []struct{ UploadId string } //nolint // as S3 spells it
	}
	if text, _ := a.failure(); text != "" {
		return nil, a
	}
	if err := xml.Unmarshal(a.body, &page); err != nil {
		return nil, &response{err: err}
	}
	ids := map[string]bool{}
	for _, u := range page.Upload {
		ids[u.UploadId] = true
	}
	return ids, a
}

// parts returns the ETags of the parts of an upload.
func (c *client) parts(key, id string) (map[int]string, *response) {
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
		return nil, &response{err: err}
	}
	etags := map[int]string{}
	for _, p := range page.Part {
		etags[p.PartNumber] = etagOf(p.ETag)
	}
	return etags, a
}
