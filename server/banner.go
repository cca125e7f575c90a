package server

import (
	"context"
	"fmt"
	"io"
	"strings"

	"orcas/gate/session"
)

// banner prints the main settings of the server. If the credentials were just generated, it also prints example commands
// and, to a terminal, the credentials.
func (s *Server) banner(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "ORCAS %s\n", Version())
	fmt.Fprintf(&b, "  endpoint     %s\n", s.Endpoint())
	if s.adminListen != nil {
		fmt.Fprintf(&b, "  admin        %s\n", s.AdminEndpoint())
		if s.console != nil {
			fmt.Fprintf(&b, "  console      %s\n", s.console.url())
		}
	}
	fmt.Fprintf(&b, "  region       %s\n", s.config.Settings.Region)
	fmt.Fprintf(&b, "  account      %s\n", s.identities.Root().Account)
	if set := &s.config.Settings; set.Durability == Strict {
		fmt.Fprintf(&b, "  durability   %s: a write is acknowledged when it is on disk\n", set.Durability)
	} else {
		fmt.Fprintf(&b, "  durability   %s: a write is acknowledged when the operating system has it; a power cut may lose the writes of the last %v plus the time of two syncs\n", set.Durability, set.Window)
	}
	fmt.Fprintf(&b, "  data         %s\n", s.config.Data)
	fmt.Fprintf(&b, "  credentials  from %s\n", s.credentials.from)
	if s.config.SelfSigned {
		fmt.Fprintf(&b, "  certificate  %s (self-signed); to make clients trust it:\n", s.config.TLSCert)
		fmt.Fprintf(&b, "                 export AWS_CA_BUNDLE=%s\n", shellQuote(s.config.TLSCert))
	}
	if s.config.AdminSelfSigned && s.adminCert != nil {
		fmt.Fprintf(&b, "  admin cert.  %s (self-signed), for orcas admin --ca FILE, or\n", s.config.AdminTLSCert)
		fmt.Fprintf(&b, "                 --fingerprint %s\n", s.adminCert.fingerprint())
	}
	if s.bootstrapped > 0 {
		fmt.Fprintf(&b, "  bootstrap    created %d keys; their secrets are in %s\n", s.bootstrapped, s.bootstrapKeys())
	}
	if s.console != nil && s.config.Secrets {
		link, _, err := s.console.loginLink(context.Background(), s.credentials.AccessKey, "")
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "  sign in      %s\n               (works once, within %d minutes; later: orcas admin login-link)\n", link, int(session.LinkLife.Minutes()))
	}
	if s.credentials.made {
		s.firstSteps(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// firstSteps prints where the generated credentials are, and example commands. The credentials themselves are printed to
// a terminal only: the output of a container or a service is a log, which more people can read.
func (s *Server) firstSteps(b *strings.Builder) {
	fmt.Fprintf(b, "\nThese root credentials were just generated. They are saved in\n%s\n", s.credentials.from)
	access, secret := "...", "..."
	if s.config.Secrets {
		access, secret = s.credentials.AccessKey, s.credentials.SecretKey
		b.WriteString("and later starts do not print them:\n")
	} else {
		b.WriteString("and are not printed, because the output is not a terminal. Put them in place of the dots:\n")
	}
	fmt.Fprintf(b, `
  export AWS_ACCESS_KEY_ID=%[1]s
  export AWS_SECRET_ACCESS_KEY=%[2]s
  export AWS_DEFAULT_REGION=%[3]s

Run these lines in a shell, and then try:

  aws --endpoint-url %[4]s s3 mb s3://my-bucket
  aws --endpoint-url %[4]s s3 cp README.md s3://my-bucket/
  aws --endpoint-url %[4]s s3 ls s3://my-bucket/

`, access, secret, s.config.Settings.Region, s.Endpoint())
}

// shellQuote quotes a word for a POSIX shell if necessary.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
