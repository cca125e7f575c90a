// Package auth decides who may do what. Decisions depend only on the principal, the action, the resource and the facts
// of a request. Package gate authenticates the principal; packages s3 and admin ask for a decision before they do
// anything.
package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Principal is the sender of a request. It is shared by many requests and never modified. The zero Principal is
// anonymous.
type Principal struct {
	Account string            // owns the resources that the principal creates; survives key rotation; "" if anonymous
	ARN     string            // for example arn:aws:iam::111122223333:root
	ID      string            // identifies it among all principals, also deleted ones; that of a root is its account
	Groups  []string          // the groups of a user
	Tags    map[string]string // the tags of the user or role
	Session string            // the name of the session, with temporary credentials
	Role    string            // the ID of the role of the session

	// Temporary is what the issuer of temporary credentials knows about them, and nobody else uses; nil for others.
	Temporary any
}

// Anonymous is the principal of requests without credentials.
var Anonymous = &Principal{}

// IsAnonymous reports whether the sender is not authenticated.
func (p *Principal) IsAnonymous() bool { return p.Account == "" }

// RootARN returns the ARN of the root of an account.
func RootARN(account string) string { return "arn:aws:iam::" + account + ":root" }

// CanonicalID returns the canonical ID of an account, under which responses of S3 and access control lists name it: 64
// hexadecimal digits. It depends on the account alone. It is not a secret.
func CanonicalID(account string) string {
	sum := sha256.Sum256([]byte("ORCAS account " + account))
	return hex.EncodeToString(sum[:])
}

// Action is the name of an action in policies, for example "s3:GetObject" or "orcas:GetStatus".
type Action string

// Resource is the object of an action. The account owns it; fields that do not apply to the resource are empty.
type Resource struct {
	Account string // the owner
	Bucket  string
	Key     string
	Version string // the version as in the request, if the request has one
	Prefix  string // the prefix of a listing
	Scope   Scope
	ARN     string // of a user, a group, a role or a policy

	// Policy is the policy document of the bucket, as of the time at which the request read the bucket; "" if the bucket
	// has none. RestrictPublic reports whether the public access block of the bucket limits a public policy to callers of
	// the bucket's account (RestrictPublicBuckets).
	Policy         string
	RestrictPublic bool

	// Principals are the unique IDs of the principals that Policy names, as package bucketaccess stores them; "" if they are
	// not known.
	Principals string
}

// Scope is the set of keys of a bucket that a decision covers.
type Scope uint8

// The scopes.
const (
	OneKey    Scope = iota // the key of the resource; the bucket itself if there is none
	AnyKey                 // at least one key of the bucket; the handler asks for a decision about each key
	EveryKey               // all keys that the bucket has or could have
	AnyAction              // the bucket: any action on it or on one of its keys, whatever the action of the request

	// For pages that show only what a user may do. Both allow what could be allowed, whatever values a request has for the
	// condition keys that vary from one request to the next.
	Perhaps // as OneKey
	Below   // at least one key that begins with Key and is longer; without Bucket, at least one bucket
)

// Facts provides the other facts of a request, by the names of condition keys such as "aws:SourceIp".
type Facts interface {
	// Fact returns the value of a condition key, and whether the request has it.
	Fact(key string) (string, bool)
}

// An Authorizer decides whether actions are allowed. It may be called concurrently.
type Authorizer interface {
	// Authorize returns nil if p may perform a on r, ErrDenied or ErrExplicitDeny if not, and another error if it could
	// not decide. The caller must refuse the request after any error.
	Authorize(ctx context.Context, p *Principal, a Action, r Resource, f Facts) error
}

// ErrDenied is returned by Authorize if the action is not allowed.
var ErrDenied = errors.New("access denied")

// ErrExplicitDeny is returned instead of ErrDenied, which it wraps, if a statement of a policy denies the action. Then
// no other rule may allow it.
var ErrExplicitDeny = fmt.Errorf("%w by a policy", ErrDenied)

// Owners is a rule without policies: an account may do everything with its own resources, and nothing with others.
// Package auth/access decides with policies.
type Owners struct{}

// Authorize implements Authorizer.
func (Owners) Authorize(_ context.Context, p *Principal, a Action, r Resource, _ Facts) error {
	if a != "" && !p.IsAnonymous() && p.Account == r.Account {
		return nil
	}
	return ErrDenied
}
