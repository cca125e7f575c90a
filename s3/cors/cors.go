// Package cors reads the CORS configuration of a bucket, and finds the rule that allows a page of another origin to send
// a request. It does not depend on requests.
//
// The rule that applies is the first one that matches the origin, the method, and all headers that the page wants to
// set. In an origin and in a header of a rule, one "*" stands for any text. Origins are compared with case, headers
// without.
package cors

import (
	"encoding/xml"
	"slices"
	"strconv"
	"strings"
	"sync"

	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/xmldoc"
)

// Limits of a configuration.
const (
	maxRules = 100
	maxID    = 255      // bytes
	maxBytes = 64 << 10 // of the document
)

// Attr is the name of the attribute of a bucket (core.BucketInfo.Attrs) that holds its configuration, as the XML inside
// the root element.
const Attr = "cors"

// methods are the HTTP methods that a rule can allow.
var methods = []string{"GET", "PUT", "HEAD", "POST", "DELETE"}

// Config is a list of rules. It is never modified.
type Config struct {
	XMLName xml.Name `xml:"CORSConfiguration"`
	Rules   []Rule   `xml:"CORSRule"`
}

// Rule allows pages of some origins to send some requests.
type Rule struct {
	ID      string   `xml:"ID"`
	Headers []string `xml:"AllowedHeader"`
	Methods []string `xml:"AllowedMethod"`
	Origins []string `xml:"AllowedOrigin"`
	Expose  []string `xml:"ExposeHeader"`  // response headers that pages may read
	MaxAge  *int32   `xml:"MaxAgeSeconds"` // time for which browsers may cache the response to a preflight, in seconds
}

// Parse reads the document of PutBucketCors. Its errors are of package apierr.
func Parse(doc []byte) (*Config, error) {
	if len(doc) > maxBytes {
		return nil, apierr.MessageTooLong
	}
	c := &Config{}
	if err := xmldoc.Parse(doc, c); err != nil {
		return nil, err
	}
	if len(c.Rules) == 0 {
		return nil, apierr.MalformedXML
	}
	if len(c.Rules) > maxRules {
		return nil, apierr.InvalidRequest.Say("The number of CORS rules should not exceed allowed limit of 100 rules.")
	}
	for i := range c.Rules {
		if err := c.Rules[i].check(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// check returns the error for an invalid rule, with S3's code and message.
func (r *Rule) check() error {
	if len(r.Methods) == 0 || len(r.Origins) == 0 || r.MaxAge != nil && *r.MaxAge < 0 {
		return apierr.MalformedXML
	}
	if len(r.ID) > maxID {
		return apierr.InvalidArgument.Say("The ID of a CORS rule must not be longer than 255 bytes.")
	}
	for _, m := range r.Methods {
		if !slices.Contains(methods, m) {
			return apierr.InvalidRequest.Say("Found unsupported HTTP method in CORS config. Unsupported method is " + m)
		}
	}
	for _, o := range r.Origins {
		if err := CheckOrigin(o); err != nil {
			return err
		}
	}
	for _, h := range r.Headers {
		if strings.Count(h, "*") > 1 {
			return apierr.InvalidRequest.Say("AllowedHeader \"" + h + "\" can not have more than one wildcard.")
		}
	}
	for _, h := range r.Expose {
		if strings.Contains(h, "*") {
			return apierr.InvalidRequest.Say("ExposeHeader \"" + h +
				"\" contains wildcard. We currently do not support wildcard for ExposeHeader.")
		}
		if !isToken(h) {
			return apierr.InvalidRequest.Say("ExposeHeader \"" + h + "\" is not the name of a header.")
		}
	}
	return nil
}

// CheckOrigin returns the error for an invalid AllowedOrigin.
func CheckOrigin(origin string) error {
	switch {
	case strings.Count(origin, "*") > 1:
		return apierr.InvalidRequest.Say("AllowedOrigin \"" + origin + "\" can not have more than one wildcard.")
	case origin == "":
		return apierr.MalformedXML
	}
	return nil
}

// isToken reports whether s can be the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

// exposed are the response headers that pages may read under Default: those that SDKs use.
var exposed = []string{
	"Accept-Ranges", "Content-Range", "ETag", "Location", "x-amz-abort-date", "x-amz-abort-rule-id", "x-amz-bucket-region",
	"x-amz-checksum-crc32", "x-amz-checksum-crc32c", "x-amz-checksum-crc64nvme", "x-amz-checksum-sha1",
	"x-amz-checksum-sha256", "x-amz-checksum-type", "x-amz-copy-source-version-id", "x-amz-delete-marker",
	"x-amz-expiration", "x-amz-id-2", "x-amz-mp-parts-count", "x-amz-object-lock-legal-hold", "x-amz-object-lock-mode",
	"x-amz-object-lock-retain-until-date", "x-amz-object-size", "x-amz-request-id", "x-amz-server-side-encryption",
	"x-amz-storage-class", "x-amz-tagging-count", "x-amz-version-id",
}

// Default returns the configuration that allows pages of these origins to send all requests. It returns nil if there are
// no origins.
func Default(origins []string) *Config {
	if len(origins) == 0 {
		return nil
	}
	age := int32(3600)
	return &Config{Rules: []Rule{
		{Origins: origins, Methods: methods, Headers: []string{"*"}, MaxAge: &age, Expose: exposed},
	}}
}

// Text returns the XML inside the root element.
func (c *Config) Text() string {
	var x xmldoc.Writer
	for i := range c.Rules {
		r := &c.Rules[i]
		x.Open("CORSRule")
		x.Optional("ID", r.ID)
		for _, list := range []struct {
			name   string
			values []string
		}{{"AllowedHeader", r.Headers}, {"AllowedMethod", r.Methods}, {"AllowedOrigin", r.Origins}, {"ExposeHeader", r.Expose}} {
			for _, v := range list.values {
				x.Text(list.name, v)
			}
		}
		if r.MaxAge != nil {
			x.Text("MaxAgeSeconds", strconv.Itoa(int(*r.MaxAge)))
		}
		x.Close("CORSRule")
	}
	return string(x.Buf)
}

// Match returns the first rule that allows a page of an origin to send a request with this method and these headers, and
// the value of Access-Control-Allow-Origin. If no rule does, the rule is nil.
func (c *Config) Match(origin, method string, headers []string) (r *Rule, allow string) {
	for i := range c.Rules {
		r := &c.Rules[i]
		matched := slices.IndexFunc(r.Origins, func(pattern string) bool { return matches(pattern, origin) })
		if matched < 0 || !slices.Contains(r.Methods, method) || !r.allows(headers) {
			continue
		}
		if r.Origins[matched] == "*" {
			return r, "*"
		}
		return r, origin
	}
	return nil, ""
}

// allows reports whether the rule allows all of these headers.
func (r *Rule) allows(headers []string) bool {
	for _, h := range headers {
		if !slices.ContainsFunc(r.Headers, func(p string) bool { return matches(strings.ToLower(p), strings.ToLower(h)) }) {
			return false
		}
	}
	return true
}

// matches reports whether text matches a pattern with at most one "*".
func matches(pattern, text string) bool {
	before, after, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	return len(text) >= len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after)
}

// Cache holds the parsed configurations of buckets. The zero Cache is empty. It is safe for concurrent use.
type Cache struct {
	mu  sync.RWMutex // guards all
	all map[core.BucketID]cached
}

type cached struct {
	text   string
	config *Config
}

// maxCached is the maximum number of buckets in a Cache.
const maxCached = 1024

// Of returns the configuration of a bucket, or nil if it has none.
func (c *Cache) Of(b *core.BucketInfo) (*Config, error) {
	text := core.AttrValue(b.Attrs, Attr)
	if text == "" {
		return nil, nil
	}
	c.mu.RLock()
	known := c.all[b.ID]
	c.mu.RUnlock()
	if known.text == text {
		return known.config, nil
	}
	config := &Config{}
	if err := xmldoc.Parse([]byte("<CORSConfiguration>"+text+"</CORSConfiguration>"), config); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxCached {
		c.all = map[core.BucketID]cached{}
	}
	c.all[b.ID] = cached{text, config}
	return config, nil
}
