package sdk

import (
	"bytes"
	"encoding/xml"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestRetryAfter: both forms of the header are understood, and nothing makes the client wait for longer than a minute.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-7": 0, "7.5": 0, "x": 0, "99999999999999999999": 0,
		"2147483647":                    2147483647 * time.Second,
		"Tue, 24 Nov 2026 12:00:30 GMT": 30 * time.Second,
		"Tue, 24 Nov 2026 11:00:30 GMT": 0,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {text}}, now), "%q", text)
	}
	r, err := Retry{}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, 7*time.Second, r.delay(2, 7*time.Second), "the server decides")
	require.Equal(t, time.Minute, r.delay(2, time.Hour))
	for n := 2; n < 100; n++ {
		require.LessOrEqual(t, r.delay(n, 0), r.DelayMax+1)
		require.LessOrEqual(t, r.delay(2, 0), r.DelayMin+1)
		require.Positive(t, r.delay(n, 0))
	}
}

// FuzzRetryAfter: whatever the header and the clock are, the time to wait is from 0 to a minute.
func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"", "0", "120", "-1", "1e9", "9223372036854775807", "Tue, 24 Nov 2026 12:00:30 GMT", "Thu, 01 Jan 9999 00:00:00 GMT"} {
		f.Add(text, int64(1795521600))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		after := retryAfter(http.Header{"Retry-After": {text}}, time.Unix(unix, 0))
		require.GreaterOrEqual(t, after, time.Duration(0))
		r, err := Retry{}.withDefaults()
		require.NoError(t, err)
		delay := r.delay(2, after)
		require.Positive(t, delay)
		require.LessOrEqual(t, delay, time.Minute)
	})
}

// FuzzErrorDocument: every response has an error with a code, whose text is one line that can be printed.
func FuzzErrorDocument(f *testing.F) {
	for _, doc := range []string{
		"", "text", "<Error/>", "<Error></Error>", "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>m</Message><RequestId>r</RequestId></Error>",
		"<Error><Code>RequestTimeTooSkewed</Code><ServerTime>2026-11-24T12:00:00Z</ServerTime></Error>",
		"<Error><Code>PermanentRedirect</Code><Endpoint>h</Endpoint></Error>", "<Error><Code>a&#10;b\u009b\u202e</Code></Error>", "<error><Code>A</Code></error>",
		"<html><Error><Code>A</Code></Error></html>", "<Error><Code>A</Code><Code>B</Code>", "<Error><Code>A</Code></Error>x",
	} {
		f.Add(404, []byte(doc), "id", "key")
	}
	f.Fuzz(func(t *testing.T, status int, doc []byte, id, key string) {
		parsed := parseErrorDocument(doc)
		if parsed != nil {
			require.NotEmpty(t, parsed.Code)
			require.True(t, bytes.Contains(doc, []byte("Error")))
		}
		q := &call{op: "Get", bucket: "b", key: key}
		e := q.responseError(status, http.Header{"X-Amz-Request-Id": {id}, "Location": {id}}, parsed, time.Unix(1795521600, 0))
		require.NotEmpty(t, e.Code)
		require.Equal(t, parsed == nil, e.guessed)
		text := e.Error()
		require.True(t, utf8.ValidString(text))
		require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
		if isErrorDocument(doc) { // recognized by its beginning: encoding/xml finds the same root, if the document is valid
			var root struct{ XMLName xml.Name }
			if xml.Unmarshal(doc, &root) == nil {
				require.Equal(t, "Error", root.XMLName.Local)
			}
		}
	})
}

// FuzzListing: the scanner reads every listing that encoding/xml writes, whatever keys and values it has.
func FuzzListing(f *testing.F) {
	f.Add("a/b", "etag", "token", int64(7), true)
	f.Add("<&>\"' ]]> \u2028ä\t\n", "\"e\"", "t/+=", int64(0), false)
	f.Fuzz(func(t *testing.T, key, etag, token string, size int64, truncated bool) {
		type object struct {
			Key, ETag string
			Size      int64
		}
		type listing struct {
			XMLName               xml.Name `xml:"ListBucketResult"`
			IsTruncated           bool
			NextContinuationToken string
			Contents              []object
		}
		doc, err := xml.Marshal(listing{IsTruncated: truncated, NextContinuationToken: token, Contents: []object{{key, etag, size}, {key, etag, size}}})
		require.NoError(t, err)
		var p page
		if err := p.parse(bytes.Clone(doc), "ListBucketResult"); err != nil {
			require.True(t, size < 0, "%v in %s", err, doc)
			return
		}
		compare(t, doc, &p)
		require.Len(t, p.objects, 2)
	})
}
