package s3test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// fill puts keys into the bucket of the case. The content of each object is its key.
func (t *T) fill(keys ...string) {
	t.Helper()
	for _, k := range keys {
		t.put(escape(k), k)
	}
}

// walk lists all pages, and returns the keys and the common prefixes in the order in which they were listed. next
// returns the parameters of the page after a response, or "" at the end.
func (t *T) walk(query string, next func(*response) string) (keys, prefixes []string) {
	t.Helper()
	more := ""
	for range 100 {
		a := t.get("?" + query + more).ok(200)
		keys = append(keys, a.all("Contents/Key")...)
		prefixes = append(prefixes, a.all("CommonPrefixes/Prefix")...)
		more = next(a)
		a.expect((more == "") == (a.text("IsTruncated") == "false"), "IsTruncated is %q, but the parameters of the next page are %q", a.text("IsTruncated"), more)
		if more == "" {
			return keys, prefixes
		}
	}
	t.Fatal("the listing has more than 100 pages")
	return nil, nil
}

// afterToken is a function for walk that continues with the token of V2.
func afterToken(a *response) string {
	if token := a.text("NextContinuationToken"); token != "" {
		return "&continuation-token=" + escape(token)
	}
	return ""
}

// afterMarker is a function for walk that continues like a client of V1: after NextMarker, or after the last key if
// there is none.
func afterMarker(a *response) string {
	if a.text("IsTruncated") != "true" {
		return ""
	}
	if next := a.text("NextMarker"); next != "" {
		return "&marker=" + escape(next)
	}
	keys := a.all("Contents/Key")
	return "&marker=" + escape(keys[len(keys)-1])
}

// tree holds the keys of a small directory tree.
var tree = []string{"a", "b/1", "b/2", "b/c/3", "d", "e/4", "f"}

// listRule returns the rule that a listing of the tree returns these keys and common prefixes.
func listRule(named, says, query string, keys, prefixes []string) rule {
	return rule{named, says, func(t *T) {
		t.fill(tree...)
		t.get("?"+query).ok(200).doc("ListBucketResult").eq("Contents/Key", keys...).eq("CommonPrefixes/Prefix", prefixes...).eq("IsTruncated", "false")
	}}
}

func l(s ...string) []string { return s }

var listV1 = area{"list-v1", []rule{
	listRule("all", "a listing has all keys, in order", "", tree, nil),
	listRule("prefix", "prefix selects the keys that begin with it", "prefix=b/", l("b/1", "b/2", "b/c/3"), nil),
	listRule("prefix-is-no-directory", "prefix may end in the middle of a name", "prefix=b/c", l("b/c/3"), nil),
	listRule("delimiter", "delimiter groups the keys that contain it into common prefixes", "delimiter=/", l("a", "d", "f"), l("b/", "e/")),
	listRule("prefix-and-delimiter", "common prefixes begin after the prefix", "prefix=b/&delimiter=/", l("b/1", "b/2"), l("b/c/")),
	listRule("delimiter-missing-in-keys", "a delimiter that occurs in no key has no effect", "delimiter=%7C", tree, nil),
	listRule("delimiter-of-two", "a delimiter may have several characters", "delimiter=/c", l("a", "b/1", "b/2", "d", "e/4", "f"), l("b/c")),
	listRule("marker", "a listing with marker begins after that key", "marker=b/2", l("b/c/3", "d", "e/4", "f"), nil),
	listRule("marker-not-there", "marker need not be a key", "marker=b/2x", l("b/c/3", "d", "e/4", "f"), nil),
	listRule("marker-behind-all", "marker after the last key returns an empty listing", "marker=z", nil, nil),
	listRule("marker-before-prefix", "with a marker before the prefix, the listing begins at the prefix", "marker=a&prefix=e", l("e/4"), nil),
	listRule("marker-is-common-prefix", "a marker that is a common prefix omits that prefix", "marker=b/&delimiter=/", l("d", "f"), l("e/")),
	listRule("marker-beneath-common-prefix", "a marker below a common prefix omits that prefix", "marker=b/1&delimiter=/", l("d", "f"), l("e/")),
	{"answer", "V1 repeats name, prefix, marker, delimiter and max-keys", func(t *T) {
		t.fill(tree...)
		t.get("?prefix=b&marker=b&delimiter=/&max-keys=7").ok(200).eq("Name", t.bucket()).eq("Prefix", "b").eq("Marker", "b").
			eq("Delimiter", "/").eq("MaxKeys", "7")
	}},
	{"answer-without", "V1 without parameters has empty Prefix and Marker, MaxKeys 1000 and no Delimiter", func(t *T) {
		t.get("").ok(200).eq("Prefix", "").eq("Marker", "").eq("MaxKeys", "1000").no("Delimiter", "EncodingType", "KeyCount", "NextMarker")
	}},
	{"entry", "an entry has key, time, ETag in quotes, size, storage class and, in V1, the owner", func(t *T) {
		t.put("key", "content")
		a := t.get("").ok(200).eq("Contents/Key", "key").eq("Contents/Size", "7").eq("Contents/ETag", `"`+md5Hex("content")+`"`).eq("Contents/StorageClass", "STANDARD")
		when, err := time.Parse(iso8601, a.text("Contents/LastModified"))
		a.expect(err == nil && time.Since(when).Abs() < 15*time.Minute, "modified at %q", a.text("Contents/LastModified"))
		a.expect(a.text("Contents/Owner/ID") != "", "no owner")
	}},
	{"time-is-that-of-head", "the time of an entry is the Last-Modified of the object", func(t *T) {
		t.put("key", "content")
		when, _ := time.Parse(iso8601, t.get("").text("Contents/LastModified"))
		head, _ := time.Parse(time.RFC1123, t.head("key").header.Get("Last-Modified"))
		t.must(when.Truncate(time.Second).Equal(head), "%v and %v", when, head)
	}},
	{"pages", "V1 continues after the last key, and lists every key once", func(t *T) {
		t.fill(tree...)
		for _, n := range []int{1, 2, 3, 7} {
			keys, _ := t.walk(fmt.Sprint("max-keys=", n), afterMarker)
			t.must(slices.Equal(keys, tree), "by %d: %q", n, keys)
		}
	}},
	{"next-marker", "V1 returns NextMarker only with a delimiter", func(t *T) {
		t.fill(tree...)
		t.get("?max-keys=2").ok(200).eq("IsTruncated", "true").no("NextMarker")
		t.get("?max-keys=2&delimiter=/").ok(200).eq("IsTruncated", "true").eq("NextMarker", "b/")
	}},
	{"pages-delimiter", "V1 with a delimiter continues after NextMarker, and lists a common prefix once", func(t *T) {
		t.fill(tree...)
		for _, n := range []int{1, 2, 4} {
			keys, prefixes := t.walk(fmt.Sprintf("max-keys=%d&delimiter=/", n), afterMarker)
			t.must(slices.Equal(keys, l("a", "d", "f")) && slices.Equal(prefixes, l("b/", "e/")), "by %d: %q %q", n, keys, prefixes)
		}
	}},
	{"max-keys-zero", "max-keys=0 returns an empty page that is not truncated", func(t *T) {
		t.fill("a")
		t.get("?max-keys=0").ok(200).eq("MaxKeys", "0").eq("IsTruncated", "false").no("Contents")
	}},
	{"max-keys-large", "max-keys above 1000 is treated as 1000", func(t *T) {
		t.fill("a")
		t.get("?max-keys=5000").ok(200).eq("MaxKeys", "1000").eq("Contents/Key", "a")
	}},
	{"max-keys-negative", "a negative max-keys fails with InvalidArgument", func(t *T) {
		t.get("?max-keys=-1").fail(400, "InvalidArgument")
	}},
	{"max-keys-nonsense", "max-keys that is not a number fails with InvalidArgument", func(t *T) {
		t.get("?max-keys=ten").fail(400, "InvalidArgument")
	}},
	{"just-full", "a page that is exactly full is not truncated", func(t *T) {
		t.fill("a", "b")
		t.get("?max-keys=2").ok(200).eq("IsTruncated", "false").eq("Contents/Key", "a", "b")
	}},
	{"empty-bucket", "the listing of an empty bucket is empty", func(t *T) {
		t.get("").ok(200).doc("ListBucketResult").eq("IsTruncated", "false").no("Contents", "CommonPrefixes")
	}},
	{"order-is-of-bytes", "keys are sorted by their UTF-8 bytes", func(t *T) {
		keys := l("A", "B", "a", "a-", "a.", "a/", "a0", "aA", "b", "é", "日", "\uffff", "🙂")
		t.fill(keys...)
		t.get("?encoding-type=url").ok(200).expectKeys(keys...)
	}},
	{"encoding", "encoding-type=url encodes keys, prefixes, marker and delimiter, and is repeated", func(t *T) {
		t.fill("a b/1", "a b/2", "c+d", "e%f")
		a := t.get("?encoding-type=url&delimiter=/&prefix=&marker=%20").ok(200).eq("EncodingType", "url")
		a.expectKeys("c+d", "e%f")
		a.expect(unescape(a.text("CommonPrefixes/Prefix")) == "a b/" && a.text("CommonPrefixes/Prefix") != "a b/", "%q", a.text("CommonPrefixes/Prefix"))
		a.expect(a.text("Marker") != " ", "the marker is not encoded")
		a.expect(!strings.Contains(a.body, "c+d") && !strings.Contains(a.body, "e%f"), "not encoded")
	}},
	{"encoding-keeps-slash", "encoding-type=url does not encode slashes", func(t *T) {
		t.fill("a/b c")
		a := t.get("?encoding-type=url").ok(200)
		a.expect(strings.HasPrefix(a.text("Contents/Key"), "a/b"), "%q", a.text("Contents/Key"))
	}},
	{"encoding-nonsense", "an encoding-type other than url fails with InvalidArgument", func(t *T) {
		t.get("?encoding-type=base64").fail(400, "InvalidArgument")
	}},
	{"xml-in-keys", "XML special characters in keys are escaped", func(t *T) {
		t.fill(`<&>"'`)
		t.get("").ok(200).eq("Contents/Key", `<&>"'`)
	}},
	{"deleted-are-not-listed", "deleted keys are not listed", func(t *T) {
		t.fill("a", "b", "c")
		t.del("b").ok(204)
		t.get("").ok(200).eq("Contents/Key", "a", "c")
	}},
	{"overwritten-once", "an overwritten key is listed once, with its current size", func(t *T) {
		t.fill("a", "a", "a")
		t.put("a", "as it is now")
		t.get("").ok(200).eq("Contents/Key", "a").eq("Contents/Size", "12")
	}},
	{"prefix-before-delimiter-only", "a delimiter inside the prefix does not group keys", func(t *T) {
		t.fill("b/1", "b/2")
		t.get("?prefix=b/&delimiter=/").ok(200).eq("Contents/Key", "b/1", "b/2").no("CommonPrefixes")
	}},
	{"directory-marker", "a key that ends with the delimiter is listed as a key if it equals the prefix", func(t *T) {
		t.fill("b/", "b/1")
		t.get("?prefix=b/&delimiter=/").ok(200).eq("Contents/Key", "b/", "b/1").no("CommonPrefixes")
		t.get("?delimiter=/").ok(200).eq("CommonPrefixes/Prefix", "b/").no("Contents")
	}},
	{"checksum-of-entries", "an entry contains the checksum algorithm and type", func(t *T) {
		t.put("key", "content", "x-amz-sdk-checksum-algorithm: SHA256", "x-amz-checksum-sha256: "+sum("SHA256", "content"))
		t.get("").ok(200).eq("Contents/ChecksumAlgorithm", "SHA256").eq("Contents/ChecksumType", "FULL_OBJECT")
	}},
}}

var listV2 = area{"list-v2", []rule{
	listRule("all", "V2 has all keys, in order", "list-type=2", tree, nil),
	listRule("start-after", "a listing with start-after begins after that key", "list-type=2&start-after=b/2", l("b/c/3", "d", "e/4", "f"), nil),
	listRule("start-after-not-there", "start-after need not be a key", "list-type=2&start-after=b/2x", l("b/c/3", "d", "e/4", "f"), nil),
	listRule("start-after-in-common-prefix", "start-after below a common prefix omits that prefix", "list-type=2&delimiter=/&start-after=b/1", l("d", "f"), l("e/")),
	listRule("start-after-common-prefix", "start-after that is a common prefix omits that prefix", "list-type=2&delimiter=/&start-after=b/", l("d", "f"), l("e/")),
	listRule("start-after-before-delimiter", "start-after that is a common prefix without its delimiter does not omit that prefix", "list-type=2&delimiter=/&start-after=b", l("d", "f"), l("b/", "e/")),
	listRule("start-after-beneath-prefix", "with a prefix, start-after below a common prefix omits that prefix", "list-type=2&prefix=b/&delimiter=/&start-after=b/c/1", nil, nil),
	listRule("start-after-and-prefix", "with start-after before the prefix, the listing begins at the prefix", "list-type=2&start-after=a&prefix=e/", l("e/4"), nil),
	listRule("delimiter", "V2 groups keys into common prefixes", "list-type=2&delimiter=/", l("a", "d", "f"), l("b/", "e/")),
	{"answer", "V2 repeats name, prefix, start-after, delimiter and max-keys, and has no Marker", func(t *T) {
		t.fill(tree...)
		t.get("?list-type=2&prefix=b&start-after=b&delimiter=/&max-keys=7").ok(200).eq("Name", t.bucket()).eq("Prefix", "b").eq("StartAfter", "b").
			eq("Delimiter", "/").eq("MaxKeys", "7").no("Marker", "NextMarker")
	}},
	{"key-count", "KeyCount counts keys and common prefixes", func(t *T) {
		t.fill(tree...)
		t.get("?list-type=2&delimiter=/").ok(200).eq("KeyCount", "5")
		t.get("?list-type=2&delimiter=/&max-keys=3").ok(200).eq("KeyCount", "3")
	}},
	{"max-keys-counts-prefixes", "max-keys counts common prefixes like keys", func(t *T) {
		t.fill(tree...)
		t.get("?list-type=2&delimiter=/&max-keys=2").ok(200).eq("Contents/Key", "a").eq("CommonPrefixes/Prefix", "b/").eq("IsTruncated", "true")
	}},
	{"pages", "V2 continues with its token, and lists every key once", func(t *T) {
		t.fill(tree...)
		for _, n := range []int{1, 2, 3, 7} {
			keys, _ := t.walk(fmt.Sprint("list-type=2&max-keys=", n), afterToken)
			t.must(slices.Equal(keys, tree), "by %d: %q", n, keys)
		}
	}},
	{"pages-delimiter", "V2 with a delimiter continues with its token, and lists a common prefix once", func(t *T) {
		t.fill(tree...)
		for _, n := range []int{1, 2, 4} {
			keys, prefixes := t.walk(fmt.Sprintf("list-type=2&max-keys=%d&delimiter=/", n), afterToken)
			t.must(slices.Equal(keys, l("a", "d", "f")) && slices.Equal(prefixes, l("b/", "e/")), "by %d: %q %q", n, keys, prefixes)
		}
	}},
	{"token-is-repeated", "V2 repeats the given token", func(t *T) {
		t.fill(tree...)
		token := t.get("?list-type=2&max-keys=2").ok(200).text("NextContinuationToken")
		t.get("?list-type=2&max-keys=2&continuation-token="+escape(token)).ok(200).eq("ContinuationToken", token)
	}},
	{"token-beats-start-after", "a token takes precedence over start-after, which is still repeated", func(t *T) {
		t.fill(tree...)
		token := t.get("?list-type=2&max-keys=2&start-after=a").ok(200).text("NextContinuationToken")
		t.get("?list-type=2&max-keys=2&start-after=a&continuation-token="+escape(token)).ok(200).eq("Contents/Key", "b/c/3", "d").eq("StartAfter", "a")
	}},
	{"token-nonsense", "an invalid token fails with InvalidArgument", func(t *T) {
		t.get("?list-type=2&continuation-token=%21nonsense").fail(400, "InvalidArgument")
	}},
	{"token-empty", "an empty token fails with InvalidArgument", func(t *T) {
		t.get("?list-type=2&continuation-token=").fail(400, "InvalidArgument")
	}},
	{"no-token-at-end", "the last page has no NextContinuationToken", func(t *T) {
		t.fill("a")
		t.get("?list-type=2").ok(200).eq("IsTruncated", "false").no("NextContinuationToken", "ContinuationToken")
	}},
	{"owner-not-asked", "V2 returns the owner only if the request asks for it", func(t *T) {
		t.fill("a")
		t.get("?list-type=2").ok(200).no("Contents/Owner")
	}},
	{"fetch-owner", "fetch-owner=true returns the owner", func(t *T) {
		t.fill("a")
		a := t.get("?list-type=2&fetch-owner=true").ok(200)
		a.expect(a.text("Contents/Owner/ID") != "", "no owner")
	}},
	{"max-keys-zero", "V2 with max-keys=0 returns an empty page that is not truncated", func(t *T) {
		t.fill("a")
		t.get("?list-type=2&max-keys=0").ok(200).eq("KeyCount", "0").eq("IsTruncated", "false").no("Contents", "NextContinuationToken")
	}},
	{"type-nonsense", "a list-type other than 2 fails with InvalidArgument", func(t *T) {
		t.get("?list-type=3").fail(400, "InvalidArgument")
	}},
	{"encoding", "V2 with encoding-type=url encodes keys and start-after", func(t *T) {
		t.fill("a b", "c+d")
		a := t.get("?list-type=2&encoding-type=url&start-after=a%20").ok(200).eq("EncodingType", "url")
		a.expectKeys("a b", "c+d")
		a.expect(a.text("StartAfter") != "a " && unescape(a.text("StartAfter")) == "a ", "StartAfter %q", a.text("StartAfter"))
	}},
	{"stable-key-while-writing", "a key that is not changed is listed once, whatever is written and deleted during the listing", func(t *T) {
		var stable []string
		for i := range 12 {
			stable = append(stable, fmt.Sprintf("s%02d", i))
		}
		t.fill(stable...)
		stop, done := make(chan bool), make(chan bool)
		go func() {
			defer close(done)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("s%02d-%d", i%12, i%3)
				t.do("PUT", key, "x")
				t.do("DELETE", key, nil)
			}
		}()
		for range 5 {
			keys, _ := t.walk("list-type=2&max-keys=3", afterToken)
			keys = slices.DeleteFunc(keys, func(k string) bool { return strings.Contains(k, "-") })
			t.must(slices.Equal(keys, stable), "%q", keys)
		}
		close(stop)
		<-done
	}},
	{"thousand-and-one", "a page has at most 1000 keys, and the next page has the rest", func(t *T) {
		doc := t.manyKeys(1001)
		a := t.get("?list-type=2&max-keys=2000").ok(200).eq("KeyCount", "1000").eq("IsTruncated", "true")
		t.get("?list-type=2"+afterToken(a)).ok(200).eq("KeyCount", "1").eq("IsTruncated", "false").eq("Contents/Key", doc[1000])
	}},
	{"delimiter-rolls-up-many", "a common prefix with more keys than fit on a page is one entry", func(t *T) {
		t.manyKeys(1001)
		t.fill("z")
		t.get("?list-type=2&delimiter=/&max-keys=2").ok(200).eq("CommonPrefixes/Prefix", "many/").eq("Contents/Key", "z").eq("IsTruncated", "false")
	}},
}}

// manyKeys puts n small objects, several in parallel, and returns their keys in order.
func (t *T) manyKeys(n int) []string {
	t.Helper()
	t.bucket()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("many/%05d", i)
	}
	work := make(chan string)
	done := make(chan bool)
	for range 16 {
		go func() {
			defer func() { done <- true }()
			for key := range work {
				t.do("PUT", key, "x")
			}
		}()
	}
	for _, key := range keys {
		work <- key
	}
	close(work)
	for range 16 {
		<-done
	}
	return keys
}
