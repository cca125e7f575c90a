package s3

import (
	"encoding/xml"
	"errors"
	"net/http"

	"orcas/core"
)

// quotaSub is the sub-resource of a bucket that bounds what it holds. S3 has no such thing: the document is our own.
const quotaSub = "quota"

// quotaDocument is the body of PutBucketQuota.
type quotaDocument struct {
	XMLName xml.Name `xml:"QuotaConfiguration"`
	Bytes   *int64   `xml:"MaxBytes"`
	Objects *int64   `xml:"MaxObjects"`
}

// quota returns what the document says.
func (d *quotaDocument) quota() (q core.Quota, err error) {
	if d.Bytes == nil && d.Objects == nil {
		return q, errMalformedXML
	}
	for _, e := range []struct {
		name string
		said *int64
		into *int64
	}{{"MaxBytes", d.Bytes, &q.Bytes}, {"MaxObjects", d.Objects, &q.Objects}} {
		if e.said == nil {
			continue
		}
		if *e.said <= 0 {
			return q, argument(e.name, itoa(*e.said), "'"+e.name+"' of a quota must be a positive integer")
		}
		*e.into = *e.said
	}
	return q, nil
}

func (q *request) putQuota() error {
	var body quotaDocument
	if err := q.readDocument(&body); err != nil {
		return err
	}
	quota, err := body.quota()
	if err == nil {
		err = q.keepQuota(quota)
	}
	if err != nil {
		return err
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) deleteQuota() error {
	if err := q.keepQuota(core.Quota{}); err != nil {
		return err
	}
	q.sendEmpty(http.StatusNoContent)
	return nil
}

// keepQuota writes the quota of the bucket; what is so already is not written again.
func (q *request) keepQuota(quota core.Quota) error {
	if q.bucket.Quota == quota {
		return nil
	}
	return q.updateBucket(func(b *core.BucketInfo) error {
		b.Quota = quota
		return nil
	})
}

func (q *request) getQuota() error {
	quota := q.bucket.Quota
	if quota.IsZero() {
		return errNoQuota
	}
	held, err := q.s.fs.Usage(q.ctx, q.bucket)
	if core.Is(err, core.BucketState) { // it was taken away meanwhile
		return errNoQuota
	}
	if err != nil {
		return err
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("QuotaConfiguration")
	if quota.Bytes > 0 {
		x.int("MaxBytes", quota.Bytes)
	}
	if quota.Objects > 0 {
		x.int("MaxObjects", quota.Objects)
	}
	x.open("Usage")
	x.int("Bytes", held.Bytes)
	x.int("Objects", held.Objects)
	x.close("Usage")
	x.close("QuotaConfiguration")
	q.sendXML(http.StatusOK, x)
	return nil
}

// overQuota says how far a quota would have been exceeded.
func overQuota(err error) *apiError {
	var over *core.OverQuota
	if !errors.As(err, &over) {
		return errQuotaExceeded
	}
	return errQuotaExceeded.say("The quota of the bucket is exceeded: " + over.Error() + ".")
}
