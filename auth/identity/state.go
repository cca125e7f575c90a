package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/mutant"
)

// The kinds of records.
const (
	userRecords   = "iam-user"
	groupRecords  = "iam-group"
	keyRecords    = "iam-key"
	roleRecords   = "iam-role"
	policyRecords = "iam-policy"

	accountRecords = "iam-account"
)

var allRecords = []string{userRecords, groupRecords, keyRecords, roleRecords, policyRecords, accountRecords}

// recordsOf returns the kind of the records of identities.
func recordsOf(k Kind) string { return "iam-" + string(k) }

// place identifies a record.
type place struct{ kind, key string }

// placeOf returns the place of what has a name, unless it was renamed.
func placeOf(kind, account, name string) place {
	return place{kind, account + "/" + strings.ToLower(name)}
}

// placeFor returns the place of the record of a new identity. That of its name may belong to one that was renamed.
func (s *state) placeFor(i *Identity) place {
	at := placeOf(recordsOf(i.Kind), i.Account, i.Name)
	if s.entries[at] != nil {
		at.key += "/" + i.ID
	}
	return at
}

// entry is a record, and what was computed from it alone. It is immutable.
type entry struct {
	place
	value []byte // as stored

	// One of them is set.
	*Identity
	managed *ManagedPolicy

	policies []*policy.Policy // the inline policies, or the document of a managed policy
	trust    *policy.Policy   // the trust policy of a role
	secrets  []string         // of Identity.Keys; "" for a secret that cannot be decrypted
	err      error            // the identity or the policy cannot be used
}

// read returns the entry of a record. Its error means that the directory cannot be used at all.
func (v vault) read(r core.Record) (*entry, error) {
	const op = "identity.read"
	e := &entry{place: place{r.Kind, r.Key}, value: r.Value}
	account, name, _ := strings.Cut(r.Key, "/")
	var into any
	switch r.Kind {
	case policyRecords:
		e.managed = &ManagedPolicy{Account: account}
		into = e.managed
	default:
		e.Identity = &Identity{Kind: Kind(strings.TrimPrefix(r.Kind, "iam-")), Account: account}
		into = e.Identity
	}
	d := json.NewDecoder(bytes.NewReader(r.Value))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		err = fmt.Errorf("the record %s of the kind %s cannot be read (it may be that of a newer version): %w", r.Key, r.Kind, err)
		return nil, core.E(op, core.Unsupported, err)
	}
	stored, otherKey := "", false
	switch {
	case e.managed != nil:
		stored = e.managed.Name
		if e.managed.Version == 0 {
			e.managed.setDefault(PolicyVersion{e.managed.Replaced + 1, e.managed.Updated, e.managed.Document})
		}
		e.compile(e.managed.Name, e.managed.Document)
	default:
		stored, otherKey = e.Name, e.OtherKey
		for i := range e.Inline {
			e.compile(e.Inline[i].Name, e.Inline[i].Document)
		}
		if e.Kind == Role {
			e.compileTrust()
		}
		e.decrypt(v)
	}
	if strings.ToLower(stored) != name && !otherKey {
		err := fmt.Errorf("the record %s of the kind %s has the name %q", r.Key, r.Kind, stored)
		return nil, core.E(op, core.Damaged, err)
	}
	return e, nil
}

func (e *entry) compile(name, document string) {
	p, err := parsePolicy(name, document)
	if err != nil {
		e.err = err
	}
	e.policies = append(e.policies, p)
}

func (e *entry) decrypt(v vault) {
	e.secrets = make([]string, len(e.Keys))
	for i := range e.Keys {
		e.secrets[i], _ = v.decrypt(e.Keys[i].Secret, e.Keys[i].ID, e.ID) // "" after an error
	}
}

// access is an access key that may be accepted.
type access struct {
	credential gate.Credential
	expires    time.Time // zero: never
}

// caller is a principal that may do something.
type caller struct {
	*policy.Caller
	expires time.Time // zero: never
}

// state is all entries, and what was computed from them. It is immutable.
type state struct {
	entries map[place]*entry
	root    *auth.Principal // of the default account

	named      map[place]*entry  // by the places of their names, where those that were renamed have no record
	ambiguous  map[place]bool    // the names that several identities have, which are all refused
	byID       map[string]*entry // identities and managed policies, by ID
	access     map[string]access // by access key
	callers    map[string]caller // by the ID of the principal
	roles      map[string]role   // by their IDs
	principals map[string]string // unique IDs, by ARNs, IDs of accounts, and canonical IDs
	uses       map[string]*use   // of all access keys, also of those that are not accepted; shared with other states
	secrets    int               // the number of secrets
	unreadable []string          // the ARNs of identities with secrets that cannot be decrypted
	broken     []error           // why other identities cannot be used
}

// with returns a state in which one entry was replaced, added, or removed if e has no value.
func (s *state) with(e *entry) *state {
	entries := maps.Clone(s.entries)
	if e.value == nil {
		delete(entries, e.place)
	} else {
		entries[e.place] = e
	}
	return newState(s.root.Account, entries, s)
}

// get returns what has a name, or nil.
func (s *state) get(kind, account, name string) *entry { return s.named[placeOf(kind, account, name)] }

// newState computes a state. Account is the ID of the default account. The uses of access keys are those of the state
// before, which may be nil.
func newState(account string, entries map[place]*entry, before *state) *state {
	s := &state{
		entries: entries, named: map[place]*entry{}, byID: map[string]*entry{}, access: map[string]access{}, callers: map[string]caller{},
		ambiguous: map[place]bool{}, roles: map[string]role{}, principals: map[string]string{}, uses: map[string]*use{},
	}
	s.root = s.addRoot(account, true)
	for _, e := range entries {
		if e.managed != nil {
			s.named[e.place] = e
			s.byID[e.managed.ID] = e
			continue
		}
		s.byID[e.ID] = e
		s.addName(e)
	}
	for _, e := range entries {
		if e.Identity != nil && e.Kind == Account {
			s.addRoot(e.ID, (!e.Disabled || mutant.Is("disabled-accounts-work")) && !s.isAmbiguous(e))
		}
	}
	for _, e := range entries {
		if e.Identity == nil || e.Kind == Group {
			continue
		}
		if !s.isAmbiguous(e) {
			s.principals[e.ARN()] = e.ID
		}
		if e.Kind == Role {
			if err := s.addRole(e); err != nil && !errors.Is(err, errDisabled) {
				s.broken = append(s.broken, err)
			}
			continue
		}
		s.secrets += len(e.Keys)
		if slices.Contains(e.secrets, "") {
			s.unreadable = append(s.unreadable, e.ARN())
		}
		c, err := s.caller(e, 0)
		if err != nil && !errors.Is(err, errDisabled) {
			s.broken = append(s.broken, err)
		}
		for i := range e.Keys {
			s.uses[e.Keys[i].ID] = &use{}
			if before != nil && before.uses[e.Keys[i].ID] != nil {
				s.uses[e.Keys[i].ID] = before.uses[e.Keys[i].ID]
			}
			if k := &e.Keys[i]; err == nil && !k.Disabled && e.secrets[i] != "" {
				s.access[k.ID] = access{gate.Credential{SecretKey: e.secrets[i], Principal: c.Principal}, earlier(c.expires, k.Expires)}
			}
		}
	}
	slices.Sort(s.unreadable)
	return s
}

// addName adds an identity by its name. Names are unique, unless a rebuild from a journal with gaps has lost a rename.
// The name is ambiguous then, until one of the identities is deleted or renamed. Meanwhile, the name finds the one whose
// record has another key.
func (s *state) addName(e *entry) {
	at := placeOf(e.kind, e.Account, e.Name)
	other := s.named[at]
	if other != nil && !s.ambiguous[at] {
		s.ambiguous[at] = true
		s.broken = append(s.broken, fmt.Errorf("several records of the kind %s have the name %s in the account %s: delete or rename one of them",
			e.kind, e.Name, e.Account))
	}
	if other == nil || other.place == at || e.place != at && e.key < other.key {
		s.named[at] = e
	}
}

// isAmbiguous reports whether another identity has the name of an identity.
func (s *state) isAmbiguous(e *entry) bool { return s.ambiguous[placeOf(e.kind, e.Account, e.Name)] }

// addRoot adds an account with its root, and returns the root. The root of a disabled account is known, but must not do
// anything.
func (s *state) addRoot(account string, enabled bool) *auth.Principal {
	root := &auth.Principal{Account: account, ARN: auth.RootARN(account), ID: account}
	canonical := auth.CanonicalID(account)
	if enabled {
		s.callers[account] = caller{Caller: &policy.Caller{Principal: root, Canonical: canonical, ID: account}}
	}
	s.principals[root.ARN], s.principals[account], s.principals[canonical] = account, account, account
	return root
}

// errDisabled is returned for an identity that is disabled, or whose account or creator is.
var errDisabled = errors.New("the identity is disabled")

// caller returns the caller of an identity, with its creators, and remembers it. It returns an error if the identity
// must not do anything: a policy that cannot be read might deny something.
func (s *state) caller(e *entry, depth int) (caller, error) {
	if c, ok := s.callers[e.ID]; ok {
		return c, nil
	}
	if e.Kind == Account { // enabled ones have a caller already
		return caller{}, errDisabled
	}
	own, err := s.policiesOf(e)
	if err != nil {
		return caller{}, err
	}
	c := caller{expires: e.Expires, Caller: own}
	if e.Kind == Key {
		creator, err := s.creator(e, depth)
		if err != nil {
			return caller{}, err
		}
		c.expires = earlier(c.expires, creator.expires)
		if !mutant.Is("creator-forgotten") {
			c.Creator = creator.Caller
		}
	}
	s.callers[e.ID] = c
	return c, nil
}

// policiesOf returns the caller of an identity, with the policies that apply to it.
func (s *state) policiesOf(e *entry) (*policy.Caller, error) {
	if e.err != nil {
		return nil, fmt.Errorf("%s: %w", e.ARN(), e.err)
	}
	if s.isAmbiguous(e) {
		return nil, fmt.Errorf("%s: another one has the same name: %w", e.ARN(), errDisabled) // reported already
	}
	if s.callers[e.Account].Caller == nil {
		return nil, fmt.Errorf("%s: the account is disabled or does not exist: %w", e.ARN(), errDisabled)
	}
	c := &policy.Caller{
		Principal: &auth.Principal{Account: e.Account, ARN: e.ARN(), ID: e.ID, Tags: e.Tags},
		Canonical: auth.CanonicalID(e.Account), ID: e.ID, Identity: e.policies,
	}
	if err := s.addPolicies(e, c); err != nil {
		return nil, fmt.Errorf("%s: %w", e.ARN(), err)
	}
	return c, nil
}

// creator returns the caller that created an application key.
func (s *state) creator(e *entry, depth int) (caller, error) {
	if e.Disabled && !mutant.Is("disabled-keys-work") {
		return caller{}, errDisabled
	}
	if root, ok := s.callers[e.Creator]; ok && e.Creator == root.Principal.Account {
		return root, nil
	}
	by := s.byID[e.Creator]
	if by == nil || by.Identity == nil || by.Kind == Group || by.Kind == Role || by.Account != e.Account || depth == maxCreators {
		return caller{}, fmt.Errorf("%s: its creator does not exist: %w", e.ARN(), errDisabled)
	}
	return s.caller(by, depth+1)
}

// policyByID returns a managed policy, or a built-in one by its name. It returns nil if there is none, or if it cannot be
// read.
func (s *state) policyByID(id string) *policy.Policy {
	if e := s.byID[id]; e != nil && e.managed != nil && e.err == nil {
		return e.policies[0]
	}
	return policy.BuiltIn(id)
}

// addPolicies adds the attached policies of an identity and of its groups, and the inline policies of its groups.
func (s *state) addPolicies(e *entry, to *policy.Caller) error {
	add := func(e *entry) error {
		for _, id := range e.Attached {
			p := s.policyByID(id)
			if p == nil {
				return fmt.Errorf("the attached policy %s does not exist or cannot be read", id)
			}
			to.Identity = append(slices.Clip(to.Identity), p)
		}
		return nil
	}
	if err := add(e); err != nil {
		return err
	}
	for _, id := range e.Groups {
		g := s.byID[id]
		if g == nil || g.Identity == nil || g.Kind != Group || g.Account != e.Account {
			return fmt.Errorf("the group %s does not exist", id)
		}
		if g.err != nil {
			return g.err
		}
		if s.isAmbiguous(g) {
			return fmt.Errorf("another group has the name of the group %s", g.Name)
		}
		to.Identity = append(slices.Clip(to.Identity), g.policies...)
		if err := add(g); err != nil {
			return err
		}
		to.Principal.Groups = append(to.Principal.Groups, g.Name)
	}
	return nil
}

// earlier returns the earlier one of two times, of which zero stands for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
