package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

// FuzzParse: no document makes the parser panic. An error has a line of the document, and a document that is accepted
// is JSON that decides without a panic and allows nothing without a statement about the action. FuzzDecide compares whole
// decisions.
func FuzzParse(f *testing.F) {
	for _, d := range documented {
		f.Add([]byte(document(d.bucket)), true)
		f.Add([]byte(document(d.identity)), false)
	}
	for _, d := range builtIn {
		f.Add([]byte(d), false)
	}
	for _, c := range operatorCases {
		f.Add([]byte(document(statement("Allow", "Principal", everyone, "Action", `"s3:*"`, "Resource", `"arn:aws:s3:::b/${aws:username,'x'}?*"`,
			"Condition", `{"ForAnyValue:`+c.operator+`IfExists": {"`+c.key+`": `+c.values+`}}`))), true)
	}
	f.Fuzz(func(t *testing.T, doc []byte, ofBucket bool) {
		from := Source{Name: "fuzz"}
		if ofBucket {
			from.Bucket = "b"
		}
		p, err := Parse(doc, from)
		if err != nil {
			var bad *Error
			require.True(t, errors.As(err, &bad), "%v", err)
			require.GreaterOrEqual(t, bad.Line, 1)
			require.LessOrEqual(t, bad.Line, 1+strings.Count(string(doc), "\n"))
			require.NotEmpty(t, bad.Reason)
			return
		}
		require.True(t, json.Valid(doc))
		require.NotEmpty(t, p.statements)
		p.IsPublic()
		for _, c := range []*Caller{root(stranger), user(owner), session(), key(user(owner)), nobody} {
			for _, scope := range []auth.Scope{auth.OneKey, auth.AnyKey, auth.EveryKey} {
				for _, action := range []auth.Action{"s3:GetObject", "s3:ListBucket", "s3:PutObject"} {
					caller := *c
					q := get(&caller)
					q.Action, q.Resource.Scope = action, scope
					q.Facts = facts{"aws:UserAgent": string(doc), "aws:SourceIp": "::ffff:1.2.3.4", "s3:prefix": "\xff*"}
					if ofBucket {
						q.Bucket = p
					} else {
						caller.Identity = []*Policy{p}
					}
					if r := Decide(q); r.Decision == Allowed {
						require.NotEmpty(t, r.Statements())
						require.Contains(t, p.statements, r.Statements()[0])
						require.Equal(t, Allow, r.Statements()[0].Effect)
						require.True(t, hasAction(doc, p, r.Statements()[0], q), "%s: the statement is about another action", action)
					}
				}
			}
		}
	})
}

// hasAction reports whether a statement of a document is about the action of a request, according to the reference.
func hasAction(doc []byte, p *Policy, s *Statement, q *Request) bool {
	r := &reference{q: q}
	return r.matchesAction(statementsOf(decoded(string(doc)))[slices.Index(p.statements, s)])
}

// generator makes policies and requests from bytes: each byte is a choice. If there are no more, it takes the first of
// the possibilities.
type generator struct{ data []byte }

func (g *generator) n(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	b := g.data[0]
	g.data = g.data[1:]
	return int(b) % n
}

func (g *generator) pick(list ...string) string { return list[g.n(len(list))] }

// some returns a string or an array of two.
func (g *generator) some(list ...string) string {
	if g.n(3) == 0 {
		return fmt.Sprintf("[%q, %q]", g.pick(list...), g.pick(list...))
	}
	return fmt.Sprintf("%q", g.pick(list...))
}

var (
	aliceARN = "arn:aws:iam::" + owner + ":user/staff/alice"
	todayARN = "arn:aws:sts::" + owner + ":assumed-role/reader/today"
	fuzzKeys = []string{"home/alice/x", "home/bob/x", "x", "a*b", "home/", "red/y"}

	// fuzzConditions are keys with operators for them, values of policies, and values of requests.
	fuzzConditions = []struct {
		key       string
		operators []string
		operands  []string
		facts     []string
	}{
		{"aws:UserAgent", []string{"StringEquals", "StringNotEquals", "StringLike", "StringNotLike", "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase", "Null"},
			[]string{"curl", "c*", "C?RL", "${aws:username}", "${aws:PrincipalTag/team, 'curl'}", "${s3:prefix}", "*"}, []string{"curl", "alice", "red", "C?RL"}},
		{"aws:SourceIp", []string{"IpAddress", "NotIpAddress", "Null"}, []string{"203.0.113.0/24", "2001:db8::/32", "0.0.0.0/0"},
			[]string{"203.0.113.7", "::ffff:203.0.113.9", "2001:db8::1", "192.0.2.1"}},
		{"s3:max-keys", []string{"NumericEquals", "NumericNotEquals", "NumericLessThan", "NumericLessThanEquals", "NumericGreaterThan", "NumericGreaterThanEquals"},
			[]string{"1", "10", "-5"}, []string{"1", "7", "10", "many"}},
		{"aws:CurrentTime", []string{"DateEquals", "DateNotEquals", "DateLessThan", "DateLessThanEquals", "DateGreaterThan", "DateGreaterThanEquals"},
			[]string{"2026-11-22T18:00:00Z", "2026-01-01T00:00:00Z"}, []string{"2026-11-22T18:00:00Z", "2026-11-22T19:00:00+01:00", "2025-01-01T00:00:00Z"}},
		{"AWS:securetransport", []string{"Bool", "Null"}, []string{"true", "false"}, []string{"true", "false"}},
		{"s3:prefix", []string{"StringEquals", "StringLike", "StringNotLike", "Null"}, []string{"home/*", "home/${aws:username}/", "x"}, []string{"home/", "home/alice/", "x"}},
		{"s3:ExistingObjectTag/a", []string{"StringEquals", "StringNotEquals", "BinaryEquals", "Null"}, []string{"YQ==", "Yg=="}, []string{"YQ==", "Yg==", "c"}},
		{"s3:RequestObjectTagKeys", []string{"StringEquals", "StringNotEquals", "StringLike"}, []string{"a", "b", "*"}, []string{"a", "b", "c"}},
		{"aws:PrincipalArn", []string{"ArnLike", "ArnEquals", "ArnNotEquals", "ArnNotLike"},
			[]string{aliceARN, "arn:aws:iam::*:role/reader", "arn:*:iam::111?22223333:user/staff/${aws:username}"}, nil},
	}
)

// condition returns a condition of one key.
func (g *generator) condition() string {
	c := fuzzConditions[g.n(len(fuzzConditions))]
	op := g.pick(c.operators...)
	if op == "Null" {
		return fmt.Sprintf(`{"Null": {%q: %s}}`, c.key, g.some("true", "false"))
	}
	op = g.pick("", "", "ForAllValues:", "ForAnyValue:") + op + g.pick("", "", "IfExists")
	return fmt.Sprintf(`{%q: {%q: %s}}`, op, c.key, g.some(c.operands...))
}

// statement returns a valid statement, or "" if the choices make none.
func (g *generator) statement(ofBucket bool) string {
	elements := []string{
		g.pick("Action", "Action", "Action", "NotAction"), g.some("s3:GetObject", "s3:*", "*", "s3:Get*", "s3:ListBucket", "s3:*Policy", "s3:PutObject*"),
		g.pick("Resource", "Resource", "Resource", "NotResource"),
		g.some("arn:aws:s3:::b/*", "arn:aws:s3:::b", "arn:aws:s3:::b*", "arn:aws:s3:::b/home/${aws:username}/*", "arn:aws:s3:::b/x", "arn:aws:s3:::b/?",
			"arn:aws:s3:::b/a${*}b", "arn:aws:s3:::b/${aws:PrincipalTag/team, 'home'}/*", "arn:aws:s3:::b/${s3:ExistingObjectTag/a}*", "arn:aws:s3:::b/h*/x"),
	}
	if ofBucket {
		value := `"*"`
		if g.n(3) > 0 {
			value = fmt.Sprintf(`{%q: %s}`, "AWS", g.some("*", aliceARN, owner, auth.RootARN(stranger), todayARN, "arn:aws:iam::"+owner+":role/reader",
				"arn:aws:iam::"+stranger+":user/staff/alice", "arn:aws:iam::"+owner+":key/backup"))
		}
		elements = append(elements, g.pick("Principal", "Principal", "Principal", "NotPrincipal"), value)
	}
	if g.n(2) == 0 {
		elements = append(elements, "Condition", g.condition())
	}
	s := statement(g.pick("Allow", "Allow", "Deny"), elements...)
	from := Source{}
	if ofBucket {
		from.Bucket = "b"
	}
	if _, err := Parse([]byte(document(s)), from); err != nil {
		return ""
	}
	return s
}

// document returns a document, or "".
func (g *generator) document(ofBucket bool) string {
	var list []string
	for range 1 + g.n(3) {
		if s := g.statement(ofBucket); s != "" {
			list = append(list, s)
		}
	}
	if list == nil {
		return ""
	}
	d := document(list...)
	if g.n(8) == 1 {
		d = strings.Replace(d, "2012-10-17", "2008-10-17", 1)
	}
	return d
}

// caller returns a caller with policies, and adds their documents to the reference.
func (g *generator) caller(t *testing.T, r *reference, depth int) *Caller {
	add := func(to map[*Caller][]map[string]any, c *Caller) (list []*Policy) {
		for range g.n(3) {
			if d := g.document(false); d != "" {
				p, err := Parse([]byte(d), Source{})
				require.NoError(t, err)
				list, to[c] = append(list, p), append(to[c], decoded(d))
			}
		}
		return list
	}
	c := []func() *Caller{
		func() *Caller { return user(owner) }, func() *Caller { return root(owner) }, func() *Caller { return user(stranger) },
		func() *Caller { return root(stranger) }, func() *Caller { return session() }, func() *Caller { return &Caller{Principal: auth.Anonymous} },
		func() *Caller { return key(nil) },
	}[g.n(7)]()
	if strings.HasSuffix(c.Principal.ARN, "key/backup") && depth < 3 {
		c.Creator = g.caller(t, r, depth+1)
	}
	if c.Principal.Account == "" {
		return c
	}
	if g.n(2) == 0 {
		c.Principal.Tags = map[string]string{"team": g.pick("red", "home", "*")}
	}
	c.Identity = add(r.identity, c)
	if g.n(3) == 0 {
		c.Session = add(r.session, c)
	}
	return c
}

// compareWithReference makes a request from data and compares the decision with the reference. The decisions about many
// keys are compared with the decisions about several keys.
func compareWithReference(t *testing.T, data []byte) Decision {
	g := &generator{data}
	r := &reference{identity: map[*Caller][]map[string]any{}, session: map[*Caller][]map[string]any{}}
	given := listFacts{}
	for _, c := range fuzzConditions {
		if c.facts == nil || g.n(3) == 0 {
			continue
		}
		name, _ := keyNamed(c.key)
		given[name.full] = []string{g.pick(c.facts...)}
		if name.list && g.n(2) == 0 {
			given[name.full] = append(given[name.full], g.pick(c.facts...))
		}
	}
	q := &Request{
		Action:   auth.Action(g.pick("s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucket")),
		Resource: auth.Resource{Account: owner, Bucket: "b", Key: g.pick(fuzzKeys...)},
		Facts:    given,
		Block:    PublicAccessBlock{RestrictPublicBuckets: g.n(3) == 0},
	}
	r.q = q
	d := g.document(true)
	if d != "" {
		p, err := Parse([]byte(d), Source{Bucket: "b"})
		require.NoError(t, err)
		q.Bucket, r.bucket = p, decoded(d)
	}
	q.Caller = g.caller(t, r, 0)
	got := Decide(q).Decision
	describe := func() string {
		return fmt.Sprintf("%s %+v %v\nbucket: %s\nidentity: %v\nsession: %v", q.Action, q.Resource, given, d, r.identity, r.session)
	}
	require.Equal(t, r.decide(), got, "reference: %s", describe())
	checkScopes(t, q, describe)
	return got
}

// checkScopes decides about several keys, with several values of the facts that vary, and compares the decisions with
// those about many keys.
func checkScopes(t *testing.T, q *Request, describe func() string) {
	allowed, denied := false, false
	for _, name := range fuzzKeys {
		for _, tag := range []string{"", "YQ==", "c"} {
			for _, prefix := range []string{"", "home/", "home/alice/"} {
				one := *q
				one.Resource.Key = name
				changed := listFacts{}
				for k, v := range q.Facts.(listFacts) {
					changed[k] = v
				}
				changed["s3:ExistingObjectTag/a"], changed["s3:prefix"] = fact(tag), fact(prefix)
				one.Facts = changed
				if Decide(&one).Decision == Allowed {
					allowed = true
				} else {
					denied = true
				}
			}
		}
	}
	many := *q
	many.Resource.Scope = auth.AnyKey
	if d := Decide(&many).Decision; allowed {
		require.Equal(t, Allowed, d, "any key: %s", describe())
		require.Equal(t, Allowed, DecideAny(&many).Decision, "any right: %s", describe())
	}
	many.Resource.Scope = auth.EveryKey
	if d := Decide(&many).Decision; denied {
		require.NotEqual(t, Allowed, d, "every key: %s", describe())
	}
}

func fact(v string) []string {
	if v == "" {
		return nil
	}
	return []string{v}
}

// FuzzDecide compares decisions with the reference.
func FuzzDecide(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f.Add(randomBytes(random))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compareWithReference(t, data) })
}

func randomBytes(random *rand.Rand) []byte {
	data := make([]byte, 150)
	for i := range data {
		data[i] = byte(random.IntN(256))
	}
	return data
}

// TestReference compares random decisions with the reference, and checks that all decisions occur often.
func TestReference(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 300
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	count := map[Decision]int{}
	for range n {
		count[compareWithReference(t, randomBytes(random))]++
	}
	t.Logf("decisions: %v", count)
	for _, d := range []Decision{Allowed, ImplicitDeny, ExplicitDeny} {
		require.Greater(t, count[d], n/20, d.String())
	}
}
