package server

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"orcas/auth/identity"
	"orcas/core"
	"orcas/core/codec"
	"orcas/gate"
	"orcas/internal/aesgcm"
	"orcas/internal/durable"
)

// IdentityKeyFile is the name of the file, in the data directory, with the key that encrypts the secrets of access
// keys. Only its owner may have access to it.
const IdentityKeyFile = "identity-key.json"

// maxIdentityKey is the maximum size of IdentityKeyFile, in bytes.
const maxIdentityKey = 64 << 10

// identityKey is the content of IdentityKeyFile. If there are master keys, the key is encrypted with AES-256-GCM, with
// a key that is derived from the newest master key: a nonce of 12 bytes, the ciphertext, and the tag.
type identityKey struct {
	Key       []byte `json:"key"`
	MasterKey uint32 `json:"masterKey,omitempty"` // the ID of the master key; 0: not encrypted
}

// identityLabel names the key that is derived from a master key.
const identityLabel = "ORCAS identity 1"

func identityCipher(k *codec.Key) cipher.AEAD { return aesgcm.New(k.Derive(identityLabel)) }

// identityFile is IdentityKeyFile of a data directory.
type identityFile struct {
	path string
	keys *codec.Keys
}

// read returns the key, or nil if the file does not exist. If the key is not encrypted with the newest master key yet,
// read writes the file again, so that older master keys are not needed any longer. The error is NoKey if a master key
// is missing. Errors never contain a key.
func (f *identityFile) read() ([]byte, error) {
	text, err := readPrivate(f.path, maxIdentityKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var stored identityKey
	if json.Unmarshal(text, &stored) != nil || len(stored.Key) < identity.KeySize {
		return nil, fmt.Errorf("%s does not contain a key: restore it from a backup", f.path)
	}
	newest, _ := f.keys.Newest()
	key := stored.Key
	if stored.MasterKey != 0 {
		master := f.keys.Get(stored.MasterKey)
		if master == nil {
			err := fmt.Errorf("%s is encrypted with master key %d, which is not configured: set %s or %s",
				f.path, stored.MasterKey, keyFileVariable, keyVariable)
			return nil, core.E("server.identity", core.NoKey, err)
		}
		aead := identityCipher(master)
		n := aead.NonceSize()
		if key, err = aead.Open(nil, key[:n], key[n:], nil); err != nil {
			return nil, fmt.Errorf("%s cannot be decrypted: it is damaged, or master key %d has the wrong value", f.path, stored.MasterKey)
		}
	}
	if len(key) != identity.KeySize {
		return nil, fmt.Errorf("%s contains a key of %d bytes instead of %d", f.path, len(key), identity.KeySize)
	}
	if newest != 0 && newest != stored.MasterKey {
		err = f.write(key)
	}
	return key, err
}

// create writes a new key durably and returns it.
func (f *identityFile) create() ([]byte, error) {
	key := make([]byte, identity.KeySize)
	_, _ = rand.Read(key) // never fails
	return key, f.write(key)
}

// write replaces the file.
func (f *identityFile) write(key []byte) error {
	stored := identityKey{Key: key}
	id, master := f.keys.Newest()
	if master != nil {
		aead := identityCipher(master)
		nonce := make([]byte, aead.NonceSize())
		_, _ = rand.Read(nonce) // never fails
		stored = identityKey{Key: aead.Seal(nonce, nonce, key, nil), MasterKey: id}
	}
	text, err := json.MarshalIndent(&stored, "", "  ")
	if err != nil {
		return err
	}
	var steps durable.Steps
	return steps.Replace(f.path, append(text, '\n'))
}

// openIdentities opens the directory of identities.
func (s *Server) openIdentities(ctx context.Context) error {
	f := &identityFile{filepath.Join(s.config.Data, IdentityKeyFile), s.config.Settings.MasterKeys}
	key, unreadable := f.read()
	if unreadable != nil && !core.Is(unreadable, core.NoKey) {
		return unreadable
	}
	blocks, ok := core.As[core.Identifier](s.blocks)
	if !ok {
		return core.E("server.identity", core.Unsupported, errors.New("the store has no number"))
	}
	store, _ := blocks.Identity()
	var err error
	s.identities, err = identity.Open(ctx, identity.Options{
		Meta: s.meta, Writer: s.writer, Account: identity.AccountID(store), Key: key, NewKey: f.create, Logger: s.log, Now: s.config.Now,
	})
	if err == nil && s.identities.HasSecrets() { // without any, Open has replaced the file
		err = unreadable
	}
	return err
}

// lookup returns the credential of an access key: that of the root, or one of the directory.
func (s *Server) lookup() gate.Lookup {
	root := gate.Credential{SecretKey: s.credentials.SecretKey, Principal: s.identities.Root()}
	return func(ctx context.Context, accessKey, token string) (gate.Credential, error) {
		if accessKey == s.credentials.AccessKey {
			return root, nil
		}
		return s.identities.Lookup(ctx, accessKey, token)
	}
}

// noteUsesEvery is the interval at which the last uses of access keys are stored.
const noteUsesEvery = time.Minute

// noteUses stores the last uses of access keys regularly and, when ctx ends, once more.
func (s *Server) noteUses(ctx context.Context) {
	tick := time.NewTicker(noteUsesEvery)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-tick.C:
		}
		if s.writer.Err() != nil {
			continue // the server is read-only
		}
		if err := s.identities.NoteUses(context.WithoutCancel(ctx)); err != nil {
			s.log.Warn("the last uses of access keys could not be stored, so lists of keys show older ones; the server tries again every minute", "err", err)
		}
	}
}
