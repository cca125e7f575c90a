// Package lifecycledoc parses, validates and writes the lifecycle documents of buckets, by the rules of S3.
package lifecycledoc

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"orcas/core"
	"orcas/lifecycle"
	"orcas/s3/apierr"
	"orcas/s3/tagging"
	"orcas/s3/xmldoc"
)

// Limits on a lifecycle document.
const (
	maxRules       = 1000
	maxRuleID      = 255 // characters
	maxNewer       = 100
	maxPrefixBytes = 1024
	maxFilterBytes = 1 << 40 * 1000 // largest object size in a filter: 1000 TiB
)

// The document. Elements that may be absent are pointers or lists.
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
		Prefix  *string       `xml:"Prefix"`
		Tags    []tagging.Tag `xml:"Tag"`
		Larger  *int64        `xml:"ObjectSizeGreaterThan"`
		Smaller *int64        `xml:"ObjectSizeLessThan"`
	}
	xmlExpiration struct {
		Days   *int32       `xml:"Days"`
		Date   *string      `xml:"Date"`
		Marker *xmldoc.Bool `xml:"ExpiredObjectDeleteMarker"`
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

// Parse parses and validates a document.
func Parse(doc []byte) (*lifecycle.Config, error) {
	var body xmlLifecycle
	if err := xmldoc.Parse(doc, &body); err != nil {
		return nil, err
	}
	if n := len(body.Rules); n == 0 || n > maxRules {
		return nil, apierr.MalformedXML
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
			return nil, apierr.Argument("ID", r.ID, "Rule ID must be unique. Found same ID for more than one rule")
		case r.Legacy && !c.Rules[0].Legacy && i > 0:
			return nil, apierr.InvalidRequest.Say("Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.")
		case !r.Legacy && c.Rules[0].Legacy:
			return nil, apierr.InvalidRequest.Say("Filter element can only be used in Lifecycle V2.")
		}
		seen[r.ID] = true
		c.Rules[i] = *r
	}
	return c, nil
}

// rule converts the rule to the form in which it is stored.
func (x *xmlRule) rule() (*lifecycle.Rule, error) {
	r := &lifecycle.Rule{Enabled: x.Status == "Enabled", Legacy: x.Prefix != nil}
	if x.Status != "Enabled" && x.Status != "Disabled" || (x.Prefix != nil) == (len(x.Filter) > 0) ||
		len(x.Filter) > 1 || len(x.Expiration) > 1 || len(x.Noncurrent) > 1 || len(x.Abort) > 1 {
		return nil, apierr.MalformedXML
	}
	if x.ID != nil {
		r.ID = *x.ID
	}
	if utf8.RuneCountInString(r.ID) > maxRuleID {
		return nil, apierr.Argument("ID", r.ID, "ID length should not exceed allowed limit of 255")
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
	if r.Filter.Prefix != nil && len(*r.Filter.Prefix) > maxPrefixBytes {
		return nil, apierr.InvalidRequest.Say("The maximum size of a prefix is 1024.")
	}
	for _, t := range append(x.Transitions, x.Later...) {
		if err := t.refuse(); err != nil {
			return nil, err
		}
	}
	if len(x.Expiration)+len(x.Noncurrent)+len(x.Abort) == 0 {
		return nil, apierr.InvalidRequest.Say("At least one action needs to be specified in a rule")
	}
	return r, x.actions(r)
}

// actions reads the actions of the rule.
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
		return apierr.MalformedXML
	case *days <= 0:
		return apierr.Argument("DaysAfterInitiation", strconv.Itoa(int(*days)), "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer")
	}
	r.AbortDays = int(*days)
	return onlyPrefix(&r.Filter, "AbortIncompleteMultipartUpload")
}

// onlyPrefix refuses filters on properties that only versions have.
func onlyPrefix(f *lifecycle.Filter, action string) error {
	switch {
	case len(f.Tags) > 0:
		return apierr.InvalidRequest.Say(action + " cannot be specified with Tags.")
	case f.Larger != nil || f.Smaller != nil:
		return apierr.InvalidRequest.Say(action + " cannot be specified with Object Size.")
	}
	return nil
}

// read reads a filter: no predicate, a single predicate, or a conjunction of at least two.
func (x *xmlFilter) read(f *lifecycle.Filter) error {
	own := x.xmlPredicates.count()
	if own+len(x.And) > 1 {
		return apierr.MalformedXML
	}
	p := &x.xmlPredicates
	if len(x.And) > 0 {
		f.And, p = true, &x.And[0].xmlPredicates
		if p.count() < 2 {
			return apierr.MalformedXML
		}
	}
	f.Prefix, f.Larger, f.Smaller = p.Prefix, p.Larger, p.Smaller
	seen := map[string]bool{}
	for _, t := range p.Tags {
		switch {
		case t.Key == nil || t.Value == nil:
			return apierr.MalformedXML
		case *t.Key == "" || utf8.RuneCountInString(*t.Key) > tagging.MaxKey:
			return apierr.InvalidRequest.Say("A Tag's Key must be a length between 1 and 128.")
		case utf8.RuneCountInString(*t.Value) > tagging.MaxValue:
			return apierr.InvalidRequest.Say("A Tag's Value must be a length between 0 and 256.")
		case seen[*t.Key]:
			return apierr.InvalidRequest.Say("Duplicate Tag Keys are not allowed.")
		}
		seen[*t.Key] = true
		f.Tags = append(f.Tags, core.Attr{Name: *t.Key, Value: *t.Value})
	}
	switch {
	case f.Larger != nil && (*f.Larger < 0 || *f.Larger > maxFilterBytes):
		return apierr.InvalidRequest.Say("'ObjectSizeGreaterThan' should be between 0 and 1099511627776000.")
	case f.Smaller != nil && (*f.Smaller < 1 || *f.Smaller > maxFilterBytes):
		return apierr.InvalidRequest.Say("'ObjectSizeLessThan' should be between 1 and 1099511627776000.")
	case f.Larger != nil && f.Smaller != nil && *f.Larger >= *f.Smaller:
		return apierr.InvalidRequest.Say("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.")
	}
	return nil
}

func (p *xmlPredicates) count() int {
	n := len(p.Tags)
	for _, present := range []bool{p.Prefix != nil, p.Larger != nil, p.Smaller != nil} {
		if present {
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
			return apierr.Argument("Days", strconv.Itoa(int(*x.Days)), "'Days' for Expiration action must be a positive integer")
		}
		e.Days = int(*x.Days)
	case x.Date != nil && x.Days == nil && x.Marker == nil:
		date, ok := parseISODate(*x.Date)
		if !ok {
			return apierr.MalformedXML
		}
		if !date.Equal(date.Truncate(24 * time.Hour)) {
			return apierr.Argument("Date", *x.Date, "'Date' must be at midnight GMT")
		}
		e.Date = &date
	case x.Marker != nil && x.Days == nil && x.Date == nil:
		is := x.Marker.Is()
		e.Marker = &is
		return onlyPrefix(&r.Filter, "ExpiredObjectDeleteMarker")
	default:
		return apierr.MalformedXML
	}
	return nil
}

func (x *xmlNoncurrent) read(r *lifecycle.Rule) error {
	switch {
	case x.Days == nil:
		return apierr.MalformedXML
	case *x.Days <= 0:
		return apierr.Argument("NoncurrentDays", strconv.Itoa(int(*x.Days)), "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer")
	}
	r.Noncurrent = &lifecycle.Noncurrent{Days: int(*x.Days)}
	if x.Newer == nil {
		return nil
	}
	switch {
	case r.Legacy:
		return apierr.InvalidRequest.Say("NewerNoncurrentVersions element can only be used in Lifecycle V2.")
	case *x.Newer <= 0 || *x.Newer > maxNewer:
		return apierr.Argument("NewerNoncurrentVersions", strconv.Itoa(int(*x.Newer)), "'NewerNoncurrentVersions' for NoncurrentVersionExpiration action must be an integer from 1 to 100")
	}
	r.Noncurrent.Newer = int(*x.Newer)
	return nil
}

// refuse returns the error for a transition. Transitions are not supported, because all storage classes are stored in
// the same way.
func (x *xmlTransition) refuse() error {
	switch x.Class {
	case "GLACIER", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "DEEP_ARCHIVE", "GLACIER_IR":
		return apierr.Unserved("A transition to another storage class")
	}
	return apierr.MalformedXML
}

// parseISODate parses an ISO 8601 date with or without a time.
func parseISODate(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// newRuleID returns an ID for a rule without one: a random UUID in base64, as in S3.
func newRuleID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return base64.StdEncoding.EncodeToString([]byte(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]))
}

// Write writes a document.
func Write(x *xmldoc.Writer, c *lifecycle.Config) {
	x.Begin("LifecycleConfiguration")
	for i := range c.Rules {
		writeRule(x, &c.Rules[i])
	}
	x.Close("LifecycleConfiguration")
}

func writeRule(x *xmldoc.Writer, r *lifecycle.Rule) {
	x.Open("Rule")
	x.Text("ID", r.ID)
	if r.Legacy {
		x.Text("Prefix", *r.Filter.Prefix)
	} else {
		writeFilter(x, &r.Filter)
	}
	status := "Disabled"
	if r.Enabled {
		status = "Enabled"
	}
	x.Text("Status", status)
	if e := r.Expiration; e != nil {
		x.Open("Expiration")
		switch {
		case e.Date != nil:
			x.Time("Date", *e.Date)
		case e.Marker != nil:
			x.Bool("ExpiredObjectDeleteMarker", *e.Marker)
		default:
			x.Int("Days", int64(e.Days))
		}
		x.Close("Expiration")
	}
	if n := r.Noncurrent; n != nil {
		x.Open("NoncurrentVersionExpiration")
		x.Int("NoncurrentDays", int64(n.Days))
		if n.Newer > 0 {
			x.Int("NewerNoncurrentVersions", int64(n.Newer))
		}
		x.Close("NoncurrentVersionExpiration")
	}
	if r.AbortDays > 0 {
		x.Open("AbortIncompleteMultipartUpload")
		x.Int("DaysAfterInitiation", int64(r.AbortDays))
		x.Close("AbortIncompleteMultipartUpload")
	}
	x.Close("Rule")
}

func writeFilter(x *xmldoc.Writer, f *lifecycle.Filter) {
	x.Open("Filter")
	if f.And {
		x.Open("And")
	}
	if f.Prefix != nil {
		x.Text("Prefix", *f.Prefix)
	}
	for _, t := range f.Tags {
		x.Open("Tag")
		x.Text("Key", t.Name)
		x.Text("Value", t.Value)
		x.Close("Tag")
	}
	if f.Larger != nil {
		x.Int("ObjectSizeGreaterThan", *f.Larger)
	}
	if f.Smaller != nil {
		x.Int("ObjectSizeLessThan", *f.Smaller)
	}
	if f.And {
		x.Close("And")
	}
	x.Close("Filter")
}
