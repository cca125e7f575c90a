package s3

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"orcas/core/ids"
	"orcas/s3/conditions"
	"orcas/s3/xmldoc"
)

func FuzzParseXML(f *testing.F) {
	for _, seed := range []string{
		"<Delete><Quiet>true</Quiet><Object><Key>a</Key><ETag>\"e\"</ETag></Object></Delete>", "<!DOCTYPE x><Delete/>",
		"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>", strings.Repeat("<a>", 40),
		"<FindContent><Content><Size>1</Size><SHA256>" + strings.Repeat("0a", 32) + "</SHA256></Content></FindContent>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var d deleteRequest
		if err := xmldoc.Parse(doc, &d); err == nil {
			if bytes.Contains(doc, []byte("<!DOCTYPE")) && !bytes.Contains(doc, []byte("<!--")) && !bytes.Contains(doc, []byte("<![CDATA[")) && !bytes.Contains(doc, []byte("<?")) {
				t.Fatal("a document type was accepted")
			}
			for i := range d.Objects {
				if key := d.Objects[i].Key; key != nil && !utf8.ValidString(*key) {
					t.Fatal("a key that is not UTF-8 was accepted")
				}
			}
		} else if toAPI(err).Code != "MalformedXML" {
			t.Fatal(err)
		}
		var c completeRequest
		_ = xmldoc.Parse(doc, &c)
		var find findRequest
		if xmldoc.Parse(doc, &find) == nil {
			keys, err := find.keys()
			if err != nil {
				if code := toAPI(err).Code; code != "MalformedXML" && code != "InvalidArgument" {
					t.Fatal(err)
				}
			} else if n := len(keys); n == 0 || n > maxFindContents {
				t.Fatal(n)
			}
		}
	})
}

// FuzzDocuments checks that the stored form of a bucket document is accepted, and stored unchanged.
func FuzzDocuments(f *testing.F) {
	all := documents()
	for i, d := range all {
		f.Add(i, []byte("<"+d.root+">"+d.initial+"</"+d.root+">"))
	}
	f.Add(0, []byte("<Tagging><TagSet><Tag><Key>a</Key><Value>b=c</Value></Tag></TagSet></Tagging>"))
	f.Add(2, []byte("<PublicAccessBlockConfiguration><BlockPublicAcls> 1 </BlockPublicAcls></PublicAccessBlockConfiguration>"))
	f.Fuzz(func(t *testing.T, which int, doc []byte) {
		d := all[uint(which)%uint(len(all))]
		if d.accept == nil {
			return
		}
		inside, err := d.accept(doc)
		if err != nil {
			if s := toAPI(err).Status; s != 400 && s != 501 {
				t.Fatal(err)
			}
			return
		}
		if inside == "" {
			return
		}
		again, err := d.accept([]byte("<" + d.root + ">" + inside + "</" + d.root + ">"))
		if err != nil || again != inside {
			t.Fatalf("%s was stored as %s, and that as %s, error %v", doc, inside, again, err)
		}
	})
}

func FuzzHeaders(f *testing.F) {
	codec := wireIDs{ids.New([16]byte{1}, 0xff)}
	f.Add("bytes=0-5", `"a", W/"b", *`, "a=1&b=%20", "bucket/key?versionId=null", "STANDARD", "1B2M2Y8AsgTpgAmY7PhCfg==", "AAAAAA==", int64(10))
	f.Fuzz(func(t *testing.T, ranges, tags, raw, copySource, class, sum, crc string, size int64) {
		size &= 1<<50 - 1
		if s, ok, err := conditions.ParseRange(ranges, size); err == nil && ok && (s.Offset < 0 || s.Length < 1 || s.Offset+s.Length > size) {
			t.Fatal(s)
		}
		if s, err := copyRange(ranges, size); err == nil && (s.Offset < 0 || s.Length < 0 || s.Offset+s.Length > size) {
			t.Fatal(s)
		}
		for rest, n := tags, 0; rest != ""; n++ {
			if _, rest = conditions.NextETag(rest); n > len(tags) {
				t.Fatal("NextETag does not reach the end of the list")
			}
		}
		var q query
		if q.parse(raw) == nil {
			_, _ = q.subresource()
			_, _ = q.int("a", 1)
		}
		if src, err := codec.parseSource(copySource, copySourceName); err == nil && (!ValidBucketName(src.bucket) || checkKey(src.key) != nil) {
			t.Fatal(src)
		}
		_, _ = parseToken(raw)
		h := http.Header{"If-Match": {tags}, "If-None-Match": {tags}, "Content-Md5": {sum}, "X-Amz-Checksum-Crc32": {crc}, "X-Amz-Storage-Class": {class},
			"X-Amz-Meta-A": {raw}}
		_, _ = conditions.Precondition(h)
		if in, err := parseIntegrity(h, nil); err == nil && (len(in.md5) != 16 || len(in.value) != 4) {
			t.Fatal(in)
		}
		_, _ = objectAttrs(h)
	})
}
