package s3

import (
	"encoding/xml"
	"errors"

	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/xmldoc"
)

// quotaSub is the sub-resource of a bucket that limits its size and its number of objects. It is an extension of S3.
const quotaSub = "quota"

// quotaDocument is the body of PutBucketQuota.
type quotaDocument struct {
	XMLName xml.Name `xml:"QuotaConfiguration"`
	Bytes   *int64   `xml:"MaxBytes"`
	Objects *int64   `xml:"MaxObjects"`
}

// quota returns the quota in the document.
func (d *quotaDocument) quota() (q core.Quota, err error) {
	if d.Bytes == nil && d.Objects == nil {
		return q, errMalformedXML
	}
	for _, e := range []struct {
		name  string
		value *int64
		into  *int64
	}{{"MaxBytes", d.Bytes, &q.Bytes}, {"MaxObjects", d.Objects, &q.Objects}} {
		if e.value == nil {
			continue
		}
		if *e.value <= 0 {
			return q, apierr.Argument(e.name, itoa(*e.value), "'"+e.name+"' of a quota must be a positive integer")
		}
		*e.into = *e.value
	}
	return q, nil
}

func putQuota(q *request) error {
	var body quotaDocument
	if err := readDocument(q, &body); err != nil {
		return err
	}
	quota, err := body.quota()
	if err == nil {
		err = storeQuota(q, quota)
	}
	return err
}

func deleteQuota(q *request) error {
	return storeQuota(q, core.Quota{})
}

// storeQuota stores the quota of the bucket, unless it is unchanged.
func storeQuota(q *request, quota core.Quota) error {
	if q.bucket.Quota == quota {
		return nil
	}
	return updateBucket(q, func(b *core.BucketInfo) error {
		b.Quota = quota
		return nil
	})
}

func getQuota(q *request, x *xmldoc.Writer) error {
	quota := q.bucket.Quota
	if quota.IsZero() {
		return errNoQuota
	}
	usage, err := q.s.fs.Usage(q.ctx, q.bucket)
	if core.Is(err, core.BucketState) { // the quota was deleted in the meantime
		return errNoQuota
	}
	if err != nil {
		return err
	}
	x.Begin("QuotaConfiguration")
	if quota.Bytes > 0 {
		x.Int("MaxBytes", quota.Bytes)
	}
	if quota.Objects > 0 {
		x.Int("MaxObjects", quota.Objects)
	}
	x.Open("Usage")
	x.Int("Bytes", usage.Bytes)
	x.Int("Objects", usage.Objects)
	x.Close("Usage")
	x.Close("QuotaConfiguration")
	return nil
}

// overQuota returns the error for a write that would exceed a quota, with the details of the quota.
func overQuota(err error) *apierr.Error {
	var over *core.OverQuota
	if !errors.As(err, &over) {
		return errQuotaExceeded
	}
	return errQuotaExceeded.Say("The quota of the bucket is exceeded: " + over.Error() + ".")
}
