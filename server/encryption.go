package server

import (
	"cmp"
	"context"
	"fmt"

	"orcas/core"
	"orcas/core/codec"
)

// Names of the environment variables for master keys.
const (
	keyFileVariable = "ORCAS_MASTER_KEY_FILE"
	keyVariable     = "ORCAS_MASTER_KEY"
)

// maxKeyFile is the maximum size of a key file, in bytes.
const maxKeyFile = 64 << 10

// setKeyFile reads the master keys from a file. Only the owner of the file may have access to it.
func setKeyFile(s *Settings, path string) error {
	text, err := readPrivate(path, maxKeyFile)
	if err != nil {
		return err
	}
	return s.setKeys(keyFileVariable, string(text))
}

func setKey(s *Settings, v string) error { return s.setKeys(keyVariable, v) }

func (s *Settings) setKeys(from, text string) (err error) {
	if s.MasterKeys != nil {
		return fmt.Errorf("%s is set too: set only one of them", s.keysFrom)
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

// checkKeys returns an error if content needs a master key that is missing, or if a different key has its ID.
func (s *Server) checkKeys(ctx context.Context) error {
	err := s.content.CheckKeys(ctx)
	if !core.Is(err, core.NoKey) {
		return err
	}
	return ConfigError{fmt.Errorf("%s: %w", cmp.Or(s.config.Settings.keysFrom, keyFileVariable+" or "+keyVariable), err)}
}
