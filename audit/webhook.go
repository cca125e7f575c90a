package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// webhook is a target that sends records by POST, as lines of JSON. A response with a status of 200 to 299 means that
// the receiver has them. After any other response, or none, they are sent again, so the receiver may get some of them
// twice; a record has the ID of its request.
type webhook struct {
	url    string
	token  func() (string, error) // nil for none
	client *http.Client
}

const (
	postBytes   = 1 << 20 // the largest body of a POST, unless a single record is larger
	postTimeout = 20 * time.Second
)

// CheckURL returns an error if a URL cannot be that of a webhook. Plain HTTP is accepted for this machine only, because
// records name people and objects.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("expected a URL that begins with https://") // the URL may contain a secret
	case u.User != nil:
		return errors.New("the URL must not contain a password: use a file with a token")
	case u.Fragment != "":
		return errors.New("the URL must not have a fragment")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return errors.New("expected https://: http:// is accepted for this machine only, because records name people and objects")
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// redacted returns a URL without its path and query, which may contain secrets.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func newWebhook(o Options) *webhook {
	return &webhook{url: o.URL, token: o.Token, client: &http.Client{
		Timeout: postTimeout,
		// Only this host was configured to receive records and the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: postTimeout / 2},
	}}
}

// write implements target.
func (w *webhook) write(ctx context.Context, records []byte) (written int, err error) {
	for written < len(records) {
		part := records[written:]
		if len(part) > postBytes {
			end := bytes.LastIndexByte(part[:postBytes], '\n')
			if end < 0 {
				end = bytes.IndexByte(part, '\n')
			}
			part = part[:end+1]
		}
		if err := w.post(ctx, part); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

// post sends records in one request.
func (w *webhook) post(ctx context.Context, records []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(records))
	if err != nil {
		return errors.New("the URL is not valid")
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("User-Agent", "orcas-audit")
	if w.token != nil {
		token, err := w.token()
		if err != nil {
			return fmt.Errorf("the token cannot be read: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := w.client.Do(r)
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err // without the URL, which may contain a secret
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection can be used again
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("expected a response with status 200 to 299, got %s", response.Status)
	}
	return nil
}

// close implements target.
func (w *webhook) close() { w.client.CloseIdleConnections() }
