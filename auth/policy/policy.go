package policy

import (
	"fmt"
	"strings"
)

// maxBytes is the maximum size of a document.
const maxBytes = 20 << 10

// Policy is a compiled policy document. It is never modified, so it may be shared.
type Policy struct {
	name       string
	statements []*Statement
	public     bool
}

// Name returns the name from the Source of the policy.
func (p *Policy) Name() string { return p.name }

// Effect is what a statement does to the requests that it matches.
type Effect uint8

// The effects.
const (
	Allow Effect = iota
	Deny
)

// Statement is a statement of a policy. The exported fields identify it.
type Statement struct {
	Policy string // the name of the policy
	Index  int    // the position in the document, from 1
	Sid    string
	Line   int // the line at which it begins
	Effect Effect

	principals   principals // only in bucket policies
	notPrincipal bool
	actions      actionSet // after NotAction was applied
	resources    []resource
	notResource  bool
	vars         []*variable // of the resources
	conditions   []condition
}

// String returns a description for messages: the policy, the position, and the Sid if there is one.
func (s *Statement) String() string {
	text := fmt.Sprintf("statement %d", s.Index)
	if s.Sid != "" {
		text += fmt.Sprintf(" (%s)", s.Sid)
	}
	if s.Policy != "" {
		text += " of " + s.Policy
	}
	return text
}

// resource is an entry of Resource or NotResource.
type resource struct {
	tokens []token
	kinds  kinds // of the resources that it can match
}

// Error is returned for every document that is not a valid policy. S3 responds with the code MalformedPolicy, IAM with
// MalformedPolicyDocument.
type Error struct {
	Statement int    // from 1; 0 if the error is outside of the statements
	Sid       string // of the statement, if it has one
	Element   string // "" if the document is not JSON
	Line      int    // from 1
	Reason    string
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Statement > 0 {
		fmt.Fprintf(&b, "statement %d", e.Statement)
		if e.Sid != "" {
			fmt.Fprintf(&b, " (%s)", e.Sid)
		}
		b.WriteString(", ")
	}
	if e.Element != "" {
		fmt.Fprintf(&b, "element %s, ", e.Element)
	}
	fmt.Fprintf(&b, "line %d: %s", e.Line, e.Reason)
	return b.String()
}

// Principals returns the ARNs of the users, roles, sessions and application keys that the policy names as principals.
func (p *Policy) Principals() (list []string) {
	for _, s := range p.statements {
		list = append(list, s.principals.arns...)
	}
	return list
}

// Source describes a document.
type Source struct {
	Name   string // of the policy, for messages
	Bucket string // the bucket of a bucket policy; "" for the policy of an identity or a session
	Trust  bool   // a trust policy: who may assume a role

	// IDs are the unique IDs of principals, by the ARNs that they had when the document was written. Such an ARN names the
	// principal with this ID (Caller.ID; of a session, the ID of the role), whatever its name is now, and not one that was
	// created later under the name.
	IDs map[string]string

	// Known reports whether a principal exists: a kind such as "AWS", and the principal as the policy names it. If it is
	// nil, every well-formed principal is accepted.
	Known func(kind, principal string) bool
}

// Parse compiles a document. Every error is an *Error.
func Parse(document []byte, from Source) (*Policy, error) {
	if len(document) > maxBytes {
		reason := fmt.Sprintf("the document has %d bytes: at most %d are allowed", len(document), maxBytes)
		return nil, &Error{Line: 1, Reason: reason}
	}
	root, err := readJSON(document)
	if err != nil {
		return nil, err
	}
	c := &compiler{from: from}
	if err := c.document(root); err != nil {
		return nil, err
	}
	p := &Policy{name: from.Name, statements: c.statements}
	p.public = isPublic(p.statements)
	return p, nil
}
