package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthCommand checks the health of a server, for containers and scripts.
type healthCommand struct {
	Address string        `default:"127.0.0.1:9000" placeholder:"HOST:PORT" help:"Check the server at this address, its --address or --admin-address (default ${default}), with https:// in front if it uses TLS."`
	Live    bool          `help:"Check only that the process responds, not that it serves reads and writes."`
	Timeout time.Duration `default:"5s" help:"Wait this long for the response (default ${default})."`
	Quiet   bool          `short:"q" help:"Print nothing if the server is healthy."`
}

// Help is called by kong.
func (healthCommand) Help() string {
	return "The exit status is 0 if the server serves reads and writes, and 1 if it does not respond or refuses all writes. " +
		"It is also 0 if the drive is full, which a restart would not change: the output says so. No credentials are needed. " +
		"With https://, the certificate is not verified, because the check neither sends nor receives anything secret."
}

// url returns the URL of the check. A server that listens on all addresses is reached on the loopback address.
func (h *healthCommand) url() (string, error) {
	scheme, address, found := strings.Cut(h.Address, "://")
	if !found {
		scheme, address = "http", h.Address
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || scheme != "http" && scheme != "https" {
		return "", usageError{fmt.Errorf("--address: expected HOST:PORT or https://HOST:PORT, not %q", h.Address), "orcas health --help"}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	path := "/-/health/ready"
	if h.Live {
		path = "/-/health/live"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + path, nil
}

// Run checks the health once.
func (h *healthCommand) Run(ctx context.Context, c *console) error {
	url, err := h.url()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // see Help
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("the server at %s is not healthy: %w", h.Address, err)
	}
	defer response.Body.Close()
	var state struct {
		Status    string
		DriveFull bool `json:"drive_full"`
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))                               // an incomplete response is not JSON
	_ = json.Unmarshal(text, &state)                                                           // the status remains empty
	if response.StatusCode == http.StatusBadRequest && bytes.Contains(text, []byte("HTTPS")) { // the response of net/http
		return fmt.Errorf("the server at %s uses TLS: use --address https://%[1]s", h.Address)
	}
	if response.StatusCode != http.StatusOK || state.Status == "" {
		return fmt.Errorf("the server at %s is not healthy: %s", h.Address, cmp.Or(state.Status, response.Status))
	}
	if state.DriveFull {
		state.Status += ", but the drive is full: PUT is refused"
	}
	if !h.Quiet {
		fmt.Fprintln(c.stdout, state.Status)
	}
	return nil
}
