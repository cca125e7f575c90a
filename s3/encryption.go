package s3

import (
	"crypto/md5"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"orcas/core"
	"orcas/core/codec"
	"orcas/vfs"
)

// The headers of encryption, by their canonical names. Those of a copy's source have copySourceSSE in front.
const (
	sseHeader     = "X-Amz-Server-Side-Encryption"
	copySourceSSE = "X-Amz-Copy-Source-Server-Side-Encryption"
	sseAlgorithm  = "-Customer-Algorithm"
	sseKey        = "-Customer-Key"
	sseKeyMD5     = "-Customer-Key-Md5"

	// sseArgument is what S3 names in errors about any of these headers.
	sseArgument = "x-amz-server-side-encryption"
)

// What is stored of encryption with a version. Where it is the store that encrypts, the attribute is the header of its answers. Where it is the customer's key,
// the attribute is a salted value by which the key is known again; it is never sent.
const (
	storeAttr    = sseHeader
	customerAttr = "orcas-customer-key"

	aes256 = "AES256"
)

// encryptionHeaders says which headers of encryption an operation takes.
type encryptionHeaders uint8

const (
	takesStore    encryptionHeaders = 1 << iota // x-amz-server-side-encryption
	takesCustomer                               // x-amz-server-side-encryption-customer-*
	takesSource                                 // x-amz-copy-source-server-side-encryption-customer-*
)

// encryptionOf returns which headers of encryption an operation takes.
func encryptionOf(operation string) encryptionHeaders {
	switch operation {
	case "PutObject", "CreateMultipartUpload":
		return takesStore | takesCustomer
	case "CopyObject":
		return takesStore | takesCustomer | takesSource
	case "UploadPartCopy":
		return takesCustomer | takesSource
	case "FindContent":
		return takesStore
	case "GetObject", "HeadObject", "GetObjectAttributes", "UploadPart", "CompleteMultipartUpload", "ListParts":
		return takesCustomer
	}
	return 0
}

// isEncryptionHeader says whether a header, by its canonical name, is one of encryption.
func isEncryptionHeader(name string) bool {
	return strings.HasPrefix(name, sseHeader) || strings.HasPrefix(name, copySourceSSE)
}

// checkEncryptionHeader refuses a header of encryption that the operation does not take, or whose effect is not served.
func (q *request) checkEncryptionHeader(name, value string) error {
	takes := encryptionOf(q.route.name)
	fits := false
	switch suffix, ofSource := strings.CutPrefix(name, copySourceSSE); {
	case ofSource:
		fits = takes&takesSource != 0 && isCustomerHeader(suffix)
	case isCustomerHeader(name[len(sseHeader):]):
		fits = takes&takesCustomer != 0
	case takes&takesStore == 0:
	case name != sseHeader: // a key id, a context, a bucket key: all of them are KMS's
		return errNoKMS
	default:
		if err := checkStoreEncryption(value); err != nil {
			return err
		}
		fits = true
	}
	if !fits { // and the value, which may be a key, is not quoted
		name = strings.ToLower(name)
		return errInvalidArgument.say(name+" header is not supported for this operation.").with("ArgumentName", name)
	}
	q.encryptionSent = true
	return nil
}

// isCustomerHeader says whether a header with this end brings a customer's key.
func isCustomerHeader(suffix string) bool {
	return suffix == sseAlgorithm || suffix == sseKey || suffix == sseKeyMD5
}

func checkStoreEncryption(value string) error {
	switch value {
	case aes256:
		return nil
	case "aws:kms", "aws:kms:dsse", "aws:fsx", "aws:backup":
		return errNoKMS
	}
	return errInvalidArgument.say("The encryption method specified is not supported").
		with("ArgumentName", sseArgument).with("ArgumentValue", value)
}

// encryption is how the content of a version is encrypted, or is to be.
type encryption struct {
	vfs.Encryption
	md5 string // of the customer's key, as the request has it
}

// customerKey reads the customer's key from the headers with a prefix; a nil key: there is none.
func (q *request) customerKey(prefix string) (key *codec.Key, sum string, err error) {
	h := q.r.Header
	alg, text := h[prefix+sseAlgorithm], h[prefix+sseKey]
	sum = first(h, prefix+sseKeyMD5)
	if len(alg) == 0 && len(text) == 0 && sum == "" {
		return nil, "", nil
	}
	bad := func(message string) error {
		return errInvalidArgument.say("Requests specifying Server Side Encryption with Customer provided keys must provide "+message).
			with("ArgumentName", sseArgument)
	}
	switch {
	case q.r.TLS == nil && !q.s.customerKeysOverHTTP:
		return nil, "", errInvalidRequest.say("Requests specifying Server Side Encryption with Customer provided keys must be made over a secure connection.")
	case len(alg) == 0:
		return nil, "", bad("a valid encryption algorithm.")
	case alg[0] != aes256:
		return nil, "", errInvalidAlgorithm.with("ArgumentValue", alg[0])
	case len(text) == 0:
		return nil, "", bad("an appropriate secret key.")
	case sum == "":
		return nil, "", bad("the client calculated MD5 of the secret key.")
	}
	secret, err := base64.StdEncoding.DecodeString(text[0])
	if err != nil {
		return nil, "", errKeyLength
	}
	want := md5.Sum(secret)
	got, err := base64.StdEncoding.DecodeString(sum)
	if err != nil || subtle.ConstantTimeCompare(got, want[:]) != 1 {
		return nil, "", errInvalidArgument.say("The calculated MD5 hash of the key did not match the hash that was provided.").
			with("ArgumentName", sseArgument)
	}
	if key, err = codec.NewKey(secret); err != nil {
		return nil, "", errKeyLength
	}
	return key, sum, nil
}

// askedEncryption returns how the request, or else its bucket, wants new content encrypted.
func (q *request) askedEncryption() (encryption, error) {
	var e encryption
	if q.encryptionSent {
		if err := q.sentEncryption(&e); err != nil {
			return encryption{}, err
		}
	}
	if e.Customer != nil {
		if blocksCustomerKeys(q.bucket) {
			return encryption{}, errAccessDenied.say("Server Side Encryption with Customer provided keys is blocked for this bucket.")
		}
		return e, nil
	}
	e.Store = e.Store || q.s.fs.EncryptsBucket(q.bucket)
	if e.Store && !q.s.fs.HasKey() {
		return encryption{}, errNoMasterKey
	}
	return e, nil
}

// sentEncryption reads the headers of encryption of the content to be.
func (q *request) sentEncryption(e *encryption) (err error) {
	h := q.r.Header
	method := first(h, sseHeader)
	if method != "" && len(h[sseHeader+sseAlgorithm])+len(h[sseHeader+sseKey])+len(h[sseHeader+sseKeyMD5]) > 0 {
		return errInvalidArgument.say("Server Side Encryption with Customer provided key is incompatible with the encryption method specified").
			with("ArgumentName", sseArgument).with("ArgumentValue", method)
	}
	e.Store = method != ""
	e.Customer, e.md5, err = q.customerKey(sseHeader)
	return err
}

// attrs appends what is stored of e with a version.
func (e *encryption) attrs(attrs []core.Attr) []core.Attr {
	switch {
	case e.Customer != nil:
		return append(attrs, core.Attr{Name: customerAttr, Value: base64.StdEncoding.EncodeToString(e.Customer.Check())})
	case e.Store:
		return append(attrs, core.Attr{Name: storeAttr, Value: aes256})
	}
	return attrs
}

// setEncryption answers how content is encrypted.
func (q *request) setEncryption(e *encryption) {
	switch {
	case e.Customer != nil:
		q.set(sseHeader+sseAlgorithm, aes256)
		q.set(sseHeader+sseKeyMD5, e.md5)
	case e.Store:
		q.set(sseHeader, aes256)
	}
}

// storedEncryption finds out how a version or an upload with these attributes is encrypted, and reads the customer's key that it takes from the
// headers with a prefix. missing and wrong are the answers to no key and to another one.
func (q *request) storedEncryption(attrs []core.Attr, prefix string, missing, wrong *apiError) (e encryption, err error) {
	check := attr(attrs, customerAttr)
	if q.encryptionSent {
		e.Customer, e.md5, err = q.customerKey(prefix)
	}
	switch {
	case err == errKeyLength && check != "": // what is no key is not the key
		return encryption{}, wrong
	case err != nil:
		return encryption{}, err
	case check == "" && e.Customer != nil:
		return encryption{}, errInvalidRequest.say("The encryption parameters are not applicable to this object.")
	case check == "":
		e.Store = attr(attrs, storeAttr) != ""
		return e, nil
	case e.Customer == nil:
		return encryption{}, missing
	case !keyFits(e.Customer, check):
		return encryption{}, wrong
	}
	return e, nil
}

// keyFits says whether a customer's key is the one of which check is kept.
func keyFits(key *codec.Key, check string) bool {
	value, err := base64.StdEncoding.DecodeString(check)
	return err == nil && key.Is(value)
}

// isEncrypted says whether all content of a version is encrypted.
func isEncrypted(o *core.ObjectInfo) bool {
	return attr(o.Attrs, storeAttr) != "" || attr(o.Attrs, customerAttr) != ""
}

// unlock demands the customer's key where a version takes one, and answers how it is encrypted. With an object, that can be read then.
func (q *request) unlock(info *core.ObjectInfo, object *vfs.Object) error {
	e, err := q.storedEncryption(info.Attrs, sseHeader, errKeyNeeded, errWrongKey)
	if err == nil && object != nil {
		object.Unlock(e.Customer)
	}
	q.encryption = e
	return err
}

// uploadEncryption says how the parts of an upload are encrypted: as it was begun.
func (q *request) uploadEncryption(u *core.UploadInfo) error {
	e, err := q.storedEncryption(u.Attrs, sseHeader, errKeyForPart, errOtherKey)
	if err == nil && e.Store && !q.s.fs.HasKey() {
		err = errNoMasterKey
	}
	q.encryption = e
	return err
}

// sourceEncryption says how the source of a copy is encrypted.
func (q *request) sourceEncryption(from *core.ObjectInfo) (encryption, error) {
	return q.storedEncryption(from.Attrs, copySourceSSE, errKeyNeeded, errWrongKey)
}

// recoding says how a copy has to be encrypted anew; nil: it refers to the content of its source, which is encrypted as it should be. What the store has
// encrypted stays so, also where nobody asks for it, and to says so then.
func recoding(from *core.ObjectInfo, old encryption, to *encryption) *vfs.Recode {
	switch {
	case old.Customer != nil && to.Customer != nil && keyFits(to.Customer, attr(from.Attrs, customerAttr)):
		return nil
	case old.Customer == nil && to.Customer == nil && (old.Store || !to.Store):
		to.Store = old.Store
		return nil
	}
	return &vfs.Recode{From: old.Customer, To: to.Encryption}
}

// changesEncryption says whether a copy onto itself asks for encryption, which is a change.
func (q *request) changesEncryption() bool {
	h := q.r.Header
	return len(h[sseHeader]) > 0 || len(h[sseHeader+sseAlgorithm]) > 0
}

// appendEncryption returns how a version is encrypted that content is to be appended to. With a customer's key the content comes under the same
// key. That of the store, and of a bucket that encrypts, is encrypted by the store.
func (q *request) appendEncryption(base *core.ObjectInfo) (encryption, error) {
	e, err := q.storedEncryption(base.Attrs, sseHeader, errKeyNeeded, errWrongKey)
	if err == nil && !e.Store && len(q.r.Header[sseHeader]) > 0 {
		err = errOtherKey
	}
	if err == nil && e.Store {
		q.encryption.Store = true
		if !q.s.fs.HasKey() {
			err = errNoMasterKey
		}
	}
	return e, err
}
