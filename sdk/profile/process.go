package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"orcas/sdk"
)

// refreshBefore is how long before their expiration temporary credentials are replaced.
const refreshBefore = 5 * time.Minute

// maxProcessOutput is the maximum number of bytes that a credential process may print.
const maxProcessOutput = 64 << 10

// process gets credentials from a program, as aws-cli does (credential_process): it prints a JSON document, whose
// Expiration says when to run it again.
type process struct {
	command string // with arguments; not run by a shell
	source  string // where the command is configured
	environ []string
	now     func() time.Time

	mu      sync.Mutex // guards the rest; held while the program runs, so it runs once
	keys    sdk.Keys
	expires time.Time // zero: never
}

// Get returns the credentials, and runs the program if there are none or they expire soon.
func (p *process) Get(ctx context.Context) (sdk.Keys, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys.AccessKey != "" && (p.expires.IsZero() || p.now().Add(refreshBefore).Before(p.expires)) {
		return p.keys, nil
	}
	keys, expires, err := p.run(ctx)
	if err != nil {
		return sdk.Keys{}, fmt.Errorf("credential_process of %s: %w", p.source, err)
	}
	p.keys, p.expires = keys, expires
	return keys, nil
}

// run runs the program. Its output is a secret, so errors do not contain it; what it says on its standard error is for
// people.
func (p *process) run(ctx context.Context) (keys sdk.Keys, expires time.Time, err error) {
	words, err := splitWords(p.command)
	if err != nil || len(words) == 0 {
		return keys, expires, errors.Join(errors.New("expected a program with its arguments"), err)
	}
	command := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the user's configuration names it
	command.Env = p.environ
	stdout, stderr := &bounded{max: maxProcessOutput}, &bounded{max: 1 << 10}
	command.Stdout, command.Stderr = stdout, stderr
	if err := command.Run(); err != nil {
		if said := strings.TrimSpace(stderr.String()); said != "" {
			return keys, expires, fmt.Errorf("%s: %w: %s", words[0], err, strings.Join(strings.Fields(said), " "))
		}
		return keys, expires, fmt.Errorf("%s: %w", words[0], err)
	}
	var answer struct {
		Version                                   int
		AccessKeyID                               string `json:"AccessKeyId"`
		SecretAccessKey, SessionToken, Expiration string
	}
	switch err := json.Unmarshal(stdout.Bytes(), &answer); {
	case err != nil || answer.AccessKeyID == "" || answer.SecretAccessKey == "":
		return keys, expires, fmt.Errorf("%s: expected a JSON document with AccessKeyId and SecretAccessKey on its standard output", words[0])
	case answer.Version != 1:
		return keys, expires, fmt.Errorf("%s: expected Version 1 in its JSON document, not %d", words[0], answer.Version)
	}
	if answer.Expiration != "" {
		if expires, err = time.Parse(time.RFC3339, answer.Expiration); err != nil {
			return keys, expires, fmt.Errorf("%s: Expiration: expected a time such as 2006-01-02T15:04:05Z, not %q", words[0], answer.Expiration)
		}
		if !p.now().Before(expires) {
			return keys, expires, fmt.Errorf("%s: its credentials expired at %s", words[0], answer.Expiration)
		}
	}
	return sdk.Keys{AccessKey: answer.AccessKeyID, SecretKey: answer.SecretAccessKey, SessionToken: answer.SessionToken}, expires, nil
}

// bounded keeps the first max bytes that are written to it.
type bounded struct {
	bytes.Buffer
	max int
}

// Write keeps what fits and discards the rest: an error would end the program in the middle of its work.
func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.max-b.Len())
	_, _ = b.Buffer.Write(p[:keep])
	return len(p), nil
}
