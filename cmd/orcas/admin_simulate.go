package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"orcas/admin"
)

type adminPolicySimulate struct {
	adminTarget
	Key       string   `xor:"who" required:"" placeholder:"KEY" help:"Decide about a request with this key: an access key, or the name of a key for a program."`
	User      string   `xor:"who" required:"" placeholder:"NAME" help:"Decide about a request of this user."`
	Anonymous bool     `xor:"who" required:"" help:"Decide about a request without credentials."`
	Action    string   `required:"" placeholder:"ACTION" help:"Decide about this action, for example s3:GetObject."`
	Resource  string   `placeholder:"ARN" help:"Decide about this bucket or object, for example arn:aws:s3:::my-bucket/photos/1.jpg. Wildcards have no meaning."`
	Context   []string `sep:"none" placeholder:"NAME=VALUE" help:"Give the request this condition key, for example aws:SourceIp=192.0.2.1; may be repeated."`
}

// Run prints the decision about a request.
func (a *adminPolicySimulate) Run(ctx context.Context, c *console) error {
	query := url.Values{"action": {a.Action}, "context": a.Context}
	switch {
	case a.Key != "":
		query.Set("key", a.Key)
	case a.User != "":
		query.Set("user", a.User)
	default:
		query.Set("anonymous", "true")
	}
	if a.Resource != "" {
		query.Set("resource", a.Resource)
	}
	var s admin.Simulation
	if err := a.call(ctx, c, http.MethodGet, policyPath+"/simulate", query, &s); err != nil || a.JSON {
		return err
	}
	writeSimulation(c.stdout, &s)
	return nil
}

// writeSimulation prints a decision and its reason.
func writeSimulation(w io.Writer, s *admin.Simulation) {
	fmt.Fprintf(w, "%s: %s by %s\n", s.Decision, s.Action, s.Principal)
	for _, m := range s.Statements {
		sid := ""
		if m.Sid != "" {
			sid = fmt.Sprintf(" (%s)", m.Sid)
		}
		fmt.Fprintf(w, "  %s: statement %d%s, line %d, of the policy %s (%s policy of %s)\n", m.Effect, m.Index, sid, m.Line, m.Policy, m.Source, m.Of)
	}
	switch {
	case len(s.Statements) > 0:
	case s.Decision == "allow":
		fmt.Fprintln(w, "  the root of an account may do everything with what belongs to the account")
	case s.DecidedBy != s.Principal:
		fmt.Fprintf(w, "  no statement allows it to %s, which created the key\n", s.DecidedBy)
	default:
		fmt.Fprintln(w, "  no statement allows it")
	}
}
