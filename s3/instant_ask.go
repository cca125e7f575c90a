package s3

import (
	"encoding/hex"
	"encoding/xml"
	"strings"

	"orcas/core"
	"orcas/s3/conditions"
	"orcas/s3/xmldoc"
)

// This file implements the protocol in docs/instant.md: a client asks which pieces of its content the bucket already
// has, refers to those, and sends the others.

const (
	// instantSub is the query parameter of FindContent.
	instantSub = "instant"

	// instantLengthName is the header with the length of the content that a PUT or UploadPart without a body refers to.
	instantLengthName = "X-Amz-Instant-Length"

	// maxFindContents is the maximum number of Content elements in one FindContent.
	maxFindContents = 1000
)

// findRequest is the body of FindContent. Each Content element must have one size and one hash.
type findRequest struct {
	XMLName  xml.Name `xml:"FindContent"`
	Contents []struct {
		Size   []string `xml:"Size"`
		SHA256 []string `xml:"SHA256"`
		Head   []string `xml:"HeadSHA256"`
	} `xml:"Content"`
}

func findContent(q *request, x *xmldoc.Writer) error {
	if err := mayAsk(q); err != nil {
		return err
	}
	var body findRequest
	if err := readDocument(q, &body); err != nil {
		return err
	}
	keys, err := body.keys()
	if err != nil {
		return err
	}
	e, err := askedEncryption(q)
	if err != nil {
		return err
	}
	found, err := q.s.fs.Known(q.ctx, q.bucket, e.Encryption, keys)
	if err != nil {
		return err
	}
	x.Begin("FindContentResult")
	for i := range keys {
		state := "absent"
		switch {
		case found[i] && keys[i].Head && keys[i].Size > core.HeadSize:
			state = "perhaps"
		case found[i]:
			state = "present"
		}
		x.Open("Content")
		x.Text("State", state)
		x.Close("Content")
	}
	x.Close("FindContentResult")
	return nil
}

// keys returns the keys of the content that the document asks for.
func (r *findRequest) keys() ([]core.ContentKey, error) {
	if n := len(r.Contents); n == 0 || n > maxFindContents {
		return nil, errMalformedXML
	}
	keys := make([]core.ContentKey, len(r.Contents))
	for i := range r.Contents {
		c, k := &r.Contents[i], &keys[i]
		if len(c.Size) != 1 || len(c.SHA256)+len(c.Head) != 1 {
			return nil, errMalformedXML
		}
		var ok bool
		if k.Size, ok = conditions.Digits(strings.TrimSpace(c.Size[0])); !ok {
			return nil, findArgument("Size", c.Size[0], "The size must be a number of bytes.")
		}
		name, sum := "SHA256", c.SHA256
		if k.Head = len(c.Head) > 0; k.Head {
			name, sum = "HeadSHA256", c.Head
		}
		if n, err := hex.Decode(k.SHA256[:], trimmed(sum[0], len(k.SHA256))); err != nil || n != len(k.SHA256) {
			return nil, findArgument(name, sum[0], "A SHA-256 must be 64 hexadecimal digits.")
		}
	}
	return keys, nil
}

// trimmed returns text without surrounding space, or nil if it does not have the length of n bytes in hexadecimal.
func trimmed(text string, n int) []byte {
	if text = strings.TrimSpace(text); len(text) != hex.EncodedLen(n) {
		return nil
	}
	return []byte(text)
}

func findArgument(name, value, message string) error {
	return errInvalidArgument.Say(message).With("ArgumentName", name).With("ArgumentValue", value)
}

// mayAsk checks that the caller may learn what content the bucket has without sending it, and that instant upload is
// enabled on the server.
func mayAsk(q *request) error {
	switch {
	case !q.readsBucket(q.authorize):
		return errAccessDenied
	case !q.s.fs.InstantUpload():
		return errNotImplemented.Say("Instant upload is disabled on this server.")
	}
	return nil
}

// refer makes u a reference to content of the bucket, with the SHA-256 that the request announces and the length in
// instantLengthName. The request has no body, so a server that does not know this header refuses the request because an
// empty body does not have that hash.
func (u *upload) refer(q *request) error {
	if err := mayAsk(q); err != nil {
		return err
	}
	text := joined(q.r.Header, instantLengthName)
	n, ok := conditions.Digits(text)
	if !ok {
		return findArgument(strings.ToLower(instantLengthName), text, "x-amz-instant-length must be a number of bytes.")
	}
	const prefix = "A request with x-amz-instant-length "
	switch _, hashed := u.signedSHA256(q); {
	case u.length != 0:
		return errInvalidRequest.Say(prefix + "must not have a body.")
	case !hashed:
		return errInvalidRequest.Say(prefix + "requires the SHA-256 of the content in x-amz-content-sha256 or, with an unsigned payload, in x-amz-checksum-sha256.")
	case q.optional&headerAppend != 0:
		return errInvalidRequest.Say(prefix + "cannot append to an object.")
	}
	u.refers, u.length = true, n
	return nil
}
