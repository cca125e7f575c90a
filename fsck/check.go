// Package fsck checks a store and repairs its metadata.
//
//   - Check compares the metadata with itself and with the blocks, and reports every difference.
//   - Repair copies the consistent part of one metadata engine into an empty one.
//   - Compare finds missing blocks that the metadata refers to; EachLost lists the objects with content in them.
//   - FindReferrers finds the objects that refer to damaged content, and EachRow reads all rows. The scrub uses both.
//
// No function of this package writes to a store in use.
package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"orcas/core"
	"orcas/core/ids"
)

// Check compares the metadata with itself and with the blocks. It does not change anything.
//
// One pass over all metadata, as of one moment (core.Snapshotter), counts the segments that refer to each DataID, and
// collects the extents of all content and of the garbage. Then Check walks the blocks and reads the listings page by
// page. If Options.Content is set, it also reads all content. Before it reports content as missing or damaged, it looks
// up the content in the metadata again, because reclaim may have moved or freed it in the meantime. If content has
// differences, a second pass over the metadata finds the names of the objects that refer to it.
//
// So Check may run while the store is in use. It needs about 150 bytes of memory per object.
func Check(ctx context.Context, meta Source, blocks core.Blocks, o Options) (*Report, error) {
	if o.MaxDifferences <= 0 {
		o.MaxDifferences = 10_000
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	c := &check{ctx: ctx, meta: meta, blocks: blocks, o: o, codec: codecOf(ctx, meta), buckets: map[core.BucketID]string{},
		contents: map[core.DataID]content{}, lists: map[core.UploadID]list{}, index: map[core.BlockID]uint32{},
		dictionaries: map[uint32]error{}, coded: map[uint32]map[core.DataID]int64{}}
	c.report = Report{Started: time.Now().UTC(), WithContent: o.Content, Waiting: o.Waiting, ByKind: map[string]int{}, Differences: []Difference{}}
	err := c.run()
	c.report.Seconds = time.Since(c.report.Started).Seconds()
	if err != nil {
		err = core.E("fsck.Check", core.Internal, err)
		c.report.Error = core.Text(err)
	}
	return &c.report, err
}

// Source is the metadata that Check reads.
type Source interface {
	core.Meta
	core.Snapshotter
}

// Options configure Check. The zero value is ready to use.
type Options struct {
	Content bool // read and verify every frame of live content
	// Waiting is the number of changes in the blocks that the next start will apply. If it is not 0, the metadata does
	// not know about the blocks from State.ReplayFrom on, and those changes may have released the content of a missing
	// block.
	Waiting        int
	MaxDifferences int // maximum number of differences to list in the report; default 10,000

	// Progress is called with the current phase; total is 0 if it is unknown. It must return quickly.
	Progress func(phase string, done, total int64)
}

// Difference is one inconsistency.
type Difference struct {
	Kind  string `json:"kind"`
	Where string `json:"where"`
	Text  string `json:"text"`
	Bytes int64  `json:"bytes,omitempty"` // size of the affected content, in bytes
}

// The kinds of differences.
const (
	KindRow        = "row"        // a row of the metadata cannot be read
	KindEngine     = "engine"     // the metadata engine's own check found damage
	KindReferences = "references" // the reference count of content is wrong
	KindUnused     = "unused"     // no segment refers to the content
	KindNoContent  = "no-content" // segments refer to content that has no row
	KindNoBlock    = "no-block"   // content is in a missing block
	KindExtent     = "extent"     // content extends beyond the end of its block, or its extents do not fit its size
	KindOverlap    = "overlap"    // two extents share bytes
	KindSize       = "size"       // segments do not cover their version or part, or reach beyond their content
	KindBucket     = "bucket"     // a version or upload belongs to a bucket that does not exist
	KindLatest     = "latest"     // a key has two newest versions, or its newest version is not listed as current
	KindNull       = "null"       // a key has two null versions
	KindList       = "list"       // a list of parts has no references, or is both garbage and in use
	KindNumber     = "number"     // a sequence or DataID is in use that has not been assigned yet
	KindListing    = "listing"    // listings disagree with the rows
	KindHeader     = "header"     // the header of a block is damaged
	KindContent    = "content"    // a frame of live content is damaged, or a checksum of the content does not match
	KindGap        = "gap"        // changes that the next start should apply are missing from the blocks
	KindSnapshot   = "snapshot"   // a snapshot of the metadata is damaged
	KindDictionary = "dictionary" // a dictionary is damaged, or content needs one that is missing or damaged
)

// Report is the result of Check.
type Report struct {
	Started     time.Time `json:"started"`
	Seconds     float64   `json:"seconds"`
	Seq         core.Seq  `json:"seq"` // the last change that the metadata has applied
	WithContent bool      `json:"with_content"`
	Waiting     int       `json:"changes_waiting"` // changes that the next start will apply

	Buckets      int   `json:"buckets"`
	Versions     int   `json:"versions"`
	Uploads      int   `json:"uploads"`
	Parts        int   `json:"parts"`
	Contents     int   `json:"contents"`
	ContentBytes int64 `json:"content_bytes"` // plain bytes
	BytesRead    int64 `json:"bytes_read"`    // stored bytes of content that were read

	Blocks     int   `json:"blocks"`
	BlockBytes int64 `json:"block_bytes"`
	LiveBytes  int64 `json:"live_bytes"`
	// Garbage is not damage: reclaim frees it.
	GarbageBytes  int64  `json:"garbage_bytes"`   // bytes in garbage entries of the metadata
	UnusedBlocks  int    `json:"unused_blocks"`   // blocks without live content (they may contain records)
	UnusedBytes   int64  `json:"unused_bytes"`    // size of the unused blocks
	UnknownBlocks int    `json:"unknown_blocks"`  // blocks that the metadata does not know about until the next start
	Notes         []Note `json:"notes,omitempty"` // useful facts that are not differences

	Found       int            `json:"found"` // total number of differences
	ByKind      map[string]int `json:"by_kind"`
	Differences []Difference   `json:"differences"`
	Error       string         `json:"error,omitempty"` // why the check failed
}

// RowsLost reports whether a difference shows that rows of the metadata are lost: damaged, missing, or unreachable
// because of a damaged page. They can be recovered only from the records in the blocks, not from the rest of the
// metadata. All other differences can be repaired from the metadata itself, or concern blocks.
func (r *Report) RowsLost() bool {
	for _, kind := range []string{KindRow, KindEngine, KindUnused, KindNoContent, KindSize, KindBucket, KindList} {
		if r.ByKind[kind] > 0 {
			return true
		}
	}
	return false
}

// Note is a line about a fact that is not a difference.
type Note string

// WriteText writes the report as readable text.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "metadata up to change %d: %d buckets, %d versions, %d uploads, %d parts, %d pieces of content with %d bytes\n",
		r.Seq, r.Buckets, r.Versions, r.Uploads, r.Parts, r.Contents, r.ContentBytes)
	fmt.Fprintf(&b, "%d blocks with %d bytes: %d bytes are live, %d are known garbage; %d blocks with %d bytes have no content\n",
		r.Blocks, r.BlockBytes, r.LiveBytes, r.GarbageBytes, r.UnusedBlocks, r.UnusedBytes)
	if r.WithContent {
		fmt.Fprintf(&b, "%d bytes of content were read\n", r.BytesRead)
	}
	if r.Waiting > 0 {
		fmt.Fprintf(&b, "%d changes wait in the blocks for the next start; the metadata does not know about %d blocks yet\n",
			r.Waiting, r.UnknownBlocks)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "%s: %s: %s", d.Kind, d.Where, d.Text)
		if d.Bytes > 0 {
			fmt.Fprintf(&b, " (%d bytes)", d.Bytes)
		}
		b.WriteByte('\n')
	}
	if more := r.Found - len(r.Differences); more > 0 {
		fmt.Fprintf(&b, "... and %d more\n", more)
	}
	switch {
	case r.Error != "":
		fmt.Fprintf(&b, "the check failed: %s\n", r.Error)
	case r.Found == 0:
		fmt.Fprintf(&b, "no differences found in %.1f seconds\n", r.Seconds)
	default:
		fmt.Fprintf(&b, "%d differences found in %.1f seconds\n", r.Found, r.Seconds)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pageSize is the number of rows that are read per call. dataTogether is the number of DataIDs that are looked up per
// call.
const (
	pageSize     = 1000
	dataTogether = 500
)

// errEnough ends a walk over blocks or rows.
var errEnough = errors.New("enough")

// check is one run of Check.
type check struct {
	ctx    context.Context
	meta   Source
	blocks core.Blocks
	o      Options
	codec  *ids.Codec
	report Report

	state    core.State
	buckets  map[core.BucketID]string
	contents map[core.DataID]content
	lists    map[core.UploadID]list
	index    map[core.BlockID]uint32 // indexes into table
	table    []block
	extents  []ownedExtent

	versions, current, uploads hashes // hashes of the entries that listings should contain
	latest, nulls              hashes // hashes of the keys with a newest or a null version

	dictionaries map[uint32]error                 // all dictionaries; the error is not nil if one is damaged
	coded        map[uint32]map[core.DataID]int64 // the content that uses each dictionary, with its plain size

	about []about // differences to be reported once the names of the objects are known
}

// content holds the counts for one DataID.
type content struct {
	size          int64 // plain bytes, or noRow if segments refer to the content but it has no row
	end           int64 // the maximum end of its segments
	refs, counted int32
}

const noRow = -1

// list holds the counts of one list of parts.
type list struct {
	bytes, size int64 // total size of its parts, and the size that its version expects
	parts       int32
	versions    int32
	upload      bool
	garbage     bool
}

// block describes one block.
type block struct {
	id         core.BlockID
	size       int64
	live, dead int64 // bytes that content and garbage refer to
	kind       core.BlockKind
	found      bool
}

// ownedExtent is an extent and its owner: content or a garbage entry.
type ownedExtent struct {
	offset, length int64
	owner          uint64
	block          uint32 // index into table
	garbage        bool
	first          bool // the extent is the first of its content
}

func (p *ownedExtent) String() string {
	if p.garbage {
		return fmt.Sprint("garbage ", p.owner)
	}
	return fmt.Sprint("content ", p.owner)
}

// about is a difference that concerns content. The names of the objects are added later.
type about struct {
	Difference
	data core.DataID
}

func (c *check) run() error {
	for _, step := range []func() error{
		c.readMetadata, c.walkBlocks, c.judgeContents, c.judgeDictionaries, c.judgeExtents, c.judgeLists, c.compareListings, c.askEngine, c.readContents, c.nameContents,
	} {
		if err := c.ctx.Err(); err != nil {
			return core.E("fsck.Check", core.Canceled, err)
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// differ adds a difference to the report.
func (c *check) differ(d Difference) { c.report.add(d, c.o.MaxDifferences) }

// Add adds a difference that the caller has found.
func (r *Report) Add(d Difference) { r.add(d, len(r.Differences)+1) }

func (r *Report) add(d Difference, most int) {
	r.Found++
	r.ByKind[d.Kind]++
	if len(r.Differences) < most {
		r.Differences = append(r.Differences, d)
	}
}

// differAbout records a difference that concerns content. It is reported by nameContents.
func (c *check) differAbout(id core.DataID, kind string, size int64, format string, args ...any) {
	d := Difference{Kind: kind, Where: fmt.Sprint("content ", id), Text: fmt.Sprintf(format, args...), Bytes: max(size, 0)}
	if len(c.about) < c.o.MaxDifferences {
		c.about = append(c.about, about{d, id})
		return
	}
	c.differ(d)
}

func (c *check) note(format string, args ...any) {
	if len(c.report.Notes) < 100 {
		c.report.Notes = append(c.report.Notes, Note(fmt.Sprintf(format, args...)))
	}
}

// nameContents reports the differences that concern content, with the names of the objects that refer to it.
func (c *check) nameContents() error {
	if len(c.about) == 0 {
		return nil
	}
	c.o.Progress("names", 0, 0)
	contents := map[core.DataID]*Referrers{}
	for _, a := range c.about {
		contents[a.data] = &Referrers{}
	}
	if err := FindReferrers(c.ctx, c.meta, contents); err != nil {
		return err
	}
	slices.SortStableFunc(c.about, func(a, b about) int { return cmp.Compare(a.data, b.data) })
	for _, a := range c.about {
		if u := contents[a.data]; u.Count > 0 {
			a.Where += ": " + u.String()
		}
		c.differ(a.Difference)
	}
	return nil
}
