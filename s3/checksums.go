package s3

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/s3/sigv4"
)

// defaultSum is computed and kept where the client sends no checksum.
const defaultSum = checksum.CRC64NVME

// integrity is what a request says of the content that it carries.
type integrity struct {
	md5     []byte             // Content-MD5; nil: none
	alg     checksum.Algorithm // of x-amz-checksum-*; None: none
	value   []byte             // of alg; nil: it comes in the trailer
	trailer bool
}

// parseIntegrity reads Content-MD5 and x-amz-checksum-*, of which there may be one, in a header or announced as a trailer.
func parseIntegrity(h http.Header, announced []string) (integrity, error) {
	in, err := parseMD5(h)
	if err != nil {
		return in, err
	}
	if in.alg, in.value, err = headerSum(h); err != nil {
		return in, err
	}
	for _, name := range announced {
		a, ok := checksum.FromHeader(name)
		if !ok {
			return in, errInvalidRequest.say("The value specified in the x-amz-trailer header is not supported")
		}
		if in.alg != checksum.None {
			return in, errInvalidRequest.say("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
		}
		in.alg, in.trailer = a, true
	}
	if name := first(h, "X-Amz-Sdk-Checksum-Algorithm"); name != "" {
		return in, in.checkNamed(name)
	}
	return in, nil
}

func parseMD5(h http.Header) (in integrity, err error) {
	if v := h["Content-Md5"]; len(v) > 0 {
		if in.md5, err = base64.StdEncoding.Strict().DecodeString(v[0]); err != nil || len(in.md5) != checksum.MD5.Size() {
			return in, errInvalidDigest.with("Content-MD5", v[0])
		}
	}
	return in, nil
}

// headerSum returns the checksum that a header gives.
func headerSum(h http.Header) (checksum.Algorithm, []byte, error) {
	const prefix = "X-Amz-Checksum-"
	found, text := checksum.None, ""
	for name, values := range h {
		if !strings.HasPrefix(name, prefix) || len(values) == 0 {
			continue
		}
		switch name {
		case "X-Amz-Checksum-Algorithm", "X-Amz-Checksum-Mode", "X-Amz-Checksum-Type":
			continue
		}
		a, ok := checksum.FromHeader(name)
		switch {
		case !ok:
			return 0, nil, errInvalidRequest.say("The checksum algorithm of " + strings.ToLower(name) + " is not known.")
		case found != checksum.None || len(values) > 1:
			return 0, nil, errInvalidRequest.say("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
		}
		found, text = a, values[0]
	}
	if found == checksum.None {
		return found, nil, nil
	}
	value, err := checksum.Decode(found, text)
	if err != nil {
		return 0, nil, badSumValue(found)
	}
	return found, value, nil
}

func badSumValue(a checksum.Algorithm) error {
	return errInvalidRequest.say("Value for " + a.Header() + " header is invalid.")
}

// checkNamed holds x-amz-sdk-checksum-algorithm against the checksum that comes.
func (in *integrity) checkNamed(name string) error {
	a, ok := checksum.Parse(name)
	switch {
	case ok && in.alg == checksum.None:
		return errInvalidRequest.say("x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.")
	case !ok, in.alg != a:
		return errInvalidRequest.say("Value for x-amz-sdk-checksum-algorithm header is invalid.")
	}
	return nil
}

// none says whether the request says nothing of its content.
func (in *integrity) none() bool { return in.md5 == nil && in.alg == checksum.None }

// verify compares what was announced with what came. sum returns the checksum of an algorithm of the content; body has been read
// to its end.
func (in *integrity) verify(sum func(checksum.Algorithm) []byte, body *sigv4.Body) error {
	if in.md5 != nil {
		if got := sum(checksum.MD5); !bytes.Equal(in.md5, got) {
			return errBadMD5.with("ExpectedDigest", hex.EncodeToString(in.md5)).
				with("CalculatedDigest", base64.StdEncoding.EncodeToString(got))
		}
	}
	if in.alg == checksum.None {
		return nil
	}
	if in.trailer {
		value, err := checksum.Decode(in.alg, body.Trailer(in.alg.Header()))
		if err != nil {
			return errInvalidRequest.say("Value for " + in.alg.Header() + " trailing header is invalid.")
		}
		in.value = value
	}
	if !bytes.Equal(in.value, sum(in.alg)) {
		return errBadDigest.say("The " + in.alg.Name() + " you specified did not match the calculated checksum.")
	}
	return nil
}

// encodeSum returns a checksum as clients see it: base64, and for composites the number of parts.
func encodeSum(s *core.Checksum) string {
	v := checksum.Encode(s.Value)
	if s.Composite {
		v += "-" + itoa(int64(s.Parts))
	}
	return v
}

// typeOf returns the name of the type of a checksum.
func typeOf(composite bool) string {
	if composite {
		return "COMPOSITE"
	}
	return "FULL_OBJECT"
}

// setSums tells the checksums in the headers of the answer.
func (q *request) setSums(sums []core.Checksum) {
	for i := range sums {
		q.set(sums[i].Algorithm.HeaderKey(), encodeSum(&sums[i]))
	}
	if len(sums) > 0 {
		q.set("X-Amz-Checksum-Type", typeOf(sums[0].Composite))
	}
}

// sums writes checksums as elements, with their type unless that goes without saying (parts).
func (x *xmlWriter) sums(sums []core.Checksum, typed bool) {
	for i := range sums {
		x.text("Checksum"+sums[i].Algorithm.Name(), encodeSum(&sums[i]))
	}
	if typed && len(sums) > 0 {
		x.text("ChecksumType", typeOf(sums[0].Composite))
	}
}
