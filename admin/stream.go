package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"orcas/gate"
)

// live is a response of JSON documents, one per line, that lasts until the client or the server ends it. It is
// authorized again and again, since the rights of the caller may end before it does.
type live func(to *lines)

// lines writes the documents of a live response.
type lines struct {
	documents *json.Encoder
	control   *http.ResponseController
}

// emit writes a document, which may wait in a buffer until flush is called. An error means that the client has
// disconnected.
func (l *lines) emit(document any) error { return l.documents.Encode(document) }

func (l *lines) flush() error { return l.control.Flush() }

// stillEvery is the interval at which the caller of a live response is authorized again.
const stillEvery = 15 * time.Second

// stillAllowed checks that the sender of a request that lasts long would be allowed to send it now.
func stillAllowed(r *http.Request) error {
	c, ok := r.Context().Value(callKey{}).(*call)
	if !ok {
		return errUnsigned
	}
	return c.again(r.Context())
}

// sender is who has sent a request, and for what.
type sender struct {
	id    gate.Identity
	event *gate.Event
	route *gate.Route
}

// recheck returns the function that checks whether the sender of a request is still allowed to perform its action.
func (h *Handler) recheck(r *http.Request, sender *sender) func(context.Context) error {
	return func(ctx context.Context) error {
		p, _, err := sender.id.Again(ctx)
		if err != nil {
			return err
		}
		now := *sender.event
		now.Principal, now.Start = p, h.o.Now()
		return h.authorize(r.WithContext(ctx), &now, sender.route)
	}
}
