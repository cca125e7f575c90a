package postform

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"orcas/s3/apierr"
)

// Policy is the policy of a form.
type Policy struct {
	Expiration time.Time
	Conditions []Condition
	MinBytes   int64 // of the file
	MaxBytes   int64 // math.MaxInt64 if there is no limit
}

// Condition is a condition on a field. The name of the field is in lower case.
type Condition struct {
	Prefix bool // the value must begin with Value; otherwise it must be equal
	Field  string
	Value  string
}

// maxConditions is the maximum number of conditions of a policy.
const maxConditions = 200

func errDocument(what string) error {
	return apierr.New(400, "InvalidPolicyDocument", "Invalid Policy: "+what)
}

func errRefused(what string) error {
	return apierr.New(403, "AccessDenied", "Invalid according to Policy: "+what)
}

// ParsePolicy reads a policy in base64. Every error is an InvalidPolicyDocument. Unlike encoding/json, it refuses
// repeated and unknown elements, and elements in another case.
func ParsePolicy(text string) (*Policy, error) {
	doc, err := base64.StdEncoding.DecodeString(strings.NewReplacer("\r", "", "\n", "").Replace(text))
	if err != nil {
		return nil, errDocument("Invalid base64.")
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	p := &Policy{MaxBytes: math.MaxInt64}
	seen := map[string]bool{}
	err = members(d, func(name string) error {
		if seen[name] {
			return errDocument("Repeated element: '" + name + "'.")
		}
		seen[name] = true
		switch name {
		case "expiration":
			return p.parseExpiration(d)
		case "conditions":
			return elements(d, func() error { return p.parseCondition(d) })
		}
		return errDocument("Unexpected: '" + name + "'.")
	})
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("data after the document")
		}
	}
	var own *apierr.Error
	switch {
	case errors.As(err, &own):
		return nil, own
	case err != nil:
		return nil, errDocument("Invalid JSON.")
	case !seen["expiration"]:
		return nil, errDocument("Policy missing expiration.")
	case !seen["conditions"]:
		return nil, errDocument("Policy missing conditions.")
	}
	return p, nil
}

// members calls f for the name of each member of the next value of d, which must be an object. f reads the value.
func members(d *json.Decoder, f func(name string) error) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(err, errors.New("expected an object"))
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		if err := f(t.(string)); err != nil { // a name is always a string
			return err
		}
	}
	_, err := d.Token()
	return err
}

// elements calls f, which reads one element, for each element of the next value of d, which must be an array.
func elements(d *json.Decoder, f func() error) error {
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(err, errors.New("expected an array"))
	}
	for d.More() {
		if err := f(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// parseExpiration reads the time at which the policy expires.
func (p *Policy) parseExpiration(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	text, ok := t.(string)
	if p.Expiration, err = time.Parse(time.RFC3339, text); !ok || err != nil {
		return errDocument("Invalid 'expiration' value: '" + fmt.Sprint(t) + "'")
	}
	return nil
}

// parseCondition reads a condition: {"field": "value"} or ["operator", "$field", "value"].
func (p *Policy) parseCondition(d *json.Decoder) error {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	if len(p.Conditions) == maxConditions {
		return errDocument("A policy can have at most 200 conditions.")
	}
	inner := json.NewDecoder(bytes.NewReader(raw))
	inner.UseNumber()
	if raw[0] == '{' {
		return p.parseSimple(inner)
	}
	var values []any
	if err := inner.Decode(&values); err != nil {
		return errDocument("Invalid Condition: a condition must be an object or an array.")
	}
	if len(values) != 3 {
		return errDocument("Invalid Condition: wrong number of arguments.")
	}
	operator, _ := values[0].(string)
	switch operator = strings.ToLower(operator); operator {
	case "content-length-range":
		return p.parseRange(values[1], values[2])
	case "eq", "starts-with":
		field, ok1 := values[1].(string)
		value, ok2 := values[2].(string)
		name, ok3 := strings.CutPrefix(field, "$")
		if !ok1 || !ok2 || !ok3 || name == "" {
			return errDocument("Invalid Condition: " + operator + " requires a field that begins with '$', and a text.")
		}
		p.Conditions = append(p.Conditions, Condition{operator == "starts-with", strings.ToLower(name), value})
		return nil
	}
	return errDocument("Invalid Condition: unknown operation '" + operator + "'.")
}

// parseSimple reads a condition that is an object.
func (p *Policy) parseSimple(d *json.Decoder) error {
	found := 0
	err := members(d, func(name string) error {
		t, err := d.Token()
		if err != nil {
			return err
		}
		value, ok := t.(string)
		if found++; !ok || name == "" {
			return errDocument("Invalid Simple-Condition: value must be a string.")
		}
		p.Conditions = append(p.Conditions, Condition{false, strings.ToLower(name), value})
		return nil
	})
	if err == nil && found != 1 {
		err = errDocument("Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.")
	}
	return err
}

// parseRange reads the bounds of the size of the file. Several ranges are combined.
func (p *Policy) parseRange(low, high any) error {
	var bounds [2]int64
	for i, v := range [...]any{low, high} {
		text, ok := v.(string)
		if n, isNumber := v.(json.Number); isNumber {
			text, ok = n.String(), true
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil || n < 0 {
			return errDocument("Invalid content-length-range: expected two numbers of bytes.")
		}
		bounds[i] = n
	}
	p.MinBytes, p.MaxBytes = max(p.MinBytes, bounds[0]), min(p.MaxBytes, bounds[1])
	return nil
}

// isExempt reports whether a field needs no condition: the fields that contain the signature, which the policy cannot
// contain, and those that are ignored.
func isExempt(name string) bool {
	switch name {
	case "policy", "signature", "x-amz-signature", "awsaccesskeyid":
		return true
	}
	return strings.HasPrefix(name, "x-ignore-")
}

// Check checks a form against its policy at a time. bucket is the bucket of the URL, which counts as a field. The size
// of the file is not checked.
func (p *Policy) Check(f *Form, bucket string, now time.Time) error {
	if !now.Before(p.Expiration) {
		return errRefused("Policy expired.")
	}
	covered := map[string]bool{}
	for _, c := range p.Conditions {
		covered[c.Field] = true
		value := f.Value(c.Field)
		if c.Field == "bucket" {
			value = bucket
		}
		if !c.holds(value) {
			return errRefused("Policy Condition failed: " + c.String())
		}
	}
	if !covered["bucket"] {
		return errRefused("Extra input fields: bucket")
	}
	for _, field := range f.Fields {
		if !covered[field.Name] && !isExempt(field.Name) {
			return errRefused("Extra input fields: " + field.Name)
		}
	}
	return nil
}

// holds reports whether the condition holds for the value of its field. As in S3, a list of content types must match in
// every item.
func (c *Condition) holds(value string) bool {
	if !c.Prefix {
		return value == c.Value
	}
	if c.Field == "content-type" && strings.Contains(value, ",") {
		for item := range strings.SplitSeq(value, ",") {
			if !strings.HasPrefix(strings.TrimSpace(item), c.Value) {
				return false
			}
		}
		return true
	}
	return strings.HasPrefix(value, c.Value)
}

// String returns the condition in the form of a policy.
func (c *Condition) String() string {
	operator := "eq"
	if c.Prefix {
		operator = "starts-with"
	}
	return fmt.Sprintf("[%q, %q, %q]", operator, "$"+c.Field, c.Value)
}
