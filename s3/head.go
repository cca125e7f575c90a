package s3

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"orcas/s3/apierr"
)

// RefuseHead returns the response to a request whose head could not be read, so no handler was called, and logs the
// request like any other. status and reason (which may be empty) come from net/http. The connection is closed after the
// response.
func (s *Server) RefuseHead(status int, reason, remote string) []byte {
	q := &request{
		s: s, r: &http.Request{URL: &url.URL{Path: "/"}, RemoteAddr: remote}, start: s.now(), id: s.requestID(),
	}
	e := headError(status, reason)
	q.status, q.code = e.Status, e.Code
	x := s.document()
	defer s.release(x)
	doc := errorDocument(x, e, q).Buf
	response := make([]byte, 0, 512+len(doc))
	response = append(append(response, "HTTP/1.1 "+strconv.Itoa(e.Status)+" "+http.StatusText(e.Status)+"\r\n"...),
		"Connection: close\r\nContent-Type: application/xml\r\nDate: "+q.start.UTC().Format(http.TimeFormat)+
			"\r\nContent-Length: "+strconv.Itoa(len(doc))+"\r\nX-Amz-Request-Id: "+q.id+"\r\nX-Amz-Id-2: "+s.hostID+"\r\n\r\n"...)
	response = append(response, doc...)
	q.out = int64(len(doc))
	q.observe(context.Background())
	return response
}

// headError returns the S3 error for a status of net/http.
func headError(status int, reason string) *apierr.Error {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return errHeadersTooLarge.With("MaxSizeAllowed", itoa(maxHeaderBytes))
	case http.StatusNotImplemented:
		return errNotImplemented.Say("The transfer encoding of the request is not implemented.").With("Header", "Transfer-Encoding")
	case http.StatusBadRequest:
		if reason != "" {
			reason = ": " + reason
		}
		return apierr.New(status, "BadRequest", "An error occurred when parsing the HTTP request"+reason+".")
	}
	return apierr.New(status, "BadRequest", "The HTTP request was rejected: "+strconv.Itoa(status)+" "+http.StatusText(status)+".")
}
