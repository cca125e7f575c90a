package bucketaccess

import (
	"bytes"
	"encoding/json"
	"fmt"

	"orcas/auth/policy"
	"orcas/core"
)

// PublicReadSid is the Sid of the statement that SetPublic adds to the policy of a bucket.
const PublicReadSid = "OrcasPublicRead"

// Public is who may read the objects of a bucket without credentials.
type Public string

// The values of Public.
const (
	PublicNone   Public = "none"   // nobody
	PublicRead   Public = "read"   // everybody may read all objects; nobody may list them
	PublicCustom Public = "custom" // the policy of the bucket decides
)

// PublicError is returned by SetPublic if it cannot open or close a bucket without a change of the policy that the
// caller has not asked for.
type PublicError struct{ Text string }

func (e *PublicError) Error() string { return e.Text }

// document is a policy document, whose statements are kept as they are.
type document struct {
	Version   json.RawMessage   `json:",omitempty"`
	ID        json.RawMessage   `json:"Id,omitempty"`
	Statement []json.RawMessage `json:"Statement"`
}

// split returns a policy document without the statement of SetPublic, and reports whether it has that statement. The
// document must be a valid policy.
func split(text string) (rest document, open bool, err error) {
	var raw struct {
		Version, ID, Statement json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return rest, false, err
	}
	rest.Version, rest.ID = raw.Version, raw.ID
	list := []json.RawMessage{raw.Statement}
	if bytes.HasPrefix(raw.Statement, []byte("[")) {
		if err := json.Unmarshal(raw.Statement, &list); err != nil {
			return rest, false, err
		}
	}
	for _, s := range list {
		var named struct{ Sid string }
		if err := json.Unmarshal(s, &named); err != nil {
			return rest, false, err
		}
		if named.Sid == PublicReadSid {
			open = true
		} else {
			rest.Statement = append(rest.Statement, s)
		}
	}
	return rest, open, nil
}

// parts returns the policy of a bucket without the statement of SetPublic, compiled, and reports whether it has that
// statement. Both are zero if there are no other statements.
func parts(b *core.BucketInfo) (rest document, compiled *policy.Policy, open bool, err error) {
	text := Document(b)
	if text == "" {
		return rest, nil, false, nil
	}
	if _, err := Parse(b.Name, text); err != nil {
		return rest, nil, false, fmt.Errorf("the policy of the bucket %s cannot be read, so replace or delete it first: %w", b.Name, err)
	}
	if rest, open, err = split(text); err != nil || len(rest.Statement) == 0 {
		return rest, nil, open, err
	}
	encoded, err := json.Marshal(rest)
	if err == nil {
		compiled, err = Parse(b.Name, string(encoded))
	}
	return rest, compiled, open, err
}

// PublicOf returns who may read the objects of a bucket without credentials.
func PublicOf(b *core.BucketInfo) Public {
	p, err := Parse(b.Name, Document(b))
	if Document(b) == "" || err != nil || !p.IsPublic() || Block(b).RestrictPublicBuckets {
		return PublicNone // a policy that cannot be read denies everything
	}
	if _, others, open, err := parts(b); err == nil && open && (others == nil || !others.IsPublic()) {
		return PublicRead
	}
	return PublicCustom
}

// SetPublic opens a bucket, so that everybody may read its objects, or closes it. It changes the policy and the public
// access block of b, which the caller must store together, in one change.
//
// To open the bucket, it adds a statement with a Sid of its own and turns BlockPublicPolicy and RestrictPublicBuckets
// off. To close it, it removes that statement and turns all settings of the block on. Other statements stay as they are.
// With PublicCustom, it removes that statement and turns BlockPublicPolicy and RestrictPublicBuckets off, so that the
// other statements decide.
// If they are public and the block has kept them from having an effect, SetPublic refuses to turn the block off: that
// would allow more than reading.
func SetPublic(b *core.BucketInfo, to Public) error {
	rest, others, _, err := parts(b)
	if err != nil {
		return err
	}
	opened, block := Block(b), BlocksAll
	switch to {
	case PublicNone:
	case PublicCustom:
		opened.BlockPublicPolicy, opened.RestrictPublicBuckets = false, false
		block = EncodeBlock(opened)
	case PublicRead:
		if others != nil && others.IsPublic() && opened.RestrictPublicBuckets {
			return &PublicError{fmt.Sprintf("the policy of the bucket %s has other statements that are public, and that only the "+
				"public access block keeps from having an effect: remove them first", b.Name)}
		}
		opened.BlockPublicPolicy, opened.RestrictPublicBuckets = false, false
		block = EncodeBlock(opened)
		rest.Statement = append(rest.Statement, publicRead(b.Name))
	default:
		return &PublicError{fmt.Sprintf("expected read, none or custom, not %q", to)}
	}
	document, err := rest.text(b)
	if err == nil {
		principals := core.AttrValue(b.Attrs, PrincipalsAttr)
		if document == "" {
			principals = ""
		}
		setDocument(b, document, principals)
		b.Attrs = core.SetAttr(b.Attrs, BlockAttr, block)
	}
	return err
}

// SetPolicy replaces the policy of a bucket with a valid document, except for the statement of SetPublic, which stays if
// the bucket has it.
func SetPolicy(b *core.BucketInfo, document string, who Principals) error {
	n, err := Prepare(b.Name, document, who)
	if err != nil {
		return err
	}
	rest, reserved, err := split(document)
	if err != nil {
		return err
	}
	if reserved {
		return &PublicError{fmt.Sprintf("the Sid %s is reserved for the statement that opens the bucket to everybody", PublicReadSid)}
	}
	if _, _, open, err := parts(b); err == nil && open { // a policy that cannot be read is replaced
		rest.Statement = append(rest.Statement, publicRead(b.Name))
		if n.document, err = rest.text(b); err != nil {
			return err
		}
	}
	n.Set(b)
	return nil
}

// text returns the text of a policy of a bucket, or "" if it has no statement.
func (d *document) text(b *core.BucketInfo) (string, error) {
	if len(d.Statement) == 0 {
		return "", nil
	}
	if Document(b) == "" && d.Version == nil {
		d.Version = json.RawMessage(`"2012-10-17"`)
	}
	encoded, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	if _, err := Parse(b.Name, string(encoded)); err != nil { // it may be too large
		return "", &PublicError{fmt.Sprintf("the policy of the bucket %s would not be valid: %s", b.Name, err)}
	}
	return string(encoded), nil
}

// publicRead returns the statement that allows everybody to read the objects of a bucket.
func publicRead(bucket string) json.RawMessage {
	text, err := json.Marshal(map[string]any{
		"Sid": PublicReadSid, "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::" + bucket + "/*",
	})
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return text
}
