package core

import (
	"errors"
	"time"

	"orcas/internal/mutant"
)

// Lock is what keeps a version from being deleted: retention (Mode and Until), and besides it a legal hold. Only versions in buckets with
// BucketInfo.ObjectLock have one.
type Lock struct {
	Mode  LockMode
	Until time.Time // milliseconds, UTC; with a Mode
	Hold  LegalHold
}

// LockMode is the retention mode of a version.
type LockMode uint8

// The modes. Governance yields to who bypasses it, compliance to nobody before it ends.
const (
	LockNone LockMode = iota
	LockGovernance
	LockCompliance
)

// LegalHold says whether a version is held until somebody ends it.
type LegalHold uint8

// The states of a legal hold. Off differs from None in that a client sees that it was set.
const (
	HoldNone LegalHold = iota
	HoldOff
	HoldOn
)

// DefaultRetention is what a version gets that is written without retention of its own: for so many days, or else years, from then on.
type DefaultRetention struct {
	Mode        LockMode
	Days, Years int
}

// From returns the retention of a version that is written at a time; none where r is none.
func (r DefaultRetention) From(at time.Time) Lock {
	if r.Mode == LockNone {
		return Lock{}
	}
	return Lock{Mode: r.Mode, Until: at.AddDate(r.Years, 0, r.Days)}
}

// IsZero says whether l is no lock, and never was one.
func (l *Lock) IsZero() bool { return l.Mode == LockNone && l.Hold == HoldNone }

// Retained says whether retention holds at a time.
func (l *Lock) Retained(at time.Time) bool { return l.Mode != LockNone && l.Until.After(at) }

// CheckDelete says Locked where the version may not be deleted at a time.
func (l *Lock) CheckDelete(at time.Time, bypass bool) error {
	switch {
	case mutant.Is("no-object-lock"):
		return nil
	case l.Hold == HoldOn:
		return E("core.Lock", Locked, errors.New("a legal hold"))
	case l.Retained(at) && (l.Mode == LockCompliance || !bypass):
		return E("core.Lock", Locked, errors.New("retention"))
	}
	return nil
}

// checkRetention says Locked where the retention of l, as it is at a time, may not become that of to: it may be made longer; governance
// may be anything else by bypass.
func (l *Lock) checkRetention(to *Lock, at time.Time, bypass bool) error {
	longer := to.Mode == l.Mode && !to.Until.Before(l.Until)
	if !l.Retained(at) || longer || l.Mode == LockGovernance && bypass {
		return nil
	}
	return E("core.Lock", Locked, errors.New("retention may only be made longer"))
}

// CheckLocks says BucketState where b has locks and not versioning, and Conflict where its locks would end; was is what it is so far, nil
// where it is new.
func (b *BucketInfo) CheckLocks(was bool) error {
	const op = "core.PutBucket"
	if was && !b.ObjectLock {
		return E(op, Conflict, errors.New("object lock is never off again"))
	}
	if b.ObjectLock && b.Versioning != VersioningEnabled {
		return E(op, BucketState, errors.New("object lock demands versions"))
	}
	return nil
}
