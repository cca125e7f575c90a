package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"orcas/sdk"
)

// newExampleBucket creates a bucket for an example.
func newExampleBucket(client *sdk.Client, name string, o *sdk.BucketOptions) string {
	must(client.CreateBucket(context.Background(), name, o))
	return name
}

func Example() {
	client, err := sdk.New(sdk.Config{Endpoint: shared, Credentials: sdk.Static(access, secret)})
	must(err)
	defer client.Close()
	ctx := context.Background()

	_, err = client.Put(ctx, "bucket", "hello.txt", strings.NewReader("hello"), nil)
	must(err)
	object, err := client.Get(ctx, "bucket", "hello.txt", nil)
	must(err)
	defer object.Close()
	content, err := io.ReadAll(object) // verified at its end
	must(err)
	fmt.Printf("%s, %d bytes\n", content, object.Size)
	// Output: hello, 5 bytes
}

func ExampleNew() {
	client, err := sdk.New(sdk.Config{
		Endpoint:    shared,
		Region:      "us-east-1",
		Credentials: sdk.Static(access, secret),
		Retry:       sdk.Retry{Attempts: 3, DelayMax: time.Second},
		IdleTimeout: 30 * time.Second,
		Checksum:    sdk.CRC32C,
	})
	must(err)
	defer client.Close()
	fmt.Println(client.Endpoint() == shared)

	_, err = sdk.New(sdk.Config{Endpoint: "localhost:9000"})
	fmt.Println(err)
	// Output:
	// true
	// sdk: Config.Endpoint is "localhost:9000", expected http(s)://HOST[:PORT]
}

// rotating are credentials that are replaced from time to time.
type rotating struct{}

// Get returns the keys as they are now.
func (rotating) Get(context.Context) (sdk.Keys, error) {
	return sdk.Keys{AccessKey: access, SecretKey: secret}, nil
}

func ExampleCredentials() {
	client, err := sdk.New(sdk.Config{Endpoint: shared, Credentials: rotating{}})
	must(err)
	defer client.Close()
	region, err := client.HeadBucket(context.Background(), "bucket")
	must(err)
	fmt.Println(region)
	// Output: us-east-1
}

func ExampleKeys() {
	temporary := sdk.Keys{AccessKey: "ASIA...", SecretKey: "...", SessionToken: "..."}
	keys, err := temporary.Get(context.Background())
	must(err)
	fmt.Println(keys.AccessKey)
	// Output: ASIA...
}

func ExampleClient_Stats() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "stats", strings.NewReader("0123456789"), nil)
	must(err)
	var stats sdk.Stats = client.Stats()
	fmt.Println(stats.Requests, "request,", stats.BytesSent, "bytes sent")
	// Output: 1 request, 10 bytes sent
}

func ExampleClient_Put() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	written, err := client.Put(ctx, "bucket", "page.html", strings.NewReader("<p>"), &sdk.PutOptions{
		Properties: sdk.Properties{
			ContentType: "text/html",
			Metadata:    map[string]string{"author": "me"},
			Tags:        map[string]string{"project": "site"},
		},
		Checksum: sdk.SHA256, // sent with the content, and stored
	})
	must(err)
	fmt.Println(written.ETag, written.Checksums[sdk.SHA256])

	_, err = client.Put(ctx, "bucket", "page.html", strings.NewReader("<b>"), &sdk.PutOptions{
		Conditions: sdk.Conditions{IfNoneMatch: "*"}, // only if there is no such object
	})
	fmt.Println(errors.Is(err, sdk.ErrPreconditionFailed))
	// Output:
	// 4da1a46ec20cf93ee5c846a51e04f0ed M/J5lGcXcoeikmB4ChB6yY6mPdYWX2f8wNdHZ9CoIJA=
	// true
}

func ExampleClient_Get() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "digits", strings.NewReader("0123456789"), nil)
	must(err)
	var object *sdk.Object
	object, err = client.Get(ctx, "bucket", "digits", &sdk.GetOptions{Offset: 3, Length: 4})
	must(err)
	defer object.Close()
	content, err := io.ReadAll(object)
	must(err)
	fmt.Printf("%s of %d bytes\n", content, object.Size)

	_, err = client.Get(ctx, "bucket", "missing", nil)
	fmt.Println(errors.Is(err, sdk.ErrNoSuchKey))
	// Output:
	// 3456 of 10 bytes
	// true
}

func ExampleClient_Head() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "head", strings.NewReader("content"), nil)
	must(err)
	var info *sdk.Info
	info, err = client.Head(ctx, "bucket", "head", nil)
	must(err)
	fmt.Println(info.Size, info.ContentType, info.StorageClass, time.Since(info.LastModified) < time.Hour)
	// Output: 7 binary/octet-stream STANDARD true
}

func ExampleClient_Attributes() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "attributes", strings.NewReader("content"), nil)
	must(err)
	info, err := client.Attributes(ctx, "bucket", "attributes", nil)
	must(err)
	var sums sdk.Checksums = info.Checksums
	fmt.Println(info.Size, sums[sdk.CRC64NVME] != "")
	// Output: 7 true
}

func ExampleClient_List() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	bucket := newExampleBucket(client, "example-list", nil)
	for _, key := range []string{"2026/01/a", "2026/01/b", "2026/02/c", "2026/summary"} {
		_, err := client.Put(ctx, bucket, key, strings.NewReader(key), nil)
		must(err)
	}
	for entry, err := range client.List(ctx, bucket, &sdk.ListOptions{Prefix: "2026/", Delimiter: "/"}) {
		must(err)
		if entry.Prefix != "" {
			fmt.Println(entry.Prefix)
			continue
		}
		fmt.Println(entry.Key, entry.Size)
	}
	// Output:
	// 2026/01/
	// 2026/02/
	// 2026/summary 12
}

func ExampleEntry() {
	entry := sdk.Entry{Info: sdk.Info{Key: "photo.jpg", Size: 12}}
	fmt.Println(entry.Key, entry.Size, entry.Prefix == "")
	// Output: photo.jpg 12 true
}

func ExampleClient_Versions() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	bucket := newExampleBucket(client, "example-versions", nil)
	must(client.SetVersioning(ctx, bucket, "Enabled"))
	status, err := client.Versioning(ctx, bucket)
	must(err)
	fmt.Println(status)
	for _, content := range []string{"one", "three"} {
		_, err := client.Put(ctx, bucket, "key", strings.NewReader(content), nil)
		must(err)
	}
	deleted, err := client.Delete(ctx, bucket, "key", nil)
	must(err)
	fmt.Println("marker:", deleted.Marker)
	for version, err := range client.Versions(ctx, bucket, nil) {
		must(err)
		fmt.Println(version.Key, version.Size, version.Latest, version.DeleteMarker)
	}
	// Output:
	// Enabled
	// marker: true
	// key 0 true true
	// key 5 false false
	// key 3 false false
}

func ExampleClient_Delete() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "old", strings.NewReader("x"), nil)
	must(err)
	var deleted *sdk.Deleted
	deleted, err = client.Delete(ctx, "bucket", "old", &sdk.DeleteOptions{})
	must(err)
	fmt.Println(deleted.Key, deleted.Marker)
	// Output: old false
}

func ExampleClient_DeleteAll() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	bucket := newExampleBucket(client, "example-delete-all", nil)
	for _, key := range []string{"tmp/a", "tmp/b", "keep"} {
		_, err := client.Put(ctx, bucket, key, strings.NewReader("x"), nil)
		must(err)
	}
	// The keys of a listing, as they arrive.
	keys := func(yield func(sdk.ObjectID) bool) {
		for entry, err := range client.List(ctx, bucket, &sdk.ListOptions{Prefix: "tmp/"}) {
			must(err)
			if !yield(sdk.ObjectID{Key: entry.Key}) {
				return
			}
		}
	}
	for deleted, err := range client.DeleteAll(ctx, bucket, keys, nil) {
		must(err) // the request failed
		must(deleted.Err)
		fmt.Println(deleted.Key)
	}
	// Unordered output:
	// tmp/a
	// tmp/b
}

func ExampleClient_Copy() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "original", strings.NewReader("content"), nil)
	must(err)
	from := sdk.Source{Bucket: "bucket", Key: "original"}
	written, err := client.Copy(ctx, from, "bucket", "copy", nil)
	must(err)
	fmt.Println(written.ETag)
	_, err = client.Copy(ctx, from, "bucket", "copy", &sdk.CopyOptions{
		Replace: &sdk.Properties{ContentType: "text/plain"}, // instead of the metadata of the source
	})
	must(err)
	// Output: 9a0364b9e99bb480dd25e1f0284c8555
}

func ExampleClient_Rename() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "draft", strings.NewReader("content"), nil)
	must(err)
	must(client.Rename(ctx, "bucket", "draft", "final", nil))
	_, err = client.Head(ctx, "bucket", "draft", nil)
	fmt.Println(errors.Is(err, sdk.ErrNoSuchKey))
	// Output: true
}

func ExampleClient_Move() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	archive := newExampleBucket(client, "example-archive", nil)
	_, err := client.Put(ctx, "bucket", "report", strings.NewReader("content"), nil)
	must(err)
	written, err := client.Move(ctx, sdk.Source{Bucket: "bucket", Key: "report"}, archive, "2026/report", nil)
	must(err)
	fmt.Println(written.ETag)
	// Output: 9a0364b9e99bb480dd25e1f0284c8555
}

func ExampleClient_Append() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	offset := int64(0)
	for _, line := range []string{"first\n", "second\n"} {
		var written *sdk.Written
		written, err := client.Append(ctx, "bucket", "log", offset, strings.NewReader(line), nil)
		must(err)
		offset = written.Size
	}
	_, err := client.Append(ctx, "bucket", "log", 0, strings.NewReader("x"), nil)
	fmt.Println(offset, errors.Is(err, sdk.ErrInvalidOffset))
	// Output: 13 true
}

func ExampleClient_Buckets() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	must(client.CreateBucket(ctx, "example-buckets", &sdk.BucketOptions{Tags: map[string]string{"team": "web"}}))
	list := func() {
		for b, err := range client.Buckets(ctx, "example-buckets") {
			must(err)
			var bucket sdk.Bucket = b
			fmt.Println(bucket.Name, time.Since(bucket.Created) < time.Hour)
		}
	}
	list()
	tags, err := client.BucketTags(ctx, "example-buckets")
	must(err)
	fmt.Println(tags)
	must(client.SetBucketTags(ctx, "example-buckets", map[string]string{"team": "ops"}))
	region, err := client.Location(ctx, "example-buckets")
	must(err)
	fmt.Println(region)
	must(client.DeleteBucket(ctx, "example-buckets"))
	list()
	// Output:
	// example-buckets true
	// map[team:web]
	// us-east-1
}

func ExampleClient_SetDocument() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	bucket := newExampleBucket(client, "example-document", nil)
	lifecycle := `<LifecycleConfiguration><Rule><ID>tmp</ID><Filter><Prefix>tmp/</Prefix></Filter><Status>Enabled</Status>` +
		`<Expiration><Days>7</Days></Expiration></Rule></LifecycleConfiguration>`
	must(client.SetDocument(ctx, bucket, "lifecycle", []byte(lifecycle)))
	document, err := client.Document(ctx, bucket, "lifecycle")
	must(err)
	fmt.Println(strings.Contains(string(document), "<ID>tmp</ID>"))
	must(client.DeleteDocument(ctx, bucket, "lifecycle"))
	_, err = client.Document(ctx, bucket, "lifecycle")
	fmt.Println(errors.Is(err, sdk.ErrNoSuchConfiguration))
	// Output:
	// true
	// true
}

func ExampleClient_SetTags() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "tagged", strings.NewReader("x"), nil)
	must(err)
	object := sdk.ObjectID{Key: "tagged"}
	must(client.SetTags(ctx, "bucket", object, map[string]string{"color": "blue"}))
	tags, err := client.Tags(ctx, "bucket", object)
	must(err)
	fmt.Println(tags)
	must(client.DeleteTags(ctx, "bucket", object))
	// Output: map[color:blue]
}

func ExampleClient_SetRetention() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	bucket := newExampleBucket(client, "example-lock", &sdk.BucketOptions{ObjectLock: true})
	written, err := client.Put(ctx, bucket, "contract", strings.NewReader("x"), &sdk.PutOptions{Properties: sdk.Properties{
		Lock: sdk.Lock{Mode: "GOVERNANCE", Until: time.Now().Add(time.Hour)}}})
	must(err)
	version := sdk.ObjectID{Key: "contract", VersionID: written.VersionID}
	must(client.SetRetention(ctx, bucket, version, "GOVERNANCE", time.Now().Add(24*time.Hour), false))
	mode, until, err := client.Retention(ctx, bucket, version)
	must(err)
	fmt.Println(mode, time.Until(until) > 23*time.Hour)
	must(client.SetLegalHold(ctx, bucket, version, true))
	held, err := client.LegalHold(ctx, bucket, version)
	must(err)
	fmt.Println(held)
	_, err = client.Delete(ctx, bucket, "contract", &sdk.DeleteOptions{VersionID: written.VersionID})
	fmt.Println(errors.Is(err, sdk.ErrAccessDenied))
	// Output:
	// GOVERNANCE true
	// true
	// true
}

func ExampleClient_PresignGet() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "shared.txt", strings.NewReader("for everybody with the link"), nil)
	must(err)
	link, err := client.PresignGet("bucket", "shared.txt", time.Hour, nil)
	must(err)
	response, err := http.Get(link)
	must(err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(err)
	fmt.Printf("%s\n", content)
	// Output: for everybody with the link
}

func ExampleClient_PresignPut() {
	client := exampleClient()
	defer client.Close()
	link, header, err := client.PresignPut("bucket", "inbox/letter", time.Hour, &sdk.PutOptions{
		Properties: sdk.Properties{ContentType: "text/plain"}})
	must(err)
	request, err := http.NewRequest(http.MethodPut, link, strings.NewReader("letter"))
	must(err)
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	must(err)
	defer response.Body.Close()
	fmt.Println(response.StatusCode)
	// Output: 200
}

func ExampleClient_PresignPost() {
	client := exampleClient()
	defer client.Close()
	address, fields, err := client.PresignPost("bucket", sdk.PostPolicy{
		Key: "uploads/${filename}", Expires: time.Hour, MaxSize: 10 << 20,
		Prefixes: map[string]string{"Content-Type": "image/"}, // the form has a field Content-Type that begins so
	})
	must(err)
	fmt.Println(address == shared+"/bucket", fields["key"], fields["policy"] != "")
	// Output: true uploads/${filename} true
}

func ExampleError() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Get(ctx, "no-such-bucket", "key", nil)
	var e *sdk.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Code, e.Status, e.RequestID != "", e.Uncertain)
		fmt.Println(e.Is(sdk.ErrNoSuchBucket), strings.Contains(e.Error(), "s3://no-such-bucket/key"), e.Unwrap())
	}
	// Output:
	// Get NoSuchBucket 404 true false
	// true true <nil>
}

func ExampleRequest() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	// An operation that the package does not have.
	response, err := client.Fetch(ctx, &sdk.Request{Method: http.MethodGet, Path: "/bucket", Query: "policyStatus="})
	must(err)
	var complete *sdk.Response = response
	fmt.Println(complete.Status, complete.Code(), complete.ETag() == "")
	// Output: 404 NoSuchBucketPolicy true
}

func ExampleClient_Do() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	response, err := client.Do(ctx, &sdk.Request{Method: http.MethodPut, Path: "/bucket/raw", Stream: strings.NewReader("content"), Length: 7})
	must(err)
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

func ExampleClient_Sign() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	request, err := client.Sign(ctx, &sdk.Request{Method: http.MethodGet, Path: "/bucket/raw"})
	must(err)
	request.Header.Set("X-Amz-Date", "20200101T000000Z") // broken on purpose
	response, err := client.Send(request)
	must(err)
	fmt.Println(response.Status == http.StatusOK)
	// Output: false
}

func ExampleAlgorithm() {
	var algorithm sdk.Algorithm = sdk.CRC64NVME
	fmt.Println(algorithm, slices.Contains([]sdk.Algorithm{sdk.CRC32, sdk.SHA256}, algorithm))
	// Output: CRC64NVME false
}

func ExampleClient_RefLevel() {
	client, err := sdk.New(sdk.Config{Endpoint: shared, RefLevel: sdk.RefFast})
	must(err)
	fmt.Println(client.RefLevel() == sdk.RefFast)
	// Output: true
}

func ExampleUploadInfo() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	bucket := newExampleBucket(client, "example-uploads", nil)
	_, err := client.CreateUpload(ctx, bucket, "film", nil)
	must(err)
	for u, err := range client.Uploads(ctx, bucket, nil) {
		must(err)
		var upload sdk.UploadInfo = u
		fmt.Println(upload.Key)
		must(client.AbortUpload(ctx, bucket, upload.Key, upload.UploadID))
	}
	// Output: film
}
