package policy

import "strings"

// setOp is the prefix of an operator, for keys with several values.
type setOp uint8

const (
	single    setOp = iota // no prefix
	allValues              // ForAllValues:
	anyValue               // ForAnyValue:
)

// condition is one key of an operator: it holds if the values of the request match the operands.
type condition struct {
	op       operator
	set      setOp
	ifExists bool
	key      conditionKey
	operands []operand
	vars     []*variable // of the operands
}

// holds evaluates a condition. Resolved is false if a variable has no value; then the statement does not match.
func (e *evaluation) holds(c *condition) (result truth, resolved bool) {
	got := e.lookup(&c.key)
	if got.state == absent && c.ifExists {
		return yes, true
	}
	operands := present
	for _, v := range c.vars {
		switch state := e.valueOf(v).state; {
		case state == absent && c.ifExists && got.state == unknown:
			operands = unknown // if the key is absent, the variable does not matter
		case state == absent:
			return no, false
		case state == unknown:
			operands = unknown
		}
	}
	switch {
	case got.state == unknown, got.state == present && operands == unknown:
		return maybe, true
	case c.op.class == classNull:
		return truthOf(c.isNull(got.state == absent)), true
	case got.state == absent && operands == unknown:
		return min(c.ifAbsent(), maybe), true // for some keys, a variable may have no value
	case got.state == absent:
		return c.ifAbsent(), true
	}
	return truthOf(e.compare(c, &got)), true
}

// ifAbsent returns whether a condition without IfExists holds if the request does not have the key.
func (c *condition) ifAbsent() truth {
	return truthOf(c.set == allValues || c.set == single && c.op.negated)
}

// isNull compares the absence of a key with the operands of Null.
func (c *condition) isNull(isAbsent bool) bool {
	for i := range c.operands {
		if c.operands[i].scalar.truth == isAbsent {
			return true
		}
	}
	return false
}

// compare compares the values of a request with a condition. Without a prefix, one matching value is sufficient, and a
// negated operator is the opposite: no value may match.
func (e *evaluation) compare(c *condition, got *values) bool {
	for i := range got.len() {
		matches := e.matchesAny(c, got.at(i))
		switch c.set {
		case single:
			if matches {
				return !c.op.negated
			}
		case anyValue:
			if matches != c.op.negated {
				return true
			}
		case allValues:
			if matches == c.op.negated {
				return false
			}
		}
	}
	return c.set == allValues || c.set == single && c.op.negated
}

// matchesAny reports whether a value matches one of the operands.
func (e *evaluation) matchesAny(c *condition, value string) bool {
	isText := c.op.class == classString || c.op.class == classLike || c.op.class == classFold || c.op.class == classARN
	if !isText && !e.parse(c.op.class, value) {
		return false
	}
	for i := range c.operands {
		o := &c.operands[i]
		matches := false
		switch c.op.class {
		case classString, classLike:
			matches = match(e.resolve(o.tokens), value)
		case classFold:
			matches = strings.EqualFold(textOf(e.resolve(o.tokens)), value)
		case classARN:
			matches = e.matchesARN(o, value)
		default:
			matches = o.matches(&c.op, &e.parsed.value)
		}
		if matches {
			return true
		}
	}
	return false
}

// parsed is the last value of the request that was parsed. Many statements compare the same one, such as the address.
type parsed struct {
	class class
	text  string
	value scalar
	ok    bool
}

// parse parses a value of the request into e.parsed, and reports whether it has the form of the class.
func (e *evaluation) parse(of class, text string) bool {
	if e.parsed.class != of || e.parsed.text != text {
		e.parsed.class, e.parsed.text = of, text
		e.parsed.value, e.parsed.ok = parseScalar(of, text)
	}
	return e.parsed.ok
}

// matchesARN compares each part of an ARN separately, so that a wildcard does not match a colon before the last part.
func (e *evaluation) matchesARN(o *operand, arn string) bool {
	for i := range o.parts {
		part, rest, ok := cutARN(arn, i)
		if !ok || !match(e.resolve(o.parts[i]), part) {
			return false
		}
		arn = rest
	}
	return true
}
