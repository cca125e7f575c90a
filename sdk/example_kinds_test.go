package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"orcas/sdk"
)

func Example_errors() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	advice := func(err error) string {
		switch {
		case errors.Is(err, sdk.ErrNoSuchKey), errors.Is(err, sdk.ErrNoSuchVersion), errors.Is(err, sdk.ErrNoSuchBucket):
			return "check the name"
		case errors.Is(err, sdk.ErrSignature), errors.Is(err, sdk.ErrInvalidAccessKey), errors.Is(err, sdk.ErrInvalidToken):
			return "check the credentials"
		case errors.Is(err, sdk.ErrAccessDenied):
			return "ask for permission"
		case errors.Is(err, sdk.ErrClockSkew):
			return "set the clock"
		case errors.Is(err, sdk.ErrPreconditionFailed), errors.Is(err, sdk.ErrInvalidOffset):
			return "someone else has changed the object: read it again"
		case errors.Is(err, sdk.ErrQuotaExceeded), errors.Is(err, sdk.ErrInsufficientStorage):
			return "free some space"
		case errors.Is(err, sdk.ErrNetwork), errors.Is(err, sdk.ErrSlowDown):
			return "try again later"
		case errors.Is(err, sdk.ErrRedirect):
			return "configure the region or the endpoint that the error names"
		case errors.Is(err, sdk.ErrChecksum), errors.Is(err, sdk.ErrProtocol):
			return "do not trust what arrived"
		}
		return "look at the error"
	}
	_, err := client.Get(ctx, "bucket", "no such key", nil)
	fmt.Println(advice(err))
	stranger, err := sdk.New(sdk.Config{Endpoint: shared, Credentials: sdk.Static("stranger", "secret")})
	must(err)
	defer stranger.Close()
	_, err = stranger.Get(ctx, "bucket", "key", nil)
	fmt.Println(advice(err))
	// Output:
	// check the name
	// check the credentials
}

// Reading again only what has changed, and ranges that do not exist.
func ExampleConditions() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	written, err := client.Put(ctx, "bucket", "conditions", strings.NewReader("content"), nil)
	must(err)
	_, err = client.Get(ctx, "bucket", "conditions", &sdk.GetOptions{Conditions: sdk.Conditions{IfNoneMatch: written.ETag}})
	fmt.Println(errors.Is(err, sdk.ErrNotModified))
	_, err = client.Get(ctx, "bucket", "conditions", &sdk.GetOptions{Offset: 100})
	fmt.Println(errors.Is(err, sdk.ErrInvalidRange))
	// Output:
	// true
	// true
}

func ExampleClient_CreateBucket() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	must(client.CreateBucket(ctx, "example-create", nil))
	err := client.CreateBucket(ctx, "example-create", nil)
	fmt.Println(err == nil || errors.Is(err, sdk.ErrBucketExists)) // some servers accept it from the owner
	_, err = client.Put(ctx, "example-create", "key", strings.NewReader("content"), nil)
	must(err)
	fmt.Println(errors.Is(client.DeleteBucket(ctx, "example-create"), sdk.ErrBucketNotEmpty))
	fmt.Println(errors.Is(client.CreateBucket(ctx, "Not A Name", nil), sdk.ErrInvalidArgument))
	// Output:
	// true
	// true
	// true
}

func ExampleErrNotImplemented() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	err := client.SetDocument(ctx, "bucket", "website", []byte("<WebsiteConfiguration/>"))
	fmt.Println(errors.Is(err, sdk.ErrNotImplemented))
	// Output: true
}

func ExampleErrInvalidPart() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	id, err := client.CreateUpload(ctx, "bucket", "parts", nil)
	must(err)
	parts := []sdk.Part{{Number: 1, ETag: "d41d8cd98f00b204e9800998ecf8427e"}} // it was never uploaded
	_, err = client.CompleteUpload(ctx, "bucket", "parts", id, parts, nil)
	fmt.Println(errors.Is(err, sdk.ErrInvalidPart))
	must(client.AbortUpload(ctx, "bucket", "parts", id))
	// Output: true
}

// Every algorithm. The server verifies and stores the checksum, and the client verifies it when the object is read.
func ExampleAlgorithm_all() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	for _, algorithm := range []sdk.Algorithm{sdk.None, sdk.CRC32, sdk.CRC32C, sdk.CRC64NVME, sdk.SHA1, sdk.SHA256, sdk.SHA512,
		sdk.MD5, sdk.XXHASH64, sdk.XXHASH3, sdk.XXHASH128} {
		written, err := client.Put(ctx, "bucket", "sum", strings.NewReader("content"), &sdk.PutOptions{Checksum: algorithm})
		must(err)
		if algorithm == sdk.None { // the algorithm of the client
			algorithm = sdk.CRC64NVME
		}
		object, err := client.Get(ctx, "bucket", "sum", nil)
		must(err)
		_, err = io.ReadAll(object)
		must(err)
		must(object.Close())
		fmt.Println(algorithm, object.Checksums[algorithm] == written.Checksums[algorithm])
	}
	// Output:
	// CRC64NVME true
	// CRC32 true
	// CRC32C true
	// CRC64NVME true
	// SHA1 true
	// SHA256 true
	// SHA512 true
	// MD5 true
	// XXHASH64 true
	// XXHASH3 true
	// XXHASH128 true
}

func ExampleClient() {
	// A client may be used by several goroutines. One is enough for a program.
	archive := func(client *sdk.Client, path string) (*sdk.Transferred, error) {
		return client.UploadFile(context.Background(), "bucket", filepath.Base(path), path, nil)
	}
	client, err := sdk.New(sdk.Config{Endpoint: shared, Region: sdk.DefaultRegion, Credentials: sdk.Static(access, secret)})
	must(err)
	defer client.Close()
	archived, err := archive(client, "sdk.go")
	must(err)
	fmt.Println(archived.Size > 0)
	// Output: true
}

func ExampleStatic() {
	var credentials sdk.Credentials = sdk.Static("ACCESS_KEY", "SECRET_KEY")
	keys, err := credentials.Get(context.Background())
	must(err)
	fmt.Println(keys.AccessKey)
	// Output: ACCESS_KEY
}

func ExamplePostPolicy() {
	client := exampleClient()
	defer client.Close()
	_, _, err := client.PresignPost("bucket", sdk.PostPolicy{Key: "inbox/letter", Expires: sdk.PresignMax})
	must(err)
	_, _, err = client.PresignPost("bucket", sdk.PostPolicy{Key: "inbox/letter", Expires: sdk.PresignMax + time.Second})
	fmt.Println(errors.Is(err, sdk.ErrInvalidArgument))
	// Output: true
}
