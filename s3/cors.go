package s3

import (
	"cmp"
	"net/http"
	"strings"

	"orcas/core"
	"orcas/gate"
	"orcas/s3/cors"
)

// preflightRoute provides the operation name of preflight requests in the log. It is not in the route table because the
// response to OPTIONS depends only on the CORS configuration.
var preflightRoute = route{Route: gate.Route{Name: "Preflight", Method: http.MethodOptions}}

// varyCORS lists the request headers that CORS headers depend on.
const varyCORS = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"

// crossOrigin is what a page of another origin, which sent the request, may know about the response.
type crossOrigin struct {
	rule  *cors.Rule // nil if no rule allows the request; browsers then hide the response from the page
	allow string     // the value of Access-Control-Allow-Origin
}

// set sets the headers of the response.
func (c *crossOrigin) set(q *request) {
	q.set("Vary", varyCORS)
	if c.rule == nil {
		return
	}
	q.set("Access-Control-Allow-Origin", c.allow)
	if c.allow != "*" {
		q.set("Access-Control-Allow-Credentials", "true")
	}
	q.set("Access-Control-Allow-Methods", strings.Join(c.rule.Methods, ", "))
	if len(c.rule.Expose) > 0 {
		q.set("Access-Control-Expose-Headers", strings.Join(c.rule.Expose, ", "))
	}
	if c.rule.MaxAge != nil {
		q.set("Access-Control-Max-Age", itoa(int64(*c.rule.MaxAge)))
	}
}

// corsOf returns the CORS configuration that applies to a request: that of its bucket or, if the bucket has none or does
// not exist, the default of the server, which may be nil.
func (s *Server) corsOf(q *request) (config *cors.Config, exists bool, err error) {
	if !ValidBucketName(q.bucketName) {
		return s.cors, false, nil
	}
	b, err := s.fs.Bucket(q.ctx, q.bucketName)
	switch {
	case core.Is(err, core.NoSuchBucket):
		return s.cors, false, nil
	case err != nil:
		return nil, false, err
	}
	if config, err = s.corsCache.Of(b); err != nil {
		return nil, true, errInternal.Because(err)
	}
	return cmp.Or(config, s.cors), true, nil
}

// allowOrigin adds the CORS headers to the response of a request that a page of another origin sent. Errors have these
// headers too, and it is called before authentication, so that the page can read why a request was refused. A request
// without an Origin header costs nothing.
func (s *Server) allowOrigin(q *request, origin string) {
	config, _, err := s.corsOf(q)
	if err != nil || config == nil {
		return // without the headers, the page cannot read the response
	}
	c := &crossOrigin{}
	c.rule, c.allow = config.Match(origin, cmp.Or(first(q.r.Header, "Access-Control-Request-Method"), q.r.Method), nil)
	q.browser.cross = c
	c.set(q)
}

// preflight responds to an OPTIONS request, which a browser sends to find out whether a page of another origin may send
// a request. Browsers do not sign it, and a presigned URL is signed for another method, so it is not authenticated.
// It reveals what the rules allow to the origin and, as in S3 and like the responses to other anonymous requests,
// whether the bucket exists.
func (s *Server) preflight(q *request) error {
	q.route = &preflightRoute
	origin := first(q.r.Header, "Origin")
	if origin == "" {
		return errNoOrigin
	}
	config, exists, err := s.corsOf(q)
	if err != nil {
		return err
	}
	method := first(q.r.Header, "Access-Control-Request-Method")
	if config == nil {
		refusal := errCORSNoBucket
		if exists {
			refusal = errCORSDisabled
		}
		return refusal.With("Method", cmp.Or(method, http.MethodOptions)).With("ResourceType", "BUCKET")
	}
	c := &crossOrigin{}
	q.browser.cross = c
	if method == "" {
		return errNoCORSMethod
	}
	headers := splitHeaders(q.r.Header["Access-Control-Request-Headers"])
	if c.rule, c.allow = config.Match(origin, method, headers); c.rule == nil {
		return errCORSRefused.With("Method", method).With("ResourceType", "OBJECT")
	}
	c.set(q)
	if len(headers) > 0 {
		q.set("Access-Control-Allow-Headers", strings.Join(headers, ", "))
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

// splitHeaders returns the names in lists of headers, in lower case.
func splitHeaders(lists []string) (names []string) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

func acceptCORS(doc []byte) (string, error) {
	c, err := cors.Parse(doc)
	if err != nil {
		return "", err
	}
	return c.Text(), nil
}
