package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// testConfig returns the configuration of a server with a new data directory, on a free port.
func testConfig(t *testing.T) Config {
	t.Helper()
	settings, err := ReadSettings([]string{"ORCAS_MIN_FREE=0"})
	require.NoError(t, err)
	return Config{Data: filepath.Join(t.TempDir(), "data"), Address: "127.0.0.1:0", Settings: settings}
}

// running opens and runs a server. Stop shuts it down and returns the result; it also runs at the end of the test.
func running(t *testing.T, config Config) (s *Server, stop func() error) {
	t.Helper()
	s, err := Open(context.Background(), config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			return err
		}
		return s.Close()
	}
	t.Cleanup(func() { require.NoError(t, stop()) })
	return s, stop
}

// httpClient returns a client that trusts the server's certificate, if it has one.
func httpClient(t *testing.T, s *Server) *http.Client {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: true}
	if s.config.TLSCert != "" {
		pem, err := os.ReadFile(s.config.TLSCert)
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(pem))
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestObjectsSurviveRestartsAndNothingLeaks(t *testing.T) {
	for name, selfSigned := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			config := testConfig(t)
			config.SelfSigned = selfSigned
			config.Settings.Buckets = []string{"bucket"}
			bodies := map[string][]byte{"empty": {}, "small": []byte("hello"), "large": bytes.Repeat([]byte("0123456789abcdef"), 1<<16)}
			ctx := context.Background()
			for round := range 2 {
				s, stop := running(t, config)
				hc := httpClient(t, s)
				response, err := hc.Get(s.Endpoint() + "/-/health/ready")
				require.NoError(t, err)
				require.Equal(t, name, response.Proto)
				require.NoError(t, response.Body.Close())
				client := s3.New(s3.Options{
					BaseEndpoint: aws.String(s.Endpoint()), Region: "us-east-1", UsePathStyle: true, HTTPClient: hc,
					Credentials: credentials.NewStaticCredentialsProvider(s.Credentials().AccessKey, s.Credentials().SecretKey, ""),
				})
				for key, body := range bodies {
					if round == 0 {
						_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: &key, Body: bytes.NewReader(body)})
						require.NoError(t, err)
					}
					got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: &key})
					require.NoError(t, err)
					content, err := io.ReadAll(got.Body)
					require.NoError(t, err)
					require.NoError(t, got.Body.Close())
					require.True(t, bytes.Equal(body, content), key)
				}
				hc.CloseIdleConnections()
				require.NoError(t, stop())
				require.NoError(t, s.Close(), "second call")
			}
		})
	}
}

// TestSpaceForTheNextStart: the data directory reserves the space that a start needs on a full drive.
func TestSpaceForTheNextStart(t *testing.T) {
	config := testConfig(t)
	for range 2 {
		_, stop := running(t, config)
		files, err := os.ReadDir(filepath.Join(config.Data, "spare"))
		require.NoError(t, err)
		require.Len(t, files, 8)
		require.NoError(t, stop())
	}
}

func TestHealth(t *testing.T) {
	s, _ := running(t, testConfig(t))
	hc := httpClient(t, s)
	live, err := hc.Get(s.Endpoint() + "/-/health/live")
	require.NoError(t, err)
	defer func() { _ = live.Body.Close() }()
	var health map[string]string
	require.NoError(t, json.NewDecoder(live.Body).Decode(&health))
	require.Equal(t, map[string]string{"status": "live", "durability": "strict", "version": Version()}, health)
	s.stopping.Store(true)
	ready, err := hc.Get(s.Endpoint() + "/-/health/ready")
	require.NoError(t, err)
	defer func() { _ = ready.Body.Close() }()
	require.Equal(t, http.StatusServiceUnavailable, ready.StatusCode)
}

// TestFailedStartReleasesEverything fails a start at several steps. Afterwards a server can use the same directory and
// address.
func TestFailedStartReleasesEverything(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	config := testConfig(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	config.Address = free.Addr().String()
	_, err = Open(context.Background(), config)
	require.ErrorContains(t, err, "address already in use")
	require.NoDirExists(t, config.Data, "the directory must not be created before the address is bound")
	require.NoError(t, free.Close())

	bad := config
	bad.TLSCert, bad.TLSKey = "missing.crt", "missing.key"
	_, err = Open(context.Background(), bad)
	require.ErrorContains(t, err, "missing.crt")
	require.NoDirExists(t, config.Data)

	closed, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	bad = config
	bad.Banner = closed // written in the last step
	_, err = Open(context.Background(), bad)
	require.ErrorIs(t, err, os.ErrClosed)
	require.DirExists(t, config.Data)

	require.NoError(t, os.WriteFile(filepath.Join(config.Data, CredentialsFile), []byte("torn"), 0o600))
	_, err = Open(context.Background(), config)
	require.ErrorContains(t, err, CredentialsFile)
	require.NoError(t, os.Remove(filepath.Join(config.Data, CredentialsFile)))

	first, stop := running(t, config)
	second := config
	second.Address = "127.0.0.1:0"
	_, err = Open(context.Background(), second)
	require.ErrorContains(t, err, "already uses the data directory")
	require.Equal(t, "http://"+config.Address, first.Endpoint())
	require.NoError(t, stop())
}

func TestUnreadableDatabaseIsRefused(t *testing.T) {
	config := testConfig(t)
	s, err := Open(context.Background(), config)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(filepath.Join(config.Data, databaseFile), []byte(strings.Repeat("not a database ", 1000)), 0o600))
	_, err = Open(context.Background(), config)
	require.ErrorContains(t, err, databaseFile)
}

func TestBannerShowsGeneratedCredentialsOnce(t *testing.T) {
	config := testConfig(t)
	var first, second, log syncedBuilder
	config.Banner, config.Log, config.Secrets = &first, &log, true
	s, err := Open(context.Background(), config)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	config.Banner = &second
	again, err := Open(context.Background(), config)
	require.NoError(t, err)
	require.NoError(t, again.Close())
	secret := s.Credentials().SecretKey
	require.Equal(t, secret, again.Credentials().SecretKey)
	require.Contains(t, first.String(), secret)
	require.NotContains(t, second.String(), secret)
	require.NotContains(t, log.String(), secret)

	piped := testConfig(t)
	var third syncedBuilder
	piped.Banner = &third
	other, err := Open(context.Background(), piped)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.NotContains(t, third.String(), other.Credentials().SecretKey, "the output is not a terminal")
	require.Contains(t, third.String(), filepath.Join(piped.Data, CredentialsFile))
}

// TestAdminListener: the admin listener serves health checks, and does not serve S3.
func TestAdminListener(t *testing.T) {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	s, _ := running(t, config)
	client := httpClient(t, s)
	for path, want := range map[string]int{"/-/health/live": 200, "/-/health/ready": 200, "/bucket": 403, "/bucket/key": 403} {
		resp, err := client.Get("http://" + s.adminListen.Addr().String() + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, path)
	}
	taken := testConfig(t)
	taken.Admin = s.adminListen.Addr().String()
	_, err := Open(context.Background(), taken)
	require.ErrorContains(t, err, "--admin-address")
}
