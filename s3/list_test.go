package s3_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type listPage struct {
	Name, Prefix, Marker, NextMarker, Delimiter, EncodingType string
	StartAfter, ContinuationToken, NextContinuationToken      string
	MaxKeys, KeyCount                                         int
	IsTruncated                                               bool
	Contents                                                  []struct {
		Key, ETag, StorageClass, LastModified, ChecksumAlgorithm, ChecksumType string
		Size                                                                   int
		Owner                                                                  *struct{ ID string }
	}
	CommonPrefixes []struct{ Prefix string }
}

// unescape undoes encoding-type=url.
func unescape(s string) string {
	v, err := url.PathUnescape(s)
	if err != nil {
		panic(err)
	}
	return v
}

func (p *listPage) names() []string {
	var out []string
	for _, c := range p.Contents {
		out = append(out, unescape(c.Key))
	}
	for _, c := range p.CommonPrefixes {
		out = append(out, unescape(c.Prefix))
	}
	slices.Sort(out)
	return out
}

// listAll walks a bucket in pages of 7 and returns keys and common prefixes, in order.
func listAll(w *world, bucket, query string) []string {
	w.t.Helper()
	var all []string
	token := ""
	for {
		var page listPage
		p := "/" + bucket + "?list-type=2&encoding-type=url&max-keys=7&" + query
		if token != "" {
			p += "&continuation-token=" + url.QueryEscape(token)
		}
		w.do("GET", p, nil).is(200, "").parse(&page)
		all = append(all, page.names()...)
		require.LessOrEqual(w.t, page.KeyCount, 7)
		require.Equal(w.t, len(page.Contents)+len(page.CommonPrefixes), page.KeyCount)
		if !page.IsTruncated {
			require.Empty(w.t, page.NextContinuationToken)
			return all
		}
		token = page.NextContinuationToken
		require.NotEmpty(w.t, token)
	}
}

// listAllV1 does the same with version 1 of ListObjects, in the way clients do.
func listAllV1(w *world, bucket, query string) []string {
	w.t.Helper()
	var all []string
	marker := ""
	for {
		var page listPage
		w.do("GET", "/"+bucket+"?encoding-type=url&max-keys=7&"+query+"&marker="+url.QueryEscape(marker), nil).is(200, "").parse(&page)
		names := page.names()
		all = append(all, names...)
		if !page.IsTruncated {
			return all
		}
		marker = unescape(page.NextMarker)
		if marker == "" {
			require.Empty(w.t, page.Delimiter, "with a delimiter, the response must have a NextMarker")
			marker = names[len(names)-1]
		}
	}
}

func TestListings(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("dir%d/file", i%3), fmt.Sprintf("dir%d/sub/%d", i%3, i), fmt.Sprintf("top%02d", i), fmt.Sprintf("a--b%d--c", i))
	}
	keys = append(keys, "Z", "é", "dir", "dir/", "dir0", "a b", "a+b", "a%b", "\U0001f600", "a\x01b")
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, key := range keys {
		w.put(path("bucket", key), key)
	}
	rolled := func(prefix, delimiter, after string) []string {
		var out []string
		for _, k := range keys {
			if !strings.HasPrefix(k, prefix) || k <= after {
				continue
			}
			if i := strings.Index(k[len(prefix):], delimiter); delimiter != "" && i >= 0 {
				if k = k[:len(prefix)+i+len(delimiter)]; strings.HasPrefix(after, k) {
					continue
				}
			}
			if len(out) == 0 || out[len(out)-1] != k {
				out = append(out, k)
			}
		}
		return out
	}
	for _, c := range [][3]string{
		{"", "", ""}, {"dir", "", ""}, {"", "/", ""}, {"dir0/", "/", ""}, {"d", "/", ""}, {"", "--", ""}, {"a--b1", "--", ""}, {"none", "/", ""}, {"", "e", ""},
		{"", "", "dir1/sub/4"}, {"", "/", "dir1/sub/4"}, {"dir", "/", "dir0/sub/zzz"}, {"", "", "not a key"}, {"top", "", "a"}, {"top", "", "z"},
	} {
		query := url.Values{}
		for i, name := range []string{"prefix", "delimiter", "start-after"} {
			if c[i] != "" {
				query.Set(name, c[i])
			}
		}
		require.Equal(t, rolled(c[0], c[1], c[2]), listAll(w, "bucket", query.Encode()), "%q", c)
		if c[2] == "" {
			require.Equal(t, rolled(c[0], c[1], ""), listAllV1(w, "bucket", query.Encode()), "%q", c)
		}
	}
}

func TestListingResponses(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	etag := w.put("/bucket/a%20b/c%2B1", "content", "X-Amz-Storage-Class", "STANDARD_IA")
	w.put("/bucket/z", "")
	var page listPage
	w.do("GET", "/bucket?list-type=2&start-after=a&max-keys=1&fetch-owner=true", nil).is(200, "").parse(&page)
	require.Equal(t, "bucket", page.Name)
	require.Equal(t, "a", page.StartAfter)
	require.Equal(t, 1, page.MaxKeys)
	require.True(t, page.IsTruncated)
	c := page.Contents[0]
	require.Equal(t, "a b/c+1", c.Key)
	require.Equal(t, `"`+etag+`"`, c.ETag)
	require.Equal(t, 7, c.Size)
	require.Equal(t, "STANDARD_IA", c.StorageClass)
	require.Equal(t, canonical, c.Owner.ID)
	require.Equal(t, "CRC64NVME", c.ChecksumAlgorithm)
	require.Equal(t, "FULL_OBJECT", c.ChecksumType)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, c.LastModified)

	page = listPage{}
	w.do("GET", "/bucket?list-type=2&encoding-type=url&prefix=a%20b/&delimiter=%2B", nil).is(200, "").parse(&page)
	require.Equal(t, "a%20b/", page.Prefix)
	require.Equal(t, "%2B", page.Delimiter)
	require.Equal(t, "a%20b/c%2B", page.CommonPrefixes[0].Prefix)
	require.Equal(t, "url", page.EncodingType)
	require.Equal(t, 1000, page.MaxKeys)

	page = listPage{}
	w.do("GET", "/bucket?max-keys=5000", nil).is(200, "").parse(&page)
	require.Equal(t, 1000, page.MaxKeys)
	require.False(t, page.IsTruncated)
	require.NotNil(t, page.Contents[0].Owner)
	page = listPage{}
	w.do("GET", "/bucket?list-type=2&max-keys=0", nil).is(200, "").parse(&page)
	require.Zero(t, page.KeyCount)
	require.False(t, page.IsTruncated)
	require.Empty(t, page.Contents)
	for _, bad := range []string{
		"max-keys=-1", "max-keys=x", "max-keys=99999999999", "encoding-type=xml", "list-type=3", "list-type=2&continuation-token=x", "list-type=2&continuation-token=",
	} {
		w.do("GET", "/bucket?"+bad, nil).is(400, "InvalidArgument")
	}
	w.do("GET", "/bucket?prefix=%ff", nil).is(400, "InvalidURI")
}
