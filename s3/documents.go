package s3

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strings"

	"orcas/core"
)

// document is a sub-resource of a bucket that changes nothing of what the server does: it says what holds anyway, or it was never
// configured. What is kept of one is an attribute of the bucket (core.BucketInfo.Attrs) by the name of its query parameter: the
// inside of its root element. It is written with the bucket, and so also at once with a new one. A document whose effect is not served
// has no accept: there is no operation that stores it.
type document struct {
	sub     string // the query parameter
	name    string // the operations are Get, Put and Delete with this behind
	action  string // likewise in the words of policies; "": as name
	root    string
	initial string    // what a bucket never configured has
	absent  *apiError // the answer where there is none; nil: an empty document
	accept  func(doc []byte) (inside string, err error)
	status  int // of the answer to Put; 0: 200
	deletes bool
}

// removed takes the place of a document that was deleted, where a bucket never configured has one.
const removed = "-"

const (
	enforced  = "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>"
	blocksAll = "<BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>" +
		"<BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets>"
)

// documents returns the sub-resources of a bucket that are documents. A new bucket blocks public access and has no ACLs, as in S3 since 2023.
func documents() []document {
	return []document{
		{sub: "tagging", name: "BucketTagging", root: "Tagging", absent: errNoSuchTagSet, accept: acceptTagging, status: http.StatusNoContent, deletes: true},
		{sub: "ownershipControls", name: "BucketOwnershipControls", root: "OwnershipControls", initial: enforced, absent: errNoOwnership, accept: acceptOwnership, deletes: true},
		{sub: "publicAccessBlock", name: "PublicAccessBlock", action: "BucketPublicAccessBlock", root: "PublicAccessBlockConfiguration", initial: blocksAll, absent: errNoPublicBlock, accept: acceptPublicBlock, deletes: true},
		{sub: "requestPayment", name: "BucketRequestPayment", root: "RequestPaymentConfiguration", initial: "<Payer>BucketOwner</Payer>", accept: acceptPayer},
		{sub: "accelerate", name: "BucketAccelerateConfiguration", action: "AccelerateConfiguration", root: "AccelerateConfiguration", accept: acceptAccelerate},
		{sub: "logging", name: "BucketLogging", root: "BucketLoggingStatus", accept: acceptLogging},
		{sub: "notification", name: "BucketNotificationConfiguration", action: "BucketNotification", root: "NotificationConfiguration", accept: acceptNotification},
		{sub: "website", name: "BucketWebsite", absent: errNoWebsite, deletes: true},
		{sub: "cors", name: "BucketCors", action: "BucketCORS", absent: errNoCORS, deletes: true},
		{sub: "policy", name: "BucketPolicy", absent: errNoPolicy, deletes: true},
		{sub: "policyStatus", name: "BucketPolicyStatus", absent: errNoPolicy},
		{sub: "replication", name: "BucketReplication", action: "ReplicationConfiguration", absent: errNoReplication, deletes: true},
	}
}

// configurations are sub-resources of which a bucket has many, by an id. None can be stored: what they are for does not exist here.
var configurations = [...]struct{ sub, name, root string }{
	{"analytics", "Analytics", "ListBucketAnalyticsConfigurationsResult"},
	{"inventory", "Inventory", "ListInventoryConfigurationsResult"},
	{"metrics", "Metrics", "ListMetricsConfigurationsResult"},
	{"intelligent-tiering", "IntelligentTiering", "ListBucketIntelligentTieringConfigurationsOutput"},
}

// documentRoutes returns the operations on documents.
func documentRoutes() []route {
	var routes []route
	add := func(method, verb, name, permission, sub string, handle func(*request) error) {
		r := route{name: verb + name, method: method, level: bucketLevel, sub: sub, action: action("s3:" + permission), handle: handle}
		if method == http.MethodGet {
			r.conditions = cacheConditions
		}
		routes = append(routes, r)
	}
	for _, d := range documents() {
		permission := d.action
		if permission == "" {
			permission = d.name
		}
		add(http.MethodGet, "Get", d.name, "Get"+permission, d.sub, func(q *request) error { return q.getDocument(&d) })
		if d.accept != nil {
			add(http.MethodPut, "Put", d.name, "Put"+permission, d.sub, func(q *request) error { return q.putDocument(&d) })
		}
		if d.deletes {
			verb := "Put" // the right to write is the right to delete, but for two
			if d.sub == "policy" || d.sub == "website" {
				verb = "Delete"
			}
			add(http.MethodDelete, "Delete", d.name, verb+permission, d.sub, func(q *request) error { return q.deleteDocument(&d) })
		}
	}
	for _, c := range configurations {
		name := "Bucket" + c.name + "Configuration"
		add(http.MethodGet, "Get", name, "Get"+c.name+"Configuration", c.sub, func(q *request) error { return q.listConfigurations(c.root) })
		add(http.MethodDelete, "Delete", name, "Put"+c.name+"Configuration", c.sub, func(*request) error { return errNoConfiguration })
	}
	return routes
}

func (q *request) getDocument(d *document) error {
	inside := attr(q.bucket.Attrs, d.sub)
	if inside == "" {
		inside = d.initial
	}
	if d.absent != nil && (inside == "" || inside == removed) {
		return d.absent
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin(d.root)
	x.b = append(x.b, inside...)
	x.close(d.root)
	q.sendXML(http.StatusOK, x)
	return nil
}

func (q *request) putDocument(d *document) error {
	doc, err := q.readConfiguration()
	if err != nil {
		return err
	}
	inside, err := d.accept(doc)
	if err == nil {
		err = q.keepDocument(d.sub, inside)
	}
	if err != nil {
		return err
	}
	status := d.status
	if status == 0 {
		status = http.StatusOK
	}
	q.sendEmpty(status)
	return nil
}

func (q *request) deleteDocument(d *document) error {
	inside := ""
	if d.initial != "" {
		inside = removed
	}
	if err := q.keepDocument(d.sub, inside); err != nil {
		return err
	}
	q.sendEmpty(http.StatusNoContent)
	return nil
}

// keepDocument keeps the inside of a document with the bucket; "" keeps none. What is so already is not written again.
func (q *request) keepDocument(sub, inside string) error {
	if attr(q.bucket.Attrs, sub) == inside {
		return nil
	}
	return q.updateBucket(func(b *core.BucketInfo) error {
		b.Attrs = setAttr(b.Attrs, sub, inside)
		return nil
	})
}

// setAttr gives an attribute another value, and takes it away where that is "". It changes the list that it gets.
func setAttr(attrs []core.Attr, name, value string) []core.Attr {
	attrs = slices.DeleteFunc(attrs, func(a core.Attr) bool { return a.Name == name })
	if value != "" {
		attrs = append(attrs, core.Attr{Name: name, Value: value})
	}
	return attrs
}

// listConfigurations answers for a bucket that has no configurations of a kind.
func (q *request) listConfigurations(root string) error {
	if _, one := q.query.get("id"); one {
		return errNoConfiguration
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin(root)
	x.bool("IsTruncated", false)
	x.close(root)
	q.sendXML(http.StatusOK, x)
	return nil
}

// readConfiguration reads the document of a request that must have one.
func (q *request) readConfiguration() ([]byte, error) {
	doc, _, err := q.readBody()
	if err == nil && len(doc) == 0 {
		err = errMissingBody
	}
	return doc, err
}

// readDocument reads and decodes the document of a request that must have one.
func (q *request) readDocument(into any) error {
	doc, err := q.readConfiguration()
	if err != nil {
		return err
	}
	return parseXML(doc, into)
}

func acceptTagging(doc []byte) (string, error) {
	var body taggingRequest
	if err := parseXML(doc, &body); err != nil {
		return "", err
	}
	return bucketTags(body.Set)
}

func acceptOwnership(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name `xml:"OwnershipControls"`
		Rules   []struct {
			Ownership string `xml:"ObjectOwnership"`
		} `xml:"Rule"`
	}
	if err := parseXML(doc, &body); err != nil {
		return "", err
	}
	if len(body.Rules) != 1 {
		return "", errMalformedXML
	}
	switch body.Rules[0].Ownership {
	case "BucketOwnerEnforced":
		return enforced, nil
	case "BucketOwnerPreferred", "ObjectWriter":
		return "", notServed("ACLs")
	}
	return "", errMalformedXML
}

// acceptPublicBlock keeps any setting: nothing is public, whatever it says.
func acceptPublicBlock(doc []byte) (string, error) {
	var body struct {
		XMLName               xml.Name `xml:"PublicAccessBlockConfiguration"`
		BlockPublicAcls       *xmlBool `xml:"BlockPublicAcls"`
		IgnorePublicAcls      *xmlBool `xml:"IgnorePublicAcls"`
		BlockPublicPolicy     *xmlBool `xml:"BlockPublicPolicy"`
		RestrictPublicBuckets *xmlBool `xml:"RestrictPublicBuckets"`
	}
	if err := parseXML(doc, &body); err != nil {
		return "", err
	}
	var x xmlWriter
	x.bool("BlockPublicAcls", body.BlockPublicAcls.is())
	x.bool("IgnorePublicAcls", body.IgnorePublicAcls.is())
	x.bool("BlockPublicPolicy", body.BlockPublicPolicy.is())
	x.bool("RestrictPublicBuckets", body.RestrictPublicBuckets.is())
	return string(x.b), nil
}

func acceptPayer(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name `xml:"RequestPaymentConfiguration"`
		Payer   string   `xml:"Payer"`
	}
	if err := parseXML(doc, &body); err != nil {
		return "", err
	}
	switch body.Payer {
	case "BucketOwner":
		return "", nil
	case "Requester":
		return "", notServed("Payment by the requester")
	}
	return "", errMalformedXML
}

func acceptAccelerate(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name `xml:"AccelerateConfiguration"`
		Status  string   `xml:"Status"`
	}
	if err := parseXML(doc, &body); err != nil {
		return "", err
	}
	switch body.Status {
	case "Suspended":
		return "<Status>Suspended</Status>", nil
	case "Enabled":
		return "", notServed("Transfer acceleration")
	}
	return "", errMalformedXML
}

func acceptLogging(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name  `xml:"BucketLoggingStatus"`
		Enabled *struct{} `xml:"LoggingEnabled"`
	}
	err := parseXML(doc, &body)
	if err == nil && body.Enabled != nil {
		err = notServed("Logging to a bucket")
	}
	return "", err
}

func acceptNotification(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name   `xml:"NotificationConfiguration"`
		Topics  []struct{} `xml:"TopicConfiguration"`
		Queues  []struct{} `xml:"QueueConfiguration"`
		Lambdas []struct{} `xml:"CloudFunctionConfiguration"`
		Bridge  []struct{} `xml:"EventBridgeConfiguration"`
	}
	err := parseXML(doc, &body)
	if err == nil && len(body.Topics)+len(body.Queues)+len(body.Lambdas)+len(body.Bridge) > 0 {
		err = notServed("Notification")
	}
	return "", err
}

func notServed(what string) error { return errNotImplemented.say(what + " is not implemented.") }

// xmlBool is a boolean of XML Schema: true, false, 1 or 0; SDKs of some languages write a capital letter.
type xmlBool bool

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *xmlBool) UnmarshalText(text []byte) error {
	switch strings.ToLower(strings.TrimSpace(string(text))) {
	case "true", "1":
		*b = true
	case "false", "0":
		*b = false
	default:
		return errMalformedXML
	}
	return nil
}

func (b *xmlBool) is() bool { return b != nil && bool(*b) }
