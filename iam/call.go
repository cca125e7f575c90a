package iam

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"orcas/auth"
	"orcas/gate"
	"orcas/gate/limit"
	"orcas/internal/mutant"
	"orcas/s3/xmldoc"
)

// call is a request on its way through the gate, and its response.
type call struct {
	h       *Handler
	w       http.ResponseWriter
	r       *http.Request
	service *service
	caller  *auth.Principal // the sender
	event   gate.Event
	flow    limit.Flow // the limits that the call counts for

	route      *route
	parameters map[string]string
	target     resource
	found

	result xmldoc.Writer // the elements of the result
}

// handler performs an action, for a call that has passed the gate. It writes the elements of the result.
type handler func(*call) error

func (c *call) ctx() context.Context { return c.r.Context() }

// account returns the account of the caller, which everything in a call belongs to.
func (c *call) account() string { return c.caller.Account }

// value returns a parameter, or "".
func (c *call) value(name string) string { return c.parameters[name] }

// parse reads the parameters from the body, or from the query. A parameter that is given twice is refused, because
// programs disagree about which of the values counts.
func (c *call) parse(body []byte) error {
	if len(body) > 0 && !isForm(c.r) {
		return errMalformed.saying("The body must be a form: expected the Content-Type application/x-www-form-urlencoded.")
	}
	c.parameters = map[string]string{}
	for i, text := range []string{c.r.URL.RawQuery, string(body)} {
		values, err := url.ParseQuery(text)
		if err != nil {
			return errMalformed
		}
		for name, list := range values {
			if inQuery := i == 0; inQuery && isSignature(name) {
				continue
			}
			if _, repeated := c.parameters[name]; (repeated || len(list) > 1) && !mutant.Is("first-parameter-counts") {
				return errMalformed.saying("The parameter %q is given more than once.", name)
			}
			if !utf8.ValidString(name) || !utf8.ValidString(list[0]) || strings.ContainsRune(list[0], 0) {
				return errMalformed.saying("The parameter %q is not UTF-8 text.", name)
			}
			c.parameters[name] = list[0]
		}
	}
	return nil
}

// targets are the parameters that say what a call is about. None of them is a secret.
var targets = []string{"UserName", "GroupName", "RoleName", "RoleArn", "PolicyName", "PolicyArn", "VersionId", "AccessKeyId", "Status"}

// about returns the parameters that say what the call is about, as in a query.
func (c *call) about() string {
	about := url.Values{}
	for _, name := range targets {
		if v := c.value(name); v != "" {
			about.Set(name, v)
		}
	}
	return about.Encode()
}

// isSignature reports whether a parameter of the query belongs to the signature of a presigned URL.
func isSignature(name string) bool {
	switch name {
	case "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature",
		"X-Amz-Security-Token":
		return true
	}
	return false
}

// checkParameters checks that the call has the parameters that its action needs, and no others than those it takes.
func (c *call) checkParameters() error {
	for _, name := range c.route.needs {
		if c.value(name) == "" {
			return errValidation.saying("1 validation error detected: Value null at '%s' failed to satisfy constraint: "+
				"Member must not be null", lowerFirst(name))
		}
	}
	for name := range c.parameters {
		if !c.route.knows(name) && !mutant.Is("parameters-ignored") {
			return errValidation.saying("The parameter %s is not supported by %s.", name, c.route.Name)
		}
	}
	return nil
}

// knows reports whether the action has a parameter.
func (r *route) knows(name string) bool {
	if name == "Action" || name == "Version" || slices.Contains(r.needs, name) {
		return true
	}
	return slices.ContainsFunc(r.takes, func(known string) bool {
		return name == known || strings.HasSuffix(known, ".") && strings.HasPrefix(name, known)
	})
}

// lowerFirst returns the name of a parameter in the form of AWS's messages.
func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// authorize checks that the caller may perform an action on the target. It must be the action of the route, or a
// secondary action that the route declares.
func (c *call) authorize(a auth.Action) error {
	if !c.route.Declares(a) {
		return internalError("action %s does not declare the permission %q", c.route.Name, a)
	}
	about := auth.Resource{Account: c.account(), ARN: c.target.arn}
	err := c.h.o.Authorizer.Authorize(c.ctx(), c.caller, a, about, facts{c})
	if mutant.Is("iam-denies-nothing") {
		err = nil
	}
	named := c.target.named
	if named == "" {
		named = "*"
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, auth.ErrExplicitDeny):
		return errDenied.saying("User: %s is not authorized to perform: %s on resource: %s with an explicit deny in an "+
			"identity-based policy", c.caller.ARN, a, named)
	case errors.Is(err, auth.ErrDenied):
		return errDenied.saying("User: %s is not authorized to perform: %s on resource: %s because no identity-based "+
			"policy allows the %s action", c.caller.ARN, a, named, a)
	}
	return err
}

// facts provides the values that the conditions of policies refer to.
type facts struct{ c *call }

// Fact implements auth.Facts.
func (f facts) Fact(key string) (string, bool) {
	if tag, ok := strings.CutPrefix(key, "aws:ResourceTag/"); ok {
		return tagOf(f.c.target.tags, tag)
	}
	if tag, ok := strings.CutPrefix(key, "aws:RequestTag/"); ok {
		tags, _ := f.c.requestTags() // the action refuses tags that are not valid
		return tagOf(tags, tag)
	}
	if key == "iam:PolicyARN" {
		return f.c.policyARN, f.c.policyARN != ""
	}
	return gate.CommonFact(f.c.r, f.c.event.Start, key)
}

// FactList returns the values of a key that may have several: the keys of the tags in the request.
func (f facts) FactList(key string) []string {
	if key != "aws:TagKeys" {
		return nil
	}
	tags, _ := f.c.requestTags()
	keys, _ := f.c.requestTagKeys()
	return slices.AppendSeq(keys, maps.Keys(tags))
}

// succeed sends the response to a call that has been handled.
func (c *call) succeed() {
	var x xmldoc.Writer
	name := c.route.Name
	x.BeginIn(name+"Response", c.service.namespace)
	if len(c.result.Buf) > 0 || c.route.empty {
		x.Open(name + "Result")
		x.Buf = append(x.Buf, c.result.Buf...)
		x.Close(name + "Result")
	}
	x.Open("ResponseMetadata")
	x.Text("RequestId", c.event.ID)
	x.Close("ResponseMetadata")
	x.Close(name + "Response")
	c.send(http.StatusOK, &x)
}

// overLimit returns the error for a call that is over a limit.
func (c *call) overLimit(err error) error {
	var e *limit.Error
	if errors.As(err, &e) {
		c.w.Header().Set("Retry-After", e.RetryAfter())
		c.event.Reason = gate.Rate
	}
	return errSlowDown.saying("Please reduce your request rate: %s.", err)
}

// fail sends the response to a call that was refused or has failed.
func (c *call) fail(err error) {
	e := toError(err)
	if c.event.Reason == "" {
		c.event.Reason = gate.ReasonOf(e.code)
	}
	c.event.Code, c.event.Cause, c.event.Fault = e.code, e.cause, e.status >= http.StatusInternalServerError && e.cause != nil
	kind := "Sender"
	if e.status >= http.StatusInternalServerError {
		kind = "Receiver"
	}
	var x xmldoc.Writer
	x.BeginIn("ErrorResponse", c.service.namespace)
	x.Open("Error")
	x.Text("Type", kind)
	x.Text("Code", e.code)
	x.Text("Message", xmldoc.Plain(e.message))
	x.Close("Error")
	x.Text("RequestId", c.event.ID)
	x.Close("ErrorResponse")
	if e.status == http.StatusServiceUnavailable && c.w.Header().Get("Retry-After") == "" {
		c.w.Header().Set("Retry-After", "1")
	}
	c.send(e.status, &x)
}

// send sends a document.
func (c *call) send(status int, x *xmldoc.Writer) {
	h := c.w.Header()
	h.Set("Content-Type", "text/xml")
	h.Set("Cache-Control", "no-store") // it may contain a secret
	h.Set("X-Amzn-Requestid", c.event.ID)
	c.event.Status, c.event.FirstByte = status, c.h.o.Now().Sub(c.event.Start)
	c.w.WriteHeader(status)
	n, _ := c.w.Write(x.Buf) // an error means that the client has disconnected
	c.event.Out = int64(n)
}
