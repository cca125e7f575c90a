// Package content is the content engine. It receives and stores content, deduplicates it, verifies and repairs stored
// copies, and reads content. It knows nothing about object keys, versions or listings: package vfs maps names to
// content, and package s3 speaks HTTP.
//
// A write has two steps, so no callbacks are needed. NewContent and ReadFrom receive and hash the body: they keep up to
// Options.MaxPacked bytes in a pooled buffer, and write a larger body to a separate block, in one pass. The caller
// compares the checksums with those that the client expects. It then calls Put, which makes the content durable
// together with the change that refers to it, or Discard, which deletes it.
//
// A read begins with a lookup, which lasts from Enter until NewSection has returned. NewSection reads and verifies the
// first frame, so that damage in it is detected before the response begins, and pins the rest (see package pins). Code
// that deletes blocks calls Quiet first and then checks Pins.
//
// The files: content.go receives and stores content, encode.go and encrypt.go convert it to its stored form,
// instant.go finds equal content, verify.go and repair.go check and repair a stored copy before it is shared,
// section.go reads, frameat.go locates frames, pins.go tracks what readers still need, memory.go bounds the memory of
// both, dictionary.go and trainer.go compress small content with dictionaries, keys.go and rotator.go manage master keys.
package content

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
	"orcas/internal/epoch"
	"orcas/internal/pins"
)

// Options configure an Engine. Meta, Blocks and Writer are required.
type Options struct {
	Meta      core.Meta
	Blocks    core.Blocks
	Writer    *batch.Writer
	MaxPacked int64                   // maximum size of packed content, in bytes; default 65536
	Reserve   func(total int64) int64 // returns how many bytes to keep free on a drive of total bytes; if nil, none
	Now       func() time.Time        // default time.Now
	Instant   bool                    // deduplicate new content within its bucket

	// Verified returns the time at which a scrub last verified a block, or the zero time. It is nil if there is no
	// scrub. See verify.go.
	Verified    func(ctx context.Context, id core.BlockID) (time.Time, error)
	VerifiedFor time.Duration // how long large content counts as verified after a write or a scrub; default 7 days

	Compression core.Compression // for buckets without a compression setting; default core.CompressionOff
	Logger      *slog.Logger
	Keys        *codec.Keys // master keys; if nil, only customer keys are available. See Engine.CheckKeys
	EncryptAll  bool        // encrypt new content in every bucket

	// Receiving and Reading bound the memory, in bytes, of content that is being received and read; 0: no bound. See
	// memory.go.
	Receiving, Reading int64
}

// Engine stores and reads content. Its methods are safe for concurrent use.
type Engine struct {
	meta      core.Meta
	guesser   core.Guesser // nil if meta does not implement it
	blocks    core.Blocks
	writer    *batch.Writer
	maxPacked int64
	instant   bool
	space     space

	stater      core.Stater // nil if blocks does not implement it
	verified    func(ctx context.Context, id core.BlockID) (time.Time, error)
	verifiedFor time.Duration

	now          func() time.Time
	lookups      epoch.Readers      // see Quiet
	pins         pins.Table[pinned] // see Pins
	mispredicted atomic.Bool        // the last prediction of predictDuplicate was wrong

	compression  core.Compression
	dictionaries dictionaries
	master       masterKeys
	encryptAll   bool
	log          *slog.Logger

	receiving, receivingSmall, reading *budget // nil without a bound
}

// New returns an Engine.
func New(o Options) (*Engine, error) {
	if o.Meta == nil || o.Blocks == nil || o.Writer == nil {
		err := errors.New("options Meta, Blocks and Writer are required")
		return nil, core.E("content.New", core.InvalidArgument, err)
	}
	o.MaxPacked = cmp.Or(max(o.MaxPacked, 0), 64<<10)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Engine{
		meta: o.Meta, blocks: o.Blocks, writer: o.Writer, maxPacked: o.MaxPacked, instant: o.Instant, now: o.Now,
		space: space{reserve: o.Reserve, now: o.Now}, log: o.Logger,
		compression: o.Compression, encryptAll: o.EncryptAll,
		verified: o.Verified, verifiedFor: cmp.Or(o.VerifiedFor, 7*24*time.Hour),
		master:  masterKeys{meta: o.Meta, writer: o.Writer, keys: o.Keys},
		reading: newBudget(o.Reading),
	}
	e.receiving, e.receivingSmall = splitReceiving(o.Receiving)
	e.guesser, _ = core.As[core.Guesser](o.Meta)
	e.stater, _ = core.As[core.Stater](o.Blocks)
	e.space.spacer, _ = core.As[core.Spacer](o.Blocks)
	e.dictionaries.init(o.Meta, &e.master, o.Logger)
	return e, nil
}

// time returns the current time in UTC, truncated to milliseconds as it is stored.
func (e *Engine) time() time.Time { return e.now().UTC().Truncate(time.Millisecond) }

// FindSum returns the checksum of the whole content for an algorithm. It ignores composite checksums.
func FindSum(sums []core.Checksum, a checksum.Algorithm) (core.Checksum, bool) {
	for _, s := range sums {
		if s.Algorithm == a && !s.Composite {
			return s, true
		}
	}
	return core.Checksum{}, false
}
