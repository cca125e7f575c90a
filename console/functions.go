package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orcas/auth"
	"orcas/gate"
	"orcas/gate/session"
	"orcas/internal/sigv4"
)

// maxBody is the maximum size of a JSON document from the page, in bytes.
const maxBody = 64 << 10

// respond sends a JSON document.
func respond(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // an error here means that the client has disconnected
}

// document returns a handler for a function of the page: its body and its response are JSON documents, and the caller has
// a session. An error is {"error": "..."} with status 400.
func document[In any](h *Handler, fn func(r *http.Request, id *gate.Identity, in *In) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := gate.Authenticate([]gate.Scheme{h.o.Sessions.Scripts()}, r)
		if err == nil && id.Principal.IsAnonymous() {
			err = session.ErrEnded
		}
		if err != nil {
			session.Refuse(w, err)
			return
		}
		var in In
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = json.Unmarshal(body, &in)
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, errors.New("the request body is not a valid JSON document"))
			return
		}
		out, err := fn(r, &id, &in)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		respond(w, http.StatusOK, out)
	}
}

// presignRequest asks for a link.
type presignRequest struct {
	Bucket  string `json:"bucket"`
	Key     string `json:"key"`
	Version string `json:"version"`
	Seconds int64  `json:"seconds"` // for which the link is valid
	Method  string `json:"method"`  // GET or PUT
	Inline  bool   `json:"inline"`  // a browser may show the object instead of saving it
}

// presigned is a link.
type presigned struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}

// presign makes a link that is signed with the access key of the session. Everybody who knows an access key and its
// secret can make such a link, so it needs no permission: S3 decides about the request with the link, as if the user
// had sent it.
func (h *Handler) presign(r *http.Request, id *gate.Identity, in *presignRequest) (any, error) {
	switch {
	case in.Bucket == "" || in.Key == "" || strings.Contains(in.Bucket, "/"):
		return nil, errors.New("a link needs a bucket and a key")
	case in.Method != http.MethodGet && in.Method != http.MethodPut:
		return nil, fmt.Errorf("the method must be GET or PUT, not %q", in.Method)
	case in.Seconds < 1 || in.Seconds > int64(sigv4.MaxExpires/time.Second):
		return nil, fmt.Errorf("a link is valid for 1 to %d seconds", int64(sigv4.MaxExpires/time.Second))
	}
	c, err := h.o.Lookup(r.Context(), id.AccessKey, id.SecurityToken)
	if err != nil || !id.SignedWith(c.SecretKey) {
		return nil, errors.New("the access key has changed: sign in again")
	}
	q := url.Values{}
	if in.Version != "" {
		q.Set("versionId", in.Version)
	}
	if in.Method == http.MethodGet && !in.Inline {
		q.Set("response-content-disposition", attachment(in.Key))
	}
	path := "/" + in.Bucket + "/" + in.Key
	link, err := http.NewRequest(in.Method, h.o.PublicURL, nil)
	if err != nil {
		return nil, err
	}
	link.URL.Path, link.URL.RawPath = path, sigv4.Escape(path)
	link.URL.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	s := &sigv4.Signer{AccessKey: id.AccessKey, SecretKey: c.SecretKey, Region: h.o.Region, SecurityToken: id.SecurityToken}
	now, valid := h.o.Now(), time.Duration(in.Seconds)*time.Second
	return &presigned{s.Presign(link, valid, now), now.Add(valid).UTC()}, nil
}

// allowedRequest asks which actions of S3 the caller may perform.
type allowedRequest struct {
	Bucket  string        `json:"bucket"` // "": some bucket, which may not exist yet
	Key     string        `json:"key"`    // "": some key that begins with the prefix
	Prefix  string        `json:"prefix"`
	Actions []auth.Action `json:"actions"`
}

// maxActions is the maximum number of actions in one question of the page.
const maxActions = 64

// allowed returns which actions the caller could perform, so that the page shows no others: "allow", "implicitDeny" or
// "explicitDeny" for each. It is about the caller alone, who can find out the same by requests, so it needs no permission.
func (h *Handler) allowed(r *http.Request, id *gate.Identity, in *allowedRequest) (any, error) {
	on := auth.Resource{Bucket: in.Bucket, Key: in.Key, Scope: auth.Perhaps}
	switch {
	case len(in.Actions) == 0 || len(in.Actions) > maxActions:
		return nil, fmt.Errorf("expected 1 to %d actions, not %d", maxActions, len(in.Actions))
	case in.Bucket == "" && in.Key+in.Prefix != "" || in.Key != "" && in.Prefix != "" || strings.Contains(in.Bucket, "/"):
		return nil, errors.New("expected a bucket with a key, with a prefix, or with neither")
	case in.Key == "":
		on.Key, on.Scope = in.Prefix, auth.Below
	}
	decisions, err := h.o.S3.Could(r, id, on, in.Actions)
	if err != nil {
		return nil, err
	}
	out := make(map[auth.Action]string, len(decisions))
	for i, a := range in.Actions {
		switch {
		case decisions[i] == nil:
			out[a] = "allow"
		case errors.Is(decisions[i], auth.ErrExplicitDeny):
			out[a] = "explicitDeny"
		default:
			out[a] = "implicitDeny"
		}
	}
	return map[string]any{"decisions": out}, nil
}

// testKeyRequest asks for a test of an access key.
type testKeyRequest struct {
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Bucket    string `json:"bucket"`
	Prefix    string `json:"prefix"`
}

// tested is the result of a test.
type tested struct {
	Steps []testStep `json:"steps"`
}

// testStep is a request of a test.
type testStep struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// testTimeout is the time that all requests of a test may take together.
const testTimeout = 20 * time.Second

// testKey uploads an object with an access key, reads it back, and deletes it: signed requests over a connection to this
// server's own endpoint, and to no other.
func (h *Handler) testKey(r *http.Request, _ *gate.Identity, in *testKeyRequest) (any, error) {
	if in.AccessKey == "" || in.SecretKey == "" || in.Bucket == "" || strings.Contains(in.Bucket, "/") {
		return nil, errors.New("a test needs an access key, its secret, and a bucket")
	}
	ctx, cancel := context.WithTimeout(r.Context(), testTimeout)
	defer cancel()
	transport := &http.Transport{
		// The peer is this process. Its certificate may be for other names than that of the listener.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	signer := &sigv4.Signer{AccessKey: in.AccessKey, SecretKey: in.SecretKey, Region: h.o.Region}
	path := "/" + in.Bucket + "/" + in.Prefix + "orcas-test-" + rand.Text()
	content := []byte("A test of the console: " + rand.Text() + "\n")
	send := func(method string, body []byte) ([]byte, error) {
		q, err := http.NewRequestWithContext(ctx, method, h.o.Endpoint, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		q.URL.Path, q.URL.RawPath = path, sigv4.Escape(path)
		sum := sha256.Sum256(body)
		signer.Sign(q, hex.EncodeToString(sum[:]), h.o.Now())
		response, err := client.Do(q)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		got, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
		if err == nil && response.StatusCode/100 != 2 {
			err = errors.New(codeOf(response.StatusCode, got))
		}
		return got, err
	}
	out := &tested{}
	step := func(name string, fn func() error) bool {
		began := time.Now()
		err := fn()
		s := testStep{Name: name, Seconds: time.Since(began).Seconds()}
		if err != nil {
			s.Error = err.Error()
		}
		out.Steps = append(out.Steps, s)
		return err == nil
	}
	uploaded := step("Upload", func() error { _, err := send(http.MethodPut, content); return err })
	if !uploaded {
		return out, nil
	}
	step("Read back and compare", func() error {
		got, err := send(http.MethodGet, nil)
		if err == nil && !bytes.Equal(got, content) {
			err = errors.New("the content is not the one that was uploaded")
		}
		return err
	})
	step("Delete", func() error { _, err := send(http.MethodDelete, nil); return err })
	return out, nil
}
