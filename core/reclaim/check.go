package reclaim

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"orcas/core"
)

// Check recounts what the metadata says of itself and of the blocks, and changes nothing.
//
// One pass over everything that the engine holds, at one moment (core.Snapshotter), counts the segments that refer to each content, and notes where each
// content and each entry of the garbage stands. Then the blocks are walked, the listings are read, page by page, and, where it is asked for, all
// content. What stands out is looked at again: names are found in a second pass over the metadata, which is made only then; a content that has moved or gone
// since, because reclaim emptied its block, is asked for anew.
//
// So it may run while the store is in use. What it keeps in memory is about 150 bytes for each object.
func Check(ctx context.Context, meta Source, blocks core.Blocks, o CheckOptions) (*CheckReport, error) {
	if o.MaxDifferences <= 0 {
		o.MaxDifferences = 10_000
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	c := &check{ctx: ctx, meta: meta, blocks: blocks, o: o, buckets: map[core.BucketID]string{},
		contents: map[core.DataID]content{}, lists: map[core.UploadID]list{}, index: map[core.BlockID]uint32{},
		dictionaries: map[uint32]error{}, coded: map[uint32]map[core.DataID]int64{}}
	c.report = CheckReport{Started: time.Now().UTC(), WithContent: o.Content, Waiting: o.Waiting, ByKind: map[string]int{}, Differences: []Difference{}}
	err := c.run()
	c.report.Seconds = time.Since(c.report.Started).Seconds()
	if err != nil {
		err = core.E("reclaim.Check", core.Internal, err)
		c.report.Error = err.Error()
	}
	return &c.report, err
}

// Source is what Check reads of the metadata.
type Source interface {
	core.Meta
	core.Snapshotter
}

// Verifier is implemented by a Meta that can look for damage that its rows do not show: in indexes, or in rows that nothing leads to.
type Verifier interface {
	// Verify returns a line for each thing that is wrong.
	Verify(ctx context.Context) ([]string, error)
}

// CheckOptions say what Check does. The zero value is good.
type CheckOptions struct {
	Content        bool  // read and verify every frame of every live content
	BytesPerSecond int64 // of content, at most; 0: as fast as it goes
	// Waiting is the number of changes in the blocks that the next start applies. Where there are any, blocks from State.Floor on are not yet
	// known, and a block that is missing may be one that those changes let go of.
	Waiting        int
	MaxDifferences int // in the report; more are counted; default 10,000

	// Progress is told what goes on; total is 0 where it is not known. It must be quick.
	Progress func(phase string, done, total int64)
}

// Difference is one thing that is not as it should be.
type Difference struct {
	Kind  string `json:"kind"`
	Where string `json:"where"`
	Text  string `json:"text"`
	Bytes int64  `json:"bytes,omitempty"` // of content that it is about
}

// The kinds of differences.
const (
	KindRow        = "row"        // a row of the metadata cannot be read
	KindEngine     = "engine"     // the metadata engine's own check found something
	KindReferences = "references" // a content says another number of references than there are
	KindUnused     = "unused"     // no segment refers to a content
	KindNoContent  = "no-content" // segments refer to content that has no row
	KindNoBlock    = "no-block"   // content stands in a block that is not there
	KindExtent     = "extent"     // content stands beyond the end of its block, or in extents that do not fit its size
	KindOverlap    = "overlap"    // two extents share bytes
	KindSize       = "size"       // segments do not cover their version or part, or reach beyond their content
	KindBucket     = "bucket"     // a version or upload of a bucket that is not there
	KindLatest     = "latest"     // a key has two newest versions, or the newest is not the listed one
	KindNull       = "null"       // a key has two null versions
	KindList       = "list"       // a list of parts that nothing refers to, or that is garbage and in use
	KindNumber     = "number"     // a number that was not given away yet
	KindListing    = "listing"    // listings do not show what is there
	KindHeader     = "header"     // the header of a block is not whole
	KindContent    = "content"    // a frame of live content is not whole, or a hash of it is another
	KindGap        = "gap"        // changes that should wait in the blocks are not there
	KindSnapshot   = "snapshot"   // a snapshot of the metadata is not whole
	KindDictionary = "dictionary" // content is compressed with a dictionary that is not there, or is none
)

// CheckReport is what Check found.
type CheckReport struct {
	Started     time.Time `json:"started"`
	Seconds     float64   `json:"seconds"`
	Seq         core.Seq  `json:"seq"` // of the metadata
	WithContent bool      `json:"with_content"`
	Waiting     int       `json:"changes_waiting"` // for the next start

	Buckets      int   `json:"buckets"`
	Versions     int   `json:"versions"`
	Uploads      int   `json:"uploads"`
	Parts        int   `json:"parts"`
	Contents     int   `json:"contents"`
	ContentBytes int64 `json:"content_bytes"` // plain
	BytesRead    int64 `json:"bytes_read"`    // of content

	Blocks     int   `json:"blocks"`
	BlockBytes int64 `json:"block_bytes"`
	LiveBytes  int64 `json:"live_bytes"`
	// Garbage is no damage: reclaim frees it.
	GarbageBytes  int64  `json:"garbage_bytes"`   // named by the metadata
	UnusedBlocks  int    `json:"unused_blocks"`   // in which no content stands (records may)
	UnusedBytes   int64  `json:"unused_bytes"`    // in those
	UnknownBlocks int    `json:"unknown_blocks"`  // which only the next start will know
	Notes         []Note `json:"notes,omitempty"` // what is no difference, but worth knowing

	Found       int            `json:"found"` // differences in all
	ByKind      map[string]int `json:"by_kind"`
	Differences []Difference   `json:"differences"`
	Error       string         `json:"error,omitempty"` // why the check did not come to its end
}

// Note is a line about something that is no difference.
type Note string

// WriteText writes the report for people.
func (r *CheckReport) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "metadata up to change %d: %d buckets, %d versions, %d uploads, %d parts, %d contents of %d bytes\n",
		r.Seq, r.Buckets, r.Versions, r.Uploads, r.Parts, r.Contents, r.ContentBytes)
	fmt.Fprintf(&b, "%d blocks of %d bytes: %d bytes are live, %d known as garbage; %d blocks of %d bytes hold no content\n",
		r.Blocks, r.BlockBytes, r.LiveBytes, r.GarbageBytes, r.UnusedBlocks, r.UnusedBytes)
	if r.WithContent {
		fmt.Fprintf(&b, "%d bytes of content were read\n", r.BytesRead)
	}
	if r.Waiting > 0 {
		fmt.Fprintf(&b, "%d changes wait in the blocks for the next start; %d blocks are not known before that\n", r.Waiting, r.UnknownBlocks)
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
		fmt.Fprintf(&b, "the check did not come to its end: %s\n", r.Error)
	case r.Found == 0:
		fmt.Fprintf(&b, "no difference, in %.1f seconds\n", r.Seconds)
	default:
		fmt.Fprintf(&b, "%d differences, in %.1f seconds\n", r.Found, r.Seconds)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// check is one run of Check.
type check struct {
	ctx    context.Context
	meta   Source
	blocks core.Blocks
	o      CheckOptions
	report CheckReport

	state    core.State
	buckets  map[core.BucketID]string
	contents map[core.DataID]content
	lists    map[core.UploadID]list
	index    map[core.BlockID]uint32 // in table
	table    []block
	places   []place

	versions, current, uploads hashes // of what listings should show
	latest, nulls              hashes // of keys

	dictionaries map[uint32]error                 // those that there are; with an error: and why they are none
	coded        map[uint32]map[core.DataID]int64 // content, and its plain bytes, by the dictionaries that it names

	about []about // differences that wait for names
}

// content is what is counted of a content.
type content struct {
	size          int64 // plain bytes; noRow: only referred to
	end           int64 // of the segment that reaches farthest
	refs, counted int32
}

const noRow = -1

// list is what is counted of a list of parts.
type list struct {
	bytes, size int64 // in its parts; of the version that has it
	parts       int32
	versions    int32
	upload      bool
	garbage     bool
}

// block is what is known of a block.
type block struct {
	id         core.BlockID
	size       int64
	live, dead int64 // bytes that the metadata names
	kind       core.BlockKind
	found      bool
}

// place is an extent, with its owner: a content, or an entry of the garbage.
type place struct {
	offset, length int64
	owner          uint64
	block          uint32 // in table
	garbage        bool
	first          bool // of the content's extents
}

func (p *place) String() string {
	if p.garbage {
		return fmt.Sprint("garbage ", p.owner)
	}
	return fmt.Sprint("content ", p.owner)
}

// about is a difference about a content, which gets its names later.
type about struct {
	Difference
	data core.DataID
}

func (c *check) run() error {
	for _, step := range []func() error{
		c.readMetadata, c.walkBlocks, c.judgeContents, c.judgeDictionaries, c.judgePlaces, c.judgeLists, c.compareListings, c.askEngine, c.readContents, c.nameContents,
	} {
		if err := c.ctx.Err(); err != nil {
			return core.E("reclaim.Check", core.Canceled, err)
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// differ notes a difference.
func (c *check) differ(d Difference) { c.report.add(d, c.o.MaxDifferences) }

// Add notes a difference that the caller found.
func (r *CheckReport) Add(d Difference) { r.add(d, len(r.Differences)+1) }

func (r *CheckReport) add(d Difference, most int) {
	r.Found++
	r.ByKind[d.Kind]++
	if len(r.Differences) < most {
		r.Differences = append(r.Differences, d)
	}
}

// differAbout notes a difference about a content.
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

// nameContents says which objects the differences about contents are about.
func (c *check) nameContents() error {
	if len(c.about) == 0 {
		return nil
	}
	c.o.Progress("names", 0, 0)
	ids := map[core.DataID]*users{}
	for _, a := range c.about {
		ids[a.data] = &users{}
	}
	if err := findUsers(func(emit func(*core.Row) error) error {
		return eachRow(c.ctx, c.meta, emit, func(string, error) {})
	}, ids); err != nil {
		return err
	}
	slices.SortStableFunc(c.about, func(a, b about) int { return cmp.Compare(a.data, b.data) })
	for _, a := range c.about {
		if u := ids[a.data]; u.Count > 0 {
			a.Where += ": " + u.String()
		}
		c.differ(a.Difference)
	}
	return nil
}
