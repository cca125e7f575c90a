package admin

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// LoginLinks returns a URL with which the holder of an access key can sign in to the console once, and the time at which
// it expires. token is the session token of temporary credentials.
type LoginLinks func(ctx context.Context, accessKey, token string) (url string, expires time.Time, err error)

// LoginLink is the response to POST /-/admin/login-link.
type LoginLink struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}

// loginLink makes a link with which the caller can sign in to the console. A session cannot make one, because it would
// live on in the next session for ever.
func (s *Store) loginLink(r *http.Request) (any, error) {
	c, ok := r.Context().Value(callKey{}).(*call)
	if !ok || c.sender.Session {
		return nil, &refusal{http.StatusForbidden, errors.New("a session cannot make a link to sign in: use orcas admin login-link")}
	}
	if s.Tools.LoginLink == nil {
		return nil, invalid("admin.login-link", "the server has no console: it was started with ORCAS_CONSOLE=off")
	}
	url, expires, err := s.Tools.LoginLink(r.Context(), c.sender.AccessKey, c.sender.SecurityToken)
	if err != nil {
		return nil, err
	}
	return &LoginLink{url, expires.UTC()}, nil
}
