package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"orcas/sdk"
)

// statCommand shows the properties of objects and buckets.
type statCommand struct {
	connection
	Address   string `arg:"" placeholder:"ADDRESS" complete:"address" help:"Show this object, s3://BUCKET/KEY, or this bucket, s3://BUCKET."`
	VersionID string `placeholder:"ID" help:"Show this version of the object."`
	Versions  bool   `help:"Show all versions of the object."`
}

// statJSON is an object or a version of it as JSON.
type statJSON struct {
	entryJSON
	ContentType        string            `json:"content_type,omitempty"`
	CacheControl       string            `json:"cache_control,omitempty"`
	ContentDisposition string            `json:"content_disposition,omitempty"`
	ContentEncoding    string            `json:"content_encoding,omitempty"`
	ContentLanguage    string            `json:"content_language,omitempty"`
	Expires            string            `json:"expires,omitempty"`
	Parts              int               `json:"parts,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`
	Tags               map[string]string `json:"tags,omitempty"`
	Checksums          map[string]string `json:"checksums,omitempty"`
	ChecksumType       string            `json:"checksum_type,omitempty"`
	Encryption         string            `json:"encryption,omitempty"`
	LockMode           string            `json:"lock_mode,omitempty"`
	LockUntil          string            `json:"lock_until,omitempty"`
	LegalHold          bool              `json:"legal_hold,omitempty"`
	Expiration         string            `json:"expiration,omitempty"`
}

// statBucketJSON is a bucket as JSON.
type statBucketJSON struct {
	Type       string            `json:"type"` // bucket
	Address    string            `json:"address"`
	Bucket     string            `json:"bucket"`
	Region     string            `json:"region,omitempty"`
	Versioning string            `json:"versioning"`
	Tags       map[string]string `json:"tags,omitempty"`
	Settings   []string          `json:"settings,omitempty"` // those that are configured
}

// Validate is called by kong.
func (c *statCommand) Validate() error {
	if c.Versions && c.VersionID != "" {
		return usagef("--versions cannot be combined with --version-id")
	}
	return nil
}

// Run shows the properties.
func (c *statCommand) Run(ctx context.Context, console *Console) error {
	at, err := parseRemote(c.Address, "s3://BUCKET[/KEY]")
	if err != nil {
		return err
	}
	if at.Key == "" && (c.Versions || c.VersionID != "") {
		return usagef("--versions and --version-id are for objects, and %s is a bucket", at)
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	switch {
	case at.Key == "":
		err = c.bucket(r, at)
	case c.Versions:
		err = c.versions(r, at)
	default:
		err = c.object(r, at, c.VersionID)
	}
	return s.end(r.explain(err))
}

// versions shows the versions of an object.
func (c *statCommand) versions(r *remote, at Address) error {
	found := false
	for e, err := range r.Versions(r.session.ctx, at.Bucket, &sdk.ListOptions{Prefix: at.Key}) {
		if err != nil {
			return err
		}
		if e.Key != at.Key {
			break
		}
		if found {
			r.session.out.line("")
		}
		found = true
		if e.DeleteMarker {
			r.session.out.object(newEntryJSON(at, &e, true))
			c.print(r.session.out, [][2]string{{"address", shown(at.String())}, {"version", e.VersionID}, {"delete marker", localTime(e.LastModified)}})
		} else if err := c.object(r, at, e.VersionID); err != nil {
			return err
		}
	}
	if !found {
		return notFound("there are no versions of %s", shown(at.String()))
	}
	return nil
}

// object shows an object, or a version of it.
func (c *statCommand) object(r *remote, at Address, version string) error {
	ctx := r.session.ctx
	i, err := r.Head(ctx, at.Bucket, at.Key, &sdk.GetOptions{VersionID: version})
	if err != nil {
		return err
	}
	i.Key = at.Key
	var tags map[string]string
	if i.TagCount > 0 {
		tags, err = r.Tags(ctx, at.Bucket, sdk.ObjectID{Key: at.Key, VersionID: version})
		if err != nil && !isAny(err, sdk.ErrAccessDenied, sdk.ErrNotImplemented) {
			return err
		}
	}
	j := statJSON{
		entryJSON: newEntryJSON(at, &sdk.Entry{Info: *i}, false), ContentType: i.ContentType, CacheControl: i.CacheControl,
		ContentDisposition: i.ContentDisposition, ContentEncoding: i.ContentEncoding, ContentLanguage: i.ContentLanguage, Expires: i.Expires,
		Parts: i.Parts, Metadata: i.Metadata, Tags: tags, ChecksumType: i.ChecksumType, Encryption: i.Encryption.Algorithm,
		LockMode: i.Lock.Mode, LockUntil: jsonTime(i.Lock.Until), LegalHold: i.Lock.LegalHold, Expiration: i.Expiration,
	}
	for algorithm, sum := range i.Checksums {
		if j.Checksums == nil {
			j.Checksums = map[string]string{}
		}
		j.Checksums[algorithm.String()] = sum
	}
	r.session.out.object(j)
	c.print(r.session.out, j.lines())
	return nil
}

// lines returns what is known, for people.
func (j *statJSON) lines() [][2]string {
	size := ""
	if j.Size != nil {
		size = bytesText(*j.Size, false) + " bytes (" + bytesText(*j.Size, true) + ")"
	}
	lines := [][2]string{
		{"address", shown(j.Address)}, {"version", j.VersionID}, {"size", size}, {"modified", j.LastModified}, {"etag", j.ETag},
		{"content type", j.ContentType}, {"cache control", j.CacheControl}, {"disposition", j.ContentDisposition},
		{"encoding", j.ContentEncoding}, {"language", j.ContentLanguage}, {"expires", j.Expires}, {"storage class", j.StorageClass},
		{"encryption", j.Encryption}, {"retention", strings.TrimSpace(j.LockMode + " " + j.LockUntil)}, {"expiration", j.Expiration},
	}
	if j.Parts > 0 {
		lines = append(lines, [2]string{"parts", strconv.Itoa(j.Parts)})
	}
	if j.LegalHold {
		lines = append(lines, [2]string{"legal hold", "on"})
	}
	for _, m := range []struct {
		name   string
		values map[string]string
	}{{"checksum", j.Checksums}, {"metadata", j.Metadata}, {"tag", j.Tags}} {
		for _, name := range slices.Sorted(maps.Keys(m.values)) {
			lines = append(lines, [2]string{m.name, shown(name) + "=" + shown(m.values[name])})
		}
	}
	return lines
}

// print prints names with values, except empty ones.
func (c *statCommand) print(out *output, lines [][2]string) {
	for _, l := range lines {
		if l[1] != "" {
			out.line("%-14s %s", l[0], l[1])
		}
	}
}

// settings are the documents of a bucket that stat looks for.
var settings = [...]string{"policy", "lifecycle", "cors", "encryption", "object-lock", "quota"}

// bucket shows a bucket. What the key may not read is left out.
func (c *statCommand) bucket(r *remote, at Address) error {
	ctx := r.session.ctx
	region, err := r.HeadBucket(ctx, at.Bucket)
	if err != nil {
		return err
	}
	versioning, err := r.Versioning(ctx, at.Bucket)
	if err != nil && !isAny(err, sdk.ErrAccessDenied, sdk.ErrNotImplemented) {
		return err
	}
	tags, err := r.BucketTags(ctx, at.Bucket)
	if err != nil && !isAny(err, sdk.ErrAccessDenied, sdk.ErrNotImplemented, sdk.ErrNoSuchConfiguration) {
		return err
	}
	j := statBucketJSON{Type: "bucket", Address: at.String(), Bucket: at.Bucket, Region: region, Versioning: strings.ToLower(versioning), Tags: tags}
	if j.Versioning == "" {
		j.Versioning = "disabled"
	}
	for _, name := range settings {
		_, err := r.Document(ctx, at.Bucket, name)
		if err == nil {
			j.Settings = append(j.Settings, name)
		} else if errors.Is(err, sdk.ErrNetwork) || ctx.Err() != nil {
			return err
		}
	}
	r.session.out.object(j)
	lines := [][2]string{{"bucket", j.Address}, {"region", j.Region}, {"versioning", j.Versioning}, {"settings", strings.Join(j.Settings, ", ")}}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		lines = append(lines, [2]string{"tag", shown(name) + "=" + shown(tags[name])})
	}
	c.print(r.session.out, lines)
	return nil
}
