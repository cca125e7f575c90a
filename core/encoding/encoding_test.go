package encoding

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
)

func sampleObject() core.ObjectInfo {
	at := time.UnixMilli(1_790_000_000_123).UTC()
	block := core.MakeBlockID(7, 2, 9)
	info := &core.DataInfo{
		ID: 42, Size: 9 << 20, SHA256: [32]byte{1, 2, 3}, Codec: 1, KeyID: 3, DataKey: []byte("wrapped"), ChunkSize: 4 << 20, Scope: 5, Head: [32]byte{4, 5, 6},
		Damaged: true, Written: at.Add(-time.Hour),
		Sums: []core.Checksum{{Algorithm: checksum.MD5, Value: make([]byte, 16)}, {Algorithm: checksum.CRC64NVME, Value: []byte("12345678")}},
		Extents: []core.Extent{
			{Block: block, Offset: 64, Length: 4 << 20}, {Block: block, Offset: 64 + 4<<20, Length: 4 << 20},
			{Block: block, Offset: 64 + 8<<20, Length: 1 << 20},
		},
	}
	return core.ObjectInfo{
		Bucket: 5, Key: "a/b\x00\xff", Null: true, Modified: at, Size: 9 << 20, ETag: "0123456789abcdef0123456789abcdef-3",
		Sums:     []core.Checksum{{Algorithm: checksum.SHA1, Composite: true, Parts: 3, Value: make([]byte, 20)}},
		Attrs:    []core.Attr{{Name: "Content-Type", Value: "text/plain"}, {Name: "x-amz-meta-a", Value: "b"}},
		Tags:     []core.Attr{{Name: "k"}},
		Owner:    "me",
		Lock:     core.Lock{Mode: core.LockGovernance, Until: at, Hold: core.HoldOn},
		Segments: []core.Segment{{Data: 42, Length: 9 << 20, Info: info}, {Data: 43, From: 5, Length: 6}},
		Parts:    3, Placed: at.Add(5e6), Index: []core.PartIndex{{After: 256}, {After: 600, Offset: 5}},
	}
}

func sampleChanges() []core.Change {
	o := sampleObject()
	at := o.Modified
	cond := core.Precondition{Match: []string{"*", "x"}, NoneMatch: []string{"y"}, Seq: 3, Modified: at, HasSize: true, Size: 9}
	source := &core.Source{Bucket: 1, Key: "src", Seq: 99}
	equal := &core.Source{Content: &core.ContentKey{Scope: 5, KeyID: 7, SHA256: [32]byte{9, 8}, Size: 77}, Sums: []core.Checksum{{Algorithm: checksum.SHA1, Value: make([]byte, 20)}}}
	upload := core.UploadInfo{Bucket: 1, Key: "k", Initiated: at, Owner: "o", Algorithm: checksum.CRC32, Composite: true, Attrs: o.Attrs, Tags: o.Tags, Lock: o.Lock}
	part := core.PartInfo{Number: 7, Modified: at, Size: 11, ETag: "odd", Sums: o.Sums, Segments: o.Segments}
	listed := o
	listed.Segments, listed.List = nil, 17
	changes := []core.Change{
		&core.PutBucket{Info: core.BucketInfo{ID: 1, Name: "b", Owner: "o", Region: "r", Created: at, Versioning: core.VersioningSuspended, ObjectLock: true, Retention: core.DefaultRetention{Mode: core.LockCompliance, Days: 3, Years: 4}, ChunkSize: 1, Compression: 1, Encrypted: true, Attrs: o.Attrs}},
		&core.PutBucket{Info: core.BucketInfo{Name: "b"}},
		&core.PutBucket{Info: core.BucketInfo{ID: 1, Name: "b"}, Expect: &core.BucketInfo{Owner: "o", Created: at, Attrs: o.Attrs}},
		&core.PutRecord{Record: core.Record{Kind: "k", Key: "n"}, In: 7},
		&core.DeleteBucket{Bucket: 3},
		&core.PutObject{Object: o, If: cond, Source: source},
		&core.PutObject{Object: core.ObjectInfo{Key: "k", Modified: at}},
		&core.DeleteObject{Bucket: 1, Key: "k", Version: core.Null, If: cond, Modified: at, Owner: "o", Bypass: true},
		&core.UpdateObject{Bucket: 1, Key: "k", Version: 7, SetTags: true, Tags: o.Tags, Time: at},
		&core.UpdateObject{Bucket: 1, Key: "k", SetRetention: true, SetHold: true, Lock: o.Lock, Time: at, Bypass: true},
		&core.PutObject{Object: core.ObjectInfo{Key: "k", Modified: at, Segments: []core.Segment{{Data: 42, Length: 77}}}, Source: equal},
		&core.PutObject{Object: core.ObjectInfo{Key: "k", Modified: at, Segments: []core.Segment{{Data: 42, Length: 77}}}, Source: &core.Source{Content: &core.ContentKey{Scope: 5, Size: 77, Head: true}}},
		&core.CreateUpload{Upload: upload},
		&core.PutPart{Bucket: 1, Key: "k", Upload: 2, Part: part, Source: source},
		&core.CompleteUpload{Upload: 2, Parts: []core.PartRef{{Number: 1, Seq: 2}, {Number: 3, Seq: 4}}, Object: listed, If: cond},
		&core.AbortUpload{Bucket: 1, Key: "k", Upload: 4},
		&core.PutRecord{Record: core.Record{Kind: "k", Key: "n", Value: []byte("v")}, HasExpect: true, Expect: []byte("w")},
		&core.PutRecord{Record: core.Record{Kind: "k", Key: "n"}},
		&core.SetReplayFrom{ReplayFrom: core.MakeBlockID(1, 2, 3)},
		&core.Synced{UpTo: 77, ReplayFrom: core.MakeBlockID(1, 2, 3), Relaxed: true},
		&core.Synced{UpTo: 78},
		&core.RewrapData{Data: 7, From: []byte("old"), KeyID: 9, DataKey: []byte("new")},
		&core.Void{From: 4, To: 9},
		&core.MoveData{Data: 3, From: o.Segments[0].Info.Extents, To: o.Segments[0].Info.Extents[:1]},
		&core.FreeGarbage{IDs: []uint64{1, 9}},
		&core.DropParts{Garbage: 4, Count: 5},
		&core.MoveObject{From: *source, Bucket: 2, Key: "l", If: cond, Lock: o.Lock, Token: "t", Time: at, Owner: "o"},
		&core.MoveObject{From: *source, Bucket: 2, Key: "l", Time: at},
		&core.Unshare{Data: 12},
		&core.RepairData{From: o.Segments[0].Info.Extents[:1], Info: o.Segments[0].Info},
	}
	for _, put := range plainPuts() {
		changes = append(changes, put)
	}
	for i, c := range changes {
		c.SetStamp(core.Seq(100 + i*3))
	}
	return changes
}

// plainPuts returns puts of whole content, of which much can be derived from the content or from the put before.
func plainPuts() (puts []*core.PutObject) {
	block := core.MakeBlockID(7, 2, 10)
	md5 := checksum.Sum(checksum.MD5, []byte("x"))
	for i := range 5 {
		info := &core.DataInfo{
			ID: core.DataID(1000 - i%2), Size: 256, SHA256: [32]byte{byte(i)}, Scope: 5,
			Sums:    []core.Checksum{{Algorithm: checksum.MD5, Value: md5}, {Algorithm: checksum.CRC64NVME, Value: []byte("12345678")}},
			Extents: []core.Extent{{Block: block, Offset: 64 + int64(i)*288, Length: 288}},
		}
		puts = append(puts, &core.PutObject{Object: core.ObjectInfo{
			Bucket: 5, Key: fmt.Sprintf("directory/%d", 95+5*i), Modified: time.UnixMilli(1_790_000_000_123 - int64(i)).UTC(), Size: 256,
			ETag: hex.EncodeToString(md5), Sums: []core.Checksum{{Algorithm: checksum.CRC64NVME, Value: []byte("12345678")}},
			Owner: "me", Segments: []core.Segment{{Data: info.ID, Length: 256, Info: info}},
		}})
	}
	return puts
}

// TestDerived checks that everything is kept of puts from which a part of what is usually derived differs.
func TestDerived(t *testing.T) {
	size := func(changes ...core.Change) int {
		b := AppendChanges(nil, changes)
		got, err := DecodeChanges(b)
		require.NoError(t, err)
		require.Equal(t, changes, got)
		return len(b)
	}
	usual := size(plainPuts()[0])
	var all []core.Change
	for _, put := range plainPuts() {
		all = append(all, put)
	}
	require.Less(t, size(all...)-usual, 4*90, "five puts, without the first")
	for name, change := range map[string]func(o *core.ObjectInfo, d *core.DataInfo){
		"another ETag":             func(o *core.ObjectInfo, _ *core.DataInfo) { o.ETag = strings.Repeat("0", 32) },
		"an ETag in capitals":      func(o *core.ObjectInfo, _ *core.DataInfo) { o.ETag = strings.ToUpper(o.ETag) },
		"content without an MD5":   func(_ *core.ObjectInfo, d *core.DataInfo) { d.Sums = d.Sums[1:] },
		"content without checksum": func(_ *core.ObjectInfo, d *core.DataInfo) { d.Sums = d.Sums[:1] },
		"another checksum":         func(o *core.ObjectInfo, _ *core.DataInfo) { o.Sums[0].Value = []byte("abcdefgh") },
		"a composite checksum":     func(o *core.ObjectInfo, _ *core.DataInfo) { o.Sums[0].Composite, o.Sums[0].Parts = true, 1 },
		"a short checksum": func(o *core.ObjectInfo, d *core.DataInfo) {
			o.Sums[0].Value = []byte("1")
			d.Sums[1].Value = []byte("1")
		},
		"half of the content":    func(o *core.ObjectInfo, _ *core.DataInfo) { o.Size, o.Segments[0].Length = 128, 128 },
		"the end of the content": func(o *core.ObjectInfo, _ *core.DataInfo) { o.Segments[0].From = 1 },
		"another size":           func(o *core.ObjectInfo, _ *core.DataInfo) { o.Size = 7 },
		"other content":          func(o *core.ObjectInfo, _ *core.DataInfo) { o.Segments[0].Data++ },
		"content that exists":    func(o *core.ObjectInfo, _ *core.DataInfo) { o.Segments[0].Info = nil },
		"two segments":           func(o *core.ObjectInfo, _ *core.DataInfo) { o.Segments = append(o.Segments, o.Segments[0]) },
		"another block":          func(_ *core.ObjectInfo, d *core.DataInfo) { d.Extents[0].Block[0]++ },
		"no content":             func(o *core.ObjectInfo, _ *core.DataInfo) { o.Size, o.Segments = 0, nil },
	} {
		for i := range 3 {
			puts := plainPuts()[:3]
			change(&puts[i].Object, puts[i].Object.Segments[0].Info)
			require.NotPanics(t, func() { size(puts[0], puts[1], puts[2]) }, name)
		}
	}
	none := plainPuts()[0]
	none.Object.Sums = nil
	require.Less(t, size(none), usual)
}

// TestObjectRows encodes objects for the row of their content. Only an object that is all of that content is encoded
// without its segment.
func TestObjectRows(t *testing.T) {
	whole := plainPuts()[0].Object
	whole.Bucket, whole.Key, whole.Segments[0].Info = 0, "", nil
	half, other := whole, whole
	half.Segments = []core.Segment{{Data: whole.Segments[0].Data, From: 1, Length: 255}}
	other.Segments = []core.Segment{{Data: 7, Length: 256}}
	born := whole.Segments[0].Data
	for name, o := range map[string]core.ObjectInfo{"whole": whole, "half": half, "other": other} {
		for _, of := range []core.DataID{0, born} {
			b := AppendObject(nil, &o, of)
			var got core.ObjectInfo
			require.NoError(t, DecodeObject(b, &got, of), name)
			require.Equal(t, o, got, name)
			require.Equal(t, name == "whole" && of == born, DecodeObject(b, &got, 0) != nil, "%s: it needs its content", name)
		}
		old, got := coder{}, core.ObjectInfo{} // the form of schema version 2
		old.object(&o, false, 0)
		require.NoError(t, DecodeObject(old.b, &got, born))
		require.Equal(t, o, got)
	}
}

// TestOldChanges decodes testdata/changes1: sampleChanges without plainPuts, as the first version of the encoding had
// them.
func TestOldChanges(t *testing.T) {
	b, err := os.ReadFile("testdata/changes1")
	require.NoError(t, err)
	require.EqualValues(t, 1, b[0])
	got, err := DecodeChanges(b)
	require.NoError(t, err)
	require.Equal(t, sampleChanges()[:len(sampleChanges())-len(plainPuts())], got)
	for n := range b {
		_, err := DecodeChanges(b[:n])
		require.Error(t, err, "cut at %d", n)
	}
}

func TestChangesRoundTrip(t *testing.T) {
	changes := sampleChanges()
	b := AppendChanges([]byte("before"), changes)
	got, err := DecodeChanges(b[len("before"):])
	require.NoError(t, err)
	require.Equal(t, changes, got)
}

// TestEveryKindIsEncoded fails if a kind of change is missing in sampleChanges.
func TestEveryKindIsEncoded(t *testing.T) {
	seen := map[core.ChangeKind]bool{}
	for _, c := range sampleChanges() {
		seen[c.Kind()] = true
	}
	for k := core.ChangePutBucket; k <= core.ChangeRepairData; k++ {
		require.True(t, seen[k] || k == 12, "kind %d", k)
	}
}

func TestDecodeTruncatedAndFlipped(t *testing.T) {
	b := AppendChanges(nil, sampleChanges())
	for n := range b {
		_, err := DecodeChanges(b[:n])
		require.Error(t, err, "cut at %d", n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 { // a flipped bit must not cause a panic or an unbounded allocation
		c := append([]byte(nil), b...)
		c[r.IntN(len(c))] ^= 1 << r.IntN(8)
		_, _ = DecodeChanges(c)
	}
}

// TestReservedKinds checks that the numbers that are reserved for future kinds of changes are refused, like all unknown
// numbers.
func TestReservedKinds(t *testing.T) {
	for _, kind := range []byte{12, 22} {
		for version, length := range map[byte][]byte{1: {0, 0, 0, 0}, encodingVersion: {0}} {
			record := append([]byte{version, 1, kind, 1}, length...) // one change with the sequence 1 and no body
			_, err := DecodeChanges(record)
			require.Equal(t, core.Unsupported, core.KindOf(err), "kind %d: %v", kind, err)
		}
	}
}

func TestNewerIsUnsupported(t *testing.T) {
	b := AppendChanges(nil, []core.Change{&core.Void{From: 1, To: 2}})
	newer := append([]byte{}, b...)
	newer[0]++
	_, err := DecodeChanges(newer)
	require.Equal(t, core.Unsupported, core.KindOf(err))
	newer = append([]byte{}, b...)
	newer[2] = 200 // the kind
	_, err = DecodeChanges(newer)
	require.Equal(t, core.Unsupported, core.KindOf(err))

	o := AppendObject(nil, &core.ObjectInfo{ETag: "x"}, 0)
	o[1] |= 0x80 // an unknown field
	require.Equal(t, core.Unsupported, core.KindOf(DecodeObject(o, &core.ObjectInfo{}, 0)))
}

func TestETagForms(t *testing.T) {
	for _, etag := range []string{"", "x", "0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789abcdef",
		"0123456789abcdef0123456789abcdef-1", "0123456789abcdef0123456789abcdef-10000", "0123456789abcdef0123456789abcdef-01",
		"0123456789abcdef0123456789abcdef-0", "0123456789abcdef0123456789abcdef-", "0123456789abcdef0123456789abcdef--1", "a-b"} {
		e, got := coder{}, ""
		e.etag(&etag)
		d := coder{b: e.b, decoding: true}
		d.etag(&got)
		require.Equal(t, etag, got)
		require.NoError(t, d.done())
	}
}

func TestTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMilli(0).UTC(), time.UnixMilli(-1).UTC(), time.UnixMilli(1).UTC(),
		time.Date(1, 2, 3, 4, 5, 6, 7e6, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)} {
		e, got := coder{}, time.Time{}
		e.time(&at)
		d := coder{b: e.b, decoding: true}
		d.time(&got)
		require.Equal(t, at, got)
		require.NoError(t, d.done())
	}
}

func TestLongExtentsAreShort(t *testing.T) {
	block := core.MakeBlockID(1, 2, 3)
	var extents []core.Extent
	for i := range int64(1280) { // 5 GiB in chunks of 4 MiB
		extents = append(extents, core.Extent{Block: block, Offset: 64 + i<<22, Length: 1 << 22})
	}
	b := AppendExtents(nil, extents)
	require.Less(t, len(b), 40)
	got, err := DecodeExtents(b)
	require.NoError(t, err)
	require.Equal(t, extents, got)
}

func FuzzDecodeChanges(f *testing.F) {
	f.Add(AppendChanges(nil, sampleChanges()))
	if old, err := os.ReadFile("testdata/changes1"); err == nil {
		f.Add(old)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		changes, err := DecodeChanges(b)
		if err != nil {
			return
		}
		again, err := DecodeChanges(AppendChanges(nil, changes))
		require.NoError(t, err)
		require.Equal(t, changes, again)
	})
}

// TestEachBlock checks that EachBlock and DecodeData return the same blocks and lengths.
func TestEachBlock(t *testing.T) {
	full := *sampleObject().Segments[0].Info
	other := core.MakeBlockID(7, 2, 10)
	full.Extents = append(full.Extents, core.Extent{Block: other, Offset: 64, Length: 100}, core.Extent{Block: other, Offset: 500, Length: 200})
	bare := core.DataInfo{ID: 1, Size: 5, Extents: full.Extents[:1]}
	for _, d := range []core.DataInfo{full, bare, {ID: 2}} {
		want, got := map[core.BlockID]int64{}, map[core.BlockID]int64{}
		for _, e := range d.Extents {
			want[e.Block] += e.Length
		}
		old := coder{} // the form of schema version 2
		old.data(&d)
		size, err := EachBlock(old.b, func(block core.BlockID, length int64) { got[block] += length })
		require.NoError(t, err)
		require.Equal(t, d.Size, size)
		require.Equal(t, want, got)
		encoded := AppendDataRow(nil, &d)
		clear(got)
		size, err = EachBlock(encoded, func(block core.BlockID, length int64) { got[block] += length })
		require.NoError(t, err)
		require.Equal(t, d.Size, size)
		require.Equal(t, want, got)
		for _, b := range [][]byte{old.b, encoded} {
			decoded, err := DecodeDataRow(b, d.ID)
			require.NoError(t, err)
			require.Equal(t, &d, decoded)
		}
		require.Less(t, len(encoded), len(old.b))
		require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = EachBlock(encoded, func(core.BlockID, int64) {}) }))
		for n := range encoded {
			_, _ = EachBlock(encoded[:n], func(core.BlockID, int64) {}) // it may return an error, but must not panic
		}
	}
}

// TestObjectDecoder: a decoder of many objects returns the same objects as DecodeObject, and none of them changes when
// others are decoded or appended to.
func TestObjectDecoder(t *testing.T) {
	var d ObjectDecoder
	var got, want []core.ObjectInfo
	for i := range 1000 {
		o := core.ObjectInfo{
			Modified: time.UnixMilli(int64(i)).UTC(), Size: int64(i), ETag: fmt.Sprintf("%032x", i), Owner: fmt.Sprint("owner ", i),
			Segments: make([]core.Segment, i%5), Attrs: make([]core.Attr, i%3), Tags: make([]core.Attr, i%4), Sums: make([]core.Checksum, i%3),
		}
		if i == 500 {
			o.Segments = make([]core.Segment, 1000)
		}
		for n := range o.Segments {
			o.Segments[n] = core.Segment{Data: core.DataID(1000*i + n), From: int64(n), Length: int64(i)}
		}
		for n := range o.Attrs {
			o.Attrs[n] = core.Attr{Name: "Content-Type", Value: fmt.Sprint(i, n)}
		}
		for n := range o.Tags {
			o.Tags[n] = core.Attr{Name: fmt.Sprint(n), Value: fmt.Sprint(i)}
		}
		for n := range o.Sums {
			o.Sums[n] = core.Checksum{Algorithm: checksum.CRC32, Value: []byte{byte(i), byte(i >> 8), 0, byte(n)}}
		}
		b := AppendObject(nil, &o, 0)
		var shared, alone core.ObjectInfo
		require.NoError(t, d.Decode(b, &shared, 0))
		require.NoError(t, DecodeObject(b, &alone, 0))
		got, want = append(got, shared), append(want, alone)
		_ = append(shared.Sums, core.Checksum{Algorithm: checksum.MD5}) // must not be in the next object
		_ = append(shared.Segments, core.Segment{Data: 1})
		_ = append(shared.Attrs, core.Attr{Name: "other"})
	}
	require.Equal(t, want, got)
}
