package s3

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"orcas/core"
)

// maxObjectTags is how many tags a version can have.
const maxObjectTags = 10

func (q *request) putObjectTagging() error {
	doc, _, err := q.readBody()
	if err != nil {
		return err
	}
	var body taggingRequest
	if err := parseXML(doc, &body); err != nil {
		return err
	}
	if body.Set == nil {
		return errMalformedXML
	}
	tags, err := body.Set.attrs(maxObjectTags, errTooManyTags)
	if err != nil {
		return err
	}
	v, err := q.update(core.UpdateObject{SetTags: true, Tags: tags})
	if err != nil {
		return err
	}
	q.setVersion(v)
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) deleteObjectTagging() error {
	v, err := q.update(core.UpdateObject{SetTags: true})
	if err != nil {
		return err
	}
	q.setVersion(v)
	q.sendEmpty(http.StatusNoContent)
	return nil
}

func (q *request) getObjectTagging() error {
	o, err := q.stat()
	if err != nil {
		return err
	}
	q.setVersion(o.Version())
	x := q.s.document()
	defer q.s.release(x)
	x.begin("Tagging")
	x.tags(o.Tags)
	x.close("Tagging")
	q.sendXML(http.StatusOK, x)
	return nil
}

// stat returns the version that the query names.
func (q *request) stat() (*core.ObjectInfo, error) {
	v, err := q.version()
	if err != nil {
		return nil, err
	}
	o, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, v)
	if err != nil {
		return nil, q.missing(err, v, o)
	}
	return o, nil
}

// update changes the version that the query names, and returns which one that is.
func (q *request) update(change core.UpdateObject) (core.Version, error) {
	v, err := q.version()
	if err != nil {
		return 0, err
	}
	change.Key, change.Version = q.key, v
	got, err := q.s.fs.Update(q.ctx, q.bucket, change)
	if err != nil {
		return 0, q.missing(err, v, nil)
	}
	return got, nil
}

// headerTags returns the tags that a request gives a new version, in order of keys: x-amz-tagging is a query.
func (q *request) headerTags() ([]core.Attr, error) {
	if q.optional&headerTagging == 0 {
		return nil, nil
	}
	if err := q.s.authorise(q.caller, "s3:PutObjectTagging", q.bucket); err != nil {
		return nil, err
	}
	header := joined(q.r.Header, "X-Amz-Tagging")
	bad := errInvalidArgument.say("The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.").
		with("ArgumentName", "x-amz-tagging").with("ArgumentValue", header)
	var tags []core.Attr
	for rest := header; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(name)
		text, valueErr := url.QueryUnescape(value)
		known := slices.ContainsFunc(tags, func(t core.Attr) bool { return t.Name == name })
		if nameErr != nil || valueErr != nil || strings.Contains(value, "=") || known || name == "" || !utf8.ValidString(name) || !utf8.ValidString(text) {
			return nil, bad
		}
		tags = append(tags, core.Attr{Name: name, Value: text})
	}
	if len(tags) > maxObjectTags {
		return nil, errTooManyTags
	}
	slices.SortFunc(tags, func(a, b core.Attr) int { return strings.Compare(a.Name, b.Name) })
	return tags, checkTags(tags)
}
