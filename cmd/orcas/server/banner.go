package server

import (
	"fmt"
	"io"
	"strings"
)

// banner tells a person what runs, and what to type next.
func (s *Server) banner(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "ORCAS %s\n", Version())
	fmt.Fprintf(&b, "  endpoint     %s\n", s.Endpoint())
	if s.adminListen != nil {
		fmt.Fprintf(&b, "  admin        http://%s\n", s.adminListen.Addr())
	}
	fmt.Fprintf(&b, "  region       %s\n", s.config.Settings.Region)
	if set := &s.config.Settings; set.Durability == Strict {
		fmt.Fprintf(&b, "  durability   %s: a write is acknowledged when it is on disk\n", set.Durability)
	} else {
		fmt.Fprintf(&b, "  durability   %s: a write is acknowledged when the operating system has it; a power cut may take the last %v\n", set.Durability, set.Window)
	}
	fmt.Fprintf(&b, "  data         %s\n", s.config.Data)
	fmt.Fprintf(&b, "  credentials  from %s\n", s.credentials.from)
	if s.config.SelfSigned {
		fmt.Fprintf(&b, "  certificate  %s (self-signed); clients trust it by\n", s.config.TLSCert)
		fmt.Fprintf(&b, "                 export AWS_CA_BUNDLE=%s\n", shellQuote(s.config.TLSCert))
	}
	if s.credentials.made {
		fmt.Fprintf(&b, `
These root credentials were made just now and are shown only this once:

  export AWS_ACCESS_KEY_ID=%s
  export AWS_SECRET_ACCESS_KEY=%s
  export AWS_DEFAULT_REGION=%s

With these lines in a shell, try:

  aws --endpoint-url %[4]s s3 mb s3://my-bucket
  aws --endpoint-url %[4]s s3 cp README.md s3://my-bucket/
  aws --endpoint-url %[4]s s3 ls s3://my-bucket/

`, s.credentials.AccessKey, s.credentials.SecretKey, s.config.Settings.Region, s.Endpoint())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shellQuote quotes a word for a POSIX shell where it has to be.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
