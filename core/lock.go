package core

import (
	"errors"
	"fmt"
	"time"

	"orcas/internal/mutant"
)

// Lock protects a version from deletion: by retention (Mode and Until), by a legal hold, or by both. Only versions in
// buckets with BucketInfo.ObjectLock have one.
type Lock struct {
	Mode  LockMode
	Until time.Time // milliseconds, UTC; with a Mode
	Hold  LegalHold
}

// LockMode is the retention mode of a version.
type LockMode uint8

// The retention modes. A caller with the permission can bypass governance mode; compliance mode cannot be bypassed.
const (
	LockNone LockMode = iota
	LockGovernance
	LockCompliance
)

// LegalHold is the state of the legal hold of a version. A hold protects the version until it is removed.
type LegalHold uint8

// The states of a legal hold. HoldOff is returned to clients as a hold that was removed, and HoldNone as no hold.
const (
	HoldNone LegalHold = iota
	HoldOff
	HoldOn
)

// DefaultRetention is the retention of versions that are written without an explicit one: a number of days or years.
type DefaultRetention struct {
	Mode        LockMode
	Days, Years int
}

// From returns the retention of a version written at the given time, or no lock if r is not set.
func (r DefaultRetention) From(at time.Time) Lock {
	if r.Mode == LockNone {
		return Lock{}
	}
	return Lock{Mode: r.Mode, Until: at.AddDate(r.Years, 0, r.Days)}
}

// IsZero reports whether the version has neither retention nor a legal hold, and never had a legal hold.
func (l *Lock) IsZero() bool { return l.Mode == LockNone && l.Hold == HoldNone }

// Retained reports whether retention is in force at the given time.
//
// One process: the server that makes the change supplies the time. With several servers, the fastest clock would decide
// when retention ends, so the time would have to come from the database.
func (l *Lock) Retained(at time.Time) bool { return l.Mode != LockNone && l.Until.After(at) }

// CheckDelete returns Locked if the version must not be deleted at the given time.
func (l *Lock) CheckDelete(at time.Time, bypass bool) error {
	switch {
	case mutant.Is("no-object-lock"):
		return nil
	case l.Hold == HoldOn:
		return E("core.Lock", Locked, errors.New("the version has a legal hold"))
	case l.Retained(at) && (l.Mode == LockCompliance || !bypass):
		return E("core.Lock", Locked, fmt.Errorf("the version is retained until %v", l.Until))
	}
	return nil
}

// checkRetention returns Locked if the retention of l cannot be replaced with the retention of to at the given time.
// Retention can be extended, and a bypass can replace governance mode with any retention, or with none.
func (l *Lock) checkRetention(to *Lock, at time.Time, bypass bool) error {
	longer := to.Mode == l.Mode && !to.Until.Before(l.Until)
	if !l.Retained(at) || longer || l.Mode == LockGovernance && bypass {
		return nil
	}
	return E("core.Lock", Locked, fmt.Errorf("retention until %v is in force: it can only be extended", l.Until))
}

// CheckLocks returns BucketState if b has object lock without versioning, and Conflict if the change would disable
// object lock. Was states whether object lock is already enabled for the bucket.
func (b *BucketInfo) CheckLocks(was bool) error {
	const op = "core.PutBucket"
	if was && !b.ObjectLock {
		return E(op, Conflict, fmt.Errorf("bucket %q: object lock cannot be disabled", b.Name))
	}
	if b.ObjectLock && b.Versioning != VersioningEnabled {
		return E(op, BucketState, fmt.Errorf("bucket %q: object lock requires that versioning is enabled", b.Name))
	}
	return nil
}
