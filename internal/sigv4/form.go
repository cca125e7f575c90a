package sigv4

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/hex"
	"strings"
	"time"
)

// The fields of an HTML form (POST) with a signature of version 2, in lower case.
const (
	formSignature2 = "signature"
	formAccessKey2 = "awsaccesskeyid"
)

// VerifyForm authenticates the sender of an HTML form by its fields. field returns the value of a field by its
// lower-case name, or "". The signature covers the field policy as it was sent, and the policy covers the other fields:
// the caller must check that it allows the form, and that it has not expired. A policy is accepted for at most
// MaxExpires after it was signed, even if it expires later.
//
// Errors are those of Verify. For a form without credentials the error is ErrAnonymous, and the Auth is not nil.
func (v *Verifier) VerifyForm(ctx context.Context, field func(string) string) (*Auth, error) {
	if field(formAccessKey2) != "" || field(formSignature2) != "" {
		return nil, errVersion2()
	}
	c := claim{
		algorithm: field("x-amz-algorithm"), credential: field("x-amz-credential"), date: field("x-amz-date"),
		signature: field("x-amz-signature"), token: field("x-amz-security-token"), presigned: true,
	}
	policy := field("policy")
	a := &Auth{Form: true, Mode: PayloadUnsigned, decoders: &v.bodies.decoders}
	if c.algorithm == "" && c.credential == "" && c.signature == "" {
		return a, ErrAnonymous
	}
	for _, f := range [...]struct{ name, value string }{
		{"x-amz-algorithm", c.algorithm}, {"x-amz-credential", c.credential}, {"x-amz-date", c.date},
		{"x-amz-signature", c.signature}, {"policy", policy},
	} {
		if f.value == "" {
			return nil, newError(InvalidArgument, "Bucket POST must contain a field named '"+f.name+
				"'.  If it is specified, please check the order of the fields.").with("ArgumentName", f.name)
		}
	}
	if c.algorithm != algorithm {
		return nil, newError(InvalidArgument, "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"").
			with("ArgumentName", "x-amz-algorithm").with("ArgumentValue", c.algorithm)
	}
	if err := c.parseCredential(v.service()); err != nil {
		return nil, err
	}
	a.AccessKey, a.Algorithm, a.Region, a.SecurityToken = c.accessKey, algorithm, c.region, c.token
	if err := v.checkFormTime(a, &c); err != nil {
		return nil, err
	}
	if c.region != v.Region && !v.AnyRegion {
		return nil, c.malformed("the region '"+c.region+"' is wrong; expecting '"+v.Region+"'").with("Region", v.Region)
	}
	if err := v.checkFormSignature(ctx, a, &c, policy); err != nil {
		return nil, err
	}
	return a, nil
}

// checkFormTime checks the time of signing.
func (v *Verifier) checkFormTime(a *Auth, c *claim) error {
	t, err := time.Parse(timeLayout, c.date)
	if err != nil || len(c.date) != len(timeLayout) {
		return newError(InvalidArgument, "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"").
			with("ArgumentName", "x-amz-date")
	}
	if !strings.HasPrefix(c.date, c.day) {
		return c.malformed("Invalid credential date \"" + c.day + "\". This date is not the same as X-Amz-Date: \"" + c.date[:8] + "\".")
	}
	a.Time = t.UTC()
	now := time.Now()
	if v.Now != nil {
		now = v.Now()
	}
	switch {
	case now.Sub(a.Time) > MaxExpires:
		return newError(AccessDenied, "Invalid according to Policy: Policy expired.").with("ServerTime", serverTime(now))
	case a.Time.Sub(now) > cmp.Or(v.Skew, DefaultSkew):
		return newError(AccessDenied, "Request is not valid yet").with("ServerTime", serverTime(now))
	}
	return nil
}

// checkFormSignature computes the signature of a policy and compares it with the claimed one.
func (v *Verifier) checkFormSignature(ctx context.Context, a *Auth, c *claim, policy string) error {
	cred, err := v.Lookup(ctx, c.accessKey, a.SecurityToken)
	if err != nil {
		return err
	}
	key := signingKey(cred.SecretKey, c.day, c.region, v.service())
	sum, _ := hmacSHA256(nil, key[:], []byte(policy))
	want := hex.EncodeToString(sum[:])
	right := subtle.ConstantTimeCompare([]byte(c.signature), []byte(want)) == 1
	switch {
	case cred.SecretKey == "":
		return UnknownAccessKey(c.accessKey)
	case !right:
		return errMismatch().with("AWSAccessKeyId", c.accessKey).with("StringToSign", policy).with("SignatureProvided", c.signature)
	}
	a.Accept(cred)
	return nil
}
