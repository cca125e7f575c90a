package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"orcas/admin"
)

// adminKey contains the commands for application keys.
type adminKey struct {
	Create  adminKeyCreate  `cmd:"" help:"Create a key that can access one bucket, or the part of it under a prefix."`
	List    adminKeyList    `cmd:"" help:"List all keys, without their secrets."`
	Disable adminKeyDisable `cmd:"" help:"Refuse requests with a key until it is enabled again."`
	Enable  adminKeyEnable  `cmd:"" help:"Accept requests with a disabled key again."`
	Rotate  adminKeyRotate  `cmd:"" help:"Replace the access key and the secret of a key."`
	Delete  adminKeyDelete  `cmd:"" help:"Delete a key. Requests with it, and with keys that were created with it, are refused immediately."`
}

const keyPath = "/-/admin/key"

type adminKeyCreate struct {
	adminTarget
	Name     string `arg:"" help:"Name the key, for example after the program that uses it."`
	Bucket   string `required:"" placeholder:"BUCKET" help:"Give access to this bucket, which must exist."`
	Prefix   string `placeholder:"PREFIX" help:"Give access only to keys that begin with this prefix, for example photos/."`
	Access   string `required:"" enum:"read,write,readwrite" placeholder:"ACCESS" help:"Allow read, write or readwrite access. Writing includes deleting."`
	NoDelete bool   `help:"Do not allow deleting. Objects can still be overwritten, unless the bucket has versioning."`
	Expires  string `placeholder:"DURATION" help:"Let the key expire after this time, for example 90d or 12h. Otherwise it never expires."`
}

// Run creates a key, and prints it with its secret.
func (a *adminKeyCreate) Run(ctx context.Context, c *console) error {
	query := url.Values{"name": {a.Name}, "bucket": {a.Bucket}, "access": {a.Access}}
	if a.Prefix != "" {
		query.Set("prefix", a.Prefix)
	}
	if a.NoDelete {
		query.Set("no-delete", "true")
	}
	if a.Expires != "" {
		query.Set("expires", a.Expires)
	}
	var k admin.KeyInfo
	if err := a.call(ctx, c, http.MethodPost, keyPath, query, &k); err != nil || a.JSON {
		return orEnds(err, "the key may have been created: orcas admin key list shows it, and orcas admin key delete removes it")
	}
	writeNewKey(c.stdout, &k)
	return nil
}

// writeNewKey prints a key with its secret, in lines that a shell can evaluate.
func writeNewKey(w io.Writer, k *admin.KeyInfo) {
	fmt.Fprintf(w, "# key %s: %s. The secret is not shown again.\n", k.Name, accessOf(k))
	fmt.Fprintf(w, "export AWS_ACCESS_KEY_ID=%s\n", k.AccessKey)
	fmt.Fprintf(w, "export AWS_SECRET_ACCESS_KEY=%s\n", k.SecretKey)
	fmt.Fprintf(w, "export AWS_ENDPOINT_URL=%s\n", k.Endpoint)
	if k.Previous != nil {
		fmt.Fprintf(w, "# %s works until %s\n", k.Previous.AccessKey, k.Previous.Expires.Format(time.RFC3339))
	}
}

// accessOf describes what a key allows, and for how long, on one line without characters of the terminal.
func accessOf(k *admin.KeyInfo) string {
	text := string(k.Access)
	if k.NoDelete {
		text += " without deleting"
	}
	text += fmt.Sprintf(" in %q", k.Bucket+"/"+k.Prefix)
	if k.Expires != nil {
		text += ", until " + k.Expires.Format(time.RFC3339)
	}
	return text
}

type adminKeyList struct{ adminTarget }

// Run lists the keys.
func (a *adminKeyList) Run(ctx context.Context, c *console) error {
	var list admin.KeyList
	if err := a.call(ctx, c, http.MethodGet, keyPath, nil, &list); err != nil || a.JSON {
		return err
	}
	if len(list.Keys) == 0 {
		fmt.Fprintln(c.stdout, "no keys: orcas admin key create makes one")
		return nil
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tACCESS KEY\tSTATE\tLAST USED\tACCESS")
	for i := range list.Keys {
		k := &list.Keys[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", k.Name, k.AccessKey, stateOf(k, time.Now()), usedAt(k.LastUsed), accessOf(k))
	}
	return w.Flush()
}

// usedAt describes when an access key was last used.
func usedAt(at *time.Time) string {
	if at == nil {
		return "never"
	}
	return at.Format(time.RFC3339)
}

// stateOf describes in a word whether a key works.
func stateOf(k *admin.KeyInfo, now time.Time) string {
	switch {
	case !k.Enabled:
		return "disabled"
	case k.Works:
		return "enabled"
	case k.Expires != nil && !now.Before(*k.Expires):
		return "expired"
	}
	return "refused" // the key that created it is disabled or was deleted, or its secret cannot be decrypted
}

type adminKeyDisable struct{ adminKeyState }

// Run disables a key.
func (a *adminKeyDisable) Run(ctx context.Context, c *console) error { return a.set(ctx, c, false) }

type adminKeyEnable struct{ adminKeyState }

// Run enables a key.
func (a *adminKeyEnable) Run(ctx context.Context, c *console) error { return a.set(ctx, c, true) }

type adminKeyState struct {
	adminTarget
	Name string `arg:"" help:"Change the state of this key."`
}

func (a *adminKeyState) set(ctx context.Context, c *console, enabled bool) error {
	var k admin.KeyInfo
	query := url.Values{"name": {a.Name}, "enabled": {fmt.Sprint(enabled)}}
	if err := a.call(ctx, c, http.MethodPost, keyPath+"/state", query, &k); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "key %s: %s\n", k.Name, stateOf(&k, time.Now()))
	return nil
}

type adminKeyRotate struct {
	adminTarget
	Name    string `arg:"" help:"Rotate this key."`
	Overlap string `placeholder:"DURATION" help:"Accept the previous access key for this time too, for example 1d. Otherwise it is refused immediately."`
}

// Run replaces the access key of a key, and prints the new one with its secret.
func (a *adminKeyRotate) Run(ctx context.Context, c *console) error {
	query := url.Values{"name": {a.Name}}
	if a.Overlap != "" {
		query.Set("overlap", a.Overlap)
	}
	var k admin.KeyInfo
	if err := a.call(ctx, c, http.MethodPost, keyPath+"/rotate", query, &k); err != nil || a.JSON {
		return orEnds(err, "the key may have been rotated: rotate it again to get a secret")
	}
	writeNewKey(c.stdout, &k)
	return nil
}

type adminKeyDelete struct {
	adminTarget
	Name string `arg:"" help:"Delete this key."`
}

// Run deletes a key.
func (a *adminKeyDelete) Run(ctx context.Context, c *console) error {
	var deleted struct{ Deleted string }
	if err := a.call(ctx, c, http.MethodDelete, keyPath, url.Values{"name": {a.Name}}, &deleted); err != nil || a.JSON {
		return err
	}
	fmt.Fprintf(c.stdout, "key %s was deleted\n", deleted.Deleted)
	return nil
}
