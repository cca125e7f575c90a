package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"orcas/admin"
	"orcas/auth"
	"orcas/core"
	"orcas/declared"
	"orcas/gate"
	"orcas/internal/durable"
)

// bootstrapVariable names the file that is applied at startup.
const bootstrapVariable = "ORCAS_BOOTSTRAP"

// BootstrapKeysFile is the name of the file, in the data directory, with the keys whose secrets were generated when the
// bootstrap file was applied. Only its owner may have access to it.
const BootstrapKeysFile = "bootstrap-keys.json"

// maxSecretFile is the maximum size of a file with a secret, in bytes.
const maxSecretFile = 4 << 10

// Bootstrap is a file that declares a store, with the secrets that it refers to.
type Bootstrap struct {
	file    *declared.File
	secrets map[string]string
}

// setBootstrap reads the file, and the files with secrets, whose names are relative to its directory.
func setBootstrap(s *Settings, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, declared.MaxBytes+1))
	if err != nil {
		return err
	}
	b := &Bootstrap{secrets: map[string]string{}}
	if b.file, err = declared.Read(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range b.file.SecretFiles() {
		at := name
		if !filepath.IsAbs(at) {
			at = filepath.Join(filepath.Dir(path), name)
		}
		secret, err := readPrivate(at, maxSecretFile)
		if err != nil {
			return fmt.Errorf("%s: secret_file: %w", path, err)
		}
		b.secrets[name] = string(secret)
	}
	s.Bootstrap = b
	return nil
}

// declaredStore returns the store for package declared.
func (s *Server) declaredStore() declared.Store {
	return declared.Store{
		FS: s.fs, Identities: s.identities, Region: s.config.Settings.Region, OpenBuckets: s.config.Settings.OpenBuckets,
		RootKey: s.credentials.AccessKey, Endpoint: s.Endpoint(),
	}
}

// apply is admin.Store.Apply.
func (s *Server) apply(ctx context.Context, by *auth.Principal, q *admin.ApplyRequest) (*admin.Applied, error) {
	const op = "server.apply"
	f, err := declared.Read([]byte(q.File))
	if err != nil {
		return nil, core.E(op, core.InvalidArgument, err)
	}
	store := s.declaredStore()
	store.With = q.With
	plan, err := declared.MakePlan(ctx, f, store, by, q.Secrets)
	var wrong *declared.Error
	if errors.As(err, &wrong) {
		return nil, core.E(op, core.InvalidArgument, err)
	}
	if err != nil {
		return nil, err
	}
	if q.DryRun {
		return &admin.Applied{DryRun: true, Changes: plan.Changes(), Keys: []admin.AppliedKey{}}, nil
	}
	// A secret that was stored must reach the client, so a change that has begun is not interrupted.
	return plan.Apply(context.WithoutCancel(ctx), func(*admin.AppliedKey) error { return nil }), nil
}

// bootstrap applies the file of ORCAS_BOOTSTRAP, on behalf of the root.
func (s *Server) bootstrap(ctx context.Context) error {
	b := s.config.Settings.Bootstrap
	if b == nil {
		return nil
	}
	plan, err := declared.MakePlan(ctx, b.file, s.declaredStore(), s.identities.Root(), b.secrets)
	if errors.As(err, new(*declared.Error)) {
		return ConfigError{err}
	} else if err != nil {
		return err
	}
	if len(plan.Changes()) == 0 {
		return nil
	}
	if s.writer.Err() != nil {
		s.log.Warn(bootstrapVariable + ": nothing was changed, because the server is read-only")
		return nil
	}
	began := s.now()
	done := plan.Apply(ctx, s.keepBootstrapKey)
	s.view.audit.RecordStart(ctx, &gate.Event{
		Operation: "Bootstrap", Principal: s.identities.Root(), Target: bootstrapVariable, Start: began,
		Items: done.Items(), Code: admin.CodeOf(done.Err),
	})
	for _, c := range done.Changes {
		s.log.Info("bootstrap", "action", c.Action, "kind", c.Kind, "name", c.Name, "detail", c.Detail)
	}
	if done.Failed != "" {
		return errors.New(done.Failed)
	}
	return nil
}

// bootstrapKeys returns the path of BootstrapKeysFile.
func (s *Server) bootstrapKeys() string { return filepath.Join(s.config.Data, BootstrapKeysFile) }

// keepBootstrapKey adds a key to BootstrapKeysFile.
func (s *Server) keepBootstrapKey(k *admin.AppliedKey) error {
	var list struct {
		Keys []admin.AppliedKey `json:"keys"`
	}
	text, err := readPrivate(s.bootstrapKeys(), 16<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && json.Unmarshal(text, &list) != nil { // the error may quote a secret
		return fmt.Errorf("%s is not a list of keys: move it away", s.bootstrapKeys())
	}
	list.Keys = append(list.Keys, *k)
	if text, err = json.MarshalIndent(&list, "", "  "); err != nil {
		return err
	}
	s.bootstrapped++
	var steps durable.Steps
	return steps.Replace(s.bootstrapKeys(), append(text, '\n'))
}
