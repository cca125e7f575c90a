package s3test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// postForm sends a form with content, whose policy has these conditions besides those on the fields of the signature and
// on the bucket. Fields are names and values.
func postForm(t *T, content, conditions string, fields ...string) *response {
	t.Helper()
	now := time.Now().UTC()
	day := now.Format("20060102")
	signing := []string{
		"x-amz-algorithm", "AWS4-HMAC-SHA256", "x-amz-date", now.Format("20060102T150405Z"),
		"x-amz-credential", t.accessKey + "/" + day + "/" + t.region + "/s3/aws4_request",
	}
	conditions += `, {"bucket": "` + t.bucket() + `"}`
	for i := 0; i < len(signing); i += 2 {
		conditions += fmt.Sprintf(", {%q: %q}", signing[i], signing[i+1])
	}
	policy := base64.StdEncoding.EncodeToString([]byte(`{"expiration": "` + now.Add(time.Hour).Format("2006-01-02T15:04:05.000Z") +
		`", "conditions": [` + conditions + `]}`))
	key := []byte("AWS4" + t.secretKey)
	for _, part := range []string{day, t.region, "s3", "aws4_request", policy} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	fields = append(append(fields, signing...), "policy", policy, "x-amz-signature", fmt.Sprintf("%x", key))
	var b bytes.Buffer
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&b, "--B\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", fields[i], fields[i+1])
	}
	fmt.Fprintf(&b, "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"name.txt\"\r\n\r\n%s\r\n--B--\r\n", content)
	return t.send(t.request("POST", "/"+t.bucket(), b.String(), "Content-Type: multipart/form-data; boundary=B"))
}

var forms = area{"forms", []rule{
	{"upload", "a form stores its file and the metadata in its fields, and returns 204", func(t *T) {
		a := postForm(t, "content", `{"key": "key"}, {"x-amz-meta-a": "b"}, ["starts-with", "$Content-Type", "text/"]`,
			"key", "key", "x-amz-meta-a", "b", "Content-Type", "text/x-mine").ok(204)
		a.set("ETag")
		t.holds("key", "content")
		t.head("key").ok(200).has("x-amz-meta-a", "b").has("Content-Type", "text/x-mine")
	}},
	{"created", "success_action_status 201 returns a document with bucket, key and ETag", func(t *T) {
		a := postForm(t, "content", `["starts-with", "$key", "up/"], {"success_action_status": "201"}`,
			"key", "up/${filename}", "success_action_status", "201").ok(201)
		a.eq("Bucket", t.bucket()).eq("Key", "up/name.txt")
		t.holds("up/name.txt", "content")
	}},
	{"uncovered", "a field without a condition fails with AccessDenied", func(t *T) {
		postForm(t, "content", `{"key": "key"}`, "key", "key", "x-amz-meta-a", "b").fail(403, "AccessDenied")
		t.gone("key")
		postForm(t, "content", `{"key": "key"}`, "key", "key", "x-ignore-a", "b").ok(204)
	}},
	{"condition", "a field that does not meet its condition fails with AccessDenied", func(t *T) {
		postForm(t, "content", `{"key": "other"}`, "key", "key").fail(403, "AccessDenied")
		postForm(t, "content", `["starts-with", "$key", "user/"]`, "key", "key").fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"size", "a file outside of content-length-range fails with EntityTooLarge or EntityTooSmall", func(t *T) {
		postForm(t, "content", `{"key": "key"}, ["content-length-range", 0, 6]`, "key", "key").fail(400, "EntityTooLarge")
		postForm(t, "content", `{"key": "key"}, ["content-length-range", 8, 99]`, "key", "key").fail(400, "EntityTooSmall")
		t.gone("key")
		postForm(t, "content", `{"key": "key"}, ["content-length-range", 7, 7]`, "key", "key").ok(204)
	}},
	{"not-signed", "a form without a signature fails with AccessDenied", func(t *T) {
		body := "--B\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nkey\r\n--B\r\n" +
			"Content-Disposition: form-data; name=\"file\"\r\n\r\ncontent\r\n--B--\r\n"
		t.send(t.request("POST", "/"+t.bucket(), body, "Content-Type: multipart/form-data; boundary=B")).fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"no-form", "a POST to a bucket that is not a form fails with PreconditionFailed", func(t *T) {
		a := t.do("POST", "/"+t.bucket(), "content").fail(412, "PreconditionFailed")
		a.expect(strings.Contains(a.text("Condition"), "multipart/form-data"), "%s", a.text("Condition"))
	}},
}}
