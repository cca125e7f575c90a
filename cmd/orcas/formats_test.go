package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"orcas/server"
)

// recordFormat is the environment variable with the name of a store that TestReleasedFormats writes instead of reading.
const recordFormat = "ORCAS_RECORD_FORMAT"

// formatsDir has a compressed store and a backup of it for each released format, NAME.tar.zst, and what they contain,
// NAME.json.
var formatsDir = filepath.Join("testdata", "formats")

// settingsOf are commands, and a word in their output, for what is not in buckets.
var settingsOf = map[string]string{"user list": "alice", "group list": "readers", "key list": "program", "bucket compressed": "better"}

// storeContent is all that S3 clients can read from a store.
type storeContent struct {
	Formats string // of the version that wrote the store
	Buckets map[string]*bucketContent
}

// bucketContent is the content of a bucket.
type bucketContent struct {
	Versioning string
	Versions   []versionContent // in the order of ListObjectVersions
	Uploads    []string         // key, ID and parts of each unfinished upload
}

// versionContent is an object version, or a delete marker.
type versionContent struct {
	Key, Version             string
	Marker, Latest           bool              `json:",omitempty"`
	Size                     int64             `json:",omitempty"`
	ETag, SHA256, Type, Tags string            `json:",omitempty"`
	Modified                 time.Time         `json:",omitzero"`
	Metadata                 map[string]string `json:",omitempty"`
}

// TestReleasedFormats opens a store of every released format, and compares everything in it: as it is, after a rebuild of
// the database from the blocks, and in the restored backup. Before the release of a new format, add a store:
//
//	ORCAS_RECORD_FORMAT=2 go test -run TestReleasedFormats ./cmd/orcas
func TestReleasedFormats(t *testing.T) {
	if name := os.Getenv(recordFormat); name != "" {
		recordStore(t, name)
	}
	for format := 1; format <= server.ReleasedFormat; format++ {
		require.FileExists(t, filepath.Join(formatsDir, fmt.Sprint(format)+".json"), "format %d has no store: add one", format)
	}
	manifests, err := filepath.Glob(filepath.Join(formatsDir, "*.json"))
	require.NoError(t, err)
	for _, manifest := range manifests {
		t.Run(strings.TrimSuffix(filepath.Base(manifest), ".json"), func(t *testing.T) {
			var want storeContent
			text, err := os.ReadFile(manifest)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &want))
			dir := t.TempDir()
			extract(t, strings.TrimSuffix(manifest, ".json")+".tar.zst", dir)
			data, restored := filepath.Join(dir, "data"), filepath.Join(dir, "restored")
			requireContent := func(data string) {
				t.Helper()
				got := contentOf(t, data)
				got.Formats = want.Formats
				require.Equal(t, want, got)
				orcasExits(t, exitOK, "fsck", "--data", data, "--content")
			}
			requireContent(data)
			orcasExits(t, exitOK, "rebuild", "--data", data)
			requireContent(data)
			orcasExits(t, exitOK, "backup", filepath.Join(dir, "backup"), "--check")
			orcasExits(t, exitOK, "restore", filepath.Join(dir, "backup"), "--data", restored)
			requireContent(restored)
		})
	}
}

// recordStore writes a store with every kind of content, its backup, and its manifest.
func recordStore(t *testing.T, name string) {
	ctx, dir := t.Context(), t.TempDir()
	data := filepath.Join(dir, "data")
	serve(t, data, func(c *s3.Client, address string) {
		admin := func(line string) {
			orcasExits(t, exitOK, append(append([]string{"admin"}, strings.Fields(line)...), "--data", data, "--admin-address", address)...)
		}
		put := func(bucket, key, body string, more ...func(*s3.PutObjectInput)) {
			in := &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(body)}
			for _, fn := range more {
				fn(in)
			}
			_, err := c.PutObject(ctx, in)
			require.NoError(t, err)
		}
		for _, bucket := range []string{"plain", "versioned", "compressed"} {
			_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
			require.NoError(t, err)
		}
		_, err := c.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
			Bucket: aws.String("versioned"), VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		})
		require.NoError(t, err)
		admin("bucket compressed --compression better --max-objects 1000")
		admin("user create alice")
		admin("group create readers")
		admin("key create program --bucket plain --access read")
		for i := range 60 {
			put("plain", fmt.Sprintf("small/%03d", i), strings.Repeat(fmt.Sprint(i, " "), i))
		}
		put("plain", "empty", "")
		put("plain", "shared", strings.Repeat("5 ", 5)) // the content of small/005
		put("plain", "large", strings.Repeat("large content ", 100_000))
		put("plain", "ключ/with spaces&<>", "a key with other characters")
		put("plain", "described", "with metadata", func(in *s3.PutObjectInput) {
			in.ContentType, in.Metadata, in.Tagging = aws.String("text/plain"), map[string]string{"color": "green"}, aws.String("a=b&c=d")
			in.ChecksumAlgorithm = types.ChecksumAlgorithmSha256
		})
		for i := range 3 {
			put("versioned", "key", fmt.Sprint("version ", i))
		}
		put("versioned", "deleted", "a version before a delete marker")
		_, err = c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("versioned"), Key: aws.String("deleted")})
		require.NoError(t, err)
		put("compressed", "text", strings.Repeat("This text can be compressed. ", 5_000))
		for _, key := range []string{"finished", "unfinished"} {
			u, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("compressed"), Key: &key})
			require.NoError(t, err)
			var parts []types.CompletedPart
			for i, size := range []int{5 << 20, 1000} {
				p, err := c.UploadPart(ctx, &s3.UploadPartInput{
					Bucket: u.Bucket, Key: &key, UploadId: u.UploadId, PartNumber: aws.Int32(int32(i + 1)), Body: bytes.NewReader(bytes.Repeat([]byte{byte('a' + i)}, size)),
				})
				require.NoError(t, err)
				parts = append(parts, types.CompletedPart{ETag: p.ETag, PartNumber: aws.Int32(int32(i + 1))})
			}
			if key == "finished" {
				_, err = c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
					Bucket: u.Bucket, Key: &key, UploadId: u.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
				})
				require.NoError(t, err)
			}
		}
		for i := range 10 { // garbage
			_, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("plain"), Key: aws.String(fmt.Sprintf("small/%03d", 50+i))})
			require.NoError(t, err)
		}
	})
	content := contentOf(t, data)
	orcasExits(t, exitOK, "backup", filepath.Join(dir, "backup"), "--data", data)
	require.NoError(t, os.MkdirAll(formatsDir, 0o755))
	file := filepath.Join(formatsDir, name+".tar.zst")
	archive(t, dir, file)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(200<<10), "the archive is in the repository")
	text, err := json.MarshalIndent(content, "", "\t")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(formatsDir, name+".json"), append(text, '\n'), 0o644))
}

// contentOf reads everything in a store.
func contentOf(t *testing.T, data string) storeContent {
	t.Helper()
	content := storeContent{Formats: server.Formats(), Buckets: map[string]*bucketContent{}}
	serve(t, data, func(c *s3.Client, address string) {
		for line, want := range settingsOf {
			got, _ := orcasExits(t, exitOK, append(append([]string{"admin"}, strings.Fields(line)...), "--data", data, "--admin-address", address)...)
			require.Contains(t, got, want, line)
		}
		list, err := c.ListBuckets(t.Context(), &s3.ListBucketsInput{})
		require.NoError(t, err)
		for _, b := range list.Buckets {
			content.Buckets[*b.Name] = readBucket(t, c, b.Name)
		}
	})
	return content
}

// readBucket reads a bucket.
func readBucket(t *testing.T, c *s3.Client, bucket *string) *bucketContent {
	ctx := t.Context()
	versioning, err := c.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: bucket})
	require.NoError(t, err)
	content := &bucketContent{Versioning: string(versioning.Status)}
	list, err := c.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: bucket})
	require.NoError(t, err)
	require.False(t, *list.IsTruncated)
	for _, v := range list.Versions {
		o, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: v.Key, VersionId: v.VersionId})
		require.NoError(t, err, *v.Key)
		sum := sha256.New()
		size, err := io.Copy(sum, o.Body)
		require.NoError(t, err, *v.Key)
		require.NoError(t, o.Body.Close())
		require.Equal(t, *v.Size, size)
		tags, err := c.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: bucket, Key: v.Key, VersionId: v.VersionId})
		require.NoError(t, err)
		var pairs []string
		for _, tag := range tags.TagSet {
			pairs = append(pairs, *tag.Key+"="+*tag.Value)
		}
		version := versionContent{
			Key: *v.Key, Version: *v.VersionId, Latest: *v.IsLatest, Size: size, ETag: *v.ETag, SHA256: hex.EncodeToString(sum.Sum(nil)),
			Type: aws.ToString(o.ContentType), Tags: strings.Join(pairs, "&"), Modified: v.LastModified.UTC(),
		}
		if len(o.Metadata) > 0 {
			version.Metadata = o.Metadata
		}
		content.Versions = append(content.Versions, version)
	}
	for _, m := range list.DeleteMarkers {
		content.Versions = append(content.Versions, versionContent{Key: *m.Key, Version: *m.VersionId, Latest: *m.IsLatest, Marker: true, Modified: m.LastModified.UTC()})
	}
	uploads, err := c.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: bucket})
	require.NoError(t, err)
	for _, u := range uploads.Uploads {
		parts, err := c.ListParts(ctx, &s3.ListPartsInput{Bucket: bucket, Key: u.Key, UploadId: u.UploadId})
		require.NoError(t, err)
		text := *u.Key + " " + *u.UploadId
		for _, p := range parts.Parts {
			text += fmt.Sprintf(" %d:%d:%s", *p.PartNumber, *p.Size, *p.ETag)
		}
		content.Uploads = append(content.Uploads, text)
	}
	return content
}

// archive writes the files below dir into a compressed archive.
func archive(t *testing.T, dir, file string) {
	var out bytes.Buffer
	compress, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20))
	require.NoError(t, err)
	w := tar.NewWriter(compress)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		head := &tar.Header{Name: strings.TrimPrefix(path, dir+"/"), Mode: int64(info.Mode().Perm()), Typeflag: tar.TypeDir}
		if !d.IsDir() {
			head.Typeflag, head.Size = tar.TypeReg, info.Size()
		}
		if err := w.WriteHeader(head); err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}))
	require.NoError(t, w.Close())
	require.NoError(t, compress.Close())
	require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
}

// extract writes the files of an archive below dir.
func extract(t *testing.T, file, dir string) {
	in, err := os.Open(file)
	require.NoError(t, err)
	defer in.Close()
	expand, err := zstd.NewReader(in)
	require.NoError(t, err)
	defer expand.Close()
	r := tar.NewReader(expand)
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(head.Name))
		if head.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, fs.FileMode(head.Mode)))
			continue
		}
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, fs.FileMode(head.Mode)))
	}
}
