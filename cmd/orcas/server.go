//go:build cgo && (linux || darwin)

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"orcas/internal/procs"
	"orcas/server"
)

type serverCommand struct {
	Data          string `required:"" placeholder:"DIR" help:"Use this data directory; it is created if it does not exist."`
	Address       string `default:"127.0.0.1:9000" placeholder:"HOST:PORT" help:"Serve S3 on this address (default ${default})."`
	AdminAddress  string `default:"127.0.0.1:9001" placeholder:"HOST:PORT" help:"Serve the admin API on this address (default ${default}); \"none\" disables it. An address that other machines can reach needs TLS."`
	TLSCert       string `name:"tls-cert" placeholder:"FILE" help:"Serve HTTPS with the certificate in this file (PEM, with its chain). It is reloaded when it changes."`
	TLSKey        string `name:"tls-key" placeholder:"FILE" help:"Read the private key of --tls-cert from this file (PEM)."`
	TLSSelfSigned bool   `name:"tls-self-signed" help:"Serve HTTPS with a self-signed certificate, which is generated in the data directory."`
	adminTLSFlags
	AllowMissing bool `name:"allow-missing-blocks" help:"Start and accept writes even if stored blocks are missing. ORCAS_ALLOW_MISSING_BLOCKS=true does the same."`
}

// adminTLSFlags configure TLS of the admin listener.
type adminTLSFlags struct {
	AdminTLSCert       string `name:"admin-tls-cert" placeholder:"FILE" help:"Serve the admin API over HTTPS with the certificate in this file (PEM, with its chain). It is reloaded when it changes."`
	AdminTLSKey        string `name:"admin-tls-key" placeholder:"FILE" help:"Read the private key of --admin-tls-cert from this file (PEM)."`
	AdminTLSSelfSigned bool   `name:"admin-tls-self-signed" help:"Serve the admin API over HTTPS with a self-signed certificate of its own, which is generated in the data directory."`
	AdminInsecure      bool   `help:"Serve the admin API without TLS even on an address that other machines can reach. Whoever reads the traffic sees the secrets of new keys."`
}

// check returns an error if flags contradict each other, or if there is no admin listener for them.
func (f *adminTLSFlags) check(address string) error {
	switch {
	case (f.AdminTLSCert == "") != (f.AdminTLSKey == ""):
		return fmt.Errorf("--admin-tls-cert and --admin-tls-key must be used together")
	case f.AdminTLSCert != "" && f.AdminTLSSelfSigned:
		return fmt.Errorf("--admin-tls-self-signed cannot be combined with --admin-tls-cert")
	case f.AdminInsecure && (f.AdminTLSCert != "" || f.AdminTLSSelfSigned):
		return fmt.Errorf("--admin-insecure cannot be combined with TLS of the admin address")
	case address == "" && *f != adminTLSFlags{}:
		return fmt.Errorf("--admin-tls-... and --admin-insecure cannot be combined with --admin-address none")
	}
	return nil
}

// Validate is called by kong.
func (c *serverCommand) Validate() error {
	switch {
	case c.Data == "":
		return needData(c.Data)
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return fmt.Errorf("--tls-cert and --tls-key must be used together")
	case c.TLSCert != "" && c.TLSSelfSigned:
		return fmt.Errorf("--tls-self-signed cannot be combined with --tls-cert")
	}
	if !isAddress(c.Address) {
		return fmt.Errorf("--address: expected HOST:PORT with a port up to 65535, not %q", c.Address)
	}
	if c.AdminAddress == "none" {
		c.AdminAddress = ""
	}
	if c.AdminAddress != "" && !isAddress(c.AdminAddress) {
		return fmt.Errorf("--admin-address: expected HOST:PORT with a port up to 65535, or none, not %q", c.AdminAddress)
	}
	return c.check(c.AdminAddress)
}

// isAddress reports whether address has the form HOST:PORT, with a number from 0 to 65535 or the name of a port.
func isAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// Run serves until a signal stops it.
func (c *serverCommand) Run(ctx context.Context, to *console) error {
	signal.Ignore(syscall.SIGPIPE) // otherwise the server would end with the program that reads its log
	boundGarbage()
	procs.AddSpare()
	settings, err := server.ReadSettings(to.environ)
	if err != nil {
		return usageError{err, "orcas server --help"}
	}
	settings.AllowMissing = settings.AllowMissing || c.AllowMissing
	s, err := server.Open(ctx, server.Config{
		Data: c.Data, Address: c.Address, Admin: c.AdminAddress, TLSCert: c.TLSCert, TLSKey: c.TLSKey, SelfSigned: c.TLSSelfSigned,
		AdminTLSCert: c.AdminTLSCert, AdminTLSKey: c.AdminTLSKey, AdminSelfSigned: c.AdminTLSSelfSigned, AdminInsecure: c.AdminInsecure,
		Settings: settings, Banner: to.stdout, Secrets: isTerminal(to.stdout), Log: to.stderr, Terminal: isTerminal(to.stderr),
	})
	if errors.As(err, new(server.ConfigError)) {
		return usageError{err, "orcas server --help"}
	} else if err != nil {
		return err
	}
	runErr := s.Run(ctx)
	if err := s.Close(); runErr == nil {
		runErr = err
	}
	return runErr
}
