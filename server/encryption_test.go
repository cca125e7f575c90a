package server

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core/frame"
	"orcas/fsck"
	"orcas/storetest"
)

var (
	keyA = strings.Repeat("a1", 32)
	keyB = strings.Repeat("b2", 32)
)

func TestEncryptionSettings(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	good := file("good", "2:"+keyB+"\n1:"+keyA+"\n", 0o600)
	for _, environ := range [][]string{{"ORCAS_MASTER_KEY_FILE=" + good}, {"ORCAS_MASTER_KEY=2:" + keyB + ",1:" + keyA}} {
		s, err := ReadSettings(append(environ, "ORCAS_ENCRYPTION=all", "ORCAS_SSEC_OVER_HTTP=true"))
		require.NoError(t, err)
		require.Equal(t, []uint32{2, 1}, s.MasterKeys.IDs())
		require.True(t, s.Encrypt && s.SSECOverHTTP)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", s, s, s), keyA)
	}
	for _, environ := range [][]string{
		{"ORCAS_MASTER_KEY_FILE=" + filepath.Join(dir, "absent")}, {"ORCAS_MASTER_KEY_FILE=" + dir},
		{"ORCAS_MASTER_KEY_FILE=" + file("open", "1:"+keyA, 0o640)}, {"ORCAS_MASTER_KEY_FILE=" + file("others", "1:"+keyA, 0o604)},
		{"ORCAS_MASTER_KEY_FILE=" + file("empty", "", 0o600)}, {"ORCAS_MASTER_KEY_FILE=" + file("long", strings.Repeat("#", 1<<17), 0o600)},
		{"ORCAS_MASTER_KEY=" + keyA[1:]}, {"ORCAS_MASTER_KEY=" + strings.Repeat("0", 64)}, {"ORCAS_MASTER_KEY=" + keyA, "ORCAS_MASTER_KEY_FILE=" + good},
		{"ORCAS_ENCRYPTION=all"}, {"ORCAS_ENCRYPTION=yes", "ORCAS_MASTER_KEY=" + keyA}, {"ORCAS_SSEC_OVER_HTTP=perhaps"},
	} {
		_, err := ReadSettings(environ)
		require.Error(t, err, "%v", environ)
		name, _, _ := strings.Cut(environ[0], "=")
		require.Contains(t, err.Error(), name)
		require.NotContains(t, err.Error(), keyA[1:])
	}
}

// encrypted is the configuration of a server, whose environment a test changes between starts.
type encrypted struct {
	t      *testing.T
	config Config
}

func (e *encrypted) set(environ ...string) {
	e.t.Helper()
	var err error
	e.config.Settings, err = ReadSettings(append(environ, "ORCAS_MIN_FREE=0", "ORCAS_SSEC_OVER_HTTP=true", "ORCAS_BUCKETS=bucket"))
	require.NoError(e.t, err)
}

// refused returns the error of a start with these settings, which must fail.
func (e *encrypted) refused(environ ...string) string {
	e.t.Helper()
	e.set(environ...)
	s, err := Open(context.Background(), e.config)
	require.Nil(e.t, s)
	require.ErrorAs(e.t, err, new(ConfigError))
	require.NotContains(e.t, err.Error(), keyA)
	require.NotContains(e.t, err.Error(), keyB)
	return err.Error()
}

func client(t *testing.T, s *Server) *s3.Client {
	root := s.Credentials()
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint()), Region: "us-east-1", UsePathStyle: true, HTTPClient: httpClient(t, s),
		Credentials: credentials.NewStaticCredentialsProvider(root.AccessKey, root.SecretKey, ""),
	})
}

// TestKeysAndRotation: a store with encrypted content starts only with its keys. A rotation replaces the old key with a
// new one for every kind of content, and the result is the same when the database is rebuilt from the blocks.
func TestKeysAndRotation(t *testing.T) {
	ctx := t.Context()
	e := &encrypted{t, testConfig(t)}
	e.config.Admin = "127.0.0.1:0"
	var log bytes.Buffer
	e.config.Log = &log
	bodies := map[string][]byte{}
	for i := range 300 {
		bodies[fmt.Sprint("small-", i)] = fmt.Appendf(nil, "secret %d", i)
	}
	bodies["large"] = bytes.Repeat([]byte("a large secret. "), 1<<16)

	e.set("ORCAS_MASTER_KEY=1:"+keyA, "ORCAS_ENCRYPTION=all")
	s, stop := running(t, e.config)
	c := client(t, s)
	for key, body := range bodies {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: &key, Body: bytes.NewReader(body)})
		require.NoError(t, err)
	}
	u, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("bucket"), Key: aws.String("parts")})
	require.NoError(t, err)
	part, err := c.UploadPart(ctx, &s3.UploadPartInput{Bucket: aws.String("bucket"), Key: aws.String("parts"), UploadId: u.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("a secret part")})
	require.NoError(t, err)
	mine := strings.Repeat("K", 32)
	put := &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("mine"), Body: strings.NewReader("my secret"), SSECustomerAlgorithm: aws.String("AES256")}
	put.SSECustomerKey, put.SSECustomerKeyMD5 = customerKey(mine)
	_, err = c.PutObject(ctx, put)
	require.NoError(t, err)
	require.NoError(t, stop())

	require.Contains(t, e.refused(), "ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_KEY: ")
	require.Contains(t, e.refused("ORCAS_MASTER_KEY=1:"+keyB), "ORCAS_MASTER_KEY: ")
	require.Contains(t, e.refused("ORCAS_MASTER_KEY=2:"+keyB), "master key 1")

	same := func(s *Server) {
		t.Helper()
		c := client(t, s)
		for key, body := range bodies {
			got, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: &key})
			require.NoError(t, err)
			require.EqualValues(t, "AES256", got.ServerSideEncryption)
			var b bytes.Buffer
			_, err = b.ReadFrom(got.Body)
			require.NoError(t, err)
			require.True(t, bytes.Equal(body, b.Bytes()), key)
		}
		got, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("mine"), SSECustomerAlgorithm: aws.String("AES256"),
			SSECustomerKey: put.SSECustomerKey, SSECustomerKeyMD5: put.SSECustomerKeyMD5})
		require.NoError(t, err)
		var b bytes.Buffer
		_, err = b.ReadFrom(got.Body)
		require.NoError(t, err)
		require.Equal(t, "my secret", b.String())
		report := fsck.Report{}
		status, text, _ := ask(t, s, s.Credentials().SecretKey, "POST", "/-/admin/fsck?content=true", "")
		require.Equal(t, 200, status)
		require.NoError(t, json.Unmarshal(text, &report))
		require.Zero(t, report.Found, "%s", text)
	}
	status := func(s *Server, method, path string) (r content.RotateStatus) {
		t.Helper()
		code, text, _ := ask(t, s, s.Credentials().SecretKey, method, path, "")
		require.Equal(t, 200, code, "%s", text)
		require.NoError(t, json.Unmarshal(text, &r))
		return r
	}

	e.set("ORCAS_MASTER_KEY=2:"+keyB+",1:"+keyA, "ORCAS_ENCRYPTION=all")
	s, stop = running(t, e.config)
	same(s)
	require.Equal(t, content.RotateStatus{Newest: 2, Needed: []uint32{1}}, status(s, "GET", "/-/admin/keys"))
	done := status(s, "POST", "/-/admin/keys?wait=true")
	require.Equal(t, content.RotateStatus{Newest: 2, Needed: []uint32{2}, Rewrapped: int64(len(bodies)) + 1, Retired: []uint32{1}}, done)
	same(s) // reads cached metadata too
	require.Zero(t, status(s, "POST", "/-/admin/keys?wait=true").Rewrapped)
	require.NoError(t, stop())

	require.Contains(t, e.refused("ORCAS_MASTER_KEY=1:"+keyA), "master key 2")
	for _, lose := range []bool{false, true} {
		if lose { // the next start rebuilds the database from the blocks
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(filepath.Join(e.config.Data, databaseFile+suffix)); !errors.Is(err, os.ErrNotExist) {
					require.NoError(t, err)
				}
			}
		}
		require.Contains(t, e.refused(), "master key 2")
		e.set("ORCAS_MASTER_KEY=2:" + keyB)
		s, stop = running(t, e.config)
		same(s)
		require.Equal(t, []uint32{2}, status(s, "GET", "/-/admin/keys").Needed)
		if lose {
			_, err = client(t, s).CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
				Bucket: aws.String("bucket"), Key: aws.String("parts"), UploadId: u.UploadId,
				MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: aws.Int32(1)}}},
			})
			require.NoError(t, err)
			got, err := client(t, s).GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("parts")})
			require.NoError(t, err)
			var b bytes.Buffer
			_, err = b.ReadFrom(got.Body)
			require.NoError(t, err)
			require.Equal(t, "a secret part", b.String())
		}
		require.NoError(t, stop())
	}
	requireNothingIn(t, e.config.Data, "secret 2", "a large secret", "a secret part", "my secret", keyA, strings.Repeat("\xa1", 32), strings.Repeat("\xb2", 32), mine, *put.SSECustomerKey)
	for _, secret := range []string{keyA, keyB, mine, *put.SSECustomerKey} {
		require.NotContains(t, log.String(), secret)
	}
}

// customerKey returns a key and its MD5, encoded for the request headers.
func customerKey(key string) (text, sum *string) {
	hash := md5.Sum([]byte(key))
	return aws.String(base64.StdEncoding.EncodeToString([]byte(key))), aws.String(base64.StdEncoding.EncodeToString(hash[:]))
}

// requireNothingIn checks that no file in a directory contains any of the texts.
func requireNothingIn(t *testing.T, dir string, texts ...string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if id, _, err := frame.DecodeBlockHeader(content); err == nil {
			content = append(content, storetest.PlainRecords(t, id, content)...)
		}
		for _, text := range texts {
			require.False(t, bytes.Contains(content, []byte(text)), "%s contains %q", path, text)
		}
		return nil
	}))
}
