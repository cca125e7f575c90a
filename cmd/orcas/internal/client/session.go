package client

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"orcas/internal/build"
	"orcas/sdk"
	"orcas/sdk/profile"
)

// session is what a command works with: the clients of its addresses, and its output.
type session struct {
	*Console
	ctx      context.Context
	profiles *profile.Profiles
	remotes  map[string]*remote
	out      *output
	bar      *progress
	settings sdk.Config // of all clients: the bandwidth
	level    string     // --ref-level, "" if not given
	now      func() time.Time
	quiet    bool
	transfer *transfer // nil for commands that transfer nothing
}

// remote is a server with the credentials of a profile.
type remote struct {
	*sdk.Client
	session *session
	profile *profile.Profile
	at      Address // of the profile, without a bucket
}

// start begins the session of a command.
func (c *connection) start(ctx context.Context, console *Console) (*session, error) {
	profiles, err := profile.Load(profile.Options{
		Environ: console.Environ, Endpoint: c.Endpoint, Region: c.Region, CABundle: c.CA, Anonymous: c.Anonymous, Data: c.Data,
	})
	if err != nil {
		return nil, configuration(err)
	}
	return &session{
		Console: console, ctx: ctx, profiles: profiles, remotes: map[string]*remote{}, now: time.Now,
		out: newOutput(console.Stdout, c.JSON, isTerminal(console.Stdout)),
	}, nil
}

// open begins the session of a command that needs only the server of one address.
func (c *connection) open(ctx context.Context, console *Console, at Address) (*session, *remote, error) {
	s, err := c.start(ctx, console)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.open(at)
	if err != nil {
		return nil, nil, s.end(err)
	}
	return s, r, nil
}

// startTransfer begins the session of a command that transfers content.
func (c *connection) startTransfer(ctx context.Context, console *Console, t *transfer) (*session, error) {
	s, err := c.start(ctx, console)
	if err != nil {
		return nil, err
	}
	s.transfer, s.level, s.quiet = t, t.RefLevel, t.Quiet
	s.settings.Bandwidth = sdk.NewBandwidth(int64(t.Bandwidth))
	if t.Parallel > 64 {
		s.settings.Connections = 2 * t.Parallel
	}
	if !t.NoProgress && !t.Quiet && isTerminal(console.Stderr) {
		s.bar = newProgress(console.Stderr)
		if isTerminal(console.Stdout) {
			s.out.redirect(s.bar)
		}
	}
	return s, nil
}

// configuration returns an error about the configuration with its exit status.
func configuration(err error) error {
	return &statusError{StatusUsage, err.Error(), err}
}

// open returns the server of an address.
func (s *session) open(a Address) (*remote, error) {
	if r := s.remotes[a.Profile]; r != nil {
		return r, nil
	}
	p, err := s.profiles.Get(a.Profile)
	if err != nil {
		return nil, configuration(err)
	}
	config, err := p.Config()
	if err != nil {
		return nil, configuration(err)
	}
	config.UserAgent = "orcas/" + build.Read().Version
	config.Bandwidth, config.Connections = s.settings.Bandwidth, s.settings.Connections
	if config.RefLevel, err = s.refLevel(p); err != nil {
		return nil, configuration(err)
	}
	client, err := sdk.New(config)
	if err != nil {
		return nil, configuration(errors.New(strings.TrimPrefix(err.Error(), "sdk: ")))
	}
	r := &remote{Client: client, session: s, profile: p, at: Address{Profile: a.Profile}}
	s.remotes[a.Profile] = r
	return r, nil
}

// refLevel returns how the client uses instant upload: the flag, the profile, the environment, or FAST.
func (s *session) refLevel(p *profile.Profile) (sdk.RefLevel, error) {
	for _, level := range []string{s.level, p.RefLevel} {
		if level != "" {
			return sdk.ParseRefLevel(level)
		}
	}
	return sdk.RefFast, nil
}

// end ends the session: it removes the progress, prints what is buffered, and returns err with its exit status, or the
// error of the output.
func (s *session) end(err error) error {
	if s.bar != nil {
		s.out.redirect(s.Stdout)
		s.bar.end()
	}
	for _, r := range s.remotes {
		r.Close()
	}
	flushed := s.out.flush()
	if err != nil {
		return s.explain(Address{Local: true}, err)
	}
	if flushed != nil {
		return &statusError{StatusDisk, "cannot write the output: " + flushed.Error(), flushed}
	}
	return nil
}

// address returns the address of something at the server.
func (r *remote) address(bucket, key string) Address {
	a := r.at
	a.Bucket, a.Key = bucket, key
	return a
}

// explain returns the error of an operation for people; see session.explain.
func (r *remote) explain(err error) error { return r.session.explain(r.at, err) }

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// tell prints a line for people, unless --quiet is set.
func (s *session) tell(format string, args ...any) {
	if !s.quiet {
		s.out.line(format, args...)
	}
}

// complain prints an error of one of several objects on the standard error, above the progress.
func (s *session) complain(err error) {
	w := s.Stderr
	if s.bar != nil {
		w = s.bar
	}
	_, _ = io.WriteString(w, "orcas: "+strings.ReplaceAll(err.Error(), "\n", "; ")+"\n")
}
