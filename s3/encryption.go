package s3

import (
	"crypto/md5"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"

	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/s3/apierr"
	"orcas/vfs"
)

// Canonical names of the encryption headers. The headers for the source of a copy begin with copySourceSSE.
const (
	sseHeader     = "X-Amz-Server-Side-Encryption"
	copySourceSSE = "X-Amz-Copy-Source-Server-Side-Encryption"
	sseAlgorithm  = "-Customer-Algorithm"
	sseKey        = "-Customer-Key"
	sseKeyMD5     = "-Customer-Key-Md5"

	// sseArgument is the ArgumentName in S3's errors about any of these headers.
	sseArgument = "x-amz-server-side-encryption"
)

// Attributes of a version that describe its encryption. If the store encrypts the version, the attribute is also the
// response header. If the version is encrypted with a customer key, the attribute is a salted value that identifies the
// key and is never sent.
const (
	storeAttr    = sseHeader
	customerAttr = "orcas-customer-key"

	aes256 = "AES256"
)

// encryptionHeaders is the set of encryption headers that an operation accepts.
type encryptionHeaders uint8

const (
	takesStore    encryptionHeaders = 1 << iota // x-amz-server-side-encryption
	takesCustomer                               // x-amz-server-side-encryption-customer-*
	takesSource                                 // x-amz-copy-source-server-side-encryption-customer-*
	takesSame                                   // x-amz-server-side-encryption, if equal to the upload's
)

// encryptionOf returns the encryption headers that an operation accepts.
func encryptionOf(operation string) encryptionHeaders {
	switch operation {
	case "PutObject", "PostObject", "CreateMultipartUpload":
		return takesStore | takesCustomer
	case "CopyObject":
		return takesStore | takesCustomer | takesSource
	case "UploadPartCopy":
		return takesCustomer | takesSource | takesSame
	case "UploadPart", "CompleteMultipartUpload":
		return takesCustomer | takesSame
	case "FindContent":
		return takesStore
	case "GetObject", "HeadObject", "GetObjectAttributes", "ListParts":
		return takesCustomer
	}
	return 0
}

// isEncryptionHeader reports whether name, in canonical form, is an encryption header.
func isEncryptionHeader(name string) bool {
	return strings.HasPrefix(name, sseHeader) || strings.HasPrefix(name, copySourceSSE)
}

// checkEncryptionHeader refuses an encryption header that the operation does not accept or that is not implemented.
func (q *request) checkEncryptionHeader(name, value string) error {
	takes := encryptionOf(q.route.Name)
	fits := false
	switch suffix, ofSource := strings.CutPrefix(name, copySourceSSE); {
	case ofSource:
		fits = takes&takesSource != 0 && isCustomerHeader(suffix)
	case isCustomerHeader(name[len(sseHeader):]):
		fits = takes&takesCustomer != 0
	case takes&takesStore == 0 && (takes&takesSame == 0 || name != sseHeader):
	case name != sseHeader: // a key id, a context, a bucket key: all of them belong to KMS
		return errNoKMS
	default:
		if err := checkStoreEncryption(value); err != nil {
			return err
		}
		fits = true
	}
	if !fits { // the error does not quote the value, which may be a key
		name = strings.ToLower(name)
		return apierr.Argument(name, "", name+" header is not supported for this operation.")
	}
	q.optional |= headerEncryption
	return nil
}

// isCustomerHeader reports whether a header that ends with suffix belongs to a customer key.
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
	return errInvalidArgument.Say("The encryption method specified is not supported").
		With("ArgumentName", sseArgument).With("ArgumentValue", value)
}

// encryption describes how the content of a version is, or will be, encrypted.
type encryption struct {
	content.Encryption
	md5 string // MD5 of the customer key, as in the request
}

// customerKey reads the customer key from the headers that begin with prefix. The key is nil if there is none.
func customerKey(q *request, prefix string) (key *codec.Key, sum string, err error) {
	h := q.r.Header
	alg, text := h[prefix+sseAlgorithm], h[prefix+sseKey]
	sum = first(h, prefix+sseKeyMD5)
	if len(alg) == 0 && len(text) == 0 && sum == "" {
		return nil, "", nil
	}
	bad := func(message string) error {
		return apierr.Argument(sseArgument, "", "Requests specifying Server Side Encryption with Customer provided keys must provide "+message)
	}
	switch {
	case q.r.TLS == nil && !q.s.allowed.CustomerKeysOverHTTP:
		return nil, "", errInvalidRequest.Say("Requests specifying Server Side Encryption with Customer provided keys must be made over a secure connection.")
	case len(alg) == 0:
		return nil, "", bad("a valid encryption algorithm.")
	case alg[0] != aes256:
		return nil, "", errInvalidAlgorithm.With("ArgumentValue", alg[0])
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
		return nil, "", apierr.Argument(sseArgument, "", "The calculated MD5 hash of the key did not match the hash that was provided.")
	}
	if key, err = codec.NewKey(secret); err != nil {
		return nil, "", errKeyLength
	}
	return key, sum, nil
}

// askedEncryption returns the encryption for new content: as requested, or else as configured for the bucket.
func askedEncryption(q *request) (e encryption, err error) {
	if q.optional&headerEncryption != 0 {
		if e, err = sentEncryption(q); err != nil {
			return encryption{}, err
		}
	}
	if e.Customer != nil {
		if blocksCustomerKeys(q.bucket) {
			return encryption{}, errAccessDenied.Say("Server Side Encryption with Customer provided keys is blocked for this bucket.")
		}
		return e, nil
	}
	e.Store = e.Store || q.s.fs.EncryptsBucket(q.bucket)
	if e.Store && !q.s.fs.HasKey() {
		return encryption{}, errNoMasterKey
	}
	return e, nil
}

// sentEncryption reads the encryption headers of a request with new content.
func sentEncryption(q *request) (e encryption, err error) {
	h := q.r.Header
	method := first(h, sseHeader)
	if method != "" && len(h[sseHeader+sseAlgorithm])+len(h[sseHeader+sseKey])+len(h[sseHeader+sseKeyMD5]) > 0 {
		return e, apierr.Argument(sseArgument, method, "Server Side Encryption with Customer provided key is incompatible with the encryption method specified")
	}
	e.Store = method != ""
	e.Customer, e.md5, err = customerKey(q, sseHeader)
	return e, err
}

// attrs appends the attributes that a version stores about e.
func (e *encryption) attrs(attrs []core.Attr) []core.Attr {
	switch {
	case e.Customer != nil:
		return append(attrs, core.Attr{Name: customerAttr, Value: base64.StdEncoding.EncodeToString(e.Customer.Check())})
	case e.Store:
		return append(attrs, core.Attr{Name: storeAttr, Value: aes256})
	}
	return attrs
}

// setHeaders sets the encryption headers of the response.
func (e *encryption) setHeaders(q *request) {
	switch {
	case e.Customer != nil:
		q.set(sseHeader+sseAlgorithm, aes256)
		q.set(sseHeader+sseKeyMD5, e.md5)
	case e.Store:
		q.set(sseHeader, aes256)
	}
}

// storedEncryption returns the encryption of a version or an upload with these attributes. If that needs a customer
// key, the key is read from the headers that begin with prefix. It returns missing if the request has no key, and wrong
// if it has a different one.
func storedEncryption(q *request, attrs []core.Attr, prefix string, missing, wrong *apierr.Error) (e encryption, err error) {
	check := core.AttrValue(attrs, customerAttr)
	if q.optional&headerEncryption != 0 {
		e.Customer, e.md5, err = customerKey(q, prefix)
	}
	switch {
	case err == errKeyLength && check != "": // an invalid key is also a wrong key
		return encryption{}, wrong
	case err != nil:
		return encryption{}, err
	case check == "" && e.Customer != nil:
		return encryption{}, errInvalidRequest.Say("The encryption parameters are not applicable to this object.")
	case check == "":
		e.Store = core.AttrValue(attrs, storeAttr) != ""
		return e, nil
	case e.Customer == nil:
		return encryption{}, missing
	case !keyFits(e.Customer, check):
		return encryption{}, wrong
	}
	return e, nil
}

// keyFits reports whether key is the customer key that check identifies.
func keyFits(key *codec.Key, check string) bool {
	value, err := base64.StdEncoding.DecodeString(check)
	return err == nil && key.Is(value)
}

// isEncrypted reports whether all content of a version is encrypted.
func isEncrypted(o *core.ObjectInfo) bool {
	return core.AttrValue(o.Attrs, storeAttr) != "" || core.AttrValue(o.Attrs, customerAttr) != ""
}

// unlock returns the encryption of a version, and requires the customer key if one is needed. After that, object can be
// read, unless it is nil.
func unlock(q *request, info *core.ObjectInfo, object *vfs.Object) (encryption, error) {
	e, err := storedEncryption(q, info.Attrs, sseHeader, errKeyNeeded, errWrongKey)
	if err == nil && object != nil {
		object.Unlock(e.Customer)
	}
	return e, err
}

// uploadEncryption returns the encryption for the parts of an upload, which was chosen when the upload was created. A
// request that specifies an encryption, as minio-go does in every request of an upload, must specify the same one.
func uploadEncryption(q *request, u *core.UploadInfo) (encryption, error) {
	e, err := storedEncryption(q, u.Attrs, sseHeader, errKeyForPart, errOtherKey)
	switch {
	case err != nil:
	case !e.Store && len(q.r.Header[sseHeader]) > 0:
		err = errOtherKey
	case e.Store && !q.s.fs.HasKey():
		err = errNoMasterKey
	}
	return e, err
}

// sourceEncryption returns the encryption of the source of a copy.
func sourceEncryption(q *request, from *core.ObjectInfo) (encryption, error) {
	return storedEncryption(q, from.Attrs, copySourceSSE, errKeyNeeded, errWrongKey)
}

// recoding returns how to re-encrypt the content of a copy. It returns nil if the content of the source is already
// encrypted as required, in which case the copy refers to that content. Content that the store has encrypted is kept
// encrypted even if the request does not ask for it; to is changed accordingly.
func recoding(from *core.ObjectInfo, old encryption, to *encryption) *vfs.Recode {
	switch {
	case old.Customer != nil && to.Customer != nil && keyFits(to.Customer, core.AttrValue(from.Attrs, customerAttr)):
		return nil
	case old.Customer == nil && to.Customer == nil && (old.Store || !to.Store):
		to.Store = old.Store
		return nil
	}
	return &vfs.Recode{From: old.Customer, To: to.Encryption}
}

// asksForEncryption reports whether the headers of a copy ask for encryption. If so, an object may be copied to itself.
func asksForEncryption(h http.Header) bool {
	return len(h[sseHeader]) > 0 || len(h[sseHeader+sseAlgorithm]) > 0
}

// toAppend returns the encryption of base, the version to append to, and makes e the encryption of the appended
// content: the same customer key, or the store's encryption if the version or the bucket is encrypted by the store.
func (e *encryption) toAppend(q *request, base *core.ObjectInfo) (encryption, error) {
	old, err := storedEncryption(q, base.Attrs, sseHeader, errKeyNeeded, errWrongKey)
	if err == nil && !old.Store && len(q.r.Header[sseHeader]) > 0 {
		err = errOtherKey
	}
	if err == nil && old.Store {
		e.Store = true
		if !q.s.fs.HasKey() {
			err = errNoMasterKey
		}
	}
	return old, err
}
