package s3_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/access"
	"orcas/auth/identity"
	"orcas/auth/policy"
	"orcas/gate"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/s3/sigv2"
)

// need is a right that a request needs: an action, and a resource without "arn:aws:s3:::".
type need struct {
	action   auth.Action
	resource string
}

// matrixRow is a request, with exactly the rights that it needs. A caller that lacks any of them is refused.
type matrixRow struct {
	route   string
	path    string // VERSION, GOVERNED, UPLOAD and PART stand for IDs of the world, UNTIL for a time
	body    string
	headers []string
	needs   []need // the first one is for the action of the route
	status  int    // of the response, if the request is allowed

	ofService bool // no bucket policy applies to the request
	ownOnly   bool // other accounts get 405
	inHeader  bool // signatures of the query are refused
	signed    bool // anonymous requests are refused, whatever the policy says
	anyRight  bool // the request needs any right in the bucket
}

const (
	matrixBucket = "bucket"
	key, absent  = matrixBucket + "/key", matrixBucket + "/absent"
)

// needsOf returns the needs of an action on a resource, and more.
func needsOf(a auth.Action, resource string, more ...need) []need {
	return append([]need{{a, resource}}, more...)
}

var listsBucket = need{"s3:ListBucket", matrixBucket}

// documentBodies are the bodies of PUT requests for the documents of a bucket.
var documentBodies = map[string]string{
	"lifecycle":         "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
	"versioning":        "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
	"quota":             "<QuotaConfiguration><MaxObjects>1000</MaxObjects></QuotaConfiguration>",
	"object-lock":       "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>",
	"tagging":           "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>",
	"ownershipControls": "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>",
	"publicAccessBlock": "<PublicAccessBlockConfiguration/>",
	"requestPayment":    "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>",
	"accelerate":        "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>",
	"logging":           "<BucketLoggingStatus/>",
	"notification":      "<NotificationConfiguration/>",
	"cors":              "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>",
	"encryption":        encryptionRule("AES256", ""),
	"policy": `{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteBucket",
		"Resource": "arn:aws:s3:::bucket"}}`,
}

// bucketRows returns a row for each route that only reads or changes something about a bucket, without further rights.
func bucketRows() (rows []matrixRow) {
	for _, r := range s3.Routes() {
		if r.Level != gate.Bucket || r.Target() != gate.Bucket || len(r.Secondary) > 0 || r.AnyAction {
			continue
		}
		body := ""
		if r.Method == http.MethodPut {
			body = documentBodies[r.Sub]
		}
		path := "/bucket"
		if r.Sub == "list-type" {
			path += "?list-type=2"
		} else if r.Sub != "" {
			path += "?" + r.Sub
		}
		row := matrixRow{route: r.Name, path: path, body: body, needs: needsOf(r.Action, matrixBucket)}
		if body != "" {
			row.headers = []string{"Content-Md5", md5Of([]byte(body))}
		}
		if r.Name == "PutBucketAcl" {
			row.headers = []string{"X-Amz-Acl", "private"}
		}
		row.ownOnly = r.Sub == "policy"
		if r.Name == "DeleteBucket" {
			row.status = 409 // it is not empty
		}
		rows = append(rows, row)
	}
	return rows
}

// matrixRows returns the rows. TestMatrixIsComplete compares them with the route table.
func matrixRows() []matrixRow {
	const version, upload = "?versionId=VERSION", "?partNumber=2&uploadId=UPLOAD"
	find := "<FindContent><Content><Size>1</Size><SHA256>" + strings.Repeat("0", 64) + "</SHA256></Content></FindContent>"
	newBucket := "<CreateBucketConfiguration><Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags></CreateBucketConfiguration>"
	deletes := "<Delete><Object><Key>key</Key></Object></Delete>"
	deletesVersion := "<Delete><Object><Key>key</Key><VersionId>VERSION</VersionId></Object></Delete>"
	deletesETag := "<Delete><Object><Key>key</Key><ETag>" + hexMD5([]byte("content")) + "</ETag></Object></Delete>"
	deletesAbsent := "<Delete><Object><Key>absent</Key><ETag>x</ETag></Object></Delete>"
	deletesGoverned := "<Delete><Object><Key>governed</Key><VersionId>GOVERNED</VersionId></Object></Delete>"
	tags := documentBodies["tagging"]
	retention := "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>UNTIL</RetainUntilDate></Retention>"
	hold := "<LegalHold><Status>OFF</Status></LegalHold>"
	complete := "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>PART</ETag></Part></CompleteMultipartUpload>"
	const bypass = "X-Amz-Bypass-Governance-Retention"
	tagged := []string{"X-Amz-Tagging", "a=b"}
	locked := []string{lockMode, "GOVERNANCE", lockUntil, "UNTIL", lockHold, "ON", "Content-Md5", md5Of([]byte("content"))}
	lockRights := []need{{"s3:PutObjectRetention", "bucket/new"}, {"s3:PutObjectLegalHold", "bucket/new"}}
	whole := []need{{"s3:GetObject", "bucket/*"}, {"s3:GetObjectVersion", "bucket/*"}}
	putTags := need{"s3:PutObjectTagging", "bucket/new"}
	get, getTags := need{"s3:GetObject", key}, need{"s3:GetObjectTagging", key}
	getVersion, getVersionTags := need{"s3:GetObjectVersion", key}, need{"s3:GetObjectVersionTagging", key}
	sha := []string{"X-Amz-Instant-Length", "7", "X-Amz-Content-Sha256", hash([]byte("content"))}
	etag := `"` + hexMD5([]byte("content")) + `"`
	// object returns rows for a route on the key, on a version of it, and on a key that does not exist.
	object := func(route, sub string, a, ofVersion auth.Action, body string, more ...need) (rows []matrixRow) {
		var headers []string
		if body != "" {
			headers = []string{"Content-Md5", md5Of([]byte(body))}
		}
		switch sub {
		case "attributes":
			headers = []string{"X-Amz-Object-Attributes", "ETag"}
		case "acl":
			if strings.HasPrefix(route, "Put") {
				headers = []string{"X-Amz-Acl", "private"}
			}
		}
		rows = append(rows, matrixRow{route: route, path: "/bucket/key?" + sub, body: body, headers: headers, needs: needsOf(a, key, more...)})
		var moreVersion, moreAbsent []need
		for _, n := range more {
			moreVersion = append(moreVersion, need{n.action + "Version", n.resource})
			moreAbsent = append(moreAbsent, need{n.action, absent})
		}
		rows = append(rows, matrixRow{
			route: route, path: "/bucket/key?" + sub + "&versionId=VERSION", body: body, headers: headers,
			needs: needsOf(ofVersion, key, moreVersion...),
		}, matrixRow{
			route: route, path: "/bucket/absent?" + sub, body: body, headers: headers, status: 404,
			needs: needsOf(a, absent, append(moreAbsent, listsBucket)...),
		})
		return rows
	}
	copyOf := func(v string) []string { return []string{"X-Amz-Copy-Source", "/bucket/key" + v} }
	rows := slices.Concat(bucketRows(),
		object("GetObject", "", "s3:GetObject", "s3:GetObjectVersion", ""),
		object("HeadObject", "", "s3:GetObject", "s3:GetObjectVersion", ""),
		object("PutObjectAcl", "acl", "s3:PutObjectAcl", "s3:PutObjectVersionAcl", ""),
		object("GetObjectAcl", "acl", "s3:GetObjectAcl", "s3:GetObjectVersionAcl", ""),
		object("GetObjectAttributes", "attributes", "s3:GetObjectAttributes", "s3:GetObjectVersionAttributes", "", get),
		object("GetObjectTagging", "tagging", "s3:GetObjectTagging", "s3:GetObjectVersionTagging", ""),
		object("PutObjectTagging", "tagging", "s3:PutObjectTagging", "s3:PutObjectVersionTagging", tags),
		object("DeleteObjectTagging", "tagging", "s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging", ""),
		object("GetObjectRetention", "retention", "s3:GetObjectRetention", "s3:GetObjectRetention", ""),
		object("PutObjectRetention", "retention", "s3:PutObjectRetention", "s3:PutObjectRetention", retention),
		object("GetObjectLegalHold", "legal-hold", "s3:GetObjectLegalHold", "s3:GetObjectLegalHold", ""),
		object("PutObjectLegalHold", "legal-hold", "s3:PutObjectLegalHold", "s3:PutObjectLegalHold", hold),
	)
	return append(rows, []matrixRow{
		{route: "ListBuckets", path: "/", needs: needsOf("s3:ListAllMyBuckets", "*"), ofService: true, status: 200},
		{route: "CreateBucket", path: "/created", body: newBucket, needs: needsOf("s3:CreateBucket", "created",
			need{"s3:PutBucketObjectLockConfiguration", "created"}, need{"s3:PutBucketVersioning", "created"},
			need{"s3:PutBucketTagging", "created"}, need{"s3:PutBucketOwnershipControls", "created"}), ofService: true, status: 200,
			headers: []string{"X-Amz-Bucket-Object-Lock-Enabled", "true", "X-Amz-Object-Ownership", "BucketOwnerEnforced"}},
		{route: "HeadBucket", path: "/bucket", needs: needsOf("s3:ListBucket", matrixBucket), anyRight: true, status: 200},
		{route: "HeadBucket", path: "/bucket", needs: needsOf("s3:PutObject", "bucket/in/*"), anyRight: true, signed: true, status: 200},
		{route: "DeleteObjects", path: "/bucket?delete", body: deletes, needs: needsOf("s3:DeleteObject", key), status: 200},
		{route: "DeleteObjects", path: "/bucket?delete", body: deletesVersion, needs: needsOf("s3:DeleteObjectVersion", key), status: 200},
		{route: "DeleteObjects", path: "/bucket?delete", body: deletesETag, needs: needsOf("s3:DeleteObject", key, get), status: 200},
		{route: "DeleteObjects", path: "/bucket?delete", body: deletesAbsent,
			needs: needsOf("s3:DeleteObject", absent, need{"s3:GetObject", absent}, listsBucket), status: 200},
		{route: "DeleteObjects", path: "/bucket?delete", body: deletesGoverned, headers: []string{bypass, "true"},
			needs:  needsOf("s3:DeleteObjectVersion", "bucket/governed", need{"s3:BypassGovernanceRetention", "bucket/governed"}),
			status: 200},
		{route: "FindContent", path: "/bucket?instant", body: find, needs: needsOf("s3:PutObject", "bucket/*", whole...), signed: true, inHeader: true, status: 200},
		{route: "PutObject", path: "/bucket/new", body: "content", needs: needsOf("s3:PutObject", "bucket/new"), status: 200},
		{route: "PutObject", path: "/bucket/new", body: "content", headers: tagged, needs: needsOf("s3:PutObject", "bucket/new", putTags), status: 200},
		{route: "PutObject", path: "/bucket/new", body: "content", headers: locked, needs: needsOf("s3:PutObject", "bucket/new", lockRights...), status: 200},
		{route: "PutObject", path: "/bucket/new", headers: sha, needs: needsOf("s3:PutObject", "bucket/new", whole...), signed: true, inHeader: true, status: 200},
		{route: "PutObject", path: "/bucket/key", body: "content", headers: []string{"If-Match", etag},
			needs: needsOf("s3:PutObject", key, get), status: 200},
		{route: "PutObject", path: "/bucket/key", body: "content", headers: []string{"If-Match", "*"}, needs: needsOf("s3:PutObject", key), status: 200},
		{route: "PutObject", path: "/bucket/key", body: "content", headers: []string{"X-Amz-Write-Offset-Bytes", "7"},
			needs: needsOf("s3:PutObject", key, get), status: 200},
		{route: "PutObject", path: "/bucket/absent", body: "content", headers: []string{"If-Match", "*"},
			needs: needsOf("s3:PutObject", absent, listsBucket), status: 404},
		{route: "PostObject", path: "/bucket", body: "content", needs: needsOf("s3:PutObject", "bucket/new"), status: 204},
		{route: "PostObject", path: "/bucket", body: "content", headers: tagged, needs: needsOf("s3:PutObject", "bucket/new", putTags), status: 204},
		{route: "PostObject", path: "/bucket", body: "content", headers: locked, needs: needsOf("s3:PutObject", "bucket/new", lockRights...), status: 204},
		{route: "CopyObject", path: "/bucket/new", headers: copyOf(""), needs: needsOf("s3:PutObject", "bucket/new", get, getTags, putTags), status: 200},
		{route: "CopyObject", path: "/bucket/new", headers: copyOf(version),
			needs: needsOf("s3:PutObject", "bucket/new", getVersion, getVersionTags, putTags), status: 200},
		{route: "CopyObject", path: "/bucket/new", headers: append(append(copyOf(""), tagged...), "X-Amz-Tagging-Directive", "REPLACE"),
			needs: needsOf("s3:PutObject", "bucket/new", get, putTags), status: 200},
		{route: "CopyObject", path: "/bucket/new", headers: append([]string{"X-Amz-Copy-Source", "/bucket/plain"}, locked[:6]...),
			needs: needsOf("s3:PutObject", "bucket/new", append(lockRights, need{"s3:GetObject", "bucket/plain"})...), status: 200},
		{route: "CopyObject", path: "/bucket/new", headers: []string{"X-Amz-Copy-Source", "/bucket/absent"},
			needs: needsOf("s3:PutObject", "bucket/new", need{"s3:GetObject", absent}, listsBucket), status: 404},
		{route: "RenameObject", path: "/bucket/new?renameObject", headers: []string{"X-Amz-Rename-Source", "key"},
			needs: needsOf("s3:PutObject", "bucket/new", get, need{"s3:DeleteObject", key}, getTags, putTags), status: 200},
		{route: "RenameObject", path: "/bucket/new?renameObject", headers: []string{"X-Amz-Rename-Source", "absent"},
			needs: needsOf("s3:PutObject", "bucket/new", need{"s3:GetObject", absent}, need{"s3:DeleteObject", absent}, listsBucket), status: 404},
		{route: "MoveObject", path: "/bucket/new", headers: []string{"X-Amz-Move-Source", "/bucket/key"},
			needs: needsOf("s3:PutObject", "bucket/new", get, need{"s3:DeleteObject", key}, getTags, putTags), status: 200},
		{route: "MoveObject", path: "/bucket/new", headers: []string{"X-Amz-Move-Source", "/bucket/absent"},
			needs: needsOf("s3:PutObject", "bucket/new", need{"s3:GetObject", absent}, need{"s3:DeleteObject", absent}, listsBucket), status: 404},
		{route: "DeleteObject", path: "/bucket/key", needs: needsOf("s3:DeleteObject", key), status: 204},
		{route: "DeleteObject", path: "/bucket/key" + version, needs: needsOf("s3:DeleteObjectVersion", key), status: 204},
		{route: "DeleteObject", path: "/bucket/key", headers: []string{"If-Match", etag}, needs: needsOf("s3:DeleteObject", key, get), status: 204},
		{route: "DeleteObject", path: "/bucket/absent", headers: []string{"If-Match", "*"},
			needs: needsOf("s3:DeleteObject", absent, listsBucket), status: 404},
		{route: "DeleteObject", path: "/bucket/governed?versionId=GOVERNED", headers: []string{bypass, "true"},
			needs:  needsOf("s3:DeleteObjectVersion", "bucket/governed", need{"s3:BypassGovernanceRetention", "bucket/governed"}),
			status: 204},
		{route: "PutObjectRetention", path: "/bucket/governed?retention&versionId=GOVERNED", body: retention,
			headers: []string{bypass, "true", "Content-Md5", md5Of([]byte(retention))},
			needs:   needsOf("s3:PutObjectRetention", "bucket/governed", need{"s3:BypassGovernanceRetention", "bucket/governed"})},
		{route: "CreateMultipartUpload", path: "/bucket/new?uploads", needs: needsOf("s3:PutObject", "bucket/new"), signed: true, status: 200},
		{route: "CreateMultipartUpload", path: "/bucket/new?uploads", headers: append(locked[:6:6], tagged...),
			needs: needsOf("s3:PutObject", "bucket/new", append(lockRights, putTags)...), signed: true, status: 200},
		{route: "UploadPart", path: "/bucket/many" + upload, body: "content", needs: needsOf("s3:PutObject", "bucket/many"), status: 200},
		{route: "UploadPart", path: "/bucket/many" + upload, headers: sha, needs: needsOf("s3:PutObject", "bucket/many", whole...), signed: true, inHeader: true, status: 200},
		{route: "UploadPartCopy", path: "/bucket/many" + upload, headers: copyOf(""), needs: needsOf("s3:PutObject", "bucket/many", get), status: 200},
		{route: "UploadPartCopy", path: "/bucket/many" + upload, headers: copyOf(version),
			needs: needsOf("s3:PutObject", "bucket/many", getVersion), status: 200},
		{route: "UploadPartCopy", path: "/bucket/many" + upload, headers: []string{"X-Amz-Copy-Source", "/bucket/absent"},
			needs: needsOf("s3:PutObject", "bucket/many", need{"s3:GetObject", absent}, listsBucket), status: 404},
		{route: "ListParts", path: "/bucket/many?uploadId=UPLOAD", needs: needsOf("s3:ListMultipartUploadParts", "bucket/many"), status: 200},
		{route: "CompleteMultipartUpload", path: "/bucket/many?uploadId=UPLOAD", body: complete, needs: needsOf("s3:PutObject", "bucket/many"), status: 200},
		{route: "CompleteMultipartUpload", path: "/bucket/many?uploadId=UPLOAD", body: complete, headers: []string{"If-Match", etag},
			needs: needsOf("s3:PutObject", "bucket/many", need{"s3:GetObject", "bucket/many"}, listsBucket), status: 404},
		{route: "AbortMultipartUpload", path: "/bucket/many?uploadId=UPLOAD", needs: needsOf("s3:AbortMultipartUpload", "bucket/many"), status: 204},
	}...)
}

// Every route, every action of a version and every secondary action has a row.
func TestMatrixIsComplete(t *testing.T) {
	has := map[string]map[auth.Action]bool{}
	for _, row := range matrixRows() {
		if has[row.route] == nil {
			has[row.route] = map[auth.Action]bool{}
		}
		for _, n := range row.needs {
			has[row.route][n.action] = true
		}
	}
	for _, r := range s3.Routes() {
		for _, a := range append([]auth.Action{r.Action, r.VersionAction}, r.Secondary...) {
			require.True(t, a == "" || has[r.Name][a] || isForHeaders(r, a), "%s has no row with %s", r.Name, a)
		}
		delete(has, r.Name)
	}
	require.Empty(t, has, "rows without a route")
}

// The callers of the matrix, besides the roots of two accounts and the anonymous one. Their access keys are the names.
const (
	aUser    = "AKIAUSER"    // has the policy
	aKey     = "AKIAKEY"     // an application key with a policy, whose creator has one, too
	aSession = "ASIASESSION" // a session of a role
	aForeign = "AKIAFOREIGN" // a user of another account, with a policy

	aForeignSession = "ASIAFOREIGN" // a session of a role of another account
)

// A caller signs in the header with version 4, unless its name ends with one of these.
const (
	inQuery   = ";version 4 in the query"
	inQueryV2 = ";version 2 in the query" // of a form: in its fields
)

// sender is a caller with its credentials and its way to sign. A sender without an access key does not sign.
type sender struct{ key, secret, token, place string }

// senderOf returns the sender for the name of a caller, or "" for nobody.
func senderOf(caller string) sender {
	key, place, hasPlace := strings.Cut(caller, ";")
	if hasPlace {
		place = ";" + place
	}
	s := sender{key: key, secret: secretKey, place: place}
	if key == aSession || key == aForeignSession {
		s.token = "dGhlIHRva2Vu"
	}
	return s
}

// sign signs a request with a body whose SHA-256 is sum.
func (s sender) sign(r *http.Request, sum string) {
	signer := &sigv4.Signer{AccessKey: s.key, SecretKey: s.secret, Region: "us-east-1", SecurityToken: s.token}
	switch {
	case s.key == "":
	case s.place == inQuery:
		signer.Presign(r, time.Minute, time.Now())
	case s.place == inQueryV2:
		if s.token != "" {
			r.Header.Set("X-Amz-Security-Token", s.token)
		}
		presignV2(r, s.key, s.secret, time.Now().Add(time.Minute))
	default:
		signer.Sign(r, sum, time.Now())
	}
}

// refusedCaller is a caller whose credentials are refused before anything is decided.
type refusedCaller struct {
	sender
	status int
	code   string
}

// refusedCallers returns callers of a directory that may do everything, but may no longer use their credentials: expired,
// disabled and deleted ones, and sessions with the wrong token.
func refusedCallers(d *identitiesOf) map[string]refusedCaller {
	t, ctx, list := d.t, d.t.Context(), map[string]refusedCaller{}
	document := statements("Allow", "", []need{{"s3:*", "*"}})
	put := func(kind identity.Kind, name string) {
		_, err := d.PutInlinePolicy(ctx, kind, account, name, "all", document)
		require.NoError(t, err)
	}
	refuse := func(what string, s identity.Secret, token string, status int, code string) {
		list[what] = refusedCaller{sender{key: s.AccessKey, secret: s.SecretKey, token: token}, status, code}
	}
	userKey := func(user string, lifetime time.Duration) identity.Secret {
		_, s, err := d.CreateAccessKey(ctx, account, user, lifetime)
		require.NoError(t, err)
		return s
	}
	appKey := func(name string, by *auth.Principal, lifetime time.Duration) identity.Secret {
		_, s, err := d.CreateKey(ctx, by, identity.NewKey{Name: name, Policy: document, Expires: lifetime})
		require.NoError(t, err)
		return s
	}
	for _, user := range []string{"former", "creator"} {
		_, err := d.Create(ctx, identity.User, account, user)
		require.NoError(t, err)
		put(identity.User, user)
	}
	put(identity.User, "alice")
	d.createRole("former")
	put(identity.Role, "reader")
	put(identity.Role, "former")

	const unknown = "InvalidAccessKeyId"
	d.late.Store(int64(-2 * time.Hour))
	refuse("an expired key of a user", userKey("alice", time.Hour), "", 403, unknown)
	refuse("an expired application key", appKey("expired", d.Root(), time.Hour), "", 403, unknown)
	session := d.begin("reader", identity.AssumeRole{Duration: time.Hour})
	refuse("an expired session", identity.Secret{AccessKey: session.AccessKey, SecretKey: session.SecretKey}, session.Token, 400, "ExpiredToken")
	d.late.Store(0)

	disabled := userKey("alice", 0)
	_, err := d.EnableAccessKey(ctx, account, "alice", disabled.AccessKey, false)
	require.NoError(t, err)
	refuse("a disabled key of a user", disabled, "", 403, unknown)
	disabled = appKey("disabled", d.Root(), 0)
	_, err = d.EnableKey(ctx, d.Root(), "disabled", false)
	require.NoError(t, err)
	refuse("a disabled application key", disabled, "", 403, unknown)
	deleted := appKey("deleted", d.Root(), 0)
	require.NoError(t, d.DeleteKey(ctx, d.Root(), "deleted"))
	refuse("a deleted application key", deleted, "", 403, unknown)

	deleted = userKey("former", 0)
	orphan := userKey("creator", 0)
	creator, err := d.Lookup(ctx, orphan.AccessKey, "")
	require.NoError(t, err)
	refuse("an application key of a deleted user", appKey("orphan", creator.Principal, 0), "", 403, unknown)
	ended := d.begin("former", identity.AssumeRole{})
	for _, user := range []string{"former", "creator"} {
		require.NoError(t, d.DeleteUser(ctx, account, user))
	}
	require.NoError(t, d.DeleteRole(ctx, account, "former"))
	refuse("a deleted user", deleted, "", 403, unknown)
	refuse("a session of a deleted role", identity.Secret{AccessKey: ended.AccessKey, SecretKey: ended.SecretKey}, ended.Token, 403, unknown)

	session, other := d.begin("reader", identity.AssumeRole{}), d.begin("reader", identity.AssumeRole{})
	keys := identity.Secret{AccessKey: session.AccessKey, SecretKey: session.SecretKey}
	refuse("a session without its token", keys, "", 403, unknown)
	refuse("a session with another token", keys, other.Token, 400, "InvalidToken")
	refuse("a wrong secret", identity.Secret{AccessKey: d.alice.AccessKey, SecretKey: "wrong"}, "", 403, "SignatureDoesNotMatch")
	return list
}

// identities are the policies of the callers of a matrix.
type identities struct{ user, key, creator, role, session, foreign []need }

// statements returns a statement for each need. Principal is "" for the policy of an identity.
func statements(effect, principal string, needs []need) string {
	var list []string
	for _, n := range needs {
		list = append(list, fmt.Sprintf(`{"Effect": %q, %s "Action": %q, "Resource": %q}`,
			effect, principal, n.action, strings.Replace("arn:aws:s3:::"+n.resource, "arn:aws:s3:::*", "*", 1)))
	}
	return `{"Version": "2012-10-17", "Statement": [` + strings.Join(list, ",") + `]}`
}

func policiesOf(t *testing.T, needs []need) []*policy.Policy {
	if needs == nil {
		return nil
	}
	p, err := policy.Parse([]byte(statements("Allow", "", needs)), policy.Source{Name: "test"})
	require.NoError(t, err)
	return []*policy.Policy{p}
}

// callers returns a setup with the callers, and with those of a directory, unless it is nil.
func (i identities) callers(t *testing.T, more *identitiesOf) setup {
	arn := func(kind string) *auth.Principal {
		return &auth.Principal{Account: account, ARN: "arn:aws:iam::" + account + ":" + kind}
	}
	session := &auth.Principal{Account: account, ARN: "arn:aws:sts::" + account + ":assumed-role/role/session"}
	foreign := &auth.Principal{Account: otherAccount, ARN: "arn:aws:iam::" + otherAccount + ":user/user"}
	creator := &policy.Caller{Principal: arn("user/creator"), Identity: policiesOf(t, i.creator)}
	known := map[string]*policy.Caller{
		aUser:    {Principal: arn("user/user"), Identity: policiesOf(t, i.user)},
		aKey:     {Principal: arn("key/key"), Identity: policiesOf(t, i.key), Creator: creator},
		aForeign: {Principal: foreign, Identity: policiesOf(t, i.foreign)},
		aForeignSession: {
			Principal: &auth.Principal{Account: otherAccount, ARN: "arn:aws:sts::" + otherAccount + ":assumed-role/role/session"},
			Role:      "arn:aws:iam::" + otherAccount + ":role/role", Identity: policiesOf(t, i.foreign), Session: policiesOf(t, i.foreign),
		},
		aSession: {Principal: session, Role: "arn:aws:iam::" + account + ":role/role", Identity: policiesOf(t, i.role), Session: policiesOf(t, i.session)},
	}
	byARN := map[string]*policy.Caller{}
	for _, c := range known {
		byARN[c.Principal.ARN] = c
	}
	return setup{options: func(o *s3.Options) {
		o.SignatureV2 = sigv2.All
		o.Authorizer = access.New(func(p *auth.Principal) *policy.Caller {
			if c := byARN[p.ARN]; c != nil {
				return c
			}
			if more == nil {
				return nil
			}
			return more.Caller(p)
		})
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key, token string) (gate.Credential, error) {
			if c := known[key]; c != nil {
				return gate.Credential{SecretKey: secretKey, Principal: c.Principal, Token: senderOf(key).token}, nil
			}
			if more == nil || holders[key].Principal != nil {
				return lookup(ctx, key, token)
			}
			return more.Lookup(ctx, key, token)
		}
	}}
}

// matrixWorld is a server with a bucket that has no public access block, and objects and an upload of the root.
type matrixWorld struct {
	*world
	ids *strings.Replacer
}

func newMatrixWorld(t *testing.T, i identities, more *identitiesOf) matrixWorld {
	w := newWorld(t, i.callers(t, more), withKeys(t))
	w.do("PUT", "/bucket", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	w.do("DELETE", "/bucket?publicAccessBlock", nil).is(204, "")
	version := w.do("PUT", "/bucket/key", []byte("content"), "X-Amz-Tagging", "a=b").is(200, "").header.Get("X-Amz-Version-Id")
	w.put("/bucket/plain", "content")
	until := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	governed := w.do("PUT", "/bucket/governed", nil, "Content-MD5", md5Of(nil), lockMode, "GOVERNANCE", lockUntil, until).
		is(200, "").header.Get("X-Amz-Version-Id")
	var upload struct{ UploadId string }
	w.do("POST", "/bucket/many?uploads", nil).is(200, "").parse(&upload)
	part := w.put("/bucket/many?partNumber=1&uploadId="+upload.UploadId, "content")
	return matrixWorld{w, strings.NewReplacer("VERSION", version, "GOVERNED", governed, "UPLOAD", upload.UploadId, "PART", part, "UNTIL", until)}
}

// try sends the request of a row as a caller, which is an access key and a way to sign, or "" for nobody.
func (w matrixWorld) try(t *testing.T, row *matrixRow, caller string) *response {
	t.Helper()
	return w.send(t, row, senderOf(caller))
}

// send sends the request of a row.
func (w matrixWorld) send(t *testing.T, row *matrixRow, s sender) *response {
	t.Helper()
	at := *w.world
	at.t = t
	var headers []string
	for _, h := range row.headers {
		headers = append(headers, w.ids.Replace(h))
	}
	body := []byte(w.ids.Replace(row.body))
	sum := hash(body)
	for i, h := range headers {
		if h == "Content-Md5" {
			headers[i+1] = md5Of(body)
		}
		if h == "X-Amz-Content-Sha256" {
			sum = headers[i+1]
		}
	}
	if row.route == "PostObject" { // a form with the headers as fields, for the key "new"
		f := newForm(row.body, headers...)
		f.fields[1], f.key, f.secret, f.unsigned, f.v2 = "new", s.key, s.secret, s.key == "", s.place == inQueryV2
		if s.token != "" {
			f.fields = append(f.fields, "x-amz-security-token", s.token)
		}
		return f.send(&at)
	}
	if strings.HasSuffix(row.path, "?delete") {
		headers = append(headers, "Content-Md5", md5Of(body))
	}
	method := routeNamed(row.route).Method
	r := at.request(method, w.ids.Replace(row.path), body, headers...)
	s.sign(r, sum)
	return at.send(r)
}

// outcome is the status and the code of a response, or the code of the only key of a DeleteObjects.
type outcome struct {
	status int
	code   string
}

var codeOfKey = regexp.MustCompile(`<DeleteResult.*<Code>(\w+)</Code>`)

func outcomeOf(a *response) outcome {
	if m := codeOfKey.FindSubmatch(a.body); m != nil {
		return outcome{a.status, string(m[1])}
	}
	return outcome{a.status, a.code()}
}

// refusal returns the outcome of a request of the row that is refused with a code. A response to HEAD has no code.
func (r *matrixRow) refusal(status int, code string) outcome {
	if r.method() == http.MethodHead {
		code = ""
	}
	return outcome{status, code}
}

func (r *matrixRow) method() string { return routeNamed(r.route).Method }

// matrix checks rows with the same policies.
type matrix struct {
	t      *testing.T
	row    *matrixRow
	ids    identities
	policy string  // of the bucket
	want   outcome // of the root with this policy

	more    *identitiesOf // further callers, with all rights
	refused map[string]refusedCaller
}

func (m *matrix) world() matrixWorld {
	w := newMatrixWorld(m.t, m.ids, m.more)
	if m.policy != "" {
		w.do("PUT", "/bucket?policy", []byte(m.policy)).is(204, "")
	}
	return w
}

// denied checks that callers are refused because they lack a right, and that nothing is written. They share a world.
func (m *matrix) denied(callers ...string) {
	m.t.Helper()
	w := m.world()
	for _, c := range callers {
		m.isRefused(w, c, senderOf(c), m.row.refusal(403, "AccessDenied"))
	}
}

// isRefused checks that a request of a sender has a certain outcome, and that nothing is written.
func (m *matrix) isRefused(w matrixWorld, what string, s sender, want outcome) {
	m.t.Helper()
	before, err := w.meta.State(m.t.Context())
	require.NoError(m.t, err)
	a := w.send(m.t, m.row, s)
	got := outcomeOf(a)
	if m.row.route == "DeleteObjects" && want.code == "AccessDenied" && a.status == 200 {
		got.status = want.status // the caller may delete something in the bucket, but not this key
	}
	require.Equal(m.t, want, got, "%s %s by %q with %s: %s", m.row.route, m.row.path, what, m.policy, a.body)
	if slices.Contains(m.row.needs[1:], listsBucket) {
		return // the write fails, and then it is decided whether the caller may learn why
	}
	after, err := w.meta.State(m.t.Context())
	require.NoError(m.t, err)
	require.Equal(m.t, before.Seq, after.Seq, "%s %s by %q with %s wrote something", m.row.route, m.row.path, what, m.policy)
}

// noCredentials checks that callers whose credentials are not valid are refused, with the code that tells why, even if
// a policy allows the request to everyone.
func (m *matrix) noCredentials() {
	m.t.Helper()
	w := m.world()
	for what, c := range m.refused {
		places := []string{"", inQuery, inQueryV2}
		for _, c.place = range places {
			m.isRefused(w, what+c.place, c.sender, m.row.refusal(c.status, c.code))
		}
	}
}

// allowed checks that callers get the response that the root gets with the same policies. The root is the first of them.
func (m *matrix) allowed(callers ...string) {
	m.t.Helper()
	var w matrixWorld
	for i, c := range callers {
		if m.row.inHeader && senderOf(c).place != "" {
			m.denied(c)
			continue
		}
		if method := m.row.method(); i == 0 || method != "GET" && method != "HEAD" {
			w = m.world()
		}
		s := senderOf(c)
		if c == m.more.alice.AccessKey {
			s.secret = m.more.alice.SecretKey
		}
		a := w.send(m.t, m.row, s)
		got := outcomeOf(a)
		if c == accessKey {
			m.want = got
			if m.row.status != 0 {
				require.Equal(m.t, m.row.status, a.status, "%s %s: %s", m.row.route, m.row.path, a.body)
			} else {
				require.Contains(m.t, []int{200, 204, 404}, a.status, "%s %s: %s", m.row.route, m.row.path, a.body)
			}
			require.NotEqual(m.t, "AccessDenied", got.code, "%s %s with %s: %s", m.row.route, m.row.path, m.policy, a.body)
		}
		require.Equal(m.t, m.want, got, "%s %s by %q with %s: %s", m.row.route, m.row.path, c, m.policy, a.body)
	}
}

// TestMatrix sends each request as each kind of caller: without a bucket policy, with one that allows exactly what the
// request needs to everyone, and with one that denies a part of it. A caller is allowed only if it has all rights, and
// if nothing denies any of them. An application key and its creator must both have them, a session and its role, too. A
// user or a session of another account must have them, and the bucket policy must allow them, too. Signatures in the query
// and of version 2 change nothing. Credentials that are expired, disabled, deleted or incomplete are refused whatever the
// policies say.
func TestMatrix(t *testing.T) {
	more := newIdentities(t)
	refused := refusedCallers(more)
	for i, row := range matrixRows() {
		t.Run(fmt.Sprintf("%d-%s", i, row.route), func(t *testing.T) {
			t.Parallel()
			none := []need{{"s3:GetBucketLocation", "other"}}
			all := row.needs
			m := matrix{t: t, row: &row, more: more, refused: refused, ids: identities{user: all, key: all, creator: all, role: all, session: all, foreign: all}}
			m.allowed(accessKey, aUser, aKey, aSession, aUser+inQuery, aUser+inQueryV2, aSession+inQuery, more.alice.AccessKey)
			m.noCredentials()
			if row.route != "ListBuckets" && row.route != "CreateBucket" { // about the account of the caller
				m.denied(stranger, aForeign, aForeignSession, aForeign+inQuery, aForeign+inQueryV2)
			}
			m.denied("")

			m.ids = identities{user: none, key: all, creator: none, role: none, session: all}
			m.denied(aUser, aKey, aSession, aUser+inQuery, aUser+inQueryV2)
			m.ids = identities{key: none, creator: all, role: all, session: none}
			m.denied(aUser, aKey, aSession, aUser+inQuery, aUser+inQueryV2)
			for i := range all {
				rest := slices.Delete(slices.Clone(all), i, i+1)
				if len(rest) == 0 {
					rest = none
				}
				m.ids = identities{user: rest, key: all, creator: rest, role: all, session: rest}
				m.denied(aUser, aKey, aSession, aUser+inQuery, aUser+inQueryV2)
			}
			if !row.ofService {
				m.bucketPolicies(none)
			}
		})
	}
}

// bucketPolicies checks the row with policies of the bucket.
func (m *matrix) bucketPolicies(none []need) {
	const everyone = `"Principal": "*",`
	all := m.row.needs
	m.ids, m.policy = identities{user: none, key: none, creator: none, role: none, foreign: all}, statements("Allow", everyone, all)
	m.allowed(accessKey, aUser, aKey, aSession, aUser+inQuery, aUser+inQueryV2)
	m.noCredentials()
	switch {
	case m.row.ownOnly:
		w := m.world()
		for _, c := range []string{stranger, aForeign, aForeignSession, ""} {
			w.try(m.t, m.row, c).is(405, "MethodNotAllowed")
		}
	case m.row.signed:
		m.allowed(stranger, aForeign, aForeignSession)
		m.denied("")
	default:
		m.allowed(stranger, aForeign, aForeignSession, aForeign+inQuery, aForeign+inQueryV2, "")
	}
	m.ids = identities{session: none, foreign: none}
	m.denied(aSession, aForeign, aForeignSession)
	for i := range all {
		if rest := slices.Delete(slices.Clone(all), i, i+1); len(rest) > 0 { // the bucket policy alone is not sufficient
			m.ids = identities{foreign: rest}
			m.denied(aForeign, aForeignSession)
		}
	}

	m.ids = identities{user: all, key: all, creator: all, role: all, session: all, foreign: all}
	for i := range all {
		denied := all[i : i+1]
		if m.row.anyRight {
			denied = []need{{"s3:*", matrixBucket}, {"s3:*", matrixBucket + "/*"}}
		}
		m.policy = statements("Deny", everyone, denied)
		m.denied(stranger, "", aUser, aKey, aSession, aForeign, aForeignSession, aUser+inQuery, aUser+inQueryV2)
		if m.row.ownOnly || m.row.anyRight { // the root always has the rights to the policy
			m.allowed(accessKey)
		} else {
			m.denied(accessKey)
		}
	}
}
