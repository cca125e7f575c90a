package sigv4

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

var chunkedModes = []PayloadMode{PayloadSigned, PayloadSignedTrailer, PayloadUnsignedTrailer}

const (
	trailerName  = "x-amz-checksum-crc32"
	trailerValue = "AAAAAA=="
)

// chunkedBody signs content as an aws-chunked body and returns the request's Auth, the request and the body. Its chunks
// may be of any size, so that short bodies can be tried exhaustively.
func chunkedBody(t testing.TB, mode PayloadMode, content string, chunkSize int) (*Auth, *http.Request, []byte) {
	r := httptest.NewRequest("PUT", "http://host.example/bucket/key", nil)
	c := Chunked{Mode: mode, Length: int64(len(content)), ChunkSize: chunkSize}
	if mode.Trailer() {
		c.Trailers = []Trailer{{trailerName, len(trailerValue), func() string { return trailerValue }}}
	}
	exampleSigner().SignChunked(r, strings.NewReader(content), c, exampleTime)
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.EqualValues(t, r.ContentLength, len(raw))
	v := exampleVerifier()
	v.bodies.decoders.least = 1
	a, err := v.Verify(r)
	require.NoError(t, err)
	require.Equal(t, mode, a.Mode)
	return a, r, raw
}

// read decodes raw as the body of r.
func read(a *Auth, r *http.Request, raw io.Reader) (string, *Body, error) {
	r.Body = io.NopCloser(raw)
	b, err := a.Body(r)
	if err != nil {
		return "", nil, err
	}
	content, err := io.ReadAll(b)
	if again, err2 := b.Read(make([]byte, 10)); again != 0 || err2 == nil || err != nil && err2 != err {
		return "", b, fmt.Errorf("Read after the end returned %d bytes and %w, want %w", again, err2, err)
	}
	return string(content), b, err
}

// Bodies are decoded correctly for all chunk sizes, whatever the sizes of the reads from and by the decoder.
func TestChunkedBodies(t *testing.T) {
	content := strings.Repeat("0123456789", 1000)
	for _, mode := range chunkedModes {
		for _, size := range []int{0, 1, 10, 4095, 4096, 4097, 10000} {
			for _, chunkSize := range []int{1, 7, 1024, 4096, 10000, 100000} {
				if chunkSize == 1 && size > 10 {
					continue
				}
				a, r, raw := chunkedBody(t, mode, content[:size], chunkSize)
				for _, reader := range []io.Reader{
					bytes.NewReader(raw), iotest.OneByteReader(bytes.NewReader(raw)), iotest.DataErrReader(bytes.NewReader(raw)),
					iotest.HalfReader(bytes.NewReader(raw)),
				} {
					got, b, err := read(a, r, reader)
					require.NoError(t, err)
					require.Equal(t, content[:size], got)
					require.EqualValues(t, size, b.DecodedLength())
					if mode.Trailer() {
						require.Equal(t, trailerValue, b.Trailer(trailerName))
					}
					require.Empty(t, b.Trailer("x-amz-checksum-crc32c"))
				}
				r.Body = io.NopCloser(bytes.NewReader(raw))
				b, err := a.Body(r)
				require.NoError(t, err)
				got, err := io.ReadAll(iotest.OneByteReader(b))
				require.NoError(t, err)
				require.Equal(t, content[:size], string(got))
			}
		}
	}
}

// Reading a body that is truncated at any byte returns an error. Its last bytes are never returned, even to a reader
// that stops at the announced length. It makes no difference whether the connection reports an unexpected end.
func TestChunkedBodyCutAnywhere(t *testing.T) {
	content := strings.Repeat("0123456789", 10)
	for _, mode := range chunkedModes {
		a, r, raw := chunkedBody(t, mode, content, 64)
		for cut := range raw {
			for _, reader := range []io.Reader{
				bytes.NewReader(raw[:cut]),
				io.MultiReader(bytes.NewReader(raw[:cut]), iotest.ErrReader(io.ErrUnexpectedEOF)),
			} {
				got, b, err := read(a, r, reader)
				require.Equal(t, IncompleteBody, codeOf(err), "%s cut at %d: %v", mode, cut, err)
				require.Less(t, len(got), len(content))
				require.Empty(t, b.Trailer(trailerName))
			}
			r.Body = io.NopCloser(bytes.NewReader(raw[:cut]))
			b, err := a.Body(r)
			require.NoError(t, err)
			_, err = io.ReadFull(b, make([]byte, len(content)))
			require.Error(t, err)
		}
	}
}

// Errors of the connection are returned unchanged.
func TestConnectionErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, mode := range chunkedModes {
		a, r, raw := chunkedBody(t, mode, strings.Repeat("x", 10000), 4096)
		for _, cut := range []int{0, 10, 200, 5000, len(raw) - 1} {
			_, _, err := read(a, r, io.MultiReader(bytes.NewReader(raw[:cut]), iotest.ErrReader(broken)))
			require.ErrorIs(t, err, broken)
		}
	}
}

// Changing any byte of a signed body is an error. In an unsigned body it never changes the length of the content.
func TestChunkedBodyFlippedAnywhere(t *testing.T) {
	content := strings.Repeat("0123456789", 10)
	for _, mode := range chunkedModes {
		a, r, raw := chunkedBody(t, mode, content, 64)
		for i := range raw {
			for _, bit := range []byte{1, 0x20, 0x80} {
				bad := bytes.Clone(raw)
				bad[i] ^= bit
				got, _, err := read(a, r, bytes.NewReader(bad))
				if err == nil && mode.signed() {
					// The case of a hexadecimal digit, or of a trailer's name, does not matter.
					require.True(t, bytes.EqualFold(raw, bad), "%s, byte %d", mode, i)
				}
				if err == nil {
					require.Len(t, got, len(content))
				} else {
					require.NotEmpty(t, codeOf(err), err)
					require.Less(t, len(got), len(content))
				}
			}
		}
	}
}

// Chunks must not be missing, repeated, swapped or copied from another upload.
func TestChunksOutOfPlace(t *testing.T) {
	first, second := strings.Repeat("a", 64), strings.Repeat("b", 64)
	a, r, raw := chunkedBody(t, PayloadSigned, first+second, 64)
	size := len("40;chunk-signature=\r\n\r\n") + 64 + 64
	one, two, end := raw[:size], raw[size:2*size], raw[2*size:]
	join := func(parts ...[]byte) io.Reader { return bytes.NewReader(bytes.Join(parts, nil)) }
	got, _, err := read(a, r, join(one, two, end))
	require.NoError(t, err)
	require.Equal(t, first+second, got)

	_, _, foreign := chunkedBody(t, PayloadSigned, second+first, 64)
	for name, c := range map[string]struct {
		body io.Reader
		want Code
	}{
		"swapped":             {join(two, one, end), SignatureDoesNotMatch},
		"repeated":            {join(one, one, end), SignatureDoesNotMatch},
		"missing":             {join(one, end), IncompleteBody},
		"extra":               {join(one, two, two, end), IncompleteBody},
		"no last chunk":       {join(one, two), IncompleteBody},
		"two last chunks":     {join(one, two, end, end), IncompleteBody},
		"from another upload": {join(one, foreign[size:2*size], end), SignatureDoesNotMatch},
	} {
		_, _, err := read(a, r, c.body)
		require.Equal(t, c.want, codeOf(err), name)
	}
}

// Every chunk except the last one with content must have at least 8 KiB.
func TestChunksTooSmall(t *testing.T) {
	for _, mode := range chunkedModes {
		for _, c := range []struct {
			size, chunk int
			bad         string // the number of the chunk after the one that is too small; "" if all are large enough
		}{
			{0, 1, ""}, {1, 8192, ""}, {8191, 8192, ""}, {8193, 8192, ""}, {3 * 8192, 8192, ""}, {20000, 9999, ""},
			{8192, 8191, "2"}, {2, 1, "2"}, {20000, 8191, "2"},
		} {
			a, r, raw := chunkedBody(t, mode, strings.Repeat("x", c.size), c.chunk)
			a.decoders.least = 0
			got, _, err := read(a, r, bytes.NewReader(raw))
			if c.bad == "" {
				require.NoError(t, err, "%s %+v", mode, c)
				require.Len(t, got, c.size)
				continue
			}
			var e *Error
			require.ErrorAs(t, err, &e, "%s %+v", mode, c)
			require.Equal(t, InvalidChunkSizeError, e.Code)
			require.Equal(t, []Detail{{"Chunk", c.bad}, {"BadChunkSize", strconv.Itoa(c.chunk)}}, e.Details)
			require.Less(t, len(got), c.size)
		}
	}
	// The small chunk is between two chunks that are large enough.
	a, r, _ := chunkedBody(t, PayloadUnsignedTrailer, strings.Repeat("x", 8192+5+8192), 8192)
	a.decoders.least = 0
	r.Header.Del("X-Amz-Trailer")
	whole := "2000\r\n" + strings.Repeat("x", 8192) + "\r\n"
	_, _, err := read(a, r, strings.NewReader(whole+"5\r\nxxxxx\r\n"+whole+"0\r\n\r\n"))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, []Detail{{"Chunk", "3"}, {"BadChunkSize", "5"}}, e.Details)
}

// plainChunks returns a body without signatures: one chunk with content, followed by end.
func plainChunks(content, end string) string {
	return strconv.FormatInt(int64(len(content)), 16) + "\r\n" + content + "\r\n" + end
}

// Valid and invalid ends of a body.
func TestTrailers(t *testing.T) {
	for name, c := range map[string]struct {
		announced []string
		body      string
		want      Code
	}{
		"one":                           {[]string{"x-a"}, "0\r\nx-a:1\r\n\r\n", ""},
		"spaces":                        {[]string{" X-A "}, "0\r\nX-a: 1 \r\n\r\n", ""},
		"two":                           {[]string{"x-a,x-b"}, "0\r\nx-b:2\r\nx-a:1\r\n\r\n", ""},
		"announced in two headers":      {[]string{"x-a", "x-b"}, "0\r\nx-b:2\r\nx-a:1\r\n\r\n", ""},
		"none":                          {nil, "0\r\n\r\n", ""},
		"line feed, empty lines":        {[]string{"x-a"}, "0\r\nx-a:1\n\r\n\r\n", ""},
		"extension":                     {[]string{"x-a"}, "0;\r\nx-a:1\r\n\r\n", ""},
		"missing":                       {[]string{"x-a"}, "0\r\n\r\n", MalformedTrailerError},
		"one missing":                   {[]string{"x-a,x-b"}, "0\r\nx-a:1\r\n\r\n", MalformedTrailerError},
		"not announced":                 {nil, "0\r\nx-a:1\r\n\r\n", MalformedTrailerError},
		"other name":                    {[]string{"x-a"}, "0\r\nx-b:1\r\n\r\n", MalformedTrailerError},
		"extra trailer":                 {[]string{"x-a"}, "0\r\nx-a:1\r\nx-b:1\r\n\r\n", MalformedTrailerError},
		"repeated":                      {[]string{"x-a"}, "0\r\nx-a:1\r\nx-a:1\r\n\r\n", MalformedTrailerError},
		"announced twice":               {[]string{"x-a,x-a"}, "0\r\nx-a:1\r\n\r\n", MalformedTrailerError},
		"no colon":                      {[]string{"x-a"}, "0\r\nx-a\r\n\r\n", MalformedTrailerError},
		"unexpected signature":          {[]string{"x-a"}, "0\r\nx-a:1\r\nx-amz-trailer-signature:1\r\n\r\n", MalformedTrailerError},
		"signature announced":           {[]string{trailerSignature}, "0\r\nx-amz-trailer-signature:1\r\n\r\n", InvalidRequest},
		"empty name":                    {[]string{"x-a,"}, "0\r\nx-a:1\r\n\r\n", InvalidRequest},
		"no empty line":                 {[]string{"x-a"}, "0\r\nx-a:1\r\n", IncompleteBody},
		"too long":                      {[]string{"x-a"}, "0\r\nx-a:" + strings.Repeat("1", maxLine) + "\r\n\r\n", IncompleteBody},
		"data after the trailer":        {[]string{"x-a"}, "0\r\nx-a:1\r\n\r\nx", IncompleteBody},
		"empty lines after the trailer": {[]string{"x-a"}, "0\r\nx-a:1\r\n\r\n\r\n\r\n", IncompleteBody},
		"chunk after the trailer":       {[]string{"x-a"}, "0\r\nx-a:1\r\n\r\n1\r\nx\r\n", IncompleteBody},
		"extra chunk":                   {[]string{"x-a"}, "1\r\nx\r\n0\r\nx-a:1\r\n\r\n", IncompleteBody},
	} {
		a, r, _ := chunkedBody(t, PayloadUnsignedTrailer, "content", 0)
		r.Header["X-Amz-Trailer"] = c.announced
		got, b, err := read(a, r, strings.NewReader(plainChunks("content", c.body)))
		require.Equal(t, c.want, codeOf(err), "%s: %v", name, err)
		if c.want == "" {
			require.NoError(t, err)
			require.Equal(t, "content", got)
			for _, n := range b.Announced() {
				require.NotEmpty(t, b.Trailer(n))
			}
		} else {
			require.Less(t, len(got), len("content"))
		}
	}
}

// Some clients interpret the S3 reference differently: they end a signed trailer with a line feed, and send an empty
// line before the signature. A signed trailer without its signature is an error.
func TestSignedTrailerForms(t *testing.T) {
	a, r, raw := chunkedBody(t, PayloadSignedTrailer, "content", 0)
	text := string(raw)
	other := strings.Replace(text, trailerValue+"\r\n", trailerValue+"\n\r\n", 1)
	require.NotEqual(t, text, other)
	_, b, err := read(a, r, strings.NewReader(other))
	require.NoError(t, err)
	require.Equal(t, trailerValue, b.Trailer(trailerName))

	at := strings.Index(text, trailerSignature)
	for name, c := range map[string]struct {
		body string
		want Code
	}{
		"two empty lines":               {text[:at] + "\r\n\r\n" + text[at:], MalformedTrailerError},
		"no signature":                  {text[:at] + "\r\n", IncompleteBody},
		"no signature, two empty lines": {text[:at] + "\r\n\r\n", MalformedTrailerError},
		"signature first":               {text[:strings.Index(text, trailerName)] + text[at:], SignatureDoesNotMatch},
		"signature twice":               {text[:len(text)-2] + text[at:], MalformedTrailerError},
		"trailer after the signature":   {text[:len(text)-2] + trailerName + ":" + trailerValue + "\r\n\r\n", MalformedTrailerError},
		"empty line first":              {strings.Replace(text, trailerName, "\r\n"+trailerName, 1), MalformedTrailerError},
		"wrong value":                   {strings.Replace(text, trailerValue, "AAAAAB==", 1), SignatureDoesNotMatch},
		"wrong name":                    {strings.Replace(text, trailerName, trailerName+"c", 1), MalformedTrailerError},
	} {
		_, _, err := read(a, r, strings.NewReader(c.body))
		require.Equal(t, c.want, codeOf(err), "%s: %v", name, err)
	}
}

func TestMalformedChunks(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want Code
	}{
		"no size":              {"\r\ncontent\r\n0\r\n\r\n", IncompleteBody},
		"not a number":         {"seven\r\ncontent\r\n0\r\n\r\n", IncompleteBody},
		"negative":             {"-7\r\ncontent\r\n0\r\n\r\n", IncompleteBody},
		"prefix":               {"0x7\r\ncontent\r\n0\r\n\r\n", IncompleteBody},
		"overflow":             {"10000000000000007\r\ncontent\r\n0\r\n\r\n", IncompleteBody},
		"more than announced":  {"8\r\ncontent!\r\n0\r\n\r\n", IncompleteBody},
		"huge":                 {"fffffffffffffff\r\ncontent\r\n0\r\n\r\n", IncompleteBody},
		"less than announced":  {"6\r\nconten\r\n0\r\n\r\n", IncompleteBody},
		"longer than its size": {"6\r\ncontent\r\n0\r\n\r\n", IncompleteBody},
		"no line break":        {"7\r\ncontent0\r\n\r\n", IncompleteBody},
		"plain content":        {"content", IncompleteBody},
		"empty":                {"", IncompleteBody},
		"line too long":        {strings.Repeat("7", 2*maxLine), IncompleteBody},
		"valid":                {"7\r\ncontent\r\n0\r\n\r\n", ""},
		"valid, leading zeros": {"0007\r\ncontent\r\n0\r\n\r\n", ""},
	} {
		a, r, _ := chunkedBody(t, PayloadUnsignedTrailer, "content", 0)
		r.Header.Del("X-Amz-Trailer")
		_, _, err := read(a, r, strings.NewReader(c.body))
		require.Equal(t, c.want, codeOf(err), "%s: %v", name, err)
		require.Equal(t, c.want == "", err == nil)
	}
	// The signature of a chunk is missing or malformed.
	a, r, _ := chunkedBody(t, PayloadSigned, "content", 0)
	for _, header := range []string{"7", "7;", "7;chunk-signature=", "7;chunk-signature=" + strings.Repeat("0", 63), "7;signature=" + strings.Repeat("0", 64)} {
		_, _, err := read(a, r, strings.NewReader(header+"\r\ncontent\r\n0\r\n\r\n"))
		require.Equal(t, IncompleteBody, codeOf(err), header)
	}
}

func TestLengths(t *testing.T) {
	a, r, _ := chunkedBody(t, PayloadSigned, "content", 0)
	for value, want := range map[string]Code{"": MissingContentLength, "-1": MissingContentLength, "x": MissingContentLength, "7.5": MissingContentLength, "9223372036854775808": MissingContentLength} {
		r.Header.Set("X-Amz-Decoded-Content-Length", value)
		_, err := a.Body(r)
		require.Equal(t, want, codeOf(err), value)
	}
	r.Header["X-Amz-Decoded-Content-Length"] = []string{"7", "8"}
	_, err := a.Body(r)
	require.Equal(t, InvalidArgument, codeOf(err))
	r.Header.Del("X-Amz-Decoded-Content-Length")
	_, err = a.Body(r)
	require.Equal(t, MissingContentLength, codeOf(err))
	r.Header.Set("X-Amz-Trailer", trailerName)
	r.Header.Set("X-Amz-Decoded-Content-Length", "7")
	_, err = a.Body(r)
	require.Equal(t, InvalidRequest, codeOf(err), "a trailer in a mode without one")
}

func TestPlainBodies(t *testing.T) {
	const content = "Welcome to Amazon S3."
	put := &examples[1]
	v := exampleVerifier()
	r := put.request()
	a, err := v.Verify(r)
	require.NoError(t, err)

	for cut := range content {
		_, _, err := read(a, r, strings.NewReader(content[:cut]))
		require.Equal(t, IncompleteBody, codeOf(err))
		bad := []byte(content)
		bad[cut] ^= 1
		got, _, err := read(a, r, bytes.NewReader(bad))
		require.Equal(t, XAmzContentSHA256Mismatch, codeOf(err))
		require.Less(t, len(got), len(content))
	}
	got, _, err := read(a, r, iotest.OneByteReader(strings.NewReader(content)))
	require.NoError(t, err)
	require.Equal(t, content, got)

	// If the caller computes the SHA-256, Read accepts any content, and CheckSHA256 rejects a wrong SHA-256.
	r.Body = io.NopCloser(strings.NewReader(strings.ToUpper(content)))
	b, err := a.Body(r)
	require.NoError(t, err)
	b.HashElsewhere()
	_, err = io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, XAmzContentSHA256Mismatch, codeOf(b.CheckSHA256(make([]byte, 32))))
	require.Equal(t, XAmzContentSHA256Mismatch, codeOf(b.CheckSHA256(nil)))
	require.NoError(t, b.CheckSHA256(a.SHA256[:]))

	r.ContentLength = -1
	_, err = a.Body(r)
	require.Equal(t, MissingContentLength, codeOf(err))

	// No content: the SHA-256 is still compared.
	r.ContentLength = 0
	_, _, err = read(a, r, strings.NewReader(""))
	require.Equal(t, XAmzContentSHA256Mismatch, codeOf(err))
	r.Body = nil
	b, err = a.Body(r)
	require.NoError(t, err)
	_, err = b.Read(make([]byte, 1))
	require.Equal(t, XAmzContentSHA256Mismatch, codeOf(err))
}

// A decoder is reused only after the body that it belonged to has ended.
func TestDecodersAreNotShared(t *testing.T) {
	v := exampleVerifier()
	type upload struct {
		content string
		body    *Body
		got     bytes.Buffer
	}
	var uploads []*upload
	for i := range 8 {
		content := strings.Repeat(strconv.Itoa(i), 20000+i)
		r := httptest.NewRequest("PUT", "http://host.example/bucket/key", nil)
		exampleSigner().SignChunked(r, strings.NewReader(content), Chunked{Mode: PayloadSigned, Length: int64(len(content)), ChunkSize: 9000}, exampleTime)
		a, err := v.Verify(r)
		require.NoError(t, err)
		b, err := a.Body(r)
		require.NoError(t, err)
		uploads = append(uploads, &upload{content: content, body: b})
	}
	buf := make([]byte, 777)
	for done := 0; done < len(uploads); {
		for _, u := range uploads {
			n, err := u.body.Read(buf)
			u.got.Write(buf[:n])
			if err == io.EOF && n > 0 {
				done++
				require.Equal(t, u.content, u.got.String())
			} else if err != io.EOF {
				require.NoError(t, err)
			}
		}
	}
}

func TestEncoderRefusesWrongLengths(t *testing.T) {
	for _, c := range []struct {
		content string
		trailer string
	}{{"short", trailerValue}, {"content that is too long", trailerValue}, {"0123456789", "x"}} {
		r := httptest.NewRequest("PUT", "http://host.example/bucket/key", nil)
		exampleSigner().SignChunked(r, strings.NewReader(c.content), Chunked{
			Mode: PayloadUnsignedTrailer, Length: 10,
			Trailers: []Trailer{{trailerName, len(trailerValue), func() string { return c.trailer }}},
		}, exampleTime)
		_, err := io.ReadAll(r.Body)
		require.Error(t, err)
	}
}
