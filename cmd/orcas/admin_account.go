package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"orcas/admin"
)

// adminAccount contains the commands for accounts.
type adminAccount struct {
	Create  adminAccountCreate  `cmd:"" help:"Create an account, and print the access key of its root with its secret."`
	List    adminAccountList    `cmd:"" help:"List all accounts, the default account first."`
	Show    adminAccountShow    `cmd:"" help:"Print an account as JSON."`
	Disable adminAccountDisable `cmd:"" help:"Refuse requests with all access keys of an account until it is enabled again."`
	Enable  adminAccountEnable  `cmd:"" help:"Accept requests with the access keys of a disabled account again."`
	Delete  adminAccountDelete  `cmd:"" help:"Delete an account that has no buckets, users, groups, roles, policies and keys."`
	Rotate  adminAccountRotate  `cmd:"" help:"Replace the access key of the root of an account, and print the new one with its secret."`
}

const accountPath = "/-/admin/account"

// account is an argument of commands about one account.
type account struct {
	adminTarget
	Name string `arg:"" help:"Name the account."`
}

// secret sends a request whose response is an account with a new secret, and prints it.
func (a *account) secret(ctx context.Context, c *console, path string, query ...string) error {
	n := named{a.adminTarget, a.Name}
	var made admin.AccountInfo
	if err := a.call(ctx, c, http.MethodPost, path, n.query(query...), &made); err != nil || a.JSON {
		return orEnds(err, "the access key may have been created: orcas admin account list shows it, and rotate replaces it")
	}
	fmt.Fprintf(c.stdout, "# account %s (%s): the access key of its root. The secret is not shown again.\n", made.Name, made.ID)
	fmt.Fprintf(c.stdout, "export AWS_ACCESS_KEY_ID=%s\nexport AWS_SECRET_ACCESS_KEY=%s\nexport AWS_ENDPOINT_URL=%s\n",
		made.AccessKey, made.SecretKey, made.Endpoint)
	return nil
}

type adminAccountCreate struct{ account }

// Run creates an account.
func (a *adminAccountCreate) Run(ctx context.Context, c *console) error {
	return a.secret(ctx, c, accountPath)
}

type adminAccountRotate struct {
	account
	Overlap string `placeholder:"DURATION" help:"Accept the previous access key for this time too, for example 1d. Otherwise it is refused immediately."`
}

// Run replaces the access key of a root.
func (a *adminAccountRotate) Run(ctx context.Context, c *console) error {
	if a.Overlap != "" {
		return a.secret(ctx, c, accountPath+"/rotate", "overlap", a.Overlap)
	}
	return a.secret(ctx, c, accountPath+"/rotate")
}

// set enables or disables the account.
func (a *account) set(ctx context.Context, c *console, enabled string) error {
	n := named{a.adminTarget, a.Name}
	var t admin.AccountInfo
	if err := a.call(ctx, c, http.MethodPost, accountPath+"/state", n.query("enabled", enabled), &t); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "account %s (%s) is %s\n", t.Name, t.ID, stateOfAccount(&t))
	return nil
}

func stateOfAccount(t *admin.AccountInfo) string {
	if t.Enabled {
		return "enabled"
	}
	return "disabled"
}

type adminAccountDisable struct{ account }

// Run disables an account.
func (a *adminAccountDisable) Run(ctx context.Context, c *console) error {
	return a.set(ctx, c, "false")
}

type adminAccountEnable struct{ account }

// Run enables an account.
func (a *adminAccountEnable) Run(ctx context.Context, c *console) error { return a.set(ctx, c, "true") }

type adminAccountDelete struct{ account }

// Run deletes an account.
func (a *adminAccountDelete) Run(ctx context.Context, c *console) error {
	n := named{a.adminTarget, a.Name}
	return n.remove(ctx, c, accountPath, "account")
}

type adminAccountList struct{ adminTarget }

// Run lists the accounts.
func (a *adminAccountList) Run(ctx context.Context, c *console) error {
	var list admin.AccountList
	if err := a.call(ctx, c, http.MethodGet, accountPath, nil, &list); err != nil || a.JSON {
		return err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tID\tSTATE\tACCESS KEYS OF ITS ROOT")
	for i := range list.Accounts {
		t := &list.Accounts[i]
		name, keys := t.Name, []string{}
		if t.Default {
			name, keys = "(default)", []string{"the root credentials of the server"}
		}
		for n := range t.Keys {
			keys = append(keys, t.Keys[n].AccessKey+" "+stateOfUserKey(&t.Keys[n], time.Now())+" used "+usedAt(t.Keys[n].LastUsed))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, t.ID, stateOfAccount(t), listed(keys))
	}
	return w.Flush()
}

type adminAccountShow struct{ account }

// Run prints an account.
func (a *adminAccountShow) Run(ctx context.Context, c *console) error {
	var list admin.AccountList
	quiet := a.adminTarget
	quiet.JSON = false
	if err := quiet.call(ctx, c, http.MethodGet, accountPath, nil, &list); err != nil {
		return err
	}
	for i := range list.Accounts {
		if t := &list.Accounts[i]; !t.Default && strings.EqualFold(t.Name, a.Name) || t.ID == a.Name {
			e := json.NewEncoder(c.stdout)
			e.SetIndent("", "  ")
			return e.Encode(t)
		}
	}
	return fmt.Errorf("there is no account %s", a.Name)
}
