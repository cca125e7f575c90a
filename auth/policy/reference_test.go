package policy

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"orcas/auth"
)

// reference is a slow, naive evaluator, written from the documentation and not from the code: it walks the decoded JSON
// for each question, and compares with regular expressions. It decides about one key only.
type reference struct {
	q        *Request
	bucket   map[string]any
	identity map[*Caller][]map[string]any
	session  map[*Caller][]map[string]any
}

func decoded(document string) (v map[string]any) {
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		panic(err)
	}
	return v
}

// decide returns the decision about the caller and all creators.
func (r *reference) decide() Decision {
	var all []Decision
	for c := r.q.Caller; c != nil; c = c.Creator {
		all = append(all, r.decideCaller(c))
	}
	switch {
	case slices.Contains(all, ExplicitDeny):
		return ExplicitDeny
	case slices.Contains(all, ImplicitDeny):
		return ImplicitDeny
	}
	return Allowed
}

func (r *reference) decideCaller(c *Caller) Decision {
	anonymous := c.Principal.Account == ""
	isRoot := !anonymous && c.Principal.ARN == "arn:aws:iam::"+c.Principal.Account+":root"
	own := !anonymous && c.Principal.Account == r.q.Resource.Account
	policyAction := slices.Contains([]string{"s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"}, string(r.q.Action))
	if r.any(c, "Deny", r.identity[c]) || r.any(c, "Deny", r.session[c]) {
		return ExplicitDeny
	}
	if r.bucket != nil && !(isRoot && own && policyAction) {
		for _, s := range statementsOf(r.bucket) {
			if s["Effect"] == "Deny" && r.names(c, s) != "" && r.matches(c, r.bucket, s) {
				return ExplicitDeny
			}
		}
	}
	byIdentity := !anonymous && (isRoot || r.any(c, "Allow", r.identity[c]))
	bySession := len(r.session[c]) == 0 || r.any(c, "Allow", r.session[c])
	names := map[string]bool{}
	if r.bucket != nil && (own || !r.q.Block.RestrictPublicBuckets || !r.q.Bucket.IsPublic()) {
		for _, s := range statementsOf(r.bucket) {
			if s["Effect"] == "Allow" && r.matches(c, r.bucket, s) {
				names[r.names(c, s)] = true
			}
		}
	}
	directly := names["identity"] || names["session"]
	switch {
	case anonymous && directly,
		own && byIdentity && bySession,
		own && directly && bySession,
		own && names["session"],
		!own && byIdentity && bySession && (directly || names["account"]):
		return Allowed
	}
	return ImplicitDeny
}

func statementsOf(document map[string]any) (list []map[string]any) {
	for _, s := range listOf(document["Statement"]) {
		list = append(list, s.(map[string]any))
	}
	return list
}

func listOf(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// any reports whether a statement with an effect matches.
func (r *reference) any(c *Caller, effect string, documents []map[string]any) bool {
	for _, d := range documents {
		for _, s := range statementsOf(d) {
			if s["Effect"] == effect && r.matches(c, d, s) {
				return true
			}
		}
	}
	return false
}

// names returns how the statement of a bucket policy names the caller: "session", "identity", "account", or "" if it
// does not.
func (r *reference) names(c *Caller, s map[string]any) string {
	value, not := s["Principal"], false
	if value == nil {
		value, not = s["NotPrincipal"], true
	}
	found := map[string]bool{}
	if value == "*" {
		found["identity"] = true
	} else {
		for kind, entries := range value.(map[string]any) {
			for _, e := range listOf(entries) {
				found[r.namesOne(c, kind, e.(string))] = true
			}
		}
	}
	best := ""
	for _, how := range []string{"account", "identity", "session"} {
		if found[how] {
			best = how
		}
	}
	if !not {
		return best
	}
	if exempt := best == "identity" || best == "session" || best == "account" && s["Effect"] == "Allow"; exempt {
		return ""
	}
	return "identity"
}

func (r *reference) namesOne(c *Caller, kind, entry string) string {
	p := c.Principal
	account := regexp.MustCompile(`^(?:arn:aws:iam::)?([0-9]{12})(?::root)?$`).FindStringSubmatch(entry)
	switch {
	case kind != "AWS":
		return ""
	case entry == "*":
		return "identity"
	case p.Account == "":
		return ""
	case c.Role != "" && entry == p.ARN:
		return "session"
	case entry == p.ARN || c.Role != "" && entry == c.Role:
		return "identity"
	case account != nil && account[1] == p.Account && p.ARN == "arn:aws:iam::"+p.Account+":root":
		return "identity"
	case account != nil && account[1] == p.Account:
		return "account"
	}
	return ""
}

// matches reports whether the action, the resource and the conditions of a statement match.
func (r *reference) matches(c *Caller, document, s map[string]any) bool {
	return r.matchesAction(s) && r.matchesResource(c, document, s) && r.matchesConditions(c, document, s)
}

func (r *reference) matchesAction(s map[string]any) bool {
	list, not := s["Action"], false
	if list == nil {
		list, not = s["NotAction"], true
	}
	for _, a := range listOf(list) {
		pattern := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(a.(string)))
		if regexp.MustCompile("(?i)^" + pattern + "$").MatchString(string(r.q.Action)) {
			return !not
		}
	}
	return not
}

func (r *reference) resourceARN() string {
	if IsOfObjects(r.q.Action) {
		return "arn:aws:s3:::" + r.q.Resource.Bucket + "/" + r.q.Resource.Key
	}
	return "arn:aws:s3:::" + r.q.Resource.Bucket
}

func (r *reference) matchesResource(c *Caller, document, s map[string]any) bool {
	list, not := s["Resource"], false
	if list == nil {
		list, not = s["NotResource"], true
	}
	found := false
	for _, pattern := range listOf(list) {
		expression, ok := r.expression(c, document, pattern.(string), true)
		if !ok {
			return false
		}
		found = found || regexp.MustCompile(expression).MatchString(r.resourceARN())
	}
	return found != not
}

var variableForm = regexp.MustCompile(`\$\{ *([^},]*?) *(?:, *'([^']*)' *)?\}|.`)

// expression returns the regular expression of a text with variables, and whether all of them have a value.
func (r *reference) expression(c *Caller, document map[string]any, text string, wild bool) (string, bool) {
	var b strings.Builder
	for _, m := range variableForm.FindAllStringSubmatch(text, -1) {
		switch {
		case len(m[0]) > 1 && document["Version"] == "2012-10-17":
			if len(m[1]) == 1 {
				b.WriteString(regexp.QuoteMeta(m[1]))
				continue
			}
			values := r.values(c, m[1])
			if len(values) == 0 && !strings.Contains(m[0], "'") {
				return "", false
			}
			if len(values) == 0 {
				values = []string{m[2]}
			}
			b.WriteString(regexp.QuoteMeta(values[0]))
		case wild && m[0] == "*":
			b.WriteString(".*")
		case wild && m[0] == "?":
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(m[0]))
		}
	}
	return "(?s)^" + b.String() + "$", true
}

// values returns the values of a condition key, none if it is absent.
func (r *reference) values(c *Caller, key string) []string {
	if _, applies := Supports(r.q.Action, key); !applies {
		return nil
	}
	p, low := c.Principal, strings.ToLower(key)
	one := func(v string) []string {
		if v == "" {
			return nil
		}
		return []string{v}
	}
	switch {
	case low == "aws:username":
		if m := regexp.MustCompile(`^arn:aws:iam::\d+:user/(?:.*/)?([^/]+)$`).FindStringSubmatch(p.ARN); m != nil {
			return one(m[1])
		}
		return nil
	case low == "aws:principalarn" && c.Role != "":
		return one(c.Role)
	case low == "aws:principalarn":
		return one(p.ARN)
	case low == "aws:principalaccount":
		return one(p.Account)
	case strings.HasPrefix(low, "aws:principaltag/"):
		return one(p.Tags[key[len("aws:PrincipalTag/"):]])
	}
	for name, values := range r.q.Facts.(listFacts) {
		if service, tag, found := strings.Cut(name, "/"); strings.EqualFold(name, key) &&
			(!found || strings.HasSuffix(key, "/"+tag) && service != "") {
			return values
		}
	}
	return nil
}

var operatorForm = regexp.MustCompile(`^(ForAllValues:|ForAnyValue:)?(.*?)(IfExists)?$`)

func (r *reference) matchesConditions(c *Caller, document, s map[string]any) bool {
	block, _ := s["Condition"].(map[string]any)
	for operator, keys := range block {
		for key, operands := range keys.(map[string]any) {
			if !r.holds(c, document, operator, key, listOf(operands)) {
				return false
			}
		}
	}
	return true
}

func (r *reference) holds(c *Caller, document map[string]any, operator, key string, operands []any) bool {
	m := operatorForm.FindStringSubmatch(operator)
	set, base, ifExists := m[1], m[2], m[3] != ""
	have := r.values(c, key)
	if len(have) == 0 && ifExists {
		return true
	}
	if base == "Null" {
		return slices.ContainsFunc(operands, func(o any) bool { return (o == "true") == (len(have) == 0) })
	}
	negated := strings.Contains(base, "Not")
	base = strings.Replace(base, "Not", "", 1)
	var wanted []string
	for _, o := range operands {
		text, ok := o.(string), true
		if strings.HasPrefix(base, "String") || strings.HasPrefix(base, "Arn") {
			text, ok = r.expression(c, document, text, !strings.HasPrefix(base, "StringEquals"))
		}
		if !ok {
			return false
		}
		wanted = append(wanted, text)
	}
	count := 0
	for _, h := range have {
		if slices.ContainsFunc(wanted, func(w string) bool { return comparePositive(base, h, w) }) {
			count++
		}
	}
	switch set {
	case "ForAllValues:":
		return negated && count == 0 || !negated && count == len(have)
	case "ForAnyValue:":
		return negated && count < len(have) || !negated && count > 0
	}
	return (count > 0) != negated
}

// comparePositive compares by an operator without "Not". Of text and ARNs, the wanted value is a regular expression.
func comparePositive(base, have, want string) bool {
	switch {
	case base == "StringEqualsIgnoreCase":
		return regexp.MustCompile("(?i)" + want).MatchString(have)
	case strings.HasPrefix(base, "String"):
		return regexp.MustCompile(want).MatchString(have)
	case strings.HasPrefix(base, "Arn"):
		want = strings.ReplaceAll(strings.TrimPrefix(want, "(?s)"), ".*", "[^:]*")
		return regexp.MustCompile(want).MatchString(have) // no wildcard of the generator is in the last part
	case base == "Bool":
		return have == want
	case base == "BinaryEquals":
		a, err1 := base64.StdEncoding.DecodeString(have)
		b, err2 := base64.StdEncoding.DecodeString(want)
		return err1 == nil && err2 == nil && string(a) == string(b)
	case base == "IpAddress":
		_, network, err := net.ParseCIDR(want)
		return err == nil && network.Contains(net.ParseIP(have))
	}
	var less, equal bool
	if kind, _, _ := strings.Cut(base, "Numeric"); kind == "" {
		a, err1 := strconv.ParseFloat(have, 64)
		b, err2 := strconv.ParseFloat(want, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		less, equal = a < b, a == b
	} else {
		a, err1 := time.Parse(time.RFC3339, have)
		b, err2 := time.Parse(time.RFC3339, want)
		if err1 != nil || err2 != nil {
			return false
		}
		less, equal = a.Before(b), a.Equal(b)
	}
	name := strings.TrimPrefix(strings.TrimPrefix(base, "Numeric"), "Date")
	return map[string]bool{
		"Equals": equal, "LessThan": less, "LessThanEquals": less || equal, "GreaterThan": !less && !equal, "GreaterThanEquals": !less,
	}[name]
}

var _ auth.Facts = listFacts{}
