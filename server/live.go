package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"orcas/audit"
	"orcas/gate"
	"orcas/internal/bytesize"
	"orcas/watch"
)

// view is what shows operators the requests of a server.
type view struct {
	audit   *audit.Log // nil if there is none
	hub     watch.Hub
	started time.Time

	cert     *certificate // of S3; nil without TLS
	inFlight func() int64 // from package s3: the number of requests in flight
	unsent   func() int64 // from package s3: bytes that clients did not send
	history  history
	usage    usage
	tail     logTail
}

// AuditSettings configure the audit log.
type AuditSettings struct {
	AuditFile     string // ORCAS_AUDIT_FILE; "" for none
	AuditFileSize int64  // ORCAS_AUDIT_FILE_SIZE: the size, in bytes, at which the file is rotated
	AuditKeep     int    // ORCAS_AUDIT_KEEP: the number of rotated files
	AuditWebhook  string // ORCAS_AUDIT_WEBHOOK; "" for none
	AuditToken    string // ORCAS_AUDIT_WEBHOOK_TOKEN_FILE; "" for none
}

// The defaults and limits of the audit log.
const (
	auditFileSize    = 100 << 20
	minAuditFileSize = 1 << 20
	maxAuditFileSize = 1 << 40
	auditKeep        = 10
)

// setAuditWebhook checks and sets the URL of the webhook, which an error does not contain.
func setAuditWebhook(s *Settings, v string) error {
	s.AuditWebhook = v
	return audit.CheckURL(v)
}

// minAuditToken is the minimum length of the token for the webhook, which its receiver has chosen.
const minAuditToken = 1

// setAuditToken checks the token for the webhook at the start. It is read again for each batch of records.
func setAuditToken(s *Settings, path string) error {
	s.AuditToken = path
	_, err := readToken(path, minAuditToken)
	return err
}

// checkAuditFile returns an error if the audit file cannot be opened or created. It may be in the data directory, which
// the first start creates.
func checkAuditFile(path, data string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if data, err = filepath.Abs(data); err != nil {
		return err
	}
	needed, access := path, uint32(unix.R_OK|unix.W_OK)
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case errors.Is(err, fs.ErrNotExist):
		needed, access = filepath.Dir(path), unix.W_OK|unix.X_OK
	case err != nil:
		return err
	}
	err = unix.Access(needed, access)
	if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(data+"/", needed+"/") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", needed, err)
	}
	return nil
}

// openAudit opens the audit log if the settings ask for one.
func (s *Server) openAudit() (err error) {
	set := &s.config.Settings.AuditSettings
	if set.AuditFile == "" && set.AuditWebhook == "" {
		return nil
	}
	o := audit.Options{
		File: set.AuditFile, FileSize: set.AuditFileSize, Keep: set.AuditKeep, URL: set.AuditWebhook, Logger: s.log, Now: s.config.Now,
	}
	if set.AuditToken != "" {
		o.Token = func() (string, error) { return readToken(set.AuditToken, minAuditToken) }
	}
	s.view.audit, err = audit.New(o)
	if err != nil {
		return fmt.Errorf("ORCAS_AUDIT_FILE: %w", err)
	}
	s.log.Info("audit log", "file", set.AuditFile, "size", bytesize.Format(set.AuditFileSize), "keep", set.AuditKeep, "webhook", set.AuditWebhook != "")
	return nil
}

// observers returns the observers of the view for the requests of an API.
func (v *view) observers(api string) []gate.Observer {
	list := []gate.Observer{v.hub.For(api)}
	if v.audit != nil {
		list = append(list, v.audit.For(api))
	}
	return list
}

// counted returns a handler whose requests a shutdown waits for.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		h.ServeHTTP(w, r)
	})
}
