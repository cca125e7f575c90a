package policy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// class is the way in which an operator compares.
type class uint8

const (
	classNull class = iota
	classString
	classFold // text without case
	classLike // text with wildcards
	classNumber
	classDate
	classBool
	classBinary
	classIP
	classARN
)

// operator is a condition operator without its prefix (ForAllValues:, ForAnyValue:) and suffix (IfExists).
type operator struct {
	class   class
	negated bool
	accepts order // of numbers and dates: the results of a comparison that match
}

// order is a set of results of a comparison.
type order uint8

const (
	less order = 1 << iota
	equal
	greater
)

func orderOf(cmp int) order { return 1 << (cmp + 1) }

var operators = map[string]operator{
	"Null":                      {class: classNull},
	"StringEquals":              {class: classString},
	"StringNotEquals":           {class: classString, negated: true},
	"StringEqualsIgnoreCase":    {class: classFold},
	"StringNotEqualsIgnoreCase": {class: classFold, negated: true},
	"StringLike":                {class: classLike},
	"StringNotLike":             {class: classLike, negated: true},
	"NumericEquals":             {class: classNumber, accepts: equal},
	"NumericNotEquals":          {class: classNumber, accepts: equal, negated: true},
	"NumericLessThan":           {class: classNumber, accepts: less},
	"NumericLessThanEquals":     {class: classNumber, accepts: less | equal},
	"NumericGreaterThan":        {class: classNumber, accepts: greater},
	"NumericGreaterThanEquals":  {class: classNumber, accepts: greater | equal},
	"DateEquals":                {class: classDate, accepts: equal},
	"DateNotEquals":             {class: classDate, accepts: equal, negated: true},
	"DateLessThan":              {class: classDate, accepts: less},
	"DateLessThanEquals":        {class: classDate, accepts: less | equal},
	"DateGreaterThan":           {class: classDate, accepts: greater},
	"DateGreaterThanEquals":     {class: classDate, accepts: greater | equal},
	"Bool":                      {class: classBool},
	"BinaryEquals":              {class: classBinary},
	"IpAddress":                 {class: classIP},
	"NotIpAddress":              {class: classIP, negated: true},
	"ArnEquals":                 {class: classARN},
	"ArnNotEquals":              {class: classARN, negated: true},
	"ArnLike":                   {class: classARN},
	"ArnNotLike":                {class: classARN, negated: true},
}

// scalar is a value that is not compared as text: the field of its class is set.
type scalar struct {
	number  number
	date    time.Time
	address netip.Addr
	bytes   string // of a binary value
	truth   bool
}

// operand is a value of a condition, prepared for the class of its operator.
type operand struct {
	tokens  []token      // of text
	parts   [][]token    // of an ARN
	scalar  scalar       // of the other classes
	network netip.Prefix // of addresses
}

// newOperand parses a value for an operator.
func newOperand(of class, text string, with syntax) (o operand, err error) {
	switch of {
	case classString, classFold:
		o.tokens, err = parsePattern(text, with)
	case classLike:
		o.tokens, err = parsePattern(text, with|wildcards)
	case classARN:
		if o.tokens, err = parsePattern(text, with|wildcards); err == nil {
			o.parts, err = splitARN(o.tokens)
		}
	case classIP:
		o.network, err = parseNetwork(text)
	default:
		var ok bool
		if o.scalar, ok = parseScalar(of, text); !ok {
			err = fmt.Errorf("expected %s, found %q", classNames[of], text)
		}
	}
	return o, err
}

// parseScalar parses a value of a policy or of a request. It returns false if the value does not have the form of the
// class.
func parseScalar(of class, text string) (s scalar, ok bool) {
	switch of {
	case classNumber:
		s.number, ok = parseNumber(text)
	case classDate:
		s.date, ok = parseDate(text)
	case classBool, classNull:
		s.truth, ok = parseBool(text)
	case classBinary:
		s.bytes, ok = parseBinary(text)
	case classIP:
		a, err := netip.ParseAddr(text)
		s.address, ok = a.Unmap().WithZone(""), err == nil
	}
	return s, ok
}

var classNames = map[class]string{
	classNumber: "a number", classBool: "true or false", classNull: "true or false", classBinary: "a value in base64",
	classDate: "a date, such as 2026-11-22T18:00:00Z, or a number of seconds since 1970",
}

// matches reports whether a value of the request matches the operand of a class that is not text.
func (o *operand) matches(op *operator, value *scalar) bool {
	switch op.class {
	case classNumber:
		return op.accepts&orderOf(value.number.compare(o.scalar.number)) != 0
	case classDate:
		return op.accepts&orderOf(value.date.Compare(o.scalar.date)) != 0
	case classBool:
		return value.truth == o.scalar.truth
	case classBinary:
		return value.bytes == o.scalar.bytes
	}
	return o.network.Contains(value.address)
}

// textOf returns the text of literals.
func textOf(tokens []token) string {
	if len(tokens) == 1 {
		return tokens[0].text
	}
	var b strings.Builder
	for i := range tokens {
		b.WriteString(tokens[i].text)
	}
	return b.String()
}

// number is a decimal number. Integers of 64 bits are exact.
type number struct {
	isInt bool
	i     int64
	f     float64
}

func (n number) compare(m number) int {
	switch {
	case n.isInt && m.isInt && n.i < m.i, !(n.isInt && m.isInt) && n.f < m.f:
		return -1
	case n.isInt && m.isInt && n.i > m.i, !(n.isInt && m.isInt) && n.f > m.f:
		return 1
	}
	return 0
}

// parseNumber parses a decimal number. Forms that only strconv accepts (hexadecimal, infinity, underscores) are
// refused.
func parseNumber(text string) (n number, ok bool) {
	if text == "" || strings.Trim(text, "0123456789+-.eE") != "" {
		return number{}, false
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number{true, i, float64(i)}, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return number{}, false
	}
	return number{f: f}, true
}

// parseDate parses a date of ISO 8601 with a time zone, a day, or a number of seconds since 1970.
func parseDate(text string) (time.Time, bool) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(seconds, 0), true
	}
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func parseBool(text string) (value, ok bool) {
	value = strings.EqualFold(text, "true")
	return value, value || strings.EqualFold(text, "false")
}

func parseBinary(text string) (string, bool) {
	b, err := base64.StdEncoding.DecodeString(text)
	return string(b), err == nil
}

var errMapped = errors.New("a range of IPv4-mapped addresses must have at least 96 bits")

// parseNetwork parses an address or a CIDR range. IPv4-mapped IPv6 addresses become IPv4 addresses.
func parseNetwork(text string) (netip.Prefix, error) {
	invalid := fmt.Errorf("expected an IP address or a CIDR range, found %q", text)
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, invalid
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, invalid
	case p.Addr().Is4In6() && p.Bits() < 96:
		return netip.Prefix{}, errMapped
	case p.Addr().Is4In6():
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// partsOfARN is the number of parts of an ARN.
const partsOfARN = 6

var errARN = errors.New("expected an ARN with six parts separated by colons, such as arn:aws:iam::111122223333:user/*")

// splitARN splits the tokens of an ARN at its first five colons. A colon in the value of a variable does not separate.
func splitARN(tokens []token) (parts [][]token, err error) {
	parts = make([][]token, partsOfARN)
	n := 0
	for _, t := range tokens {
		if t.kind != literal {
			parts[n] = append(parts[n], t)
			continue
		}
		text := t.text
		for n < len(parts)-1 {
			before, after, found := strings.Cut(text, ":")
			if !found {
				break
			}
			if before != "" {
				parts[n] = append(parts[n], token{kind: literal, text: before})
			}
			n, text = n+1, after
		}
		if text != "" {
			parts[n] = append(parts[n], token{kind: literal, text: text})
		}
	}
	if n != len(parts)-1 {
		return nil, errARN
	}
	return parts, nil
}

// cutARN returns the next part of the ARN of a request, and the rest. The last part is the rest of the ARN.
func cutARN(arn string, i int) (part, rest string, ok bool) {
	if i == partsOfARN-1 {
		return arn, "", true
	}
	return strings.Cut(arn, ":")
}
