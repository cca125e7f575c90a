package policy

import (
	"fmt"
	"slices"
	"strings"
)

// compiler compiles the nodes of a document.
type compiler struct {
	from       Source
	with       syntax // variables, if the version of the document has them
	statements []*Statement

	// The statement that is being compiled, for errors.
	index int
	sid   string
}

// fail returns an error about an element.
func (c *compiler) fail(element string, line int, format string, args ...any) error {
	return &Error{Statement: c.index, Sid: c.sid, Element: element, Line: line, Reason: fmt.Sprintf(format, args...)}
}

var (
	documentNames  = []string{"Version", "Id", "Statement"}
	statementNames = []string{
		"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition",
	}
)

// checkNames checks that n is an object whose members have different names, all of them among the allowed ones.
func (c *compiler) checkNames(element string, n *node, allowed []string) error {
	if err := c.checkObject(element, n); err != nil {
		return err
	}
	for _, m := range n.members {
		if slices.Contains(allowed, m.name) {
			continue
		}
		for _, name := range allowed {
			if strings.EqualFold(name, m.name) {
				return c.fail(m.name, m.line, "the name must be written %s", name)
			}
		}
		return c.fail(m.name, m.line, "this element is not known here")
	}
	return nil
}

// checkObject checks that n is an object whose members have different names.
func (c *compiler) checkObject(element string, n *node) error {
	if n.kind != isObject {
		return c.fail(element, n.line, "expected an object")
	}
	if n.repeated != nil {
		return c.fail(n.repeated.name, n.repeated.line, "the name %q is used twice", n.repeated.name)
	}
	return nil
}

// text returns the text of a member, or "" if there is none.
func (c *compiler) text(n *node, name string) (string, error) {
	v := n.get(name)
	if v == nil {
		return "", nil
	}
	if v.kind != isText {
		return "", c.fail(name, v.line, "expected a string")
	}
	return v.text, nil
}

// texts returns the strings of an element: one, or an array of at least one. Of values in conditions, numbers and
// booleans are accepted too.
func (c *compiler) texts(element string, n *node, scalars bool) ([]*node, error) {
	list := []*node{n}
	if n.kind == isArray {
		list = n.items
	}
	if len(list) == 0 {
		return nil, c.fail(element, n.line, "the array is empty")
	}
	for _, v := range list {
		if v.kind != isText && !(scalars && (v.kind == isNumber || v.kind == isBool)) {
			return nil, c.fail(element, v.line, "expected a string or an array of strings")
		}
	}
	return list, nil
}

func (c *compiler) document(root *node) error {
	if err := c.checkNames("", root, documentNames); err != nil {
		return err
	}
	version, err := c.text(root, "Version")
	if err != nil {
		return err
	}
	switch version {
	case "2012-10-17":
		c.with = variables
	case "2008-10-17", "":
	default:
		return c.fail("Version", root.get("Version").line, "expected 2012-10-17 or 2008-10-17, found %q", version)
	}
	if _, err := c.text(root, "Id"); err != nil {
		return err
	}
	list := root.get("Statement")
	if list == nil {
		return c.fail("Statement", root.line, "the document has no statement")
	}
	nodes := []*node{list}
	if list.kind == isArray {
		nodes = list.items
	}
	if len(nodes) == 0 {
		return c.fail("Statement", list.line, "the document has no statement")
	}
	sids := map[string]bool{}
	for i, n := range nodes {
		c.index, c.sid = i+1, ""
		s, err := c.statement(n)
		if err != nil {
			return err
		}
		if s.Sid != "" && sids[s.Sid] {
			return c.fail("Sid", n.get("Sid").line, "another statement has the same Sid")
		}
		sids[s.Sid] = true
		c.statements = append(c.statements, s)
	}
	return nil
}

func (c *compiler) statement(n *node) (*Statement, error) {
	if n.kind == isObject {
		if sid := n.get("Sid"); sid != nil {
			c.sid = sid.text
		}
	}
	if err := c.checkNames("Statement", n, statementNames); err != nil {
		return nil, err
	}
	sid, err := c.text(n, "Sid")
	if err != nil {
		return nil, err
	}
	s := &Statement{Policy: c.from.Name, Index: c.index, Sid: sid, Line: n.line}
	effect, err := c.text(n, "Effect")
	switch {
	case err != nil:
		return nil, err
	case effect == "Deny":
		s.Effect = Deny
	case effect != "Allow":
		return nil, c.fail("Effect", lineOf(n, "Effect"), "expected Allow or Deny, found %q", effect)
	}
	if err := c.principal(s, n); err != nil {
		return nil, err
	}
	if err := c.resources(s, n); err != nil {
		return nil, err
	}
	if err := c.actions(s, n); err != nil {
		return nil, err
	}
	return s, c.conditions(s, n)
}

// lineOf returns the line of a member, or the line of the object if it has no such member.
func lineOf(n *node, name string) int {
	for _, m := range n.members {
		if m.name == name {
			return m.line
		}
	}
	return n.line
}

// one returns the member with the name, or with "Not" before the name. Exactly one of them must exist.
func (c *compiler) one(n *node, name string) (v *node, element string, not bool, err error) {
	v, other := n.get(name), n.get("Not"+name)
	switch {
	case v != nil && other != nil:
		return nil, "", false, c.fail("Not"+name, lineOf(n, "Not"+name), "the statement has %s too", name)
	case v == nil && other == nil:
		return nil, "", false, c.fail(name, n.line, "the statement has neither %s nor Not%s", name, name)
	case v == nil:
		return other, "Not" + name, true, nil
	}
	return v, name, false, nil
}

// without checks that a statement has none of the elements.
func (c *compiler) without(n *node, what string, elements ...string) error {
	for _, name := range elements {
		if n.get(name) != nil {
			return c.fail(name, lineOf(n, name), "%s cannot have this element", what)
		}
	}
	return nil
}

func (c *compiler) principal(s *Statement, n *node) error {
	if c.from.Bucket == "" && !c.from.Trust {
		return c.without(n, "the policy of an identity", "Principal", "NotPrincipal")
	}
	v, element, not, err := c.one(n, "Principal")
	if err != nil {
		return err
	}
	s.notPrincipal = not
	return c.principals(&s.principals, element, v)
}

// actions compiles Action or NotAction, after the resources.
func (c *compiler) actions(s *Statement, n *node) error {
	v, element, not, err := c.one(n, "Action")
	if err != nil {
		return err
	}
	list, err := c.texts(element, v, false)
	if err != nil {
		return err
	}
	reach := s.kinds()
	var named actionSet
	for _, a := range list {
		found, fits := c.named(a.text), false
		for _, known := range found {
			named.add(known.id)
			fits = fits || reach.has(known.kind)
		}
		switch {
		case found == nil && c.from.Trust && (&compiler{}).named(a.text) != nil:
			return c.fail(element, a.line, "the action %q is not one of those that a trust policy is about: sts:AssumeRole, sts:TagSession and sts:SetSourceIdentity", a.text)
		case found == nil && (&compiler{}).named(a.text) != nil:
			return c.fail(element, a.line, "the action %q does not apply to a bucket or to objects", a.text)
		case found == nil:
			return c.fail(element, a.line, "unknown action %q", a.text)
		case !fits && !not:
			return c.fail(element, a.line, "the action %q does not apply to any resource of the statement", a.text)
		}
	}
	for _, known := range table().actions {
		if c.isActionHere(known) && named.has(known.id) != not {
			s.actions.add(known.id)
		}
	}
	return nil
}

// isActionHere reports whether the policy can be about an action: bucket policies only about those of buckets and
// objects, trust policies only about those of STS on roles.
func (c *compiler) isActionHere(a *action) bool {
	if c.from.Trust {
		return a.isTrust()
	}
	return c.from.Bucket == "" || a.isS3() && s3Kinds.has(a.kind)
}

// named returns the actions with a name, without case. Wildcards are allowed after the colon, and "*" alone.
func (c *compiler) named(name string) (list []*action) {
	service, pattern, ok := strings.Cut(strings.ToLower(name), ":")
	if !ok && name != "*" {
		return nil
	}
	tokens, _ := parsePattern(pattern, wildcards) // without variables, there is no error
	for _, a := range table().actions {
		rest, of := strings.CutPrefix(a.low, service)
		if !c.isActionHere(a) || name != "*" && !(of && rest[0] == ':' && match(tokens, rest[1:])) {
			continue
		}
		list = append(list, a)
	}
	return list
}

// kinds returns the kinds of resources that the statement can match.
func (s *Statement) kinds() (all kinds) {
	if s.notResource {
		return allKinds
	}
	for i := range s.resources {
		all |= s.resources[i].kinds
	}
	return all
}

func (c *compiler) conditions(s *Statement, n *node) error {
	block := n.get("Condition")
	if block == nil {
		return nil
	}
	if err := c.checkObject("Condition", block); err != nil {
		return err
	}
	for _, m := range block.members {
		op, set, ifExists, ok := parseOperator(m.name)
		if !ok {
			return c.fail("Condition", m.line, "unknown operator %q", m.name)
		}
		if err := c.checkObject("Condition", m.value); err != nil {
			return err
		}
		for i, k := range m.value.members {
			for _, earlier := range m.value.members[:i] {
				if strings.EqualFold(earlier.name, k.name) {
					return c.fail("Condition", k.line, "the key %q is used twice", k.name)
				}
			}
			cond := condition{op: op, set: set, ifExists: ifExists}
			if err := c.condition(s, &cond, k); err != nil {
				return err
			}
			s.conditions = append(s.conditions, cond)
		}
	}
	return nil
}

// parseOperator parses the name of an operator with its prefix and suffix.
func parseOperator(name string) (op operator, set setOp, ifExists, ok bool) {
	base, ifExists := strings.CutSuffix(name, "IfExists")
	if rest, found := strings.CutPrefix(base, "ForAllValues:"); found {
		base, set = rest, allValues
	} else if rest, found := strings.CutPrefix(base, "ForAnyValue:"); found {
		base, set = rest, anyValue
	}
	op, ok = operators[base]
	if op.class == classNull && (ifExists || set != single) {
		ok = false
	}
	return op, set, ifExists, ok
}

// condition compiles the key and the values of a condition.
func (c *compiler) condition(s *Statement, cond *condition, m member) error {
	var ok bool
	if cond.key, ok = keyNamed(m.name); !ok {
		return c.fail("Condition", m.line, "unknown condition key %q", m.name)
	}
	reach := s.kinds()
	if !slices.ContainsFunc(table().actions, func(a *action) bool {
		return s.actions.has(a.id) && reach.has(a.kind) && a.supports(cond.key.keyInfo)
	}) {
		return c.fail("Condition", m.line, "the key %q does not apply to any action and resource of the statement", m.name)
	}
	list, err := c.texts("Condition", m.value, true)
	if err != nil {
		return err
	}
	for _, v := range list {
		o, err := newOperand(cond.op.class, v.text, c.with)
		if err != nil {
			return c.fail("Condition", v.line, "the key %q: %v", m.name, err)
		}
		cond.vars = variablesOf(cond.vars, o.tokens)
		cond.operands = append(cond.operands, o)
	}
	return nil
}
