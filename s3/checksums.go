package s3

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/internal/sigv4"
	"orcas/s3/xmldoc"
)

// defaultSum is computed and stored if the client sends no checksum.
const defaultSum = checksum.CRC64NVME

// integrity holds the checksums that a request claims for its content.
type integrity struct {
	md5     []byte             // Content-MD5, or nil
	alg     checksum.Algorithm // algorithm of the x-amz-checksum-* header or trailer, or None
	value   []byte             // value for alg; nil if it is in the trailer
	trailer bool
}

// parseIntegrity reads Content-MD5 and x-amz-checksum-*. Only one of the latter is allowed, as a header or an announced
// trailer.
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
			return in, errInvalidRequest.Say("The value specified in the x-amz-trailer header is not supported")
		}
		if in.alg != checksum.None {
			return in, errInvalidRequest.Say("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
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
			return in, errInvalidDigest.With("Content-MD5", v[0])
		}
	}
	return in, nil
}

// headerSum returns the checksum in an x-amz-checksum-* header.
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
			return 0, nil, errInvalidRequest.Say("The checksum algorithm of the header " + strings.ToLower(name) + " is not supported.")
		case found != checksum.None || len(values) > 1:
			return 0, nil, errInvalidRequest.Say("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
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
	return errInvalidRequest.Say("Value for " + a.Header() + " header is invalid.")
}

// checkNamed compares x-amz-sdk-checksum-algorithm with the algorithm of the request's checksum.
func (in *integrity) checkNamed(name string) error {
	a, ok := checksum.Parse(name)
	switch {
	case ok && in.alg == checksum.None:
		return errInvalidRequest.Say("x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.")
	case !ok, in.alg != a:
		return errInvalidRequest.Say("Value for x-amz-sdk-checksum-algorithm header is invalid.")
	}
	return nil
}

// none reports whether the request has no checksum.
func (in *integrity) none() bool { return in.md5 == nil && in.alg == checksum.None }

// verify compares the claims with the content. sum returns a checksum of the content; body must have been read to its
// end.
func (in *integrity) verify(sum func(checksum.Algorithm) []byte, body *sigv4.Body) error {
	if in.md5 != nil {
		if got := sum(checksum.MD5); !bytes.Equal(in.md5, got) {
			return errBadMD5.With("ExpectedDigest", hex.EncodeToString(in.md5)).
				With("CalculatedDigest", base64.StdEncoding.EncodeToString(got))
		}
	}
	if in.alg == checksum.None {
		return nil
	}
	if in.trailer {
		value, err := checksum.Decode(in.alg, body.Trailer(in.alg.Header()))
		if err != nil {
			return errInvalidRequest.Say("Value for " + in.alg.Header() + " trailing header is invalid.")
		}
		in.value = value
	}
	if !bytes.Equal(in.value, sum(in.alg)) {
		return errBadDigest.Say("The " + in.alg.Name() + " you specified did not match the calculated checksum.")
	}
	return nil
}

// encodeSum returns a checksum in the form that clients see: base64, followed by the number of parts for a composite.
func encodeSum(s *core.Checksum) string {
	v := checksum.Encode(s.Value)
	if s.Composite {
		v += "-" + itoa(int64(s.Parts))
	}
	return v
}

// typeOf returns the name of a checksum type.
func typeOf(composite bool) string {
	if composite {
		return "COMPOSITE"
	}
	return "FULL_OBJECT"
}

// setSums sets the checksum headers of the response.
func setSums(q *request, sums []core.Checksum) {
	for i := range sums {
		q.set(sums[i].Algorithm.HeaderKey(), encodeSum(&sums[i]))
	}
	if len(sums) > 0 {
		q.set("X-Amz-Checksum-Type", typeOf(sums[0].Composite))
	}
}

// writeSums writes checksums as elements, with their type if typed. Checksums of parts have no type.
func writeSums(x *xmldoc.Writer, sums []core.Checksum, typed bool) {
	for i := range sums {
		x.Text("Checksum"+sums[i].Algorithm.Name(), encodeSum(&sums[i]))
	}
	if typed && len(sums) > 0 {
		x.Text("ChecksumType", typeOf(sums[0].Composite))
	}
}

// writeSumKind writes the algorithm and type of the checksum of an object or an upload, if it has one.
func writeSumKind(x *xmldoc.Writer, a checksum.Algorithm, composite bool) {
	if a != checksum.None {
		x.Text("ChecksumAlgorithm", a.Name())
		x.Text("ChecksumType", typeOf(composite))
	}
}
