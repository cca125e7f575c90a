package postform

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/s3/apierr"
)

const contentType = "multipart/form-data; boundary=B"

// body returns the body of a form. Pairs are names and values; a name with a "/" is that of a file.
func body(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		name, file, isFile := strings.Cut(pairs[i], "|")
		b.WriteString("--B\r\nContent-Disposition: form-data; name=\"" + name + "\"")
		if isFile {
			b.WriteString("; filename=\"" + file + "\"\r\nContent-Type: text/plain")
		}
		b.WriteString("\r\n\r\n" + pairs[i+1] + "\r\n")
	}
	return b.String() + "--B--\r\n"
}

func read(t *testing.T, text string) *Form {
	t.Helper()
	f, err := Read(strings.NewReader(text), contentType)
	require.NoError(t, err)
	return f
}

func codeOf(err error) string {
	var e *apierr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestForms(t *testing.T) {
	content := strings.Repeat("content\r\n--B", 10_000) + "end"
	for _, end := range []string{"", "\r\n", "\r\nepilogue"} {
		f := read(t, strings.TrimSuffix(body("Key", "a/${filename}", "X-Amz-Meta-A", "ü", `file|C:\dir/name.txt`, content, "submit", "Upload"), "\r\n")+end)
		require.Equal(t, []Field{{"key", "a/${filename}"}, {"x-amz-meta-a", "ü"}}, f.Fields)
		require.Equal(t, "name.txt", f.FileName)
		f.Expand()
		require.Equal(t, "a/name.txt", f.Value("key"))
		require.True(t, f.Has("key") && !f.Has("file") && !f.Has("submit"))
		got, err := io.ReadAll(f)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
		_, err = f.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	}
	f := read(t, body("key", "k", "file", ""))
	got, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Empty(t, got)

	for want, text := range map[string]string{
		"InvalidArgument no":             body("key", "k"),
		"InvalidArgument two":            body("key", "k", "KEY", "k", "file", ""),
		"MaxPostPreDataLengthExceeded 1": body("key", strings.Repeat("x", MaxFields), "file", ""),
		"MaxPostPreDataLengthExceeded 2": body("a", strings.Repeat("x", MaxFields/2), "b", strings.Repeat("x", MaxFields/2), "file", ""),
		"MaxPostPreDataLengthExceeded 3": strings.Repeat("x\r\n", MaxHead),
		"MaxPostPreDataLengthExceeded 4": strings.Replace(body("key", "k", "file", ""), "form-data", "form-data; x="+strings.Repeat("x", MaxHead), 1),
		"MalformedPOSTRequest 1":         "nothing",
		"MalformedPOSTRequest 2":         "",
		"MalformedPOSTRequest 3":         strings.TrimSuffix(body("key", "k"), "--\r\n"),
		"MalformedPOSTRequest 4":         body("", "k", "file", ""),
		"MalformedPOSTRequest 5":         body("key", "\xff", "file", ""),
		"MalformedPOSTRequest 6":         "--B\r\nnonsense\r\n\r\n",
		"NotImplemented":                 body("x-minio-fanout-list", "{}"),
	} {
		_, err := Read(strings.NewReader(text), contentType)
		require.Equal(t, strings.Fields(want)[0], codeOf(err), "%s: %v", want, err)
	}
	var many []string
	for i := range maxCount + 1 {
		many = append(many, string(rune('a'+i%26))+strings.Repeat("x", i), "")
	}
	_, err = Read(strings.NewReader(body(append(many, "file", "")...)), contentType)
	require.Equal(t, "MaxPostPreDataLengthExceeded", codeOf(err))
	for _, kind := range []string{"multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"", "text/plain"} {
		_, err := Read(strings.NewReader(body("key", "k", "file", "")), kind)
		require.Equal(t, "MalformedPOSTRequest", codeOf(err), kind)
	}
	require.True(t, IsForm("Multipart/Form-Data ; boundary=x") && !IsForm("text/plain") && !IsForm(""))
}

// A form that is cut off at any byte never looks complete, and the error is not one that content takes for its end.
func TestTruncatedForms(t *testing.T) {
	whole := strings.TrimSuffix(body("key", "k", "file|f", "the content", "submit", "x"), "\r\n")
	for n := range len(whole) {
		for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, errors.New("reset")} {
			f, err := Read(io.MultiReader(strings.NewReader(whole[:n]), &failing{broken}), contentType)
			if err == nil {
				_, err = io.ReadAll(f)
			}
			if broken == io.EOF && n >= strings.LastIndex(whole, "--B\r\n")+3 {
				continue // the file is complete, and the rest is ignored
			}
			require.Error(t, err, n)
			require.NotEqual(t, io.EOF, err)
			require.NotEqual(t, io.ErrUnexpectedEOF, err)
			if broken == io.EOF {
				require.NotEmpty(t, codeOf(err), "%d: %v", n, err)
			}
		}
	}
	for _, tail := range []string{body("file", "another"), body("x", strings.Repeat("x", MaxTail+8192))} {
		f := read(t, strings.TrimSuffix(body("key", "k", "file|f", "x"), "--B--\r\n")+tail)
		_, err := io.ReadAll(f)
		require.NotEmpty(t, codeOf(err))
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func encode(doc string) string { return base64.StdEncoding.EncodeToString([]byte(doc)) }

var (
	expiry = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	before = expiry.Add(-time.Second)
)

func policy(conditions string) string {
	return encode(`{"expiration": "2026-11-23T12:00:00Z", "conditions": [` + conditions + `]}`)
}

func TestPoliciesThatAreRefused(t *testing.T) {
	const expiration = `"expiration": "2026-11-23T12:00:00.000Z"`
	for _, doc := range []string{
		``, `x`, `[]`, `{}`, `{"conditions": []}`, `{` + expiration + `}`, `{"EXPIRATION": "2026-11-23T12:00:00Z", "conditions": []}`,
		`{"expiration": "tomorrow", "conditions": []}`, `{"expiration": 1, "conditions": []}`, `{"expiration": null, "conditions": []}`,
		`{` + expiration + `, "conditions": {}}`, `{` + expiration + `, "conditions": null}`, `{` + expiration + `, "conditions": [], "x": 1}`,
		`{` + expiration + `, "conditions": [], "conditions": []}`, `{` + expiration + `, ` + expiration + `, "conditions": []}`,
		`{` + expiration + `, "conditions": []} x`, `{` + expiration + `, "conditions": []}{}`, `{` + expiration + `, "conditions": [`,
	} {
		_, err := ParsePolicy(encode(doc))
		require.Equal(t, "InvalidPolicyDocument", codeOf(err), doc)
	}
	for _, condition := range []string{
		`1`, `"x"`, `null`, `{}`, `[]`, `{"a": "b", "c": "d"}`, `{"a": "b", "a": "b"}`, `{"a": 1}`, `{"a": ["b"]}`, `{"": "b"}`,
		`["eq", "$a"]`, `["eq", "$a", "b", "c"]`, `["eq", "a", "b"]`, `["eq", "$", "b"]`, `["eq", "$a", 1]`, `["eq", 1, "b"]`,
		`["ends-with", "$a", "b"]`, `[1, "$a", "b"]`, `["content-length-range", 0]`, `["content-length-range", -1, 2]`,
		`["content-length-range", 0, 1.5]`, `["content-length-range", 0, 1e3]`, `["content-length-range", "a", 1]`,
		`["content-length-range", 0, 99999999999999999999]`, `["content-length-range", null, 1]`,
	} {
		_, err := ParsePolicy(policy(condition))
		require.Equal(t, "InvalidPolicyDocument", codeOf(err), condition)
	}
	_, err := ParsePolicy(policy(strings.Repeat(`{"a": "b"},`, maxConditions) + `{"a": "b"}`))
	require.Equal(t, "InvalidPolicyDocument", codeOf(err))
	_, err = ParsePolicy("%")
	require.Equal(t, "InvalidPolicyDocument", codeOf(err))
}

func TestConditions(t *testing.T) {
	const bucket = `{"bucket": "b"}, {"key": "k"}, `
	for _, c := range []struct {
		conditions string
		fields     []string // besides key
		want       bool
	}{
		{`{"acl": "private"}`, []string{"acl", "private"}, true},
		{`{"ACL": "private"}`, []string{"Acl", "private"}, true},
		{`["eq", "$acl", "private"]`, []string{"acl", "private"}, true},
		{`["EQ", "$acl", "private"]`, []string{"acl", "private"}, true},
		{`["eq", "$acl", "private"]`, []string{"acl", "Private"}, false},
		{`["eq", "$acl", "private"]`, []string{"acl", "private "}, false},
		{`["eq", "$acl", "private"]`, nil, false},
		{`["starts-with", "$acl", "priv"]`, []string{"acl", "private"}, true},
		{`["starts-with", "$acl", "riv"]`, []string{"acl", "private"}, false},
		{`["starts-with", "$acl", ""]`, []string{"acl", "anything"}, true},
		{`["starts-with", "$acl", "p"]`, nil, false},
		{`["starts-with", "$acl", "p"], ["eq", "$acl", "private"]`, []string{"acl", "public"}, false},
		{`["starts-with", "$Content-Type", "image/"]`, []string{"Content-Type", "image/png"}, true},
		{`["starts-with", "$Content-Type", "image/"]`, []string{"Content-Type", "image/png, image/gif"}, true},
		{`["starts-with", "$Content-Type", "image/"]`, []string{"Content-Type", "image/png, text/html"}, false},
		{`{"a": "b"}`, []string{"a", "b", "other", "x"}, false},
		{`{"a": "b"}`, []string{"a", "b", "x-ignore-other", "x"}, true},
		{`{"a": "b"}`, []string{"a", "b", "x-amz-signature", "s", "signature", "s", "policy", "p", "AWSAccessKeyId", "a"}, true},
		{`{"a": "b"}`, []string{"a", "b", "x-amz-date", "d"}, false},
		{`{"a": "b"}`, []string{"a", "b", "x-amz-meta-c", "d"}, false},
		{`{"a": "b"}`, []string{"a", "b", "bucket", "b"}, true},
	} {
		p, err := ParsePolicy(policy(bucket + c.conditions))
		require.NoError(t, err, c.conditions)
		f := read(t, body(append(append([]string{"key", "k"}, c.fields...), "file", "")...))
		err = p.Check(f, "b", before)
		require.Equal(t, c.want, err == nil, "%s %v: %v", c.conditions, c.fields, err)
		if err != nil {
			require.Equal(t, "AccessDenied", codeOf(err))
		}
		require.Error(t, p.Check(f, "other", before), "the bucket of the URL counts")
		require.Error(t, p.Check(f, "b", expiry), "expired")
		require.Error(t, p.Check(f, "b", expiry.Add(time.Hour)), "expired")
	}
	without, err := ParsePolicy(policy(`{"key": "k"}`))
	require.NoError(t, err)
	require.ErrorContains(t, without.Check(read(t, body("key", "k", "file", "")), "b", before), "bucket")
	without, err = ParsePolicy(policy(`{"bucket": "b"}`))
	require.NoError(t, err)
	require.ErrorContains(t, without.Check(read(t, body("key", "k", "file", "")), "b", before), "Extra input fields: key")

	p, err := ParsePolicy(policy(`["content-length-range", 1, "100"], ["content-length-range", 0, 50]`))
	require.NoError(t, err)
	require.Equal(t, []int64{1, 50}, []int64{p.MinBytes, p.MaxBytes})
	p, err = ParsePolicy(policy(``))
	require.NoError(t, err)
	require.Equal(t, int64(math.MaxInt64), p.MaxBytes)
}

// FuzzRead reads arbitrary bodies: no panic, and content never exceeds the body.
func FuzzRead(f *testing.F) {
	f.Add([]byte(body("key", "k", "file|f", "content", "submit", "x")))
	f.Add([]byte("--B\r\nContent-Disposition: form-data; name=file\r\n\r\n\r\n--B--"))
	f.Fuzz(func(t *testing.T, in []byte) {
		form, err := Read(bytes.NewReader(in), contentType)
		if err != nil {
			if codeOf(err) == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		got, err := io.ReadAll(form)
		if err != nil && codeOf(err) == "" || err == nil && !bytes.Contains(in, got) {
			t.Fatalf("%q: %v", got, err)
		}
	})
}

// FuzzPolicy checks a form against arbitrary policies. A policy that accepts it covers all of its fields.
func FuzzPolicy(f *testing.F) {
	f.Add(`{"expiration": "2026-11-23T12:00:00Z", "conditions": [{"bucket": "b"}, ["starts-with", "$key", ""], {"acl": "private"}]}`)
	f.Add(`{"expiration": "2026-11-23T12:00:00Z", "conditions": [["content-length-range", 0, "1"], ["eq", "$key", "k"]]}`)
	text := body("key", "k", "acl", "private", "file", "")
	f.Fuzz(func(t *testing.T, doc string) {
		p, err := ParsePolicy(encode(doc))
		if err != nil {
			if codeOf(err) != "InvalidPolicyDocument" {
				t.Fatal(err)
			}
			return
		}
		if err := p.Check(read(t, text), "b", before); err != nil {
			return
		}
		for _, name := range []string{"expiration", "conditions", "b", "k", "a", "c", "l"} {
			if !strings.Contains(strings.ToLower(doc), name) && !strings.Contains(doc, `\`) {
				t.Fatalf("accepted by %q", doc)
			}
		}
	})
}
