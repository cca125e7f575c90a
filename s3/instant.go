package s3

import (
	"net/http"
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

// store takes the content of a request in, gives it to put, which makes it durable and sets the headers of the answer, and answers. Put gets
// the checksums to be kept: the client's, or the default one where it sent none, and that of must, where that is not None.
//
// Where the request tells the hash of its content and waits before it sends it (Expect: 100-continue), and the bucket has that content, put
// gets it at once, and the final answer takes the place of 100 Continue: nothing of the body is sent. That replaces the body and nothing else.
// When the content went in between, the body is asked for and read like any other. A request that refers to the content (refer) has no body: then
// the answer is errNoSuchContent.
func (q *request) store(u *upload, must checksum.Algorithm, put func(*vfs.Content, []core.Checksum) error) error {
	var room [2]checksum.Algorithm
	algs := u.algorithms(room[:0], must)
	known, err := q.known(u, algs)
	if err != nil {
		return err
	}
	if known != nil {
		err := put(known, sumsOf(known, algs))
		known.Discard()
		if !core.Is(err, core.NoSuchData) {
			if err == nil {
				q.answerUnread()
			}
			return err
		}
	}
	if u.refers {
		return errNoSuchContent
	}
	content, err := q.receive(u, algs)
	if err != nil {
		return err
	}
	defer content.Discard()
	if err := put(content, sumsOf(content, algs)); err != nil {
		return err
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

// answerUnread answers without having read the body. A client that sends it all the same gets the answer too.
func (q *request) answerUnread() {
	drain := q.settleBody()
	q.sendEmpty(http.StatusOK)
	if drain != nil {
		drain()
	}
}

// algorithms appends the checksums that are to be kept with the content.
func (u *upload) algorithms(algs []checksum.Algorithm, must checksum.Algorithm) []checksum.Algorithm {
	if must != checksum.None {
		algs = append(algs, must)
	}
	if u.in.alg != checksum.None && u.in.alg != must {
		algs = append(algs, u.in.alg)
	}
	if len(algs) == 0 {
		algs = append(algs, defaultSum)
	}
	return algs
}

func sumsOf(content *vfs.Content, algs []checksum.Algorithm) []core.Checksum {
	sums := make([]core.Checksum, len(algs))
	for i, a := range algs {
		sums[i] = core.Checksum{Algorithm: a, Value: content.Sum(a)}
	}
	return sums
}

// known returns the content that the request announces, where the bucket has it and all that is claimed of it is true; else nil.
func (q *request) known(u *upload, algs []checksum.Algorithm) (*vfs.Content, error) {
	if !u.refers && (u.joins || !q.waits() || !q.readsBucket()) {
		return nil, nil
	}
	sha256, ok := q.announcedSHA256(u)
	if !ok {
		return nil, nil
	}
	content, err := q.s.fs.KnownContent(q.ctx, q.bucket, sha256, u.length, q.encryption.Encryption, algs...)
	if err != nil || content == nil {
		return nil, err
	}
	if err := u.in.verify(content.Sum, u.body); err != nil {
		content.Discard()
		if u.refers {
			return nil, err
		}
		return nil, nil // the ordinary way says what is wrong
	}
	return content, nil
}

// waits says whether the client asks before it sends the body. Over HTTP/2 it has sent it by now.
func (q *request) waits() bool {
	v := q.r.Header["Expect"]
	return len(v) == 1 && strings.EqualFold(v[0], "100-continue") && q.r.ProtoMajor == 1
}

// readsBucket says whether the caller may read all that the bucket holds, whatever its key: only then may an answer tell that it holds something.
// Who has a presigned URL may do what it says, and is not the one who signed it.
func (q *request) readsBucket() bool {
	return !q.auth.Presigned && q.s.authorise(q.caller, "s3:GetObject", q.bucket) == nil
}

// announcedSHA256 returns the hash of the content, where it is signed.
func (q *request) announcedSHA256(u *upload) (sum [32]byte, ok bool) {
	switch {
	case q.auth.Mode == sigv4.PayloadSHA256:
		return q.auth.SHA256, true
	case q.auth.Mode == sigv4.PayloadUnsigned && u.in.alg == checksum.SHA256 && len(u.in.value) == len(sum):
		return [32]byte(u.in.value), true // x-amz-* headers are signed
	}
	return sum, false
}
