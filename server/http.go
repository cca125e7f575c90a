package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"orcas/admin"
	"orcas/auth"
	"orcas/auth/access"
	"orcas/gate"
	"orcas/gate/limit"
	"orcas/iam"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/s3/heads"
)

// The number of wrong signatures that an address may send at once for an access key, and the interval in which it may
// send another one: see gate.Throttle. Programs that use S3 with a wrong secret send many requests.
const (
	wrongSignatures           = 1000
	wrongSignaturesEvery      = 100 * time.Millisecond
	wrongAdminSignatures      = 30
	wrongAdminSignaturesEvery = 2 * time.Second
)

// serveHTTP sets up the HTTP server for S3 and for health checks.
func (s *Server) serveHTTP() error {
	set := &s.config.Settings
	s.listener.throttle = gate.NewThrottle(wrongSignatures, wrongSignaturesEvery, s.now, s.log)
	system := &health{version: Version(), durability: set.Durability, state: s.state, comparing: s.comparing}
	system.full = func(ctx context.Context) bool {
		d, err := set.MinFree.drive(ctx, s.blocks)
		return err == nil && isFull(d)
	}
	if set.Durability == Relaxed {
		system.lag = s.lag
	}
	observers := []gate.Observer{s.identities, &s.tally}
	authorizer, limits := access.New(s.identities.Caller), s.limits()
	apis, err := s.apis(system, authorizer, limits, observers)
	if err != nil {
		return err
	}
	options := s3.Options{
		FS:         s.fs,
		Lookup:     s.lookup(),
		Authorizer: authorizer,
		Region:     set.Region,
		IDs:        s.ids,
		Domains:    set.Domains,
		APIs:       apis,
		Observers:  slices.Concat(observers, []gate.Observer{s.counts.s3}, s.view.observers("s3")),
		Logger:     s.log,
		AccessLog:  s.accessLog(),
		Live:       s.live,
		Now:        s.config.Now,

		Principals: s.identities,
		Switches: s3.Switches{
			OpenBuckets: set.OpenBuckets, CustomerKeysOverHTTP: set.SSECOverHTTP, EscapingKeys: set.EscapingKeys,
			Limits: limits,
		},
		SignatureV2: set.SignatureV2,
		CORSOrigins: set.CORSOrigins,
	}
	handler, err := s3.New(options)
	if err != nil {
		return err
	}
	if s.adminListen != nil {
		if err := s.serveAdmin(system, &options); err != nil {
			return err
		}
	}
	if err := (readings{s}).add(handler); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.requests.Add(1)
			s.handlers.Add(1)
			defer s.handlers.Done()
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelInfo),
	}
	s.listener.install(s.http, s.counted(http.HandlerFunc(handler.Busy)))
	s.refuseHead, s.view.inFlight, s.view.unsent = handler.RefuseHead, handler.InFlight, handler.Unsent
	heads.Watch(s.http)
	return s.configureTLS()
}

// apis returns the APIs that share the listener of S3: health checks, and IAM with STS.
func (s *Server) apis(health http.Handler, authorizer auth.Authorizer, limits *limit.Limits, observers []gate.Observer) ([]gate.API, error) {
	list := []gate.API{{Name: "health", Path: "/-/*", Handler: health}}
	if s.config.Settings.NoIAM {
		return list, nil
	}
	handler, err := iam.New(iam.Options{
		Identities: s.identities, Lookup: s.lookup(), Authorizer: authorizer, Now: s.config.Now,
		Limits:    limits,
		Observers: slices.Concat([]gate.Observer{s3.AccessLog(s.log, s.accessLog()), s.counts.iam}, observers, s.view.observers("iam")),
	})
	return append(list, gate.API{Name: "iam", Path: "/", Accepts: iam.Accepts, Handler: handler}), err
}

// now returns the time of the clock of the server.
func (s *Server) now() time.Time {
	if s.config.Now != nil {
		return s.config.Now()
	}
	return time.Now()
}

// serveAdmin sets up the HTTP server of the admin listener, for the admin API, the console and health checks. s3Options
// are those of the listener of S3.
func (s *Server) serveAdmin(health http.Handler, s3Options *s3.Options) error {
	verifier := &sigv4.Verifier{Region: s.config.Settings.Region, AnyRegion: true, Now: s.config.Now}
	s.adminListen.throttle = gate.NewThrottle(wrongAdminSignatures, wrongAdminSignaturesEvery, s.now, s.log)
	authorizer := access.New(s.identities.Caller)
	tools := s.tools()
	console := openConsole(s, &tools)
	handler, err := admin.New(admin.Options{
		Schemes: console.schemes(gate.SigV4(verifier, s.lookup())), Account: s.identities.Root().Account, Logger: s.log, Now: s.config.Now,
		Authorizer: authorizer,
		APIs:       []gate.API{{Name: "health", Path: "/-/health/*", Handler: health}, readings{s}.api()},
		Observers:  append([]gate.Observer{s.counts.admin}, s.view.observers("admin")...),
		Store: admin.Store{
			Backup: backups{s}.write, Backups: backups{s}.list, Meta: s.meta, Blocks: s.blocks, Writer: s.writer, FS: s.fs, Reclaimer: s.reclaimer,
			Scrubber: s.scrubber, Lifecycle: s.lifecycle, Rotator: s.rotator, Keys: s.identities, Lookup: s.lookup(), Access: authorizer, Apply: s.apply, Endpoint: s.Endpoint(), Compare: s.compare, Logger: s.log, Tools: tools,
			Now: s.config.Now, Go: func(work func(context.Context)) { s.background.Go(func() { work(s.life) }) },
		},
	})
	if err != nil {
		return err
	}
	served, err := console.serve(handler, s3Options)
	if err != nil {
		return err
	}
	s.admin = &http.Server{
		Handler: s.counted(served), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelInfo),
	}
	s.adminListen.install(s.admin, http.HandlerFunc(admin.Busy))
	return s.configureAdminTLS()
}

// accessLog returns the writer to which package s3 itself writes access lines, in JSON. If it is nil, they go through
// the logger, which filters them.
func (s *Server) accessLog() io.Writer {
	if mode, format := s.config.logging(); mode == LogRequests && format == LogJSON {
		return requestLines{s}
	}
	return nil
}

// configureTLS sets up HTTPS and HTTP/2 if the configuration asks for them.
func (s *Server) configureTLS() error {
	c := &s.config
	if c.SelfSigned {
		c.TLSCert, c.TLSKey = filepath.Join(c.Data, selfSignedCert), filepath.Join(c.Data, selfSignedKey)
	}
	if c.TLSCert == "" {
		return nil
	}
	certificate, err := s.certificate(c.Address, c.TLSCert, c.TLSKey, c.SelfSigned)
	if err != nil {
		return err
	}
	s.view.cert, s.http.TLSConfig = certificate, certificate.config()
	s.http.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          128,
		MaxReadFrameSize:              64 << 10,
		MaxReceiveBufferPerConnection: 4 << 20,
		MaxReceiveBufferPerStream:     1 << 20,
		SendPingTimeout:               30 * time.Second,
		PingTimeout:                   15 * time.Second,
		WriteByteTimeout:              bodyTimeout,
	}
	return nil
}

// configureAdminTLS sets up HTTPS on the admin listener if the configuration asks for it. HTTP/2 has no use there.
func (s *Server) configureAdminTLS() (err error) {
	c := &s.config
	if c.AdminSelfSigned {
		c.AdminTLSCert, c.AdminTLSKey = filepath.Join(c.Data, AdminCertificateFile), filepath.Join(c.Data, adminSignedKey)
	}
	if c.AdminTLSCert == "" {
		return nil
	}
	if s.adminCert, err = s.certificate(c.Admin, c.AdminTLSCert, c.AdminTLSKey, c.AdminSelfSigned); err != nil {
		return err
	}
	s.admin.TLSConfig = s.adminCert.config()
	s.admin.Protocols = new(http.Protocols)
	s.admin.Protocols.SetHTTP1(true)
	return nil
}

// certificate returns the certificate in a pair of files. If it is self-signed, it is created for the host of a listen
// address.
func (s *Server) certificate(address, certFile, keyFile string, createIt bool) (*certificate, error) {
	if createIt {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if err := selfSigned(certFile, keyFile, localNames(host, s.config.Settings.Domains), time.Now()); err != nil {
			return nil, fmt.Errorf("self-signed certificate: %w", err)
		}
	}
	return newCertificate(certFile, keyFile, s.log)
}

// Endpoint returns the URL that clients use.
func (s *Server) Endpoint() string {
	scheme := "http"
	if s.config.TLSCert != "" || s.config.SelfSigned {
		scheme = "https"
	}
	addr := s.listener.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// AdminAddress returns the address of the admin listener, or "" if there is none.
func (s *Server) AdminAddress() string {
	if s.adminListen == nil {
		return ""
	}
	return s.adminListen.Addr().String()
}

// AdminEndpoint returns the URL of the admin API, or "" if there is none.
func (s *Server) AdminEndpoint() string {
	switch {
	case s.adminListen == nil:
		return ""
	case s.config.adminTLS():
		return "https://" + s.AdminAddress()
	}
	return "http://" + s.AdminAddress()
}
