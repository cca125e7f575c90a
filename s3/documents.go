package s3

import (
	"cmp"
	"encoding/xml"
	"net/http"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/core"
	"orcas/gate"
	"orcas/s3/apierr"
	"orcas/s3/bucketaccess"
	"orcas/s3/cors"
	"orcas/s3/tagging"
	"orcas/s3/xmldoc"
)

// bucketDocument is a sub-resource of a bucket that is stored as it is. Except for CORS (cors.go) and the public access
// block (bucket_policy.go), it does not change the behavior of the server: either it describes behavior that is fixed, or
// it cannot be configured. The XML inside its root element is stored as an attribute of the
// bucket (core.BucketInfo.Attrs), under the name of its query parameter. If the effect of a document is not
// implemented, accept is nil and no operation stores the document.
type bucketDocument struct {
	sub     string // the query parameter
	name    string // name of the operations, without Get, Put and Delete
	action  string // name of the actions, without Get, Put and Delete; "" if it is the same as name
	root    string
	initial string        // the document of a bucket that has never been configured
	absent  *apierr.Error // the error if there is no document; if nil, an empty document is returned
	accept  func(doc []byte) (inside string, err error)
	status  int // HTTP status of the response to Put; 0 means 200
	deletes bool
}

// removed is stored instead of a deleted document if the sub-resource has an initial document.
const removed = bucketaccess.Removed

const enforced = "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>"

// documents returns the bucket sub-resources that are documents. A new bucket blocks public access and has ACLs
// disabled, as in S3 since 2023.
func documents() []bucketDocument {
	return []bucketDocument{
		{sub: "tagging", name: "BucketTagging", root: "Tagging", absent: errNoSuchTagSet, accept: acceptTagging, status: http.StatusNoContent, deletes: true},
		{sub: "ownershipControls", name: "BucketOwnershipControls", root: "OwnershipControls", initial: enforced, absent: errNoOwnership, accept: acceptOwnership, deletes: true},
		{sub: publicBlockSub, name: "PublicAccessBlock", action: "BucketPublicAccessBlock", root: "PublicAccessBlockConfiguration", initial: bucketaccess.BlocksAll, absent: errNoPublicBlock, accept: acceptPublicBlock, deletes: true},
		{sub: "requestPayment", name: "BucketRequestPayment", root: "RequestPaymentConfiguration", initial: "<Payer>BucketOwner</Payer>", accept: acceptPayer},
		{sub: "accelerate", name: "BucketAccelerateConfiguration", action: "AccelerateConfiguration", root: "AccelerateConfiguration", accept: acceptAccelerate},
		{sub: "logging", name: "BucketLogging", root: "BucketLoggingStatus", accept: acceptLogging},
		{sub: "notification", name: "BucketNotificationConfiguration", action: "BucketNotification", root: "NotificationConfiguration", accept: acceptNotification},
		{sub: "website", name: "BucketWebsite", absent: errNoWebsite, deletes: true},
		{sub: cors.Attr, name: "BucketCors", action: "BucketCORS", root: "CORSConfiguration", absent: errNoCORS, accept: acceptCORS, deletes: true},
		{sub: "replication", name: "BucketReplication", action: "ReplicationConfiguration", absent: errNoReplication, deletes: true},
	}
}

// configurations are sub-resources of which a bucket can have several, each with an ID. None can be stored, because the
// features that they configure are not implemented.
var configurations = [...]struct{ sub, name, root string }{
	{"analytics", "Analytics", "ListBucketAnalyticsConfigurationsResult"},
	{"inventory", "Inventory", "ListInventoryConfigurationsResult"},
	{"metrics", "Metrics", "ListMetricsConfigurationsResult"},
	{"intelligent-tiering", "IntelligentTiering", "ListBucketIntelligentTieringConfigurationsOutput"},
}

// documentRoutes returns the routes of the operations on documents.
func documentRoutes() []route {
	var routes []route
	add := func(method, name, permission, sub string) {
		routes = append(routes, route{Route: gate.Route{
			Name: name, Method: method, Level: gate.Bucket, Sub: sub, Action: auth.Action("s3:" + permission),
		}})
	}
	for _, d := range documents() {
		permission := cmp.Or(d.action, d.name)
		add(http.MethodGet, "Get"+d.name, "Get"+permission, d.sub)
		if d.accept != nil {
			add(http.MethodPut, "Put"+d.name, "Put"+permission, d.sub)
		}
		if d.deletes {
			verb := "Put" // the action for Put also covers Delete, with one exception
			if d.sub == "website" {
				verb = "Delete"
			}
			add(http.MethodDelete, "Delete"+d.name, verb+permission, d.sub)
		}
	}
	for _, c := range configurations {
		permission := c.name + "Configuration"
		add(http.MethodGet, "GetBucket"+permission, "Get"+permission, c.sub)
		add(http.MethodDelete, "DeleteBucket"+permission, "Put"+permission, c.sub)
	}
	return routes
}

// documentHandlers returns the handlers of the operations on documents.
func documentHandlers() map[string]handler {
	all := map[string]handler{}
	for _, d := range documents() {
		all["Get"+d.name] = document(d.get)
		if d.accept != nil {
			all["Put"+d.name] = empty(max(d.status, http.StatusOK), d.put)
		}
		if d.deletes {
			all["Delete"+d.name] = empty(http.StatusNoContent, d.delete)
		}
	}
	for _, c := range configurations {
		all["GetBucket"+c.name+"Configuration"] = document(func(q *request, x *xmldoc.Writer) error { return listConfigurations(q, x, c.root) })
		all["DeleteBucket"+c.name+"Configuration"] = func(*request) error { return errNoConfiguration }
	}
	return all
}

func (d *bucketDocument) get(q *request, x *xmldoc.Writer) error {
	inside := cmp.Or(core.AttrValue(q.bucket.Attrs, d.sub), d.initial)
	if d.absent != nil && (inside == "" || inside == removed) {
		return d.absent
	}
	x.Begin(d.root)
	x.Buf = append(x.Buf, inside...)
	x.Close(d.root)
	return nil
}

func (d *bucketDocument) put(q *request) error {
	doc, err := readConfiguration(q)
	if err != nil {
		return err
	}
	inside, err := d.accept(doc)
	if err != nil {
		return err
	}
	return d.store(q, inside)
}

func (d *bucketDocument) delete(q *request) error {
	if d.initial != "" {
		return d.store(q, removed)
	}
	return d.store(q, "")
}

// store stores the XML inside the root element of a document with the bucket, unless it is unchanged. If inside is "",
// store deletes the document.
func (d *bucketDocument) store(q *request, inside string) error {
	if core.AttrValue(q.bucket.Attrs, d.sub) == inside {
		return nil
	}
	return updateBucket(q, func(b *core.BucketInfo) error {
		b.Attrs = core.SetAttr(b.Attrs, d.sub, inside)
		return nil
	})
}

// listConfigurations writes the list of configurations of one kind, which is always empty.
func listConfigurations(q *request, x *xmldoc.Writer, root string) error {
	if _, one := q.query.get("id"); one {
		return errNoConfiguration
	}
	x.Begin(root)
	x.Bool("IsTruncated", false)
	x.Close(root)
	return nil
}

func acceptTagging(doc []byte) (string, error) {
	var body tagging.Document
	if err := xmldoc.Parse(doc, &body); err != nil {
		return "", err
	}
	return body.Set.OfBucket()
}

func acceptOwnership(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name `xml:"OwnershipControls"`
		Rules   []struct {
			Ownership string `xml:"ObjectOwnership"`
		} `xml:"Rule"`
	}
	if err := xmldoc.Parse(doc, &body); err != nil {
		return "", err
	}
	if len(body.Rules) != 1 {
		return "", errMalformedXML
	}
	switch body.Rules[0].Ownership {
	case "BucketOwnerEnforced":
		return enforced, nil
	case "BucketOwnerPreferred", "ObjectWriter":
		return "", apierr.Unserved("ACLs")
	}
	return "", errMalformedXML
}

// acceptPublicBlock accepts every setting. Those of ACLs have no effect, because there are no ACLs that grant something.
func acceptPublicBlock(doc []byte) (string, error) {
	var body struct {
		XMLName               xml.Name     `xml:"PublicAccessBlockConfiguration"`
		BlockPublicAcls       *xmldoc.Bool `xml:"BlockPublicAcls"`
		IgnorePublicAcls      *xmldoc.Bool `xml:"IgnorePublicAcls"`
		BlockPublicPolicy     *xmldoc.Bool `xml:"BlockPublicPolicy"`
		RestrictPublicBuckets *xmldoc.Bool `xml:"RestrictPublicBuckets"`
	}
	if err := xmldoc.Parse(doc, &body); err != nil {
		return "", err
	}
	return bucketaccess.EncodeBlock(policy.PublicAccessBlock{
		BlockPublicACLs: body.BlockPublicAcls.Is(), IgnorePublicACLs: body.IgnorePublicAcls.Is(),
		BlockPublicPolicy: body.BlockPublicPolicy.Is(), RestrictPublicBuckets: body.RestrictPublicBuckets.Is(),
	}), nil
}

func acceptPayer(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name `xml:"RequestPaymentConfiguration"`
		Payer   string   `xml:"Payer"`
	}
	if err := xmldoc.Parse(doc, &body); err != nil {
		return "", err
	}
	switch body.Payer {
	case "BucketOwner":
		return "", nil
	case "Requester":
		return "", apierr.Unserved("Payment by the requester")
	}
	return "", errMalformedXML
}

func acceptAccelerate(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name `xml:"AccelerateConfiguration"`
		Status  string   `xml:"Status"`
	}
	if err := xmldoc.Parse(doc, &body); err != nil {
		return "", err
	}
	switch body.Status {
	case "Suspended":
		return "<Status>Suspended</Status>", nil
	case "Enabled":
		return "", apierr.Unserved("Transfer acceleration")
	}
	return "", errMalformedXML
}

func acceptLogging(doc []byte) (string, error) {
	var body struct {
		XMLName xml.Name  `xml:"BucketLoggingStatus"`
		Enabled *struct{} `xml:"LoggingEnabled"`
	}
	err := xmldoc.Parse(doc, &body)
	if err == nil && body.Enabled != nil {
		err = apierr.Unserved("Logging to a bucket")
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
	err := xmldoc.Parse(doc, &body)
	if err == nil && len(body.Topics)+len(body.Queues)+len(body.Lambdas)+len(body.Bridge) > 0 {
		err = apierr.Unserved("Notification")
	}
	return "", err
}
