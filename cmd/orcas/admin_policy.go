package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"orcas/admin"
	"orcas/sdk"
)

// adminPolicy contains the commands for policies.
type adminPolicy struct {
	Put    adminPolicyPut    `cmd:"" help:"Create a policy from a JSON file, or replace it for all to whom it is attached."`
	List   adminPolicyList   `cmd:"" help:"List all policies."`
	Show   adminPolicyShow   `cmd:"" help:"Print the document of a policy."`
	Delete adminPolicyDelete `cmd:"" help:"Delete a policy that is not attached."`
	Attach adminPolicyAttach `cmd:"" help:"Attach a policy to a user, a group or a role."`
	Detach adminPolicyDetach `cmd:"" help:"Detach a policy from a user, a group or a role."`

	Simulate adminPolicySimulate `cmd:"" help:"Decide about a request without making it, with the policies that are in force, and show the statements that decide."`
}

const policyPath = "/-/admin/policy"

type adminPolicyPut struct {
	named
	File string `arg:"" help:"Read the document from this file."`
}

// Run writes a policy.
func (a *adminPolicyPut) Run(ctx context.Context, c *console) error {
	document, err := os.ReadFile(a.File)
	if err != nil {
		return err
	}
	q := &sdk.Request{Method: http.MethodPost, Path: policyPath, Query: a.query().Encode(), Body: document}
	var p admin.PolicyInfo
	if err := a.exchange(ctx, c, q, &p); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "policy %s was written\n", p.Name)
	return nil
}

type adminPolicyList struct{ adminTarget }

// Run lists the policies.
func (a *adminPolicyList) Run(ctx context.Context, c *console) error {
	var list admin.PolicyList
	if err := a.call(ctx, c, http.MethodGet, policyPath, nil, &list); err != nil || a.JSON {
		return err
	}
	for _, p := range list.Policies {
		if p.BuiltIn {
			fmt.Fprintf(c.stdout, "%s (built in)\n", p.Name)
		} else {
			fmt.Fprintln(c.stdout, p.Name)
		}
	}
	return nil
}

type adminPolicyShow struct{ named }

// Run prints a policy.
func (a *adminPolicyShow) Run(ctx context.Context, c *console) error {
	var list admin.PolicyList
	quiet := a.adminTarget
	quiet.JSON = false
	if err := quiet.call(ctx, c, http.MethodGet, policyPath, nil, &list); err != nil {
		return err
	}
	for _, p := range list.Policies {
		if p.Name == a.Name {
			e := json.NewEncoder(c.stdout)
			e.SetIndent("", "  ")
			return e.Encode(p.Document)
		}
	}
	return fmt.Errorf("there is no policy %s", a.Name)
}

type adminPolicyDelete struct{ named }

// Run deletes a policy.
func (a *adminPolicyDelete) Run(ctx context.Context, c *console) error {
	return a.remove(ctx, c, policyPath, "policy")
}

// attachment are the arguments of commands about an attached policy.
type attachment struct {
	named
	User  string `xor:"to" required:"" placeholder:"NAME" help:"Choose this user."`
	Group string `xor:"to" required:"" placeholder:"NAME" help:"Choose this group."`
	Role  string `xor:"to" required:"" placeholder:"NAME" help:"Choose this role."`
}

func (a *attachment) set(ctx context.Context, c *console, attached string) error {
	query := url.Values{"policy": {a.Name}, "attached": {attached}}
	for kind, name := range map[string]string{"user": a.User, "group": a.Group, "role": a.Role} {
		if name != "" {
			query.Set(kind, name)
		}
	}
	var to struct {
		Name     string
		Policies []string
	}
	if err := a.call(ctx, c, http.MethodPost, policyPath+"/attach", query, &to); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "policies of %s: %s\n", to.Name, listed(to.Policies))
	return nil
}

type adminPolicyAttach struct{ attachment }

// Run attaches a policy.
func (a *adminPolicyAttach) Run(ctx context.Context, c *console) error { return a.set(ctx, c, "true") }

type adminPolicyDetach struct{ attachment }

// Run detaches a policy.
func (a *adminPolicyDetach) Run(ctx context.Context, c *console) error { return a.set(ctx, c, "false") }
