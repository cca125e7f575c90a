package identity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/mutant"
)

// usedRecords is the kind of the records that note when an access key was last used: the key is the access key, and the
// value is the time in decimal, in seconds since 1970. They are apart from the identities, so that a use does not change
// an identity.
const usedRecords = "iam-used"

// use notes when an access key was last used, in seconds since 1970; 0: never.
type use struct{ at, noted atomic.Int64 }

// Observe implements gate.Observer: it notes the use of an access key. Requests with a wrong signature do not count.
func (d *Directory) Observe(_ context.Context, e *gate.Event) {
	if e.AccessKey == "" || e.Principal == nil {
		return
	}
	u := d.now.Load().uses[e.AccessKey]
	if u == nil {
		return
	}
	u.advance(e.Start.Unix())
}

// advance notes a use, unless a later one is noted.
func (u *use) advance(at int64) {
	for {
		if last := u.at.Load(); last >= at || u.at.CompareAndSwap(last, at) {
			return
		}
	}
}

// LastUsed returns the time at which an access key was last used, or zero if it never was.
func (d *Directory) LastUsed(accessKey string) time.Time {
	u := d.now.Load().uses[accessKey]
	if u == nil || u.at.Load() == 0 {
		return time.Time{}
	}
	return time.Unix(u.at.Load(), 0).UTC()
}

// NoteUses stores the times at which access keys were last used, if they have changed, and deletes those of access keys
// that no longer exist. It must not be called concurrently. A crash loses the uses since the last call.
func (d *Directory) NoteUses(ctx context.Context) error {
	var writes []batch.Write
	var done []func()
	put := func(accessKey string, value []byte, written func()) {
		record := core.Record{Kind: usedRecords, Key: accessKey, Value: value}
		writes, done = append(writes, batch.Write{Change: &core.PutRecord{Record: record}}), append(done, written)
	}
	s := d.now.Load()
	for accessKey, u := range s.uses {
		if at := u.at.Load(); at != u.noted.Load() {
			put(accessKey, strconv.AppendInt(nil, at, 10), func() {
				u.noted.Store(at)
				d.noted[accessKey] = true
			})
		}
	}
	for accessKey := range d.noted {
		if s.uses[accessKey] == nil {
			put(accessKey, nil, func() { delete(d.noted, accessKey) })
		}
	}
	if len(writes) == 0 {
		return nil
	}
	_, errs := d.o.Writer.DoAll(ctx, writes)
	for i, err := range errs {
		if err == nil && !mutant.Is("uses-noted-again") {
			done[i]()
		}
	}
	return errors.Join(errs...)
}

// readUses reads the stored times. It is called once, by Open.
func (d *Directory) readUses(ctx context.Context) error {
	s := d.now.Load()
	d.noted = map[string]bool{}
	for after := ""; ; {
		page, err := d.o.Meta.Records(ctx, usedRecords, after, pageSize)
		if err != nil {
			return err
		}
		for _, r := range page {
			at, err := strconv.ParseInt(string(r.Value), 10, 64)
			if err != nil {
				return core.E("identity.readUses", core.Damaged, fmt.Errorf("the last use of the access key %s: %w", r.Key, err))
			}
			d.noted[r.Key] = true
			if u := s.uses[r.Key]; u != nil {
				u.noted.Store(at)
				u.advance(at)
			}
		}
		if len(page) < pageSize {
			return nil
		}
		after = page[len(page)-1].Key
	}
}
