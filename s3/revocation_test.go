package s3_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/access"
	"orcas/auth/identity"
	"orcas/auth/policy"
	"orcas/core"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/s3/bucketaccess"
)

// announcing is an Authorizer that announces the first decision that allows an action.
type announcing struct {
	auth.Authorizer
	action  auth.Action
	allowed chan struct{}
}

func (a *announcing) Authorize(ctx context.Context, p *auth.Principal, action auth.Action, r auth.Resource, f auth.Facts) error {
	err := a.Authorizer.Authorize(ctx, p, action, r, f)
	if err == nil && action == a.action && a.allowed != nil {
		close(a.allowed)
		a.allowed = nil
	}
	return err
}

// slow is a world with the user alice, in which something can happen while the body of a request arrives.
type slow struct {
	*world
	users  *identitiesOf
	gate   *announcing
	upload string // the ID of an upload of the key "parts"
}

func newSlow(t *testing.T, setups ...setup) *slow {
	d := newIdentities(t)
	v := &slow{users: d, gate: &announcing{Authorizer: access.New(d.Caller)}}
	setups = append([]setup{d.lookups(), {options: func(o *s3.Options) { o.Authorizer = v.gate }}}, setups...)
	v.world = newWorld(t, setups...)
	v.bucket("bucket")
	require.NoError(t, v.do("PUT", "/bucket?publicAccessBlock", []byte(open)).err(200))
	v.put("/bucket/log", "content")
	v.allow("s3:*")
	v.upload = uploadOf(v.world, "parts")
	return v
}

// open is a public access block with all settings off.
const open = `<PublicAccessBlockConfiguration><BlockPublicPolicy>false</BlockPublicPolicy></PublicAccessBlockConfiguration>`

// err returns an error if the status is not the expected one.
func (a *response) err(status int) error {
	if a.status != status {
		return fmt.Errorf("expected the status %d, found %d: %s", status, a.status, a.body)
	}
	return nil
}

func uploadOf(w *world, key string) string {
	var result struct{ UploadId string } //nolint:revive // the name of the element
	w.do("POST", "/bucket/"+key+"?uploads", nil).is(200, "").parse(&result)
	return result.UploadId
}

// allow gives alice a policy.
func (v *slow) allow(action string) { v.policy(allowing(action)) }

func allowing(action string) string {
	return `{"Effect": "Allow", "Action": "` + action + `", "Resource": "*"}`
}

// policy gives alice a policy with these statements.
func (v *slow) policy(statements ...string) {
	document := `{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ", ") + `]}`
	_, err := v.users.PutInlinePolicy(v.t.Context(), identity.User, account, "alice", "own", document)
	require.NoError(v.t, err)
}

// bucketPolicy sets the policy of the bucket, as the root.
func (v *slow) bucketPolicy(effect, principal string) {
	v.do("PUT", "/bucket?policy", []byte(`{"Version": "2012-10-17", "Statement": {"Effect": "`+effect+`", "Principal": `+principal+`,
		"Action": "s3:*", "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]}}`)).is(204, "")
}

// signing signs requests.
type signing struct {
	key, secret, token string
}

// request is a request whose body arrives slowly, and the action that it needs.
type slowRequest struct {
	method, path string
	action       auth.Action
	body         []byte
	headers      []string
	form         bool
}

func (v *slow) requests() map[string]slowRequest {
	policy := []byte(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": "` + account + `"},
		"Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}}`)
	const put = auth.Action("s3:PutObject")
	return map[string]slowRequest{
		"small put": {"PUT", "/bucket/key", put, random(1, 5000), nil, false},
		"large put": {"PUT", "/bucket/key", put, random(1, 300_000), nil, false},
		"append":    {"PUT", "/bucket/log", put, random(1, 300_000), []string{"X-Amz-Write-Offset-Bytes", "7"}, false},
		"part":      {"PUT", "/bucket/parts?partNumber=1&uploadId=" + v.upload, put, random(1, 300_000), nil, false},
		"form":      {"POST", "/bucket", put, random(1, 300_000), nil, true},
		"document":  {"PUT", "/bucket?policy", "s3:PutBucketPolicy", policy, nil, false},
		"deletion": {"POST", "/bucket?delete", "s3:DeleteObject",
			[]byte(`<Delete><Object><Key>log</Key></Object></Delete>`), nil, false},
		"tags": {"PUT", "/bucket/log?tagging", "s3:PutObjectTagging",
			[]byte(`<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>`), nil, false},
	}
}

// send sends the first half of a request, lets something happen when the request has been authorized, and sends the rest.
func (v *slow) during(r slowRequest, by signing, happens func()) *response {
	t := v.t
	t.Helper()
	body, headers := r.body, r.headers
	if r.form {
		f := newForm(string(r.body))
		f.key, f.secret = by.key, by.secret
		f.unsigned = by.key == ""
		if by.token != "" {
			f.fields = append(f.fields, "x-amz-security-token", by.token)
		}
		body, headers = f.body(f.all()), append(headers, "Content-Type", "multipart/form-data; boundary=B")
	} else if strings.Contains(r.path, "delete") {
		headers = append(headers, "X-Amz-Checksum-Sha256", base64SHA256(body))
	}
	allowed := make(chan struct{})
	v.gate.action, v.gate.allowed = r.action, allowed
	conn := v.head(r.method, r.path, body, by, r.form, headers)
	_, err := conn.Write(body[:len(body)/2])
	require.NoError(t, err)
	select {
	case <-allowed:
	case <-time.After(time.Minute):
		t.Fatal("the request was not allowed at first")
	}
	happens()
	_, err = conn.Write(body[len(body)/2:])
	require.NoError(t, err)
	a, _ := v.readResponse(conn)
	return a
}

// head sends the head of a request.
func (v *slow) head(method, path string, body []byte, by signing, form bool, headers []string) net.Conn {
	t := v.t
	r := v.request(method, path, nil, headers...)
	r.ContentLength = int64(len(body))
	if by.key != "" && !form {
		s := &sigv4.Signer{AccessKey: by.key, SecretKey: by.secret, SecurityToken: by.token, Region: "us-east-1"}
		s.Sign(r, hash(body), time.Now())
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", method, path, r.Host, len(body))
	require.NoError(t, err)
	require.NoError(t, r.Header.Write(conn))
	_, err = conn.Write([]byte("\r\n"))
	require.NoError(t, err)
	return conn
}

// nothing checks that the requests of requests have changed nothing, and that no staged content is left.
func (v *slow) nothing(blocks int) {
	t := v.t
	t.Helper()
	gone(t, v.world, "the object")
	require.Equal(t, "content", v.content("/bucket/log"))
	require.NotContains(t, string(v.do("GET", "/bucket/log?tagging", nil).body), "<Tag>")
	require.NotContains(t, string(v.do("GET", "/bucket/parts?uploadId="+v.upload, nil).is(200, "").body), "<Part>")
	require.NotContains(t, string(v.do("GET", "/bucket?policy", nil).body), "s3:GetObject")
	require.Equal(t, blocks, v.countBlocks())
}

// countBlocks returns the number of blocks with large content.
func (v *slow) countBlocks() (n int) {
	require.NoError(v.t, v.blocks.Walk(v.t.Context(), core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind != core.Packed {
			n++
		}
		return nil
	}))
	return n
}

// A request is authorized again when its body has arrived: whatever takes the right of its sender away in the meantime
// stops it, and it leaves nothing behind.
func TestRevocationWhileABodyArrives(t *testing.T) {
	v := newSlow(t)
	ctx := t.Context()
	alice := signing{key: v.users.alice.AccessKey, secret: v.users.alice.SecretKey}
	principal := `{"AWS": "arn:aws:iam::` + account + `:user/alice"}`
	session := func() signing {
		s := v.users.begin("reader", identity.AssumeRole{Duration: 15 * time.Minute})
		return signing{s.AccessKey, s.SecretKey, s.Token}
	}
	_, err := v.users.Attach(ctx, identity.Role, account, "reader", "admin", true)
	require.NoError(t, err)
	must := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	for _, c := range []struct {
		name    string
		by      func() signing
		happens func(by signing)
		undo    func()
		code    string
	}{
		{"the access key is disabled", nil,
			func(signing) { must(v.users.EnableAccessKey(ctx, account, "alice", alice.key, false)) },
			func() { must(v.users.EnableAccessKey(ctx, account, "alice", alice.key, true)) }, "InvalidAccessKeyId"},
		{"the policy of the user changes", nil,
			func(signing) { v.allow("s3:GetObject") },
			func() { v.allow("s3:*") }, "AccessDenied"},
		{"the policy of the bucket changes", nil,
			func(signing) { v.bucketPolicy("Deny", principal) },
			func() { v.do("DELETE", "/bucket?policy", nil).is(204, "") }, "AccessDenied"},
		{"the session expires", session,
			func(signing) { v.users.late.Store(int64(16 * time.Minute)) },
			func() { v.users.late.Store(0) }, "ExpiredToken"},
		{"the role loses its policy", session,
			func(signing) { must(v.users.Attach(ctx, identity.Role, account, "reader", "admin", false)) },
			func() { must(v.users.Attach(ctx, identity.Role, account, "reader", "admin", true)) }, "AccessDenied"},
		{"an application key expires", func() signing {
			_, s, err := v.users.CreateKey(ctx, v.users.Root(), identity.NewKey{Name: "app", Policy: everything, Expires: time.Hour})
			require.NoError(t, err)
			return signing{key: s.AccessKey, secret: s.SecretKey}
		},
			func(signing) { v.users.late.Store(int64(2 * time.Hour)) },
			func() { v.users.late.Store(0); require.NoError(t, v.users.DeleteKey(ctx, v.users.Root(), "app")) }, "InvalidAccessKeyId"},
		{"the access key is deleted", func() signing {
			_, s, err := v.users.CreateAccessKey(ctx, account, "alice", 0)
			require.NoError(t, err)
			return signing{key: s.AccessKey, secret: s.SecretKey}
		},
			func(by signing) { must(v.users.DeleteAccessKey(ctx, account, "alice", by.key)) }, nil, "InvalidAccessKeyId"},
		{"the secret of the access key is replaced", func() signing {
			must(v.users.AddAccessKey(ctx, account, "alice", identity.Secret{AccessKey: "GIVENKEY", SecretKey: "the-former-secret-key"}))
			return signing{key: "GIVENKEY", secret: "the-former-secret-key"}
		},
			func(by signing) {
				must(v.users.DeleteAccessKey(ctx, account, "alice", by.key))
				must(v.users.AddAccessKey(ctx, account, "alice", identity.Secret{AccessKey: by.key, SecretKey: "the-present-secret-key"}))
			},
			func() { must(v.users.DeleteAccessKey(ctx, account, "alice", "GIVENKEY")) }, "InvalidAccessKeyId"},
	} {
		for name, r := range v.requests() {
			t.Run(c.name+", "+name, func(t *testing.T) {
				before := v.countBlocks()
				by := alice
				if c.by != nil {
					by = c.by()
				}
				a := v.during(r, by, func() { c.happens(by) })
				if c.undo != nil {
					c.undo()
				}
				a.is(map[bool]int{true: 400, false: 403}[c.code == "ExpiredToken"], c.code)
				v.nothing(before)
			})
		}
	}
}

// everything is a policy that allows everything.
const everything = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`

// An anonymous request is authorized again, too, and so is one of the root.
func TestPolicyChangesWhileABodyArrives(t *testing.T) {
	v := newSlow(t)
	for name, r := range v.requests() {
		if r.action != "s3:PutObject" || name == "append" {
			continue
		}
		before := v.countBlocks()
		v.bucketPolicy("Allow", `"*"`)
		v.during(r, signing{}, func() {
			v.do("DELETE", "/bucket?policy", nil).is(204, "")
		}).is(403, "AccessDenied")
		v.nothing(before)

		v.bucketPolicy("Allow", `"*"`)
		v.during(r, signing{}, func() {
			_, err := v.fs.UpdateBucket(t.Context(), "bucket", func(b *core.BucketInfo) error {
				b.Attrs = core.SetAttr(b.Attrs, bucketaccess.BlockAttr, bucketaccess.EncodeBlock(policy.PublicAccessBlock{RestrictPublicBuckets: true}))
				return nil
			})
			require.NoError(t, err)
		}).is(403, "AccessDenied")
		v.do("DELETE", "/bucket?publicAccessBlock", nil).is(204, "")
		v.nothing(before)

		v.during(r, signing{key: accessKey, secret: secretKey}, func() { v.bucketPolicy("Deny", `"*"`) }).is(403, "AccessDenied")
		v.do("DELETE", "/bucket?policy", nil).is(204, "")
		v.nothing(before)
	}
}

// Changes that leave the sender its rights do not stop a request, and a bucket that was created again is another one.
func TestHarmlessChangesWhileABodyArrives(t *testing.T) {
	v := newSlow(t)
	ctx := t.Context()
	by := signing{key: v.users.alice.AccessKey, secret: v.users.alice.SecretKey}
	for name, r := range v.requests() {
		v.put("/bucket/log", "content")
		status := 200
		if r.form || strings.Contains(r.path, "policy") {
			status = 204
		}
		n := 0
		a := v.during(r, by, func() {
			n++
			v.allow("s3:*")
			_, err := v.users.Create(ctx, identity.User, account, fmt.Sprint("other-", name[:3], n))
			require.NoError(t, err)
			v.bucketPolicy("Allow", `{"AWS": "`+account+`"}`)
		})
		require.Equal(t, status, a.status, "%s: %s", name, a.body)
	}
	put := v.requests()["large put"]
	v.during(put, by, func() {
		for _, key := range []string{"key", "log"} {
			v.do("DELETE", "/bucket/"+key, nil).is(204, "")
		}
		v.do("DELETE", "/bucket/parts?uploadId="+v.upload, nil).is(204, "")
		v.do("DELETE", "/bucket", nil).is(204, "")
		v.bucket("bucket")
	}).is(http.StatusNotFound, "NoSuchBucket")
	gone(t, v.world, "the object")
}

// A condition about the tags of an existing object is about those that it has when the body has arrived, even if no
// policy has changed.
func TestTagsChangeWhileABodyArrives(t *testing.T) {
	v := newSlow(t)
	by := signing{key: v.users.alice.AccessKey, secret: v.users.alice.SecretKey}
	tag := func(value string) func() {
		return func() {
			v.do("PUT", "/bucket/log?tagging", []byte(`<Tagging><TagSet><Tag><Key>state</Key><Value>`+value+`</Value></Tag></TagSet></Tagging>`)).is(200, "")
		}
	}
	requests := v.requests()
	appends, put := requests["append"], requests["large put"] // they compare the object, so they need the right to read it
	appends.action, put.action = "s3:GetObject", "s3:GetObject"
	put.path, put.headers = "/bucket/log", []string{"If-Match", `"` + v.put("/bucket/log", "content") + `"`}
	for name, r := range map[string]slowRequest{"tags": requests["tags"], "append": appends, "put": put} {
		t.Run(name, func(t *testing.T) {
			v.put("/bucket/log", "content")
			before := v.countBlocks()
			v.policy(allowing("s3:*"), `{"Effect": "Deny", "Action": "`+string(r.action)+`", "Resource": "*",
				"Condition": {"StringEquals": {"s3:ExistingObjectTag/state": "final"}}}`)
			v.during(r, by, tag("final")).is(403, "AccessDenied")
			require.Equal(t, "content", v.content("/bucket/log"))
			require.Contains(t, string(v.do("GET", "/bucket/log?tagging", nil).body), "final")
			require.Equal(t, before, v.countBlocks())
			tag("draft")()
			v.during(r, by, func() {}).is(200, "")
		})
	}
}

// A condition about the present time is about the time when the body has arrived.
func TestTimePassesWhileABodyArrives(t *testing.T) {
	var late atomic.Int64
	v := newSlow(t, setup{options: func(o *s3.Options) { o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) } }})
	by := signing{key: v.users.alice.AccessKey, secret: v.users.alice.SecretKey}
	end := time.Now().Add(time.Hour)
	for _, limit := range []string{
		`"DateLessThan": {"aws:CurrentTime": "` + end.UTC().Format(time.RFC3339) + `"}`,
		`"NumericLessThan": {"aws:EpochTime": "` + fmt.Sprint(end.Unix()) + `"}`,
	} {
		v.policy(`{"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Condition": {` + limit + `}}`)
		for name, r := range v.requests() {
			before := v.countBlocks()
			a := v.during(r, by, func() { late.Store(int64(2 * time.Hour)) })
			late.Store(0)
			require.Equal(t, "AccessDenied", a.code(), "%s: %s", name, a.body)
			v.nothing(before)
		}
		v.during(v.requests()["large put"], by, func() { late.Store(int64(time.Minute)) }).is(200, "")
		late.Store(0)
		v.do("DELETE", "/bucket/key", nil).is(204, "")
	}

	v.do("PUT", "/locked", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	v.policy(allowing("s3:*"), `{"Effect": "Deny", "Action": "s3:PutObjectRetention", "Resource": "*",
		"Condition": {"NumericLessThan": {"s3:object-lock-remaining-retention-days": "10"}}}`)
	locks := v.requests()["large put"]
	locks.path, locks.action = "/locked/key", "s3:PutObjectRetention"
	locks.headers = []string{"X-Amz-Object-Lock-Mode", "GOVERNANCE", "X-Amz-Checksum-Sha256", base64SHA256(locks.body),
		"X-Amz-Object-Lock-Retain-Until-Date", time.Now().AddDate(0, 0, 11).UTC().Format(time.RFC3339)}
	v.during(locks, by, func() { v.late.Store(int64(72 * time.Hour)) }).is(403, "AccessDenied")
	v.late.Store(0)
	v.do("GET", "/locked/key", nil).is(404, "NoSuchKey")
	v.during(locks, by, func() {}).is(200, "")
}

// FindContent shows what a bucket contains only to those who may still read it when the question has arrived.
func TestReadingEndsWhileAQuestionArrives(t *testing.T) {
	v := newSlow(t)
	by := signing{key: v.users.alice.AccessKey, secret: v.users.alice.SecretKey}
	content := random(7, 300_000)
	v.put("/bucket/private", string(content))
	ask := slowRequest{"POST", "/bucket?instant", "s3:GetObjectVersion", []byte("<FindContent>" + full(content) + "</FindContent>"), nil, false}
	require.Equal(t, "present", v.during(ask, by, func() {}).states())
	v.during(ask, by, func() { v.allow("s3:PutObject") }).is(403, "AccessDenied")
}

// The fields of a form must arrive within a time limit. Its file may take longer.
func TestFormTime(t *testing.T) {
	v := newSlow(t, setup{options: func(o *s3.Options) { o.FormTime, o.BodyTimeout, o.MaxInFlight = time.Second, time.Hour, 4 }})
	by := signing{key: v.users.alice.AccessKey, secret: v.users.alice.SecretKey}
	a := v.during(v.requests()["form"], by, func() {
		for range 2 { // the first one no longer counts as a form whose fields are being read
			body := []byte("--B\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk")
			conn := v.head("POST", "/bucket", make([]byte, 60_000), signing{}, true, []string{"Content-Type", "multipart/form-data; boundary=B"})
			_, err := conn.Write(body)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute))) // so that the test fails rather than hangs
			stalled, _ := v.readResponse(conn)
			stalled.is(400, "RequestTimeout")
		}
	})
	require.Equal(t, 204, a.status, "%s", a.body)
	require.Equal(t, string(random(1, 300_000)), v.content("/bucket/key"))
}
