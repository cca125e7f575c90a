package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"orcas/admin"
)

// adminUser contains the commands for users.
type adminUser struct {
	Create     adminUserCreate     `cmd:"" help:"Create a user, without rights and access keys."`
	List       adminUserList       `cmd:"" help:"List all users, with their groups, policies and access keys."`
	Rename     adminUserRename     `cmd:"" help:"Give a user another name. Its access keys, groups and policies stay."`
	Delete     adminUserDelete     `cmd:"" help:"Delete a user and its access keys. Keys that were created with them are refused, too."`
	AddKey     adminUserAddKey     `cmd:"" help:"Create an access key of a user, which can do what the user can do."`
	DisableKey adminUserDisableKey `cmd:"" help:"Refuse requests with an access key of a user until it is enabled again."`
	EnableKey  adminUserEnableKey  `cmd:"" help:"Accept requests with a disabled access key of a user again."`
	DeleteKey  adminUserDeleteKey  `cmd:"" help:"Delete an access key of a user."`
}

const userPath = "/-/admin/user"

// named is an argument of commands about one user, group, role or policy.
type named struct {
	adminTarget
	Name string `arg:"" help:"Name the user, group, role or policy."`
}

// query returns the parameters of a request about it, and others.
func (n *named) query(more ...string) url.Values {
	q := url.Values{"name": {n.Name}}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q
}

// create creates what has the name.
func (n *named) create(ctx context.Context, c *console, path, what string) error {
	var made struct{ ARN string }
	if err := n.call(ctx, c, http.MethodPost, path, n.query(), &made); err != nil || n.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "%s %s was created: %s\n", what, n.Name, made.ARN)
	return nil
}

// remove deletes what has the name.
func (n *named) remove(ctx context.Context, c *console, path, what string) error {
	var deleted admin.Deleted
	if err := n.call(ctx, c, http.MethodDelete, path, n.query(), &deleted); err != nil || n.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "%s %s was deleted\n", what, deleted.Deleted)
	return nil
}

type adminUserCreate struct{ named }

// Run creates a user.
func (a *adminUserCreate) Run(ctx context.Context, c *console) error {
	return a.create(ctx, c, userPath, "user")
}

// renaming are the arguments of commands that give a user or a group another name.
type renaming struct {
	named
	To string `arg:"" help:"Choose the new name."`
}

// rename sends the request, and prints the new name.
func (a *renaming) rename(ctx context.Context, c *console, path, what string) error {
	var renamed struct{ Name, ARN string }
	if err := a.call(ctx, c, http.MethodPost, path+"/name", a.query("to", a.To), &renamed); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "%s %s was renamed to %s: %s\n", what, a.Name, renamed.Name, renamed.ARN)
	return nil
}

type adminUserRename struct{ renaming }

// Run renames a user.
func (a *adminUserRename) Run(ctx context.Context, c *console) error {
	return a.rename(ctx, c, userPath, "user")
}

type adminUserDelete struct{ named }

// Run deletes a user.
func (a *adminUserDelete) Run(ctx context.Context, c *console) error {
	return a.remove(ctx, c, userPath, "user")
}

type adminUserList struct{ adminTarget }

// Run lists the users.
func (a *adminUserList) Run(ctx context.Context, c *console) error {
	var list admin.UserList
	if err := a.call(ctx, c, http.MethodGet, userPath, nil, &list); err != nil || a.JSON {
		return err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "USER\tGROUPS\tPOLICIES\tACCESS KEYS")
	for i := range list.Users {
		u := &list.Users[i]
		var keys []string
		for n := range u.Keys {
			keys = append(keys, u.Keys[n].AccessKey+" "+stateOfUserKey(&u.Keys[n], time.Now())+" used "+usedAt(u.Keys[n].LastUsed))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Name, listed(u.Groups), listed(u.Policies), listed(keys))
	}
	return w.Flush()
}

// listed joins names for a column of a table.
func listed(names []string) string { return cmp.Or(strings.Join(names, ", "), "-") }

func stateOfUserKey(k *admin.UserKey, now time.Time) string {
	switch {
	case !k.Enabled:
		return "(disabled)"
	case k.Expires != nil && !now.Before(*k.Expires):
		return "(expired)"
	}
	return "(enabled)"
}

type adminUserAddKey struct {
	named
	Expires string `placeholder:"DURATION" help:"Let the access key expire after this time, for example 90d or 12h. Otherwise it never expires."`
}

// Run creates an access key of a user, and prints it with its secret.
func (a *adminUserAddKey) Run(ctx context.Context, c *console) error {
	query := a.query()
	if a.Expires != "" {
		query.Set("expires", a.Expires)
	}
	var k admin.UserKey
	if err := a.call(ctx, c, http.MethodPost, userPath+"/key", query, &k); err != nil || a.JSON {
		return orEnds(err, "the access key may have been created: orcas admin user list shows it")
	}
	fmt.Fprintf(c.stdout, "# user %s. The secret is not shown again.\n", a.Name)
	fmt.Fprintf(c.stdout, "export AWS_ACCESS_KEY_ID=%s\nexport AWS_SECRET_ACCESS_KEY=%s\nexport AWS_ENDPOINT_URL=%s\n",
		k.AccessKey, k.SecretKey, k.Endpoint)
	return nil
}

// userKey are the arguments of commands about one access key of a user.
type userKey struct {
	named
	AccessKey string `arg:"" help:"Name the access key."`
}

// change sends a request about an access key, and prints its state.
func (a *userKey) change(ctx context.Context, c *console, method, path string, query url.Values) error {
	var u admin.UserInfo
	if err := a.call(ctx, c, method, path, query, &u); err != nil || a.JSON {
		return err
	}
	for i := range u.Keys {
		if k := &u.Keys[i]; k.AccessKey == a.AccessKey {
			fmt.Fprintf(c.stdout, "access key %s of user %s %s\n", k.AccessKey, u.Name, stateOfUserKey(k, time.Now()))
			return nil
		}
	}
	fmt.Fprintf(c.stdout, "access key %s of user %s was deleted\n", a.AccessKey, u.Name)
	return nil
}

type adminUserDisableKey struct{ userKey }

// Run disables an access key.
func (a *adminUserDisableKey) Run(ctx context.Context, c *console) error {
	return a.change(ctx, c, http.MethodPost, userPath+"/key/state", a.query("key", a.AccessKey, "enabled", "false"))
}

type adminUserEnableKey struct{ userKey }

// Run enables an access key.
func (a *adminUserEnableKey) Run(ctx context.Context, c *console) error {
	return a.change(ctx, c, http.MethodPost, userPath+"/key/state", a.query("key", a.AccessKey, "enabled", "true"))
}

type adminUserDeleteKey struct{ userKey }

// Run deletes an access key.
func (a *adminUserDeleteKey) Run(ctx context.Context, c *console) error {
	return a.change(ctx, c, http.MethodDelete, userPath+"/key", a.query("key", a.AccessKey))
}

// adminGroup contains the commands for groups.
type adminGroup struct {
	Create adminGroupCreate `cmd:"" help:"Create a group without members and policies."`
	List   adminGroupList   `cmd:"" help:"List all groups, with their policies and members."`
	Rename adminGroupRename `cmd:"" help:"Give a group another name. Its members and policies stay."`
	Delete adminGroupDelete `cmd:"" help:"Delete a group that has no members."`
	Add    adminGroupAdd    `cmd:"" help:"Add a user to a group."`
	Remove adminGroupRemove `cmd:"" help:"Remove a user from a group."`
}

const groupPath = "/-/admin/group"

type adminGroupCreate struct{ named }

// Run creates a group.
func (a *adminGroupCreate) Run(ctx context.Context, c *console) error {
	return a.create(ctx, c, groupPath, "group")
}

type adminGroupRename struct{ renaming }

// Run renames a group.
func (a *adminGroupRename) Run(ctx context.Context, c *console) error {
	return a.rename(ctx, c, groupPath, "group")
}

type adminGroupDelete struct{ named }

// Run deletes a group.
func (a *adminGroupDelete) Run(ctx context.Context, c *console) error {
	return a.remove(ctx, c, groupPath, "group")
}

type adminGroupList struct{ adminTarget }

// Run lists the groups.
func (a *adminGroupList) Run(ctx context.Context, c *console) error {
	var list admin.GroupList
	if err := a.call(ctx, c, http.MethodGet, groupPath, nil, &list); err != nil || a.JSON {
		return err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tPOLICIES\tMEMBERS")
	for i := range list.Groups {
		g := &list.Groups[i]
		fmt.Fprintf(w, "%s\t%s\t%s\n", g.Name, listed(g.Policies), listed(g.Members))
	}
	return w.Flush()
}

// member are the arguments of commands about a member of a group.
type member struct {
	adminTarget
	Group string `arg:"" help:"Name the group."`
	User  string `arg:"" help:"Name the user."`
}

func (a *member) set(ctx context.Context, c *console, is string) error {
	var u admin.UserInfo
	query := url.Values{"group": {a.Group}, "user": {a.User}, "member": {is}}
	if err := a.call(ctx, c, http.MethodPost, groupPath+"/member", query, &u); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "groups of user %s: %s\n", u.Name, listed(u.Groups))
	return nil
}

type adminGroupAdd struct{ member }

// Run adds a user to a group.
func (a *adminGroupAdd) Run(ctx context.Context, c *console) error { return a.set(ctx, c, "true") }

type adminGroupRemove struct{ member }

// Run removes a user from a group.
func (a *adminGroupRemove) Run(ctx context.Context, c *console) error { return a.set(ctx, c, "false") }
