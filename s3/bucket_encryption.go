package s3

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strings"

	"orcas/core"
)

// encryptionSub is the sub-resource of a bucket that says how new content is encrypted. What a write needs of it is core.BucketInfo.Encrypted; the
// inside of the document is an attribute of the bucket, as of other documents.
const encryptionSub = "encryption"

const (
	blocksSSEC  = "<EncryptionType>SSE-C</EncryptionType>"
	defaultRule = "<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>" +
		"<BucketKeyEnabled>false</BucketKeyEnabled></Rule>"
)

// blocksCustomerKeys says whether a bucket takes no content that is encrypted with customers' keys.
func blocksCustomerKeys(b *core.BucketInfo) bool {
	return strings.Contains(attr(b.Attrs, encryptionSub), blocksSSEC)
}

// encryptionDocument is the body of PutBucketEncryption.
type encryptionDocument struct {
	XMLName xml.Name `xml:"ServerSideEncryptionConfiguration"`
	Rules   []struct {
		Default *struct {
			Algorithm string  `xml:"SSEAlgorithm"`
			KeyID     *string `xml:"KMSMasterKeyID"`
		} `xml:"ApplyServerSideEncryptionByDefault"`
		BucketKey *xmlBool `xml:"BucketKeyEnabled"`
		Blocked   *struct {
			Types []string `xml:"EncryptionType"`
		} `xml:"BlockedEncryptionTypes"`
	} `xml:"Rule"`
}

// acceptEncryption reads the document: whether new content is encrypted, and the inside to be kept. That a bucket key is wanted changes nothing
// without KMS, as in S3; it is kept and told.
func acceptEncryption(doc []byte) (encrypted bool, inside string, err error) {
	var body encryptionDocument
	if err := parseXML(doc, &body); err != nil {
		return false, "", err
	}
	if len(body.Rules) != 1 || body.Rules[0].Default == nil && body.Rules[0].Blocked == nil {
		return false, "", errMalformedXML
	}
	rule := &body.Rules[0]
	var x xmlWriter
	x.open("Rule")
	if d := rule.Default; d != nil {
		switch d.Algorithm {
		case aes256:
		case "aws:kms", "aws:kms:dsse":
			return false, "", errNoKMS
		default:
			return false, "", errMalformedXML
		}
		if d.KeyID != nil {
			return false, "", argument("KMSMasterKeyID", *d.KeyID, "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse")
		}
		x.open("ApplyServerSideEncryptionByDefault")
		x.text("SSEAlgorithm", aes256)
		x.close("ApplyServerSideEncryptionByDefault")
	}
	x.bool("BucketKeyEnabled", rule.BucketKey.is())
	if rule.Blocked != nil {
		if !slices.Equal(rule.Blocked.Types, []string{"NONE"}) && !slices.Equal(rule.Blocked.Types, []string{"SSE-C"}) {
			return false, "", errMalformedXML
		}
		x.open("BlockedEncryptionTypes")
		x.text("EncryptionType", rule.Blocked.Types[0])
		x.close("BlockedEncryptionTypes")
	}
	x.close("Rule")
	return rule.Default != nil, string(x.b), nil
}

func (q *request) putBucketEncryption() error {
	doc, err := q.readConfiguration()
	if err != nil {
		return err
	}
	encrypted, inside, err := acceptEncryption(doc)
	if err != nil {
		return err
	}
	if encrypted && !q.s.fs.HasKey() {
		return errNoMasterKey
	}
	if err := q.keepEncryption(encrypted, inside); err != nil {
		return err
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

// getBucketEncryption answers for a bucket never configured what holds: that of a server that encrypts everything has the default of S3.
func (q *request) getBucketEncryption() error {
	inside := attr(q.bucket.Attrs, encryptionSub)
	if inside == "" && q.s.fs.EncryptsBucket(q.bucket) {
		inside = defaultRule
	}
	if inside == "" {
		return errNoEncryption
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("ServerSideEncryptionConfiguration")
	x.b = append(x.b, inside...)
	x.close("ServerSideEncryptionConfiguration")
	q.sendXML(http.StatusOK, x)
	return nil
}

func (q *request) deleteBucketEncryption() error {
	if err := q.keepEncryption(false, ""); err != nil {
		return err
	}
	q.sendEmpty(http.StatusNoContent)
	return nil
}

// keepEncryption writes what a bucket says of encryption.
func (q *request) keepEncryption(encrypted bool, inside string) error {
	if q.bucket.Encrypted == encrypted && attr(q.bucket.Attrs, encryptionSub) == inside {
		return nil
	}
	return q.updateBucket(func(b *core.BucketInfo) error {
		b.Encrypted = encrypted
		b.Attrs = setAttr(b.Attrs, encryptionSub, inside)
		return nil
	})
}
