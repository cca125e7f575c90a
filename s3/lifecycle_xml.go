package s3

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"strings"
	"time"
	"unicode/utf8"

	"orcas/core"
	"orcas/lifecycle"
)

// Limits of a lifecycle.
const (
	maxRules       = 1000
	maxRuleID      = 255 // characters
	maxNewer       = 100
	maxFilterBytes = 1 << 40 * 1000 // of a size in a filter: 1000 TiB
)

// The document of a lifecycle. What may be absent is a pointer.
type (
	xmlLifecycle struct {
		XMLName xml.Name  `xml:"LifecycleConfiguration"`
		Rules   []xmlRule `xml:"Rule"`
	}
	xmlRule struct {
		ID          *string         `xml:"ID"`
		Prefix      *string         `xml:"Prefix"`
		Filter      []xmlFilter     `xml:"Filter"`
		Status      string          `xml:"Status"`
		Expiration  []xmlExpiration `xml:"Expiration"`
		Noncurrent  []xmlNoncurrent `xml:"NoncurrentVersionExpiration"`
		Abort       []xmlAbort      `xml:"AbortIncompleteMultipartUpload"`
		Transitions []xmlTransition `xml:"Transition"`
		Later       []xmlTransition `xml:"NoncurrentVersionTransition"`
	}
	xmlFilter struct {
		xmlPredicates
		And []struct {
			xmlPredicates
		} `xml:"And"`
	}
	xmlPredicates struct {
		Prefix  *string  `xml:"Prefix"`
		Tags    []xmlTag `xml:"Tag"`
		Larger  *int64   `xml:"ObjectSizeGreaterThan"`
		Smaller *int64   `xml:"ObjectSizeLessThan"`
	}
	xmlExpiration struct {
		Days   *int32   `xml:"Days"`
		Date   *string  `xml:"Date"`
		Marker *xmlBool `xml:"ExpiredObjectDeleteMarker"`
	}
	xmlNoncurrent struct {
		Days  *int32 `xml:"NoncurrentDays"`
		Newer *int32 `xml:"NewerNoncurrentVersions"`
	}
	xmlAbort struct {
		Days *int32 `xml:"DaysAfterInitiation"`
	}
	xmlTransition struct {
		Class     string    `xml:"StorageClass"`
		Date      *struct{} `xml:"Date"`
		Days      *struct{} `xml:"Days"`
		LaterDays *struct{} `xml:"NoncurrentDays"`
		Newer     *struct{} `xml:"NewerNoncurrentVersions"`
	}
)

// parseLifecycle reads a lifecycle and holds it against the rules of S3.
func parseLifecycle(doc []byte) (*lifecycle.Config, error) {
	var body xmlLifecycle
	if err := parseXML(doc, &body); err != nil {
		return nil, err
	}
	if n := len(body.Rules); n == 0 || n > maxRules {
		return nil, errMalformedXML
	}
	c := &lifecycle.Config{Rules: make([]lifecycle.Rule, len(body.Rules))}
	seen := make(map[string]bool, len(body.Rules))
	for i := range body.Rules {
		r, err := body.Rules[i].rule()
		if err != nil {
			return nil, err
		}
		switch {
		case seen[r.ID]:
			return nil, argument("ID", r.ID, "Rule ID must be unique. Found same ID for more than one rule")
		case r.Legacy && !c.Rules[0].Legacy && i > 0:
			return nil, errInvalidRequest.say("Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.")
		case !r.Legacy && c.Rules[0].Legacy:
			return nil, errInvalidRequest.say("Filter element can only be used in Lifecycle V2.")
		}
		seen[r.ID] = true
		c.Rules[i] = *r
	}
	return c, nil
}

// rule returns the rule as it is kept.
func (x *xmlRule) rule() (*lifecycle.Rule, error) {
	r := &lifecycle.Rule{Enabled: x.Status == "Enabled", Legacy: x.Prefix != nil}
	if x.Status != "Enabled" && x.Status != "Disabled" || (x.Prefix != nil) == (len(x.Filter) > 0) ||
		len(x.Filter) > 1 || len(x.Expiration) > 1 || len(x.Noncurrent) > 1 || len(x.Abort) > 1 {
		return nil, errMalformedXML
	}
	if x.ID != nil {
		r.ID = *x.ID
	}
	if utf8.RuneCountInString(r.ID) > maxRuleID {
		return nil, argument("ID", r.ID, "ID length should not exceed allowed limit of 255")
	}
	if r.ID == "" {
		r.ID = newRuleID()
	}
	r.Filter.Prefix = x.Prefix
	if len(x.Filter) > 0 {
		if err := x.Filter[0].read(&r.Filter); err != nil {
			return nil, err
		}
	}
	if r.Filter.Prefix != nil && len(*r.Filter.Prefix) > MaxKeyBytes {
		return nil, errInvalidRequest.say("The maximum size of a prefix is 1024.")
	}
	for _, t := range append(x.Transitions, x.Later...) {
		if err := t.refuse(); err != nil {
			return nil, err
		}
	}
	if len(x.Expiration)+len(x.Noncurrent)+len(x.Abort) == 0 {
		return nil, errInvalidRequest.say("At least one action needs to be specified in a rule")
	}
	return r, x.actions(r)
}

// actions reads what the rule does.
func (x *xmlRule) actions(r *lifecycle.Rule) error {
	if len(x.Expiration) > 0 {
		if err := x.Expiration[0].read(r); err != nil {
			return err
		}
	}
	if len(x.Noncurrent) > 0 {
		if err := x.Noncurrent[0].read(r); err != nil {
			return err
		}
	}
	if len(x.Abort) == 0 {
		return nil
	}
	days := x.Abort[0].Days
	switch {
	case days == nil:
		return errMalformedXML
	case *days <= 0:
		return argument("DaysAfterInitiation", itoa(int64(*days)), "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer")
	}
	r.AbortDays = int(*days)
	return onlyPrefix(&r.Filter, "AbortIncompleteMultipartUpload")
}

// onlyPrefix refuses filters by what only versions have.
func onlyPrefix(f *lifecycle.Filter, action string) error {
	switch {
	case len(f.Tags) > 0:
		return errInvalidRequest.say(action + " cannot be specified with Tags.")
	case f.Larger != nil || f.Smaller != nil:
		return errInvalidRequest.say(action + " cannot be specified with Object Size.")
	}
	return nil
}

// read reads a filter: nothing, one predicate, or a conjunction of two at least.
func (x *xmlFilter) read(f *lifecycle.Filter) error {
	own := x.xmlPredicates.count()
	if own+len(x.And) > 1 {
		return errMalformedXML
	}
	p := &x.xmlPredicates
	if len(x.And) > 0 {
		f.And, p = true, &x.And[0].xmlPredicates
		if p.count() < 2 {
			return errMalformedXML
		}
	}
	f.Prefix, f.Larger, f.Smaller = p.Prefix, p.Larger, p.Smaller
	seen := map[string]bool{}
	for _, t := range p.Tags {
		switch {
		case t.Key == nil || t.Value == nil:
			return errMalformedXML
		case *t.Key == "" || utf8.RuneCountInString(*t.Key) > maxTagKey:
			return errInvalidRequest.say("A Tag's Key must be a length between 1 and 128.")
		case utf8.RuneCountInString(*t.Value) > maxTagValue:
			return errInvalidRequest.say("A Tag's Value must be a length between 0 and 256.")
		case seen[*t.Key]:
			return errInvalidRequest.say("Duplicate Tag Keys are not allowed.")
		}
		seen[*t.Key] = true
		f.Tags = append(f.Tags, core.Attr{Name: *t.Key, Value: *t.Value})
	}
	switch {
	case f.Larger != nil && (*f.Larger < 0 || *f.Larger > maxFilterBytes):
		return errInvalidRequest.say("'ObjectSizeGreaterThan' should be between 0 and 1099511627776000.")
	case f.Smaller != nil && (*f.Smaller < 1 || *f.Smaller > maxFilterBytes):
		return errInvalidRequest.say("'ObjectSizeLessThan' should be between 1 and 1099511627776000.")
	case f.Larger != nil && f.Smaller != nil && *f.Larger >= *f.Smaller:
		return errInvalidRequest.say("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.")
	}
	return nil
}

func (p *xmlPredicates) count() int {
	n := len(p.Tags)
	for _, there := range []bool{p.Prefix != nil, p.Larger != nil, p.Smaller != nil} {
		if there {
			n++
		}
	}
	return n
}

func (x *xmlExpiration) read(r *lifecycle.Rule) error {
	e := &lifecycle.Expiration{}
	r.Expiration = e
	switch {
	case x.Days != nil && x.Date == nil && x.Marker == nil:
		if *x.Days <= 0 {
			return argument("Days", itoa(int64(*x.Days)), "'Days' for Expiration action must be a positive integer")
		}
		e.Days = int(*x.Days)
	case x.Date != nil && x.Days == nil && x.Marker == nil:
		date, ok := parseISODate(*x.Date)
		if !ok {
			return errMalformedXML
		}
		if !date.Equal(date.Truncate(24 * time.Hour)) {
			return argument("Date", *x.Date, "'Date' must be at midnight GMT")
		}
		e.Date = &date
	case x.Marker != nil && x.Days == nil && x.Date == nil:
		is := x.Marker.is()
		e.Marker = &is
		return onlyPrefix(&r.Filter, "ExpiredObjectDeleteMarker")
	default:
		return errMalformedXML
	}
	return nil
}

func (x *xmlNoncurrent) read(r *lifecycle.Rule) error {
	switch {
	case x.Days == nil:
		return errMalformedXML
	case *x.Days <= 0:
		return argument("NoncurrentDays", itoa(int64(*x.Days)), "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer")
	}
	r.Noncurrent = &lifecycle.Noncurrent{Days: int(*x.Days)}
	if x.Newer == nil {
		return nil
	}
	switch {
	case r.Legacy:
		return errInvalidRequest.say("NewerNoncurrentVersions element can only be used in Lifecycle V2.")
	case *x.Newer <= 0 || *x.Newer > maxNewer:
		return argument("NewerNoncurrentVersions", itoa(int64(*x.Newer)), "'NewerNoncurrentVersions' for NoncurrentVersionExpiration action must be an integer from 1 to 100")
	}
	r.Noncurrent.Newer = int(*x.Newer)
	return nil
}

// refuse refuses a transition: there is one place where objects are kept, whatever class they are said to be of.
func (x *xmlTransition) refuse() error {
	switch x.Class {
	case "GLACIER", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "DEEP_ARCHIVE", "GLACIER_IR":
		return notServed("A transition to another storage class")
	}
	return errMalformedXML
}

// parseISODate reads a date of ISO 8601, with a time or without.
func parseISODate(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// newRuleID returns an ID for a rule that was given none: a random UUID, in base64, as those that S3 makes.
func newRuleID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return base64.StdEncoding.EncodeToString([]byte(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]))
}

// rule writes a rule.
func (x *xmlWriter) rule(r *lifecycle.Rule) {
	x.open("Rule")
	x.text("ID", r.ID)
	if r.Legacy {
		x.text("Prefix", *r.Filter.Prefix)
	} else {
		x.filter(&r.Filter)
	}
	status := "Disabled"
	if r.Enabled {
		status = "Enabled"
	}
	x.text("Status", status)
	if e := r.Expiration; e != nil {
		x.open("Expiration")
		switch {
		case e.Date != nil:
			x.time("Date", *e.Date)
		case e.Marker != nil:
			x.bool("ExpiredObjectDeleteMarker", *e.Marker)
		default:
			x.int("Days", int64(e.Days))
		}
		x.close("Expiration")
	}
	if n := r.Noncurrent; n != nil {
		x.open("NoncurrentVersionExpiration")
		x.int("NoncurrentDays", int64(n.Days))
		if n.Newer > 0 {
			x.int("NewerNoncurrentVersions", int64(n.Newer))
		}
		x.close("NoncurrentVersionExpiration")
	}
	if r.AbortDays > 0 {
		x.open("AbortIncompleteMultipartUpload")
		x.int("DaysAfterInitiation", int64(r.AbortDays))
		x.close("AbortIncompleteMultipartUpload")
	}
	x.close("Rule")
}

func (x *xmlWriter) filter(f *lifecycle.Filter) {
	x.open("Filter")
	if f.And {
		x.open("And")
	}
	if f.Prefix != nil {
		x.text("Prefix", *f.Prefix)
	}
	for _, t := range f.Tags {
		x.open("Tag")
		x.text("Key", t.Name)
		x.text("Value", t.Value)
		x.close("Tag")
	}
	if f.Larger != nil {
		x.int("ObjectSizeGreaterThan", *f.Larger)
	}
	if f.Smaller != nil {
		x.int("ObjectSizeLessThan", *f.Smaller)
	}
	if f.And {
		x.close("And")
	}
	x.close("Filter")
}
