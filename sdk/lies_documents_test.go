package sdk_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
	"orcas/sdk"
)

// TestCircles: every listing ends with an error if its positions repeat, also with several positions in the circle.
func TestCircles(t *testing.T) {
	const limit = 10_000
	for name, c := range map[string]struct {
		page  func(n int) string // the response to request n
		drain func(*sdk.Client) error
	}{
		"versions": {func(n int) string {
			return fmt.Sprintf("<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>%d</NextVersionIdMarker>"+
				"<Version><Key>k</Key><VersionId>v</VersionId><Size>1</Size></Version></ListVersionsResult>", n%3)
		}, func(c *sdk.Client) error { return last(limit, c.Versions(t.Context(), "b", nil)) }},
		"uploads": {func(n int) string {
			return fmt.Sprintf("<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>%d</NextUploadIdMarker>"+
				"<Upload><Key>k</Key><UploadId>u</UploadId></Upload></ListMultipartUploadsResult>", n%3)
		}, func(c *sdk.Client) error { return last(limit, c.Uploads(t.Context(), "b", nil)) }},
		"uploads without entries": {func(n int) string {
			return fmt.Sprintf("<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"+
				"<NextUploadIdMarker>%d</NextUploadIdMarker></ListMultipartUploadsResult>", n)
		}, func(c *sdk.Client) error { return last(limit, c.Uploads(t.Context(), "b", nil)) }},
		"parts": {func(n int) string {
			return fmt.Sprintf("<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>%d</NextPartNumberMarker>"+
				"<Part><PartNumber>%d</PartNumber><ETag>e</ETag></Part></ListPartsResult>", n%3+1, n%3+1)
		}, func(c *sdk.Client) error { return last(limit, c.Parts(t.Context(), "b", "k", "id")) }},
		"buckets": {func(n int) string {
			return fmt.Sprintf("<ListAllMyBucketsResult><ContinuationToken>%d</ContinuationToken><Buckets><Bucket><Name>b</Name></Bucket></Buckets></ListAllMyBucketsResult>", n%3)
		}, func(c *sdk.Client) error { return last(limit, c.Buckets(t.Context(), "")) }},
		"buckets without entries": {func(n int) string {
			return fmt.Sprintf("<ListAllMyBucketsResult><ContinuationToken>%d</ContinuationToken></ListAllMyBucketsResult>", n)
		}, func(c *sdk.Client) error { return last(limit, c.Buckets(t.Context(), "")) }},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			client := newClient(t, fake(t, func(w http.ResponseWriter, _ *http.Request) {
				if i := n.Add(1); i <= limit {
					_, _ = io.WriteString(w, c.page(int(i)))
				}
			}))
			require.ErrorIs(t, c.drain(client), sdk.ErrProtocol)
			require.LessOrEqual(t, n.Load(), int64(3000), "requests until the circle was noticed")
		})
	}
}

// last returns the error that ends a listing, or an error of its own after n entries.
func last[T any](n int, entries func(yield func(T, error) bool)) error {
	for _, err := range entries {
		if err != nil {
			return err
		}
		if n--; n == 0 {
			return errors.New("the listing does not end")
		}
	}
	return nil
}

// TestLyingDocuments: each operation refuses garbage, another document, and a document that is deep or wide, and reports
// an error document with the status 200 as that error. The memory stays bounded.
func TestLyingDocuments(t *testing.T) {
	var document atomic.Pointer[string]
	c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, *document.Load())
	}), func(c *sdk.Config) { c.Retry.Attempts = 1 })
	id := sdk.ObjectID{Key: "k"}
	from := sdk.Source{Bucket: "b", Key: "from"}
	operations := map[string]func() error{
		"List":     func() error { return last(2, c.List(t.Context(), "b", nil)) },
		"Versions": func() error { return last(2, c.Versions(t.Context(), "b", nil)) },
		"Uploads":  func() error { return last(2, c.Uploads(t.Context(), "b", nil)) },
		"Parts":    func() error { return last(2, c.Parts(t.Context(), "b", "k", "id")) },
		"Buckets":  func() error { return last(2, c.Buckets(t.Context(), "")) },
		"Tags":     func() error { _, err := c.Tags(t.Context(), "b", id); return err },
		"BucketTags": func() error {
			_, err := c.BucketTags(t.Context(), "b")
			return err
		},
		"Attributes":   func() error { _, err := c.Attributes(t.Context(), "b", "k", nil); return err },
		"Copy":         func() error { _, err := c.Copy(t.Context(), from, "b", "k", nil); return err },
		"CreateUpload": func() error { _, err := c.CreateUpload(t.Context(), "b", "k", nil); return err },
		"CompleteUpload": func() error {
			_, err := c.CompleteUpload(t.Context(), "b", "k", "id", []sdk.Part{{Number: 1, ETag: "e"}}, nil)
			return err
		},
		"DeleteAll": func() error {
			for d, err := range c.DeleteAll(t.Context(), "b", slices.Values([]sdk.ObjectID{id}), nil) {
				return errors.Join(err, d.Err)
			}
			return nil
		},
		"Versioning": func() error { _, err := c.Versioning(t.Context(), "b"); return err },
		"Retention":  func() error { _, _, err := c.Retention(t.Context(), "b", id); return err },
		"LegalHold":  func() error { _, err := c.LegalHold(t.Context(), "b", id); return err },
		"Location":   func() error { _, err := c.Location(t.Context(), "b"); return err },
	}
	for name, text := range map[string]string{
		"garbage":          "\x00\xff<<<>>>",
		"another document": "<Unrelated><Key>k</Key></Unrelated>",
		"cut":              "<ListBucketResult><Contents><Key>k",
		"deep":             strings.Repeat("<a>", 200_000),
		"wide":             "<a>" + strings.Repeat("<b/>", 250_000) + "</a>",
		"entities":         `<!DOCTYPE a [<!ENTITY e "eeeeeeeeee"><!ENTITY f "&e;&e;&e;&e;&e;">]><a>&f;&f;&f;</a>`,
		"half an error":    "<Error><Code>AccessDenied</Code>",
		"error of nothing": "<Error></Error>",
		"too long":         "<a>" + strings.Repeat(" ", 8<<20) + "</a>",
	} {
		document.Store(&text)
		for op, run := range operations {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.ErrorIs(t, run(), sdk.ErrProtocol, "%s: %s", op, name)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20), "%s: %s: bytes allocated", op, name)
		}
	}
	refused := `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`
	document.Store(&refused)
	for op, run := range operations {
		require.ErrorIs(t, run(), sdk.ErrAccessDenied, op)
	}
}

// TestControlCharacters: neither what the caller passes nor what the server responds can add a header, or control the
// terminal on which an error is printed.
func TestControlCharacters(t *testing.T) {
	var requests atomic.Int64
	c := newClient(t, fake(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	for _, p := range []sdk.Properties{
		{ContentType: "text/plain\r\nX-Amz-Acl: public-read"},
		{CacheControl: "a\nb"},
		{Metadata: map[string]string{"a": "b\r\nX-Amz-Acl: public-read"}},
		{Metadata: map[string]string{"a: b\r\nx": "y"}},
		{StorageClass: "STANDARD\x00"},
	} {
		_, err := c.Put(t.Context(), "b", "k", strings.NewReader("content"), &sdk.PutOptions{Properties: p})
		require.Error(t, err, "%q", p)
	}
	require.Zero(t, requests.Load())

	_, err := newClient(t, rawServer(t, func(c net.Conn) {
		body := "<Error><Code>Access\u009b2JDenied</Code><Message>line 1&#10;line 2 \u009b31m</Message></Error>"
		fmt.Fprintf(c, "HTTP/1.1 403 Forbidden\r\nX-Amz-Request-Id: \x1b[2J\u009b\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})).Get(t.Context(), "b", "key\x1b[2J\r\n", nil)
	require.Error(t, err)
	for _, r := range err.Error() {
		require.False(t, unicode.IsControl(r), "%q", err.Error())
	}
	require.Contains(t, err.Error(), `key\x1b[2J\r\n`)
	_, err = newClient(t, fake(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 403, "Access\u009b2JDenied&#10;\u202e")
	})).Get(t.Context(), "b", "key\x9b\u202eäöü 日本", nil)
	require.ErrorContains(t, err, `key\x9b\u202eäöü 日本: Access\u009b2JDenied\n\u202e (HTTP`)
	_, err = newClient(t, fake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "\u009b2J")
		w.WriteHeader(301)
	})).Get(t.Context(), "b", "k", nil)
	require.ErrorIs(t, err, sdk.ErrRedirect)
	for _, r := range err.Error() {
		require.False(t, unicode.IsControl(r), "%q", err.Error())
	}
}

// TestWrongChecksumOfEachAlgorithm: content that differs from its checksum is refused, for every algorithm.
func TestWrongChecksumOfEachAlgorithm(t *testing.T) {
	for _, a := range checksum.All() {
		for _, damaged := range []bool{false, true} {
			sum := checksum.Sum(a, []byte("content"))
			if damaged {
				sum[len(sum)-1] ^= 1
			}
			c := newClient(t, fake(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Amz-Checksum-"+a.Name(), base64.StdEncoding.EncodeToString(sum))
				w.Header().Set("Content-Length", "7")
				_, _ = io.WriteString(w, "content")
			}))
			o, err := c.Get(t.Context(), "b", "k", nil)
			require.NoError(t, err)
			_, err = io.ReadAll(o)
			require.NoError(t, o.Close())
			if damaged {
				require.ErrorIs(t, err, sdk.ErrChecksum, a.Name())
			} else {
				require.NoError(t, err, a.Name())
			}
		}
	}
}

// TestDeadServer: many operations that fail share the budget, so a dead server gets few retries.
func TestDeadServer(t *testing.T) {
	var requests atomic.Int64
	endpoint := serveRaw(t, func(c net.Conn) { requests.Add(1) }) // closes each connection
	c := newClient(t, endpoint, func(c *sdk.Config) { c.Retry.Budget = 100 })
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := c.Head(t.Context(), "b", "k", nil); !errors.Is(err, sdk.ErrNetwork) {
				t.Errorf("expected ErrNetwork, found %v", err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(210), c.Stats().Attempts, "200, and 10 retries that cost 10 each")
	require.LessOrEqual(t, requests.Load(), int64(210))
}

// TestCutConnections sends operations through a proxy that cuts connections at random bytes. They succeed, because they
// are repeated, and the content is always whole.
func TestCutConnections(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	direct, bucket := newBucket(t)
	proxy := newCutter(t, shared)
	c := newClient(t, proxy.url(), func(c *sdk.Config) { c.Retry = patient })
	for i := range 200 {
		key, content := "k"+strconv.Itoa(i%7), string(noise(1+r.IntN(200_000)))
		proxy.cutAfter(int64(r.IntN(2*len(content) + 4000)))
		_, err := c.Put(t.Context(), bucket, key, strings.NewReader(content), nil)
		require.NoError(t, err)
		require.True(t, content == readAll(t, direct, bucket, key, nil), "after the upload")
		require.True(t, content == readAll(t, c, bucket, key, nil), "downloaded")
		var keys []string
		for e, err := range c.List(t.Context(), bucket, &sdk.ListOptions{PageSize: 2}) {
			require.NoError(t, err)
			keys = append(keys, e.Key)
		}
		require.True(t, slices.IsSorted(keys))
		require.Len(t, keys, min(i+1, 7))
	}
	require.Greater(t, proxy.cuts.Load(), int64(100))
}
