package sdk_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/sdk"
	"orcas/server"
)

const (
	access = "test-access"
	secret = "test-secret-key"
)

// shared is the server that all tests and examples use that need nothing special.
var shared string

// TestMain starts the shared server, and checks at the end that the clients left no goroutines behind.
func TestMain(m *testing.M) {
	before := goleak.IgnoreCurrent() // of packages of the server
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "orcas-sdk")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		s, stop, err := open(dir, false, "ORCAS_BUCKETS=bucket")
		if err != nil {
			panic(err)
		}
		shared = s.Endpoint()
		code := m.Run()
		stop()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if err := goleak.Find(before); err != nil && code == 0 {
			println(err.Error())
			return 1
		}
		return code
	}())
}

// open starts a server in dir.
func open(dir string, secure bool, settings ...string) (*server.Server, func(), error) {
	set, err := server.ReadSettings(append(settings, "ORCAS_ROOT_ACCESS_KEY="+access, "ORCAS_ROOT_SECRET_KEY="+secret, "ORCAS_MIN_FREE=0"))
	if err != nil {
		return nil, nil, err
	}
	s, err := server.Open(context.Background(), server.Config{Data: filepath.Join(dir, "data"), Address: "127.0.0.1:0", SelfSigned: secure,
		Settings: set, Log: new(bytes.Buffer)})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	return s, func() {
		cancel()
		if err := <-ran; err != nil {
			panic(err)
		}
		if err := s.Close(); err != nil {
			panic(err)
		}
	}, nil
}

// fast are retries that do not slow tests down.
var fast = sdk.Retry{DelayMin: time.Microsecond, DelayMax: time.Millisecond}

// newClient returns a client that is closed at the end of the test. change may change its configuration.
func newClient(t testing.TB, endpoint string, change ...func(*sdk.Config)) *sdk.Client {
	t.Helper()
	config := sdk.Config{Endpoint: endpoint, Credentials: sdk.Static(access, secret), Retry: fast}
	for _, f := range change {
		f(&config)
	}
	c, err := sdk.New(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// newBucket returns a client of the shared server, and a bucket for the test.
func newBucket(t testing.TB, change ...func(*sdk.Config)) (*sdk.Client, string) {
	t.Helper()
	c := newClient(t, shared, change...)
	bucket := "b" + time.Now().Format("150405.000000000")
	r, err := c.Fetch(t.Context(), &sdk.Request{Method: http.MethodPut, Path: "/" + bucket})
	require.NoError(t, err)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	return c, bucket
}
