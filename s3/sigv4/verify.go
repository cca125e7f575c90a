package sigv4

import (
	"net/http"
	"time"
)

// Verifier verifies signatures of requests. Its fields are set before its first use; it may be used by many goroutines.
type Verifier struct {
	Region    string                                             // the region that requests are signed for
	AnyRegion bool                                               // accept any other region too
	Lookup    func(accessKey string) (secretKey string, ok bool) // called once per request; must not block for long
	Now       func() time.Time                                   // the clock; nil: time.Now
	Skew      time.Duration                                      // how far a client's clock may be off; 0: DefaultSkew
}

// Verify says who signed r, by its Authorization header or its query. It reads no byte of the body: that is for Auth.Body.
// Every error is an *Error and means that the request is denied; for a request without credentials it is ErrAnonymous, and
// then (and only then) the Auth is not nil.
func (v *Verifier) Verify(r *http.Request) (*Auth, error) {
	return nil, newError(NotImplemented, "not yet")
}
