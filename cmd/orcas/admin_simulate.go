package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"orcas/admin"
)

type adminPolicySimulate struct {
	adminTarget
	Key              string   `xor:"who" required:"" placeholder:"KEY" help:"Decide about a request with this key: an access key, or the name of a key for a program."`
	User             string   `xor:"who" required:"" placeholder:"NAME" help:"Decide about a request of this user."`
	Role             string   `xor:"who" required:"" placeholder:"NAME" help:"Decide about a request of a session of this role."`
	Anonymous        bool     `xor:"who" required:"" help:"Decide about a request without credentials."`
	Action           string   `required:"" placeholder:"ACTION" help:"Decide about this action, for example s3:GetObject."`
	Resource         string   `placeholder:"ARN" help:"Decide about this bucket or object, for example arn:aws:s3:::my-bucket/photos/1.jpg. Wildcards have no meaning."`
	SessionPolicy    string   `placeholder:"FILE" help:"Limit the session of the role by the policy in this file."`
	SessionPolicyARN []string `name:"session-policy-arn" sep:"none" placeholder:"ARN" help:"Limit the session of the role by this managed policy; may be repeated."`
	SessionName      string   `placeholder:"NAME" help:"Give the session of the role this name."`
	Context          []string `sep:"none" placeholder:"NAME=VALUE" help:"Give the request this condition key, for example aws:SourceIp=192.0.2.1; may be repeated."`
}

// Run prints the decision about a request.
func (a *adminPolicySimulate) Run(ctx context.Context, c *console) error {
	query := url.Values{"action": {a.Action}, "context": a.Context}
	switch {
	case a.Key != "":
		query.Set("key", a.Key)
	case a.User != "":
		query.Set("user", a.User)
	case a.Role != "":
		query.Set("role", a.Role)
	default:
		query.Set("anonymous", "true")
	}
	if err := a.session(query); err != nil {
		return err
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

// session adds the parameters of the session of a role.
func (a *adminPolicySimulate) session(query url.Values) error {
	if a.SessionName != "" {
		query.Set("session", a.SessionName)
	}
	if a.SessionPolicy != "" {
		document, err := os.ReadFile(a.SessionPolicy)
		if err != nil {
			return err
		}
		query.Set("session-policy", string(document))
	}
	for _, arn := range a.SessionPolicyARN {
		query.Add("session-policy-arn", arn)
	}
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
	case s.Action == "sts:AssumeRole" && s.Decision == "implicitDeny":
		fmt.Fprintln(w, "  a user or a session needs a statement in the trust policy that names it, or one that names its account and one of its own policies;")
		fmt.Fprintln(w, "  the root of an account and keys of programs cannot assume roles")
	case len(s.Statements) > 0:
	case s.Decision == "allow":
		fmt.Fprintln(w, "  the root of an account may do everything with what belongs to the account")
	case s.DecidedBy != s.Principal:
		fmt.Fprintf(w, "  no statement allows it to %s, which created the key\n", s.DecidedBy)
	default:
		fmt.Fprintln(w, "  no statement allows it")
	}
}
