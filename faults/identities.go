package faults

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"orcas/admin"
	"orcas/sdk"
)

// unknownKey is the label of an access key that the client never learned.
const unknownKey = "?"

// identity returns the name of an identity, or of a part of it such as its tag: what is "user" or "user/tag".
func identity(what, name string) Name {
	kind, part, isPart := strings.Cut(what, "/")
	if isPart {
		name += "/" + part
	}
	return Name{Identity: kind + "/" + name}
}

// identityChange is a way to create, replace and delete a kind of identities, or a part of an identity.
type identityChange struct {
	what   string
	needs  []string // these must exist
	parts  []string // these are deleted with it
	users  []string // none of these may exist when it is deleted
	secret bool     // it is an access key: the label of its value is the access key, which only the server chooses
	// replaces means that put can replace an item that exists.
	replaces bool
	// put creates an item with a label or, if there is an old value, replaces it. It returns the access key, if it is one.
	put func(ctx context.Context, c *Client, name, label string, old *Value) (*Value, error)
	// remove deletes the item with the given value. It is nil for an item that cannot be deleted.
	remove func(ctx context.Context, c *Client, name string, old *Value) error
}

// The tag and the inline policy of an identity have this name.
const benchName = "bench"

// document returns a policy with a label. It allows nothing that the bench does.
func document(label string) string {
	return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Sid":%q,"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::no-such-bucket/*"}]}`, label)
}

// trustEveryone is the trust policy of roles.
const trustEveryone = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"sts:AssumeRole"}]}`

// labelOf returns the label of a policy.
func labelOf(document []byte) string {
	var p policyText
	if err := json.Unmarshal(document, &p); err != nil || len(p.Statement) != 1 {
		return fmt.Sprintf("expected a policy with one statement, found %q (%v)", document, err)
	}
	return p.Statement[0].Sid
}

// ask returns a put that sends a request to the admin API. The query has the name of the item as %[1]s and the label as
// %[2]s.
func ask(path, query, body string) func(context.Context, *Client, string, string, *Value) (*Value, error) {
	return func(ctx context.Context, c *Client, name, label string, _ *Value) (*Value, error) {
		return nil, c.askAdmin(ctx, http.MethodPost, path, named(query, name, label), body, nil)
	}
}

// undo returns a remove that sends a request to the admin API.
func undo(method, path, query string) func(context.Context, *Client, string, *Value) error {
	return func(ctx context.Context, c *Client, name string, old *Value) error {
		return c.askAdmin(ctx, method, path, named(query, name, old.Label), "", nil)
	}
}

func named(query, name, label string) string {
	return strings.NewReplacer("NAME", name, "LABEL", label, "BUCKET", bucket).Replace(query)
}

// newKey returns a put that creates an access key at one path of the admin API, and rotates it at another.
func newKey(create, query, rotate string) func(context.Context, *Client, string, string, *Value) (*Value, error) {
	return func(ctx context.Context, c *Client, name, _ string, old *Value) (*Value, error) {
		var k struct {
			AccessKey string `json:"access_key"`
			SecretKey string `json:"secret_key"`
		}
		path, query := create, named(query, name, "")
		if old != nil {
			path, query = rotate, "name="+name
		}
		err := c.askAdmin(ctx, http.MethodPost, path, query, "", &k)
		if err == nil && (k.AccessKey == "" || k.SecretKey == "") {
			err = fmt.Errorf("the response of %s has no access key", path)
		}
		return &Value{Label: k.AccessKey, Secret: k.SecretKey}, err
	}
}

// form returns a put that sends a request to IAM.
func form(parameters string) func(context.Context, *Client, string, string, *Value) (*Value, error) {
	return func(ctx context.Context, c *Client, name, label string, _ *Value) (*Value, error) {
		return nil, c.askIAM(ctx, parameters, name, label, nil)
	}
}

// unform returns a remove that sends a request to IAM.
func unform(parameters string) func(context.Context, *Client, string, *Value) error {
	return func(ctx context.Context, c *Client, name string, _ *Value) error {
		return c.askIAM(ctx, parameters, name, "", nil)
	}
}

const (
	tagParameters    = "&Tags.member.1.Key=" + benchName + "&Tags.member.1.Value=LABEL"
	untagParameters  = "&TagKeys.member.1=" + benchName
	policyParameters = "&PolicyName=" + benchName
)

// identityChanges are the changes of identities. Each of the first identityWorkers workers has one identity of each kind,
// named after its number.
var identityChanges = []identityChange{
	{what: "user", parts: []string{"user/tag", "user/policy", "user/group", "user/attached", "user/key"},
		put: ask("user", "name=NAME", ""), remove: undo(http.MethodDelete, "user", "name=NAME")},
	{what: "user/tag", needs: []string{"user"}, replaces: true,
		put: form("Action=TagUser&UserName=NAME" + tagParameters), remove: unform("Action=UntagUser&UserName=NAME" + untagParameters)},
	{what: "user/policy", needs: []string{"user"}, replaces: true,
		put:    form("Action=PutUserPolicy&UserName=NAME&PolicyDocument=DOCUMENT" + policyParameters),
		remove: unform("Action=DeleteUserPolicy&UserName=NAME" + policyParameters)},
	{what: "user/group", needs: []string{"user", "group"},
		put:    ask("group/member", "user=NAME&group=NAME&member=true", ""),
		remove: undo(http.MethodPost, "group/member", "user=NAME&group=NAME&member=false")},
	{what: "user/attached", needs: []string{"user", "policy"},
		put:    ask("policy/attach", "user=NAME&policy=NAME&attached=true", ""),
		remove: undo(http.MethodPost, "policy/attach", "user=NAME&policy=NAME&attached=false")},
	{what: "user/key", needs: []string{"user"}, secret: true,
		put: newKey("user/key", "name=NAME", ""), remove: undo(http.MethodDelete, "user/key", "name=NAME&key=LABEL")},
	{what: "group", users: []string{"user/group"},
		put: ask("group", "name=NAME", ""), remove: undo(http.MethodDelete, "group", "name=NAME")},
	{what: "role", parts: []string{"role/tag", "role/policy"}, replaces: true, put: putRole,
		remove: undo(http.MethodDelete, "role", "name=NAME")},
	{what: "role/tag", needs: []string{"role"}, replaces: true,
		put: form("Action=TagRole&RoleName=NAME" + tagParameters), remove: unform("Action=UntagRole&RoleName=NAME" + untagParameters)},
	{what: "role/policy", needs: []string{"role"}, replaces: true,
		put:    form("Action=PutRolePolicy&RoleName=NAME&PolicyDocument=DOCUMENT" + policyParameters),
		remove: unform("Action=DeleteRolePolicy&RoleName=NAME" + policyParameters)},
	{what: "policy", users: []string{"user/attached"}, replaces: true, put: putPolicy,
		remove: undo(http.MethodDelete, "policy", "name=NAME")},
	{what: "key", parts: []string{"key/disabled"}, replaces: true, secret: true,
		put: newKey("key", "name=NAME&bucket=BUCKET&access=read", "key/rotate"), remove: undo(http.MethodDelete, "key", "name=NAME")},
	{what: "key/disabled", needs: []string{"key"},
		put: ask("key/state", "name=NAME&enabled=false", ""), remove: undo(http.MethodPost, "key/state", "name=NAME&enabled=true")},
	{what: "account", replaces: true, secret: true, put: newKey("account", "name=NAME", "account/rotate")},
}

// putRole creates a role, or changes its description.
func putRole(ctx context.Context, c *Client, name, label string, old *Value) (*Value, error) {
	path, trust := "role", trustEveryone
	if old != nil {
		path, trust = "role/settings", ""
	}
	return nil, c.askAdmin(ctx, http.MethodPost, path, named("name=NAME&description=LABEL", name, label), trust, nil)
}

// putPolicy creates a managed policy, or replaces its document.
func putPolicy(ctx context.Context, c *Client, name, label string, _ *Value) (*Value, error) {
	return nil, c.askAdmin(ctx, http.MethodPost, "policy", "name="+name, document(label), nil)
}

// labeled are the items whose values have a label. The others either exist or do not.
var labeled = map[string]bool{"user/tag": true, "user/policy": true, "role": true, "role/tag": true, "role/policy": true, "policy": true}

// identityWorkers is the number of workers that change identities. The server makes one such change at a time durable, so
// with more of them, the whole load would wait for the syncs of a slow drive.
const identityWorkers = 4

// changeIdentity creates, replaces or deletes an identity of this worker, or a part of one.
func changeIdentity(ctx context.Context, w *worker) {
	if w.number >= identityWorkers {
		return
	}
	x := identityChanges[w.rand.IntN(len(identityChanges))]
	name := fmt.Sprintf("%02d", w.number)
	exists := func(what string) (exist, certain bool) {
		exist, lack := w.load.Ledger.May(identity(what, name))
		return exist, exist != lack
	}
	for _, what := range x.needs {
		if exist, certain := exists(what); !exist || !certain {
			return
		}
	}
	n := identity(x.what, name)
	old, certain := w.load.Ledger.Value(n)
	switch {
	case !certain: // until the next start
	case old == nil, x.replaces && w.rand.IntN(3) > 0:
		w.putIdentity(ctx, &x, n, name, old)
	case x.remove == nil:
	default:
		for _, what := range x.users {
			if exist, _ := exists(what); exist {
				return
			}
		}
		effects := []Effect{{n, nil}}
		for _, part := range x.parts {
			effects = append(effects, Effect{identity(part, name), nil})
		}
		w.do(change{op: "delete-" + x.what, effects: effects, atomic: true, send: func() error {
			return x.remove(ctx, w.load.Client, name, old)
		}})
	}
}

// putIdentity creates or replaces an item.
func (w *worker) putIdentity(ctx context.Context, x *identityChange, n Name, name string, old *Value) {
	v := &Value{}
	switch {
	case x.secret:
		v.Label = unknownKey
	case labeled[x.what]:
		v.Label = fmt.Sprint(w.load.Ledger.Number())
	}
	c := change{op: "put-" + x.what, effects: []Effect{{n, v}}}
	var key *Value
	c.send = func() (err error) {
		key, err = x.put(ctx, w.load.Client, name, v.Label, old)
		return err
	}
	if x.secret {
		c.result = func() []Effect { return []Effect{{n, key}} }
	}
	w.do(c)
}

// refusal is the error of a request to the admin API or to IAM to which the server responded with an error.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.text) }

// WithAdmin makes the client send requests about identities to an admin API, and returns it.
func (c *Client) WithAdmin(endpoint string) *Client {
	c.admin = c.root.raw(endpoint, c.transport, requestTimeout)
	return c
}

// askAdmin sends a request to the admin API and decodes the response into answer, unless it is nil.
func (c *Client) askAdmin(ctx context.Context, method, path, query, body string, answer any) error {
	a, err := c.admin.Fetch(ctx, &sdk.Request{Method: method, Path: "/-/admin/" + path, Query: query, Body: []byte(body)})
	switch {
	case err != nil:
		return err
	case a.Status != http.StatusOK:
		return &refusal{a.Status, string(a.Body)}
	case answer == nil:
		return nil
	}
	return json.Unmarshal(a.Body, answer)
}

// askIAM sends a form to IAM as the root, and decodes the response into answer, unless it is nil. NAME, LABEL and
// DOCUMENT in the parameters are replaced.
func (c *Client) askIAM(ctx context.Context, parameters, name, label string, answer any) error {
	text := strings.Replace(named(parameters, name, label), "DOCUMENT", url.QueryEscape(document(label)), 1)
	return c.sendForm(ctx, "iam", "Version=2010-05-08&"+text, c.root, answer)
}

// works reports whether an access key is valid.
func (c *Client) works(ctx context.Context, key Credentials) (bool, error) {
	err := c.sendForm(ctx, "sts", "Version=2011-06-15&Action=GetCallerIdentity", key, nil)
	if code, _ := status(err); code == http.StatusForbidden {
		return false, nil
	}
	return err == nil, err
}

// sendForm sends a form to a service, and decodes the response into answer, unless it is nil.
func (c *Client) sendForm(ctx context.Context, service, form string, key Credentials, answer any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint+"/", strings.NewReader(form))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	sum := sha256.Sum256([]byte(form))
	keys := aws.Credentials{AccessKeyID: key.AccessKey, SecretAccessKey: key.SecretKey}
	if err := v4.NewSigner().SignHTTP(ctx, keys, r, hex.EncodeToString(sum[:]), service, "us-east-1", time.Now()); err != nil {
		return err
	}
	res, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return &refusal{res.StatusCode, string(body)}
	case answer == nil:
		return nil
	}
	return xml.Unmarshal(body, answer)
}

// identities returns all identities and their parts.
func (c *Client) identities(ctx context.Context) (map[Name]*Value, error) {
	found := identityList{}
	for _, read := range []func(context.Context, *Client) error{
		found.users, found.groups, found.roles, found.policies, found.keys, found.accounts,
	} {
		if err := read(ctx, c); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// identityList holds the values of identities and their parts.
type identityList map[Name]*Value

// put adds an item.
func (l identityList) put(what, name, label string) { l[identity(what, name)] = &Value{Label: label} }

func (l identityList) users(ctx context.Context, c *Client) error {
	var list admin.UserList
	if err := c.askAdmin(ctx, http.MethodGet, "user", "", "", &list); err != nil {
		return err
	}
	for _, u := range list.Users {
		l.put("user", u.Name, "")
		for range u.Groups {
			l.put("user/group", u.Name, "")
		}
		for range u.Policies {
			l.put("user/attached", u.Name, "")
		}
		for _, k := range u.Keys {
			l.put("user/key", u.Name, k.AccessKey)
		}
		if err := l.tags(ctx, c, "user", "Action=ListUserTags&UserName=NAME", u.Name); err != nil {
			return err
		}
		var p struct {
			Document string `xml:"GetUserPolicyResult>PolicyDocument"`
		}
		err := c.askIAM(ctx, "Action=GetUserPolicy&UserName=NAME"+policyParameters, u.Name, "", &p)
		if code, _ := status(err); code == http.StatusNotFound {
			continue
		}
		text, escape := url.QueryUnescape(p.Document)
		if err != nil || escape != nil {
			return fmt.Errorf("the policy of user %s: %w, %w", u.Name, err, escape)
		}
		l.put("user/policy", u.Name, labelOf([]byte(text)))
	}
	return nil
}

// tags adds the tag of a user or a role.
func (l identityList) tags(ctx context.Context, c *Client, kind, parameters, name string) error {
	var list struct {
		Users []string `xml:"ListUserTagsResult>Tags>member>Value"`
		Roles []string `xml:"ListRoleTagsResult>Tags>member>Value"`
	}
	if err := c.askIAM(ctx, parameters, name, "", &list); err != nil {
		return fmt.Errorf("the tags of %s %s: %w", kind, name, err)
	}
	for _, v := range append(list.Users, list.Roles...) {
		l.put(kind+"/tag", name, v)
	}
	return nil
}

func (l identityList) groups(ctx context.Context, c *Client) error {
	var list admin.GroupList
	err := c.askAdmin(ctx, http.MethodGet, "group", "", "", &list)
	for _, g := range list.Groups {
		l.put("group", g.Name, "")
	}
	return err
}

func (l identityList) roles(ctx context.Context, c *Client) error {
	var list admin.RoleList
	if err := c.askAdmin(ctx, http.MethodGet, "role", "", "", &list); err != nil {
		return err
	}
	for _, r := range list.Roles {
		l.put("role", r.Name, r.Description)
		for _, p := range r.Inline {
			l.put("role/policy", r.Name, labelOf(p.Document))
		}
		if err := l.tags(ctx, c, "role", "Action=ListRoleTags&RoleName=NAME", r.Name); err != nil {
			return err
		}
	}
	return nil
}

func (l identityList) policies(ctx context.Context, c *Client) error {
	var list admin.PolicyList
	err := c.askAdmin(ctx, http.MethodGet, "policy", "", "", &list)
	for _, p := range list.Policies {
		if !p.BuiltIn {
			l.put("policy", p.Name, labelOf(p.Document))
		}
	}
	return err
}

func (l identityList) keys(ctx context.Context, c *Client) error {
	var list admin.KeyList
	err := c.askAdmin(ctx, http.MethodGet, "key", "", "", &list)
	for _, k := range list.Keys {
		l.put("key", k.Name, k.AccessKey)
		if !k.Enabled {
			l.put("key/disabled", k.Name, "")
		}
	}
	return err
}

func (l identityList) accounts(ctx context.Context, c *Client) error {
	var list admin.AccountList
	err := c.askAdmin(ctx, http.MethodGet, "account", "", "", &list)
	for _, a := range list.Accounts {
		if !a.Default && len(a.Keys) > 0 {
			l.put("account", a.Name, a.Keys[len(a.Keys)-1].AccessKey)
		}
	}
	return err
}
