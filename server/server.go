// Package server is a whole ORCAS server: it opens the drivers of a data directory, recovers, wires the packages
// together, listens, and stops in order. Command orcas runs one; tests boot one.
//
// A start takes these steps, each of which can fail with one clear message: check the files that the configuration
// names; bind the address; create the data directory and lock it; open the blocks and the metadata; replay pending
// changes; read the credentials; read the certificate; create the configured buckets. Clients that connect in the
// meantime wait in the kernel's queue, so they never get a response from a server that has not finished starting.
//
// A shutdown runs in the opposite order: it refuses new connections, gives requests in flight time to finish, flushes
// the write buffer, and closes the drivers.
//
// The server itself keeps these files in the data directory: CredentialsFile, which the first start creates if the
// environment has no credentials; IdentityKeyFile, with the key that encrypts the secrets of access keys;
// BootstrapKeysFile, with the keys that a bootstrap file has created; MetricsFile; UsageFile; and the certificates self-signed.crt
// and admin-self-signed.crt, with their keys. All other files belong to the drivers.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"orcas/admin"
	"orcas/auth/identity"
	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/ids"
	"orcas/gate"
	"orcas/internal/durable"
	"orcas/internal/live"
	"orcas/internal/mutant"
	"orcas/lease"
	"orcas/lifecycle"
	"orcas/reclaim"
	"orcas/s3"
	"orcas/s3/heads"
	"orcas/scrub"
	"orcas/survey"
	"orcas/vfs"
)

// Config is the configuration of a Server.
type Config struct {
	Data       string // the data directory; created if it does not exist
	Address    string // HOST:PORT; port 0 means any free port
	Admin      string // HOST:PORT of the admin listener (see package admin); "" for none
	TLSCert    string // with TLSKey: serve HTTPS with this pair
	TLSKey     string
	SelfSigned bool // serve HTTPS with a certificate created in the data directory

	AdminTLSCert    string // with AdminTLSKey: serve the admin API over HTTPS with this pair
	AdminTLSKey     string
	AdminSelfSigned bool // serve the admin API over HTTPS with a certificate created in the data directory
	AdminInsecure   bool // accept an admin address without TLS that other machines can reach

	Settings Settings
	Banner   io.Writer // gets a summary of the configuration once the server is ready; nil for none
	Secrets  bool      // Banner is a terminal, so it may show generated credentials; other outputs are often kept as logs
	Log      io.Writer // gets log lines as Settings.Log and LogFormat define; nil for none
	Terminal bool      // Log is a terminal, so people read it

	Connections int // maximum number of connections of S3 clients; 0: 10,000, or fewer if open files or memory are limited

	// Now is the clock for the times of writes and for checking signatures; nil means time.Now.
	Now func() time.Time

	recheck time.Duration // see admin.Tools.Recheck; for tests
}

// ConfigError is an error in the configuration, so another start would fail too.
type ConfigError struct{ error }

// Unwrap returns the error with its original type.
func (e ConfigError) Unwrap() error { return e.error }

// check returns an error if a file of the configuration cannot be used. It creates nothing.
func (c *Config) check() error {
	for _, p := range [][3]string{{"--", c.TLSCert, c.TLSKey}, {"--admin-", c.AdminTLSCert, c.AdminTLSKey}} {
		if p[1] == "" {
			continue
		}
		if _, err := tls.LoadX509KeyPair(p[1], p[2]); err != nil {
			return ConfigError{fmt.Errorf("%[1]stls-cert %[2]s with %[1]stls-key %[3]s: %[4]w", p[0], p[1], p[2], err)}
		}
	}
	if file := c.Settings.AuditFile; file != "" {
		if err := checkAuditFile(file, c.Data); err != nil {
			return ConfigError{fmt.Errorf("ORCAS_AUDIT_FILE: %w", err)}
		}
	}
	return nil
}

// adminTLS reports whether the admin API is served over HTTPS.
func (c *Config) adminTLS() bool { return c.AdminTLSCert != "" || c.AdminSelfSigned }

// Limits of the HTTP server. Package s3 enforces the 8 KiB that S3 allows for header fields; maxHeaderBytes also has
// space for the request line, which contains a key and a signature.
const (
	readHeaderTimeout = 20 * time.Second
	idleTimeout       = 2 * time.Minute
	bodyTimeout       = time.Minute
	maxHeaderBytes    = 28 << 10
	maxConnections    = 10_000
	adminConnections  = 256 // a browser with the console has up to six
	maxInFlight       = 4096
	spareFiles        = 512 // file descriptors for everything except connections
	stopTimeout       = 30 * time.Second
	lingerTimeout     = 5 * time.Second // for handlers whose connection was closed
)

// storage is everything that openStore opens, from the drivers up.
type storage struct {
	memory    memoryPlan
	used      bool // the store existed before this start
	meta      reclaim.Meta
	blocks    core.Blocks
	writer    *batch.Writer
	opened    atomic.Pointer[batch.Writer] // the same as writer; flush may run before writer is set
	content   *content.Engine
	fs        *vfs.FS
	rotator   *content.Rotator
	reclaimer *reclaim.Reclaimer
	scrubber  *scrub.Scrubber
	lifecycle *lifecycle.Worker
	survey    *survey.Survey
	ids       *ids.Codec // nil if their key cannot be stored

	identities *identity.Directory // its default account owns everything that is created with the root credentials
}

// Server is a server that has opened everything and is listening. Run serves requests; Close releases everything.
type Server struct {
	config      Config
	credentials Credentials
	listener    *limitListener
	http        *http.Server
	refuseHead  func(status int, reason, remote string) []byte // from package s3, for package heads
	logBuffer   *logBuffer
	live        *live.Value // log level and limits
	log         *slog.Logger
	counts      counts
	tally       s3.Tally // counts requests for the summary in the log

	storage
	adminSide
	missing missing
	view    view

	bootstrapped int         // the number of keys with generated secrets that this start has created
	leases       lease.Local // One process: if several share a store, its metadata engine has to bring lease.Leases

	life       context.Context // the context of background work; end cancels it
	end        context.CancelFunc
	background sync.WaitGroup

	handlers sync.WaitGroup // requests in flight
	requests atomic.Uint64  // the number of requests so far
	stopping atomic.Bool
	closing  struct {
		once sync.Once
		err  error
	}
}

// Open opens everything and binds the address. If it fails, it releases what it has opened.
func Open(ctx context.Context, config Config) (_ *Server, err error) {
	config.Log, config.Banner = cmp.Or(config.Log, io.Discard), cmp.Or(config.Banner, io.Discard)
	s := &Server{config: config}
	s.life, s.end = context.WithCancel(context.Background())
	mode, format := config.logging()
	s.live = live.New(live.Settings{
		LogLevel: mode.level(), MaxInFlight: maxInFlight, BodyTimeout: bodyTimeout, MinRate: config.Settings.MinRate,
	})
	s.logBuffer = newLogBuffer(config.Log, s.live, format)
	go s.logBuffer.run(logFlushEvery)
	s.log = slog.New(tailed{newLogger(s.logBuffer, s.live, format).Handler(), &s.view.tail, nil, ""})
	s.view.started = time.Now()
	if s.counts, err = newCounts(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, warning := range config.Settings.Warnings {
		s.log.Warn(warning)
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	s.limitMemory()
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if err := s.openStore(ctx); err != nil {
		return nil, err
	}
	if s.credentials, err = rootCredentials(&s.config.Settings, s.config.Data, s.used); err != nil {
		return nil, fmt.Errorf("root credentials: %w", err)
	}
	for _, warning := range s.credentials.warnings {
		s.log.Warn(warning)
	}
	if err := s.openAudit(); err != nil {
		return nil, err
	}
	if err := s.serveHTTP(); err != nil {
		return nil, err
	}
	if err := s.makeBuckets(ctx); err != nil {
		return nil, err
	}
	if err := s.bootstrap(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", bootstrapVariable, err)
	}
	return s, s.banner(config.Banner)
}

// listen binds the addresses, with as many connections as the limit on open files allows.
func (s *Server) listen(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.config.Address)
	if err != nil {
		return explainListen("--address", s.config.Address, err)
	}
	s.listener = newLimitListener(l, s.connections(), bodyTimeout)
	s.listener.proxies = s.proxies()
	s.listener.addresses = perAddress{most: s.config.Settings.Rates.AddressConnections, exempt: s.listener.proxies}
	s.listener.unsent = cmp.Or(s.memory.unsent, unsentMax)
	if s.config.Admin == "" {
		return nil
	}
	if l, err = lc.Listen(ctx, "tcp", s.config.Admin); err != nil {
		return explainListen("--admin-address", s.config.Admin, err)
	}
	s.adminListen = newLimitListener(l, adminConnections, bodyTimeout)
	s.adminListen.proxies = s.proxies()
	return s.checkAdminAddress()
}

// checkAdminAddress refuses an admin listener without TLS on an address that other machines may reach.
func (s *Server) checkAdminAddress() error {
	addr, ok := s.adminListen.Addr().(*net.TCPAddr)
	if s.config.adminTLS() || s.config.AdminInsecure || ok && addr.IP.IsLoopback() {
		return nil
	}
	return ConfigError{fmt.Errorf("--admin-address %s: other machines can reach this address, and the admin API sends secrets: "+
		"use --admin-tls-self-signed, or --admin-tls-cert and --admin-tls-key; "+
		"or a loopback address such as 127.0.0.1:9001; or, on a network that you trust, --admin-insecure", s.config.Admin)}
}

// connections returns the maximum number of connections of S3 clients.
func (s *Server) connections() int {
	if s.config.Connections > 0 {
		return s.config.Connections
	}
	var files syscall.Rlimit
	most := cmp.Or(s.memory.connections, maxConnections)
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur >= uint64(most+spareFiles) {
		return most
	}
	connections := max(16, int(files.Cur)-spareFiles)
	s.log.Warn("the limit on open files limits the number of connections: raise it with ulimit -n, or with LimitNOFILE in systemd",
		"files", files.Cur, "connections", connections)
	return connections
}

// explainListen returns an error that says what to do about an address that cannot be bound.
func explainListen(flag, address string, err error) error {
	none := ""
	if flag == "--admin-address" {
		none = ", or none"
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s %s: address already in use: stop the program that listens there, or use another %s%s",
			flag, address, flag, none)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s %s: permission denied: ports below 1024 require root; use a higher port", flag, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s %s: no network interface of this machine has that address", flag, address)
	}
	return fmt.Errorf("%s %s: %w", flag, address, err)
}

// openStore opens the drivers, replays pending changes, and creates the engines and the namespace on top of them.
func (s *Server) openStore(ctx context.Context) error {
	dir, err := filepath.Abs(s.config.Data)
	if err != nil {
		return err
	}
	s.config.Data = dir
	if s.used, err = checkDataDirectory(dir); err != nil {
		return err
	}
	var steps durable.Steps
	if err := steps.MkdirAll(dir); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	set := &s.config.Settings
	started := time.Now()
	var rebuilt *batch.Recovery
	s.blocks, s.meta, rebuilt, err = ownDrivers.open(ctx, driverOptions{
		dir: dir, allowMissing: s.config.Settings.AllowMissing, log: s.log, beforeSync: s.flush,
		memory: s.memory,
		synced: s.counts.writes.Synced, checkpointed: s.counts.writes.Checkpointed,
	})
	if core.Is(err, core.Busy) {
		return fmt.Errorf("%w: stop that process, or use another --data for this server", err)
	} else if err != nil {
		return err
	}
	s.writer, err = batch.Open(ctx, batch.Options{
		Meta: s.meta, Blocks: s.blocks, Alone: !set.BatchWrite, Bytes: s.memory.batchBytes(set), Count: set.MaxBatchCount, Logger: s.log,
		Relaxed: set.Durability == Relaxed, Window: set.Window, Recovered: rebuilt, Observer: s.counts.writes.Batches(),
	})
	if err != nil {
		return fmt.Errorf("recovery of %s: %w", dir, err)
	}
	s.opened.Store(s.writer)
	s.content, err = content.New(content.Options{
		Meta: s.meta, Blocks: s.blocks, Writer: s.writer, MaxPacked: set.MaxPackedSize, Reserve: set.MinFree.of, Instant: set.InstantUpload,
		Verified:    func(ctx context.Context, id core.BlockID) (time.Time, error) { return s.scrubber.Verified(ctx, id) },
		VerifiedFor: set.ScrubPeriod,
		Now:         s.config.Now, Compression: set.Compression, Keys: set.MasterKeys, EncryptAll: set.Encrypt, Logger: s.log,
		Receiving: s.memory.receiving, Reading: s.memory.reading,
	})
	if err != nil {
		return err
	}
	s.rotator = content.NewRotator(s.content)
	if err := s.checkKeys(ctx); err != nil {
		return err
	}
	if err := s.openIdentities(ctx); err != nil {
		return fmt.Errorf("identities: %w", err)
	}
	s.fs, err = vfs.New(vfs.Options{
		Content: s.content, Meta: s.meta, Writer: s.writer, Now: s.config.Now, Root: s.identities.Root().Account,
	})
	if err != nil {
		return err
	}
	s.reclaimer, err = reclaim.New(ctx, reclaim.Options{
		Meta: s.meta, Blocks: s.blocks, Writer: s.writer, Readers: s.content, Settle: s.settle,
		Logger: s.log, Now: s.config.Now, Leases: &s.leases, Hook: mutant.Stop,
	})
	if err != nil {
		return err
	}
	s.scrubber = scrub.New(scrub.Options{
		Meta: s.meta, Blocks: s.blocks, Writer: s.writer, Period: set.ScrubPeriod,
		NewSnapshot: s.reclaimer.Snapshot, Compare: s.compare, Repair: s.content.Repair, Pause: s.reclaimer.Pause, Logger: s.log, Now: s.config.Now,
		Leases: &s.leases,
	})
	s.lifecycle = lifecycle.New(lifecycle.Options{
		Meta: s.meta, Writer: s.writer, Day: set.LifecycleDay, Every: set.Lifecycle, UploadAge: set.UploadAge, Logger: s.log, Now: s.config.Now,
		Leases: &s.leases,
	})
	s.view.usage = usage{path: filepath.Join(dir, UsageFile), log: s.log}
	s.view.usage.load()
	s.survey = survey.New(survey.Options{Meta: s.meta, Blocks: s.blocks, Log: s.log})
	if b, ok := core.As[sparer](s.blocks); ok {
		b.KeepSpare()
	}
	s.startComparing(ctx)
	if err := s.openIDs(ctx); err != nil {
		return fmt.Errorf("the key of version IDs: %w", err)
	}
	s.log.Info("store open", "data", dir, "durability", set.Durability, "seconds", time.Since(started).Seconds())
	return nil
}

// sparer is implemented by Blocks that can keep an empty block ready, so that a batch does not wait for its creation.
type sparer interface{ KeepSpare() }

// flush makes acknowledged writes durable, in relaxed mode. If metadata reached the drive before the blocks that it
// refers to, it would have to be rebuilt after a power cut.
func (s *Server) flush() {
	if w := s.opened.Load(); w != nil {
		_ = w.Flush(context.Background()) // ignore the error: it has stopped the writer
	}
}

// lag returns the state of the writes that are acknowledged but not yet durable.
func (s *Server) lag() *relaxedHealth {
	l := s.writer.Lag()
	return &relaxedHealth{
		Window: s.config.Settings.Window.Seconds(), Last: l.LastSync.Seconds(), Running: l.RunningSync.Seconds(), Oldest: l.Oldest.Seconds(),
	}
}

// settle calls batch.Writer.Settle. While writes are refused it returns the reason instead, so that no block is
// deleted.
func (s *Server) settle(ctx context.Context) error {
	if err := s.writer.Err(); err != nil {
		return err
	}
	return s.writer.Settle(ctx)
}

// of returns the number of bytes that must stay free on a drive of total bytes: at most half of them, so that a small
// drive is not full from the start.
func (r Reserve) of(total int64) int64 {
	return min(max(int64(float64(total)*r.Percent/100), r.Bytes), total/2)
}

// state returns the state of the server in one word: ready; degraded if stored blocks are missing; readonly if the
// metadata has failed, or if so many blocks are missing that nothing should be written; stopping.
func (s *Server) state() string {
	switch {
	case s.stopping.Load():
		return stateStopping
	case s.writer.Err() != nil:
		return stateReadOnly
	case s.degraded():
		return stateDegraded
	}
	return stateReady
}

// comparing reports whether the comparison at the start is still running.
func (s *Server) comparing() bool {
	_, pending := s.compared()
	return pending
}

// makeBuckets creates the buckets of ORCAS_BUCKETS that do not exist.
func (s *Server) makeBuckets(ctx context.Context) error {
	for _, name := range s.config.Settings.Buckets {
		info := core.BucketInfo{Name: name, Owner: s.identities.Root().Account, Region: s.config.Settings.Region}
		if s.config.Settings.OpenBuckets {
			info.Attrs = append(info.Attrs, s3.WithoutPublicAccessBlock())
		}
		began := s.now()
		_, err := s.fs.CreateBucket(ctx, info)
		if core.Is(err, core.ReadOnly) {
			s.log.Warn("ORCAS_BUCKETS: the bucket was not created, because the server is read-only", "bucket", name)
			continue
		}
		if core.Is(err, core.BucketExists) {
			continue
		}
		s.view.audit.RecordStart(ctx, &gate.Event{
			Operation: "CreateBucket", Principal: s.identities.Root(), Bucket: name, Target: "ORCAS_BUCKETS", Start: began,
			Code: admin.CodeOf(err),
		})
		if err != nil {
			return fmt.Errorf("ORCAS_BUCKETS: bucket %s: %w", name, err)
		}
	}
	return nil
}

// Credentials returns the root credentials.
func (s *Server) Credentials() Credentials { return s.credentials }

// IDs returns the form that version IDs and upload IDs have in requests and responses.
func (s *Server) IDs() *ids.Codec { return s.ids }

// Run serves until ctx ends, and then gives the requests in flight up to 30 s to finish. It returns nil after a
// requested shutdown.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	s.background.Go(func() { content.NewTrainer(s.content, s.fs, &s.leases).Run(s.life) })
	if s.config.Settings.Reclaim {
		s.background.Go(func() { s.reclaimer.Run(s.life) })
	}
	if s.config.Settings.ScrubPeriod > 0 {
		s.background.Go(func() { s.scrubber.Run(s.life) })
	}
	if s.config.Settings.Lifecycle > 0 {
		s.background.Go(func() { s.lifecycle.Run(s.life) })
	}
	s.background.Go(func() { s.summarizeRequests(s.life) })
	s.background.Go(func() { s.survey.Run(s.life) })
	s.background.Go(func() { s.view.history.run(s.life, s.counts.s3) })
	s.background.Go(func() { s.view.usage.run(s.life, s.survey, s.now) })
	s.background.Go(func() { s.listener.report(s.life, s.log, limitReportEvery) })
	s.background.Go(func() { s.noteUses(s.life) })
	s.background.Go(func() { s.releaseMemory(s.life) })
	if s.admin != nil {
		go func() {
			if s.adminCert != nil {
				failed <- s.admin.ServeTLS(s.adminListen, "", "")
			} else {
				failed <- s.admin.Serve(s.adminListen)
			}
		}()
	}
	go func() {
		if s.http.TLSConfig != nil {
			failed <- s.http.ServeTLS(s.listener, "", "")
		} else {
			failed <- s.http.Serve(&heads.Listener{Listener: s.listener, Refuse: s.refuseHead})
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", s.Endpoint(), err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	s.log.Log(context.Background(), levelNotice, "stopping")
	limit, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(limit); err != nil {
		s.log.Warn("requests in flight were aborted", "after", stopTimeout.String())
		return s.http.Close()
	}
	return nil
}

// Close stops the background work of Run, flushes the write buffer, and closes the drivers. It may be called more than
// once.
func (s *Server) Close() error {
	s.closing.once.Do(func() { s.closing.err = s.close() })
	return s.closing.err
}

func (s *Server) close() error {
	var errs []error
	s.view.hub.Close(streamPatience)
	for _, server := range []*http.Server{s.admin, s.http} {
		if server != nil {
			errs = append(errs, server.Close())
		}
	}
	for _, l := range []*limitListener{s.adminListen, s.listener} {
		if l != nil {
			if err := l.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	s.waitForHandlers()
	s.view.audit.Close()
	s.end()
	s.background.Wait()
	if s.stopping.Load() {
		readings{s}.save()
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	if s.meta != nil {
		errs = append(errs, s.meta.Close())
	}
	if s.blocks != nil {
		errs = append(errs, s.blocks.Close())
	}
	if s.stopping.Load() {
		s.log.Log(context.Background(), levelNotice, "stopped")
	}
	s.logBuffer.Close()
	return errors.Join(errs...)
}

// waitForHandlers gives handlers whose connections were closed some time to return. Handlers that are still running
// after that get errors from the closed drivers.
func (s *Server) waitForHandlers() {
	done := make(chan struct{})
	go func() {
		s.handlers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(lingerTimeout):
		s.log.Warn("some requests did not end in time")
	}
}
