package client

import (
	"context"
	"maps"
	"mime"
	"net/http"
	"slices"
	"time"

	"orcas/sdk"
)

// presignMax is the longest time that a presigned URL can be valid.
const presignMax = 7 * 24 * time.Hour

// presignCommand prints presigned URLs.
type presignCommand struct {
	connection
	Address     string   `arg:"" placeholder:"ADDRESS" complete:"address" help:"Give access to this object, s3://BUCKET/KEY. For POST the key may be a prefix that ends with /, and the form chooses the rest."`
	Method      string   `enum:"GET,PUT,POST" default:"GET" help:"Allow to read (GET), to write (PUT), or to upload with an HTML form (POST) (default ${default})."`
	Expires     duration `default:"1h" placeholder:"DURATION" help:"Make the URL valid for this long, up to 7d (default ${default})."`
	VersionID   string   `placeholder:"ID" help:"Give access to this version of the object (GET)."`
	ContentType string   `placeholder:"TYPE" help:"Require this content type (PUT, POST), or respond with it (GET)."`
	Download    string   `placeholder:"NAME" help:"Make browsers save the object as a file with this name (GET)."`
	MaxSize     size     `placeholder:"SIZE" help:"Accept at most this many bytes (POST)."`
}

// Validate is called by kong.
func (c *presignCommand) Validate() error {
	switch d := time.Duration(c.Expires); {
	case d < time.Second || d > presignMax:
		return usagef("--expires: expected 1s to 7d, not %s", d)
	case c.Method != http.MethodGet && (c.VersionID != "" || c.Download != ""):
		return usagef("--version-id and --download are for --method GET")
	case c.Method != http.MethodPost && c.MaxSize != 0:
		return usagef("--max-size is for --method POST")
	}
	return nil
}

// presignedJSON is a presigned request as JSON.
type presignedJSON struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"` // that the request must have
	Fields  map[string]string `json:"fields,omitempty"`  // of the form
	Expires string            `json:"expires"`
}

// Run prints the URL. It sends no request.
func (c *presignCommand) Run(ctx context.Context, console *Console) error {
	at, err := parseRemote(c.Address, "s3://BUCKET/KEY")
	if err != nil {
		return err
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	if r.profile.Credentials == nil {
		return s.end(usagef("a URL can be signed only with keys, and %s has none", r.source()))
	}
	j := presignedJSON{Method: c.Method, Expires: jsonTime(s.now().Add(time.Duration(c.Expires)).Truncate(time.Second))}
	switch c.Method {
	case http.MethodGet:
		err = c.get(r, at, &j)
	case http.MethodPut:
		err = c.put(r, at, &j)
	default:
		err = c.post(r, at, &j)
	}
	if err != nil {
		return s.end(r.explain(err))
	}
	s.out.object(j)
	s.out.line("%s", j.URL)
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		s.out.line("%s: %s", name, j.Headers[name])
	}
	for _, name := range slices.Sorted(maps.Keys(j.Fields)) {
		s.out.line("%s=%s", name, j.Fields[name])
	}
	return s.end(nil)
}

func (c *presignCommand) get(r *remote, at Address, j *presignedJSON) (err error) {
	o := &sdk.GetOptions{VersionID: c.VersionID, Response: map[string]string{}}
	if c.ContentType != "" {
		o.Response["response-content-type"] = c.ContentType
	}
	if c.Download != "" {
		o.Response["response-content-disposition"] = mime.FormatMediaType("attachment", map[string]string{"filename": c.Download})
	}
	j.URL, err = r.PresignGet(at.Bucket, at.Key, time.Duration(c.Expires), o)
	return err
}

func (c *presignCommand) put(r *remote, at Address, j *presignedJSON) error {
	o := &sdk.PutOptions{}
	o.ContentType = c.ContentType
	url, headers, err := r.PresignPut(at.Bucket, at.Key, time.Duration(c.Expires), o)
	j.URL, j.Headers = url, map[string]string{}
	for name := range headers {
		j.Headers[name] = headers.Get(name)
	}
	return err
}

func (c *presignCommand) post(r *remote, at Address, j *presignedJSON) (err error) {
	p := sdk.PostPolicy{Key: at.Key, Expires: time.Duration(c.Expires), MaxSize: int64(c.MaxSize), Fields: map[string]string{}}
	if at.isDirectory() {
		p.Key += "${filename}"
	}
	if c.ContentType != "" {
		p.Fields["Content-Type"] = c.ContentType
	}
	j.URL, j.Fields, err = r.PresignPost(at.Bucket, p)
	return err
}
