package scrub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// FuzzProgress reads arbitrary records, saves the result, and reads it back.
func FuzzProgress(f *testing.F) {
	f.Add(passKey, []byte("\x00\x00\x00\x00\x60\x00\x00\x00\x01"))
	f.Add("000000000000000000000000000001", []byte("\x05\x60\x00\x00\x00\x06\x60\x00\x00\x01"))
	f.Add("00", []byte(nil))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		p := &progress{groups: map[groupID]*group{}, dirty: map[groupID]bool{}}
		p.read(&core.Record{Kind: progressKind, Key: key, Value: value})
		for id, g := range p.groups {
			p.dirty[id] = true
			before := *g
			for _, c := range p.changes(time.Unix(0, 0), true) {
				r := c.(*core.PutRecord).Record
				again := &progress{groups: map[groupID]*group{}, dirty: map[groupID]bool{}}
				again.read(&r)
				require.Equal(t, before, *again.groups[id])
			}
		}
	})
}

// TestPassesDoNotMeet checks that a pass begins later than the last verification of any block, even if the clock was
// set back.
func TestPassesDoNotMeet(t *testing.T) {
	p := &progress{groups: map[groupID]*group{}, dirty: map[groupID]bool{}}
	block := core.MakeBlockID(1, 1, 1)
	for _, second := range []int64{1000, 1000, 900, 5000} {
		now := time.Unix(second, 0)
		p.begin(now)
		require.Less(t, p.last(block), p.started)
		p.verified(block, now)
		require.GreaterOrEqual(t, p.last(block), p.started)
		p.end()
		require.NotEmpty(t, p.changes(now, true))
		require.Empty(t, p.changes(now, true))
	}
}

// TestRate checks that the remaining bytes are read in the remaining time, but not below the minimum rate.
func TestRate(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := New(Options{Period: 1000 * time.Second, BytesPerSecond: 10, Now: func() time.Time { return now }})
	s.progress = &progress{started: now.Unix()}
	require.EqualValues(t, 5000, s.rate(5_000_000))
	require.EqualValues(t, 10, s.rate(500))
	now = now.Add(500 * time.Second)
	require.EqualValues(t, 10_000, s.rate(5_000_000))
	now = now.Add(time.Hour) // the period has passed: the rest takes a tenth of the period
	require.EqualValues(t, 50_000, s.rate(5_000_000))
}
