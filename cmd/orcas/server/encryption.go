package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"orcas/core"
	"orcas/core/codec"
)

// The variables that bring master keys.
const (
	keyFileVariable = "ORCAS_MASTER_KEY_FILE"
	keyVariable     = "ORCAS_MASTER_KEY"
)

// maxKeyFile bounds a file of keys, in bytes.
const maxKeyFile = 64 << 10

// setKeyFile reads the file of the master keys. Nobody but its owner may have any right to it.
func setKeyFile(s *Settings, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has the mode %#o, so others than its owner may use the keys: it has to be 0600 or 0400", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(text) > maxKeyFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxKeyFile)
	}
	if err == nil {
		err = s.setKeys(keyFileVariable, string(text))
	}
	return err
}

func setKey(s *Settings, v string) error { return s.setKeys(keyVariable, v) }

func (s *Settings) setKeys(from, text string) (err error) {
	if s.MasterKeys != nil {
		return fmt.Errorf("%s is set too: one of them has to go", s.keysFrom)
	}
	s.MasterKeys, err = codec.ParseKeys(text)
	s.keysFrom = from
	return err
}

func setEncryption(s *Settings, v string) error {
	switch v {
	case "all":
		s.Encrypt = true
	case "off":
		s.Encrypt = false
	default:
		return fmt.Errorf("%q is neither all nor off", v)
	}
	return nil
}

// checkKeys refuses a start without a key that content needs, or with another one in its place.
func (s *Server) checkKeys(ctx context.Context) error {
	err := s.fs.CheckKeys(ctx)
	if !core.Is(err, core.NoKey) {
		return err
	}
	from := s.config.Settings.keysFrom
	if from == "" {
		from = keyFileVariable + " or " + keyVariable
	}
	return fmt.Errorf("%s: %w", from, err)
}

func (s *Server) keysStatus(r *http.Request) (any, error) {
	ctx := s.life
	if r != nil {
		ctx = r.Context()
	}
	return s.fs.Rotation(ctx)
}

// rotateKeys wraps every data key by the newest master key.
func (s *Server) rotateKeys(r *http.Request) (any, error) {
	wait, err := flag(r, "wait")
	if err != nil {
		return nil, err
	}
	if !s.fs.HasKey() {
		return nil, core.E("admin.keys", core.InvalidArgument, errors.New("there is no master key: set "+keyFileVariable+" or "+keyVariable))
	}
	if wait {
		return s.wait(r, func(ctx context.Context) (any, error) { return s.fs.Rotate(ctx) })
	}
	return s.start("key rotation", func(ctx context.Context) error {
		_, err := s.fs.Rotate(ctx)
		return err
	}, s.keysStatus)
}
