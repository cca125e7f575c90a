package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"orcas/admin"
	"orcas/auth"
	"orcas/console"
	"orcas/gate"
	"orcas/gate/session"
	"orcas/s3"
)

// adminSide is the admin listener and what it serves.
type adminSide struct {
	adminListen *limitListener // nil if there is none
	admin       *http.Server
	adminCert   *certificate // nil without TLS
	console     *consoleSide // nil if there is none
}

// consoleSide is the console of a server. A nil *consoleSide serves the admin API alone.
type consoleSide struct {
	server   *Server
	sessions *session.Sessions
}

// ConsoleSettings configure the console.
type ConsoleSettings struct {
	NoConsole  bool     // ORCAS_CONSOLE=off
	ConsoleURL *url.URL // ORCAS_CONSOLE_URL, with "/" at the end of the path; nil: the admin address
	PublicURL  string   // ORCAS_PUBLIC_URL; "": the endpoint
}

// setConsoleURL sets the URL of the admin listener that browsers use.
func setConsoleURL(s *Settings, v string) (err error) {
	if s.ConsoleURL, err = parseBaseURL(v); err != nil {
		return err
	}
	base := s.ConsoleURL
	base.Path = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/console") + "/"
	return nil
}

// setPublicURL sets the URL of S3 for people elsewhere. A path would not be part of what is signed.
func setPublicURL(s *Settings, v string) error {
	u, err := parseBaseURL(v)
	if err != nil {
		return err
	}
	if strings.Trim(u.Path, "/") != "" {
		return errors.New("the URL must not have a path, because signatures would not match behind it")
	}
	s.PublicURL = u.Scheme + "://" + u.Host
	return nil
}

// parseBaseURL parses the URL of a server. Its error does not repeat the text, which may contain a password.
func parseBaseURL(v string) (*url.URL, error) {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("expected a URL such as https://storage.example.com, without a user, a query and a fragment")
	}
	return u, nil
}

// openConsole returns the console if the settings do not switch it off, and adds its tools to those of the admin API.
func openConsole(s *Server, tools *admin.Tools) *consoleSide {
	set := &s.config.Settings
	if set.NoConsole {
		return nil
	}
	store := sha256.Sum256([]byte("ORCAS console " + s.identities.Root().Account))
	c := &consoleSide{s, session.New(session.Options{
		// Cookies do not know ports, so servers on one host need different names.
		Lookup: s.lookup(), Cookie: "orcas-" + hex.EncodeToString(store[:4]), Now: s.config.Now,
		Secure: s.config.adminTLS() || set.ConsoleURL != nil && set.ConsoleURL.Scheme == "https",
	})}
	tools.LoginLink = c.loginLink
	s.console = c
	return c
}

// schemes returns the schemes of the admin API: that of signatures and, with a console, sessions.
func (c *consoleSide) schemes(signatures gate.Scheme) []gate.Scheme {
	if c == nil {
		return []gate.Scheme{signatures}
	}
	return []gate.Scheme{c.sessions.Scripts(), signatures}
}

// serve returns the handler of the admin listener: the admin API and, with a console, its pages, its sessions, and S3 for
// its sessions.
func (c *consoleSide) serve(api *admin.Handler, options *s3.Options) (http.Handler, error) {
	if c == nil {
		return api, nil
	}
	s := c.server
	mounted := *options
	mounted.APIs, mounted.Domains = nil, nil
	mounted.Schemes = []gate.Scheme{c.sessions}
	objects, err := s3.New(mounted)
	if err != nil {
		return nil, err
	}
	signIn := &session.Handler{
		Sessions: c.sessions, Logger: s.log, Observers: append([]gate.Observer{s.counts.admin}, s.view.observers("admin")...),
		About: func(r *http.Request, p *auth.Principal) session.About {
			return session.About{
				Allowed: api.Allowed(r, p), Endpoint: s.Endpoint(), PublicURL: cmp.Or(s.config.Settings.PublicURL, s.Endpoint()),
				Region: s.config.Settings.Region, Version: Version(),
			}
		},
	}
	pages, err := console.New(console.Options{
		Sessions: c.sessions, SignIn: signIn, S3: objects, Admin: api, Knows: c.knows, Lookup: s.lookup(), Region: s.config.Settings.Region,
		PublicURL: cmp.Or(s.config.Settings.PublicURL, s.Endpoint()), Endpoint: s.Endpoint(), Now: s.config.Now, Logger: s.log,
	})
	if err != nil {
		return nil, err
	}
	protection := http.NewCrossOriginProtection()
	if base := s.config.Settings.ConsoleURL; base != nil {
		if err := protection.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
			return nil, err
		}
	}
	return protection.Handler(pages), nil
}

// knows reports whether browsers may address the console by a name, which has no port. Other names may belong to a page
// that has pointed its own name at this machine, and so counts as the same origin (DNS rebinding).
func (c *consoleSide) knows(name string) bool {
	s := c.server
	host, _, _ := net.SplitHostPort(s.config.Admin) // the listener has accepted it
	base := s.config.Settings.ConsoleURL
	switch {
	case base != nil && strings.EqualFold(name, base.Hostname()):
		return true
	case net.ParseIP(name) != nil: // nobody can point an address elsewhere
		return true
	case s.adminCert != nil && s.adminCert.covers(name):
		return true
	}
	return slices.Contains(localNames(host, nil), name)
}

// loginLink implements admin.LoginLinks.
func (c *consoleSide) loginLink(ctx context.Context, accessKey, token string) (string, time.Time, error) {
	secret, ends, err := c.sessions.NewLink(ctx, accessKey, token)
	return c.url() + "#link=" + secret, ends, err
}

// url returns the URL of the console.
func (c *consoleSide) url() string {
	if base := c.server.config.Settings.ConsoleURL; base != nil {
		return base.String() + "console/"
	}
	host, port, _ := net.SplitHostPort(c.server.AdminAddress()) // it has a port
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme, _, _ := strings.Cut(c.server.AdminEndpoint(), ":")
	return scheme + "://" + net.JoinHostPort(host, port) + "/console/"
}
