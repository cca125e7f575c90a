package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"orcas/admin"
	"orcas/sdk"
)

// adminRole contains the commands for roles.
type adminRole struct {
	Create adminRoleCreate `cmd:"" help:"Create a role without rights, which users can assume for a while."`
	Update adminRoleUpdate `cmd:"" help:"Change who may assume a role, and its other settings."`
	List   adminRoleList   `cmd:"" help:"List all roles, with their policies."`
	Show   adminRoleShow   `cmd:"" help:"Print a role with its trust policy and its policies as JSON."`
	Delete adminRoleDelete `cmd:"" help:"Delete a role. Requests with credentials of the role are refused from then on."`
}

const rolePath = "/-/admin/role"

// roleSettings are the settings of a role.
type roleSettings struct {
	User        []string `xor:"trust" placeholder:"NAME" help:"Let this user assume the role. Can be repeated."`
	Trust       string   `xor:"trust" placeholder:"FILE" help:"Read the trust policy, which says who may assume the role, from this JSON file."`
	MaxSession  string   `placeholder:"DURATION" help:"Let sessions of the role take at most this time, from 1h to 12h (default 1h)."`
	Description string   `placeholder:"TEXT" help:"Describe the role."`
}

// send sends the settings, and returns the role.
func (s *roleSettings) send(ctx context.Context, c *console, n *named, path string) (role admin.RoleInfo, err error) {
	query := n.query()
	add := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	add("max-session", s.MaxSession)
	add("description", s.Description)
	for _, user := range s.User {
		query.Add("user", user)
	}
	q := &sdk.Request{Method: http.MethodPost, Path: path}
	if s.Trust != "" {
		if q.Body, err = os.ReadFile(s.Trust); err != nil {
			return role, err
		}
	}
	q.Query = query.Encode()
	return role, n.exchange(ctx, c, q, &role)
}

type adminRoleCreate struct {
	named
	roleSettings
}

// Run creates a role.
func (a *adminRoleCreate) Run(ctx context.Context, c *console) error {
	role, err := a.send(ctx, c, &a.named, rolePath)
	if err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "role %s was created: %s\n", role.Name, role.ARN)
	return nil
}

type adminRoleUpdate struct {
	named
	roleSettings
}

// Run changes the settings of a role.
func (a *adminRoleUpdate) Run(ctx context.Context, c *console) error {
	role, err := a.send(ctx, c, &a.named, rolePath+"/settings")
	if err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "role %s was changed\n", role.Name)
	return nil
}

type adminRoleList struct{ adminTarget }

// Run lists the roles.
func (a *adminRoleList) Run(ctx context.Context, c *console) error {
	var list admin.RoleList
	if err := a.call(ctx, c, http.MethodGet, rolePath, nil, &list); err != nil || a.JSON {
		return err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROLE\tPOLICIES\tSESSIONS UP TO\tDESCRIPTION")
	for i := range list.Roles {
		r := &list.Roles[i]
		policies := append([]string{}, r.Policies...)
		for _, p := range r.Inline {
			policies = append(policies, p.Name+" (inline)")
		}
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\n", r.Name, listed(policies), time.Duration(r.MaxSession)*time.Second, r.Description)
	}
	return w.Flush()
}

type adminRoleShow struct{ named }

// Run prints a role.
func (a *adminRoleShow) Run(ctx context.Context, c *console) error {
	var list admin.RoleList
	quiet := a.adminTarget
	quiet.JSON = false
	if err := quiet.call(ctx, c, http.MethodGet, rolePath, url.Values{}, &list); err != nil {
		return err
	}
	for i := range list.Roles {
		if strings.EqualFold(list.Roles[i].Name, a.Name) {
			e := json.NewEncoder(c.stdout)
			e.SetIndent("", "  ")
			return e.Encode(&list.Roles[i])
		}
	}
	return fmt.Errorf("there is no role %s", a.Name)
}

type adminRoleDelete struct{ named }

// Run deletes a role.
func (a *adminRoleDelete) Run(ctx context.Context, c *console) error {
	return a.remove(ctx, c, rolePath, "role")
}
