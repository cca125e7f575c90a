package core

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
)

func sampleObject() ObjectInfo {
	at := time.UnixMilli(1_790_000_000_123).UTC()
	block := MakeBlockID(7, 2, 9)
	info := &DataInfo{
		ID: 42, Size: 9 << 20, SHA256: [32]byte{1, 2, 3}, Codec: 1, KeyID: 3, DataKey: []byte("wrapped"), ChunkSize: 4 << 20, Scope: 5, Head: [32]byte{4, 5, 6},
		Sums:    []Checksum{{Algorithm: checksum.MD5, Value: make([]byte, 16)}, {Algorithm: checksum.CRC64NVME, Value: []byte("12345678")}},
		Extents: []Extent{{block, 64, 4 << 20}, {block, 64 + 4<<20, 4 << 20}, {block, 64 + 8<<20, 1 << 20}},
	}
	return ObjectInfo{
		Bucket: 5, Key: "a/b\x00\xff", Null: true, Modified: at, Size: 9 << 20, ETag: "0123456789abcdef0123456789abcdef-3",
		Sums:     []Checksum{{Algorithm: checksum.SHA1, Composite: true, Parts: 3, Value: make([]byte, 20)}},
		Attrs:    []Attr{{"Content-Type", "text/plain"}, {"x-amz-meta-a", "b"}},
		Tags:     []Attr{{"k", ""}},
		Owner:    "me",
		Lock:     Lock{Mode: LockGovernance, Until: at, Hold: HoldOn},
		Segments: []Segment{{42, 0, 9 << 20, info}, {43, 5, 6, nil}},
		Parts:    3, Placed: at.Add(5e6), Index: []PartIndex{{256, 0}, {600, 5}},
	}
}

func sampleChanges() []Change {
	o := sampleObject()
	at := o.Modified
	cond := Precondition{Match: []string{"*", "x"}, NoneMatch: []string{"y"}, Seq: 3, Modified: at, HasSize: true, Size: 9}
	source := &Source{Bucket: 1, Key: "src", Seq: 99}
	equal := &Source{Content: &ContentKey{Scope: 5, KeyID: 7, SHA256: [32]byte{9, 8}, Size: 77}, Sums: []Checksum{{Algorithm: checksum.SHA1, Value: make([]byte, 20)}}}
	upload := UploadInfo{Bucket: 1, Key: "k", Initiated: at, Owner: "o", Algorithm: checksum.CRC32, Composite: true, Attrs: o.Attrs, Tags: o.Tags, Lock: o.Lock}
	part := PartInfo{Number: 7, Modified: at, Size: 11, ETag: "odd", Sums: o.Sums, Segments: o.Segments}
	listed := o
	listed.Segments, listed.List = nil, 17
	changes := []Change{
		&PutBucket{Info: BucketInfo{ID: 1, Name: "b", Owner: "o", Region: "r", Created: at, Versioning: VersioningSuspended, ObjectLock: true, Retention: DefaultRetention{LockCompliance, 3, 4}, ChunkSize: 1, Compression: 1, Encrypted: true, Attrs: o.Attrs}},
		&PutBucket{Info: BucketInfo{Name: "b"}},
		&DeleteBucket{Bucket: 3},
		&PutObject{Object: o, If: cond, Source: source},
		&PutObject{Object: ObjectInfo{Key: "k", Modified: at}},
		&DeleteObject{Bucket: 1, Key: "k", Version: Null, If: cond, Modified: at, Owner: "o", Bypass: true},
		&UpdateObject{Bucket: 1, Key: "k", Version: 7, SetTags: true, Tags: o.Tags, Time: at},
		&UpdateObject{Bucket: 1, Key: "k", SetRetention: true, SetHold: true, Lock: o.Lock, Time: at, Bypass: true},
		&PutObject{Object: ObjectInfo{Key: "k", Modified: at, Segments: []Segment{{42, 0, 77, nil}}}, Source: equal},
		&PutObject{Object: ObjectInfo{Key: "k", Modified: at, Segments: []Segment{{42, 0, 77, nil}}}, Source: &Source{Content: &ContentKey{Scope: 5, Size: 77, Head: true}}},
		&CreateUpload{Upload: upload},
		&PutPart{Bucket: 1, Key: "k", Upload: 2, Part: part, Source: source},
		&CompleteUpload{Upload: 2, Parts: []PartRef{{1, 2}, {3, 4}}, Object: listed, If: cond},
		&AbortUpload{Bucket: 1, Key: "k", Upload: 4},
		&PutRecord{Record: Record{"k", "n", []byte("v")}, HasExpect: true, Expect: []byte("w")},
		&PutRecord{Record: Record{"k", "n", nil}},
		&SetFloor{Floor: MakeBlockID(1, 2, 3)},
		&Synced{UpTo: 77, Floor: MakeBlockID(1, 2, 3), Relaxed: true},
		&Synced{UpTo: 78},
		&RewrapData{Data: 7, From: []byte("old"), KeyID: 9, DataKey: []byte("new")},
		&Void{From: 4, To: 9},
		&MoveData{Data: 3, From: o.Segments[0].Info.Extents, To: o.Segments[0].Info.Extents[:1]},
		&FreeGarbage{IDs: []uint64{1, 9}},
		&DropParts{Garbage: 4, Count: 5},
		&MoveObject{From: *source, Bucket: 2, Key: "l", If: cond, Lock: o.Lock, Token: "t", Time: at, Owner: "o"},
		&MoveObject{From: *source, Bucket: 2, Key: "l", Time: at},
		&Unshare{Data: 12},
	}
	for i, c := range changes {
		c.Place().Seq = Seq(100 + i*3)
	}
	return changes
}

func TestChangesRoundTrip(t *testing.T) {
	changes := sampleChanges()
	b := AppendChanges([]byte("before"), changes)
	got, err := DecodeChanges(b[len("before"):])
	require.NoError(t, err)
	require.Equal(t, changes, got)
}

// TestEveryKindIsEncoded fails when a change is added without a line in sampleChanges.
func TestEveryKindIsEncoded(t *testing.T) {
	seen := map[changeKind]bool{}
	for _, c := range sampleChanges() {
		seen[c.kind()] = true
	}
	for k := kindPutBucket; k <= kindUpdate; k++ {
		require.True(t, seen[k] || k == 12, "kind %d", k)
	}
}

func TestDecodeCutAndFlipped(t *testing.T) {
	b := AppendChanges(nil, sampleChanges())
	for n := range b {
		_, err := DecodeChanges(b[:n])
		require.Error(t, err, "cut at %d", n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 { // no flip may panic or take memory without bound
		c := append([]byte(nil), b...)
		c[r.IntN(len(c))] ^= 1 << r.IntN(8)
		_, _ = DecodeChanges(c)
	}
}

func TestNewerIsUnsupported(t *testing.T) {
	b := AppendChanges(nil, []Change{&Void{From: 1, To: 2}})
	newer := append([]byte{}, b...)
	newer[0]++
	_, err := DecodeChanges(newer)
	require.Equal(t, Unsupported, KindOf(err))
	newer = append([]byte{}, b...)
	newer[2] = 200 // the kind
	_, err = DecodeChanges(newer)
	require.Equal(t, Unsupported, KindOf(err))

	o := AppendObject(nil, &ObjectInfo{ETag: "x"})
	o[1] |= 0x80 // a field that does not exist yet
	require.Equal(t, Unsupported, KindOf(DecodeObject(o, &ObjectInfo{})))
}

func TestETagForms(t *testing.T) {
	for _, etag := range []string{"", "x", "0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789abcdef",
		"0123456789abcdef0123456789abcdef-1", "0123456789abcdef0123456789abcdef-10000", "0123456789abcdef0123456789abcdef-01",
		"0123456789abcdef0123456789abcdef-0", "0123456789abcdef0123456789abcdef-", "0123456789abcdef0123456789abcdef--1", "a-b"} {
		d := decoder{b: appendETag(nil, etag)}
		require.Equal(t, etag, d.etag())
		require.NoError(t, d.done())
	}
}

func TestTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMilli(0).UTC(), time.UnixMilli(-1).UTC(), time.UnixMilli(1).UTC(),
		time.Date(1, 2, 3, 4, 5, 6, 7e6, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)} {
		d := decoder{b: appendTime(nil, at)}
		require.Equal(t, at, d.time())
		require.NoError(t, d.done())
	}
}

func TestLongExtentsAreShort(t *testing.T) {
	block := MakeBlockID(1, 2, 3)
	var extents []Extent
	for i := range int64(1280) { // 5 GiB in chunks of 4 MiB
		extents = append(extents, Extent{block, 64 + i<<22, 1 << 22})
	}
	b := AppendExtents(nil, extents)
	require.Less(t, len(b), 40)
	got, err := DecodeExtents(b)
	require.NoError(t, err)
	require.Equal(t, extents, got)
}

func FuzzDecodeChanges(f *testing.F) {
	f.Add(AppendChanges(nil, sampleChanges()))
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

func TestVersionIDs(t *testing.T) {
	for _, v := range []Version{Current, Null, 1, 1 << 40} {
		got, err := ParseVersion(v.String())
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	for _, s := range []string{"NULL", "1", "00000000000000000", "ffffffffffffffff", "000000000000000g", "0000000000000000"} {
		_, err := ParseVersion(s)
		require.Equal(t, InvalidArgument, KindOf(err), s)
	}
}

func TestSuccessorAndCommonPrefix(t *testing.T) {
	require.Equal(t, "b", Successor("a"))
	require.Equal(t, "b", Successor("a\xff"))
	require.Equal(t, "", Successor("\xff\xff"))
	for _, c := range []struct {
		key, prefix, delimiter, want string
		rolled                       bool
	}{
		{"a/b/c", "", "/", "a/", true},
		{"a/b/c", "a/", "/", "a/b/", true},
		{"a/", "a/", "/", "", false},
		{"a--b", "", "--", "a--", true},
		{"ab", "", "/", "", false},
		{"xb/", "a", "/", "", false},
	} {
		got, rolled := CommonPrefix(c.key, c.prefix, c.delimiter)
		require.Equal(t, c.want, got)
		require.Equal(t, c.rolled, rolled)
	}
}

// TestBlocksInLogs: who reads that a block is damaged has to find its file.
func TestBlocksInLogs(t *testing.T) {
	var text bytes.Buffer
	id := BlockID{0: 0xab, 11: 3, 15: 0x1c}
	slog.New(slog.NewJSONHandler(&text, nil)).Error("damaged", "block", id)
	require.Contains(t, text.String(), `"block":"ab00000000000000000000030000001c"`)
}
