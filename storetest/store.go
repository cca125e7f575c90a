// Package storetest provides a complete store for the tests of the packages above batch: drivers in memory or on disk,
// the batch writer, the namespace, reclaim and, optionally, a scrubber. It also keeps track of the expected content of
// each key. The conformance suites of the drivers are in core/coretest.
//
// ORCAS_TEST_COMPRESSION=LEVEL and ORCAS_TEST_ENCRYPTION=1 make its stores compress or encrypt content, so that the
// same tests can run with such content.
package storetest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/cached"
	"orcas/core/codec"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/core/mem"
	"orcas/core/sqlite"
	"orcas/fsck"
	"orcas/reclaim"
	"orcas/scrub"
	"orcas/vfs"
)

var ctx = context.Background()

// Database is the name of the SQLite database in the directory of a store on disk.
const Database = "metadata.db"

// Meta is the metadata of a store.
type Meta = reclaim.Meta

// Options configure Open. The zero value means a store in memory.
type Options struct {
	Dir    string      // directory of a store on disk; empty for a store in memory
	Meta   Meta        // used instead of opening a driver, if not nil; the caller closes it
	Blocks core.Blocks // used instead of opening a driver, if not nil; the caller closes it

	Uncached bool // do not cache metadata on disk
	Bare     bool // do not create the bucket

	Batch   batch.Options
	FS      *content.Options // nil means Defaults()
	Reclaim reclaim.Options
	Scrub   bool // add a Scrubber that repairs from equal content; the namespace gets the verification times from it
}

// Store is an open store, with the expected content of each key in its bucket.
type Store struct {
	T         testing.TB
	Dir       string
	Blocks    core.Blocks
	Meta      Meta
	Writer    *batch.Writer
	FS        *vfs.FS
	Bucket    *core.BucketInfo // named "bucket"
	Reclaimer *reclaim.Reclaimer
	Scrubber  *scrub.Scrubber // nil without Options.Scrub
	Rand      *rand.Rand
	Want      map[string][]byte // the expected content of each key in Bucket

	Hook  func(place string) // if not nil, used as reclaim.Options.Hook
	Quiet func()             // if not nil, called before reclaim waits for readers
	// Refuse reports whether the first of a group of writes of reclaim or scrub fails with Conflict. It may be nil.
	Refuse func(first core.Change) bool

	o     Options
	close []func() error
}

// Open opens a store. It is closed at the end of the test, unless Close was called before.
func Open(t testing.TB, o Options) *Store {
	t.Helper()
	s := &Store{T: t, Dir: o.Dir, Rand: rand.New(rand.NewPCG(3, 3)), Want: map[string][]byte{}, o: o}
	s.open()
	t.Cleanup(s.Close)
	return s
}

func (s *Store) open() {
	s.T.Helper()
	s.openDrivers()
	o := s.o.Batch
	o.Meta, o.Blocks = cmp.Or[core.Meta](o.Meta, s.Meta), s.Blocks
	var err error
	s.Writer, err = batch.Open(ctx, o)
	require.NoError(s.T, err)
	s.close = append(s.close, s.Writer.Close)
	if s.o.Scrub {
		s.Scrubber = s.RepairingScrubber(nil)
		if s.o.FS != nil {
			s.Scrubber = s.RepairingScrubber(s.o.FS.Now)
		}
	}
	s.Mount(s.options())
	r := s.o.Reclaim
	r.Meta, r.Blocks, r.Writer, r.Readers, r.Settle = s.Meta, s.Blocks, s, readers{s}, s.Writer.Settle
	r.Hook = func(place string) {
		if s.Hook != nil {
			s.Hook(place)
		}
	}
	s.Reclaimer, err = reclaim.New(ctx, r)
	require.NoError(s.T, err)
	if s.o.Bare {
		return
	}
	s.Bucket = s.OpenBucket("bucket", core.VersioningOff)
}

// openDrivers opens the drivers that the caller did not provide.
func (s *Store) openDrivers() {
	s.Blocks, s.Meta = s.o.Blocks, s.o.Meta
	if s.Blocks == nil {
		s.Blocks = openBlocks(s.T, s.Dir)
		s.close = append(s.close, s.Blocks.Close)
	}
	if s.Meta == nil {
		s.Meta = openMeta(s.T, s.Dir, !s.o.Uncached)
		s.close = append(s.close, s.Meta.Close)
	}
}

// Drivers opens the drivers of a store in a directory, or in memory if dir is empty, for tests that wrap them. They are
// closed at the end of the test.
func Drivers(t testing.TB, dir string) (core.Blocks, Meta) {
	t.Helper()
	blocks, meta := openBlocks(t, dir), openMeta(t, dir, true)
	t.Cleanup(func() {
		require.NoError(t, meta.Close())
		require.NoError(t, blocks.Close())
	})
	return blocks, meta
}

func openBlocks(t testing.TB, dir string) core.Blocks {
	t.Helper()
	if dir == "" {
		return mem.NewBlocks()
	}
	blocks, err := disk.Open(dir, disk.Options{PackedSize: 1 << 20})
	require.NoError(t, err)
	return blocks
}

func openMeta(t testing.TB, dir string, cache bool) Meta {
	t.Helper()
	if dir == "" {
		return mem.NewMeta()
	}
	meta, err := sqlite.Open(filepath.Join(dir, Database), sqlite.Options{})
	require.NoError(t, err)
	if !cache {
		return meta
	}
	through, err := cached.New(meta, cached.Options{})
	require.NoError(t, err)
	return through
}

// options returns the options of the namespace.
func (s *Store) options() content.Options {
	o := Defaults()
	if s.o.FS != nil {
		o = *s.o.FS
	}
	if s.o.Scrub {
		o.Instant, o.Verified = true, s.Scrubber.Verified
	}
	return o
}

// Close closes the store. Further calls do nothing.
func (s *Store) Close() {
	s.T.Helper()
	for len(s.close) > 0 {
		last := s.close[len(s.close)-1]
		s.close = s.close[:len(s.close)-1]
		require.NoError(s.T, last())
	}
}

// Restart closes the store and opens it again. It keeps Want.
func (s *Store) Restart() {
	s.T.Helper()
	s.Close()
	s.open()
}

// Open reopens a store that Close has closed.
func (s *Store) Open() {
	s.T.Helper()
	s.open()
}

// NewFS returns a namespace over a content engine with these options.
func NewFS(o content.Options) (*vfs.FS, error) {
	engine, err := content.New(o)
	if err != nil {
		return nil, err
	}
	return vfs.New(vfs.Options{Content: engine, Meta: o.Meta, Writer: o.Writer, Now: o.Now})
}

// Mount replaces the namespace with one that has the given options.
func (s *Store) Mount(o content.Options) {
	s.T.Helper()
	o.Meta, o.Blocks, o.Writer = cmp.Or[core.Meta](o.Meta, s.Meta), s.Blocks, s.Writer
	var err error
	s.FS, err = NewFS(o)
	require.NoError(s.T, err)
}

// Unshared mounts a namespace that does not deduplicate.
func (s *Store) Unshared() { s.Mount(content.Options{}) }

// Packing mounts a namespace that packs content of up to n bytes.
func (s *Store) Packing(n int64) {
	o := Defaults()
	o.MaxPacked = n
	s.Mount(o)
}

// DoAll implements batch.Doer for reclaim and scrub.
func (s *Store) DoAll(ctx context.Context, writes []batch.Write) ([]core.Result, []error) {
	if s.Refuse != nil && s.Refuse(writes[0].Change) {
		_, errs := s.Writer.DoAll(ctx, writes[1:])
		return make([]core.Result, len(writes)), append([]error{core.E("storetest.DoAll", core.Conflict, coretest.ErrInjected)}, errs...)
	}
	return s.Writer.DoAll(ctx, writes)
}

// readers implements reclaim.Readers with the readers of the current namespace.
type readers struct{ s *Store }

func (r readers) Quiet(ctx context.Context) error {
	if r.s.Quiet != nil {
		r.s.Quiet()
	}
	return r.s.FS.Quiet(ctx)
}

func (r readers) Pins(block core.BlockID) bool       { return r.s.FS.Pins(block) }
func (r readers) PinsList(list core.UploadID) bool   { return r.s.FS.PinsList(list) }
func (r readers) OldestReader() (int, time.Duration) { return r.s.FS.OldestReader() }

// NewScrubber returns a Scrubber for the store. Without Options.Repair it repairs content only from identical stored
// frames.
func (s *Store) NewScrubber(o scrub.Options) *scrub.Scrubber {
	o.Meta, o.Writer, o.Period = s.Meta, cmp.Or[batch.Doer](o.Writer, s), cmp.Or(o.Period, time.Nanosecond)
	if o.Blocks == nil {
		o.Blocks = s.Blocks
	}
	if o.Pause == nil {
		o.Pause = func(ctx context.Context, fn func() error) error { return s.Reclaimer.Pause(ctx, fn) }
	}
	return scrub.New(o)
}

// RepairingScrubber returns a Scrubber that also repairs from equal content, and that looks for missing blocks.
func (s *Store) RepairingScrubber(now func() time.Time) *scrub.Scrubber {
	return s.NewScrubber(scrub.Options{
		Now:     now,
		Repair:  func(ctx context.Context, damaged, from *core.DataInfo) error { return s.FS.Repair(ctx, damaged, from) },
		Compare: func(ctx context.Context) (*fsck.Comparison, error) { return fsck.Compare(ctx, s.Meta, s.Blocks) },
	})
}

// Defaults returns the options of a namespace that deduplicates, compresses at the level in ORCAS_TEST_COMPRESSION, and
// encrypts everything if ORCAS_TEST_ENCRYPTION is set.
func Defaults() content.Options {
	o := content.Options{Instant: true, Compression: Compression()}
	if Encrypted() {
		o.Keys, o.EncryptAll = Keys(strings.Repeat("e5", 32)), true
	}
	return o
}

// Plain returns the options of a namespace that deduplicates, but neither compresses nor encrypts.
func Plain() *content.Options { return &content.Options{Instant: true} }

// Compression returns the level in ORCAS_TEST_COMPRESSION. The default is off.
func Compression() core.Compression {
	l, err := core.ParseCompression(cmp.Or(os.Getenv("ORCAS_TEST_COMPRESSION"), "off"))
	if err != nil {
		panic(err)
	}
	return l
}

// Encrypted reports whether ORCAS_TEST_ENCRYPTION is set.
func Encrypted() bool { return os.Getenv("ORCAS_TEST_ENCRYPTION") != "" }

// NeedsPlain skips a test that depends on how unencrypted content is stored.
func NeedsPlain(t testing.TB) {
	if Encrypted() {
		t.Skip("the test needs unencrypted content, but ORCAS_TEST_ENCRYPTION is set")
	}
}

// Keys parses master keys.
func Keys(text string) *codec.Keys {
	keys, err := codec.ParseKeys(text)
	if err != nil {
		panic(err)
	}
	return keys
}

// Forms are options for the two forms of stored content: plain, and both compressed and encrypted.
var Forms = map[string]func() content.Options{
	"plain": func() content.Options { return content.Options{} },
	"compressed and encrypted": func() content.Options {
		return content.Options{Compression: core.CompressionBetter, EncryptAll: true, Keys: Keys("1:" + strings.Repeat("a1", 32))}
	},
}
