package s3

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"orcas/core"
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

// parseMode reads a retention mode; LockNone is none that there is.
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

// parseHold reads the status of a legal hold; HoldNone is none that there is.
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

// retainUntil returns the end of retention, which must be in the future.
func (q *request) retainUntil(name string, until time.Time) (time.Time, error) {
	until = until.UTC().Truncate(time.Millisecond)
	if !until.After(q.s.fs.Now()) {
		return until, argument(name, until.Format(timeXML), "The retain until date must be in the future!")
	}
	return until, nil
}

// headerLock returns the lock that a request gives a new version. What the headers say is judged before the bucket is looked at.
func (q *request) headerLock() (lock core.Lock, err error) {
	if q.optional&headerLock == 0 {
		return lock, nil
	}
	mode, until, hold := first(q.r.Header, lockModeName), first(q.r.Header, lockUntilName), first(q.r.Header, lockHoldName)
	const both = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"
	switch {
	case mode == "" && until != "":
		return lock, argument(strings.ToLower(lockModeName), "", both)
	case mode != "" && until == "":
		return lock, argument(strings.ToLower(lockUntilName), "", both)
	case mode != "":
		if lock.Mode = parseMode(mode); lock.Mode == core.LockNone {
			return lock, argument(strings.ToLower(lockModeName), mode, "Unknown wormMode directive.")
		}
		at, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return lock, argument(strings.ToLower(lockUntilName), until, "The retain until date must be provided in ISO 8601 format")
		}
		if lock.Until, err = q.retainUntil(strings.ToLower(lockUntilName), at); err != nil {
			return lock, err
		}
	}
	if lock.Hold = parseHold(hold); lock.Hold == core.HoldNone && hold != "" {
		return lock, argument(strings.ToLower(lockHoldName), hold, "Legal Hold must be either of 'ON' or 'OFF'")
	}
	return lock, q.mayLock(&lock)
}

// mayLock says whether versions in the bucket can have locks, and the caller may give one.
func (q *request) mayLock(lock *core.Lock) error {
	if !q.bucket.ObjectLock && !lock.IsZero() {
		return errNoBucketLock
	}
	if lock.Mode != core.LockNone {
		if err := q.s.authorise(q.caller, "s3:PutObjectRetention", q.bucket); err != nil {
			return err
		}
	}
	if lock.Hold != core.HoldNone {
		return q.s.authorise(q.caller, "s3:PutObjectLegalHold", q.bucket)
	}
	return nil
}

// demandSum refuses content that will be locked and comes without a checksum.
func demandSum(in *integrity, lock *core.Lock, b *core.BucketInfo) error {
	if in.none() && (!lock.IsZero() || b.Retention.Mode != core.LockNone) {
		return errLockWithoutSum
	}
	return nil
}

// bypass says whether the caller wants to pass over retention in governance mode, and may.
func (q *request) bypass() (bool, error) {
	if q.optional&headerBypass == 0 {
		return false, nil
	}
	v, name := first(q.r.Header, bypassName), strings.ToLower(bypassName)
	if !q.bucket.ObjectLock {
		return false, argument(name, "", "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets.")
	}
	switch {
	case strings.EqualFold(v, "true"):
		return true, q.s.authorise(q.caller, "s3:BypassGovernanceRetention", q.bucket)
	case strings.EqualFold(v, "false"):
		return false, nil
	}
	return false, argument(name, v, "The value must be true or false.")
}

// lockNew makes a new bucket one whose versions may be locked, where the request says so.
func (q *request) lockNew(info *core.BucketInfo) error {
	switch v := first(q.r.Header, bucketLockName); {
	case strings.EqualFold(v, "true"):
		info.ObjectLock, info.Versioning = true, core.VersioningEnabled
	case v != "" && !strings.EqualFold(v, "false"):
		return argument(strings.ToLower(bucketLockName), v, "The value must be true or false.")
	}
	return nil
}

// setLock tells the lock of a version in the headers of the answer.
func (q *request) setLock(l *core.Lock) {
	if l.Mode != core.LockNone {
		q.set(lockModeName, modeName(l.Mode))
		q.set(lockUntilName, l.Until.UTC().Format(timeXML))
	}
	if l.Hold != core.HoldNone {
		q.set(lockHoldName, holdName(l.Hold))
	}
}

// readLock reads a document about locks, which must come with a checksum.
func (q *request) readLock(into any) error {
	doc, in, err := q.readBody()
	if err != nil {
		return err
	}
	if in.none() {
		return errMissingMD5
	}
	return parseXML(doc, into)
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

// retention returns the default retention that the document says.
func (c *lockConfiguration) retention() (r core.DefaultRetention, err error) {
	if c.Enabled != "Enabled" {
		return r, errMalformedXML
	}
	if c.Rule == nil {
		return r, nil
	}
	d := c.Rule.Default
	if d != nil && d.EventHold != nil {
		return r, errNotImplemented.say("Event holds are not implemented.")
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
		return r, argument(name, itoa(*n), "Default retention period must be a positive integer value.")
	case *n > most:
		return r, argument(name, itoa(*n), "Default retention period too large.")
	case d.Days != nil:
		r.Days = int(*n)
	default:
		r.Years = int(*n)
	}
	r.Mode = parseMode(d.Mode)
	return r, nil
}

func (q *request) putLockConfiguration() error {
	var body lockConfiguration
	if err := q.readLock(&body); err != nil {
		return err
	}
	retention, err := body.retention()
	if err != nil {
		return err
	}
	err = q.updateBucket(func(b *core.BucketInfo) error {
		if b.Versioning != core.VersioningEnabled {
			return errBucketState.say("Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration")
		}
		b.ObjectLock, b.Retention = true, retention
		return nil
	})
	if err != nil {
		return err
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) getLockConfiguration() error {
	b := q.bucket
	if !b.ObjectLock {
		return errNoLockConfig
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("ObjectLockConfiguration")
	x.text("ObjectLockEnabled", "Enabled")
	if r := b.Retention; r.Mode != core.LockNone {
		x.open("Rule")
		x.open("DefaultRetention")
		x.text("Mode", modeName(r.Mode))
		if r.Days > 0 {
			x.int("Days", int64(r.Days))
		} else {
			x.int("Years", int64(r.Years))
		}
		x.close("DefaultRetention")
		x.close("Rule")
	}
	x.close("ObjectLockConfiguration")
	q.sendXML(http.StatusOK, x)
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

func (q *request) putRetention() error {
	var body retentionRequest
	if err := q.readLock(&body); err != nil {
		return err
	}
	if body.EventHold != nil || body.HoldDuration != nil {
		return errNotImplemented.say("Event holds are not implemented.")
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
		if change.Lock.Until, err = q.retainUntil("RetainUntilDate", until); err != nil {
			return err
		}
	}
	var err error
	if change.Bypass, err = q.bypass(); err != nil {
		return err
	}
	if _, err := q.update(change); err != nil {
		return err
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) getRetention() error {
	if !q.bucket.ObjectLock {
		return errNoBucketLock
	}
	o, err := q.stat()
	if err != nil {
		return err
	}
	if o.Lock.Mode == core.LockNone {
		return errNoLock
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("Retention")
	x.text("Mode", modeName(o.Lock.Mode))
	x.time("RetainUntilDate", o.Lock.Until)
	x.close("Retention")
	q.sendXML(http.StatusOK, x)
	return nil
}

// legalHoldRequest is the body of PutObjectLegalHold.
type legalHoldRequest struct {
	XMLName xml.Name `xml:"LegalHold"`
	Status  string   `xml:"Status"`
}

func (q *request) putLegalHold() error {
	var body legalHoldRequest
	if err := q.readLock(&body); err != nil {
		return err
	}
	if !q.bucket.ObjectLock {
		return errNoBucketLock
	}
	change := core.UpdateObject{SetHold: true}
	if change.Lock.Hold = parseHold(body.Status); change.Lock.Hold == core.HoldNone {
		return errMalformedXML
	}
	if _, err := q.update(change); err != nil {
		return err
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) getLegalHold() error {
	if !q.bucket.ObjectLock {
		return errNoBucketLock
	}
	o, err := q.stat()
	if err != nil {
		return err
	}
	if o.Lock.Hold == core.HoldNone {
		return errNoLock
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("LegalHold")
	x.text("Status", holdName(o.Lock.Hold))
	x.close("LegalHold")
	q.sendXML(http.StatusOK, x)
	return nil
}
