package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

// allowing and denying return statements of a bucket policy about reading its objects.
func allowing(principal string) string {
	return statement("Allow", "Principal", principal, "Action", read, "Resource", objects)
}

func denying(principal string) string {
	return statement("Deny", "Principal", principal, "Action", read, "Resource", objects)
}

// TestSteps tests each step of the decision with every caller.
func TestSteps(t *testing.T) {
	mayRead := ofIdentity(t, statement("Allow", "Action", read, "Resource", objects))
	mayNot := ofIdentity(t, statement("Deny", "Action", read, "Resource", objects))
	other := ofIdentity(t, statement("Allow", "Action", `"s3:PutObject"`, "Resource", `"*"`))
	limited := func(c *Caller, policies ...*Policy) *Caller { c.Session = policies; return c }
	alice, role := "arn:aws:iam::"+owner+":user/staff/alice", "arn:aws:iam::"+owner+":role/reader"
	today := "arn:aws:sts::" + owner + ":assumed-role/reader/today"
	foreign := "arn:aws:iam::" + stranger + ":user/staff/alice"
	restricted := PublicAccessBlock{RestrictPublicBuckets: true}
	all, none := allowing(everyone), ""
	for name, c := range map[string]struct {
		caller *Caller
		bucket string
		block  PublicAccessBlock
		want   Decision
	}{
		"1 identity denies":                 {user(owner, mayRead, mayNot), all, PublicAccessBlock{}, ExplicitDeny},
		"1 session denies":                  {limited(session(mayRead), mayRead, mayNot), allowing(aws(today)), PublicAccessBlock{}, ExplicitDeny},
		"1 bucket denies":                   {user(owner, mayRead), all + "," + denying(aws(alice)), PublicAccessBlock{}, ExplicitDeny},
		"1 bucket denies everyone":          {user(owner, mayRead), denying(everyone), PublicAccessBlock{}, ExplicitDeny},
		"1 bucket denies the account":       {user(owner, mayRead), denying(aws(owner)), PublicAccessBlock{}, ExplicitDeny},
		"1 bucket denies another":           {user(owner, mayRead), denying(aws(foreign)), PublicAccessBlock{}, Allowed},
		"1 bucket denies the role":          {session(mayRead), denying(aws(role)), PublicAccessBlock{}, ExplicitDeny},
		"1 bucket denies the session":       {session(mayRead), denying(aws(today)), PublicAccessBlock{}, ExplicitDeny},
		"1 bucket denies the root":          {root(owner), denying(everyone), PublicAccessBlock{}, ExplicitDeny},
		"1 bucket denies the root by ARN":   {root(owner), denying(aws(auth.RootARN(owner))), PublicAccessBlock{}, ExplicitDeny},
		"1 bucket denies anonymous":         {nobody, all + "," + denying(everyone), PublicAccessBlock{}, ExplicitDeny},
		"1 a user's denial, not anonymous":  {nobody, all + "," + denying(aws(alice)), PublicAccessBlock{}, Allowed},
		"1 the block does not cancel Deny":  {user(stranger, mayRead), all + "," + denying(everyone), restricted, ExplicitDeny},
		"2 anonymous, public":               {nobody, all, PublicAccessBlock{}, Allowed},
		"2 anonymous, public as AWS":        {nobody, allowing(aws("*")), PublicAccessBlock{}, Allowed},
		"2 anonymous, restricted":           {nobody, all, restricted, ImplicitDeny},
		"2 anonymous, other blocks":         {nobody, all, PublicAccessBlock{true, true, true, false}, Allowed},
		"2 anonymous, no policy":            {nobody, none, PublicAccessBlock{}, ImplicitDeny},
		"2 anonymous, a user":               {nobody, allowing(aws(alice)), PublicAccessBlock{}, ImplicitDeny},
		"2 restricted, other account":       {user(stranger, mayRead), all, restricted, ImplicitDeny},
		"2 restricted, named account":       {user(stranger, mayRead), all + "," + allowing(aws(stranger)), restricted, ImplicitDeny},
		"2 restricted, not public":          {user(stranger, mayRead), allowing(aws(stranger)), restricted, Allowed},
		"2 restricted, own account":         {user(owner), all, restricted, Allowed},
		"3 identity suffices":               {user(owner, mayRead), none, PublicAccessBlock{}, Allowed},
		"3 bucket suffices":                 {user(owner), allowing(aws(alice)), PublicAccessBlock{}, Allowed},
		"3 bucket, everyone":                {user(owner), all, PublicAccessBlock{}, Allowed},
		"3 bucket, the account":             {user(owner), allowing(aws(owner)), PublicAccessBlock{}, ImplicitDeny},
		"3 root, the account":               {root(owner), allowing(aws(owner)), PublicAccessBlock{}, Allowed},
		"3 bucket, the role":                {session(), allowing(aws(role)), PublicAccessBlock{}, Allowed},
		"3 bucket, another user":            {user(owner), allowing(aws(alice + "2")), PublicAccessBlock{}, ImplicitDeny},
		"3 root":                            {root(owner), none, PublicAccessBlock{}, Allowed},
		"3 key":                             {key(root(owner), mayRead), none, PublicAccessBlock{}, Allowed},
		"3 other action":                    {user(owner, other), none, PublicAccessBlock{}, ImplicitDeny},
		"4 both":                            {user(stranger, mayRead), allowing(aws(foreign)), PublicAccessBlock{}, Allowed},
		"4 both, the account":               {user(stranger, mayRead), allowing(aws(stranger)), PublicAccessBlock{}, Allowed},
		"4 both, everyone":                  {user(stranger, mayRead), all, PublicAccessBlock{}, Allowed},
		"4 identity only":                   {user(stranger, mayRead), none, PublicAccessBlock{}, ImplicitDeny},
		"4 bucket only":                     {user(stranger), allowing(aws(foreign)), PublicAccessBlock{}, ImplicitDeny},
		"4 bucket for another":              {user(stranger, mayRead), allowing(aws(alice)), PublicAccessBlock{}, ImplicitDeny},
		"4 root, no policy":                 {root(stranger), none, PublicAccessBlock{}, ImplicitDeny},
		"4 root, the account":               {root(stranger), allowing(aws(stranger)), PublicAccessBlock{}, Allowed},
		"4 root, everyone":                  {root(stranger), all, PublicAccessBlock{}, Allowed},
		"5 session within":                  {limited(session(mayRead), mayRead), none, PublicAccessBlock{}, Allowed},
		"5 session limits the identity":     {limited(session(mayRead), other), none, PublicAccessBlock{}, ImplicitDeny},
		"5 session alone":                   {limited(session(), mayRead), none, PublicAccessBlock{}, ImplicitDeny},
		"5 session limits the role":         {limited(session(), other), allowing(aws(role)), PublicAccessBlock{}, ImplicitDeny},
		"5 session limits everyone":         {limited(session(), other), all, PublicAccessBlock{}, ImplicitDeny},
		"5 session within the role":         {limited(session(), mayRead), allowing(aws(role)), PublicAccessBlock{}, Allowed},
		"5 the session is named":            {limited(session(), other), allowing(aws(role)) + "," + allowing(aws(today)), PublicAccessBlock{}, Allowed},
		"5 one of several session policies": {limited(session(mayRead), other, mayRead), none, PublicAccessBlock{}, Allowed},
		"5 session limits the root":         {limited(root(owner), other), none, PublicAccessBlock{}, ImplicitDeny},
		"5 session across accounts":         {limited(user(stranger, mayRead), other), allowing(aws(stranger)), PublicAccessBlock{}, ImplicitDeny},
		"6 nothing":                         {user(owner), none, PublicAccessBlock{}, ImplicitDeny},
		"6 no caller":                       {nil, all, PublicAccessBlock{}, ImplicitDeny},
		"6 no principal":                    {&Caller{}, all, PublicAccessBlock{}, ImplicitDeny},
	} {
		q := get(c.caller)
		q.Block = c.block
		if c.bucket != "" {
			q.Bucket = ofBucket(t, c.bucket)
		}
		require.Equal(t, c.want, Decide(q).Decision, name)
	}
}

// TestRootIsNotLockedOut: a bucket policy that denies everything leaves the root three actions, on its own bucket.
func TestRootIsNotLockedOut(t *testing.T) {
	const whole = `["arn:aws:s3:::b", "arn:aws:s3:::b/*"]`
	everything := ofBucket(t,
		statement("Deny", "Principal", everyone, "Action", `"s3:*"`, "Resource", whole),
		statement("Allow", "Principal", everyone, "Action", `"s3:*"`, "Resource", whole))
	for _, a := range table().actions {
		if !s3Kinds.has(a.kind) {
			continue
		}
		kept := a.name == "s3:GetBucketPolicy" || a.name == "s3:PutBucketPolicy" || a.name == "s3:DeleteBucketPolicy"
		for _, c := range []*Caller{root(owner), root(stranger), user(owner, BuiltIn("admin"))} {
			q := with(get(c), everything)
			q.Action = a.name
			want := ExplicitDeny
			if kept && c.Principal.ARN == auth.RootARN(owner) {
				want = Allowed
			}
			require.Equal(t, want, Decide(q).Decision, "%s by %s", a.name, c.Principal.ARN)
		}
	}
	q := get(root(owner))
	q.Action = "s3:PutBucketPolicy"
	q.Caller.Identity = []*Policy{ofIdentity(t, statement("Deny", "Action", `"*"`, "Resource", `"*"`))}
	require.Equal(t, ExplicitDeny, Decide(q).Decision, "only denials of the bucket policy are ignored")
}

// TestCreators: an application key is allowed what its own policies and its creator are allowed.
func TestCreators(t *testing.T) {
	mayRead := ofIdentity(t, statement("Allow", "Action", read, "Resource", objects))
	mayNot := ofIdentity(t, statement("Deny", "Action", read, "Resource", objects))
	admin := BuiltIn("admin")
	decide := func(c *Caller, bucket ...string) Decision {
		q := get(c)
		if len(bucket) > 0 {
			q.Bucket = ofBucket(t, bucket...)
		}
		return Decide(q).Decision
	}
	require.Equal(t, Allowed, decide(key(user(owner, mayRead), admin)))
	require.Equal(t, ImplicitDeny, decide(key(user(owner), admin)), "the creator may not")
	require.Equal(t, ImplicitDeny, decide(key(user(owner, admin))), "the key may not")
	require.Equal(t, ExplicitDeny, decide(key(user(owner, mayNot), admin)))
	require.Equal(t, ExplicitDeny, decide(key(user(owner, mayNot))), "an explicit denial has priority")
	require.Equal(t, Allowed, decide(key(key(root(owner), mayRead), admin)))
	require.Equal(t, ImplicitDeny, decide(key(key(root(owner)), admin)), "the creator of the creator")
	require.Equal(t, ImplicitDeny, decide(key(key(user(owner), admin), admin)))

	ofKey := allowing(aws("arn:aws:iam::" + owner + ":key/backup"))
	require.Equal(t, ImplicitDeny, decide(key(user(owner)), ofKey), "the bucket policy names the key, not its creator")
	require.Equal(t, Allowed, decide(key(root(owner)), ofKey))
	require.Equal(t, ExplicitDeny, decide(key(user(owner, admin), admin),
		denying(aws("arn:aws:iam::"+owner+":user/staff/alice"))), "a denial for the creator binds the key")
	require.Equal(t, ExplicitDeny, decide(key(root(owner), admin), denying(everyone)))

	cycle := key(nil, admin)
	cycle.Creator = cycle
	require.Equal(t, ImplicitDeny, decide(cycle))
	require.Equal(t, ImplicitDeny, decide(key(&Caller{}, admin)))

	blamed := user(owner)
	q := get(key(blamed, admin))
	require.Same(t, blamed, Decide(q).Caller)
	q.Caller.Creator = root(owner)
	require.Same(t, q.Caller, Decide(q).Caller)
	require.Equal(t, "Everything", Decide(q).Identity.Sid, "the reason is that of the key")
}

// TestNotPrincipal tests whom NotPrincipal exempts.
func TestNotPrincipal(t *testing.T) {
	alice, account := "arn:aws:iam::"+owner+":user/staff/alice", auth.RootARN(owner)
	role, today := "arn:aws:iam::"+owner+":role/reader", "arn:aws:sts::"+owner+":assumed-role/reader/today"
	for name, c := range map[string]struct {
		effect, principal string
		caller            *Caller
		applies           bool
	}{
		"Deny, named":                   {"Deny", aws(alice), user(owner), false},
		"Deny, with the account":        {"Deny", `{"AWS": ["` + alice + `", "` + account + `"]}`, user(owner), false},
		"Deny, the account only":        {"Deny", aws(account), user(owner), true},
		"Deny, the account of the root": {"Deny", aws(account), root(owner), false},
		"Deny, role":                    {"Deny", aws(role), session(), false},
		"Deny, session":                 {"Deny", aws(today), session(), false},
		"Deny, another":                 {"Deny", aws(alice), session(), true},
		"Deny, anonymous":               {"Deny", aws(alice), nobody, true},
		"Deny, everyone":                {"Deny", everyone, nobody, false},
		"Allow, named":                  {"Allow", aws(alice), user(owner), false},
		"Allow, the account":            {"Allow", aws(owner), user(owner), false},
		"Allow, another":                {"Allow", aws(alice), session(), true},
		"Allow, anonymous":              {"Allow", aws(alice), nobody, true},
	} {
		p := ofBucket(t, statement(c.effect, "NotPrincipal", c.principal, "Action", read, "Resource", objects))
		want := ImplicitDeny
		if c.applies {
			want = map[string]Decision{"Allow": Allowed, "Deny": ExplicitDeny}[c.effect]
		} else if isRoot(c.caller.Principal) {
			want = Allowed
		}
		require.Equal(t, want, Decide(with(get(c.caller), p)).Decision, name)
	}
}

// TestCanonicalUser: a canonical ID names an account.
func TestCanonicalUser(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	p := ofBucket(t, allowing(`{"CanonicalUser": "`+id+`"}`))
	c := root(stranger)
	require.Equal(t, ImplicitDeny, Decide(with(get(c), p)).Decision)
	c.Canonical = id
	require.Equal(t, Allowed, Decide(with(get(c), p)).Decision)
	require.Equal(t, ImplicitDeny, Decide(with(get(nobody), p)).Decision)
	u := user(owner)
	u.Canonical = id
	require.Equal(t, ImplicitDeny, Decide(with(get(u), p)).Decision, "the account, not the user")
	for _, never := range []string{`{"Federated": "accounts.example.com"}`, `{"Service": "logging.s3.amazonaws.com"}`} {
		require.Equal(t, ImplicitDeny, Decide(with(get(u), ofBucket(t, allowing(never)))).Decision)
	}
}

// TestResult tests the reasons of decisions.
func TestResult(t *testing.T) {
	identity := ofIdentity(t,
		statement("Allow", "Sid", `"Put"`, "Action", `"s3:PutObject"`, "Resource", objects),
		statement("Allow", "Sid", `"Get"`, "Action", read, "Resource", objects))
	limit := ofIdentity(t, statement("Allow", "Sid", `"Limit"`, "Action", read, "Resource", objects))
	bucket := ofBucket(t, allowing(everyone), statement("Deny", "Sid", `"Secret"`, "Principal", everyone,
		"Action", read, "Resource", `"arn:aws:s3:::b/secret"`))
	q := with(get(user(owner, identity)), bucket)
	q.Caller.Session = []*Policy{limit}
	r := Decide(q)
	require.Equal(t, "allow", r.Decision.String())
	var names []string
	for _, s := range r.Statements() {
		names = append(names, s.String())
	}
	require.Equal(t, []string{"statement 2 (Get) of identity", "statement 1 of bucket", "statement 1 (Limit) of identity"}, names)
	q.Resource.Key = "secret"
	r = Decide(q)
	require.Equal(t, "explicitDeny", r.Decision.String())
	require.Equal(t, []*Statement{bucket.statements[1]}, r.Statements())
	require.Same(t, q.Caller, r.Caller)
	q.Action = "s3:DeleteObject"
	r = Decide(q)
	require.Equal(t, "implicitDeny", r.Decision.String())
	require.Empty(t, r.Statements())
	require.Equal(t, "bucket", bucket.Name())

	bucket = ofBucket(t, allowing(aws(stranger)), allowing(everyone), allowing(everyone))
	require.Same(t, bucket.statements[1], Decide(with(get(nobody), bucket)).Bucket, "the first one that names the caller")
	bucket = ofBucket(t, allowing(aws(stranger)))
	require.Empty(t, Decide(with(get(root(owner)), bucket)).Statements(), "a statement for others is no reason")
	require.Empty(t, Decide(get(root(owner))).Statements())
}

// TestIncompleteRequests: a request without what its action needs is denied, even for the root.
func TestIncompleteRequests(t *testing.T) {
	admin := BuiltIn("admin")
	for _, c := range []*Caller{root(owner), user(owner, admin)} {
		for name, change := range map[string]func(q *Request){
			"no action":         func(q *Request) { q.Action = "" },
			"unknown action":    func(q *Request) { q.Action = "s3:Nothing" },
			"case of an action": func(q *Request) { q.Action = "s3:getobject" },
			"no key":            func(q *Request) { q.Resource.Key = "" },
			"no bucket":         func(q *Request) { q.Resource.Bucket = "" },
			"no bucket, bucket": func(q *Request) { q.Action, q.Resource.Bucket = "s3:ListBucket", "" },
			"no owner":          func(q *Request) { q.Resource.Account = "" },
			"no ARN":            func(q *Request) { q.Action = "iam:GetUser" },
		} {
			q := get(c)
			change(q)
			require.Equal(t, ImplicitDeny, Decide(q).Decision, name)
		}
	}
	q := get(nobody)
	q.Resource.Account = ""
	require.Equal(t, ImplicitDeny, Decide(q).Decision)
	q.Bucket, q.Block.RestrictPublicBuckets = ofBucket(t, allowing(everyone)), true
	require.Equal(t, ImplicitDeny, Decide(q).Decision, "anonymous callers do not own what nobody owns")
	for arn, is := range map[string]bool{
		auth.RootARN(owner): true, auth.RootARN(stranger): false, "arn:aws:iam::" + owner + ":user/root": false,
		"": false, ":root": false, owner + ":root": false,
	} {
		require.Equal(t, is, isRoot(&auth.Principal{Account: owner, ARN: arn}), arn)
	}
	require.False(t, isRoot(&auth.Principal{ARN: auth.RootARN("")}))
}

// TestOtherServices: actions of IAM have ARNs, those of ORCAS and STS may have none.
func TestOtherServices(t *testing.T) {
	p := ofIdentity(t,
		statement("Allow", "Action", `["iam:*AccessKey*"]`, "Resource", `"arn:aws:iam::*:user/staff/${aws:username}"`),
		statement("Allow", "Action", `"orcas:Get*"`, "Resource", `"*"`),
		statement("Allow", "Action", `"s3:ListAllMyBuckets"`, "Resource", `"arn:aws:s3:::*"`))
	alice := user(owner, p)
	for _, c := range []struct {
		action auth.Action
		arn    string
		want   Decision
	}{
		{"iam:CreateAccessKey", "arn:aws:iam::" + owner + ":user/staff/alice", Allowed},
		{"iam:CreateAccessKey", "arn:aws:iam::" + owner + ":user/staff/bob", ImplicitDeny},
		{"iam:PutUserPolicy", "arn:aws:iam::" + owner + ":user/staff/alice", ImplicitDeny},
		{"orcas:GetScrub", "", Allowed},
		{"orcas:StartScrub", "", ImplicitDeny},
		{"s3:ListAllMyBuckets", "", Allowed},
		{"sts:GetCallerIdentity", "", ImplicitDeny},
	} {
		q := &Request{Caller: alice, Action: c.action, ARN: c.arn, Resource: auth.Resource{Account: owner}}
		require.Equal(t, c.want, Decide(q).Decision, "%s %s", c.action, c.arn)
		q.Caller = root(owner)
		require.Equal(t, Allowed, Decide(q).Decision)
		q.Caller = root(stranger)
		require.Equal(t, ImplicitDeny, Decide(q).Decision)
	}
}

// TestCallerKeys tests the condition keys that follow from the caller. Facts of the request cannot replace them.
func TestCallerKeys(t *testing.T) {
	issued := time.Date(2026, 11, 22, 18, 0, 0, 0, time.FixedZone("", 3600))
	tagged := user(owner)
	tagged.Principal.Tags = map[string]string{"Team": "red", "TEAM": "blue", "empty": ""}
	temporary := session()
	temporary.ID, temporary.Issued = "AROAREADER:today", issued
	other := &Caller{Principal: &auth.Principal{Account: owner, ARN: "arn:aws:sts::" + owner + ":user/eve"}}
	userWithRole := user(owner)
	userWithRole.Role = "arn:aws:iam::" + owner + ":role/reader"
	for _, c := range []struct {
		caller *Caller
		key    string
		want   string // "-" if the key is absent
	}{
		{user(owner), "aws:username", "alice"}, {root(owner), "aws:username", "-"}, {session(), "aws:username", "-"},
		{key(nil), "aws:username", "-"}, {nobody, "aws:username", "-"}, {other, "aws:username", "-"},
		{userWithRole, "aws:username", "-"},
		{user(owner), "aws:userid", "AIDAALICE"}, {root(owner), "aws:userid", owner}, {nobody, "aws:userid", "anonymous"},
		{key(nil), "aws:userid", "-"}, {temporary, "aws:userid", "AROAREADER:today"},
		{user(owner), "aws:PrincipalArn", "arn:aws:iam::" + owner + ":user/staff/alice"}, {nobody, "aws:PrincipalArn", "-"},
		{session(), "aws:PrincipalArn", "arn:aws:iam::" + owner + ":role/reader"},
		{root(owner), "aws:PrincipalArn", auth.RootARN(owner)},
		{user(stranger), "aws:PrincipalAccount", stranger}, {nobody, "aws:PrincipalAccount", "-"},
		{user(owner), "aws:PrincipalType", "User"}, {root(owner), "aws:PrincipalType", "Account"},
		{session(), "aws:PrincipalType", "AssumedRole"}, {nobody, "aws:PrincipalType", "Anonymous"},
		{key(nil), "aws:PrincipalType", "User"},
		{tagged, "aws:PrincipalTag/Team", "red"}, {tagged, "aws:PrincipalTag/team", "blue"},
		{tagged, "aws:PrincipalTag/empty", ""}, {tagged, "aws:PrincipalTag/none", "-"},
		{temporary, "aws:TokenIssueTime", "2026-11-22T17:00:00Z"}, {session(), "aws:TokenIssueTime", "-"},
		{nobody, "aws:ResourceAccount", owner}, {user(stranger), "s3:ResourceAccount", owner},
		{nobody, "aws:PrincipalIsAWSService", "false"}, {nobody, "aws:ViaAWSService", "false"},
	} {
		k, ok := keyNamed(c.key)
		require.True(t, ok)
		q := get(c.caller)
		q.Facts = facts{c.key: "forged", k.full: "forged"}
		e := &evaluation{q: q, caller: c.caller, action: table().byName[q.Action]}
		got := e.lookup(&k)
		if c.want == "-" {
			require.Equal(t, absent, got.state, "%s of %s", c.key, c.caller.Principal.ARN)
		} else {
			require.Equal(t, values{state: present, one: c.want}, got, "%s of %s", c.key, c.caller.Principal.ARN)
		}
	}
	q := get(nobody)
	q.Resource.Account = ""
	k, _ := keyNamed("s3:ResourceAccount")
	require.Equal(t, values{}, (&evaluation{q: q, caller: nobody, action: table().byName[q.Action]}).lookup(&k))
}

// TestKeysOfOtherActions: a key that does not apply to the action is absent, whatever the request contains.
func TestKeysOfOtherActions(t *testing.T) {
	p := ofIdentity(t, statement("Allow", "Action", `"s3:*"`, "Resource", `"*"`,
		"Condition", `{"StringLike": {"s3:prefix": "home/*"}}`))
	q := get(user(owner, p))
	q.Facts = facts{"s3:prefix": "home/"}
	require.Equal(t, ImplicitDeny, Decide(q).Decision)
	q.Action = "s3:ListBucket"
	require.Equal(t, Allowed, Decide(q).Decision)
	q.Facts = nil
	require.Equal(t, ImplicitDeny, Decide(q).Decision)
}
