package identity

import (
	"cmp"
	"context"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/batch"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/mutant"
)

// Options configure a Directory. Meta, Writer and Account are required.
type Options struct {
	Meta    core.Meta
	Writer  *batch.Writer
	Account string // the ID of the default account: see AccountID

	// Key encrypts the secrets of access keys. It has KeySize bytes, or is nil if there is none. NewKey stores a new key
	// durably and returns it. It is called only if there is no key and no secret. If it is nil, no secret can be stored.
	Key    []byte
	NewKey func() ([]byte, error)

	Logger *slog.Logger     // default slog.Default
	Now    func() time.Time // default time.Now
}

// Directory is all identities of a store. Its methods are safe for concurrent use.
//
// One process: other servers would have to learn about each change of the records before they accept another request.
type Directory struct {
	records
	managedPolicies
	sessions sessions

	closed map[string]bool // the accounts that CloseAccount has disabled, by ID; guarded by mu

	noted map[string]bool // the access keys with a record of their last use; used by Open and NoteUses
}

// records are the records of a directory: they are read at a start, and then changed one after another.
type records struct {
	o      Options
	now    atomic.Pointer[state]
	tokens atomic.Pointer[cipher.AEAD] // of session tokens; nil if there is no key

	mu    sync.Mutex // serializes changes; guards vault and stale
	vault vault
	stale bool // the records may differ from the state
}

// Open reads the identities of a store. It writes nothing to the store.
func Open(ctx context.Context, o Options) (*Directory, error) {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Directory{records: records{o: o}, closed: map[string]bool{}}
	d.managedPolicies.records, d.sessions.of = &d.records, &d.records
	d.setKey(o.Key)
	if err := d.load(ctx); err != nil {
		return nil, err
	}
	if err := d.readUses(ctx); err != nil {
		return nil, err
	}
	s := d.now.Load()
	if s.secrets == 0 && d.vault.aead == nil {
		if err := d.makeKey(s); err != nil {
			return nil, err
		}
	}
	if len(s.unreadable) > 0 {
		o.Logger.Warn(unreadableText, "keys", s.unreadable)
	}
	for _, err := range s.broken {
		o.Logger.Warn("an identity is refused", "err", err)
	}
	return d, nil
}

const unreadableText = "access keys are refused, because their secrets cannot be decrypted: restore the file with their key " +
	"and restart the server, or delete them"

// pageSize is the number of records that are read at a time.
const pageSize = 1000

// load reads all records. The caller holds d.mu, or is Open.
func (d *records) load(ctx context.Context) error {
	entries := map[place]*entry{}
	for _, kind := range allRecords {
		for after := ""; ; {
			page, err := d.o.Meta.Records(ctx, kind, after, pageSize)
			if err != nil {
				return err
			}
			for _, r := range page {
				e, err := d.vault.read(r)
				if err != nil {
					return err
				}
				entries[e.place] = e
			}
			if len(page) < pageSize {
				break
			}
			after = page[len(page)-1].Key
		}
	}
	d.now.Store(newState(d.o.Account, entries, d.now.Load()))
	d.stale = false
	return nil
}

// Lookup implements gate.Lookup for all access keys except that of the root. An access key that is unknown, disabled or
// expired has no credential: S3 does not distinguish them. For temporary access keys it does.
func (d *Directory) Lookup(_ context.Context, accessKey, token string) (gate.Credential, error) {
	if strings.HasPrefix(accessKey, temporaryPrefix) {
		return d.sessions.lookup(accessKey, token)
	}
	a, ok := d.now.Load().access[accessKey]
	if !ok || d.expired(a.expires) {
		return gate.Credential{}, nil
	}
	return a.credential, nil
}

func (d *records) expired(at time.Time) bool {
	return !at.IsZero() && !d.o.Now().Before(at) && !mutant.Is("expired-keys-work")
}

// anonymous is the caller without an account.
var anonymous = &policy.Caller{Principal: auth.Anonymous}

// Caller returns the caller for a principal, with the policies that apply to it now. It returns nil if the principal
// must not do anything, for example because it was deleted after its request was authenticated.
func (d *Directory) Caller(p *auth.Principal) *policy.Caller {
	if p.IsAnonymous() {
		return anonymous
	}
	if s, ok := p.Temporary.(*session); ok {
		return d.sessions.caller(s)
	}
	c, ok := d.now.Load().callers[p.ID]
	if !ok || kindOf(c.Principal.ARN) != kindOf(p.ARN) || d.expired(c.expires) {
		return nil
	}
	return c.Caller
}

// kindOf returns an ARN without its name, which can have changed since a request was authenticated.
func kindOf(arn string) string {
	kind, _, _ := strings.Cut(arn, "/")
	return kind
}

// HasSecrets reports whether there are access keys.
func (d *Directory) HasSecrets() bool { return d.now.Load().secrets > 0 }

// Root returns the root of the default account. It is never modified.
func (d *Directory) Root() *auth.Principal { return d.now.Load().root }

// Resolve reports whether a principal exists, which a bucket policy names with a kind, and returns its unique ID. Any
// session of a role that exists is a principal, and has the ID of the role.
func (d *Directory) Resolve(kind, principal string) (id string, exists bool) {
	switch kind {
	case "AWS", "CanonicalUser":
		id = d.now.Load().idOf(principal)
		return id, id != ""
	}
	return "", true // no caller is one of the others
}

// PresentARN returns the ARN that the principal with a unique ID has now, which had another ARN before, perhaps the same one.
// If the principal was deleted, it is the ID, as AWS does in policies.
func (d *Directory) PresentARN(arn, id string) string {
	e, session := d.now.Load().byID[id], policy.SessionOf(arn)
	switch {
	case e == nil || e.Identity == nil:
		return strings.TrimSuffix(id+":"+session, ":")
	case session != "":
		return fmt.Sprintf("arn:aws:sts::%s:assumed-role/%s/%s", e.Account, e.Name, session)
	}
	return e.ARN()
}

// time returns the time for a record.
func (d *records) time() time.Time { return d.o.Now().UTC().Truncate(time.Second) }

// makeKey makes the key that encrypts secrets. The caller holds d.mu, or is Open.
func (d *records) makeKey(s *state) error {
	if s.secrets > 0 || d.o.NewKey == nil {
		return core.E("identity", core.NoKey, errors.New("there is no key that encrypts secrets: restore the file with "+
			"the key and restart the server, or delete all access keys"))
	}
	key, err := d.o.NewKey()
	if err == nil {
		d.setKey(key)
	}
	return err
}

// setKey sets the key that encrypts secrets; nil if there is none. The caller holds d.mu, or is Open.
func (d *records) setKey(key []byte) {
	d.vault = newVault(key)
	if key != nil {
		tokens := newTokenCipher(key)
		d.tokens.Store(&tokens)
	}
}

// encrypt returns the stored form of a secret. The caller holds d.mu.
func (d *records) encrypt(s *state, secret, accessKey, identity string) ([]byte, error) {
	if d.vault.aead == nil {
		if err := d.makeKey(s); err != nil {
			return nil, err
		}
	}
	if len(s.unreadable) > 0 && !mutant.Is("secrets-of-two-keys") {
		return nil, core.E("identity", core.NoKey, fmt.Errorf("no secret can be stored while others cannot be decrypted (those of %s): "+
			"restore the file with their key and restart the server, or delete them", strings.Join(s.unreadable, ", ")))
	}
	return d.vault.encrypt(secret, accessKey, identity), nil
}

// encode returns the record of a value.
func encode(kind, key string, value any) (*core.Record, error) {
	text, err := json.Marshal(value)
	return &core.Record{Kind: kind, Key: key, Value: text}, err
}

// changeTries is how often a change is attempted if other processes change the same record.
const changeTries = 10

// change applies a change durably. Compute returns the new record, a record without a value to delete it, or nil if
// nothing is to be done. It may be called several times, each time with the current state, and must not modify it.
func (d *records) change(ctx context.Context, compute func(*state) (*core.Record, error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for try := 1; ; try++ {
		if d.stale {
			if err := d.load(ctx); err != nil {
				return err
			}
		}
		s := d.now.Load()
		r, err := compute(s)
		if r == nil || err != nil {
			return err
		}
		err = d.write(ctx, s, r)
		if !core.Is(err, core.Conflict) || try == changeTries {
			return err
		}
	}
}

// write writes a record and replaces the state. After an error, the change may still have been applied.
func (d *records) write(ctx context.Context, s *state, r *core.Record) error {
	e := &entry{place: place{r.Kind, r.Key}}
	if r.Value != nil {
		var err error
		if e, err = d.vault.read(*r); err != nil {
			return err
		}
	}
	c := &core.PutRecord{Record: *r, HasExpect: true}
	if old := s.entries[e.place]; old != nil {
		c.Expect = old.value
	}
	d.stale = true
	// A change that was written must also become visible here, even if the client disconnects.
	ctx = context.WithoutCancel(ctx)
	if mutant.Is("identity-before-durable") {
		go func() { _, _ = d.o.Writer.Do(ctx, batch.Write{Change: c}) }()
		d.now.Store(s.with(e))
		d.stale = false
		return nil
	}
	_, err := d.o.Writer.Do(ctx, batch.Write{Change: c})
	if err == nil {
		err = d.o.Writer.Settle(ctx) // in relaxed mode too: a revoked access key must not come back
	}
	if err != nil {
		if loadErr := d.load(ctx); loadErr != nil {
			d.o.Logger.Warn("the identities cannot be read again after a failed change", "err", loadErr)
		}
		return err
	}
	if !mutant.Is("change-not-seen") {
		d.now.Store(s.with(e))
	}
	d.stale = false
	return nil
}
