package s3

import (
	"encoding/xml"
	"strings"
	"time"

	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/xmldoc"
)

const (
	lockModeName   = "X-Amz-Object-Lock-Mode"
	lockUntilName  = "X-Amz-Object-Lock-Retain-Until-Date"
	lockHoldName   = "X-Amz-Object-Lock-Legal-Hold"
	bypassName     = "X-Amz-Bypass-Governance-Retention"
	bucketLockName = "X-Amz-Bucket-Object-Lock-Enabled"
)

// The longest default retention, in days and in years.
const (
	maxRetentionDays  = 36_500
	maxRetentionYears = 100
)

// parseMode parses a retention mode. It returns LockNone if s is not a valid mode.
func parseMode(s string) core.LockMode {
	switch s {
	case "GOVERNANCE":
		return core.LockGovernance
	case "COMPLIANCE":
		return core.LockCompliance
	}
	return core.LockNone
}

func modeName(m core.LockMode) string {
	return [...]string{core.LockNone: "", core.LockGovernance: "GOVERNANCE", core.LockCompliance: "COMPLIANCE"}[m]
}

// parseHold parses the status of a legal hold. It returns HoldNone if s is not a valid status.
func parseHold(s string) core.LegalHold {
	switch s {
	case "ON":
		return core.HoldOn
	case "OFF":
		return core.HoldOff
	}
	return core.HoldNone
}

func holdName(h core.LegalHold) string {
	return [...]string{core.HoldNone: "", core.HoldOff: "OFF", core.HoldOn: "ON"}[h]
}

// retainUntil returns the end of a retention period in whole milliseconds, which must be in the future.
func retainUntil(q *request, name string, until time.Time) (time.Time, error) {
	until = until.UTC().Truncate(time.Millisecond)
	if !until.After(q.s.fs.Now()) {
		return until, apierr.Argument(name, until.Format(xmldoc.TimeFormat), "The retain until date must be in the future!")
	}
	return until, nil
}

// parseLock returns the lock that a request sets on a new version. Invalid headers are reported before the bucket is
// checked.
func parseLock(q *request) (lock core.Lock, err error) {
	if q.optional&headerLock == 0 {
		return lock, nil
	}
	mode, until, hold := first(q.r.Header, lockModeName), first(q.r.Header, lockUntilName), first(q.r.Header, lockHoldName)
	const both = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"
	switch {
	case mode == "" && until != "":
		return lock, apierr.Argument(strings.ToLower(lockModeName), "", both)
	case mode != "" && until == "":
		return lock, apierr.Argument(strings.ToLower(lockUntilName), "", both)
	case mode != "":
		if lock.Mode = parseMode(mode); lock.Mode == core.LockNone {
			return lock, apierr.Argument(strings.ToLower(lockModeName), mode, "Unknown wormMode directive.")
		}
		at, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return lock, apierr.Argument(strings.ToLower(lockUntilName), until, "The retain until date must be provided in ISO 8601 format")
		}
		if lock.Until, err = retainUntil(q, strings.ToLower(lockUntilName), at); err != nil {
			return lock, err
		}
	}
	if lock.Hold = parseHold(hold); lock.Hold == core.HoldNone && hold != "" {
		return lock, apierr.Argument(strings.ToLower(lockHoldName), hold, "Legal Hold must be either of 'ON' or 'OFF'")
	}
	return lock, mayLock(q, &lock)
}

// mayLock checks that versions in the bucket can have locks, and that the caller may set this one.
func mayLock(q *request, lock *core.Lock) error {
	if !q.bucket.ObjectLock && !lock.IsZero() {
		return errNoBucketLock
	}
	if lock.Mode != core.LockNone {
		if err := q.authorize("s3:PutObjectRetention", q.resource()); err != nil {
			return err
		}
	}
	if lock.Hold != core.HoldNone {
		return q.authorize("s3:PutObjectLegalHold", q.resource())
	}
	return nil
}

// requireSum refuses content without a checksum if the new version will be locked.
func requireSum(in *integrity, lock *core.Lock, b *core.BucketInfo) error {
	if in.none() && (!lock.IsZero() || b.Retention.Mode != core.LockNone) {
		return errLockWithoutSum
	}
	return nil
}

// bypassesRetention reports whether the request bypasses retention in governance mode. It returns an error if the
// caller is not allowed to.
func bypassesRetention(q *request) (bool, error) {
	asked, err := asksBypass(q)
	if asked && err == nil {
		err = q.authorize(bypassRetention, q.resource())
	}
	return asked, err
}

// asksBypass reports whether the request asks to bypass retention in governance mode. A bucket without object lock
// has no retention, so the header, which clean-up tools send to every bucket, is ignored.
func asksBypass(q *request) (bool, error) {
	if q.optional&headerBypass == 0 {
		return false, nil
	}
	v, name := first(q.r.Header, bypassName), strings.ToLower(bypassName)
	switch {
	case !q.bucket.ObjectLock:
		return false, nil
	case strings.EqualFold(v, "true"):
		return true, nil
	case strings.EqualFold(v, "false"):
		return false, nil
	}
	return false, apierr.Argument(name, v, "The value must be true or false.")
}

// lockNew enables object lock for a new bucket if the request asks for it.
func lockNew(q *request, info *core.BucketInfo) error {
	switch v := first(q.r.Header, bucketLockName); {
	case strings.EqualFold(v, "true"):
		info.ObjectLock, info.Versioning = true, core.VersioningEnabled
	case v != "" && !strings.EqualFold(v, "false"):
		return apierr.Argument(strings.ToLower(bucketLockName), v, "The value must be true or false.")
	}
	return nil
}

// setLock sets the response headers that describe the lock of a version, as far as the caller may read it.
func setLock(q *request, l *core.Lock) {
	if l.Mode != core.LockNone && q.may("s3:GetObjectRetention") {
		q.set(lockModeName, modeName(l.Mode))
		q.set(lockUntilName, l.Until.UTC().Format(xmldoc.TimeFormat))
	}
	if l.Hold != core.HoldNone && q.may("s3:GetObjectLegalHold") {
		q.set(lockHoldName, holdName(l.Hold))
	}
}

// lockConfiguration is the body of PutObjectLockConfiguration.
type lockConfiguration struct {
	XMLName xml.Name `xml:"ObjectLockConfiguration"`
	Enabled string   `xml:"ObjectLockEnabled"`
	Rule    *struct {
		Default *struct {
			Mode      string    `xml:"Mode"`
			Days      *int64    `xml:"Days"`
			Years     *int64    `xml:"Years"`
			EventHold *struct{} `xml:"DefaultEventHold"`
		} `xml:"DefaultRetention"`
	} `xml:"Rule"`
}

// retention returns the default retention in the document.
func (c *lockConfiguration) retention() (r core.DefaultRetention, err error) {
	if c.Enabled != "Enabled" {
		return r, errMalformedXML
	}
	if c.Rule == nil {
		return r, nil
	}
	d := c.Rule.Default
	if d != nil && d.EventHold != nil {
		return r, errNotImplemented.Say("Event holds are not implemented.")
	}
	if d == nil || parseMode(d.Mode) == core.LockNone || (d.Days == nil) == (d.Years == nil) {
		return r, errMalformedXML
	}
	name, n, most := "Days", d.Days, int64(maxRetentionDays)
	if n == nil {
		name, n, most = "Years", d.Years, maxRetentionYears
	}
	switch {
	case *n < 1:
		return r, apierr.Argument(name, itoa(*n), "Default retention period must be a positive integer value.")
	case *n > most:
		return r, apierr.Argument(name, itoa(*n), "Default retention period too large.")
	case d.Days != nil:
		r.Days = int(*n)
	default:
		r.Years = int(*n)
	}
	r.Mode = parseMode(d.Mode)
	return r, nil
}

func putLockConfiguration(q *request) error {
	var body lockConfiguration
	if err := readSummed(q, &body); err != nil {
		return err
	}
	retention, err := body.retention()
	if err != nil {
		return err
	}
	return updateBucket(q, func(b *core.BucketInfo) error {
		if b.Versioning != core.VersioningEnabled {
			return errBucketState.Say("Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration")
		}
		b.ObjectLock, b.Retention = true, retention
		return nil
	})
}

func getLockConfiguration(q *request, x *xmldoc.Writer) error {
	b := q.bucket
	if !b.ObjectLock {
		return errNoLockConfig
	}
	x.Begin("ObjectLockConfiguration")
	x.Text("ObjectLockEnabled", "Enabled")
	if r := b.Retention; r.Mode != core.LockNone {
		x.Open("Rule")
		x.Open("DefaultRetention")
		x.Text("Mode", modeName(r.Mode))
		if r.Days > 0 {
			x.Int("Days", int64(r.Days))
		} else {
			x.Int("Years", int64(r.Years))
		}
		x.Close("DefaultRetention")
		x.Close("Rule")
	}
	x.Close("ObjectLockConfiguration")
	return nil
}

// retentionRequest is the body of PutObjectRetention; an empty one ends retention.
type retentionRequest struct {
	XMLName      xml.Name  `xml:"Retention"`
	Mode         string    `xml:"Mode"`
	Until        string    `xml:"RetainUntilDate"`
	EventHold    *struct{} `xml:"EventHold"`
	HoldDuration *struct{} `xml:"EventHoldDuration"`
}

func putRetention(q *request) error {
	var body retentionRequest
	if err := readSummed(q, &body); err != nil {
		return err
	}
	if body.EventHold != nil || body.HoldDuration != nil {
		return errNotImplemented.Say("Event holds are not implemented.")
	}
	if !q.bucket.ObjectLock {
		return errNoBucketLock
	}
	change := core.UpdateObject{SetRetention: true}
	if body.Mode != "" || body.Until != "" {
		change.Lock.Mode = parseMode(body.Mode)
		until, err := time.Parse(time.RFC3339, body.Until)
		if err != nil || change.Lock.Mode == core.LockNone {
			return errMalformedXML
		}
		if change.Lock.Until, err = retainUntil(q, "RetainUntilDate", until); err != nil {
			return err
		}
	}
	var err error
	if change.Bypass, err = bypassesRetention(q); err != nil {
		return err
	}
	_, err = updateVersion(q, change)
	return err
}

func getRetention(q *request, x *xmldoc.Writer) error {
	if !q.bucket.ObjectLock {
		return errNoBucketLock
	}
	o, err := statVersion(q)
	if err != nil {
		return err
	}
	if o.Lock.Mode == core.LockNone {
		return errNoLock
	}
	x.Begin("Retention")
	x.Text("Mode", modeName(o.Lock.Mode))
	x.Time("RetainUntilDate", o.Lock.Until)
	x.Close("Retention")
	return nil
}

// legalHoldRequest is the body of PutObjectLegalHold.
type legalHoldRequest struct {
	XMLName xml.Name `xml:"LegalHold"`
	Status  string   `xml:"Status"`
}

func putLegalHold(q *request) error {
	var body legalHoldRequest
	if err := readSummed(q, &body); err != nil {
		return err
	}
	if !q.bucket.ObjectLock {
		return errNoBucketLock
	}
	change := core.UpdateObject{SetHold: true}
	if change.Lock.Hold = parseHold(body.Status); change.Lock.Hold == core.HoldNone {
		return errMalformedXML
	}
	_, err := updateVersion(q, change)
	return err
}

func getLegalHold(q *request, x *xmldoc.Writer) error {
	if !q.bucket.ObjectLock {
		return errNoBucketLock
	}
	o, err := statVersion(q)
	if err != nil {
		return err
	}
	if o.Lock.Hold == core.HoldNone {
		return errNoLock
	}
	x.Begin("LegalHold")
	x.Text("Status", holdName(o.Lock.Hold))
	x.Close("LegalHold")
	return nil
}
