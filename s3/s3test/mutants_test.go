package s3test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant breaks one rule by changing the source of the server: in one file, it replaces a text that must occur exactly
// once.
type mutant struct {
	rule      string // the case that must fail: area/rule
	does      string // the effect of the mutant
	file      string // relative to the root of the module
	old, with string
}

var mutants = []mutant{
	{"service/list-buckets-max-large", "ListBuckets accepts any max-buckets", "s3/bucket.go", "limit < 1 || limit > maxBuckets", "limit < 1"},
	{"buckets/delete-with-upload", "DeleteBucket fails because of an upload in progress", "vfs/bucket.go", "} else if ended {", "} else if ended && err == nil {"},
	{"buckets/other-owner-writes", "x-amz-expected-bucket-owner is ignored", "s3/request.go", "v[0] != q.bucket.Owner", "v[0] == \"\""},
	{"buckets/create-acl-public", "CreateBucket rejects an ACL with the error of PutObject", "s3/acl.go", "return errNoBucketACLs", "return errNoACLs"},
	{"names/bucket-ipv4", "a bucket may be named like an IPv4 address", "s3/names.go", "name[0] <= '9' && net.ParseIP(name) != nil", "net.ParseIP(name) != nil && name == \"\""},
	{"names/key-1025-bytes-of-utf8", "the limit of a key's length is in characters", "s3/names.go", "if len(key) > MaxKeyBytes {", "if utf8.RuneCountInString(key) > MaxKeyBytes {"},
	{"names/key-climbs", "keys with .. segments may leave the bucket", "s3/gate.go", "if q.route.writes && !s.allowed.EscapingKeys && climbs(q.key) {", "if q.route.writes && s.allowed.EscapingKeys && climbs(q.key) {"},
	{"objects/acl-nonsense", "an unknown canned ACL is treated as private", "s3/acl.go", "\t\tdefault:\n\t\t\treturn errACLArgument", "\t\tdefault:\n\t\t\treturn nil\n\t\tcase \"-\":\n\t\t\treturn errACLArgument"},
	{"objects/acl-public", "canned ACLs fail with NotImplemented", "s3/acl.go", "\tif q.route.Name != \"CreateBucket\" {\n\t\treturn errNoACLs\n\t}", "\tif q.route.Name != \"CreateBucket\" {\n\t\treturn apierr.UnservedHeader(name)\n\t}"},
	{"objects/put-length-missing", "a PUT without a Content-Length creates an empty object", "s3/object_put.go", "if q.optional&headerInstant == 0 && lengthless(q.r) {", "if q.optional&headerInstant != 0 && lengthless(q.r) {"},
	{"objects/response-headers", "response-* parameters are ignored", "s3/headers.go", "if v := q.query.value(o.param); v != \"\" {", "if v := q.query.value(o.param); v == \"-\" {"},
	{"objects/storage-class-nonsense", "any storage class is accepted", "s3/headers.go", "return \"\", errInvalidStorage.With(\"StorageClassRequested\", v)", "return v, nil"},
	{"metadata/user-2049", "user metadata may be of any size", "s3/headers.go", "if size > maxMetadataBytes {", "if size < 0 {"},
	{"metadata/aws-chunked-among-others", "aws-chunked is stored as Content-Encoding", "s3/headers.go", "v = sigv4.StripAWSChunked(v)", "_ = sigv4.StripAWSChunked(v)"},
	{"metadata/aws-chunked-keeps-the-rest", "spaces between encodings are lost when aws-chunked is removed", "internal/sigv4/sigv4.go", "kept = append(kept, coding)", "kept = append(kept, name)"},
	{"ranges/suffix", "a suffix range returns the first bytes", "s3/conditions/range.go", "return Span{size - n, n}, true, nil", "return Span{0, n}, true, nil"},
	{"ranges/start-at-end", "a range that begins at the end is empty", "s3/conditions/range.go", "if first >= size {", "if first > size {"},
	{"ranges/if-range-other-etag", "If-Range is ignored", "s3/object_get.go", "return conditions.MatchesETag(v, info.ETag)", "return conditions.MatchesETag(v, info.ETag) || true"},
	{"conditions/match-beats-unmodified", "If-Unmodified-Since is evaluated together with If-Match", "s3/conditions/conditions.go", "} else if t, ok := Time(c.UnmodifiedSince); ok", "}\n\tif t, ok := Time(c.UnmodifiedSince); ok"},
	{"conditions/none-match-holds-modified-fails", "If-Modified-Since is evaluated together with If-None-Match", "s3/conditions/conditions.go", "} else if t, ok := Time(c.ModifiedSince); ok", "}\n\tif t, ok := Time(c.ModifiedSince); ok"},
	{"conditions/if-modified-since-future", "If-Modified-Since with a date in the future is evaluated", "s3/conditions/conditions.go", " && !t.After(now) {", " {"},
	{"write-conditions/none-match-there", "If-None-Match: * is ignored", "s3/conditions/conditions.go", "p.NoneMatch = []string{\"*\"}", ""},
	{"write-conditions/put-while-none-match", "conditions of a PUT are evaluated only before its body is read", "s3/object_put.go", ", If: v.precondition,", ","},
	{"write-conditions/delete-match-differs", "DELETE ignores If-Match", "s3/delete.go", "{{Key: q.key, Version: v, If: p, Bypass: bypass}}", "{{Key: q.key, Version: v, Bypass: bypass}}"},
	{"write-conditions/match-and-none-match", "If-Match and If-None-Match may be combined in a write", "s3/conditions/conditions.go", "if len(h[\"If-Match\"]) > 0 && len(h[\"If-None-Match\"]) > 0 {", "if len(h[\"If-Match\"]) > 0 && len(h[\"If-None-Match\"]) < 0 {"},
	{"write-conditions/complete-condition-before-parts", "CompleteMultipartUpload checks the parts before it evaluates conditions", "s3/complete.go", "if !op.again {\n\t\tswitch current", "if !op.again && len(req.Parts) > 0 {\n\t\tswitch current"},
	{"write-conditions/complete-match-written-since", "an object written since the upload began does not cause a conflict", "s3/complete.go", "current.Seq > core.Seq(op.id)", "current.Seq == core.Seq(op.id)"},
	{"list-v1/next-marker", "NextMarker is returned without a delimiter", "s3/list.go", "if l.page.Truncated && l.delimiter != \"\" {", "if l.page.Truncated {"},
	{"list-v1/max-keys-large", "MaxKeys repeats a max-keys above 1000", "s3/list.go", "l.limit = min(l.limit, maxPage)\n", "\n"},
	{"list-v2/key-count", "KeyCount omits common prefixes", "s3/list.go", "int64(len(l.page.Objects)+len(l.page.Prefixes))", "int64(len(l.page.Objects))"},
	{"list-v2/token-beats-start-after", "start-after takes precedence over the token", "s3/list.go", "if after.Key, err = parseToken(token); err != nil {", "if _, err = parseToken(token); err != nil {"},
	{"list-v2/start-after-in-common-prefix", "a common prefix is listed if it has keys after start-after", "s3/list.go", "after := l.after(startAfter)", "after := core.Cursor{Key: startAfter}"},
	{"list-v2/owner-not-asked", "V2 always returns the owner", "s3/list.go", "q.query.value(\"fetch-owner\") == \"true\"", "q.query.value(\"fetch-owner\") != \"false\""},
	{"delete-objects/needs-integrity", "DeleteObjects needs no integrity header", "s3/delete.go", "if in.none() {", "if in.none() && in.trailer {"},
	{"delete-objects/thousand-and-one", "DeleteObjects accepts 1001 keys", "s3/delete.go", "const maxDeleteKeys = 1000", "const maxDeleteKeys = 1001"},
	{"delete-objects/quiet", "Quiet is ignored", "s3/delete.go", "if quiet {", "if quiet && res.Marker {"},
	{"copy/onto-itself", "a copy onto itself that changes nothing succeeds", "s3/copy.go", "from.key == q.key && from.version == core.Current", "from.key == q.key+\"-\" && from.version == core.Current"},
	{"copy/class-not-taken-over", "a copy has the storage class of its source", "s3/copy.go", "case storageClassName, redirectName, storeAttr, customerAttr:", "case redirectName, storeAttr, customerAttr:"},
	{"copy/multipart-becomes-one", "a copy of a multipart object is a multipart object", "vfs/vfs.go", "List: src.List, Index: src.Index,", "List: src.List, Parts: src.Parts, Index: src.Index,"},
	{"copy/if-none-match", "x-amz-copy-source-if-none-match is ignored", "s3/copy.go", "onSource.Judge(f.info.ETag, f.info.Modified, q.s.now()); v != conditions.Proceed", "onSource.Judge(f.info.ETag, f.info.Modified, q.s.now()); v == conditions.Failed"},
	{"copy/source-bucket-name", "the bucket name of a source is not checked", "s3/copy.go", "if !ValidBucketName(src.bucket) {", "if src.bucket == \"\" {"},
	{"multipart/small-by-one-byte", "a part may be one byte smaller than 5 MiB", "vfs/multipart.go", "p.Size < MinPartSize", "p.Size < MinPartSize-1"},
	{"multipart/part-named-twice", "a part may be named twice", "s3/complete.go", "*p.Number <= *op.body.Parts[i-1].Number", "*p.Number < *op.body.Parts[i-1].Number"},
	{"multipart/gap-with-part-checksums", "the numbers of parts with checksums may have gaps", "s3/complete.go", "if op.upload.Composite && parts", "if !op.upload.Composite && len(parts) == 0 && parts"},
	{"multipart/complete-twice", "completing an upload again fails with NoSuchUpload", "s3/complete.go", "if err != nil || o.List != req.Upload || req", "if err != nil || o.List == req.Upload || req"},
	{"multipart/complete-twice-with-checksum", "completing an upload again with a composite checksum fails with NoSuchUpload", "s3/complete.go", "u.Algorithm, u.Composite = o.Sums[0].Algorithm, o.Sums[0].Composite", "u.Algorithm = o.Sums[0].Algorithm"},
	{"multipart/complete-unknown-upload-first", "CompleteMultipartUpload checks the parts before it checks that the upload exists", "s3/complete.go", "if op.upload == nil {\n\t\treturn err", "if op.upload == nil {\n\t\top.upload, op.again = &core.UploadInfo{}, false"},
	{"multipart/empty-body", "CompleteMultipartUpload without a document fails with InvalidRequest", "s3/complete.go", "if err := xmldoc.Parse(doc, &op.body); err != nil {", "if len(doc) == 0 {\n\t\treturn errInvalidRequest\n\t}\n\tif err := xmldoc.Parse(doc, &op.body); err != nil {"},
	{"multipart/part-number-and-range", "partNumber takes precedence over Range", "s3/object_get.go", "if number, ok := q.query.get(\"partNumber\"); ok {\n\t\tif ranges != \"\" {", "if number, ok := q.query.get(\"partNumber\"); ok {\n\t\tif ranges == \"-\" {"},
	{"multipart/part-number-of-missing", "a missing key is reported before an invalid part number", "s3/object_get.go", "if number, ok := q.query.get(\"partNumber\"); ok {\n\t\tif _, err", "if number, ok := q.query.get(\"partNumbers\"); ok {\n\t\tif _, err"},
	{"upload-lists/parts-pages", "ListParts returns no marker for the next page", "s3/multipart.go", "next = l.parts[len(l.parts)-1].Number", "next = l.after"},
	{"checksums/crc32-wrong", "a wrong checksum is stored", "s3/checksums.go", "if !bytes.Equal(in.value, sum(in.alg)) {", "if !bytes.Equal(in.value, sum(in.alg)) && in.trailer {"},
	{"checksums/content-md5-wrong", "a wrong Content-MD5 is stored", "s3/checksums.go", "if got := sum(checksum.MD5); !bytes.Equal(in.md5, got) {", "if got := sum(checksum.MD5); len(in.md5) != len(got) {"},
	{"checksums/mode-not-asked", "checksums are returned without being requested", "s3/object_get.go", "if s.sums != nil && strings.EqualFold(first(q.r.Header, \"X-Amz-Checksum-Mode\"), \"ENABLED\") {", "if s.sums != nil && !strings.EqualFold(first(q.r.Header, \"X-Amz-Checksum-Mode\"), \"-\") {"},
	{"checksums/get-part-of-full-object", "a part of a FULL_OBJECT upload is returned with its checksum", "s3/object_get.go", "if info.Parts > 1 && len(info.Sums)", "if info.Parts < 1 && len(info.Sums)"},
	{"checksums/part-default", "UploadPart does not return the default checksum", "s3/multipart.go", "a == sent || sent == checksum.None {", "a == sent {"},
	{"checksums/copy-part-default", "UploadPartCopy returns the default checksum", "s3/multipart.go", "if op.target.upload.Algorithm != checksum.None { // S3 does not", "if op.target.upload != nil { // S3 does not"},
	{"payloads/hash-differs", "the signed SHA-256 of the body is not compared", "internal/sigv4/body.go", "if b.auth.Mode == PayloadSHA256 && subtle", "if b.auth.Mode == PayloadUnsigned && subtle"},
	{"payloads/signed-content-changed", "chunk signatures are not compared", "internal/sigv4/chunk.go", "if subtle.ConstantTimeCompare(d.given[:], d.last[:]) != 1 {", "if subtle.ConstantTimeCompare(d.given[:], d.last[:]) > 1 {"},
	{"payloads/signed-trailer-signature-changed", "the signature of the trailer is not compared", "internal/sigv4/chunk.go", "if subtle.ConstantTimeCompare([]byte(given), d.last[:]) != 1 {", "if subtle.ConstantTimeCompare([]byte(given), d.last[:]) > 1 {"},
	{"payloads/trailer-missing", "an announced trailer may be missing", "internal/sigv4/body.go", "if len(b.trailers) != len(b.announced) {", "if len(b.trailers) > len(b.announced) {"},
	{"payloads/size-nonsense", "a chunk without a size fails with InvalidRequest", "internal/sigv4/errors.go", "newError(IncompleteBody, \"The aws-chunked", "newError(InvalidRequest, \"The aws-chunked"},
	{"payloads/chunk-below-8-kib", "chunks may have any size", "internal/sigv4/chunk.go", "d.size < d.least {", "d.size < 0 {"},
	{"presigned/expired", "a presigned URL never expires", "internal/sigv4/verify.go", "case now.After(a.Expires):", "case now.Before(a.Time) && now.After(a.Expires):"},
	{"presigned/expires-with-sign", "X-Amz-Expires may have a sign", "internal/sigv4/verify.go", "|| expires[0] == '+'", "|| expires == \"+\""},
	{"presigned/header-added", "x-amz-* headers need not be signed", "internal/sigv4/verify.go", "case amz != countAmz(r.Header):", "case amz > countAmz(r.Header):"},
	{"authentication/late", "an old request is accepted", "internal/sigv4/verify.go", "d > skew || d < -skew", "d < -skew"},
	{"authentication/host-not-signed", "host need not be signed", "internal/sigv4/verify.go", "if !hasHost {", "if !hasHost && last == \"\" {"},
	{"limits/put-5-gib", "the Content-Length of a PUT may exceed 5 GiB", "s3/object_put.go", "u.length > maxPutBytes", "u.length > 2*maxPutBytes"},
	{"limits/headers-8-kib", "headers may be of any size", "s3/headers.go", "if n > maxHeaderBytes {", "if n > 64*maxHeaderBytes {"},
	{"xml/doctype-alone", "document type declarations are accepted", "s3/xmldoc/schema.go", "case xml.Directive:", "case xml.ProcInst:"},
	{"xml/deep", "documents may be of any depth", "s3/xmldoc/schema.go", "len(g.open) == maxDepth", "len(g.open) == 64*maxDepth"},
	{"errors/escaped", "errors repeat text from the request unescaped", "s3/request.go", "x.Text(f.Name, xmldoc.Plain(f.Value))", "x.Open(f.Name)\n\t\tx.Buf = append(x.Buf, f.Value...)\n\t\tx.Close(f.Name)"},
	{"answers/list-region", "listings do not return the region", "s3/list.go", "q.set(\"X-Amz-Bucket-Region\", q.bucket.Region)", ""},
	{"versioning/get-of-marker", "the error for a delete marker has no x-amz-delete-marker", "s3/object_get.go", "if marker == nil || !marker.Marker {", "if marker == nil || marker.Marker {"},
	{"versioning/delete-objects-marks", "DeleteObjects does not return the delete markers that it creates", "s3/delete.go", "if res.Marker {\n\t\t\tx.Bool", "if res.Marker && quiet {\n\t\t\tx.Bool"},
	{"versions-list/version-marker-alone", "version-id-marker is accepted without key-marker", "s3/versions.go", "case keyMarker == \"\":", "case keyMarker == \"\\x00\":"},
	{"tagging/eleven", "an object may have 11 tags", "s3/tagging/tagging.go", "if len(tags) > limit {", "if len(tags) > limit+1 {"},
	{"tagging/empty-document", "a missing document of tags fails with MalformedXML", "s3/body.go", "if err == nil && len(doc) == 0 {", "if err == nil && len(doc) < 0 {"},
	{"tagging/copy-replace", "the tagging directive is ignored", "s3/copy.go", "if !op.replaceTags {", "if from.info != nil {"},
	{"object-lock/compliance-keeps", "compliance can be bypassed", "core/lock.go", "(l.Mode == LockCompliance || !bypass)", "!bypass"},
	{"object-lock/governance-shortened", "governance can be shortened", "core/lock.go", "l.Mode == LockGovernance && bypass {", "l.Mode == LockGovernance {"},
	{"object-lock/bypass-without-lock", "the bypass header is refused in a bucket without object lock", "s3/lock.go", "case !q.bucket.ObjectLock:\n\t\treturn false, nil\n", "case !q.bucket.ObjectLock:\n\t\treturn false, apierr.Argument(name, v, \"\")\n"},
	{"object-lock/empty-document", "a missing object lock document fails with MalformedXML", "s3/body.go", "\tcase len(doc) == 0:\n\t\treturn errMissingBody\n", ""},
	{"bucket-documents/policy-status-never", "?policyStatus of a bucket without a policy returns an empty document", "s3/bucket_policy.go", "if doc == \"\" {\n\t\treturn errNoPolicy\n\t}\n\tp, err", "if doc == \"\" {\n\t\tx.Begin(\"PolicyStatus\")\n\t\tx.Close(\"PolicyStatus\")\n\t\treturn nil\n\t}\n\tp, err"},
	{"policy/deny-owner", "policies are not part of the resource", "s3/bucketaccess/bucketaccess.go", "Policy: Document(b)}", "Policy: \"\"}"},
	{"policy/malformed-action", "a malformed policy is stored", "s3/bucket_policy.go", "return nil, errMalformedPolicy.Say(malformed.Error())", "return &bucketaccess.New{Policy: policy.BuiltIn(\"readonly\")}, nil"},
	{"policy/absent-concealed", "a key that does not exist is NoSuchKey for every reader", "s3/facts.go", "\tif denied != nil {\n\t\treturn denied\n\t}\n\treturn err\n}", "\t_ = denied\n\treturn err\n}"},
	{"policy/public-attributes", "GetObjectAttributes needs no right to read the object", "s3/attributes.go", "if err := q.authorize(read, q.resource()); err != nil {", "if err := q.authorize(read, q.resource()); err != nil && v != v {"},
	{"policy/public-response-headers", "anonymous requests can override response headers", "s3/headers.go", "if !q.caller.IsAnonymous() {\n\t\treturn nil", "if q.r != nil {\n\t\treturn nil"},
	{"policy/public-upload", "anonymous callers can begin an upload", "s3/multipart.go", "if q.caller.IsAnonymous() { //", "if q.r == nil { //"},
	{"policy/write-if-match", "a write can compare ETags without the right to read", "s3/facts.go", "v != \"\" && v != \"*\" { // all", "v == \"-\" { // all"},
	{"policy/copy-tags", "a copy keeps tags without the right to write them", "s3/facts.go", "return q.authorize(\"s3:PutObjectTagging\", q.resource())\n}", "return nil\n}"},
	{"policy/condition-copy-source-encoded", "the source of a copy is a fact as it was sent", "s3/facts.go", "return src.bucket + \"/\" + src.key, true", "return v, src.key != \"\""},
	{"policy/condition-version", "the version of a copy's source is not a fact", "s3/facts.go", "return q.asked.about.Version, q.asked.about.Version != \"\"", "return q.query.get(\"versionId\")"},
	{"public-access/new-bucket", "a new bucket accepts a public policy", "s3/bucket_policy.go", "if bucketaccess.Block(b).Refuses(p.Policy) {", "if bucketaccess.Block(b).Refuses(p.Policy) && b.Name == \"\" {"},
	{"public-access/restrict", "RestrictPublicBuckets has no effect", "s3/bucketaccess/bucketaccess.go", "r.RestrictPublic = Block(b).RestrictPublicBuckets", "r.RestrictPublic = false"},
	{"attributes/unknown", "unknown attributes are ignored", "s3/attributes.go", "return set, apierr.Argument(strings.ToLower(attributesHeader), name, \"Invalid attribute name specified.\")", "_ = apierr.Argument\n\t\t\tcontinue"},
	{"rename/token", "client tokens are ignored", "s3/rename.go", "if m.token == \"\" {", "if m.token != \"\" {"},
	{"move/source-if-match", "x-amz-move-source-if-* headers are ignored", "s3/rename.go", "from: conditions.OfSource(q.r.Header, moveSourceName)", "from: conditions.OfSource(q.r.Header, renameSourceName)"},
	{"append/wrong-offset", "an append is possible at any offset", "s3/append.go", "case base.Size != offset:", "case base.Size < 0:"},
	{"errors/condition", "errors do not name the failed condition", "s3/conditions/conditions.go", "return apierr.PreconditionFailed.With(\"Condition\", c.prefix+name)", "_ = name\n\treturn apierr.PreconditionFailed"},
	{"error-details/signature-customer-key", "errors contain customer keys", "internal/sigv4/mismatch.go", "strings.Contains(name, \"customer-key\")", "strings.Contains(name, \"customer-keys\")"},
	{"error-details/token-header", "session tokens are ignored", "gate/scheme.go", "case c.Token != token && ", "case c.Token == \"-\" && "},
	{"error-details/key-of-source", "a copy whose source does not exist names its own key", "s3/copy.go", "err = errNoSuchKey.Because(err).With(\"Key\", src.key)", "err = errNoSuchKey.Because(err)"},
	{"error-details/method-sub-resource", "methods that a sub-resource does not support fail with NotImplemented", "s3/route.go", "case sub != \"\" && s.serves(key):", "case sub == \"-\" && s.serves(key):"},
	{"schemas/delete-quiet", "elements that may occur once may be repeated", "s3/xmldoc/schema.go", "slices.Contains(top.seen, name)", "slices.Contains(top.seen, name+\"-\")"},
	{"schemas/complete-part-unknown", "unknown elements are ignored", "s3/xmldoc/schema.go", "if kid = top.kids[name]; kid == nil {\n\t\t\treturn errSchema", "if kid = top.kids[name]; kid == nil {\n\t\t\tkid = &element{kind: holdsAnything, many: true}"},
	{"lifecycle/no-action", "a lifecycle rule may have no action", "s3/lifecycledoc/lifecycledoc.go", "if len(x.Expiration)+len(x.Noncurrent)+len(x.Abort) == 0 {", "if len(x.Expiration)+len(x.Noncurrent)+len(x.Abort) < 0 {"},
	{"lifecycle/date-not-midnight", "objects may expire at any time of day", "s3/lifecycledoc/lifecycledoc.go", "date.Truncate(24 * time.Hour)", "date.Truncate(time.Hour)"},
	{"lifecycle/abort-with-tag", "uploads may be aborted by a tag", "s3/lifecycledoc/lifecycledoc.go", "case len(f.Tags) > 0:\n\t\treturn apierr.InvalidRequest.Say(action + \" cannot", "case len(f.Tags) < 0:\n\t\treturn apierr.InvalidRequest.Say(action + \" cannot"},
	{"lifecycle/expiration-in-real-days", "x-amz-expiration counts shorter days", "s3/lifecycle.go", "c.Expires(o, lifecycle.Day)", "c.Expires(o, lifecycle.Day/1440)"},
	{"quota/before-body", "the quota is not checked before the body is read", "vfs/quota.go", "if b.Quota.IsZero() {", "if b != nil {"},
	{"quota/race", "concurrent writes may exceed the quota", "core/quota.go", "if over(q.Bytes, held.Bytes, more.Bytes) ||", "if over(q.Bytes, held.Bytes, more.Bytes-20) ||"},
	{"quota/versions", "a version below a delete marker does not count", "core/tally.go", "Objects: clamp(t.Versions)}", "Objects: clamp(t.Objects())}"},
	{"instant/other-bucket", "content is shared between buckets", "content/instant.go", "return b.ID\n}", "return b.ID - b.ID + 1\n}"},
	{"instant-ask/perhaps", "a hash of the first 64 KiB counts as one of the whole content", "s3/instant_ask.go", "keys[i].Head && keys[i].Size > core.HeadSize", "keys[i].Head && keys[i].Size < core.HeadSize"},
	{"instant-ask/find-thousand", "FindContent accepts 1001 Content elements", "s3/instant_ask.go", "maxFindContents = 1000", "maxFindContents = 1001"},
	{"instant-ask/find-presigned", "a presigned URL can find content", "s3/instant.go", "if q.auth.Presigned || q.auth.Form || q.caller.IsAnonymous() {", "if q.caller.IsAnonymous() {"},
	{"instant-ask/refer-wrong-sum", "a reference with a wrong checksum fails with NoSuchContent", "s3/instant.go", "if u.refers {\n\t\t\treturn nil, err", "if !u.refers {\n\t\t\treturn nil, err"},
	{"instant-ask/refer-with-body", "the body of a reference is ignored", "s3/instant_ask.go", "case u.length != 0:", "case u.length < 0:"},
	{"encryption/sse-c-wrong-md5", "the MD5 of a customer key is not compared", "s3/encryption.go", "if err != nil || subtle.ConstantTimeCompare(got, want[:]) != 1 {", "if err != nil || subtle.ConstantTimeCompare(got, want[:]) > 1 {"},
	{"encryption/sse-s3-multipart-named-again", "a part may name an encryption that its upload does not have", "s3/encryption.go", "case !e.Store && len(q.r.Header[sseHeader]) > 0:", "case !e.Store && len(q.r.Header[sseHeader]) < 0:"},
	{"encryption/sse-c-short-key-of-get", "reading an encrypted object with a key of the wrong length fails with InvalidArgument", "s3/encryption.go", "case err == errKeyLength && check != \"\":", "case err == errKeyLength && check == \"\":"},
	{"cors/presigned", "the signature of a presigned preflight is verified", "s3/gate.go", "if q.r.Method == http.MethodOptions {", "if q.r.Method == http.MethodOptions && q.r.URL.RawQuery == \"\" {"},
	{"cors/without-origin", "a preflight needs no Origin", "s3/cors.go", "if origin == \"\" {", "if origin == \"-\" {"},
	{"cors/not-enabled", "a preflight to an existing bucket reports that the bucket does not exist", "s3/cors.go", "refusal = errCORSDisabled", "refusal = errCORSNoBucket"},
	{"cors/first-rule", "the last rule that matches applies", "s3/cors/cors.go", "\tfor i := range c.Rules {\n\t\tr := &c.Rules[i]\n\t\tmatched", "\tfor i := len(c.Rules) - 1; i >= 0; i-- {\n\t\tr := &c.Rules[i]\n\t\tmatched"},
	{"cors/headers-refused", "a preflight does not compare headers", "s3/cors/cors.go", " || !r.allows(headers) {", " {"},
	{"forms/uncovered", "a field of a form needs no condition", "s3/postform/policy.go", "if !covered[field.Name] && !isExempt(field.Name) {", "if !covered[field.Name] && !isExempt(field.Name) && now.IsZero() {"},
	{"forms/condition", "conditions of a form are not checked", "s3/postform/policy.go", "if !c.holds(value) {", "if !c.holds(value) && now.IsZero() {"},
	{"forms/size", "a file may be smaller than the policy allows", "s3/form.go", "c.Size() < f.policy.MinBytes {", "c.Size() < 0 {"},
	{"cors/error-has-headers", "errors have no CORS headers", "s3/request.go", "\tif q.browser.cross != nil {", "\tif q.browser.cross != nil && q.route == nil {"},
	{"heads/bad-escape", "net/http responds to an invalid request", "s3/heads/heads.go", "\tstatus, reason, ok := parseRefusal(p)\n\tif !ok {", "\tstatus, reason, ok := parseRefusal(p)\n\tif ok || status > 0 {"},
	{"heads/large", "headers that are too large fail with BadRequest", "s3/head.go", "case http.StatusRequestHeaderFieldsTooLarge:", "case http.StatusTeapot:"},
	{"heads/expect-other", "Expect: 200-ok is refused", "s3/heads/heads.go", "\t\t\tblankExpect(line)", "\t\t\t_ = line"},
	{"dialects/listen", "ListenBucketNotification returns a listing", "s3/route.go", "const eventsSub = \"events\"", "const eventsSub = \"event\""},
	{"dialects/fan-out", "a form fails with AccessDenied", "s3/postform/postform.go", "if name == \"x-minio-fanout-list\" {", "if name == \"-\" {"},
}

// TestMutants breaks the rules one at a time and checks that the case for the broken rule fails. It builds the server
// for every mutant, so it runs only as part of make s3test-mutants. It writes its results into README.md.
func TestMutants(t *testing.T) {
	if os.Getenv("ORCAS_S3TEST_MUTANTS") == "" {
		t.Skip("ORCAS_S3TEST_MUTANTS is not set")
	}
	t.Setenv(envEndpoint, "")
	only := regexp.MustCompile(os.Getenv("ORCAS_S3TEST_MUTANTS_ONLY"))
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	if err := buildServer(whole); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| case | mutant | result |\n| --- | --- | --- |\n")
	for _, m := range mutants {
		if !only.MatchString(m.rule) {
			continue
		}
		t.Run(m.rule, func(t *testing.T) {
			if failed, out := fails(whole, m.rule); failed {
				t.Fatalf("the case fails without a mutant:\n%s", out)
			}
			broken := filepath.Join(dir, "broken")
			if err := m.build(dir, broken); err != nil {
				t.Fatal(err)
			}
			if failed, out := fails(broken, m.rule); !failed {
				t.Fatalf("the case does not fail with the mutant:\n%s", out)
			}
			fmt.Fprintf(&table, "| %s | %s | fails |\n", m.rule, m.does)
		})
	}
	if t.Failed() || only.String() != "" {
		return
	}
	const begin, end = "<!-- mutants -->\n", "<!-- end of mutants -->"
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(readme), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("README.md does not contain %q and %q", begin, end)
	}
	if err := os.WriteFile("README.md", []byte(before+begin+table.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestMutantsFit checks that the text that each mutant replaces occurs exactly once.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants {
		if _, _, err := m.source(); err != nil {
			t.Error(err)
		}
	}
}

// source returns the path and the text of the file that the mutant changes.
func (m *mutant) source() (file, text string, err error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return "", "", err
	}
	file = filepath.Join(root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", "", fmt.Errorf("%s: the text to replace occurs %d times in %s, want once: %q", m.rule, n, m.file, m.old)
	}
	return file, string(source), nil
}

// build builds the server with the mutant, without changing the source files.
func (m *mutant) build(dir, output string) error {
	file, source, err := m.source()
	if err != nil {
		return err
	}
	patched, overlay := filepath.Join(dir, "patched.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(patched, []byte(strings.Replace(source, m.old, m.with, 1)), 0o644); err != nil {
		return err
	}
	doc, err := json.Marshal(map[string]map[string]string{"Replace": {file: patched}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, doc, 0o644); err != nil {
		return err
	}
	return buildServer(output, "-overlay", overlay)
}

// fails runs a case on a server, and reports whether the case itself failed. It also returns the output.
func fails(server, rule string) (bool, string) {
	area, name, _ := strings.Cut(rule, "/")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestS3$/^"+area+"$/^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), envBinary+"="+server, "ORCAS_S3TEST_MUTANTS=")
	out, _ := cmd.CombinedOutput()
	text := string(out)
	return !strings.Contains(text, "--- PASS: TestS3/"+rule+" ") && strings.Contains(text, "--- FAIL: TestS3/"+rule+" "), text
}
