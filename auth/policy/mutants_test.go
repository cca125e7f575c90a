package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant breaks one rule of the package by changing its source: in one file, it replaces a text that must occur exactly
// once. The tests must fail.
type mutant struct {
	does      string // the effect of the mutant
	file      string
	old, with string
}

var mutants = []mutant{
	// The steps of the decision
	{"a denial of the identity is ignored", "decide.go", "e.find(c.Identity, Deny); result.Identity != nil", "e.find(nil, Deny); result.Identity != nil"},
	{"a denial of the session is ignored", "decide.go", "e.find(c.Session, Deny); result.Session != nil", "e.find(nil, Deny); result.Session != nil"},
	{"a denial of the bucket is ignored", "decide.go", "result.Bucket = e.denies(q.Bucket); result.Bucket != nil", "result.Bucket = e.denies(nil); result.Bucket != nil"},
	{"denials of the bucket do not bind the root", "decide.go", "if !(isRootOfAccount && owns && keepsOwnerIn(e.action)) {", "if !(isRootOfAccount && owns) {"},
	{"the root can be locked out", "decide.go", "if !(isRootOfAccount && owns && keepsOwnerIn(e.action)) {", "if c != nil {"},
	{"roots of other accounts are not bound by three actions", "decide.go", "if !(isRootOfAccount && owns && keepsOwnerIn(e.action)) {", "if !(isRootOfAccount && keepsOwnerIn(e.action)) {"},
	{"no identity of the account is bound by three actions", "decide.go", "if !(isRootOfAccount && owns && keepsOwnerIn(e.action)) {", "if !(owns && keepsOwnerIn(e.action)) {"},
	{"the root may not delete its bucket policy", "decide.go", ` || a.name == "s3:DeleteBucketPolicy"`, ""},
	{"anonymous callers own what nobody owns", "decide.go", "owns := !c.Principal.IsAnonymous() && ", "owns := "},
	{"the public access block is ignored", "decide.go", "if owns || q.Bucket == nil || !q.Block.cancels(q.Bucket) {", "if c != nil {"},
	{"the public access block cancels for its own account", "decide.go", "if owns || q.Bucket == nil ||", "if q.Bucket == nil ||"},
	{"anonymous callers are allowed without a policy", "decide.go", "allowed = level >= direct\n", "allowed = level >= noGrant\n"},
	{"the root needs a policy", "decide.go", "(isRootOfAccount || result.Identity != nil)", "result.Identity != nil"},
	{"every identity is allowed like the root", "decide.go", "(isRootOfAccount || result.Identity != nil)", "(result.Identity == result.Identity)"},
	{"sessions are not limited", "decide.go", "withinSession := len(c.Session) == 0 || result.Session != nil", "withinSession := len(c.Session) >= 0"},
	{"callers without session policies are limited", "decide.go", "len(c.Session) == 0 || result.Session != nil", "result.Session != nil"},
	{"a session does not limit the bucket policy", "decide.go", "level >= direct && withinSession ||", "level >= direct ||"},
	{"a session policy limits the session that is named", "decide.go", " || level == toSession\n", "\n"},
	{"within an account, naming the account is sufficient", "decide.go", "level >= direct && withinSession || level", "level >= toAccount && withinSession || level"},
	{"within an account, both policies must allow", "decide.go", "allowed = byIdentity && withinSession || level", "allowed = byIdentity && withinSession && level >= direct || level"},
	{"within an account, the bucket policy is not sufficient", "decide.go", "level >= direct && withinSession || level", "level == toSession || level"},
	{"across accounts, the identity is sufficient", "decide.go", "allowed = byIdentity && withinSession && level >= toAccount", "allowed = byIdentity && withinSession"},
	{"across accounts, the bucket policy is sufficient", "decide.go", "allowed = byIdentity && withinSession && level >= toAccount", "allowed = withinSession && level >= toAccount"},
	{"across accounts, naming the account is not sufficient", "decide.go", "allowed = byIdentity && withinSession && level >= toAccount", "allowed = byIdentity && withinSession && level >= direct"},
	{"across accounts, sessions are not limited", "decide.go", "allowed = byIdentity && withinSession && level >= toAccount", "allowed = byIdentity && level >= toAccount"},

	{"the reason is the last statement", "decide.go", "to > level && e.applies", "to >= level && e.applies"},

	// Trust
	{"a role need not trust anyone", "trust.go", "case level >= toAccount && result.Identity != nil && withinSession:", "case result.Identity != nil && withinSession:"},
	{"a role that trusts the account trusts every identity", "trust.go", "case owns && level >= direct && withinSession:", "case owns && level >= toAccount && withinSession:"},
	{"other accounts need no permission to assume a role", "trust.go", "case owns && level >= direct && withinSession:", "case level >= direct && withinSession:"},
	{"sessions are not limited when they assume a role", "trust.go", "case owns && level >= direct && withinSession:", "case owns && level >= direct:"},
	{"a session policy limits the session that a role trusts", "trust.go", "case owns && level == toSession:", "case owns && level > toSession:"},
	{"a denial of the trust policy is ignored", "trust.go", "e.denies(trust); result.Bucket != nil", "e.denies(nil); result.Bucket != nil"},
	{"a denial of the identity does not apply to roles", "trust.go", "e.find(c.Identity, Deny); result.Identity != nil", "e.find(nil, Deny); result.Identity != nil"},
	{"the root can assume roles", "trust.go", " && !isRoot(c.Principal)", ""},
	{"application keys can assume roles", "trust.go", " && c.Creator == nil", ""},
	{"anonymous callers can assume roles", "trust.go", "c == nil || !mayAssume(c)", "c == nil || c.Principal == nil || !c.Principal.IsAnonymous() && !mayAssume(c)"},
	{"trust policies are about other actions", "trust.go", "!a.isTrust() || ", ""},
	{"a principal of the same name is the one that was deleted", "elements.go", "fixed && want == id && SessionOf", "fixed && want != id && SessionOf"},

	// Creators, and incomplete requests
	{"creators are ignored", "decide.go", "c != nil; c = c.Creator {", "c != nil; c = nil {"},
	{"only the direct creator counts", "decide.go", "c != nil; c = c.Creator {", "c != nil && n < 2; c = c.Creator {"},
	{"a cycle of creators never ends", "decide.go", "n > maxCreators || c.Principal == nil", "c.Principal == nil"},
	{"an implicit denial hides an explicit one of the creator", "decide.go", "denied = r\n", "return r\n"},
	{"a creator's implicit denial is ignored", "decide.go", "if denied.Caller != nil {", "if denied.Caller == q.Caller && q.Caller != nil {"},
	{"the result is that of the last creator", "decide.go", "case c == q.Caller:", "case c != nil:"},
	{"an object without a key is the root of the bucket", "decide.go", `q.Resource.Bucket != "" && (q.Resource.Key != "" || q.covers(of))`, `q.Resource.Bucket != ""`},
	{"a resource of IAM needs no ARN", "decide.go", "return q.ARN != \"\"", "return true"},
	{"a bucket needs no name", "decide.go", "return q.Resource.Bucket != \"\" || q.covers(of)\n\tcase kindObject", "return true\n\tcase kindObject"},

	// Many keys
	{"any key: a denial of one key denies", "decide.go", "matched == maybe && effect == Allow", "matched == maybe"},
	{"any key: only what covers all keys allows", "decide.go", "case auth.AnyKey, auth.Below, auth.Perhaps:", "case auth.Below, auth.Perhaps:"},
	{"every key: what covers one key allows", "decide.go", "matched == maybe && effect == Deny", "matched == maybe"},
	{"every key: a denial of one key is ignored", "decide.go", "case auth.EveryKey:", "case auth.EveryKey + 9:"},
	{"the key of the resource counts for many keys", "decide.go", "if e.many && r.Scope != auth.Below {", "if false {"},
	{"below: the prefix is ignored", "decide.go", "if e.many && r.Scope != auth.Below {", "if e.many {"},
	{"below: only what covers all keys allows", "decide.go", "case auth.AnyKey, auth.Below, auth.Perhaps:", "case auth.AnyKey, auth.Perhaps:"},
	{"below: a bucket with a name stands for others", "decide.go", `of == kindBucket && q.Resource.Bucket == ""`, "of == kindBucket"},
	{"below: buckets need a name", "decide.go", `|| of == kindBucket && q.Resource.Bucket == ""`, ""},
	{"below: objects are buckets", "decide.go", "case e.many && !s.resources[i].kinds.has(e.action.kind):", "case false:"},
	{"perhaps: a condition that varies must hold", "decide.go", "case auth.AnyKey, auth.Below, auth.Perhaps:", "case auth.AnyKey, auth.Below:"},
	{"perhaps: it is about many keys", "decide.go", "case auth.OneKey, auth.Perhaps:", "case auth.OneKey:"},
	{"keys that vary are known", "facts.go", "if k.varies && e.q.Resource.Scope != auth.OneKey {", "if k.varies && e.q.Resource.Scope == auth.OneKey+9 {"},
	{"a variable that varies is empty", "decide.go", "if isUnknown {\n\t\treturn maybe", "if isUnknown {\n\t\treturn yes"},
	{"a variable that varies is compared", "condition.go", "got.state == present && operands == unknown:", "got.state == present && operands == absent:"},
	{"a variable that varies always has a value", "condition.go", "return min(c.ifAbsent(), maybe), true", "return c.ifAbsent(), true"},
	{"IfExists does not help if the key is unknown", "condition.go", "case state == absent && c.ifExists && got.state == unknown:", "case state == absent && c.ifExists && got.state == present && c.set == allValues+9:"},
	{"an unknown value does not match", "condition.go", "operands == unknown:\n\t\treturn maybe, true\n\tcase c.op", "operands == unknown:\n\t\treturn no, true\n\tcase c.op"},
	{"an unknown value matches", "condition.go", "operands == unknown:\n\t\treturn maybe, true\n\tcase c.op", "operands == unknown:\n\t\treturn yes, true\n\tcase c.op"},
	{"a pattern that ends at the prefix matches", "pattern.go", "return no // the pattern ends within prefix", "return maybe"},
	{"a final star is not recognized", "pattern.go", "return yes // without its last", "return maybe // without its last"},
	{"every final star covers the bucket", "pattern.go", "tokens[last].kind == anyText && match(tokens, prefix) {", "tokens[last].kind == anyText {"},
	{"a literal after the prefix does not match", "pattern.go", "if strings.HasPrefix(t.text, rest) {\n\t\t\t\treturn maybe", "if strings.HasPrefix(t.text, rest) {\n\t\t\t\treturn no"},
	{"any right: only the first action counts", "decide.go", "if result = decideAction(&any, a); result.Decision == Allowed {", "if result = decideAction(&any, a); result.Decision >= ImplicitDeny {"},

	// Statements
	{"the action is not compared", "decide.go", "if !s.actions.has(e.action.id) {", "if s.actions.has(e.action.id) && s.Line < 0 {"},
	{"the resource is not compared", "decide.go", "result = max(result, truthOf(match(tokens, e.subject)))", "result = yes"},
	{"only the last resource counts", "decide.go", "result = max(result, truthOf(match(tokens, e.subject)))", "result = truthOf(match(tokens, e.subject))"},
	{"NotResource is like Resource", "decide.go", "\t\treturn yes - result", "\t\treturn result"},
	{"only the last condition counts", "decide.go", "result = min(result, holds)", "result = holds"},
	{"a variable without value matches nothing", "decide.go", "if state == absent {\n\t\t\treturn no", "if state == absent && !s.notResource {\n\t\t\treturn no"},
	{"a condition ignores a variable without value", "condition.go", "\t\t\treturn no, false", "\t\t\toperands = present"},
	{"NotAction is like Action", "parse.go", "named.has(known.id) != not {", "named.has(known.id) {"},
	{"NotPrincipal is like Principal", "elements.go", "case !s.notPrincipal:", "case s.notPrincipal || !s.notPrincipal:"},
	{"NotPrincipal: the account exempts from Deny", "elements.go", "s.Effect == Deny && found >= direct:", "s.Effect == Deny && found >= toAccount:"},
	{"NotPrincipal: the account is not exempt from Allow", "elements.go", "case s.Effect == Allow && found != noGrant,", "case s.Effect == Allow && found >= direct,"},
	{"NotPrincipal exempts nobody from Deny", "elements.go", "s.Effect == Deny && found >= direct:", "s.Effect == Deny && found > toSession:"},
	{"everyone is only everyone with a key", "elements.go", "case who.IsAnonymous():\n\t\tif p.everyone {", "case who.IsAnonymous():\n\t\tif p.everyone && c.Role != \"\" {"},
	{"an account names its root only", "elements.go", "\t\treturn toAccount\n", "\t\treturn noGrant\n"},
	{"an account names its root as any identity", "elements.go", "\t\tif isRoot(who) {", "\t\tif isRoot(who) && c.Role != \"\" {"},
	{"a role does not name its sessions", "elements.go", `, c.Role != "" && p.has(c.Role, c):`, ":"},
	{"a session is named like its role", "elements.go", "\t\treturn toSession\n", "\t\treturn direct\n"},
	{"an empty canonical ID names callers without one", "elements.go", `c.Canonical != "" && slices.Contains(p.canonical, c.Canonical):`, "len(p.canonical) > 0:"},

	// Conditions
	{"IfExists has no effect", "condition.go", "if got.state == absent && c.ifExists {", "if got.state == absent && c.ifExists && c.set == allValues {"},
	{"IfExists ignores the value", "condition.go", "if got.state == absent && c.ifExists {", "if c.ifExists {"},
	{"a negated operator is false if the key is absent", "condition.go", "return truthOf(c.set == allValues || c.set == single && c.op.negated)", "return truthOf(c.set == allValues)"},
	{"ForAnyValue with a negated operator is true if the key is absent", "condition.go", "return truthOf(c.set == allValues || c.set == single && c.op.negated)", "return truthOf(c.set == allValues || c.op.negated)"},
	{"ForAllValues is false if the key is absent", "condition.go", "return truthOf(c.set == allValues || c.set == single", "return truthOf(c.set == single"},
	{"ForAllValues needs one value", "condition.go", "if matches == c.op.negated {\n\t\t\t\treturn false", "if matches != c.op.negated {\n\t\t\t\treturn true"},
	{"ForAnyValue needs all values", "condition.go", "if matches != c.op.negated {\n\t\t\t\treturn true", "if matches == c.op.negated {\n\t\t\t\treturn false"},
	{"a negated operator matches if one value differs", "condition.go", "return !c.op.negated\n", "return true\n"},
	{"Null compares the presence", "condition.go", "c.operands[i].scalar.truth == isAbsent", "c.operands[i].scalar.truth != isAbsent"},
	{"only the first value of a policy counts", "condition.go", "\t\tif matches {\n\t\t\treturn true\n\t\t}\n\t}\n\treturn false\n}\n\n// parsed", "\t\treturn matches\n\t}\n\treturn false\n}\n\n// parsed"},
	{"a value that cannot be parsed is the last one", "condition.go", "return e.parsed.ok", "return true"},
	{"values are parsed once for all classes", "condition.go", "if e.parsed.class != of || e.parsed.text != text {", "if e.parsed.text != text {"},
	{"the first value is parsed for all", "condition.go", "if e.parsed.class != of || e.parsed.text != text {", "if e.parsed.class != of {"},
	{"wildcards of ARNs match colons", "condition.go", "if !ok || !match(e.resolve(o.parts[i]), part) {", "if i == 0 && match(e.resolve(o.tokens), arn) {\n\t\t\treturn true\n\t\t}\n\t\tif !ok || !match(e.resolve(o.parts[i]), part) {"},
	{"StringLike has no wildcards", "operators.go", "case classLike:\n\t\to.tokens, err = parsePattern(text, with|wildcards)", "case classLike:\n\t\to.tokens, err = parsePattern(text, with)"},
	{"StringEquals has wildcards", "operators.go", "case classString, classFold:\n\t\to.tokens, err = parsePattern(text, with)", "case classString, classFold:\n\t\to.tokens, err = parsePattern(text, with|wildcards)"},
	{"StringNotEquals is StringEquals", "operators.go", `{class: classString, negated: true}`, `{class: classString}`},
	{"NotIpAddress is IpAddress", "operators.go", `{class: classIP, negated: true}`, `{class: classIP}`},
	{"NumericLessThanEquals is NumericLessThan", "operators.go", `"NumericLessThanEquals":     {class: classNumber, accepts: less | equal}`, `"NumericLessThanEquals":     {class: classNumber, accepts: less}`},
	{"DateGreaterThan is DateLessThan", "operators.go", `"DateGreaterThan":           {class: classDate, accepts: greater}`, `"DateGreaterThan":           {class: classDate, accepts: less}`},
	{"mapped addresses are IPv6", "operators.go", "a.Unmap().WithZone(\"\"), err == nil", "a.WithZone(\"\"), err == nil"},
	{"mapped ranges are IPv6", "operators.go", "p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)", "_ = p.Addr()"},
	{"large integers are compared as floats", "operators.go", "if i, err := strconv.ParseInt(text, 10, 64); err == nil {\n\t\treturn number{true", "if i, err := strconv.ParseInt(text, 10, 64); err == nil {\n\t\treturn number{false"},

	// Keys and variables
	{"keys of other actions are present", "facts.go", "if !e.action.supports(k.keyInfo) {", "if k.id < 0 {"},
	{"the request can set keys of the caller", "facts.go", "if v, computed := e.ofCaller(k); computed {", "if v, computed := e.ofCaller(k); computed && v.state != absent {"},
	{"an application key has a user name", "facts.go", `path, ok := strings.CutPrefix(arn, "user/")`, `_, path, ok := strings.Cut(arn, "/")`},
	{"the user name has a path", "facts.go", "return path[strings.LastIndexByte(path, '/')+1:], ok", "return path, ok"},
	{"a session has the ARN of the session", "facts.go", "\t\tif c.Role != \"\" {\n\t\t\treturn textValue(c.Role, true), true", "\t\tif c.Role == \"-\" {\n\t\t\treturn textValue(c.Role, true), true"},
	{"any ARN that ends with root is a root", "facts.go", "return ok && account == p.Account", "return ok && account != \"\""},
	{"defaults are ignored", "facts.go", "if got.state == absent && v.hasDefault {", "if got.state == absent && v.hasDefault && v.value == \"\" {"},
	{"defaults replace values", "facts.go", "if got.state == absent && v.hasDefault {", "if v.hasDefault {"},
	{"wildcards in values have a meaning", "facts.go", "t = token{kind: literal, text: got.one}", "t = token{kind: literal, text: got.one}\n\t\t\tif got.one == \"*\" {\n\t\t\t\tt.kind = anyText\n\t\t\t}"},
	{"wildcards in special variables have a meaning", "pattern.go", "plain.WriteString(special)", "if special == \"*\" {\n\t\t\t\tflush()\n\t\t\t\ttokens = append(tokens, token{kind: anyText})\n\t\t\t\tspecial = \"\"\n\t\t\t}\n\t\t\tplain.WriteString(special)"},
	{"documents of 2008 have variables", "parse.go", `case "2008-10-17", "":`, "case \"2008-10-17\", \"\":\n\t\tc.with = variables"},
	{"a question mark matches a byte", "pattern.go", "_, n := utf8.DecodeRuneInString(s)\n\treturn n", "_ = utf8.RuneError\n\treturn 1"},
	{"a star matches the shortest text only", "pattern.go", "starAt += charLen(s[starAt:])", "starAt = len(s)"},

	// Public policies
	{"a policy for everyone is not public", "public.go", "!s.principals.everyone && !s.notPrincipal", "!s.notPrincipal"},
	{"NotPrincipal is not public", "public.go", "!s.principals.everyone && !s.notPrincipal", "!s.principals.everyone"},
	{"a denial is public", "public.go", "if s.Effect == Deny || ", "if "},
	{"any condition makes a policy private", "public.go", "!slices.Contains(trustedKeys, c.key.name)", "len(trustedKeys) == 0"},
	{"a negated condition makes a policy private", "public.go", "c.op.negated || !slices", "!slices"},
	{"IfExists makes a policy private", "public.go", "if c.ifExists || c.set", "if c.set"},
	{"ForAllValues makes a policy private", "public.go", "c.set == allValues || c.op", "c.op"},
	{"one fixed value makes a policy private", "public.go", "\t\tif !c.trustsOperand(&c.operands[i]) {\n\t\t\treturn false", "\t\tif c.trustsOperand(&c.operands[i]) {\n\t\t\treturn true"},
	{"broad ranges are private", "public.go", "return o.network.Bits() >= broadest4", "return o.network.Bits() >= 1"},
	{"a principal with an ID is known by its name", "elements.go", "case !fixed && named == arn, fixed && want == id &&", "case named == arn, fixed && want == id &&"},
	{"a session of a role is any session", "elements.go", " && SessionOf(named) == SessionOf(arn):", ":"},
	{"principals that are exempt are not replaced", "elements.go", `m.name == "Principal" || m.name == "NotPrincipal"`, `m.name == "Principal"`},
	{"broad ranges of IPv6 are private", "public.go", "return o.network.Bits() >= broadest6", "return o.network.Bits() >= 1"},
	{"a set of ranges is judged by each range", "public.go", "return areBroad(ranges)", "return false"},
	{"private ranges count", "public.go", "case within(last), slices.ContainsFunc(private, within):", "case within(last):"},
	{"a range counts twice", "public.go", "case within(last), slices", "case within(last) && r.Bits() == 0, slices"},
	{"addresses count beside a better condition", "public.go", "c.trusts() && (found == nil || found.op.class == classIP)", "c.trusts() && (found == nil || found.op.class != classIP)"},
	{"ranges of 8 bits are public", "public.go", "return o.network.Bits() >= broadest4", "return o.network.Bits() > broadest4"},
	{"wildcards are fixed values", "public.go", "return len(o.tokens) == 1 && isLiteral(o.tokens) &&", "return len(o.tokens) > 0 &&"},
	{"the ID of anonymous callers is a fixed value", "public.go", " && !c.isAnonymous(o.tokens[0].text)", ""},

	// The parser
	{"repeated elements are accepted", "parse.go", "if n.repeated != nil {", "if n.repeated != nil && n.line < 0 {"},
	{"keys that differ in case may be repeated", "parse.go", "if strings.EqualFold(earlier.name, k.name) {", "if earlier.name == k.name {"},
	{"unknown elements are accepted", "parse.go", "if slices.Contains(allowed, m.name) {", "if slices.Contains(allowed, m.name) || allowed[0] == \"Sid\" {"},
	{"elements have no case", "parse.go", "if slices.Contains(allowed, m.name) {", "if slices.ContainsFunc(allowed, func(s string) bool { return strings.EqualFold(s, m.name) }) {"},
	{"actions that do not fit are accepted", "parse.go", "case !fits && !not:", "case !fits && !not && a.line < 0:"},
	{"keys that do not apply are accepted", "parse.go", "reach.has(a.kind) && a.supports(cond.key.keyInfo)", "reach.has(a.kind)"},
	{"keys apply to actions without a resource", "parse.go", "s.actions.has(a.id) && reach.has(a.kind) && a.supports", "s.actions.has(a.id) && (reach.has(a.kind) || reach != 0) && a.supports"},
	{"identities may have principals", "parse.go", "if n.get(name) != nil {", "if n.get(name) != nil && name == \"\" {"},
	{"bucket policies may be about other buckets", "elements.go", `ok && (rest == "" || rest[0] == '/' || rest[0] == '*')`, "ok || rest == \"-\""},
	{"unknown principals are accepted", "elements.go", `c.from.Known != nil && v.text != "*" && !c.from.Known(m.name, v.text)`, "c.from.Known != nil && v.text == \"\""},
	{"documents may be of any size", "policy.go", "if len(document) > maxBytes {", "if len(document) > 2*maxBytes {"},
	{"lines are counted from zero", "json.go", "dec: json.NewDecoder(bytes.NewReader(doc)), line: 1}", "dec: json.NewDecoder(bytes.NewReader(doc)), line: 0}"},
}

// randomTests are skipped with a mutant: each mutant must be detected by a test that always does the same.
const randomTests = "^(TestReference|TestMutants.*|Fuzz.*)$"

// TestMutants breaks the rules one at a time, and checks that a test fails. It builds the tests for every mutant, so it
// runs only as part of make policy-mutants.
func TestMutants(t *testing.T) {
	if os.Getenv("ORCAS_POLICY_MUTANTS") == "" {
		t.Skip("ORCAS_POLICY_MUTANTS is not set")
	}
	only := regexp.MustCompile(os.Getenv("ORCAS_POLICY_MUTANTS_ONLY"))
	for _, m := range mutants {
		if !only.MatchString(m.does) {
			continue
		}
		t.Run(m.does, func(t *testing.T) {
			t.Parallel()
			overlay, err := m.overlay(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			out, err := testWith(t, overlay)
			switch {
			case err == nil:
				t.Errorf("the mutant survived: no test fails if %s", m.does)
			case !failedTest(out):
				t.Errorf("a test must fail, not the build: %s", out)
			}
		})
	}
}

// TestMutantsFit checks that the text that each mutant replaces occurs exactly once.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants {
		if _, err := m.source(); err != nil {
			t.Error(err)
		}
	}
}

// source returns the text of the file with the mutant.
func (m *mutant) source() (string, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s: the text to replace occurs %d times in %s, want once: %q", m.does, n, m.file, m.old)
	}
	return strings.Replace(string(text), m.old, m.with, 1), nil
}

// overlay writes the file with the mutant, and returns the name of an overlay that replaces the original with it.
func (m *mutant) overlay(dir string) (string, error) {
	text, err := m.source()
	if err != nil {
		return "", err
	}
	return overlayOf(dir, m.file, text)
}

// overlayOf writes a file that replaces one of the package, and returns the name of an overlay that does it.
func overlayOf(dir, file, text string) (string, error) {
	original, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	patched, overlay := filepath.Join(dir, "patched.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(patched, []byte(text), 0o644); err != nil {
		return "", err
	}
	doc, err := json.Marshal(map[string]map[string]string{"Replace": {original: patched}})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, doc, 0o644)
}
