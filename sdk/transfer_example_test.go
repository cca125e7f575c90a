package sdk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orcas/sdk"
)

// exampleClient returns a client of a server that has a bucket named "bucket".
func exampleClient() *sdk.Client {
	client, err := sdk.New(sdk.Config{Endpoint: shared, Credentials: sdk.Static(access, secret)})
	must(err)
	return client
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleClient_Upload() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	reader := io.LimitReader(strings.NewReader("any reader"), 100)
	t, err := client.Upload(ctx, "bucket", "upload", reader, nil)
	must(err)
	fmt.Println(t.Size, "bytes,", t.BytesSent, "sent")
	// Output: 10 bytes, 10 sent
}

func ExampleClient_UploadFile() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	dir, err := os.MkdirTemp("", "")
	must(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "film")
	must(os.WriteFile(path, make([]byte, 20<<20), 0o600))

	t, err := client.UploadFile(ctx, "bucket", "film", path, &sdk.UploadOptions{StateFile: filepath.Join(dir, "state")})
	must(err)
	fmt.Println(t.Size, t.Checksums[sdk.CRC64NVME] != "")
	// Output: 20971520 true
}

func ExampleUploadOptions() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	options := &sdk.UploadOptions{Parallel: 8, Progress: func(p sdk.Progress) { fmt.Println(p.Done, "of", p.Total) }}
	options.ContentType = "text/plain"
	options.IfNoneMatch = "*" // only if there is no such object
	_, err := client.Upload(ctx, "bucket", "options", strings.NewReader("content"), options)
	must(err)
	_, err = client.Upload(ctx, "bucket", "options", strings.NewReader("content"), options)
	fmt.Println(errors.Is(err, sdk.ErrPreconditionFailed))
	// Output:
	// 7 of 7
	// 7 of 7
	// 0 of 7
	// true
}

func ExampleProgress() {
	report := func(p sdk.Progress) {
		if p.Total > 0 {
			fmt.Printf("%d %%\n", 100*p.Done/p.Total)
		}
	}
	report(sdk.Progress{Done: 512, Total: 2048, Sent: 512})
	// Output: 25 %
}

func ExampleTransferred() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	content := strings.Repeat("instant upload ", 1000)
	level := sdk.RefFast
	for _, key := range []string{"first", "second"} {
		o := &sdk.UploadOptions{RefLevel: &level}
		t, err := client.Upload(ctx, "bucket", "transferred-"+key, strings.NewReader(content), o)
		must(err)
		fmt.Println(t.Size, "bytes, the server had", t.BytesReferred)
	}
	// Output:
	// 15000 bytes, the server had 0
	// 15000 bytes, the server had 15000
}

func ExampleClient_Download() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "download", strings.NewReader("content"), nil)
	must(err)
	f, err := os.CreateTemp("", "")
	must(err)
	defer os.Remove(f.Name())
	t, err := client.Download(ctx, "bucket", "download", f, nil)
	must(err)
	fmt.Println(t.Size, t.Verified)
	// Output: 7 true
}

func ExampleClient_DownloadFile() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "download", strings.NewReader("content"), nil)
	must(err)
	dir, err := os.MkdirTemp("", "")
	must(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "file")
	t, err := client.DownloadFile(ctx, "bucket", "download", path, &sdk.DownloadOptions{StateFile: filepath.Join(dir, "state")})
	must(err)
	content, err := os.ReadFile(path)
	must(err)
	fmt.Println(string(content), t.Verified)
	// Output: content true
}

func ExampleDownloadOptions() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "tree/file", strings.NewReader("content"), nil)
	must(err)
	dir, err := os.MkdirTemp("", "")
	must(err)
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	must(err)
	defer root.Close()
	for entry, err := range client.List(ctx, "bucket", &sdk.ListOptions{Prefix: "tree/"}) {
		must(err)
		name := strings.TrimPrefix(entry.Key, "tree/")
		_, err := client.DownloadFile(ctx, "bucket", entry.Key, name, &sdk.DownloadOptions{Root: root, Info: &entry.Info, NoSync: true})
		must(err)
		content, err := root.ReadFile(name)
		must(err)
		fmt.Println(name, string(content))
	}
	// Output: file content
}

func ExampleErrState() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	f, err := os.CreateTemp("", "")
	must(err)
	defer os.Remove(f.Name())
	_, err = f.WriteString("Dear Sir or Madam")
	must(err)
	_, err = client.Upload(ctx, "bucket", "key", bytes.NewReader(make([]byte, 20<<20)), &sdk.UploadOptions{StateFile: f.Name()})
	fmt.Println(errors.Is(err, sdk.ErrState))
	// Output: true
}

func ExampleErrSourceChanged() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	f, err := os.CreateTemp("", "")
	must(err)
	defer os.Remove(f.Name())
	must(f.Truncate(20 << 20))
	_, err = client.UploadFile(ctx, "bucket", "key", f.Name(), &sdk.UploadOptions{Progress: func(sdk.Progress) {
		must(os.Chtimes(f.Name(), time.Time{}, time.Unix(1, 0))) // another program writes the file
	}})
	fmt.Println(errors.Is(err, sdk.ErrSourceChanged))
	// Output: true
}

func ExampleClient_FindContent() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	content := []byte("content that the server holds")
	_, err := client.Put(ctx, "bucket", "held", bytes.NewReader(content), nil)
	must(err)
	sum := sha256.Sum256(content)
	states, err := client.FindContent(ctx, "bucket", []sdk.ContentID{
		{Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])},
		{Size: 5, HeadSHA256: strings.Repeat("0", 64)},
	}, sdk.Encryption{})
	must(err)
	fmt.Println(states)
	// Output: [present absent]
}

func ExampleContentID() {
	content := make([]byte, 100<<10)
	head := sha256.Sum256(content[:sdk.HeadSize])
	id := sdk.ContentID{Size: int64(len(content)), HeadSHA256: hex.EncodeToString(head[:])}
	fmt.Println(id.Size, id.HeadSHA256[:8])
	// Output: 102400 de2f2560
}

func ExampleContentState() {
	for _, state := range []sdk.ContentState{sdk.ContentPresent, sdk.ContentPerhaps, sdk.ContentAbsent} {
		switch state {
		case sdk.ContentPresent:
			fmt.Println("refer to it")
		case sdk.ContentPerhaps:
			fmt.Println("ask with the hash of all of it")
		default:
			fmt.Println("send it")
		}
	}
	// Output:
	// refer to it
	// ask with the hash of all of it
	// send it
}

func ExampleClient_Refer() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	content := []byte("content to refer to")
	_, err := client.Put(ctx, "bucket", "original", bytes.NewReader(content), nil)
	must(err)
	sum := sha256.Sum256(content)
	written, err := client.Refer(ctx, "bucket", "reference", int64(len(content)), hex.EncodeToString(sum[:]), nil)
	must(err)
	fmt.Println(written.Size)
	_, err = client.Refer(ctx, "bucket", "reference", 1, strings.Repeat("0", 64), nil)
	fmt.Println(errors.Is(err, sdk.ErrNoSuchContent))
	// Output:
	// 19
	// true
}

func ExampleClient_ReferPart() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	content := []byte("content to refer to")
	_, err := client.Put(ctx, "bucket", "original", bytes.NewReader(content), nil)
	must(err)
	sum := sha256.Sum256(content)
	id, err := client.CreateUpload(ctx, "bucket", "parts", nil)
	must(err)
	part, err := client.ReferPart(ctx, "bucket", "parts", id, 1, int64(len(content)), hex.EncodeToString(sum[:]), nil)
	must(err)
	_, err = client.CompleteUpload(ctx, "bucket", "parts", id, []sdk.Part{part}, nil)
	must(err)
	fmt.Println(part.Number, part.Size)
	// Output: 1 19
}

func ExampleParseRefLevel() {
	level, err := sdk.ParseRefLevel("fast")
	must(err)
	fmt.Println(level == sdk.RefFast)
	_, err = sdk.ParseRefLevel("often")
	fmt.Println(err)
	// Output:
	// true
	// sdk: "often" is not a level of instant upload: expected OFF, FULL or FAST
}

func ExampleRefLevel() {
	fmt.Println(sdk.RefOff, sdk.RefFull, sdk.RefFast)
	// Output: OFF FULL FAST
}

func ExampleRefLevel_String() {
	fmt.Println(sdk.RefFull.String())
	// Output: FULL
}

func ExampleNewBandwidth() {
	limit := sdk.NewBandwidth(10 << 20) // 10 MiB/s for everything that uses it
	client, err := sdk.New(sdk.Config{Endpoint: shared, Credentials: sdk.Static(access, secret), Bandwidth: limit})
	must(err)
	defer client.Close()
	_, err = client.Put(context.Background(), "bucket", "limited", strings.NewReader("content"), nil)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleBandwidth_SetLimit() {
	limit := sdk.NewBandwidth(1 << 20)
	limit.SetLimit(0) // at night
	fmt.Println(limit.Limit())
	// Output: 0
}

func ExampleBandwidth_Limit() {
	fmt.Println(sdk.NewBandwidth(1 << 20).Limit())
	// Output: 1048576
}

func ExampleBandwidth() {
	limit := sdk.NewBandwidth(1 << 20)
	up := sdk.Config{Endpoint: "http://127.0.0.1:9000", Bandwidth: limit}
	down := sdk.Config{Endpoint: "https://s3.example.com", Bandwidth: limit} // both together
	fmt.Println(up.Bandwidth.Limit(), down.Bandwidth.Limit())
	// Output: 1048576 1048576
}

func ExampleClient_CreateUpload() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	id, err := client.CreateUpload(ctx, "bucket", "multipart", nil)
	must(err)
	part, err := client.UploadPart(ctx, "bucket", "multipart", id, 1, strings.NewReader("the last part may be small"), nil)
	must(err)
	written, err := client.CompleteUpload(ctx, "bucket", "multipart", id, []sdk.Part{part}, &sdk.CompleteOptions{Size: part.Size})
	must(err)
	fmt.Println(strings.HasSuffix(written.ETag, "-1"))
	// Output: true
}

func ExampleClient_UploadPart() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	id, err := client.CreateUpload(ctx, "bucket", "part", nil)
	must(err)
	part, err := client.UploadPart(ctx, "bucket", "part", id, 1, strings.NewReader("content"), nil)
	must(err)
	fmt.Println(part.Number, part.Size, part.ETag)
	must(client.AbortUpload(ctx, "bucket", "part", id))
	// Output: 1 7 9a0364b9e99bb480dd25e1f0284c8555
}

func ExampleClient_UploadPartCopy() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	_, err := client.Put(ctx, "bucket", "original", strings.NewReader("0123456789"), nil)
	must(err)
	id, err := client.CreateUpload(ctx, "bucket", "copied", nil)
	must(err)
	part, err := client.UploadPartCopy(ctx, sdk.Source{Bucket: "bucket", Key: "original"}, "bucket", "copied", id, 1,
		&sdk.PartOptions{Offset: 2, Length: 3})
	must(err)
	_, err = client.CompleteUpload(ctx, "bucket", "copied", id, []sdk.Part{part}, nil)
	must(err)
	content, err := fs.ReadFile(client.FS(ctx, "bucket", ""), "copied")
	must(err)
	fmt.Println(string(content))
	// Output: 234
}

func ExampleClient_CompleteUpload() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	id, err := client.CreateUpload(ctx, "bucket", "complete", nil)
	must(err)
	part, err := client.UploadPart(ctx, "bucket", "complete", id, 1, strings.NewReader("content"), nil)
	must(err)
	_, err = client.CompleteUpload(ctx, "bucket", "complete", id, []sdk.Part{part},
		&sdk.CompleteOptions{Size: 7, Conditions: sdk.Conditions{IfNoneMatch: "*"}})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_AbortUpload() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	id, err := client.CreateUpload(ctx, "bucket", "aborted", nil)
	must(err)
	must(client.AbortUpload(ctx, "bucket", "aborted", id))
	fmt.Println(errors.Is(client.AbortUpload(ctx, "bucket", "aborted", id), sdk.ErrNoSuchUpload))
	// Output: true
}

func ExampleClient_Uploads() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	id, err := client.CreateUpload(ctx, "bucket", "uploads/old", nil)
	must(err)
	for upload, err := range client.Uploads(ctx, "bucket", &sdk.ListOptions{Prefix: "uploads/"}) {
		must(err)
		fmt.Println(upload.Key, upload.UploadID == id)
		must(client.AbortUpload(ctx, "bucket", upload.Key, upload.UploadID))
	}
	// Output: uploads/old true
}

func ExampleClient_Parts() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	id, err := client.CreateUpload(ctx, "bucket", "parts", nil)
	must(err)
	_, err = client.UploadPart(ctx, "bucket", "parts", id, 5, strings.NewReader("content"), nil)
	must(err)
	for part, err := range client.Parts(ctx, "bucket", "parts", id) {
		must(err)
		fmt.Println(part.Number, part.Size)
	}
	must(client.AbortUpload(ctx, "bucket", "parts", id))
	// Output: 5 7
}

func ExampleClient_FS() {
	client, ctx := exampleClient(), context.Background()
	defer client.Close()
	for _, key := range []string{"site/index.html", "site/css/main.css"} {
		_, err := client.Put(ctx, "bucket", key, strings.NewReader("content"), nil)
		must(err)
	}
	files := client.FS(ctx, "bucket", "site") // http.FileServerFS(files) serves them
	must(fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		fmt.Println(path, d.IsDir())
		return err
	}))
	// Output:
	// . true
	// css true
	// css/main.css false
	// index.html false
}
