package admin

import (
	"encoding/json"
	"net/http"
	"net/url"

	"orcas/gate"
)

// ApplyRequest is the body of a request to apply a file that declares a store: see package declared.
type ApplyRequest struct {
	File    string            `json:"file"`    // its text
	Secrets map[string]string `json:"secrets"` // the contents of the files with secrets that it refers to, by their names
	DryRun  bool              `json:"dry_run"`
	With    string            `json:"-"` // the access key with which the request is signed
}

// Applied is what was changed, or would be.
type Applied struct {
	DryRun  bool            `json:"dry_run"`
	Changes []AppliedChange `json:"changes"`
	Keys    []AppliedKey    `json:"keys"`             // access keys that were created with generated secrets
	Failed  string          `json:"failed,omitempty"` // why the remaining changes were not made

	Err     error          `json:"-"` // the cause of Failed
	Refused *AppliedChange `json:"-"` // the change that Err prevented, if it is one
}

// Items returns the changes for the audit log, with the one that failed. Those of a dry run are not made.
func (a *Applied) Items() (list []gate.Item) {
	if a.DryRun {
		return nil
	}
	for i := range a.Changes {
		list = append(list, a.Changes[i].item(""))
	}
	if a.Refused != nil {
		list = append(list, a.Refused.item(CodeOf(a.Err)))
	}
	return list
}

// AppliedChange is one change.
type AppliedChange struct {
	Action string `json:"action"`           // create or change
	Kind   string `json:"kind"`             // account, policy, group, user, role, bucket or key
	Name   string `json:"name"`             // of what is created or changed
	Detail string `json:"detail,omitempty"` // what is changed
}

func (c *AppliedChange) item(code string) gate.Item {
	q := url.Values{"action": {c.Action}, "kind": {c.Kind}, "name": {c.Name}}
	if c.Detail != "" {
		q.Set("detail", c.Detail)
	}
	i := gate.Item{Target: q.Encode(), Code: code}
	if c.Kind == "bucket" {
		i.Bucket = c.Name
	}
	return i
}

// AppliedKey is an access key that was created, with its secret.
type AppliedKey struct {
	Kind      string `json:"kind"` // of what it belongs to: key, user, or account (its root)
	Name      string `json:"name"` // of what it belongs to
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Endpoint  string `json:"endpoint"`
}

// apply makes the store have what a file declares.
func (s *Store) apply(r *http.Request) (any, error) {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	var q ApplyRequest
	if err := d.Decode(&q); err != nil {
		return nil, invalid("admin.apply", "the body is not a request to apply a file: %w", err)
	}
	q.With = accessKeyOf(r)
	done, err := s.Apply(r.Context(), callerOf(r), &q)
	if err != nil {
		return nil, err
	}
	if c, ok := r.Context().Value(callKey{}).(*call); ok {
		c.event.Items = done.Items()
		if done.DryRun {
			c.event.Target = "dry_run=true"
		}
		if done.Err != nil {
			c.event.Code, c.event.Cause = CodeOf(done.Err), done.Err
		}
	}
	return done, nil
}
