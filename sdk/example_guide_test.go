package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"orcas/sdk"
)

// These examples are shown in docs/sdk.md only.

func Example_connect() {
	client, err := sdk.New(sdk.Config{
		Endpoint:    shared,
		Credentials: sdk.Static(access, secret),
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	fmt.Println(client.RefLevel())
	// Output: OFF
}

func Example_uncertain() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Get(ctx, "bucket", "no-such-key", nil)
	if errors.Is(err, sdk.ErrNoSuchKey) {
		fmt.Println("not there")
	}
	var e *sdk.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Bucket, e.Key, e.Code, e.Status, e.Attempts, e.Uncertain)
	}
	// Output:
	// not there
	// Get bucket no-such-key NoSuchKey 404 1 false
}

func Example_files() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	home, err := os.MkdirTemp("", "")
	must(err)
	defer os.RemoveAll(home)
	film := filepath.Join(home, "film.mkv")
	must(os.WriteFile(film, make([]byte, 20<<20), 0o600))

	percent := int64(0)
	t, err := client.UploadFile(ctx, "bucket", "film.mkv", film, &sdk.UploadOptions{
		StateFile: film + ".upload", // a later call with this file continues an interrupted upload
		Progress:  func(p sdk.Progress) { percent = 100 * p.Done / p.Total },
	})
	must(err)
	fmt.Println(t.Size, "bytes uploaded,", percent, "percent")
	t, err = client.DownloadFile(ctx, "bucket", "film.mkv", filepath.Join(home, "copy.mkv"), nil)
	must(err)
	fmt.Println(t.Size, "bytes, verified:", t.Verified)
	// Output:
	// 20971520 bytes uploaded, 100 percent
	// 20971520 bytes, verified: true
}

func Example_undelete() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	bucket := newExampleBucket(client, "example-undelete", nil)
	must(client.SetVersioning(ctx, bucket, "Enabled"))
	_, err := client.Put(ctx, bucket, "plan", strings.NewReader("content"), nil)
	must(err)
	deleted, err := client.Delete(ctx, bucket, "plan", nil) // hides the object behind a delete marker
	must(err)
	_, err = client.Delete(ctx, bucket, "plan", &sdk.DeleteOptions{VersionID: deleted.MarkerID}) // removes the marker
	must(err)
	for version, err := range client.Versions(ctx, bucket, &sdk.ListOptions{Prefix: "plan"}) {
		must(err)
		fmt.Println(version.Key, version.Size, version.Latest, version.DeleteMarker)
	}
	// Output: plan 7 true false
}

func Example_retries() {
	client, err := sdk.New(sdk.Config{
		Endpoint: shared, Credentials: sdk.Static(access, secret),
		Retry:       sdk.Retry{Attempts: 8, DelayMin: 100 * time.Millisecond, DelayMax: 10 * time.Second},
		IdleTimeout: 20 * time.Second,
		Bandwidth:   sdk.NewBandwidth(50 << 20), // bytes per second, up and down together
	})
	must(err)
	defer client.Close()
	region, err := client.HeadBucket(context.Background(), "bucket")
	must(err)
	fmt.Println(region)
	// Output: us-east-1
}

func Example_deleteAll() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	keys := []sdk.ObjectID{{Key: "old/a"}, {Key: "old/b"}}
	for deleted, err := range client.DeleteAll(ctx, "bucket", slices.Values(keys), nil) {
		must(err)         // a request failed
		must(deleted.Err) // this object was not deleted
	}
	fmt.Println(client.Stats().Attempts, "request")
	// Output: 1 request
}

func Example_raw() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	response, err := client.Do(ctx, &sdk.Request{
		Method: http.MethodGet, Path: "/bucket", Query: "location=",
	})
	must(err) // there was no response; a 403 or a 500 is not an error here
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(err)
	fmt.Println(response.StatusCode, strings.Contains(string(body), "LocationConstraint"))
	// Output: 200 true
}
