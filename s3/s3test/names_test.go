package s3test

import (
	"net/url"
	"strings"
)

// keyIsData returns the rule that an object with this key can be stored, read, listed and deleted.
func keyIsData(named, says, key string) rule {
	return rule{named, says, func(t *T) {
		ref := "/" + t.bucket() + "/" + escape(key)
		t.put(ref, "content of "+named)
		t.holds(ref, "content of "+named)
		t.get("?encoding-type=url").ok(200).expectKeys(key)
		t.del(ref).ok(204)
		t.gone(ref)
	}}
}

// expectKeys checks the keys of a URL-encoded listing.
func (a *response) expectKeys(keys ...string) {
	a.t.Helper()
	got := a.all("Contents/Key")
	a.expect(len(got) == len(keys), "%q", got)
	for i := range got {
		a.expect(unescape(got[i]) == keys[i], "%q, want %q", got[i], keys[i])
	}
}

var names = area{"names", []rule{
	badName("bucket-two-letters", "a bucket name has at least 3 characters", "ab"),
	badName("bucket-64-letters", "a bucket name has at most 63 characters", strings.Repeat("a", 64)),
	badName("bucket-upper-case", "a bucket name has no upper-case letters", "Upper-Case-Bucket"),
	badName("bucket-underscore", "a bucket name has no underscore", "under_score"),
	badName("bucket-space", "a bucket name has no space", "with%20space"),
	badName("bucket-not-ascii", "a bucket name is ASCII", "b%C3%BCcket"),
	badName("bucket-hyphen-first", "a bucket name does not begin with a hyphen", "-bucket"),
	badName("bucket-hyphen-last", "a bucket name does not end with a hyphen", "bucket-"),
	badName("bucket-dot-first", "a bucket name does not begin with a dot", ".bucket"),
	badName("bucket-dot-last", "a bucket name does not end with a dot", "bucket."),
	badName("bucket-two-dots", "a bucket name has no two dots in a row", "two..dots"),
	badName("bucket-hyphen-before-dot", "a bucket name has no hyphen before a dot", "hyphen-.dot"),
	badName("bucket-hyphen-behind-dot", "a bucket name has no hyphen after a dot", "dot.-hyphen"),
	badName("bucket-ipv4", "a bucket name is not an IPv4 address", "192.168.5.4"),
	badName("bucket-punycode", "a bucket name does not begin with xn--", "xn--bucket"),
	badName("bucket-sthree", "a bucket name does not begin with sthree-", "sthree-bucket"),
	badName("bucket-demo", "a bucket name does not begin with amzn-s3-demo-", "amzn-s3-demo-bucket"),
	badName("bucket-alias", "a bucket name does not end with -s3alias", "bucket-s3alias"),
	badName("bucket-lambda", "a bucket name does not end with --ol-s3", "bucket--ol-s3"),
	badName("bucket-mrap", "a bucket name does not end with .mrap", "bucket.mrap"),
	badName("bucket-directory", "a bucket name does not end with --x-s3", "bucket--x-s3"),
	badName("bucket-table", "a bucket name does not end with --table-s3", "bucket--table-s3"),
	goodName("bucket-dots", "a bucket name may have dots", ".with.dots"),
	goodName("bucket-hyphens", "a bucket name may have hyphens in a row", "--hyphens"),
	{"bucket-63-letters", "a bucket name may have 63 characters", func(t *T) {
		name := t.newName()
		name += strings.Repeat("z", 63-len(name))
		t.removeLater(name)
		t.put("/"+name, t.locationBody())
		t.head("/" + name).ok(200)
	}},
	{"bucket-name-when-reading", "reading from an invalid bucket name fails", func(t *T) {
		a := t.get("/No_Such_Bucket/key")
		a.expect(a.status == 400 && a.text("Code") == "InvalidBucketName" || a.status == 404 && a.text("Code") == "NoSuchBucket", "status %d", a.status)
	}},

	keyIsData("key-slashes", "consecutive slashes in a key are kept", "a//b///c"),
	keyIsData("key-leading-slash", "a key may begin with a slash", "/a"),
	keyIsData("key-trailing-slash", "a key may end with a slash and still have content", "dir/"),
	keyIsData("key-dot", "a . segment in a key is kept", "a/./b"),
	keyIsData("key-dot-dot", "a .. segment in a key is kept", "a/../b"),
	keyIsData("key-dot-dot-last", "a key may end with .. segments that do not leave the bucket", "a/b/../.."),
	keyIsData("key-space", "a key may contain spaces", " a b "),
	keyIsData("key-plus", "a plus sign in a key stands for itself", "a+b"),
	keyIsData("key-percent", "a percent sign in a key stands for itself and is decoded once", "a%2Fb%25"),
	keyIsData("key-query", "a question mark in a key stands for itself", "a?versionId=b&acl"),
	keyIsData("key-hash", "a hash sign in a key stands for itself", "a#b"),
	keyIsData("key-xml", "XML special characters in a key stand for themselves", `<a>&"b"'</a>`),
	keyIsData("key-backslash", "a backslash in a key stands for itself", `a\b`),
	keyIsData("key-utf8", "a key may contain any UTF-8", "grün/日本語/🙂"),
	keyIsData("key-not-normalised", "a key is not normalized: composed and decomposed letters differ", "e\u0301"),
	keyIsData("key-control", "a key may contain control characters", "a\x01b\x1fc\x7f"),
	keyIsData("key-newline", "a key may contain line breaks", "a\nb\rc\td"),
	keyIsData("key-noncharacter", "a key may contain U+FFFE and U+FFFF", "a\ufffeb\uffff"),
	keyIsData("key-asterisk", "an asterisk, parentheses and other punctuation in a key stand for themselves", "a*b(c)!'~$,;:@="),
	{"key-case", "keys are case-sensitive", func(t *T) {
		t.put("key", "lower")
		t.put("KEY", "upper")
		t.holds("key", "lower")
		t.holds("KEY", "upper")
	}},
	{"key-climbs", "a key with .. segments that leave the bucket fails with 400 in every operation that writes", func(t *T) {
		t.put("key", "content")
		for _, key := range []string{"..", "../x", "a/../../x"} {
			ref := "/" + t.bucket() + "/" + escape(key)
			for _, a := range []*response{
				t.try(ref, "content"), t.try(ref, nil, t.from("key")), t.post(ref+"?uploads", nil), t.try(ref, "content", "x-amz-write-offset-bytes: 0"),
				t.try(ref+"?renameObject", nil, "x-amz-rename-source: key"),
			} {
				a.expect(a.status == 400, "status %d", a.status)
			}
			t.gone(ref)
		}
		t.holds("key", "content")
	}},
	{"key-and-directory", "a key, the key with a slash, and a key below it are different objects", func(t *T) {
		t.put("a", "file")
		t.put("a/", "directory")
		t.put("a/b", "below")
		t.holds("a", "file")
		t.holds("a/", "directory")
		t.holds("a/b", "below")
		t.get("").ok(200).eq("Contents/Key", "a", "a/", "a/b")
	}},
	{"key-1024", "a key may be 1024 bytes long", func(t *T) {
		key := strings.Repeat("k", 1024)
		t.put(key, "content")
		t.holds(key, "content")
		t.get("").ok(200).eq("Contents/Key", key)
	}},
	{"key-1025", "a key of 1025 bytes fails with KeyTooLongError", func(t *T) {
		t.try(strings.Repeat("k", 1025), "content").fail(400, "KeyTooLongError")
	}},
	{"key-1025-bytes-of-utf8", "the limit of a key's length is in bytes, not characters", func(t *T) {
		t.try(escape(strings.Repeat("é", 513)), "content").fail(400, "KeyTooLongError")
	}},
	{"key-not-utf8", "a key that is not UTF-8 is refused", func(t *T) {
		a := t.try("a%FFb", "content")
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"key-nul", "a key with a NUL byte is refused", func(t *T) {
		a := t.try("a%00b", "content")
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"key-escape-is-one", "different percent-encodings of a path name the same key", func(t *T) {
		t.put("a%7Eb-%63", "content")
		t.holds("a~b-c", "content")
	}},
	{"key-slash-escaped", "an escaped slash in a path is a slash in the key", func(t *T) {
		t.put("a%2Fb", "content")
		t.holds("a/b", "content")
		t.get("").ok(200).eq("Contents/Key", "a/b")
	}},
	{"bucket-lists-of-key", "the sub-resources versions and uploads, which are those of a bucket, fail with InvalidRequest for a key", func(t *T) {
		t.put("key", "content")
		t.get("key?versions").fail(400, "InvalidRequest")
		t.get("key?uploads").fail(400, "InvalidRequest")
	}},
	{"key-acl-is-no-key", "an unknown sub-resource does not return or overwrite the object", func(t *T) {
		t.put("key", "content")
		a := t.get("key?torrent")
		a.expect(a.status != 200, "the response is the object")
		a = t.try("key?torrent", "other")
		a.expect(a.status >= 400, "status %d", a.status)
		t.holds("key", "content")
	}},
	{"two-sub-resources", "two sub-resources in one request are refused", func(t *T) {
		a := t.get("?location&versioning")
		a.expect(a.status == 400 || a.status == 501, "status %d", a.status)
	}},
}}

// unescape decodes a key of a URL-encoded listing.
func unescape(s string) string {
	u, err := url.QueryUnescape(s)
	if err != nil {
		return err.Error()
	}
	return u
}
