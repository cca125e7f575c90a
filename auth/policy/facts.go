package policy

import (
	"strings"
	"time"

	"orcas/auth"
)

// ListFacts is implemented by facts with keys that may have several values, such as s3:RequestObjectTagKeys. Without
// it, such a key has at most one value.
type ListFacts interface {
	auth.Facts
	// FactList returns the values of a condition key, or none if the request does not have it.
	FactList(key string) []string
}

// state is whether a request has a condition key.
type state uint8

const (
	absent state = iota
	present
	unknown // the decision covers many keys of the bucket, which may differ in the value
)

// values are the values of a condition key.
type values struct {
	state state
	one   string
	list  []string // replaces one, if the key may have several values
}

func textValue(text string, ok bool) values {
	if !ok {
		return values{}
	}
	return values{state: present, one: text}
}

func (v *values) len() int {
	if v.list != nil {
		return len(v.list)
	}
	return 1
}

func (v *values) at(i int) string {
	if v.list != nil {
		return v.list[i]
	}
	return v.one
}

// lookup returns the values of a condition key. A key that does not apply to the action is absent, even if the request
// has a parameter or header of that name: otherwise, GetObject?prefix=home/ would satisfy a condition on listings. Keys
// that describe the caller and the owner of the resource never come from the request.
func (e *evaluation) lookup(k *conditionKey) values {
	if !e.action.supports(k.keyInfo) {
		return values{}
	}
	if k.varies && e.q.Resource.Scope != auth.OneKey {
		return values{state: unknown}
	}
	if v, computed := e.ofCaller(k); computed {
		return v
	}
	if e.q.Facts == nil {
		return values{}
	}
	if k.list {
		if lists, ok := e.q.Facts.(ListFacts); ok {
			list := lists.FactList(k.full)
			if len(list) == 0 {
				return values{}
			}
			return values{state: present, list: list}
		}
	}
	return textValue(e.q.Facts.Fact(k.full))
}

// ofCaller returns the values of keys that follow from the caller and the owner of the resource, and whether the key is
// one of them.
func (e *evaluation) ofCaller(k *conditionKey) (v values, computed bool) {
	c := e.caller
	p := c.Principal
	known := !p.IsAnonymous()
	switch k.name {
	case "aws:PrincipalAccount":
		return textValue(p.Account, known), true
	case "aws:PrincipalArn":
		if c.Role != "" {
			return textValue(c.Role, true), true
		}
		return textValue(p.ARN, known), true
	case "aws:PrincipalIsAWSService", "aws:ViaAWSService":
		return textValue("false", true), true
	case "aws:PrincipalTag/":
		return textValue(tagOf(p.Tags, k.tag)), true
	case "aws:PrincipalType":
		return textValue(principalType(c), true), true
	case "aws:ResourceAccount", "s3:ResourceAccount":
		return textValue(e.q.Resource.Account, e.q.Resource.Account != ""), true
	case "aws:TokenIssueTime":
		return textValue(c.Issued.UTC().Format(time.RFC3339), !c.Issued.IsZero()), true
	case "aws:userid":
		return textValue(userID(c)), true
	case "aws:username":
		return textValue(userName(c)), true
	}
	return values{}, false
}

// tagOf returns the value of a tag of a principal. The keys of such tags are compared without case; if several match,
// the key itself or the first in order decides.
func tagOf(tags map[string]string, key string) (value string, found bool) {
	if v, ok := tags[key]; ok {
		return v, true
	}
	first := ""
	for k, v := range tags {
		if strings.EqualFold(k, key) && (!found || k < first) {
			first, value, found = k, v, true
		}
	}
	return value, found
}

func principalType(c *Caller) string {
	switch {
	case c.Principal.IsAnonymous():
		return "Anonymous"
	case isRoot(c.Principal):
		return "Account"
	case c.Role != "":
		return "AssumedRole"
	}
	return "User"
}

// anonymousID is the user ID of anonymous callers.
const anonymousID = "anonymous"

func userID(c *Caller) (string, bool) {
	switch {
	case c.ID != "":
		return c.ID, true
	case c.Principal.IsAnonymous():
		return anonymousID, true
	case isRoot(c.Principal):
		return c.Principal.Account, true
	}
	return "", false
}

// userName returns the name of a user: the last part of its ARN. Other principals have none, so nobody can be mistaken
// for a user of the same name.
func userName(c *Caller) (string, bool) {
	arn, ok := strings.CutPrefix(c.Principal.ARN, arnOfIAM)
	if !ok || c.Role != "" {
		return "", false
	}
	if _, arn, ok = strings.Cut(arn, ":"); !ok {
		return "", false
	}
	path, ok := strings.CutPrefix(arn, "user/")
	return path[strings.LastIndexByte(path, '/')+1:], ok
}

const (
	arnOfIAM = "arn:aws:iam::"
	arnOfSTS = "arn:aws:sts::"
	arnOfS3  = "arn:aws:s3:::"
)

// isRoot reports whether a principal is the root of its account.
func isRoot(p *auth.Principal) bool {
	account, ok := strings.CutPrefix(p.ARN, arnOfIAM)
	if !ok || p.Account == "" {
		return false
	}
	account, ok = strings.CutSuffix(account, ":root")
	return ok && account == p.Account
}

// valueOf returns the value that replaces a variable.
func (e *evaluation) valueOf(v *variable) values {
	got := e.lookup(&v.key)
	if got.state == absent && v.hasDefault {
		return values{state: present, one: v.value}
	}
	return got
}

// resolve replaces the variables in tokens, all of which have a value. The values are literals: wildcards in them have
// no meaning.
func (e *evaluation) resolve(tokens []token) []token {
	i := 0
	for i < len(tokens) && tokens[i].kind != isVariable {
		i++
	}
	if i == len(tokens) {
		return tokens
	}
	out := make([]token, 0, len(tokens))
	for _, t := range tokens {
		if t.kind == isVariable {
			got := e.valueOf(t.variable)
			t = token{kind: literal, text: got.one}
		}
		out = append(out, t)
	}
	return out
}
