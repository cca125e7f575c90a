// Package observed wraps the contracts of core to report every call to an observer: the operation, its duration, its
// error, and the number of bytes read or written. It does not count or export anything itself; the observer does, for
// example a metrics registry, a trace or a test.
//
// A wrapper changes no results and hides no optional abilities: core.As finds those of the driver below it. Only the
// calls of the contracts themselves are reported, and Flusher.Sync, which syncs the drive when commits are relaxed.
//
// Wrappers may be stacked, each with its own observer. For example, a wrapper above a cache and one below it show its
// hit rate: the difference between their counts of MetaObject is the number of hits.
package observed

import (
	"time"

	"orcas/core"
)

// Op is an operation of a contract. Observers can use it as an array index, since it is less than Ops.
type Op uint8

// The operations of core.Meta.
const (
	MetaState Op = iota
	MetaBucket
	MetaBuckets
	MetaObject
	MetaList
	MetaUpload
	MetaParts
	MetaData
	MetaFindData
	MetaGarbage
	MetaRecords
	MetaUsage
	MetaApply
	MetaClose

	// The operations of core.Blocks, of its writers and its readers.
	BlockCreate
	BlockWrite
	BlockCommit
	BlockAbort
	BlockOpen
	BlockReadAt
	BlockDelete
	BlockWalk
	BlockSync // core.Flusher
	BlockClose

	Ops // the number of operations
)

var opNames = [Ops]string{
	"meta_state", "meta_bucket", "meta_buckets", "meta_object", "meta_list", "meta_upload", "meta_parts", "meta_data",
	"meta_find_data", "meta_garbage", "meta_records", "meta_usage", "meta_apply", "meta_close",
	"block_create", "block_write", "block_commit", "block_abort", "block_open", "block_read_at", "block_delete", "block_walk",
	"block_sync", "block_close",
}

// String returns the name of the operation, in the form of a metric label.
func (o Op) String() string { return opNames[o] }

// Call is a call that has returned.
type Call struct {
	Op       Op
	Duration time.Duration
	Err      error // nil if the call succeeded; core.KindOf returns its kind
	Bytes    int64 // number of bytes written by BlockWrite or read by BlockReadAt; otherwise 0
}

// Observer is called for each Call, by the goroutine that made the call, before it returns to the caller. It must be
// safe for concurrent use and must not block, because its duration adds to that of every request. A Call is passed by
// value, so an observer that only counts does not allocate.
type Observer func(Call)

// observe reports a call that began at start.
func (o Observer) observe(op Op, start time.Time, bytes int, err error) {
	o(Call{Op: op, Duration: time.Since(start), Err: err, Bytes: int64(bytes)})
}

// call reports a call that began at start and transfers no bytes. Methods defer it, with a pointer to their error.
func (o Observer) call(op Op, start time.Time, err *error) { o.observe(op, start, 0, *err) }

// meta wraps a core.Meta and reports its calls.
type meta struct {
	engine  core.Meta
	observe Observer
}

// Meta returns a wrapper of m that reports its calls to o.
func Meta(m core.Meta, o Observer) core.Meta { return &meta{m, o} }

// Unwrap returns the engine, for core.As.
func (m *meta) Unwrap() core.Meta { return m.engine }
