package policy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// principals are the entries of Principal or NotPrincipal. Those of the kinds Federated and Service are not kept: no
// caller is one of them.
type principals struct {
	everyone  bool
	accounts  []string // IDs
	canonical []string // canonical IDs of accounts
	arns      []string // of users, roles, sessions and application keys

	ids map[string]string // see Source.IDs
}

// has reports whether the caller is among the principals, under an ARN that it has now: its own, or that of its role. A
// principal with a unique ID is the caller with this ID, whatever its name is now, and not another one with the name.
func (p *principals) has(arn string, c *Caller) bool {
	id, _, _ := strings.Cut(c.ID, ":") // that of a session begins with that of the role
	for _, named := range p.arns {
		want, fixed := p.ids[named]
		switch {
		case !fixed && named == arn, fixed && want == id && SessionOf(named) == SessionOf(arn):
			return true
		}
	}
	return false
}

// SessionOf returns the name of the session in an ARN of a session of a role, or "" for other ARNs.
func SessionOf(arn string) string {
	if !strings.HasPrefix(arn, arnOfSTS) {
		return ""
	}
	return arn[strings.LastIndexByte(arn, '/')+1:]
}

// ReplacePrincipals returns a document in which the values of AWS in Principal and NotPrincipal are replaced. Everything
// else stays as it is. The document must be a valid policy.
func ReplacePrincipals(document string, with func(principal string) string) (string, error) {
	root, err := readJSON([]byte(document))
	if err != nil {
		return "", err
	}
	statements := []*node{root.get("Statement")}
	if list := statements[0]; list != nil && list.kind == isArray {
		statements = list.items
	}
	var out strings.Builder
	done := 0
	replace := func(n *node) {
		if n.kind != isText {
			return
		}
		if v := with(n.text); v != n.text {
			text, _ := json.Marshal(v) // a text can always be encoded
			out.WriteString(document[done:n.from])
			out.Write(text)
			done = n.to
		}
	}
	for _, s := range statements {
		for _, m := range s.principalsAWS() {
			for _, item := range m.items {
				replace(item)
			}
			replace(m)
		}
	}
	return out.String() + document[done:], nil
}

// principalsAWS returns the values of AWS in the elements Principal and NotPrincipal of a statement, in their order.
func (n *node) principalsAWS() (list []*node) {
	if n == nil {
		return nil
	}
	for _, m := range n.members {
		if m.name == "Principal" || m.name == "NotPrincipal" {
			if v := m.value.get("AWS"); v != nil {
				list = append(list, v)
			}
		}
	}
	return list
}

// principalKinds are the kinds of principals, and the form that they have. AWS is parsed by addAWS.
var principalKinds = map[string]*regexp.Regexp{
	"AWS":           nil,
	"CanonicalUser": regexp.MustCompile(`^[0-9a-f]{64}$`),
	"Federated": regexp.MustCompile(
		`^(arn:aws:iam::[0-9]{12}:(saml|oidc)-provider/[^*?]+|[A-Za-z0-9.-]+\.[A-Za-z]+)$`),
	"Service": regexp.MustCompile(`^[a-z0-9.-]+\.amazonaws\.com$`),
}

var (
	accountID = regexp.MustCompile(`^[0-9]{12}$`)
	// principalARN matches what an ARN of a principal may be, except the root of an account.
	principalARN = regexp.MustCompile(
		`^arn:aws:(iam::[0-9]{12}:(user|role|key)/|sts::[0-9]{12}:assumed-role/[^/]+/)[^*?]+$`)
)

func (c *compiler) principals(p *principals, element string, n *node) error {
	p.ids = c.from.IDs
	if n.kind == isText {
		if n.text != "*" {
			return c.fail(element, n.line, `expected "*" or an object, found %q`, n.text)
		}
		p.everyone = true
		return nil
	}
	if err := c.checkObject(element, n); err != nil {
		return err
	}
	if len(n.members) == 0 {
		return c.fail(element, n.line, "the object is empty")
	}
	for _, m := range n.members {
		form, ok := principalKinds[m.name]
		if !ok {
			return c.fail(element, m.line, "expected AWS, CanonicalUser, Federated or Service, found %q", m.name)
		}
		list, err := c.texts(element, m.value, false)
		if err != nil {
			return err
		}
		for _, v := range list {
			ok := form == nil && p.addAWS(v.text) || form != nil && form.MatchString(v.text)
			if !ok || c.from.Known != nil && v.text != "*" && !c.from.Known(m.name, v.text) {
				return c.fail(element, v.line, "unknown principal %q of the kind %s", v.text, m.name)
			}
			if m.name == "CanonicalUser" {
				p.canonical = append(p.canonical, v.text)
			}
		}
	}
	return nil
}

// addAWS adds a principal of the kind AWS, and reports whether it is valid.
func (p *principals) addAWS(text string) bool {
	account, isRoot := strings.CutPrefix(text, arnOfIAM)
	if isRoot {
		account, isRoot = strings.CutSuffix(account, ":root")
	}
	switch {
	case text == "*":
		p.everyone = true
	case accountID.MatchString(text):
		p.accounts = append(p.accounts, text)
	case isRoot && accountID.MatchString(account):
		p.accounts = append(p.accounts, account)
	case principalARN.MatchString(text):
		p.arns = append(p.arns, text)
	default:
		return false
	}
	return true
}

// grant is how directly a statement names a caller.
type grant uint8

const (
	noGrant   grant = iota
	toAccount       // the account of the caller: the account decides which of its identities it means
	direct          // the caller, its role, or everyone
	toSession       // the session of a role
)

// find returns how the principals name a caller.
func (p *principals) find(c *Caller) grant {
	who := c.Principal
	switch {
	case who.IsAnonymous():
		if p.everyone {
			return direct
		}
		return noGrant
	case c.Role != "" && p.has(who.ARN, c):
		return toSession
	case p.everyone, p.has(who.ARN, c), c.Role != "" && p.has(c.Role, c):
		return direct
	case slices.Contains(p.accounts, who.Account), c.Canonical != "" && slices.Contains(p.canonical, c.Canonical):
		if isRoot(who) {
			return direct
		}
		return toAccount
	}
	return noGrant
}

// grants returns how the statement of a bucket policy applies to a caller. A caller that NotPrincipal names is exempt
// from Allow in any case, and from Deny only if it is named itself, not by its account.
func (s *Statement) grants(c *Caller) grant {
	found := s.principals.find(c)
	switch {
	case !s.notPrincipal:
		return found
	case s.Effect == Allow && found != noGrant, s.Effect == Deny && found >= direct:
		return noGrant
	}
	return direct
}

// resources compiles Resource or NotResource.
func (c *compiler) resources(s *Statement, n *node) error {
	if c.from.Trust {
		s.notResource = true // the statement is about the role that the policy belongs to
		return c.without(n, "a trust policy", "Resource", "NotResource")
	}
	v, element, not, err := c.one(n, "Resource")
	if err != nil {
		return err
	}
	s.notResource = not
	list, err := c.texts(element, v, false)
	if err != nil {
		return err
	}
	for _, v := range list {
		tokens, err := parsePattern(v.text, c.with|wildcards)
		if err != nil {
			return c.fail(element, v.line, "%v", err)
		}
		r := resource{tokens: tokens, kinds: kindsOf(tokens)}
		switch {
		case c.from.Bucket != "" && !isInBucket(v.text, c.from.Bucket):
			return c.fail(element, v.line, "the resource %q is not the bucket %s or in it", v.text, c.from.Bucket)
		case r.kinds == 0:
			return c.fail(element, v.line, "unknown resource %q", v.text)
		}
		s.vars = variablesOf(s.vars, tokens)
		s.resources = append(s.resources, r)
	}
	return nil
}

// isInBucket reports whether a resource is a bucket, or a pattern that begins with its name.
func isInBucket(text, bucket string) bool {
	rest, ok := strings.CutPrefix(text, arnOfS3+bucket)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '*')
}

// kindsOf returns the kinds of resources that a pattern can match; none if it is not the ARN of such a resource.
func kindsOf(tokens []token) kinds {
	if len(tokens) == 1 && tokens[0].kind == anyText {
		return allKinds
	}
	parts, err := splitARN(tokens)
	if err != nil || !isPlain(parts[0], "arn") || !isPlain(parts[1], "aws") || len(parts[3]) > 0 || len(parts[5]) == 0 {
		return 0
	}
	switch {
	case isPlain(parts[2], "s3") && len(parts[4]) == 0:
		return kindsOfS3(parts[5])
	case isPlain(parts[2], "iam"):
		return kindsOfIAM(parts[5])
	}
	return 0
}

// isPlain reports whether tokens are a certain literal.
func isPlain(tokens []token, text string) bool { return len(tokens) == 1 && tokens[0].text == text }

// kindsOfS3 returns the kinds of resources that the last part of an ARN of S3 can match. A slash means that it can
// match only objects, a wildcard or a variable that it may match them.
func kindsOfS3(name []token) kinds {
	switch {
	case strings.HasPrefix(name[0].text, "/"):
		return 0
	case slices.ContainsFunc(name, func(t token) bool { return strings.Contains(t.text, "/") }):
		return 1 << kindObject
	case len(name) == 1 && name[0].kind == anyText:
		return 1<<kindService | s3Kinds
	case isLiteral(name):
		return 1 << kindBucket
	}
	return s3Kinds
}

var iamPrefixes = map[string]kind{"user/": kindUser, "group/": kindGroup, "role/": kindRole, "policy/": kindPolicy}

// kindsOfIAM returns the kinds of resources that the last part of an ARN of IAM can match.
func kindsOfIAM(name []token) (found kinds) {
	for prefix, of := range iamPrefixes {
		if name[0].kind != literal || strings.HasPrefix(name[0].text, prefix) {
			found |= 1 << of
		}
	}
	return found
}
