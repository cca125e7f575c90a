package s3_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/s3"
)

// inside returns a document without its declaration and its root element.
func inside(t *testing.T, a *response, root string) string {
	t.Helper()
	require.Equal(t, "application/xml", a.header.Get("Content-Type"))
	const head = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	begin, end := head+"<"+root+` xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`, "</"+root+">"
	body := string(a.body)
	require.True(t, strings.HasPrefix(body, begin) && strings.HasSuffix(body, end), body)
	return body[len(begin) : len(body)-len(end)]
}

func TestDocumentsOfANewBucket(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for sub, code := range map[string]string{
		"tagging": "NoSuchTagSet", "website": "NoSuchWebsiteConfiguration", "cors": "NoSuchCORSConfiguration", "policy": "NoSuchBucketPolicy",
		"policyStatus": "NoSuchBucketPolicy", "replication": "ReplicationConfigurationNotFoundError",
		"analytics&id=1": "NoSuchConfiguration", "inventory&id=1": "NoSuchConfiguration", "metrics&id=1": "NoSuchConfiguration",
		"intelligent-tiering&id=1": "NoSuchConfiguration",
	} {
		w.do("GET", "/bucket?"+sub, nil).is(404, code)
		w.do("GET", "/absent?"+sub, nil).is(404, "NoSuchBucket")
	}
	for _, c := range [][3]string{
		{"requestPayment", "RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>"},
		{"accelerate", "AccelerateConfiguration", ""},
		{"logging", "BucketLoggingStatus", ""},
		{"notification", "NotificationConfiguration", ""},
		{"ownershipControls", "OwnershipControls", "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>"},
		{"publicAccessBlock", "PublicAccessBlockConfiguration", "<BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets>"},
		{"analytics", "ListBucketAnalyticsConfigurationsResult", "<IsTruncated>false</IsTruncated>"},
		{"inventory", "ListInventoryConfigurationsResult", "<IsTruncated>false</IsTruncated>"},
		{"metrics", "ListMetricsConfigurationsResult", "<IsTruncated>false</IsTruncated>"},
		{"intelligent-tiering", "ListBucketIntelligentTieringConfigurationsOutput", "<IsTruncated>false</IsTruncated>"},
	} {
		require.Equal(t, c[2], inside(t, w.do("GET", "/bucket?"+c[0], nil).is(200, ""), c[1]))
	}
}

// A document for a feature that is not implemented is refused and not stored.
func TestDocumentsWithoutEffectAreRefused(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for sub, body := range map[string]string{
		"website":           "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>",
		"replication":       "<ReplicationConfiguration/>",
		"analytics&id=1":    "<AnalyticsConfiguration/>",
		"inventory&id=1":    "<InventoryConfiguration/>",
		"metrics&id=1":      "<MetricsConfiguration/>",
		"accelerate":        "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>",
		"requestPayment":    "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>",
		"logging":           "<BucketLoggingStatus><LoggingEnabled><TargetBucket>b</TargetBucket><TargetPrefix/></LoggingEnabled></BucketLoggingStatus>",
		"notification":      "<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>",
		"notification&x=1":  "<NotificationConfiguration><TopicConfiguration><Topic>arn:aws:sns:us-east-1:1:t</Topic><Event>s3:ObjectCreated:*</Event></TopicConfiguration></NotificationConfiguration>",
		"ownershipControls": "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>",
		"acl":               "<AccessControlPolicy><Owner><ID>" + canonical + "</ID></Owner><AccessControlList><Grant><Grantee><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>",
	} {
		before := w.do("GET", "/bucket?"+sub, nil)
		if strings.HasPrefix(sub, "acl") {
			w.do("PUT", "/bucket?"+sub, []byte(body)).is(400, "AccessControlListNotSupported")
		} else {
			w.do("PUT", "/bucket?"+sub, []byte(body)).is(501, "NotImplemented")
		}
		after := w.do("GET", "/bucket?"+sub, nil)
		require.Equal(t, before.status, after.status, sub)
		if before.status == 200 {
			require.Equal(t, string(before.body), string(after.body))
		}
	}
	for _, sub := range []string{"policy", "cors", "website", "replication", "tagging"} {
		w.do("DELETE", "/bucket?"+sub, nil).is(204, "")
	}
	w.do("DELETE", "/bucket?metrics&id=1", nil).is(404, "NoSuchConfiguration")
	w.do("DELETE", "/bucket?requestPayment", nil).is(405, "MethodNotAllowed")
	w.do("DELETE", "/absent?cors", nil).is(404, "NoSuchBucket")
}

func TestStoredDocuments(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	const block = "<BlockPublicAcls>%t</BlockPublicAcls><IgnorePublicAcls>%t</IgnorePublicAcls><BlockPublicPolicy>%t</BlockPublicPolicy><RestrictPublicBuckets>%t</RestrictPublicBuckets>"
	for _, c := range []struct {
		sub, root, put, get string
		status              int
	}{
		{"tagging", "Tagging", "<TagSet><Tag><Key>b</Key><Value>1 &amp; é</Value></Tag><Tag><Key>a</Key><Value/></Tag></TagSet>", "", 400}, // tags must not contain "&"
		{"tagging", "Tagging", "<TagSet><Tag><Value>1=2 é</Value><Key>b</Key></Tag><Tag><Key>a</Key><Value/></Tag></TagSet>",
			"<TagSet><Tag><Key>b</Key><Value>1=2 é</Value></Tag><Tag><Key>a</Key><Value></Value></Tag></TagSet>", 204},
		{"accelerate", "AccelerateConfiguration", "<Status>Suspended</Status>", "<Status>Suspended</Status>", 200},
		{"requestPayment", "RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>", "<Payer>BucketOwner</Payer>", 200},
		{"logging", "BucketLoggingStatus", "", "", 200},
		{"notification", "NotificationConfiguration", "", "", 200},
		{"ownershipControls", "OwnershipControls", "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>", "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>", 200},
		{"publicAccessBlock", "PublicAccessBlockConfiguration", "<BlockPublicPolicy>TRUE</BlockPublicPolicy>", fmt.Sprintf(block, false, false, true, false), 200},
	} {
		a := w.do("PUT", "/bucket?"+c.sub, []byte("<"+c.root+` xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`+c.put+"</"+c.root+">"))
		require.Equal(t, c.status, a.status, "%s", a.body)
		if a.status < 300 {
			require.Empty(t, a.body)
			require.Equal(t, c.get, inside(t, w.do("GET", "/bucket?"+c.sub, nil).is(200, ""), c.root))
		}
	}
	for sub, code := range map[string]string{
		"tagging": "NoSuchTagSet", "ownershipControls": "OwnershipControlsNotFoundError", "publicAccessBlock": "NoSuchPublicAccessBlockConfiguration",
	} {
		for range 2 {
			w.do("DELETE", "/bucket?"+sub, nil).is(204, "")
			w.do("GET", "/bucket?"+sub, nil).is(404, code)
		}
	}
	w.do("PUT", "/bucket?ownershipControls", []byte("<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>")).is(200, "")
	w.do("GET", "/bucket?ownershipControls", nil).is(200, "")

	// They are deleted with the bucket.
	w.do("DELETE", "/bucket", nil).is(204, "")
	w.bucket("bucket")
	w.do("GET", "/bucket?publicAccessBlock", nil).is(200, "")
}

func TestMalformedDocuments(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "<Tag><Key>k%d</Key><Value>v</Value></Tag>", i)
		}
		return "<Tagging><TagSet>" + b.String() + "</TagSet></Tagging>"
	}
	tag := func(key, value string) string {
		return "<Tagging><TagSet><Tag><Key>" + key + "</Key><Value>" + value + "</Value></Tag></TagSet></Tagging>"
	}
	for _, c := range [][3]string{
		{"tagging", "<Tagging/>", "MalformedXML"},
		{"tagging", "<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", "MalformedXML"},
		{"tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value/><Other/></Tag></TagSet></Tagging>", "MalformedXML"},
		{"tagging", "<Tags/>", "MalformedXML"},
		{"tagging", many(51), "BadRequest"},
		{"tagging", tag("", "v"), "InvalidTag"},
		{"tagging", tag("aws:k", "v"), "InvalidTag"},
		{"tagging", tag("k*", "v"), "InvalidTag"},
		{"tagging", tag("k", "v?"), "InvalidTag"},
		{"tagging", tag(strings.Repeat("é", 129), "v"), "InvalidTag"},
		{"tagging", tag("k", strings.Repeat("é", 257)), "InvalidTag"},
		{"tagging", strings.Replace(tag("k", "1")+tag("k", "2"), "</TagSet></Tagging><Tagging><TagSet>", "", 1), "InvalidTag"},
		{"ownershipControls", "<OwnershipControls/>", "MalformedXML"},
		{"ownershipControls", "<OwnershipControls><Rule><ObjectOwnership>Mine</ObjectOwnership></Rule></OwnershipControls>", "MalformedXML"},
		{"publicAccessBlock", "<PublicAccessBlockConfiguration><BlockPublicAcls>maybe</BlockPublicAcls></PublicAccessBlockConfiguration>", "MalformedXML"},
		{"publicAccessBlock", "<PublicAccessBlockConfiguration><BlockAll>true</BlockAll></PublicAccessBlockConfiguration>", "MalformedXML"},
		{"requestPayment", "<RequestPaymentConfiguration><Payer>Me</Payer></RequestPaymentConfiguration>", "MalformedXML"},
		{"accelerate", "<AccelerateConfiguration/>", "MalformedXML"},
		{"logging", "<BucketLoggingStatus><Enabled/></BucketLoggingStatus>", "MalformedXML"},
		{"notification", "<NotificationConfiguration><Other/></NotificationConfiguration>", "MalformedXML"},
		{"acl", "<AccessControlPolicy/>", "MalformedXML"},
		{"versioning", "<VersioningConfiguration><Status>On</Status></VersioningConfiguration>", "MalformedXML"},
		{"versioning", "<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Yes</MfaDelete></VersioningConfiguration>", "MalformedXML"},
		{"versioning", "<VersioningConfiguration><Status>Enabled</Status><Other/></VersioningConfiguration>", "MalformedXML"},
		{"versioning", "<VersioningConfiguration>", "MalformedXML"},
		{"versioning", "<VersioningConfiguration/>", "IllegalVersioningConfigurationException"},
		{"versioning", "<VersioningConfiguration><MfaDelete>Disabled</MfaDelete></VersioningConfiguration>", "IllegalVersioningConfigurationException"},
	} {
		w.do("PUT", "/bucket?"+c[0], []byte(c[1])).is(400, c[2])
	}
	// Tags are validated before they are counted.
	w.do("PUT", "/bucket?tagging", []byte(strings.Replace(many(51), "k50<", "k49<", 1))).is(400, "InvalidTag")
	w.do("PUT", "/new", []byte("<CreateBucketConfiguration><Other/></CreateBucketConfiguration>")).is(400, "MalformedXML")
	body := []byte("<Delete><Object><Key>a</Key><Version>1</Version></Object></Delete>")
	w.do("POST", "/bucket?delete", body, "Content-Md5", md5Of(body)).is(400, "MalformedXML")
	for _, sub := range []string{"tagging", "versioning", "ownershipControls", "notification"} {
		w.do("PUT", "/bucket?"+sub, nil).is(400, "MissingRequestBodyError")
		w.do("PUT", "/bucket?"+sub, []byte("<x/>"), "Content-Md5", md5Of([]byte("other"))).is(400, "BadDigest")
	}
	w.do("GET", "/bucket?tagging", nil).is(404, "NoSuchTagSet")
	w.do("PUT", "/bucket?tagging", []byte(many(50))).is(204, "")
	require.Equal(t, 50, strings.Count(string(w.do("GET", "/bucket?tagging", nil).is(200, "").body), "<Tag>"))
	w.do("PUT", "/bucket?tagging", []byte(many(0))).is(204, "")
	w.do("GET", "/bucket?tagging", nil).is(404, "NoSuchTagSet")
}

func TestBucketsAreCreatedWithTags(t *testing.T) {
	w := newWorld(t)
	create := func(tags string) *response {
		return w.do("PUT", "/bucket", []byte("<CreateBucketConfiguration><Tags>"+tags+"</Tags></CreateBucketConfiguration>"))
	}
	create("<Tag><Key>aws:a</Key><Value>b</Value></Tag>").is(400, "InvalidTag")
	w.do("HEAD", "/bucket", nil).is(404, "")
	create("<Tag><Key>a</Key><Value>b</Value></Tag>").is(200, "")
	require.Equal(t, "<TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>", inside(t, w.do("GET", "/bucket?tagging", nil).is(200, ""), "Tagging"))
	create("").is(200, "") // the bucket exists already and keeps its tags
	w.do("GET", "/bucket?tagging", nil).is(200, "")
}

func TestOnlyDefaultACLIsAccepted(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	grant := func(owner, grantee, permission string) []byte {
		return []byte(`<AccessControlPolicy><Owner><ID>` + owner + `</ID></Owner><AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>` +
			grantee + `</ID></Grantee><Permission>` + permission + `</Permission></Grant></AccessControlList></AccessControlPolicy>`)
	}
	for _, p := range []string{"/bucket?acl", "/bucket/key?acl"} {
		mine := w.do("GET", p, nil).is(200, "")
		w.do("PUT", p, mine.body).is(200, "") // the ACL that GET returned can be set
		w.do("PUT", p, grant(canonical, canonical, "FULL_CONTROL")).is(200, "")
		w.do("PUT", p, nil, "X-Amz-Acl", "private").is(200, "")
		w.do("PUT", p, nil, "X-Amz-Acl", "bucket-owner-full-control").is(200, "")
		w.do("PUT", p, nil, "X-Amz-Acl", "public-read").is(400, "AccessControlListNotSupported")
		w.do("PUT", p, nil, "X-Amz-Acl", "odd").is(400, "InvalidArgument")
		w.do("PUT", p, nil, "X-Amz-Grant-Read", "id=1").is(400, "AccessControlListNotSupported")
		w.do("PUT", p, nil).is(400, "MissingSecurityHeader")
		w.do("PUT", p, grant(canonical, canonical, "FULL_CONTROL"), "X-Amz-Acl", "private").is(400, "UnexpectedContent")
		w.do("PUT", p, grant(canonical, "other", "READ")).is(400, "AccessControlListNotSupported")
		w.do("PUT", p, grant(canonical, canonical, "READ")).is(400, "AccessControlListNotSupported")
		w.do("PUT", p, grant(canonical, canonical, "ALL")).is(400, "MalformedXML")
		w.do("PUT", p, grant("other", canonical, "FULL_CONTROL")).is(403, "AccessDenied")
		require.Equal(t, string(mine.body), string(w.do("GET", p, nil).body))
	}
	w.do("PUT", "/bucket/absent?acl", nil, "X-Amz-Acl", "private").is(404, "NoSuchKey")
	w.do("PUT", "/bucket/key?acl&versionId="+absentVersion, nil, "X-Amz-Acl", "private").is(404, "NoSuchVersion")
}

func TestListBucketsByRegion(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.AnyRegion = true }})
	for name, region := range map[string]string{"one": "eu-north-1", "two": "", "three": "eu-north-1"} {
		body := ""
		if region != "" {
			body = "<CreateBucketConfiguration><LocationConstraint>" + region + "</LocationConstraint></CreateBucketConfiguration>"
		}
		w.do("PUT", "/"+name, []byte(body)).is(200, "")
	}
	list := func(region string) (names []string) {
		token := ""
		for pages := 0; pages == 0 || token != ""; pages++ {
			require.Less(t, pages, 4)
			var p struct {
				Buckets []struct{ Name, BucketRegion string } `xml:"Buckets>Bucket"`
				Token   string                                `xml:"ContinuationToken"`
			}
			w.do("GET", "/?max-buckets=1&bucket-region="+region+"&continuation-token="+token, nil).is(200, "").parse(&p)
			for _, b := range p.Buckets {
				require.Equal(t, region, b.BucketRegion)
				names = append(names, b.Name)
			}
			token = p.Token
		}
		return names
	}
	require.Equal(t, []string{"one", "three"}, list("eu-north-1"))
	require.Equal(t, []string{"two"}, list("us-east-1"))
	require.Empty(t, list("eu-south-1"))
}
