package s3_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/access"
	"orcas/auth/identity"
	"orcas/gate"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/s3/sigv2"
	"orcas/storetest"
)

// identitiesOf is a directory of the account, with the user alice, who may assume the role "reader".
type identitiesOf struct {
	*identity.Directory
	t     *testing.T
	late  atomic.Int64 // offset of the clock, in nanoseconds
	alice identity.Secret
}

func newIdentities(t *testing.T) *identitiesOf {
	d := &identitiesOf{t: t}
	store := storetest.Open(t, storetest.Options{Bare: true})
	var err error
	d.Directory, err = identity.Open(t.Context(), identity.Options{
		Meta: store.Meta, Writer: store.Writer, Account: account, Key: make([]byte, identity.KeySize), Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(time.Duration(d.late.Load())) },
	})
	require.NoError(t, err)
	_, err = d.Create(t.Context(), identity.User, account, "alice")
	require.NoError(t, err)
	_, d.alice, err = d.CreateAccessKey(t.Context(), account, "alice", 0)
	require.NoError(t, err)
	d.createRole("reader")
	return d
}

// createRole creates a role with the policy readonly, which alice may assume.
func (d *identitiesOf) createRole(name string) {
	trust := `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::` + account + `:user/alice"},
		"Action": "sts:AssumeRole"}}`
	_, err := d.CreateRole(d.t.Context(), account, name, identity.RoleChange{Trust: &trust})
	require.NoError(d.t, err)
	_, err = d.Attach(d.t.Context(), identity.Role, account, name, "readonly", true)
	require.NoError(d.t, err)
}

// begin begins a session of a role.
func (d *identitiesOf) begin(role string, in identity.AssumeRole) *identity.Session {
	c, err := d.Lookup(d.t.Context(), d.alice.AccessKey, "")
	require.NoError(d.t, err)
	in.Role, in.Session = "arn:aws:iam::"+account+":role/"+role, "today"
	s, err := d.AssumeRole(d.t.Context(), c.Principal, in)
	require.NoError(d.t, err)
	return s
}

// lookups returns a setup in which access keys are those of the tests and of the directory.
func (d *identitiesOf) lookups() setup {
	return setup{options: func(o *s3.Options) {
		others := o.Lookup
		o.Lookup = func(ctx context.Context, key, token string) (gate.Credential, error) {
			if holders[key].SecretKey != "" {
				return others(ctx, key, token)
			}
			return d.Lookup(ctx, key, token)
		}
		o.Authorizer = access.New(d.Caller)
	}}
}

// Temporary credentials pass the same gate as others, on every route and in every place of a signature. An access key
// without its token, with that of another key, with an expired one, or of a deleted role is refused before anything is
// authorized. So is a permanent access key with a token.
func TestEveryRouteWithTemporaryCredentials(t *testing.T) {
	d, j := newIdentities(t), &judge{}
	d.createRole("former")
	w := newWorld(t, d.lookups(), judged(j), acceptV2(sigv2.All))
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	w.put("/bucket/source", "source")
	j.reset()
	j.refuse = func(int, authCall) error { return auth.ErrDenied }
	soon := time.Now().Add(10 * time.Minute)

	former, other := d.begin("former", identity.AssumeRole{}), d.begin("reader", identity.AssumeRole{})
	require.NoError(t, d.DeleteRole(t.Context(), account, "former"))
	d.late.Store(-int64(time.Hour))
	expired := d.begin("reader", identity.AssumeRole{Duration: 15 * time.Minute})
	d.late.Store(0)
	s := d.begin("reader", identity.AssumeRole{})

	places := map[string]func(r *http.Request, key, secret, token string) *http.Request{
		"header": func(r *http.Request, key, secret, token string) *http.Request {
			(&sigv4.Signer{AccessKey: key, SecretKey: secret, Region: "us-east-1", SecurityToken: token}).Sign(r, sigv4.EmptySHA256, time.Now())
			return r
		},
		"query": func(r *http.Request, key, secret, token string) *http.Request {
			(&sigv4.Signer{AccessKey: key, SecretKey: secret, Region: "us-east-1", SecurityToken: token}).Presign(r, time.Minute, time.Now())
			return r
		},
		"header, version 2": func(r *http.Request, key, secret, token string) *http.Request {
			if token != "" {
				r.Header.Set("X-Amz-Security-Token", token)
			}
			return signV2(r, key, secret, time.Now())
		},
		"query, version 2": func(r *http.Request, key, secret, token string) *http.Request {
			if token != "" {
				r.Header.Set("X-Amz-Security-Token", token)
			}
			return presignV2(r, key, secret, soon)
		},
	}
	changed := s.Token[:60] + "x" + s.Token[61:]
	if changed == s.Token {
		changed = s.Token[:60] + "y" + s.Token[61:]
	}
	for _, route := range s3.Routes() {
		path, headers := target(route)
		w.do(route.Method, path, nil, headers...)
		want := j.reset()
		require.NotEmpty(t, want, route.Name)
		for place, sign := range places {
			what := fmt.Sprintf("%s, %s", route.Name, place)
			send := func(key, secret, token string) int {
				return w.send(sign(w.request(route.Method, path, nil, headers...), key, secret, token)).status
			}
			require.Equal(t, 403, send(s.AccessKey, s.SecretKey, s.Token), what)
			require.Equal(t, want, j.reset(), what)
			for name, c := range map[string]struct {
				key, secret, token string
				status             int
			}{
				"without the token":      {s.AccessKey, s.SecretKey, "", 403},
				"another's token":        {s.AccessKey, s.SecretKey, other.Token, 400},
				"another's secret":       {s.AccessKey, other.SecretKey, s.Token, 403},
				"another's access key":   {other.AccessKey, s.SecretKey, s.Token, 400},
				"a wrong secret":         {s.AccessKey, "wrong", s.Token, 403},
				"a changed token":        {s.AccessKey, s.SecretKey, changed, 400},
				"an expired token":       {expired.AccessKey, expired.SecretKey, expired.Token, 400},
				"a deleted role":         {former.AccessKey, former.SecretKey, former.Token, 403},
				"the user with a token":  {d.alice.AccessKey, d.alice.SecretKey, s.Token, 400},
				"the root with a token":  {accessKey, secretKey, s.Token, 400},
				"nobody with a token":    {"AKIANOBODY", secretKey, s.Token, 403},
				"a temporary key alone":  {"ASIANOBODY", secretKey, "", 403},
				"no access key":          {"ASIA", "", "x", 400},
				"the token as a secret":  {s.AccessKey, s.Token, s.Token, 403},
				"the token as access":    {s.Token, s.SecretKey, s.Token, 403},
				"expired, without token": {expired.AccessKey, expired.SecretKey, "", 403},
			} {
				require.Equal(t, c.status, send(c.key, c.secret, c.token), "%s: %s", what, name)
				require.Empty(t, j.reset(), "%s: %s", what, name)
			}
		}
	}
}

// The codes of errors about tokens are those of S3, and no error repeats a token.
func TestErrorsOfTokens(t *testing.T) {
	d := newIdentities(t)
	w := newWorld(t, d.lookups())
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	d.late.Store(-2 * int64(time.Hour))
	expired := d.begin("reader", identity.AssumeRole{})
	d.late.Store(0)
	s := d.begin("reader", identity.AssumeRole{})
	get := func(key, secret, token string) *response {
		r := w.request("GET", "/bucket/key", nil)
		(&sigv4.Signer{AccessKey: key, SecretKey: secret, Region: "us-east-1", SecurityToken: token}).Sign(r, sigv4.EmptySHA256, time.Now())
		a := w.send(r)
		for _, secret := range []string{s.Token, s.SecretKey, expired.Token} {
			require.NotContains(t, string(a.body), secret)
		}
		return a
	}
	get(s.AccessKey, s.SecretKey, s.Token).is(200, "")
	get(s.AccessKey, s.SecretKey, "").is(403, "InvalidAccessKeyId")
	get(s.AccessKey, s.SecretKey, "x").is(400, "InvalidToken")
	get(s.AccessKey, "wrong", s.Token).is(403, "SignatureDoesNotMatch")
	get(expired.AccessKey, expired.SecretKey, expired.Token).is(400, "ExpiredToken")
	get(accessKey, secretKey, s.Token).is(400, "InvalidToken")

	// A presigned URL contains the token. It is signed: another one is refused, and so is one in a header besides.
	presigned := func() *http.Request {
		r := w.request("GET", "/bucket/key", nil)
		(&sigv4.Signer{AccessKey: s.AccessKey, SecretKey: s.SecretKey, Region: "us-east-1", SecurityToken: s.Token}).Presign(r, time.Minute, time.Now())
		return r
	}
	w.send(presigned()).is(200, "")
	r := presigned()
	r.URL.RawQuery = strings.Replace(r.URL.RawQuery, s.Token, d.begin("reader", identity.AssumeRole{}).Token, 1)
	w.send(r).is(400, "InvalidToken")
	r = presigned()
	r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "X-Amz-Security-Token="+s.Token+"&", "", 1)
	require.NotContains(t, r.URL.RawQuery, "Token")
	w.send(r).is(403, "InvalidAccessKeyId")
	r = presigned()
	r.Header.Set("X-Amz-Security-Token", s.Token)
	w.send(r).is(403, "AccessDenied")
	r = presigned()
	r.Header.Set("X-Amz-Security-Token", "other")
	w.send(r).is(400, "InvalidArgument")
	r = presigned()
	r.URL.RawQuery += "&X-Amz-Security-Token=" + s.Token
	w.send(r).is(400, "AuthorizationQueryParametersError")

	// So does a form, in a field that its policy covers.
	f := newForm("content", "x-amz-security-token", s.Token)
	f.key, f.secret = s.AccessKey, s.SecretKey
	f.send(w).is(403, "AccessDenied") // the role may only read
	_, err := d.Attach(t.Context(), identity.Role, account, "reader", "readwrite", true)
	require.NoError(t, err)
	f.send(w).is(204, "")
	f.fields[3] = expired.Token
	f.send(w).is(400, "InvalidToken")
	f.fields = f.fields[:2]
	f.send(w).is(403, "InvalidAccessKeyId")
}

// Sessions appear in bucket policies and conditions as themselves and as their role.
func TestSessionsInBucketPolicies(t *testing.T) {
	d := newIdentities(t)
	d.createRole("none")
	_, err := d.Attach(t.Context(), identity.Role, account, "none", "readonly", false)
	require.NoError(t, err)
	w := newWorld(t, d.lookups(), setup{options: func(o *s3.Options) { o.Principals = d }})
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	other := `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}}`
	free, limited := d.begin("none", identity.AssumeRole{}), d.begin("none", identity.AssumeRole{Policy: other})
	role, err := d.Get(identity.Role, account, "none")
	require.NoError(t, err)
	get := func(s *identity.Session) int {
		r := w.request("GET", "/bucket/key", nil)
		(&sigv4.Signer{AccessKey: s.AccessKey, SecretKey: s.SecretKey, Region: "us-east-1", SecurityToken: s.Token}).Sign(r, sigv4.EmptySHA256, time.Now())
		return w.send(r).status
	}
	issued := free.Expires.Add(-time.Hour)
	const roleARN, sessionARN = "arn:aws:iam::" + account + ":role/none", "arn:aws:sts::" + account + ":assumed-role/none/today"
	for _, c := range []struct {
		effect, principal, condition string
		free, limited                int
	}{
		{"Allow", roleARN, "", 200, 403},    // the session policy limits what the bucket policy gives to the role,
		{"Allow", sessionARN, "", 200, 200}, // but not what it gives to the session
		{"Allow", sessionARN + "s", "", 403, 403},
		{"Allow", account, "", 403, 403},
		{"Allow", roleARN, `"StringEquals": {"aws:userid": "` + role.ID + `:today"}`, 200, 403},
		{"Allow", roleARN, `"StringEquals": {"aws:userid": "` + role.ID + `:other"}`, 403, 403},
		{"Allow", roleARN, `"ArnEquals": {"aws:PrincipalArn": "` + roleARN + `"}`, 200, 403},
		{"Allow", roleARN, `"ArnEquals": {"aws:PrincipalArn": "` + sessionARN + `"}`, 403, 403},
		{"Allow", roleARN, `"StringEquals": {"aws:PrincipalType": "AssumedRole"}`, 200, 403},
		{"Allow", roleARN, `"StringLike": {"aws:username": "*"}`, 403, 403},
		{"Allow", roleARN, `"DateLessThan": {"aws:TokenIssueTime": "` + issued.Add(time.Minute).Format(time.RFC3339) + `"}`, 200, 403},
		{"Allow", roleARN, `"DateLessThan": {"aws:TokenIssueTime": "` + issued.Add(-time.Minute).Format(time.RFC3339) + `"}`, 403, 403},
	} {
		statement := fmt.Sprintf(`{"Effect": %q, "Principal": {"AWS": %q}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*", "Condition": {%s}}`,
			c.effect, c.principal, c.condition)
		w.do("PUT", "/bucket?policy", []byte(`{"Version": "2012-10-17", "Statement": [`+statement+`]}`)).is(204, "")
		require.Equal(t, c.free, get(free), statement)
		require.Equal(t, c.limited, get(limited), statement)
	}
}
