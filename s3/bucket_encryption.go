package s3

import (
	"encoding/xml"
	"slices"
	"strings"

	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/xmldoc"
)

// encryptionSub is the sub-resource of a bucket that configures the encryption of new content. Writes only need
// core.BucketInfo.Encrypted. The XML inside the root element is stored as an attribute of the bucket, as for other
// documents.
const encryptionSub = "encryption"

const (
	blocksSSEC  = "<EncryptionType>SSE-C</EncryptionType>"
	defaultRule = "<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>" +
		"<BucketKeyEnabled>false</BucketKeyEnabled></Rule>"
)

// blocksCustomerKeys reports whether a bucket refuses content that is encrypted with customer keys.
func blocksCustomerKeys(b *core.BucketInfo) bool {
	return strings.Contains(core.AttrValue(b.Attrs, encryptionSub), blocksSSEC)
}

// encryptionDocument is the body of PutBucketEncryption.
type encryptionDocument struct {
	XMLName xml.Name `xml:"ServerSideEncryptionConfiguration"`
	Rules   []struct {
		Default *struct {
			Algorithm string  `xml:"SSEAlgorithm"`
			KeyID     *string `xml:"KMSMasterKeyID"`
		} `xml:"ApplyServerSideEncryptionByDefault"`
		BucketKey *xmldoc.Bool `xml:"BucketKeyEnabled"`
		Blocked   *struct {
			Types []string `xml:"EncryptionType"`
		} `xml:"BlockedEncryptionTypes"`
	} `xml:"Rule"`
}

// acceptEncryption parses the document. It returns whether new content is encrypted, and the XML inside the root
// element, to be stored. As in S3, a bucket key has no effect without KMS, but the setting is stored and returned.
func acceptEncryption(doc []byte) (encrypted bool, inside string, err error) {
	var body encryptionDocument
	if err := xmldoc.Parse(doc, &body); err != nil {
		return false, "", err
	}
	if len(body.Rules) != 1 || body.Rules[0].Default == nil && body.Rules[0].Blocked == nil {
		return false, "", errMalformedXML
	}
	rule := &body.Rules[0]
	var x xmldoc.Writer
	x.Open("Rule")
	if d := rule.Default; d != nil {
		switch d.Algorithm {
		case aes256:
		case "aws:kms", "aws:kms:dsse":
			return false, "", errNoKMS
		default:
			return false, "", errMalformedXML
		}
		if d.KeyID != nil {
			return false, "", apierr.Argument("KMSMasterKeyID", *d.KeyID, "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse")
		}
		x.Open("ApplyServerSideEncryptionByDefault")
		x.Text("SSEAlgorithm", aes256)
		x.Close("ApplyServerSideEncryptionByDefault")
	}
	x.Bool("BucketKeyEnabled", rule.BucketKey.Is())
	if rule.Blocked != nil {
		if !slices.Equal(rule.Blocked.Types, []string{"NONE"}) && !slices.Equal(rule.Blocked.Types, []string{"SSE-C"}) {
			return false, "", errMalformedXML
		}
		x.Open("BlockedEncryptionTypes")
		x.Text("EncryptionType", rule.Blocked.Types[0])
		x.Close("BlockedEncryptionTypes")
	}
	x.Close("Rule")
	return rule.Default != nil, string(x.Buf), nil
}

func putBucketEncryption(q *request) error {
	doc, err := readConfiguration(q)
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
	return storeEncryption(q, encrypted, inside)
}

// getBucketEncryption writes the encryption document of a bucket. If there is none and the server encrypts everything,
// it writes the default of S3.
func getBucketEncryption(q *request, x *xmldoc.Writer) error {
	inside := core.AttrValue(q.bucket.Attrs, encryptionSub)
	if inside == "" && q.s.fs.EncryptsBucket(q.bucket) {
		inside = defaultRule
	}
	if inside == "" {
		return errNoEncryption
	}
	x.Begin("ServerSideEncryptionConfiguration")
	x.Buf = append(x.Buf, inside...)
	x.Close("ServerSideEncryptionConfiguration")
	return nil
}

func deleteBucketEncryption(q *request) error {
	return storeEncryption(q, false, "")
}

// storeEncryption stores the encryption settings of the bucket, unless they are unchanged.
func storeEncryption(q *request, encrypted bool, inside string) error {
	if q.bucket.Encrypted == encrypted && core.AttrValue(q.bucket.Attrs, encryptionSub) == inside {
		return nil
	}
	return updateBucket(q, func(b *core.BucketInfo) error {
		b.Encrypted = encrypted
		b.Attrs = core.SetAttr(b.Attrs, encryptionSub, inside)
		return nil
	})
}
