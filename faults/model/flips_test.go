package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core/disk"
	"orcas/core/frame"
	"orcas/core/sqlite"
	"orcas/faults/result"
)

// fixture is the data directory of a stopped server, and the model of its content.
type fixture struct {
	root string
	dir  string
	env  []string // of its servers
	s    *store
	was  *object // two/over before it was overwritten
	made int
}

// fixtureSteps write about 64 KiB into a packed block, and some of everything else.
func fixtureSteps() []step {
	var list []step
	for i := range 14 {
		list = append(list, step{op: "put", b: "one", key: fmt.Sprintf("object-%02d", i), size: 3500 + 100*i, arg: "v"})
	}
	return append(list, []step{
		{op: "put", b: "one", key: "large", size: 300_000, arg: "w"},
		{op: "put", b: "one", key: "large-2", size: 70_000},
		{op: "put", b: "one", key: "empty"},
		{op: "put", b: "two", key: "gone", size: 2000},
		{op: "delete", b: "two", key: "gone"},
		{op: "copy", b: "two", key: "copy", from: "one/object-03", arg: "replace"},
		{op: "upload", b: "two", key: "parts"},
		{op: "part", n: 1, size: 100_000},
		{op: "part", n: 2, size: 3000},
		{op: "complete", from: "last"},
		{op: "upload", b: "two", key: "open"},
		{op: "part", n: 7, size: 3000},
	}...)
}

func newFixture(t *testing.T, env ...string) *fixture {
	t.Helper()
	root := workDir(t)
	m := &machine{root: root, clock: time.Now, env: env}
	m.dir = m.nextDir()
	require.NoError(t, m.start())
	r, err := newScript(m)
	require.NoError(t, err)
	over := step{op: "put", b: "two", key: "over", size: 1000}
	require.NoError(t, r.run([]step{{op: "create", b: "one"}, {op: "create", b: "two"}, over}))
	was, _ := r.s.object("two", "over")
	over.size = 2000
	require.NoError(t, r.run(append([]step{over}, fixtureSteps()...)))
	require.NoError(t, m.close())
	return &fixture{root: root, dir: m.dir, env: env, s: r.s, was: was}
}

// flip is a bit of a file, counted from the beginning of the file.
type flip struct {
	file string // relative to the data directory
	bit  int64
}

func (f flip) String() string { return fmt.Sprintf("%s, byte %d, bit %d", f.file, f.bit/8, f.bit%8) }

// apply flips the bit in a new copy of the file, because the file may be a link.
func (f flip) apply(dir string) error {
	path := filepath.Join(dir, f.file)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[f.bit/8] ^= 1 << (f.bit % 8)
	return errors.Join(os.Remove(path), os.WriteFile(path, b, 0o600))
}

// start starts a server on a copy of the directory with a flipped bit, and without its database if lost is set. If it
// returns no error, the caller closes the machine.
func (f *fixture) start(fl flip, lost bool) (*script, error) {
	f.made++
	m := &machine{root: filepath.Join(f.root, fmt.Sprintf("flip-%d", f.made)), clock: time.Now, env: f.env}
	m.dir = m.nextDir()
	err := copyBlocks(f.dir, m.dir)
	if err == nil && !lost {
		err = copyDatabase(f.dir, m.dir)
	}
	if err == nil {
		err = fl.apply(m.dir)
	}
	if err != nil {
		return nil, err
	}
	r := &script{m: m, s: f.s}
	if err := m.start(); err != nil {
		return r, errors.Join(errRefused, err)
	}
	return r, nil
}

// plainAndSealed runs half of the flips on a plain store, and half on one that is compressed and encrypted. how names
// the kind of store in the results.
func plainAndSealed(t *testing.T, flips func(t *testing.T, how string, env ...string)) {
	t.Run("plain", func(t *testing.T) { flips(t, "") })
	t.Run("sealed", func(t *testing.T) { flips(t, ", compressed and encrypted", sealed...) })
}

var errRefused = errors.New("refused to start")

// end closes the machine that start started, and removes its files.
func (r *script) end() error { return errors.Join(r.m.close(), os.RemoveAll(r.m.root)) }

// files returns the files of the fixture whose names end with ext, and their sizes.
func (f *fixture) files(t *testing.T, ext string) (names []string, sizes []int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ext) {
			return err
		}
		info, err := d.Info()
		name, _ := filepath.Rel(f.dir, path) // path is below f.dir
		names, sizes = append(names, name), append(sizes, info.Size())
		return err
	}))
	require.NotEmpty(t, names, ext)
	return names, sizes
}

// findings are the differences that reading everything shows: items for which the server returns an error, and items
// for which it returns a wrong response.
type findings struct{ refused, wrong []string }

func (f *findings) add(what string, err error) {
	var status statusError
	var transport *url.Error
	switch {
	case err == nil:
	case errors.As(err, &status) && status.got.status >= 500, errors.As(err, &transport), errors.Is(err, io.ErrUnexpectedEOF):
		f.refused = append(f.refused, what+": "+err.Error())
	default:
		f.wrong = append(f.wrong, what+": "+err.Error())
	}
}

// inspect reads everything and compares it with the model.
func (r *script) inspect() (f findings) {
	for _, name := range slices.Sorted(maps.Keys(r.s.buckets)) {
		f.add("listing of "+name, r.list(step{b: name}))
		objects := r.s.buckets[name].objects
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			for _, op := range []string{"get", "head"} {
				f.add(op+" "+name+"/"+key, r.get(step{op: op, b: name, key: key}))
			}
		}
	}
	for _, u := range r.s.uploads {
		f.add("upload of "+u.key, r.compareUpload(u))
	}
	return f
}

// extent is the range of a file with the content of an object, including the frame header.
type extent struct{ from, to int64 }

// contents returns the extents of the fixture's objects in a file, by key. It leaves out objects with several frames,
// and those in other files.
func (f *fixture) contents(t *testing.T, file string) map[string]extent {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(f.dir, file))
	require.NoError(t, err)
	found := map[string]extent{}
	for key, o := range f.s.buckets["one"].objects {
		if len(o.body) == 0 {
			continue
		}
		if at := int64(bytes.Index(raw, o.body)); at >= 0 {
			found[key] = extent{at - frame.ShortSize, at + int64(len(o.body))}
		}
	}
	return found
}

// TestEveryBitOfABlock flips each bit of a packed block, one at a time. The frame with that bit must be rejected.
func TestEveryBitOfABlock(t *testing.T) {
	f := newFixture(t)
	files, _ := f.files(t, ".packed")
	b, err := os.ReadFile(filepath.Join(f.dir, files[0]))
	require.NoError(t, err)
	id, _, err := frame.DecodeBlockHeader(b)
	require.NoError(t, err)
	row := result.Of(t, result.Row{Fault: "bit-flips", Name: "every bit of a packed block, in process", Unit: "bits"})
	row.Note = "each was detected"
	each := func(from, to int64, refused func() bool) {
		for bit := from * 8; bit < to*8; bit++ {
			b[bit/8] ^= 1 << (bit % 8)
			if !refused() {
				t.Fatalf("bit %d was not detected", bit)
			}
			b[bit/8] ^= 1 << (bit % 8)
			row.Tried++
		}
	}
	each(0, frame.BlockHeaderSize, func() bool { _, _, err := frame.DecodeBlockHeader(b); return err != nil })
	end := int64(frame.BlockHeaderSize)
	for end < int64(len(b)) {
		at := end
		h, err := frame.Decode(b[at:], id, at)
		if errors.Is(err, frame.ErrNotFrame) {
			break // preallocated space
		}
		require.NoError(t, err)
		end = h.End()
		each(at, end, func() bool {
			h, err := frame.Decode(b[at:], id, at)
			return err != nil || h.End() != end || h.Verify(b[at+int64(h.Size()):end]) != nil
		})
	}
	require.Greater(t, end, int64(64<<10))
}

// TestFlipsInABlockOfARunningServer flips bits of the packed block that a running server reads. Reading the object with
// that bit must return an error; other objects must be readable.
func TestFlipsInABlockOfARunningServer(t *testing.T) {
	f := newFixture(t)
	files, sizes := f.files(t, ".packed")
	require.Len(t, files, 1)
	places := f.contents(t, files[0])
	require.Len(t, places, 14)
	m := &machine{root: f.root, dir: f.dir, clock: time.Now}
	require.NoError(t, m.start())
	defer func() { require.NoError(t, m.close()) }()
	file, err := os.OpenFile(filepath.Join(f.dir, files[0]), os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()

	r := newRand(t)
	keys := slices.Sorted(maps.Keys(places))
	bits := count(t, "ORCAS_FAULTS_BITS", 1500, 20_000)
	row := result.Of(t, result.Row{Fault: "bit-flips", Name: "a packed block under a running server, read through S3", Unit: "bits", Tried: bits})
	hit := 0
	for i := range int64(bits) {
		bit := i
		if int64(bits) < sizes[0]*8 {
			bit = r.Int64N(sizes[0] * 8)
		}
		var one [1]byte
		_, err := file.ReadAt(one[:], bit/8)
		require.NoError(t, err)
		whole := one[0]
		one[0] ^= 1 << (bit % 8)
		_, err = file.WriteAt(one[:], bit/8)
		require.NoError(t, err)
		for n, key := range keys {
			place := places[key]
			isHit := bit/8 >= place.from && bit/8 < place.to
			if !isHit && int(bit)%len(keys) != n {
				continue
			}
			a, err := m.do("GET", "one", key, "", nil)
			require.NoError(t, err)
			if isHit {
				hit++
				require.Equal(t, 500, a.status, "bit %d of %s", bit, key)
				continue
			}
			require.Equal(t, 200, a.status, "bit %d, %s", bit, key)
			require.True(t, bytes.Equal(f.s.buckets["one"].objects[key].body, a.body), "bit %d, %s", bit, key)
		}
		one[0] = whole
		_, err = file.WriteAt(one[:], bit/8)
		require.NoError(t, err)
	}
	require.NotZero(t, hit)
	row.Note = fmt.Sprintf("%d of them in content: each was detected, and all other objects were served; the block has %d bits", hit, sizes[0]*8)
	t.Logf("%d bits of %d, %d of them in content: each was detected", bits, sizes[0]*8, hit)
	require.Empty(t, (&script{m: m, s: f.s}).inspect())
}

// draw returns a random bit of the files.
func draw(r *rand.Rand, names []string, sizes []int64) flip {
	i := r.IntN(len(names))
	return flip{names[i], r.Int64N(sizes[i] * 8)}
}

// TestFlipsInBlocks flips bits in the blocks of a stopped server. The server must start, reads of at most one piece of
// content may return an error, and everything else must be unchanged.
func TestFlipsInBlocks(t *testing.T) { plainAndSealed(t, flipsInBlocks) }

func flipsInBlocks(t *testing.T, how string, env ...string) {
	f := newFixture(t, env...)
	r := newRand(t)
	packed, packedSizes := f.files(t, ".packed")
	large, largeSizes := f.files(t, ".large")
	damaged := 0
	flips := count(t, "ORCAS_FAULTS_FLIPS", 30, 200) / 2
	row := result.Of(t, result.Row{Fault: "bit-flips", Name: "blocks of a stopped server" + how, Unit: "bits", Tried: flips})
	for i := range flips {
		fl := draw(r, packed, packedSizes)
		if i%4 == 0 {
			fl = draw(r, large, largeSizes)
		}
		s, err := f.start(fl, false)
		require.NoError(t, err, fl)
		got := s.inspect()
		require.Empty(t, got.wrong, fl)
		contents := map[string]bool{}
		for _, what := range got.refused {
			key := strings.TrimSuffix(what[:strings.Index(what, ":")], "copy")
			if strings.HasSuffix(what[:strings.Index(what, ":")], "two/copy") {
				key = "get one/object-03" // they share their content
			}
			contents[key] = true
		}
		require.LessOrEqual(t, len(contents), 1, "%v: %q", fl, got.refused)
		damaged += len(contents)
		require.NoError(t, s.end())
	}
	row.Note = fmt.Sprintf("%d of them in content: each was detected", damaged)
	t.Logf("%d flips, %d of them in content: each was detected", flips, damaged)
}

// TestFlipsInRecords flips bits in the packed blocks of a stopped server that lost its database, so that all metadata
// must be rebuilt from the records. These are two faults at the same time, so the changes in the damaged record are
// lost: the key is missing, or has its previous value. But a response must have a complete value that the key once had.
// Either the start is refused, with the advice to do a lossy rebuild, or the log reports the damage, unless it is in
// the very last record, which then looks like one that a crash cut off.
func TestFlipsInRecords(t *testing.T) { plainAndSealed(t, flipsInRecords) }

func flipsInRecords(t *testing.T, how string, env ...string) {
	f := newFixture(t, env...)
	r := newRand(t)
	names, sizes := f.files(t, ".packed")
	require.Len(t, names, 1)
	var whole, unread, lost, stale, silent, refused int
	flips := count(t, "ORCAS_FAULTS_FLIPS", 30, 200) / 2
	row := result.Of(t, result.Row{Fault: "bit-flips", Name: "blocks and records of a stopped server that lost its database too" + how, Unit: "bits", Tried: flips})
	for range flips {
		fl := draw(r, names, sizes)
		s, err := f.start(fl, true)
		if errors.Is(err, errRefused) { // a record is missing, so the server does not start with incomplete metadata
			require.ErrorContains(t, err, "orcas rebuild --lossy", fl)
			refused++
			require.NoError(t, s.lossyRebuild())
			err = s.m.start()
		}
		require.NoError(t, err, fl)
		got := s.inspect()
		for name, b := range f.s.buckets {
			for key, o := range b.objects {
				a, err := s.m.do("GET", name, key, "", nil)
				if err != nil || a.status != 200 || bytes.Equal(a.body, o.body) {
					continue
				}
				require.Equal(t, "two/over", name+"/"+key, "%v: a body of %d bytes", fl, len(a.body))
				require.True(t, bytes.Equal(f.was.body, a.body), fl)
				stale++
			}
		}
		switch {
		case len(got.wrong) > 0:
			lost++
			if log := s.m.alarm.text(); err == nil && !strings.Contains(log, "damaged") && !strings.Contains(log, "cut off") && !s.lossy {
				silent++
				require.Greater(t, fl.bit/8, sizes[0]-1500, "%v: the log does not report %q", fl, got.wrong)
			}
		case len(got.refused) > 0:
			unread++
		default:
			whole++
		}
		require.NoError(t, s.end())
	}
	row.Note = fmt.Sprintf("%d without effect, %d in content, %d in records, whose changes are lost; %d starts refused until a lossy rebuild; no wrong byte was served",
		whole, unread, lost, refused)
	t.Logf("%d flips, no database: %d without effect, %d with content that is known to be damaged, %d with losses (%d previous values; %d in the last record); %d starts refused",
		flips, whole, unread, lost, stale, silent, refused)
}

// lossyRebuild does the same as orcas rebuild --lossy.
func (r *script) lossyRebuild() error {
	r.lossy = true
	blocks, err := disk.Open(r.m.dir, disk.Options{})
	if err != nil {
		return err
	}
	meta, err := sqlite.Open(filepath.Join(r.m.dir, databaseFile), sqlite.Options{})
	if err != nil {
		return errors.Join(err, blocks.Close())
	}
	_, err = batch.Rebuild(context.Background(), meta, blocks, slog.New(slog.DiscardHandler), true)
	return errors.Join(err, meta.Close(), blocks.Close())
}

// TestFlipsInTheDatabase flips bits in the database of a stopped server. Either the server does not start, or it
// returns errors for the items that it cannot read. Rows have checksums, so no response has wrong metadata. The pages
// of the trees above the rows have none, so SQLite may skip a key, which is then missing.
func TestFlipsInTheDatabase(t *testing.T) { plainAndSealed(t, flipsInTheDatabase) }

func flipsInTheDatabase(t *testing.T, how string, env ...string) {
	f := newFixture(t, env...)
	r := newRand(t)
	names, sizes := f.files(t, databaseFile)
	var refused, detected, harmless int
	wrong := map[string]int{}
	flips := count(t, "ORCAS_FAULTS_FLIPS", 30, 200) / 2
	row := result.Of(t, result.Row{Fault: "bit-flips", Name: "the database of a stopped server" + how, Unit: "bits", Tried: flips})
	for range flips {
		fl := draw(r, names, sizes)
		s, err := f.start(fl, false)
		if errors.Is(err, errRefused) {
			refused++
			require.NoError(t, s.end())
			continue
		}
		require.NoError(t, err, fl)
		got := s.inspect()
		switch {
		case len(got.wrong) > 0:
			kind := kindOf(got.wrong)
			wrong[kind]++
			if kind != missing {
				t.Errorf("%v: %q", fl, got.wrong)
			}
		case len(got.refused) > 0:
			detected++
		default:
			harmless++
		}
		require.NoError(t, s.end())
	}
	row.Note = fmt.Sprintf("%d starts refused, %d detected by reads, %d without effect, %d made SQLite skip a key (see below)",
		refused, detected, harmless, wrong[missing])
	t.Logf("%d flips in %d bytes: %d starts refused, %d detected by reads, %d without effect, wrong responses: %v", flips, sizes[0], refused, detected, harmless, wrong)
}

// missing is the kind of a response that lacks an existing item.
const missing = "missing item"

// kindOf returns the kind of the worst of several wrong responses.
func kindOf(wrong []string) string {
	worst := len(kindsOfWrong)
	for _, text := range wrong {
		kind := slices.IndexFunc(kindsOfWrong, func(k kindOfWrong) bool { return strings.Contains(text, k.text) })
		if kind < 0 {
			return "other"
		}
		worst = min(worst, kind)
	}
	return kindsOfWrong[worst].name
}

type kindOfWrong struct{ text, name string }

// kindsOfWrong has the worst kinds first.
var kindsOfWrong = []kindOfWrong{
	{"the body", "wrong body"}, {"Content-Length", "wrong size"}, {"ETag", "wrong ETag or metadata"}, {"checksum", "wrong checksum"},
	{"Last-Modified", "wrong date"}, {": 404", missing}, {": 0 parts instead of", missing}, {"the listing lacks", missing},
}

// TestKindOf: responses of which any is worse than a missing item do not have the kind missing.
func TestKindOf(t *testing.T) {
	gone, short := "get one/a: 404 NoSuchKey", "listing of one: the listing lacks 6 of 17 entries (KeyCount 11): {}"
	require.Equal(t, missing, kindOf([]string{gone, short}))
	require.Equal(t, "wrong ETag or metadata", kindOf([]string{gone, "head one/b: ETag x instead of y"}))
	require.Equal(t, "other", kindOf([]string{gone, "get one/b: 400 BadDigest"}))
}
