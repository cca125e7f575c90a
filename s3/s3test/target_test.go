package s3test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"orcas/internal/environ"
	"orcas/internal/sigv4"
)

// target is the server under test.
type target struct {
	endpoint             *url.URL
	accessKey, secretKey string
	region               string
	domain               string // for virtual-hosted-style requests; "": none
	foreign              bool   // the suite did not start the server, so it must clean up after itself
	other                bool   // the server is not ORCAS
	client               *http.Client
	signer               *sigv4.Signer
	stop                 func() error
}

// Environment variables of the suite.
const (
	envEndpoint = "ORCAS_S3TEST_ENDPOINT"
	envBinary   = "ORCAS_S3TEST_BINARY" // path of a server that is already built
)

// newTarget returns the server that the environment names, or starts one.
func newTarget() (*target, error) {
	t := &target{region: "us-east-1", stop: func() error { return nil }}
	if v := os.Getenv("ORCAS_S3TEST_REGION"); v != "" {
		t.region = v
	}
	text := os.Getenv(envEndpoint)
	t.foreign = text != ""
	t.other = t.foreign && os.Getenv("ORCAS_S3TEST_OURS") == ""
	if t.foreign {
		t.accessKey, t.secretKey = os.Getenv("ORCAS_S3TEST_ACCESS_KEY"), os.Getenv("ORCAS_S3TEST_SECRET_KEY")
		t.domain = os.Getenv("ORCAS_S3TEST_DOMAIN")
		if t.accessKey == "" || t.secretKey == "" {
			return nil, errors.New(envEndpoint + " also requires ORCAS_S3TEST_ACCESS_KEY and ORCAS_S3TEST_SECRET_KEY")
		}
	} else {
		var err error
		if text, err = t.start(); err != nil {
			return nil, err
		}
	}
	var err error
	if t.endpoint, err = url.Parse(text); err != nil || t.endpoint.Host == "" {
		return nil, fmt.Errorf("%s is not a URL with a host: %q", envEndpoint, text)
	}
	t.signer = &sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}
	t.client = &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64, DisableCompression: true, ExpectContinueTimeout: time.Minute,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: os.Getenv("ORCAS_S3TEST_INSECURE") != ""},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return t, nil
}

// settings is the environment of the server that the suite starts.
var settings = []string{
	"ORCAS_ROOT_ACCESS_KEY=s3test-access-key", "ORCAS_ROOT_SECRET_KEY=s3test-secret-key-0123456789", "ORCAS_MIN_FREE=0",
	"ORCAS_DOMAINS=s3test.example", "ORCAS_SSEC_OVER_HTTP=true",
	"ORCAS_LIFECYCLE_DAY_SEC=60", "ORCAS_LIFECYCLE_INTERVAL_SEC=0", // x-amz-expiration uses real days regardless
	"ORCAS_MASTER_KEY=1:6a09e667f3bcc908bb67ae8584caa73b3c6ef372fe94f82ba54ff53a5f1d36f1",
}

// start starts a server with a new data directory and returns its endpoint.
func (t *target) start() (string, error) {
	t.accessKey, t.secretKey, t.domain = "s3test-access-key", "s3test-secret-key-0123456789", "s3test.example"
	dir, err := os.MkdirTemp("", "orcas-s3test-")
	if err != nil {
		return "", err
	}
	t.stop = func() error { return os.RemoveAll(dir) }
	binary := os.Getenv(envBinary)
	if binary == "" {
		binary = filepath.Join(dir, "orcas")
		if err := buildServer(binary); err != nil {
			return "", errors.Join(err, t.stop())
		}
	}
	cmd := exec.Command(binary, "server", "--data", filepath.Join(dir, "data"), "--address", "127.0.0.1:0", "--admin-address", "none")
	cmd.Env = append(environ.Without("ORCAS_", "AWS_"), settings...)
	log := new(bytes.Buffer)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", errors.Join(err, t.stop())
	}
	ended := make(chan error, 1)
	begun := make(chan error)
	go func() {
		// Linux sends Pdeathsig when the thread that started the process exits, so this thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		begun <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-begun; err != nil {
		return "", errors.Join(err, t.stop())
	}
	t.stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := <-ended
		if err != nil {
			err = fmt.Errorf("server: %w\n%s", err, log)
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	endpoint, err := banner(out)
	if err != nil {
		return "", errors.Join(err, t.stop())
	}
	go io.Copy(io.Discard, out)
	return endpoint, nil
}

// banner reads the lines that a server prints when it is ready, and returns its endpoint.
func banner(out io.Reader) (endpoint string, err error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch f := strings.Fields(lines.Text()); {
		case len(f) >= 2 && f[0] == "endpoint":
			endpoint = f[1]
		case len(f) >= 1 && f[0] == "credentials" && endpoint != "":
			return endpoint, nil
		}
	}
	return "", errors.Join(errors.New("the server exited before it was ready"), lines.Err())
}

// buildServer builds the server; args are additional arguments of go build.
func buildServer(output string, args ...string) error {
	args = append(append([]string{"build", "-o", output, "-buildvcs=false"}, args...), "orcas/cmd/orcas")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
