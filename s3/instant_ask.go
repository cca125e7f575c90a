package s3

import (
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"strings"

	"orcas/core"
)

// This is the protocol of docs/instant.md: a client asks what of its contents the bucket holds, refers to that, and sends the rest.

const (
	// instantSub is the query parameter of FindContent.
	instantSub = "instant"

	// instantLengthName is the header of a PUT or UploadPart without a body, whose hash is that of content which the bucket has.
	instantLengthName = "X-Amz-Instant-Length"

	// maxFindContents is how many contents one FindContent may ask for.
	maxFindContents = 1000
)

// findRequest is the body of FindContent. Each content has one of its hashes.
type findRequest struct {
	XMLName  xml.Name `xml:"FindContent"`
	Contents []struct {
		Size   []string `xml:"Size"`
		SHA256 []string `xml:"SHA256"`
		Head   []string `xml:"HeadSHA256"`
	} `xml:"Content"`
}

func (q *request) findContent() error {
	if err := q.mayAsk(); err != nil {
		return err
	}
	var body findRequest
	if err := q.readDocument(&body); err != nil {
		return err
	}
	keys, err := body.keys()
	if err != nil {
		return err
	}
	e, err := q.askedEncryption()
	if err != nil {
		return err
	}
	found, err := q.s.fs.Known(q.ctx, q.bucket, e.Encryption, keys)
	if err != nil {
		return err
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("FindContentResult")
	for i := range keys {
		state := "absent"
		switch {
		case found[i] && keys[i].Head && keys[i].Size > core.HeadSize:
			state = "perhaps"
		case found[i]:
			state = "present"
		}
		x.open("Content")
		x.text("State", state)
		x.close("Content")
	}
	x.close("FindContentResult")
	q.sendXML(http.StatusOK, x)
	return nil
}

// keys returns what is asked for.
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
		if k.Size, ok = parseDigits(strings.TrimSpace(c.Size[0])); !ok {
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

// trimmed returns text without space around it, or nothing where it is not the digits of n bytes.
func trimmed(text string, n int) []byte {
	if text = strings.TrimSpace(text); len(text) != hex.EncodedLen(n) {
		return nil
	}
	return []byte(text)
}

func findArgument(name, value, message string) error {
	return errInvalidArgument.say(message).with("ArgumentName", name).with("ArgumentValue", value)
}

// mayAsk says whether the caller may learn, before it sends anything, what the bucket holds. That it holds nothing to be shared is no secret.
func (q *request) mayAsk() error {
	switch {
	case !q.readsBucket():
		return errAccessDenied
	case !q.s.fs.InstantUpload():
		return errNotImplemented.say("Instant upload is off on this server.")
	}
	return nil
}

// refer makes the content of a request, which has no body, that which the bucket has: of the SHA-256 that the request announces and the length of
// instantLengthName. A store that does not know this header finds that an empty body does not have that hash.
func (q *request) refer(u *upload) error {
	if err := q.mayAsk(); err != nil {
		return err
	}
	text := joined(q.r.Header, instantLengthName)
	n, ok := parseDigits(text)
	if !ok {
		return findArgument(strings.ToLower(instantLengthName), text, "x-amz-instant-length must be a number of bytes.")
	}
	const prefix = "A request with x-amz-instant-length "
	switch _, hashed := q.announcedSHA256(u); {
	case u.length != 0:
		return errInvalidRequest.say(prefix + "has no body.")
	case !hashed:
		return errInvalidRequest.say(prefix + "needs the SHA-256 of the content, as x-amz-content-sha256 or, with an unsigned payload, as x-amz-checksum-sha256.")
	case q.optional&headerAppend != 0:
		return errInvalidRequest.say(prefix + "cannot append.")
	}
	u.refers, u.length = true, n
	return nil
}
