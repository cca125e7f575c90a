package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

// trusting and distrusting return statements of a trust policy.
func trusting(principal string, more ...string) string {
	return statement("Allow", append([]string{"Principal", principal, "Action", `"sts:AssumeRole"`}, more...)...)
}

func distrusting(principal string) string {
	return statement("Deny", "Principal", principal, "Action", `"sts:AssumeRole"`)
}

func ofRole(t *testing.T, statements string) *Policy {
	p, err := Parse([]byte(document(statements)), Source{Name: "writer", Trust: true})
	require.NoError(t, err, statements)
	return p
}

// assume returns the request to assume the role "writer" of the owner.
func assume(c *Caller) *Request {
	return &Request{
		Caller: c, Action: "sts:AssumeRole", ARN: "arn:aws:iam::" + owner + ":role/writer", Resource: auth.Resource{Account: owner},
	}
}

// TestTrust tests each step of the decision with every kind of caller.
func TestTrust(t *testing.T) {
	const write = `"sts:AssumeRole"`
	may := ofIdentity(t, statement("Allow", "Action", write, "Resource", `"arn:aws:iam::111122223333:role/writer"`))
	mayNot := ofIdentity(t, statement("Deny", "Action", write, "Resource", `"*"`))
	mayOther := ofIdentity(t, statement("Allow", "Action", write, "Resource", `"arn:aws:iam::111122223333:role/other"`))
	limited := func(c *Caller, policies ...*Policy) *Caller { c.Session = policies; return c }
	alice, foreign := "arn:aws:iam::"+owner+":user/staff/alice", "arn:aws:iam::"+stranger+":user/staff/alice"
	role, today := "arn:aws:iam::"+owner+":role/reader", "arn:aws:sts::"+owner+":assumed-role/reader/today"
	exceptAlice := statement("Deny", "NotPrincipal", aws(alice), "Action", write)
	ifName := func(name string) []string {
		return []string{"Condition", `{"StringEquals": {"aws:username": "` + name + `"}}`}
	}
	ifExternal := func(id string) []string {
		return []string{"Condition", `{"StringEquals": {"sts:ExternalId": "` + id + `"}}`}
	}
	for name, c := range map[string]struct {
		caller *Caller
		trust  string
		want   Decision
	}{
		"named":                        {user(owner), trusting(aws(alice)), Allowed},
		"everyone":                     {user(owner), trusting(everyone), Allowed},
		"another is named":             {user(owner, may), trusting(aws(alice + "2")), ImplicitDeny},
		"identity only":                {user(owner, may), trusting(aws(role)), ImplicitDeny},
		"identity admin only":          {user(owner, BuiltIn("admin")), trusting(aws(role)), ImplicitDeny},
		"the account":                  {user(owner), trusting(aws(owner)), ImplicitDeny},
		"the account, identity":        {user(owner, may), trusting(aws(owner)), Allowed},
		"the account, another role":    {user(owner, mayOther), trusting(aws(owner)), ImplicitDeny},
		"the root's ARN, identity":     {user(owner, may), trusting(aws(auth.RootARN(owner))), Allowed},
		"identity denies":              {user(owner, may, mayNot), trusting(aws(alice)), ExplicitDeny},
		"trust denies":                 {user(owner, may), trusting(aws(alice)) + "," + distrusting(aws(alice)), ExplicitDeny},
		"trust denies the account":     {user(owner, may), trusting(aws(alice)) + "," + distrusting(aws(owner)), ExplicitDeny},
		"other account, both":          {user(stranger, may), trusting(aws(foreign)), Allowed},
		"other account, account":       {user(stranger, may), trusting(aws(stranger)), Allowed},
		"other account, trust only":    {user(stranger), trusting(aws(foreign)), ImplicitDeny},
		"other account, everyone":      {user(stranger), trusting(everyone), ImplicitDeny},
		"other account, identity only": {user(stranger, may), trusting(aws(alice)), ImplicitDeny},
		"root":                         {root(owner), trusting(everyone), ImplicitDeny},
		"root, named":                  {root(owner), trusting(aws(auth.RootARN(owner))), ImplicitDeny},
		"root of another account":      {root(stranger), trusting(aws(stranger)), ImplicitDeny},
		"anonymous":                    {nobody, trusting(everyone), ImplicitDeny},
		"application key":              {key(root(owner), may), trusting(everyone), ImplicitDeny},
		"application key of a user":    {key(user(owner, may), may), trusting(everyone), ImplicitDeny},
		"role":                         {session(), trusting(aws(role)), Allowed},
		"role, limited":                {limited(session(), mayOther), trusting(aws(role)), ImplicitDeny},
		"role, limited to this":        {limited(session(), may), trusting(aws(role)), Allowed},
		"role, identity, limited":      {limited(session(may), mayOther), trusting(aws(owner)), ImplicitDeny},
		"role, session denies":         {limited(session(may), may, mayNot), trusting(aws(today)), ExplicitDeny},
		"session, limited":             {limited(session(), mayOther), trusting(aws(today)), Allowed},
		"another session":              {session(), trusting(aws(today + "2")), ImplicitDeny},
		"no caller is a service":       {user(owner, may), trusting(`{"Service": "ec2.amazonaws.com"}`), ImplicitDeny},
		"NotPrincipal, another":        {session(may), trusting(aws(owner)) + "," + exceptAlice, ExplicitDeny},
		"NotPrincipal, named":          {user(owner), trusting(aws(alice)) + "," + exceptAlice, Allowed},
		"another action":               {user(owner, may), statement("Allow", "Principal", aws(alice), "Action", `"sts:TagSession"`), ImplicitDeny},
		"a condition":                  {user(owner), trusting(aws(alice), ifName("alice")...), Allowed},
		"a condition, another":         {user(owner), trusting(aws(alice), ifName("bob")...), ImplicitDeny},
		"external ID":                  {user(owner), trusting(aws(alice), ifExternal("x1")...), Allowed},
		"external ID, another":         {user(owner), trusting(aws(alice), ifExternal("x2")...), ImplicitDeny},
		"external ID, account":         {user(owner, may), trusting(aws(owner), ifExternal("x2")...), ImplicitDeny},
	} {
		q := assume(c.caller)
		q.Facts = facts{"sts:ExternalId": "x1"}
		require.Equal(t, c.want, DecideTrust(q, ofRole(t, c.trust)).Decision, name)
	}

	trust := ofRole(t, trusting(everyone))
	alone := user(owner, may)
	require.Same(t, trust.statements[0], DecideTrust(assume(alone), trust).Bucket)
	require.Equal(t, Allowed, DecideTrust(assume(alone), trust).Decision)
	require.Equal(t, ImplicitDeny, DecideTrust(assume(alone), nil).Decision)
	require.Equal(t, ImplicitDeny, DecideTrust(assume(nil), trust).Decision)
	for name, change := range map[string]func(q *Request){
		"no ARN":         func(q *Request) { q.ARN = "" },
		"no action":      func(q *Request) { q.Action = "" },
		"another action": func(q *Request) { q.Action = "iam:DeleteRole" },
		"no principal":   func(q *Request) { q.Caller = &Caller{} },
		"nobody's role":  func(q *Request) { q.Caller, q.Resource.Account = nobody, "" }, // anonymous callers do not own it
	} {
		q := assume(alone)
		change(q)
		require.Equal(t, ImplicitDeny, DecideTrust(q, trust).Decision, name)
	}
}

// TestTrustPolicies tests what only trust policies may contain.
func TestTrustPolicies(t *testing.T) {
	parse := func(elements ...string) error {
		_, err := Parse([]byte(document(statement("Allow", elements...))), Source{Trust: true})
		return err
	}
	alice := aws("arn:aws:iam::" + owner + ":user/alice")
	for _, ok := range [][]string{
		{"Principal", alice, "Action", `["sts:AssumeRole", "sts:TagSession"]`},
		{"Principal", alice, "Action", `"sts:*"`},
		{"Principal", alice, "Action", `"*"`},
		{"Principal", `{"Service": ["ec2.amazonaws.com", "lambda.amazonaws.com"]}`, "Action", `"sts:AssumeRole"`},
		{"Principal", alice, "Action", `"sts:AssumeRole"`, "Condition", `{"StringEquals": {"sts:RoleSessionName": "${aws:username}"}}`},
		{"NotPrincipal", alice, "Action", `"sts:AssumeRole"`},
	} {
		require.NoError(t, parse(ok...), "%v", ok)
	}
	for reason, bad := range map[string][]string{
		"element Resource, line 1: a trust policy cannot have this element":    {"Principal", alice, "Action", `"sts:AssumeRole"`, "Resource", `"*"`},
		"element NotResource, line 1: a trust policy cannot have this element": {"Principal", alice, "Action", `"sts:AssumeRole"`, "NotResource", `"*"`},
		"neither Principal nor NotPrincipal":                                   {"Action", `"sts:AssumeRole"`},
		"neither Action nor NotAction":                                         {"Principal", alice},
		`the action "s3:GetObject" is not one of those that a trust policy`:    {"Principal", alice, "Action", `"s3:GetObject"`},
		`the action "sts:GetCallerIdentity" is not one`:                        {"Principal", alice, "Action", `"sts:GetCallerIdentity"`},
		`unknown action "sts:Assume"`:                                          {"Principal", alice, "Action", `"sts:Assume"`},
		"unknown principal":                                                    {"Principal", aws("alice"), "Action", `"sts:AssumeRole"`},
		`the key "s3:prefix" does not apply`:                                   {"Principal", alice, "Action", `"sts:AssumeRole"`, "Condition", `{"StringEquals": {"s3:prefix": "x"}}`},
	} {
		require.ErrorContains(t, parse(bad...), reason)
	}
	p := ofRole(t, trusting(`{"AWS": ["`+owner+`", "arn:aws:iam::111122223333:user/alice"]}`)+","+
		distrusting(aws("arn:aws:sts::"+owner+":assumed-role/reader/today")))
	require.Equal(t, []string{"arn:aws:iam::111122223333:user/alice", "arn:aws:sts::111122223333:assumed-role/reader/today"}, p.Principals())
}

// TestPrincipalsWithIDs: a principal that was created later under the name of a deleted one is another principal.
func TestPrincipalsWithIDs(t *testing.T) {
	alice, role := "arn:aws:iam::"+owner+":user/staff/alice", "arn:aws:iam::"+owner+":role/reader"
	today := "arn:aws:sts::" + owner + ":assumed-role/reader/today"
	reader := session()
	reader.ID = "AROAREADER:today"
	for _, c := range []struct {
		caller *Caller
		arn    string
		id     string // in the policy
		named  bool
	}{
		{user(owner), alice, "AIDAALICE", true},
		{user(owner), alice, "AIDAFORMER", false},
		{user(owner), alice, "", false},
		{reader, role, "AROAREADER", true},
		{reader, role, "AROAFORMER", false},
		{reader, today, "AROAREADER", true},
		{reader, today, "AROAFORMER", false},
		// After the principal was renamed:
		{user(owner), "arn:aws:iam::" + owner + ":user/old-name", "AIDAALICE", true},
		{reader, "arn:aws:iam::" + owner + ":role/old-name", "AROAREADER", true},
		{reader, "arn:aws:sts::" + owner + ":assumed-role/old-name/today", "AROAREADER", true},
		{reader, "arn:aws:sts::" + owner + ":assumed-role/reader/yesterday", "AROAREADER", false},
		{reader, "arn:aws:sts::" + owner + ":assumed-role/today/reader", "AROAREADER", false},
	} {
		source := Source{Trust: true, IDs: map[string]string{c.arn: c.id}}
		want := map[bool]Decision{true: Allowed, false: ImplicitDeny}[c.named]
		p, err := Parse([]byte(document(trusting(aws(c.arn)))), source)
		require.NoError(t, err)
		require.Equal(t, want, DecideTrust(assume(c.caller), p).Decision, "%+v", c)
		p, err = Parse([]byte(document(trusting(aws(owner))+","+distrusting(aws(c.arn)))), source)
		require.NoError(t, err)
		want = map[bool]Decision{true: ExplicitDeny, false: ImplicitDeny}[c.named]
		require.Equal(t, want, DecideTrust(assume(c.caller), p).Decision, "%+v", c)
	}
}

// TestReplacePrincipals: only the values of AWS are replaced, and everything else stays as it is.
func TestReplacePrincipals(t *testing.T) {
	const arn, id = "arn:aws:iam::111122223333:user/alice", "AIDAALICE"
	for before, after := range map[string]string{
		`{"Statement": {"Principal": {"AWS": "ARN"}}}`:                     `{"Statement": {"Principal": {"AWS": "ID"}}}`,
		`{"Statement":[{"NotPrincipal":{"AWS":["x" ,"ARN","\u0041RN"]}}]}`: `{"Statement":[{"NotPrincipal":{"AWS":["x" ,"ID","ID"]}}]}`,
		`{"Statement": [{"Principal": {"AWS": ["ARN"], "Federated": "ARN"}, "Sid": "ARN", "Condition": {"ArnEquals": {"aws:PrincipalArn": "ARN"}}},
			{"Effect": "Deny", "Principal": {"CanonicalUser": ["ARN"], "AWS": "ARN"}}, {"Principal": "ARN"}], "Id": "ARN"}`: `{"Statement": [{"Principal": {"AWS": ["ID"], "Federated": "ARN"}, "Sid": "ARN", "Condition": {"ArnEquals": {"aws:PrincipalArn": "ARN"}}},
			{"Effect": "Deny", "Principal": {"CanonicalUser": ["ARN"], "AWS": "ID"}}, {"Principal": "ARN"}], "Id": "ARN"}`,
		`{"Statement": []}`: `{"Statement": []}`,
		`{}`:                `{}`,
		`[]`:                `[]`,
	} {
		fill := strings.NewReplacer("\\u0041RN", "\\u0061"+arn[1:], "ARN", arn, "ID", id)
		got, err := ReplacePrincipals(fill.Replace(before), func(principal string) string {
			if principal == arn {
				return id
			}
			return principal
		})
		require.NoError(t, err)
		require.Equal(t, fill.Replace(after), got)
	}
	_, err := ReplacePrincipals("{", func(string) string { return "" })
	require.Error(t, err)
}
