package s3_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
)

// composition is a kind of checksum that the object of an upload can have.
type composition struct {
	alg     checksum.Algorithm // None if CreateMultipartUpload does not specify an algorithm
	kind    string             // type in CreateMultipartUpload; "" if it does not specify a type
	is      string             // resulting type
	partial bool               // parts need not have a checksum
}

// compositions returns every kind. CRCs can have the type FULL_OBJECT, and CRC64NVME has only this type. All other
// checksums are composites.
func compositions() []composition {
	const full, composite = "FULL_OBJECT", "COMPOSITE"
	out := []composition{
		{checksum.None, "", full, true},
		{checksum.CRC64NVME, "", full, true}, {checksum.CRC64NVME, full, full, true},
		{checksum.CRC32, full, full, true}, {checksum.CRC32C, full, full, true},
	}
	for _, a := range checksum.All() {
		if a != checksum.CRC64NVME {
			out = append(out, composition{a, "", composite, false}, composition{a, composite, composite, false})
		}
	}
	return out
}

func sumOf(a checksum.Algorithm, b []byte) string { return checksum.Encode(checksum.Sum(a, b)) }

// TestMultipartChecksums completes an upload with every kind of checksum, after attempts with every wrong claim.
func TestMultipartChecksums(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	parts := [][]byte{random(1, 5<<20), random(2, 1000)}
	for _, c := range compositions() {
		t.Run(fmt.Sprint(c.alg, c.kind), func(t *testing.T) { testComposition(t, w, c, parts) })
	}
}

func testComposition(t *testing.T, w *world, c composition, parts [][]byte) {
	var headers []string
	alg := checksum.CRC64NVME
	if c.alg != checksum.None {
		alg = c.alg
		headers = append(headers, "X-Amz-Checksum-Algorithm", alg.Name())
	}
	if c.kind != "" {
		headers = append(headers, "X-Amz-Checksum-Type", c.kind)
	}
	up := w.begin("/bucket/key", headers...)
	doc, bare, all := "", "", []byte(nil)
	for i, body := range parts {
		sum := sumOf(alg, body)
		all = append(all, checksum.Sum(alg, body)...)
		var a *response
		if c.partial && i != 1 {
			a = up.part(i+1, body)
		} else {
			a = up.part(i+1, body, alg.HeaderKey(), sum)
		}
		require.Equal(t, sum, a.header.Get(alg.HeaderKey()))
		tag := "<Part><PartNumber>" + fmt.Sprint(i+1) + "</PartNumber><ETag>" + a.header.Get("ETag") + "</ETag>"
		doc += tag + "<Checksum" + alg.Name() + ">" + sum + "</Checksum" + alg.Name() + "></Part>"
		bare += tag + "</Part>"
	}
	require.Equal(t, len(parts), strings.Count(string(w.do("GET", "/bucket/key?uploadId="+up.id, nil).is(200, "").body), "<Checksum"+alg.Name()+">"))
	complete := func(doc string, headers ...string) *response {
		return up.complete([]byte("<CompleteMultipartUpload>"+doc+"</CompleteMultipartUpload>"), headers...)
	}
	whole := bytes.Join(parts, nil)
	want := sumOf(alg, whole)
	claims := []string{want}
	if c.is == "COMPOSITE" {
		want = sumOf(alg, all) + fmt.Sprintf("-%d", len(parts))
		claims = []string{sumOf(alg, all), want}
		complete(bare).is(400, "InvalidRequest").hasMessage("The upload was created using a " + strings.ToLower(alg.Name()) +
			" checksum. The complete request must include the checksum for each part. It was missing for part 1 in the request.")
		complete(doc, alg.HeaderKey(), claims[0]+"-9").is(400, "BadDigest")
		complete(doc, alg.HeaderKey(), claims[0]+"-").is(400, "InvalidRequest")
		complete(doc, alg.HeaderKey(), want+"-3").is(400, "InvalidRequest")
	} else {
		complete(doc, alg.HeaderKey(), want+"-3").is(400, "InvalidRequest")
	}
	complete(doc, alg.HeaderKey(), sumOf(alg, []byte("other"))).is(400, "BadDigest").
		hasMessage("The " + strings.ToLower(alg.Name()) + " you specified did not match the calculated checksum.")
	if c.alg != checksum.None {
		other := map[string]string{"FULL_OBJECT": "COMPOSITE", "COMPOSITE": "FULL_OBJECT"}[c.is]
		complete(doc, "X-Amz-Checksum-Type", other).is(400, "InvalidRequest")
	}
	complete(doc, "X-Amz-Checksum-Type", "HALF_OBJECT").is(400, "InvalidRequest")
	different := checksum.SHA512
	if alg == different {
		different = checksum.MD5
	}
	complete(doc, different.HeaderKey(), sumOf(different, whole)).is(400, "InvalidRequest")
	complete(doc, "X-Amz-Mp-Object-Size", fmt.Sprint(len(whole)+1)).is(400, "InvalidRequest").
		hasMessage(fmt.Sprintf("The provided 'x-amz-mp-object-size' header value %d does not match what was computed: %d", len(whole)+1, len(whole)))
	complete(doc, "X-Amz-Mp-Object-Size", "-1").is(400, "InvalidRequest")
	complete(strings.Replace(doc, "<Checksum"+alg.Name()+">", "<Checksum"+alg.Name()+">A", 1)).is(400, "InvalidArgument")
	complete(strings.Replace(doc, "</Part>", "<Checksum"+different.Name()+">"+sumOf(different, parts[0])+"</Checksum"+different.Name()+"></Part>", 1)).is(400, "InvalidArgument")
	a := complete(strings.ReplaceAll(doc, sumOf(alg, parts[0]), sumOf(alg, []byte("other")))).is(400, "InvalidPart")
	require.Contains(t, string(a.body), "<UploadId>"+up.id+"</UploadId><PartNumber>1</PartNumber><ETag>"+hexMD5(parts[0])+"</ETag>")
	if c.alg != checksum.None {
		complete(strings.ReplaceAll(strings.ReplaceAll(doc, sumOf(alg, parts[0]), sumOf(different, parts[0])), "Checksum"+alg.Name(), "Checksum"+different.Name())).is(400, "")
	}
	require.Equal(t, "(none)", w.content("/bucket/key"))

	claim := claims[len(doc)%len(claims)]
	size := fmt.Sprint(len(whole))
	a = complete(doc, alg.HeaderKey(), claim, "X-Amz-Checksum-Type", c.is, "X-Amz-Mp-Object-Size", size).is(200, "")
	require.Contains(t, string(a.body), "<Checksum"+alg.Name()+">"+want+"</Checksum"+alg.Name()+"><ChecksumType>"+c.is+"<")
	// A client that missed the response retries: the same claims get the same response, other claims get NoSuchUpload.
	for _, claim := range claims {
		again := complete(doc, alg.HeaderKey(), claim, "X-Amz-Checksum-Type", c.is, "X-Amz-Mp-Object-Size", size).is(200, "")
		require.Equal(t, string(a.body), string(again.body))
	}
	complete(doc, alg.HeaderKey(), sumOf(alg, []byte("other"))).is(404, "NoSuchUpload")
	complete(doc, alg.HeaderKey(), "nonsense").is(404, "NoSuchUpload")
	complete(doc, different.HeaderKey(), sumOf(different, whole)).is(404, "NoSuchUpload")
	complete(doc, "X-Amz-Mp-Object-Size", fmt.Sprint(len(whole)+1)).is(404, "NoSuchUpload")
	a = w.do("GET", "/bucket/key", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
	require.True(t, bytes.Equal(whole, a.body))
	require.Equal(t, want, a.header.Get(alg.HeaderKey()))
	require.Equal(t, c.is, a.header.Get("X-Amz-Checksum-Type"))
	for i, body := range parts {
		a = w.do("GET", fmt.Sprintf("/bucket/key?partNumber=%d", i+1), nil, "X-Amz-Checksum-Mode", "ENABLED").is(206, "")
		require.True(t, bytes.Equal(body, a.body))
		require.Equal(t, fmt.Sprint(len(parts)), a.header.Get("X-Amz-Mp-Parts-Count"))
		if c.is == "COMPOSITE" {
			require.Equal(t, sumOf(alg, body), a.header.Get(alg.HeaderKey()))
			require.Equal(t, c.is, a.header.Get("X-Amz-Checksum-Type"))
		} else {
			require.Empty(t, a.header.Get(alg.HeaderKey()), "a client would mistake it for the checksum of the object")
			require.Empty(t, a.header.Get("X-Amz-Checksum-Type"))
		}
	}
	listed := string(w.do("GET", "/bucket?list-type=2", nil).is(200, "").body)
	require.Contains(t, listed, "<ChecksumAlgorithm>"+alg.Name()+"</ChecksumAlgorithm><ChecksumType>"+c.is+"</ChecksumType>")

	got := w.attributes("/bucket/key", "Checksum,ObjectParts,ObjectSize")
	require.Equal(t, c.is, got.Checksum.sum("ChecksumType"))
	require.Equal(t, strings.Split(want, "-")[0], got.Checksum.sum("Checksum"+alg.Name()))
	require.Equal(t, int64(len(whole)), *got.ObjectSize)
	for i, p := range got.ObjectParts.Part {
		require.Equal(t, int64(len(parts[i])), p.Size)
		require.Equal(t, sumOf(alg, parts[i]), p.sum("Checksum"+alg.Name()))
	}

	// A copy has a checksum of the whole content, with the same or another algorithm.
	a = w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key").is(200, "")
	require.Contains(t, string(a.body), "<Checksum"+alg.Name()+">"+sumOf(alg, whole)+"</Checksum"+alg.Name()+"><ChecksumType>FULL_OBJECT<")
	require.Contains(t, string(a.body), "<ETag>&quot;"+hexMD5(whole)+"&quot;</ETag>")
	a = w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key", "X-Amz-Checksum-Algorithm", different.Name()).is(200, "")
	require.Contains(t, string(a.body), "<Checksum"+different.Name()+">"+sumOf(different, whole)+"</Checksum"+different.Name()+"><ChecksumType>FULL_OBJECT<")
	a = w.do("HEAD", "/bucket/copy", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
	require.Equal(t, sumOf(different, whole), a.header.Get(different.HeaderKey()))
	w.do("DELETE", "/bucket/key", nil).is(204, "")
}

// TestUploadChecksumErrors checks the checksums that CreateMultipartUpload and UploadPart refuse.
func TestUploadChecksumErrors(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	create := func(headers ...string) *response { return w.do("POST", "/bucket/key?uploads", nil, headers...) }
	const alg, kind = "X-Amz-Checksum-Algorithm", "X-Amz-Checksum-Type"
	create(alg, "CRC31").is(400, "InvalidRequest")
	create(alg, "CRC32", kind, "HALF_OBJECT").is(400, "InvalidRequest").hasMessage("Value for x-amz-checksum-type header is invalid.")
	create(kind, "FULL_OBJECT").is(400, "InvalidRequest").
		hasMessage("The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.")
	create(alg, "CRC64NVME", kind, "COMPOSITE").is(400, "InvalidRequest").
		hasMessage("The COMPOSITE checksum type cannot be used with the crc64nvme checksum algorithm.")
	for _, a := range checksum.All() {
		if !a.CanCombine() {
			create(alg, a.Name(), kind, "FULL_OBJECT").is(400, "InvalidRequest").
				hasMessage("The FULL_OBJECT checksum type cannot be used with the " + strings.ToLower(a.Name()) + " checksum algorithm.")
		}
	}
	up := w.begin("/bucket/key", alg, "SHA256")
	part := func(headers ...string) *response { return w.do("PUT", up.path(1), []byte("x"), headers...) }
	part().is(400, "InvalidRequest").hasMessage("Checksum Type mismatch occurred, expected checksum Type: sha256, actual checksum Type: null")
	part("X-Amz-Checksum-Crc32", sumOf(checksum.CRC32, []byte("x"))).is(400, "InvalidRequest").
		hasMessage("Checksum Type mismatch occurred, expected checksum Type: sha256, actual checksum Type: crc32")
	part("X-Amz-Checksum-Sha256", sumOf(checksum.SHA256, []byte("y"))).is(400, "BadDigest").
		hasMessage("The SHA256 you specified did not match the calculated checksum.")
	part("X-Amz-Checksum-Sha256", "c2hvcnQ=").is(400, "InvalidRequest").hasMessage("Value for x-amz-checksum-sha256 header is invalid.")
	part("X-Amz-Checksum-Sha256", sumOf(checksum.SHA256, []byte("x")), "X-Amz-Checksum-Sha1", sumOf(checksum.SHA1, []byte("x"))).is(400, "InvalidRequest").
		hasMessage("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
	require.NotContains(t, string(w.do("GET", "/bucket/key?uploadId="+up.id, nil).is(200, "").body), "<Part>")

	// If the upload does not specify an algorithm, a part may have any. If all parts have the same, the complete request
	// may specify the combined checksum.
	up = w.begin("/bucket/key")
	body := []byte("content")
	a := up.part(1, body, "X-Amz-Checksum-Crc32", sumOf(checksum.CRC32, body))
	require.Equal(t, sumOf(checksum.CRC32, body), a.header.Get("X-Amz-Checksum-Crc32"))
	require.Empty(t, a.header.Get("X-Amz-Checksum-Crc64nvme"))
	doc := up.doc(1, hexMD5(body))
	up.complete(doc, "X-Amz-Checksum-Crc32", sumOf(checksum.CRC32, []byte("other"))).is(400, "BadDigest")
	up.complete(doc, "X-Amz-Checksum-Crc32c", sumOf(checksum.CRC32C, body)).is(400, "InvalidRequest")
	up.complete(doc, "X-Amz-Checksum-Crc32", sumOf(checksum.CRC32, body)).is(200, "")
	a = w.do("HEAD", "/bucket/key", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
	require.Equal(t, sumOf(checksum.CRC64NVME, body), a.header.Get("X-Amz-Checksum-Crc64nvme"))
}
