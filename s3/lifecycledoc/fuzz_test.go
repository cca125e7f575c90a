package lifecycledoc

import (
	"fmt"
	"reflect"
	"testing"

	"orcas/s3/xmldoc"
)

// FuzzLifecycle writes every document that Parse accepts, and checks that the result has the same meaning.
func FuzzLifecycle(f *testing.F) {
	const rule = "<LifecycleConfiguration><Rule><ID>i</ID>%s<Status>Enabled</Status>%s</Rule></LifecycleConfiguration>"
	for _, seed := range [][2]string{
		{"<Filter/>", "<Expiration><Days>1</Days></Expiration>"},
		{"<Prefix>p</Prefix>", "<Expiration><Date>2030-01-31</Date></Expiration>"},
		{"<Filter><And><Prefix>p</Prefix><Tag><Key>k</Key><Value>v</Value></Tag><ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter>", "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>"},
		{"<Filter/>", "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"},
	} {
		f.Add(fmt.Appendf(nil, rule, seed[0], seed[1]))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := Parse(doc)
		if err != nil {
			return
		}
		var x xmldoc.Writer
		Write(&x, c)
		again, err := Parse(x.Buf)
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%s was parsed as %+v, want %+v, error %v", x.Buf, again, c, err)
		}
	})
}
