package declared

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"orcas/admin"
	"orcas/auth/identity"
	"orcas/core"
	"orcas/lifecycle"
	"orcas/s3"
	"orcas/s3/bucketaccess"
	"orcas/s3/cors"
	"orcas/s3/lifecycledoc"
)

// setting changes one setting of a bucket. Its error is about the value.
type setting struct {
	name   string // in the file
	change func(*core.BucketInfo) error
}

func (p *planner) planBuckets() error {
	for i := range p.Buckets {
		e := &p.Buckets[i]
		settings, err := p.settingsOf(i, e)
		if err != nil {
			return err
		}
		// change applies all settings, and returns the names of those that differ.
		change := func(b *core.BucketInfo) (changed []string, err error) {
			for _, s := range settings {
				before := stateOf(b)
				if err := s.change(b); err != nil {
					return nil, p.fail([]any{"buckets", i, s.name}, "bucket %s: %s: %s", e.Name, s.name, core.Text(err))
				}
				if stateOf(b) != before {
					changed = append(changed, s.name)
				}
			}
			return changed, p.checkPublic(i, b)
		}
		old, err := p.FS.Bucket(p.ctx, e.Name)
		switch {
		case core.Is(err, core.NoSuchBucket):
			info := core.BucketInfo{Name: e.Name, Owner: p.by.Account, Region: p.Region}
			if p.OpenBuckets {
				info.Attrs = append(info.Attrs, s3.WithoutPublicAccessBlock())
			}
			planned := info
			planned.Attrs = append([]core.Attr(nil), info.Attrs...)
			if _, err := change(&planned); err != nil {
				return err
			}
			p.add("bucket", e.Name, "", func(ctx context.Context) error {
				if _, err := change(&info); err != nil { // again: now the principals of its policy have IDs
					return err
				}
				_, err := p.FS.CreateBucket(ctx, info)
				return err
			})
			continue
		case err != nil:
			return err
		case old.Owner != p.by.Account:
			return p.fail([]any{"buckets", i, "name"}, "the bucket %s belongs to another account", e.Name)
		}
		b := *old
		b.Attrs = append([]core.Attr(nil), old.Attrs...)
		changed, err := change(&b)
		if err != nil {
			return err
		}
		if len(changed) == 0 {
			continue
		}
		p.add("bucket", e.Name, strings.Join(changed, ", "), func(ctx context.Context) error {
			_, err := p.FS.UpdateBucket(ctx, e.Name, func(b *core.BucketInfo) error {
				if b.ID != old.ID {
					return errors.New("the bucket was deleted and created again")
				}
				_, err := change(b)
				return err
			})
			return err
		})
	}
	return nil
}

// stateOf returns a text that two buckets have in common if they have the same settings.
func stateOf(b *core.BucketInfo) string {
	policyText := core.AttrValue(b.Attrs, bucketaccess.PolicyAttr)
	values := []any{b.Versioning, b.Compression, b.ChunkSize, b.Quota, compact(policyText)}
	for _, name := range []string{bucketaccess.PrincipalsAttr, bucketaccess.BlockAttr, cors.Attr, lifecycleAttr} {
		values = append(values, core.AttrValue(b.Attrs, name))
	}
	return fmt.Sprintf("%q", values)
}

// lifecycleAttr is the attribute that lifecycle.Set sets.
const lifecycleAttr = "lifecycle"

// checkPublic returns an error if the public access block of a bucket would have refused its policy.
func (p *planner) checkPublic(i int, b *core.BucketInfo) error {
	if p.Buckets[i].Policy.Kind == 0 {
		return nil
	}
	compiled, err := bucketaccess.Parse(b.Name, bucketaccess.Document(b))
	if err == nil && bucketaccess.Block(b).Refuses(compiled) {
		return p.fail([]any{"buckets", i, "policy"}, "bucket %s: the policy makes the bucket public, which its public access block prevents: "+
			"use public: custom if this is intended", b.Name)
	}
	return err
}

// settingsOf returns the changes that make a bucket have the settings of an entry, in the order in which they depend on
// each other.
func (p *planner) settingsOf(i int, e *bucketEntry) (list []setting, err error) {
	for _, s := range []struct {
		name, parameter string
		value           *string
	}{
		{"compression", "compression", e.Compression}, {"chunk_size", "chunk-size", e.ChunkSize},
		{"max_bytes", "max-bytes", e.MaxBytes}, {"max_objects", "max-objects", e.MaxObjects},
	} {
		if s.value == nil {
			continue
		}
		change, err := admin.BucketChange(url.Values{s.parameter: {*s.value}})
		if err != nil {
			return nil, p.fail([]any{"buckets", i, s.name}, "bucket %s: %s", e.Name, err)
		}
		list = append(list, setting{s.name, func(b *core.BucketInfo) error {
			change(b)
			return nil
		}})
	}
	if e.Versioning != nil {
		state, ok := map[string]core.Versioning{"enabled": core.VersioningEnabled, "suspended": core.VersioningSuspended}[*e.Versioning]
		if !ok {
			return nil, p.fail([]any{"buckets", i, "versioning"}, "bucket %s: versioning must be enabled or suspended, not %q", e.Name, *e.Versioning)
		}
		list = append(list, setting{"versioning", func(b *core.BucketInfo) error {
			if b.ObjectLock && state != core.VersioningEnabled {
				return errors.New("the bucket has object lock, so versioning cannot be suspended")
			}
			b.Versioning = state
			return nil
		}})
	}
	for _, document := range []func(int, *bucketEntry) (*setting, error){p.policySetting, p.publicSetting, p.corsSetting, p.lifecycleSetting} {
		s, err := document(i, e)
		if err != nil {
			return nil, err
		}
		if s != nil {
			list = append(list, *s)
		}
	}
	return list, nil
}

// principals are the principals that exist, and those that steps before the buckets create, which have no ID before that.
type principals struct {
	*identity.Directory
	declared map[string]bool // their ARNs; empty when the steps are done
}

// Resolve implements bucketaccess.Principals.
func (p principals) Resolve(kind, principal string) (id string, exists bool) {
	id, exists = p.Directory.Resolve(kind, principal)
	return id, exists || kind == "AWS" && p.declared[principal]
}

func (p *planner) policySetting(i int, e *bucketEntry) (*setting, error) {
	if e.Policy.Kind == 0 {
		return nil, nil
	}
	at := []any{"buckets", i, "policy"}
	document, err := jsonOf(&e.Policy)
	if err != nil {
		return nil, p.fail(at, "%s", err)
	}
	who := principals{p.Identities, p.arns}
	if _, err := bucketaccess.Prepare(e.Name, document, who); err != nil {
		return nil, p.fail(at, "bucket %s: policy: %s", e.Name, inYAML(err))
	}
	return &setting{"policy", func(b *core.BucketInfo) error {
		return bucketaccess.SetPolicy(b, document, who)
	}}, nil
}

func (p *planner) publicSetting(i int, e *bucketEntry) (*setting, error) {
	if e.Public == nil {
		return nil, nil
	}
	public := bucketaccess.Public(*e.Public)
	switch public {
	case bucketaccess.PublicRead, bucketaccess.PublicNone:
		return &setting{"public", func(b *core.BucketInfo) error { return bucketaccess.SetPublic(b, public) }}, nil
	case bucketaccess.PublicCustom:
		return &setting{"public", func(b *core.BucketInfo) error {
			block := bucketaccess.Block(b)
			block.BlockPublicPolicy, block.RestrictPublicBuckets = false, false
			b.Attrs = core.SetAttr(b.Attrs, bucketaccess.BlockAttr, bucketaccess.EncodeBlock(block))
			return nil
		}}, nil
	}
	return nil, p.fail([]any{"buckets", i, "public"}, "bucket %s: public must be none, read or custom, not %q", e.Name, public)
}

func (p *planner) corsSetting(i int, e *bucketEntry) (*setting, error) {
	if e.CORS == nil {
		return nil, nil
	}
	var doc cors.Config
	for _, r := range e.CORS {
		doc.Rules = append(doc.Rules, cors.Rule{
			ID: r.ID, Headers: r.Headers, Methods: r.Methods, Origins: r.Origins, Expose: r.Expose, MaxAge: r.MaxAge,
		})
	}
	config, err := cors.Parse([]byte("<CORSConfiguration>" + doc.Text() + "</CORSConfiguration>"))
	if err != nil {
		return nil, p.fail([]any{"buckets", i, "cors"}, "bucket %s: cors: %s", e.Name, err)
	}
	text := config.Text()
	return &setting{"cors", func(b *core.BucketInfo) error {
		b.Attrs = core.SetAttr(b.Attrs, cors.Attr, text)
		return nil
	}}, nil
}

// The lifecycle document of S3, as far as a file can declare it.
type (
	lifecycleXML struct {
		XMLName xml.Name  `xml:"LifecycleConfiguration"`
		Rules   []ruleXML `xml:"Rule"`
	}
	ruleXML struct {
		ID         string `xml:"ID"`
		Prefix     string `xml:"Filter>Prefix"`
		Status     string `xml:"Status"`
		Expiration *struct {
			Days int32 `xml:"Days"`
		} `xml:"Expiration"`
		Noncurrent *struct {
			Days  *int32 `xml:"NoncurrentDays"`
			Newer *int32 `xml:"NewerNoncurrentVersions"`
		} `xml:"NoncurrentVersionExpiration"`
		Abort *struct {
			Days int32 `xml:"DaysAfterInitiation"`
		} `xml:"AbortIncompleteMultipartUpload"`
	}
)

func (p *planner) lifecycleSetting(i int, e *bucketEntry) (*setting, error) {
	if e.Lifecycle == nil {
		return nil, nil
	}
	var doc lifecycleXML
	for n, r := range e.Lifecycle {
		if r.ID == "" { // S3 would generate one, so that each application would change the rule
			return nil, p.fail([]any{"buckets", i, "lifecycle", n}, "bucket %s: a lifecycle rule has no id", e.Name)
		}
		rule := ruleXML{ID: r.ID, Prefix: r.Prefix, Status: "Enabled"}
		if r.Disabled {
			rule.Status = "Disabled"
		}
		if r.ExpireDays != nil {
			rule.Expiration = &struct {
				Days int32 `xml:"Days"`
			}{*r.ExpireDays}
		}
		if r.NoncurrentDays != nil || r.KeepNoncurrent != nil {
			rule.Noncurrent = &struct {
				Days  *int32 `xml:"NoncurrentDays"`
				Newer *int32 `xml:"NewerNoncurrentVersions"`
			}{r.NoncurrentDays, r.KeepNoncurrent}
		}
		if r.AbortDays != nil {
			rule.Abort = &struct {
				Days int32 `xml:"DaysAfterInitiation"`
			}{*r.AbortDays}
		}
		doc.Rules = append(doc.Rules, rule)
	}
	at := []any{"buckets", i, "lifecycle"}
	text, err := xml.Marshal(doc)
	if err != nil {
		return nil, p.fail(at, "%s", err)
	}
	config, err := lifecycledoc.Parse(text)
	if err != nil {
		return nil, p.fail(at, "bucket %s: lifecycle: %s", e.Name, err)
	}
	return &setting{"lifecycle", func(b *core.BucketInfo) error {
		if old, err := lifecycle.Of(b); err == nil && old != nil {
			config.MinimumSize = old.MinimumSize // has no effect, and a file cannot declare it
		}
		return lifecycle.Set(b, config)
	}}, nil
}
