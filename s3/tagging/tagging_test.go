package tagging_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/tagging"
	"orcas/s3/xmldoc"
)

func ExampleParseHeader() {
	tags, err := tagging.ParseHeader("team=storage&cost%20center=7")
	fmt.Println(tags, err)
	var x xmldoc.Writer
	tagging.Write(&x, tags)
	fmt.Println(string(x.Buf))
	// Output:
	// [{cost center 7} {team storage}] <nil>
	// <TagSet><Tag><Key>cost center</Key><Value>7</Value></Tag><Tag><Key>team</Key><Value>storage</Value></Tag></TagSet>
}

// codeOf returns the code of an error of the S3 API, or "".
func codeOf(t *testing.T, err error) string {
	if err == nil {
		return ""
	}
	var e *apierr.Error
	require.ErrorAs(t, err, &e)
	return e.Code
}

func TestParseHeader(t *testing.T) {
	eleven := strings.TrimSuffix(strings.Repeat("k=v&", 11), "&")
	for i := range 11 {
		eleven = strings.Replace(eleven, "k=", fmt.Sprintf("k%d=", i), 1)
	}
	for header, code := range map[string]string{
		"":                              "",
		"a":                             "",
		"a=1&&b=":                       "",
		"a=1&a=2":                       "InvalidArgument",
		"=1":                            "InvalidArgument",
		"a=1=2":                         "InvalidArgument",
		"a=%zz":                         "InvalidArgument",
		"a=%ff":                         "InvalidArgument",
		"aws:a=1":                       "InvalidTag",
		"a=%3C":                         "InvalidTag",
		strings.Repeat("k", 128):        "",
		strings.Repeat("k", 129):        "InvalidTag",
		"k=" + strings.Repeat("v", 256): "",
		"k=" + strings.Repeat("v", 257): "InvalidTag",
		eleven:                          "BadRequest",
	} {
		_, err := tagging.ParseHeader(header)
		require.Equal(t, code, codeOf(t, err), header)
	}
}

// A bucket may have more tags than a version.
func TestLimits(t *testing.T) {
	set := func(n int) *tagging.Set {
		var s tagging.Set
		for i := range n {
			key, value := fmt.Sprint(i), "v"
			s.Tags = append(s.Tags, tagging.Tag{Key: &key, Value: &value})
		}
		return &s
	}
	tags, err := set(10).OfObject()
	require.NoError(t, err)
	require.Len(t, tags, 10)
	require.Equal(t, core.Attr{Name: "0", Value: "v"}, tags[0])
	_, err = set(11).OfObject()
	require.Equal(t, "BadRequest", codeOf(t, err))
	inside, err := set(50).OfBucket()
	require.NoError(t, err)
	require.Equal(t, 50, strings.Count(inside, "<Tag>"))
	_, err = set(51).OfBucket()
	require.Equal(t, "BadRequest", codeOf(t, err))
	_, err = (*tagging.Set)(nil).OfBucket()
	require.Equal(t, "MalformedXML", codeOf(t, err))
	inside, err = set(0).OfBucket()
	require.NoError(t, err)
	require.Empty(t, inside)
	_, err = (&tagging.Set{Tags: []tagging.Tag{{}}}).OfObject()
	require.Equal(t, "MalformedXML", codeOf(t, err))
}
