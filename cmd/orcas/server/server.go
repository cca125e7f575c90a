// Package server is a whole ORCAS server: it opens the drivers of a data directory, recovers, wires the floors together,
// listens, and stops in order. Command orcas runs one; tests boot one.
//
// Steps of a start, each of which can refuse it with one clear line: bind the address; make the data directory and take its
// lock; open blocks and metadata; replay what a crash left; credentials; certificate; the buckets asked for. Whoever connects
// meanwhile waits in the kernel's queue, so the first answer that anybody gets is a right one.
//
// A stop runs the other way: no new connections, the requests in flight get their time, then the write buffer empties, then
// the drivers close.
//
// In the data directory the server itself keeps root-credentials.json (made at the first start where the environment has none)
// and self-signed.crt and .key; everything else there belongs to the drivers.
package server

import (
	"context"
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

	"orcas/batch"
	"orcas/core"
	"orcas/core/disk"
	"orcas/core/reclaim"
	"orcas/internal/durable"
	"orcas/internal/mutant"
	"orcas/lifecycle"
	"orcas/s3"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

// Config says what a Server serves, where, and how.
type Config struct {
	Data       string // the data directory; made where it is missing
	Address    string // HOST:PORT; port 0: any free one
	Admin      string // HOST:PORT of the admin listener (see admin.go); "": none
	TLSCert    string // with TLSKey: serve HTTPS with this pair
	TLSKey     string
	SelfSigned bool // serve HTTPS with a certificate made in the data directory
	Settings   Settings
	Banner     io.Writer // told what runs once it does; nil: nobody
	Log        io.Writer // gets JSON lines; nil: nobody

	// Now is the clock by which writes are dated and signatures are judged; nil: time.Now.
	Now func() time.Time
}

// Limits of the HTTP server. The 8 KiB that S3 allows for header fields are package s3's to count; here is room for the request
// line as well, which holds a key and a signature.
const (
	readHeaderTimeout = 20 * time.Second
	idleTimeout       = 2 * time.Minute
	bodyTimeout       = time.Minute
	maxHeaderBytes    = 28 << 10
	maxConnections    = 10_000
	adminConnections  = 64
	maxInFlight       = 4096
	spareFiles        = 512 // file descriptors for everything but connections
	stopTimeout       = 30 * time.Second
	lingerTimeout     = 5 * time.Second // for handlers whose connection was taken away
)

// rootAccount owns what the root credentials create, whichever they are at the time.
const rootAccount = "root"

// Server is a server that has opened everything and listens. Run serves; Close lets go of everything.
type Server struct {
	config      Config
	credentials Credentials
	listener    net.Listener
	http        *http.Server
	adminListen net.Listener // nil: none
	admin       *http.Server
	logBuffer   *logBuffer
	log         *slog.Logger

	meta      reclaim.Meta
	blocks    *disk.Store
	writer    *batch.Writer
	opened    atomic.Pointer[batch.Writer] // writer, for flush
	fs        *vfs.FS
	reclaimer *reclaim.Reclaimer
	scrubber  *reclaim.Scrubber
	lifecycle *lifecycle.Worker

	life       context.Context // of what runs in the background
	end        context.CancelFunc
	background sync.WaitGroup

	handlers  sync.WaitGroup // requests in flight
	stopping  atomic.Bool
	closeOnce sync.Once
	closeErr  error
}

// Open opens everything and binds the address; with an error it has let go of everything again.
func Open(ctx context.Context, config Config) (_ *Server, err error) {
	if config.Log == nil {
		config.Log = io.Discard
	}
	if config.Banner == nil {
		config.Banner = io.Discard
	}
	s := &Server{config: config, logBuffer: newLogBuffer(config.Log)}
	s.life, s.end = context.WithCancel(context.Background())
	s.log = newLogger(s.logBuffer)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, warning := range config.Settings.Warnings {
		s.log.Warn(warning)
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if err := s.openStore(ctx); err != nil {
		return nil, err
	}
	if s.credentials, err = rootCredentials(&s.config.Settings, s.config.Data); err != nil {
		return nil, fmt.Errorf("root credentials: %w", err)
	}
	if err := s.serveHTTP(); err != nil {
		return nil, err
	}
	if err := s.makeBuckets(ctx); err != nil {
		return nil, err
	}
	return s, s.banner(config.Banner)
}

// listen binds the address, within what the limit on open files allows.
func (s *Server) listen(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.config.Address)
	if err != nil {
		return err
	}
	connections := maxConnections
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur < maxConnections+spareFiles {
		connections = max(16, int(files.Cur)-spareFiles)
		s.log.Warn("the limit on open files bounds the connections", "files", files.Cur, "connections", connections)
	}
	s.listener = newLimitListener(l, connections, bodyTimeout)
	if s.config.Admin == "" {
		return nil
	}
	if l, err = lc.Listen(ctx, "tcp", s.config.Admin); err != nil {
		return fmt.Errorf("admin listener: %w", err)
	}
	s.adminListen = newLimitListener(l, adminConnections, bodyTimeout)
	return nil
}

// openStore opens the drivers, replays what a crash left, and puts the namespace on top.
func (s *Server) openStore(ctx context.Context) error {
	dir, err := filepath.Abs(s.config.Data)
	if err != nil {
		return err
	}
	s.config.Data = dir
	var steps durable.Steps
	if err := steps.MkdirAll(dir); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if s.blocks, s.meta, err = openDrivers(ctx, dir, s.log, s.flush); err != nil {
		return err
	}
	set := &s.config.Settings
	started := time.Now()
	s.writer, err = batch.Open(ctx, batch.Options{
		Meta: s.meta, Blocks: s.blocks, Alone: !set.BatchWrite, Bytes: set.MaxBatchBytes, Count: set.MaxBatchCount, Logger: s.log,
		Relaxed: set.Durability == Relaxed, Window: set.Window,
	})
	if err != nil {
		return fmt.Errorf("recovery of %s: %w", dir, err)
	}
	s.opened.Store(s.writer)
	s.fs, err = vfs.New(vfs.Options{
		Meta: s.meta, Blocks: s.blocks, Writer: s.writer, MaxPacked: set.MaxPackedSize, Reserve: set.MinFree.of, Instant: set.InstantUpload,
		Now: s.config.Now, Compression: set.Compression, Keys: set.MasterKeys, EncryptAll: set.Encrypt, Logger: s.log,
	})
	if err != nil {
		return err
	}
	if err := s.checkKeys(ctx); err != nil {
		return err
	}
	s.reclaimer, err = reclaim.New(ctx, reclaim.Options{
		Meta: s.meta, Blocks: s.blocks, Writer: reclaimWriter{s.writer}, Quiet: s.fs.Quiet, Settle: s.writer.Settle,
		Logger: s.log, Now: s.config.Now, Hook: mutant.Stop,
	})
	if err != nil {
		return err
	}
	s.scrubber = reclaim.NewScrubber(reclaim.ScrubOptions{
		Meta: s.meta, Blocks: s.blocks, Writer: reclaimWriter{s.writer}, Period: set.ScrubPeriod,
		NewSnapshot: s.reclaimer.Snapshot, Hold: s.reclaimer.Hold, Logger: s.log, Now: s.config.Now,
	})
	s.lifecycle = lifecycle.New(lifecycle.Options{
		Meta: s.meta, Writer: s.writer, Day: set.LifecycleDay, Every: set.Lifecycle, UploadAge: set.UploadAge, Logger: s.log, Now: s.config.Now,
	})
	s.blocks.KeepSpare()
	s.log.Info("store open", "data", dir, "durability", set.Durability, "seconds", time.Since(started).Seconds())
	return nil
}

// flush makes durable what was answered before, in relaxed mode: metadata that gets to the drive before what it refers to would have to be made
// again after a power cut.
func (s *Server) flush() {
	if w := s.opened.Load(); w != nil {
		_ = w.Flush(context.Background()) // an error has sealed the writer
	}
}

// reclaimWriter gives reclaim the write buffer.
type reclaimWriter struct{ *batch.Writer }

// DoAll implements reclaim.Writer.
func (w reclaimWriter) DoAll(ctx context.Context, writes []reclaim.Write) ([]core.Result, []error) {
	list := make([]batch.Write, len(writes))
	for i, x := range writes {
		list[i] = batch.Write{Change: x.Change, Moved: x.Moved, Fresh: x.Fresh}
	}
	return w.Writer.DoAll(ctx, list)
}

// of returns the bytes that must stay free on a drive of total bytes. It is never more than half of a drive, so a small one is
// not full from the start.
func (r Reserve) of(total int64) int64 {
	return min(max(int64(float64(total)*r.Percent/100), r.Bytes), total/2)
}

// serveHTTP puts S3 and health behind one HTTP server.
func (s *Server) serveHTTP() error {
	set := &s.config.Settings
	root := s.credentials
	system := &health{version: Version(), durability: set.Durability, state: s.state}
	if s.adminListen != nil {
		gate := &sigv4.Verifier{Region: set.Region, AnyRegion: true, Now: s.config.Now, Lookup: func(accessKey string) (string, bool) {
			return root.SecretKey, accessKey == root.AccessKey
		}}
		s.admin = &http.Server{
			Handler:           &admin{health: system, verifier: gate, root: root.AccessKey, routes: s.adminRoutes(), log: s.log.Info},
			ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		}
	}
	handler, err := s3.New(s3.Options{
		FS: s.fs,
		Lookup: func(accessKey string) (s3.Credential, bool) {
			if accessKey != root.AccessKey {
				return s3.Credential{}, false
			}
			return s3.Credential{SecretKey: root.SecretKey, Account: rootAccount}, true
		},
		Region:      set.Region,
		Domains:     set.Domains,
		System:      system,
		Logger:      s.log,
		AccessLog:   s.logBuffer,
		MaxInFlight: maxInFlight,
		BodyTimeout: bodyTimeout,
		Now:         s.config.Now,
		Day:         set.LifecycleDay,

		CustomerKeysOverHTTP: set.SSECOverHTTP,
	})
	if err != nil {
		return err
	}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.handlers.Add(1)
			defer s.handlers.Done()
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelInfo),
	}
	return s.configureTLS()
}

// state says in a word whether the server takes requests: ready, stopping, or readonly after the metadata has failed.
func (s *Server) state() string {
	switch {
	case s.stopping.Load():
		return "stopping"
	case s.writer.Err() != nil:
		return "readonly"
	}
	return stateReady
}

// configureTLS sets up HTTPS and HTTP/2, where the configuration asks for them.
func (s *Server) configureTLS() error {
	if s.config.SelfSigned {
		host, _, err := net.SplitHostPort(s.config.Address)
		if err != nil {
			return err
		}
		names := localNames(host, s.config.Settings.Domains)
		s.config.TLSCert, s.config.TLSKey, err = selfSigned(s.config.Data, names, time.Now())
		if err != nil {
			return fmt.Errorf("self-signed certificate: %w", err)
		}
	}
	if s.config.TLSCert == "" {
		return nil
	}
	certificate, err := newCertificate(s.config.TLSCert, s.config.TLSKey, s.log)
	if err != nil {
		return err
	}
	s.http.TLSConfig = certificate.config()
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

// makeBuckets makes those of ORCAS_BUCKETS that do not exist.
func (s *Server) makeBuckets(ctx context.Context) error {
	for _, name := range s.config.Settings.Buckets {
		_, err := s.fs.CreateBucket(ctx, core.BucketInfo{Name: name, Owner: rootAccount, Region: s.config.Settings.Region})
		if err != nil && !core.Is(err, core.BucketExists) {
			return fmt.Errorf("ORCAS_BUCKETS: bucket %s: %w", name, err)
		}
	}
	return nil
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

// AdminAddress returns where the admin listener listens, "" where there is none.
func (s *Server) AdminAddress() string {
	if s.adminListen == nil {
		return ""
	}
	return s.adminListen.Addr().String()
}

// Credentials returns the root's.
func (s *Server) Credentials() Credentials { return s.credentials }

// Run serves until ctx ends, then finishes the requests in flight, for 30 s at most. It returns nil after a stop that was asked
// for.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	s.background.Go(func() { s.fs.Train(s.life) })
	if s.config.Settings.Reclaim {
		s.background.Go(func() { s.reclaimer.Run(s.life) })
	}
	if s.config.Settings.ScrubPeriod > 0 {
		s.background.Go(func() { s.scrubber.Run(s.life) })
	}
	if s.config.Settings.Lifecycle > 0 {
		s.background.Go(func() { s.lifecycle.Run(s.life) })
	}
	if s.admin != nil {
		go func() { failed <- s.admin.Serve(s.adminListen) }()
	}
	go func() {
		if s.http.TLSConfig != nil {
			failed <- s.http.ServeTLS(s.listener, "", "")
		} else {
			failed <- s.http.Serve(s.listener)
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", s.Endpoint(), err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	s.log.Info("stopping")
	limit, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(limit); err != nil {
		s.log.Warn("requests were cut off", "after", stopTimeout.String())
		return s.http.Close()
	}
	return nil
}

// Close ends what Run left, writes out the write buffer, and closes the drivers. It may be called more than once.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	var errs []error
	if s.admin != nil {
		errs = append(errs, s.admin.Close())
	}
	if s.http != nil {
		errs = append(errs, s.http.Close())
	}
	if s.adminListen != nil {
		if err := s.adminListen.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.listener != nil {
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.waitForHandlers()
	s.end()
	s.background.Wait()
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
		s.log.Info("stopped")
	}
	s.logBuffer.Close()
	return errors.Join(errs...)
}

// waitForHandlers gives handlers whose connections are gone a while to notice. What still runs then meets closed drivers, which
// say so.
func (s *Server) waitForHandlers() {
	done := make(chan struct{})
	go func() {
		s.handlers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(lingerTimeout):
		s.log.Warn("some requests did not end")
	}
}
