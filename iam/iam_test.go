package iam

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/access"
	"orcas/auth/identity"
	"orcas/core"
	"orcas/gate"
	"orcas/storetest"
)

// bench is a handler on a socket, over identities in memory. Its clock stands still, one second past the time of the
// first request.
type bench struct {
	t          *testing.T
	identities *identity.Directory
	server     *httptest.Server
	root       key
	account    string
	clock      atomic.Int64 // in seconds
	events     events
	broken     error // returned by Lookup
}

// key is the credentials of a caller.
type key struct{ access, secret string }

// events are the requests that observers have seen.
type events struct {
	mu   sync.Mutex
	list []gate.Event
}

func (e *events) Observe(_ context.Context, event *gate.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, *event)
}

// last returns the last request.
func (e *events) last() gate.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.list[len(e.list)-1]
}

func newBench(t *testing.T) *bench { return newBenchWith(t, func(*Options) {}) }

func newBenchWith(t *testing.T, change func(*Options)) *bench {
	store := storetest.Open(t, storetest.Options{Bare: true})
	b := &bench{t: t, root: key{"ROOTACCESSKEY", "the secret of the root"}, account: identity.AccountID(17)}
	b.clock.Store(1_800_000_000)
	now := func() time.Time { return time.Unix(b.clock.Load(), 0) }
	var err error
	b.identities, err = identity.Open(t.Context(), identity.Options{
		Meta: store.Meta, Writer: store.Writer, Account: b.account, Key: bytes.Repeat([]byte{7}, identity.KeySize), Now: now,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	lookup := func(ctx context.Context, accessKey, token string) (gate.Credential, error) {
		if b.broken != nil {
			return gate.Credential{}, b.broken
		}
		if accessKey == b.root.access {
			return gate.Credential{SecretKey: b.root.secret, Principal: b.identities.Root()}, nil
		}
		return b.identities.Lookup(ctx, accessKey, token)
	}
	o := Options{
		Identities: b.identities, Lookup: lookup, Authorizer: access.New(b.identities.Caller), Now: now,
		Observers: []gate.Observer{&b.events},
	}
	change(&o)
	h, err := New(o)
	require.NoError(t, err)
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Accepts(r) {
			w.WriteHeader(http.StatusTeapot) // S3 would handle it
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(b.server.Close)
	return b
}

// user creates a user with an inline policy, unless that is "", and returns an access key of the user.
func (b *bench) user(name, document string) key {
	b.t.Helper()
	_, err := b.identities.Create(b.t.Context(), identity.User, b.account, name)
	require.NoError(b.t, err)
	if document != "" {
		_, err = b.identities.PutInlinePolicy(b.t.Context(), identity.User, b.account, name, "inline", document)
		require.NoError(b.t, err)
	}
	return b.keyOf(name)
}

// keyOf creates an access key of a user.
func (b *bench) keyOf(name string) key {
	b.t.Helper()
	_, s, err := b.identities.CreateAccessKey(b.t.Context(), b.account, name, 0)
	require.NoError(b.t, err)
	return key{s.AccessKey, s.SecretKey}
}

// arn returns the ARN of a resource in the account, such as user/alice.
func (b *bench) arn(resource string) string { return "arn:aws:iam::" + b.account + ":" + resource }

// allow returns a policy that allows actions on a resource.
func allow(resource string, actions ...string) string {
	return fmt.Sprintf(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": ["%s"], "Resource": "%s"}}`,
		strings.Join(actions, `", "`), resource)
}

// form returns a request with parameters, given as names and values, which is not signed.
func (b *bench) form(parameters ...string) *http.Request {
	values := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		values.Add(parameters[i], parameters[i+1])
	}
	return b.post(values.Encode())
}

func (b *bench) post(body string) *http.Request {
	r, err := http.NewRequestWithContext(b.t.Context(), "POST", b.server.URL+"/", strings.NewReader(body))
	require.NoError(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	return r
}

// sign signs a request as the SDKs do.
func (b *bench) sign(r *http.Request, k key, service string) *http.Request {
	b.t.Helper()
	body := ""
	if r.GetBody != nil {
		reader, err := r.GetBody()
		require.NoError(b.t, err)
		text, err := io.ReadAll(reader)
		require.NoError(b.t, err)
		body = string(text)
	}
	sum := sha256.Sum256([]byte(body))
	cred := aws.Credentials{AccessKeyID: k.access, SecretAccessKey: k.secret}
	err := v4.NewSigner().SignHTTP(b.t.Context(), cred, r, hex.EncodeToString(sum[:]), service, "eu-south-2", time.Unix(b.clock.Load(), 0))
	require.NoError(b.t, err)
	return r
}

// node is an element of a response.
type node struct {
	XMLName xml.Name
	Text    string `xml:",chardata"`
	Nodes   []node `xml:",any"`
}

// get returns the text of an element, given by the names of the elements that contain it; "" if there is none.
func (n *node) get(path ...string) string {
	if found := n.find(path...); found != nil {
		return found.Text
	}
	return ""
}

func (n *node) find(path ...string) *node {
	if len(path) == 0 {
		return n
	}
	for i := range n.Nodes {
		if n.Nodes[i].XMLName.Local == path[0] {
			return n.Nodes[i].find(path[1:]...)
		}
	}
	return nil
}

// each returns the text of an element of each member of a list; the text of the member itself if there is no name.
func (n *node) each(list string, name ...string) (texts []string) {
	if found := n.find(list); found != nil {
		for i := range found.Nodes {
			texts = append(texts, found.Nodes[i].get(name...))
		}
	}
	return texts
}

// response is a response to a request.
type response struct {
	status int
	code   string // of the error
	text   string // the message of the error
	result *node  // the element XResult; nil if there is none
	header http.Header
	body   string
}

// send sends a request. It checks the form of the response.
func (b *bench) send(r *http.Request) response {
	b.t.Helper()
	got, err := b.server.Client().Do(r)
	require.NoError(b.t, err)
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	require.NoError(b.t, err)
	a := response{status: got.StatusCode, header: got.Header, body: string(body)}
	if a.status == http.StatusTeapot {
		return a
	}
	var doc node
	require.NoError(b.t, xml.Unmarshal(body, &doc), "%s", body)
	id := doc.get("ResponseMetadata", "RequestId")
	if doc.XMLName.Local == "ErrorResponse" {
		id, a.code, a.text = doc.get("RequestId"), doc.get("Error", "Code"), doc.get("Error", "Message")
		kind := "Sender"
		if a.status >= 500 {
			kind = "Receiver"
		}
		require.Equal(b.t, kind, doc.get("Error", "Type"))
		require.NotEmpty(b.t, a.code)
		require.NotEmpty(b.t, a.text)
	} else {
		require.Equal(b.t, 200, a.status)
		name := strings.TrimSuffix(doc.XMLName.Local, "Response")
		a.result = doc.find(name + "Result")
	}
	require.Regexp(b.t, "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", id)
	require.Equal(b.t, id, got.Header.Get("X-Amzn-Requestid"))
	require.Equal(b.t, "text/xml", got.Header.Get("Content-Type"))
	require.Equal(b.t, "no-store", got.Header.Get("Cache-Control"))
	require.Regexp(b.t, `^https://(iam.amazonaws.com/doc/2010-05-08|sts.amazonaws.com/doc/2011-06-15)/$`, doc.XMLName.Space)
	return a
}

// as performs an action with credentials. The parameters are names and values.
func (b *bench) as(k key, action string, parameters ...string) response {
	b.t.Helper()
	for _, r := range allRoutes() {
		if r.Name == action {
			s := r.service()
			all := append([]string{"Action", action, "Version", s.version}, parameters...)
			return b.send(b.sign(b.form(all...), k, s.name))
		}
	}
	b.t.Fatalf("unknown action %s", action)
	return response{}
}

// ok performs an action as the root, which must succeed, and returns the result.
func (b *bench) ok(action string, parameters ...string) *node {
	b.t.Helper()
	got := b.as(b.root, action, parameters...)
	require.Equal(b.t, 200, got.status, got.body)
	return got.result
}

// fails performs an action as the root, which must fail.
func (b *bench) fails(status int, code, action string, parameters ...string) string {
	b.t.Helper()
	got := b.as(b.root, action, parameters...)
	require.Equal(b.t, []any{status, code}, []any{got.status, got.code}, got.body)
	return got.text
}

func TestGetCallerIdentity(t *testing.T) {
	b := newBench(t)
	alice := b.user("alice", "")
	_, s, err := b.identities.CreateKey(t.Context(), b.identities.Root(), identity.NewKey{
		Name: "app", Grant: &identity.Grant{Bucket: "b", Access: identity.Read},
	})
	require.NoError(t, err)
	user, err := b.identities.Get(identity.User, b.account, "alice")
	require.NoError(t, err)
	for k, want := range map[key][]string{
		b.root:                     {b.arn("root"), b.account},
		alice:                      {b.arn("user/alice"), user.ID},
		{s.AccessKey, s.SecretKey}: {b.arn("key/app"), "KEYA"},
	} {
		got := b.as(k, "GetCallerIdentity")
		require.Equal(t, 200, got.status)
		require.Equal(t, want[0], got.result.get("Arn"))
		require.Contains(t, got.result.get("UserId"), want[1])
		require.Equal(t, b.account, got.result.get("Account"))
		e := b.events.last()
		require.Equal(t, "GetCallerIdentity", e.Operation)
		require.Equal(t, 200, e.Status)
		require.Equal(t, k.access, e.AccessKey)
		require.Equal(t, got.header.Get("X-Amzn-Requestid"), e.ID)
		require.Equal(t, int64(len("Action=GetCallerIdentity&Version=2011-06-15")), e.In)
		require.Equal(t, int64(len(got.body)), e.Out)
	}

	// A policy cannot deny it.
	_, err = b.identities.PutInlinePolicy(t.Context(), identity.User, b.account, "alice", "deny",
		`{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "*", "Resource": "*"}}`)
	require.NoError(t, err)
	require.Equal(t, 200, b.as(alice, "GetCallerIdentity").status)

	// A presigned URL, as Kubernetes and Vault use it.
	r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.URL+"/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60", nil)
	require.NoError(t, err)
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(t.Context(), aws.Credentials{AccessKeyID: alice.access, SecretAccessKey: alice.secret},
		r, hex.EncodeToString(empty[:]), "sts", "us-east-1", time.Unix(b.clock.Load(), 0))
	require.NoError(t, err)
	get := func() response {
		r, err := http.NewRequestWithContext(t.Context(), "GET", signed, nil)
		require.NoError(t, err)
		return b.send(r)
	}
	require.Equal(t, b.arn("user/alice"), get().result.get("Arn"))
	b.clock.Add(61)
	require.Equal(t, "SignatureDoesNotMatch", get().code)
}

// TestTable checks the rows.
func TestTable(t *testing.T) {
	for _, r := range allRoutes() {
		require.NotNil(t, r.service(), r.Name)
		require.True(t, strings.HasSuffix(string(r.Action), ":"+r.Name), "%s has the permission %s", r.Name, r.Action)
		require.Equal(t, r.Name == "GetCallerIdentity", r.free, "only GetCallerIdentity needs no permission")
	}
	rows := allRoutes()
	_, err := newHandler(Options{}, rows, handlers())
	require.ErrorContains(t, err, "required")
	b := newBench(t)
	o := Options{Identities: b.identities, Authorizer: auth.Owners{}, Lookup: func(context.Context, string, string) (gate.Credential, error) {
		return gate.Credential{}, nil
	}}
	_, err = newHandler(o, rows[1:], handlers())
	require.ErrorContains(t, err, "has no route")
	_, err = newHandler(o, append(rows, rows[0]), handlers())
	require.ErrorContains(t, err, "two routes")
}

func TestAttacks(t *testing.T) {
	b := newBench(t)
	const action, version = "GetCallerIdentity", "2011-06-15"
	plain := func() *http.Request { return b.form("Action", action, "Version", version) }
	signed := func() *http.Request { return b.sign(plain(), b.root, "sts") }
	is := func(status int, code string, r *http.Request) response {
		t.Helper()
		got := b.send(r)
		require.Equal(t, []any{status, code}, []any{got.status, got.code}, got.body)
		return got
	}
	is(200, "", signed())

	// Signatures.
	is(403, "MissingAuthenticationToken", plain())
	is(403, "InvalidClientTokenId", b.sign(plain(), key{"AKIAUNKNOWN", "secret"}, "sts"))
	is(403, "SignatureDoesNotMatch", b.sign(plain(), key{b.root.access, "another secret"}, "sts"))
	require.Empty(t, b.events.last().AccessKey, "the sender is unknown")
	is(400, "InvalidAction", b.sign(plain(), b.root, "iam"))
	is(400, "IncompleteSignature", b.sign(plain(), key{}, "sts"))
	changed := signed()
	other := "Action=" + action + "&Version=" + version + "&"
	changed.Body, changed.ContentLength = io.NopCloser(strings.NewReader(other)), int64(len(other))
	is(403, "SignatureDoesNotMatch", changed)
	changed = signed()
	changed.URL.RawQuery = "Action=" + action
	is(403, "SignatureDoesNotMatch", changed)
	changed = signed()
	changed.Header.Set("X-Amz-Date", time.Unix(b.clock.Load()+1, 0).UTC().Format("20060102T150405Z"))
	is(403, "SignatureDoesNotMatch", changed)
	changed = signed()
	changed.Header.Set("Authorization", strings.Replace(changed.Header.Get("Authorization"), "/sts/", "/iam/", 1))
	is(403, "SignatureDoesNotMatch", changed)
	changed = signed()
	changed.Header.Set("X-Amz-Security-Token", "token")
	is(403, "SignatureDoesNotMatch", changed) // it is not signed
	changed = plain()
	changed.Header.Set("X-Amz-Security-Token", "token")
	is(403, "InvalidClientTokenId", b.sign(changed, b.root, "sts"))
	changed = signed()
	changed.Header.Set("Authorization", strings.Replace(changed.Header.Get("Authorization"), "Signature=", "Sig=", 1))
	is(400, "IncompleteSignature", changed)
	for _, late := range []int64{-16 * 60, 16 * 60} {
		r := signed()
		b.clock.Add(late)
		require.Contains(t, is(403, "SignatureDoesNotMatch", r).text, "15 minutes")
		b.clock.Add(-late)
	}
	b.broken = errors.New("the disk is broken")
	require.NotContains(t, is(500, "InternalFailure", signed()).body, "disk")
	require.Equal(t, b.broken, b.events.last().Cause)
	b.broken = nil

	// Requests of S3.
	for _, r := range []*http.Request{
		b.sign(plain(), b.root, "s3"), b.sign(plain(), b.root, "iam/"), b.sign(plain(), b.root, "STS"),
	} {
		is(http.StatusTeapot, "", r)
	}
	r := plain()
	r.Header.Set("Content-Type", "multipart/form-data; boundary=B")
	is(http.StatusTeapot, "", r)
	r = plain()
	r.Header.Set("Authorization", "AWS "+b.root.access+":c2lnbmF0dXJl")
	is(http.StatusTeapot, "", r)
	r = plain()
	r.URL.RawQuery = "AWSAccessKeyId=" + b.root.access + "&Signature=c2lnbmF0dXJl&Expires=1900000000"
	is(http.StatusTeapot, "", r)
	for _, method := range []string{"PUT", "DELETE", "HEAD", "OPTIONS"} {
		r = plain()
		r.Method = method
		is(http.StatusTeapot, "", b.sign(r, b.root, "sts"))
	}
	r = plain()
	r.Method, r.URL.RawQuery = "GET", "Action="+action
	is(http.StatusTeapot, "", r)

	// Parameters.
	send := func(status int, code, body string) string {
		t.Helper()
		return is(status, code, b.sign(b.post(body), b.root, "sts")).text
	}
	send(400, "MissingAction", "")
	send(400, "MissingAction", "Version=2011-06-15")
	send(400, "InvalidAction", "Action=GetCallerIdentity")
	send(400, "InvalidAction", "Action=GetCallerIdentity&Version=2010-05-08")
	send(400, "InvalidAction", "Action=getcalleridentity&Version=2011-06-15")
	send(400, "InvalidAction", "Action=ListUsers&Version=2011-06-15")
	require.Equal(t, "Could not find operation Nothing<> for version 2011-06-15", send(400, "InvalidAction", "Action=Nothing<>&Version=2011-06-15"))
	send(400, "MalformedQueryString", "Action=GetCallerIdentity&Action=GetCallerIdentity&Version=2011-06-15")
	send(400, "MalformedQueryString", "Action=GetCallerIdentity&Version=2011-06-15&Version=2011-06-15")
	send(400, "MalformedQueryString", "Action=GetCallerIdentity&Version=2011-06-15&x=%zz")
	send(400, "MalformedQueryString", "Action=GetCallerIdentity&Version=2011-06-15;x=y")
	send(400, "MalformedQueryString", "Action=GetCallerIdentity&Version=2011-06-15&x=%ff")
	send(400, "MalformedQueryString", "Action=GetCallerIdentity&Version=2011-06-15&x=%00")
	require.Contains(t, send(400, "ValidationError", "Action=GetCallerIdentity&Version=2011-06-15&UserName=alice"), "UserName")
	r = plain()
	r.URL.RawQuery = "Action=" + action
	is(400, "MalformedQueryString", b.sign(r, b.root, "sts"))
	r = plain()
	r.Header.Set("Content-Type", "application/json")
	is(400, "MalformedQueryString", b.sign(r, b.root, "sts"))

	// Sizes.
	large := "Action=GetCallerIdentity&Version=2011-06-15&x=" + strings.Repeat("a", maxBody)
	send(413, "RequestEntityTooLarge", large)
	r = b.sign(b.post(large), b.root, "sts")
	r.ContentLength = -1
	is(413, "RequestEntityTooLarge", r)
}

// A client that does not send its body occupies a request only for a limited time, and cannot keep others out.
func TestSlowBodies(t *testing.T) {
	b := newBenchWith(t, func(o *Options) { o.BodyTimeout, o.MaxInFlight = 200*time.Millisecond, 1 })
	c, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	r := b.sign(b.form("Action", "GetCallerIdentity", "Version", "2011-06-15"), b.root, "sts")
	_, err = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nX-Amz-Date: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\nA",
		r.URL.Host, r.Header.Get("Authorization"), r.Header.Get("X-Amz-Date"), r.Header.Get("Content-Type"), r.ContentLength)
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(answer), "<Code>MalformedQueryString</Code>")
	require.Equal(t, 200, b.as(b.root, "GetCallerIdentity").status)
}

func TestBusy(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	var first sync.Once
	b := newBenchWith(t, func(o *Options) {
		o.MaxInFlight = 1
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, accessKey, token string) (gate.Credential, error) {
			first.Do(func() {
				begun <- struct{}{}
				<-end
			})
			return lookup(ctx, accessKey, token)
		}
	})
	done := make(chan int)
	go func() { done <- b.as(b.root, "GetCallerIdentity").status }()
	<-begun
	got := b.as(b.root, "GetCallerIdentity")
	require.Equal(t, []any{503, "ServiceUnavailable", "1"}, []any{got.status, got.code, got.header.Get("Retry-After")})
	close(end)
	require.Equal(t, 200, <-done)
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{core.E("op", core.NoSpace, nil), 507, "ServiceFailure"},
		{core.E("op", core.ReadOnly, nil), 503, "ServiceUnavailable"},
		{core.E("op", core.NoKey, errors.New("there is no key")), 500, "InternalFailure"},
		{errors.New("anything"), 500, "InternalFailure"},
		{&identity.Error{Code: identity.NoSuchEntity, Text: "text"}, 404, "NoSuchEntity"},
		{&identity.Error{Code: identity.TooMany, Text: "text"}, 409, "LimitExceeded"},
		{&identity.Error{Code: "unknown", Text: "text"}, 500, "InternalFailure"},
	} {
		e := toError(c.err)
		require.Equal(t, []any{c.status, c.code}, []any{e.status, e.code})
	}
}
