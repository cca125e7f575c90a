package sigv4

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The examples of the S3 reference ("Authenticating Requests (AWS Signature Version 4)"), whose credentials, time and
// signatures are published.
const (
	exampleAccess = "AKIAIOSFODNN7EXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	exampleDate   = "20130524T000000Z"
	exampleHolder = "the example account"
	exampleScope  = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
)

var exampleTime = time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)

func exampleVerifier() *Verifier {
	return &Verifier{
		Region: "us-east-1",
		Now:    func() time.Time { return exampleTime.Add(time.Minute) },
		Lookup: func(_ context.Context, accessKey, _ string) (Credential, error) {
			if accessKey == exampleAccess {
				return Credential{SecretKey: exampleSecret, Holder: exampleHolder}, nil
			}
			return Credential{}, nil
		},
	}
}

type example struct {
	name, method, url string
	headers           [][2]string
	signed, signature string
	body              string
}

const exampleHost = "https://examplebucket.s3.amazonaws.com"

var examples = []example{
	{
		"GET object", "GET", exampleHost + "/test.txt",
		[][2]string{{"Range", "bytes=0-9"}, {"X-Amz-Content-Sha256", emptySHA256}, {"X-Amz-Date", exampleDate}},
		"host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41", "",
	},
	{
		"PUT object", "PUT", exampleHost + "/test%24file.text",
		[][2]string{
			{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"X-Amz-Date", exampleDate}, {"X-Amz-Storage-Class", "REDUCED_REDUNDANCY"},
			{"X-Amz-Content-Sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
		},
		"date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
		"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd", "Welcome to Amazon S3.",
	},
	{
		"GET bucket lifecycle", "GET", exampleHost + "/?lifecycle",
		[][2]string{{"X-Amz-Content-Sha256", emptySHA256}, {"X-Amz-Date", exampleDate}},
		"host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", "",
	},
	{
		"list objects", "GET", exampleHost + "/?prefix=J&max-keys=2",
		[][2]string{{"X-Amz-Content-Sha256", emptySHA256}, {"X-Amz-Date", exampleDate}},
		"host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", "",
	},
}

func (e *example) request() *http.Request {
	r := httptest.NewRequest(e.method, e.url, strings.NewReader(e.body))
	for _, h := range e.headers {
		r.Header.Add(h[0], h[1])
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+exampleScope+",SignedHeaders="+e.signed+",Signature="+e.signature)
	return r
}

func TestPublishedExamples(t *testing.T) {
	v := exampleVerifier()
	for range 2 { // the second time with the cached key
		for _, e := range examples {
			r := e.request()
			a, err := v.Verify(r)
			require.NoError(t, err, e.name)
			require.Equal(t, exampleAccess, a.AccessKey)
			require.False(t, a.Presigned || a.Anonymous())
			require.Equal(t, PayloadSHA256, a.Mode)
			require.Equal(t, exampleTime, a.Time)
			b, err := a.Body(r)
			require.NoError(t, err)
			content, err := io.ReadAll(b)
			require.NoError(t, err)
			require.Equal(t, e.body, string(content))
		}
	}
}

// If the request has only a Date header, in HTTP format, the signature covers that time in ISO 8601 format.
func TestDateHeader(t *testing.T) {
	r := examples[0].request()
	r.Header.Del("X-Amz-Date")
	r.Header.Set("Date", "Fri, 24 May 2013 00:00:00 GMT")
	const signed = "date;host;x-amz-content-sha256"
	s := &scratch{}
	key := signingKey(exampleSecret, "20130524", "us-east-1", serviceS3)
	var signature [64]byte
	s.signature(&signature, r, "/test.txt", "", signed, emptySHA256, exampleDate, "20130524/us-east-1/s3/aws4_request", &key)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+exampleScope+", SignedHeaders="+signed+", Signature="+string(signature[:]))
	_, err := exampleVerifier().Verify(r)
	require.NoError(t, err)
}

const examplePresigned = exampleHost + "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256" +
	"&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z" +
	"&X-Amz-Expires=86400&X-Amz-SignedHeaders=host" +
	"&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"

func TestPublishedPresignedURL(t *testing.T) {
	v := exampleVerifier()
	for after, ok := range map[time.Duration]bool{
		-16 * time.Minute: false, -14 * time.Minute: true, 0: true, 24 * time.Hour: true, 24*time.Hour + time.Second: false,
	} {
		v.Now = func() time.Time { return exampleTime.Add(after) }
		a, err := v.Verify(httptest.NewRequest("GET", examplePresigned, nil))
		if !ok {
			require.Equal(t, AccessDenied, codeOf(err), after)
			continue
		}
		require.NoError(t, err, after)
		require.True(t, a.Presigned)
		require.Equal(t, PayloadUnsigned, a.Mode)
		require.Equal(t, exampleTime.Add(24*time.Hour), a.Expires)
	}
	r := httptest.NewRequest("GET", exampleHost+"/test.txt", nil)
	s := &Signer{AccessKey: exampleAccess, SecretKey: exampleSecret, Region: "us-east-1"}
	require.Equal(t, examplePresigned, s.Presign(r, 24*time.Hour, exampleTime))
}

// chunkedExample returns the published example of a chunked upload of 66560 bytes, with or without a trailer.
func chunkedExample(trailer bool) (*http.Request, *Signer, Chunked) {
	r := httptest.NewRequest("PUT", "https://s3.amazonaws.com/examplebucket/chunkObject.txt", nil)
	r.Header.Set("X-Amz-Storage-Class", "REDUCED_REDUNDANCY")
	c := Chunked{Mode: PayloadSigned, Length: 66560}
	if trailer {
		c.Mode = PayloadSignedTrailer
		c.Trailers = []Trailer{{"x-amz-checksum-crc32c", 8, func() string { return "sOO8/Q==" }}}
	}
	return r, &Signer{AccessKey: exampleAccess, SecretKey: exampleSecret, Region: "us-east-1"}, c
}

func TestPublishedChunkedUpload(t *testing.T) {
	for _, e := range []struct {
		trailer                  bool
		signed, seed             string
		chunks                   []string
		trailerSignature, length string
	}{
		{
			false, "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
			"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
			[]string{
				"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
				"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
				"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
			}, "", "66824",
		},
		{
			true, "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
			"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
			[]string{
				"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
				"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
				"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
			}, "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435", "",
		},
	} {
		content := strings.Repeat("a", 66560)
		r, signer, c := chunkedExample(e.trailer)
		signer.SignChunked(r, strings.NewReader(content), c, exampleTime)
		if e.length != "" {
			require.EqualValues(t, 66824, r.ContentLength)
			r.Header.Set("Content-Length", e.length)
		}
		// The example signs more headers than the Signer does. The signatures of its chunks depend on its seed.
		encoder := r.Body.(*encoder)
		copy(encoder.last[:], e.seed)
		raw, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.EqualValues(t, r.ContentLength, len(raw))
		for _, signature := range e.chunks {
			require.Contains(t, string(raw), ";chunk-signature="+signature+"\r\n")
		}
		if e.trailer {
			require.True(t, bytes.HasSuffix(raw, []byte("\r\nx-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:"+e.trailerSignature+"\r\n\r\n")))
		}
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+exampleScope+",SignedHeaders="+e.signed+",Signature="+e.seed)
		a, err := exampleVerifier().Verify(r)
		require.NoError(t, err)
		require.Equal(t, c.Mode, a.Mode)
		r.Body = io.NopCloser(bytes.NewReader(raw))
		b, err := a.Body(r)
		require.NoError(t, err)
		require.EqualValues(t, len(content), b.DecodedLength())
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
		if e.trailer {
			require.Equal(t, []string{"x-amz-checksum-crc32c"}, b.Announced())
			require.Equal(t, "sOO8/Q==", b.Trailer("x-amz-checksum-crc32c"))
		}
	}
}

// codeOf returns the code of err, or "" if err is not an *Error.
func codeOf(err error) Code {
	if e, ok := err.(*Error); ok {
		return e.Code
	}
	return ""
}
