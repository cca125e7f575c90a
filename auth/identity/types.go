package identity

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"orcas/auth"
	"orcas/auth/policy"
)

// AccountID returns the ID of the default account of a store, which has 12 digits. It depends only on the number of the
// store (see core.Identifier).
func AccountID(store uint64) string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("ORCAS default account "), store))
	const lowest = 100_000_000_000
	return fmt.Sprint(lowest + binary.BigEndian.Uint64(sum[:])%(9*lowest))
}

// Kind is a kind of identities. It is also the type of the resource in their ARNs.
type Kind string

// The kinds of identities.
const (
	User  Kind = "user"
	Group Kind = "group"
	Key   Kind = "key" // an application key
	Role  Kind = "role"

	// Account is an account besides the default account, which it belongs to. Its ID is that of the account, and its
	// access keys are those of the root of the account.
	Account Kind = "account"
)

// Identity is a user, a group, an application key, a role or an account.
type Identity struct {
	Kind    Kind      `json:"-"`
	Account string    `json:"-"`
	Name    string    `json:"name"` // unique among those of its kind in the account, without regard to case
	ID      string    `json:"id"`   // unique, and never used again
	Created time.Time `json:"created"`

	// OtherKey is set if the key of the record does not contain the name: the identity was renamed, or the record of a
	// renamed one had the key already.
	OtherKey bool `json:"other_key,omitempty"`

	Inline   []Inline `json:"inline,omitempty"`   // in the order of their names
	Attached []string `json:"attached,omitempty"` // IDs of managed policies, or names of built-in ones

	Groups []string          `json:"groups,omitempty"` // of a user: the IDs of its groups
	Tags   map[string]string `json:"tags,omitempty"`   // of a user or a role

	Keys []AccessKey `json:"keys,omitempty"` // of a user, an application key or the root of an account, the oldest first

	Disabled bool `json:"disabled,omitempty"` // of an application key or an account

	// Of an application key.
	Grant   *Grant    `json:"grant,omitempty"`   // from which its policy was made; nil if the policy was given
	Creator string    `json:"creator,omitempty"` // the ID of the identity that created it, or of the account for its root
	Expires time.Time `json:"expires,omitzero"`  // zero: never
	With    string    `json:"with,omitempty"`    // the access key with which it was created; "" if it is not known

	// Of a role.
	Trust       string            `json:"trust,omitempty"`       // the document of its trust policy
	Trusted     map[string]string `json:"trusted,omitempty"`     // the IDs of the principals that it names, by their ARNs
	MaxSession  int               `json:"max_session,omitempty"` // the maximum duration of a session, in seconds
	Description string            `json:"description,omitempty"`
}

// ARN returns the ARN of the identity; of an account, that of its root.
func (i *Identity) ARN() string {
	if i.Kind == Account {
		return auth.RootARN(i.ID)
	}
	return fmt.Sprintf("arn:aws:iam::%s:%s/%s", i.Account, i.Kind, i.Name)
}

// Inline is a policy that is part of an identity.
type Inline struct {
	Name     string `json:"name"`
	Document string `json:"document"`
}

// AccessKey is an access key of a user or an application key.
type AccessKey struct {
	ID       string    `json:"id"`
	Created  time.Time `json:"created"`
	Secret   []byte    `json:"secret"` // encrypted
	Disabled bool      `json:"disabled,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // zero: never
}

// ManagedPolicy is a policy that several identities can share.
type ManagedPolicy struct {
	Account string    `json:"-"`
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`

	// The default version, which is the one that applies. Records that were written before there were several versions
	// have only the document.
	Version  int       `json:"version,omitempty"` // its number, from 1
	Since    time.Time `json:"since,omitzero"`    // when it was created
	Document string    `json:"document"`

	Others   []PolicyVersion `json:"others,omitempty"`   // the other versions, the oldest first
	Replaced int             `json:"replaced,omitempty"` // how many versions were created after the first; numbers are never used again

	Description string            `json:"description,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// PolicyVersion is a version of a managed policy.
type PolicyVersion struct {
	Number   int       `json:"number"` // from 1
	Created  time.Time `json:"created"`
	Document string    `json:"document"`
}

// ID returns the ID of the version.
func (v *PolicyVersion) ID() string { return fmt.Sprintf("v%d", v.Number) }

// Default returns the version of the policy that applies.
func (p *ManagedPolicy) Default() PolicyVersion { return PolicyVersion{p.Version, p.Since, p.Document} }

// Versions returns all versions of the policy, the oldest first.
func (p *ManagedPolicy) Versions() []PolicyVersion {
	i, _ := slices.BinarySearchFunc(p.Others, p.Version, byNumber)
	return slices.Insert(slices.Clone(p.Others), i, p.Default())
}

func byNumber(v PolicyVersion, number int) int { return cmp.Compare(v.Number, number) }

// setDefault makes a version the default, which must not be among the others.
func (p *ManagedPolicy) setDefault(v PolicyVersion) {
	p.Version, p.Since, p.Document = v.Number, v.Created, v.Document
}

// ARN returns the ARN of the policy.
func (p *ManagedPolicy) ARN() string { return "arn:aws:iam::" + p.Account + ":policy/" + p.Name }

// Code is the kind of an Error. The codes are those of IAM.
type Code string

// The codes of errors.
const (
	NoSuchEntity    Code = "NoSuchEntity"
	Exists          Code = "EntityAlreadyExists"
	InUse           Code = "DeleteConflict"
	TooMany         Code = "LimitExceeded"
	Invalid         Code = "InvalidInput"
	MalformedPolicy Code = "MalformedPolicyDocument"
	Denied          Code = "AccessDenied"
	Unmodifiable    Code = "UnmodifiableEntity"
	Validation      Code = "ValidationError"
)

// Error is an error that the caller of a method has caused. Other errors come from the store.
type Error struct {
	Code Code
	Text string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

func fail(c Code, format string, args ...any) error { return &Error{c, fmt.Sprintf(format, args...)} }

// MaxUserKeys is the maximum number of access keys of a user.
const MaxUserKeys = 10

// Limits.
const (
	maxAccessKeys = 2  // of an application key or a root: the current one, and the previous one for a while
	maxInline     = 10 // of an identity
	maxAttached   = 20 // of an identity
	maxGroups     = 20 // of a user
	maxVersions   = 5  // of a managed policy
	maxTags       = 50 // of a user, a role or a policy
	maxCreators   = 8  // of an application key: creator, creator of the creator, and so on
)

// parsePolicy compiles the document of a policy of an identity.
func parsePolicy(name, document string) (*policy.Policy, error) {
	p, err := policy.Parse([]byte(document), policy.Source{Name: name})
	if err != nil {
		return nil, fail(MalformedPolicy, "policy %s: %s", name, err)
	}
	return p, nil
}
