package vfs_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/core/reclaim"
	"orcas/core/snapshot"
	"orcas/vfs"
)

// form makes small documents that have much in common, and by themselves repeat little.
func form(i int) []byte {
	b := random(uint64(i), 12)
	return fmt.Appendf(nil, `{"applicant":{"given_name":"%x","family_name":"%x","date_of_birth":"19%02d-01-%02d"},"employment_status":"retired","household_income":%d,"declared_residency":"%x","supporting_documents":["passport_copy","proof_of_address"],"decision":null}`,
		b[:3], b[3:6], i%100, 1+i%28, i*7919%100_000, b[6:])
}

// ofBothKinds runs a test with content that is not encrypted, and with content that is.
func ofBothKinds(t *testing.T, test func(t *testing.T, kind func(*vfs.Options))) {
	t.Run("plain", func(t *testing.T) {
		needsPlain(t)
		test(t, func(*vfs.Options) {})
	})
	t.Run("sealed", func(t *testing.T) {
		test(t, func(o *vfs.Options) {
			o.Keys, o.EncryptAll = parseKeys(t, firstKey), true
		})
	})
}

// learn puts forms until a dictionary is made, and one more under key.
func (w *world) learn(key string) {
	w.t.Helper()
	for i := range 256 {
		w.put(fmt.Sprint("form/", i), form(i))
	}
	made, err := w.fs.TrainNow(ctx)
	require.NoError(w.t, err)
	require.Equal(w.t, 1, made)
	w.put(key, form(1000))
}

func TestDictionaryOfABucket(t *testing.T) { ofBothKinds(t, testDictionaryOfABucket) }

func testDictionaryOfABucket(t *testing.T, kind func(*vfs.Options)) {
	w := worldWith(t, mem.NewBlocks(), kind)
	w.compressed(codec.Better)
	w.put("before", form(2000))
	require.Zero(t, w.dataOf("before").Dictionary)
	w.learn("after")
	id := w.dataOf("after").Dictionary
	require.NotZero(t, id)
	require.Less(t, storedBytes(w.dataOf("after"))-frame.HeaderSize, (storedBytes(w.dataOf("before"))-frame.HeaderSize)*2/3)
	w.requireContent("after", form(1000))
	w.requireContent("before", form(2000))
	for i := range 256 {
		w.requireContent(fmt.Sprint("form/", i), form(i))
	}
	w.put("random", random(1, 3000))
	require.Zero(t, w.dataOf("random").Dictionary, "what does not shrink needs none")
	w.put("large", text(1, 100_000))
	require.Zero(t, w.dataOf("large").Dictionary)

	made, err := w.fs.TrainNow(ctx)
	require.NoError(t, err)
	require.Zero(t, made, "there are no new samples")
}

// TestDictionaryAfterAStart reads with an FS that knows nothing yet, and goes on with the bucket's dictionary.
func TestDictionaryAfterAStart(t *testing.T) { ofBothKinds(t, testDictionaryAfterAStart) }

func testDictionaryAfterAStart(t *testing.T, kind func(*vfs.Options)) {
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, kind)
	w.compressed(codec.Fast)
	w.learn("k")
	id := w.dataOf("k").Dictionary
	writer, err := batch.Open(ctx, batch.Options{Meta: w.meta, Blocks: blocks})
	require.NoError(t, err)
	defer writer.Close()
	o := vfs.Options{Meta: w.meta, Blocks: blocks, Writer: writer}
	kind(&o)
	w.fs, err = vfs.New(o)
	require.NoError(t, err)
	w.requireContent("k", form(1000))
	w.put("k2", form(1001))
	require.Equal(t, id, w.dataOf("k2").Dictionary)
}

// TestDictionariesThatDoNotPay shows what is not taken into use: nothing, and what saves too little.
func TestDictionariesThatDoNotPay(t *testing.T) {
	for name, content := range map[string]func(i int) []byte{
		"random":            func(i int) []byte { return random(uint64(i), 2000) },
		"nothing in common": func(i int) []byte { return bytes.Repeat(random(uint64(i), 500), 4) },
	} {
		w := newWorld(t)
		w.compressed(codec.Better)
		for i := range 600 {
			w.put(fmt.Sprint(i), content(i))
		}
		made, err := w.fs.TrainNow(ctx)
		require.NoError(t, err)
		require.Zero(t, made, name)
		w.put("k", content(9999))
		require.Zero(t, w.dataOf("k").Dictionary)
	}
	w := newWorld(t)
	w.compressed(codec.Off)
	for i := range 600 {
		w.put(fmt.Sprint(i), form(i))
	}
	made, err := w.fs.TrainNow(ctx)
	require.NoError(t, err)
	require.Zero(t, made, "a bucket that does not compress")
}

// TestDictionaryOutlivesItsBucket copies content by reference into another bucket and deletes its own.
func TestDictionaryOutlivesItsBucket(t *testing.T) { ofBothKinds(t, testDictionaryOutlivesItsBucket) }

func testDictionaryOutlivesItsBucket(t *testing.T, kind func(*vfs.Options)) {
	w := worldWith(t, mem.NewBlocks(), kind)
	w.compressed(codec.Better)
	w.learn("k")
	source, err := w.fs.Stat(ctx, w.b, "k", core.Current)
	require.NoError(t, err)
	records := func() int {
		list, err := w.meta.Records(ctx, core.DictionaryKind, "", 10)
		require.NoError(t, err)
		return len(list)
	}
	require.NoError(t, w.fs.SweepDictionaries(ctx))
	require.Equal(t, 1, records(), "its bucket is there")

	other, err := w.fs.CreateBucket(ctx, core.BucketInfo{Name: "other"})
	require.NoError(t, err)
	_, err = w.fs.Copy(ctx, vfs.CopyRequest{SourceBucket: w.b, Source: source, Bucket: other, Key: "copy"})
	require.NoError(t, err)
	all, err := w.fs.List(ctx, core.ListQuery{Bucket: w.b.ID, Limit: 1000})
	require.NoError(t, err)
	for _, o := range all.Objects {
		require.NoError(t, w.fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: o.Key}})[0].Err)
	}
	require.NoError(t, w.fs.DeleteBucket(ctx, w.b))
	require.NoError(t, w.fs.SweepDictionaries(ctx))
	require.Equal(t, 1, records(), "the copy names it")
	w.b = other
	w.requireContent("copy", form(1000))

	require.NoError(t, w.fs.Delete(ctx, other, "", []vfs.DeleteRequest{{Key: "copy"}})[0].Err)
	require.NoError(t, w.fs.SweepDictionaries(ctx))
	require.Zero(t, records())
}

// TestDictionaryIsRebuilt makes the metadata again from the blocks, from records alone and from a snapshot.
func TestDictionaryIsRebuilt(t *testing.T) { ofBothKinds(t, testDictionaryIsRebuilt) }

func testDictionaryIsRebuilt(t *testing.T, kind func(*vfs.Options)) {
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, kind)
	w.compressed(codec.Better)
	w.learn("k")
	for _, withSnapshot := range []bool{false, true} {
		if withSnapshot {
			_, err := snapshot.Write(ctx, w.meta, blocks, snapshot.WriteOptions{})
			require.NoError(t, err)
		}
		after, meta := blocks.Crash(), mem.NewMeta()
		found, err := batch.Rebuild(ctx, meta, after, slog.New(slog.DiscardHandler), false)
		require.NoError(t, err)
		require.Equal(t, withSnapshot, found.Snapshot != nil)
		writer, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: after})
		require.NoError(t, err)
		o := vfs.Options{Meta: meta, Blocks: after, Writer: writer}
		kind(&o)
		fs, err := vfs.New(o)
		require.NoError(t, err)
		again := &world{t: t, fs: fs, b: w.b}
		again.requireContent("k", form(1000))
		require.NoError(t, writer.Close())
	}
}

// TestLostDictionary takes the record away behind the back of everybody: an error that says so, and fsck names what is lost.
func TestLostDictionary(t *testing.T) { ofBothKinds(t, testLostDictionary) }

func testLostDictionary(t *testing.T, kind func(*vfs.Options)) {
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, kind)
	w.compressed(codec.Better)
	w.learn("k")
	list, err := w.meta.Records(ctx, core.DictionaryKind, "", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	report, err := reclaim.Check(ctx, w.meta, blocks, reclaim.CheckOptions{Content: true})
	require.NoError(t, err)
	require.Zero(t, report.Found, "%v", report.Differences)

	state, err := w.meta.State(ctx)
	require.NoError(t, err)
	change := &core.PutRecord{Record: core.Record{Kind: core.DictionaryKind, Key: list[0].Key}}
	change.Seq = state.Seq + 1
	_, err = w.meta.Apply(ctx, []core.Change{change})
	require.NoError(t, err)
	report, err = reclaim.Check(ctx, w.meta, blocks, reclaim.CheckOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]int{reclaim.KindDictionary: 1}, report.ByKind)
	require.Contains(t, report.Differences[0].Where, `"k"`)
	require.Contains(t, report.Differences[0].Text, list[0].Key)

	change = &core.PutRecord{Record: core.Record{Kind: core.DictionaryKind, Key: list[0].Key, Value: []byte("\x01nonsense")}}
	change.Seq = state.Seq + 2
	_, err = w.meta.Apply(ctx, []core.Change{change})
	require.NoError(t, err)
	report, err = reclaim.Check(ctx, w.meta, blocks, reclaim.CheckOptions{})
	require.NoError(t, err)
	require.Equal(t, 2, report.ByKind[reclaim.KindDictionary], "the record, and the content that needs it")

	writer, err := batch.Open(ctx, batch.Options{Meta: w.meta, Blocks: mem.NewBlocks()})
	require.NoError(t, err)
	defer writer.Close()
	o := vfs.Options{Meta: w.meta, Blocks: blocks, Writer: writer}
	kind(&o)
	w.fs, err = vfs.New(o)
	require.NoError(t, err)
	_, err = w.read("k", 0, -1)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
}

// TestDictionariesWhileInUse trains and sweeps beside writers and readers of several buckets.
func TestDictionariesWhileInUse(t *testing.T) {
	w := worldWith(t, mem.NewBlocks(), func(o *vfs.Options) { o.Compression = codec.Fast })
	life, end := context.WithCancel(ctx)
	var background, writers sync.WaitGroup
	background.Go(func() { w.fs.Train(life) })
	for g := range 4 {
		b, err := w.fs.CreateBucket(ctx, core.BucketInfo{Name: fmt.Sprint("bucket-", g)})
		require.NoError(t, err)
		writers.Go(func() {
			mine := &world{t: t, fs: w.fs, b: b}
			for i := range 700 {
				key := fmt.Sprint(i % 50)
				mine.put(key, form(i+1000*g))
				mine.requireContent(key, form(i+1000*g))
			}
		})
	}
	writers.Wait()
	end()
	background.Wait()
	require.NoError(t, w.fs.SweepDictionaries(ctx))
}

// TestDictionariesOfTwoKinds: what is not encrypted has another dictionary than what is, nothing of which can be read on the drive; and what a customer's key encrypts
// has none.
func TestDictionariesOfTwoKinds(t *testing.T) {
	needsPlain(t)
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, withKeys(t, firstKey))
	w.compressed(codec.Better)
	mine, err := codec.NewKey(bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	for i := range 600 {
		w.encrypt(fmt.Sprint("mine/", i), form(i), vfs.Encryption{Customer: mine})
	}
	train := func(want int) {
		made, err := w.fs.TrainNow(ctx)
		require.NoError(t, err)
		require.Equal(t, want, made)
	}
	train(0)
	before := w.encrypt("before", form(2000), vfs.Encryption{Store: true})
	for i := range 256 {
		w.encrypt(fmt.Sprint("sealed/", i), form(i), vfs.Encryption{Store: true})
	}
	train(1)
	sealed := w.encrypt("k", form(1000), vfs.Encryption{Store: true})
	require.NotZero(t, sealed.Dictionary)
	require.Less(t, storedBytes(sealed)-frame.HeaderSize, (storedBytes(before)-frame.HeaderSize)*2/3)
	w.requireContent("k", form(1000))
	w.requireContent("sealed/7", form(7))

	word := []byte("supporting_documents")
	list, err := w.meta.Records(ctx, core.DictionaryKind, "", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.False(t, bytes.Contains(list[0].Value, word))
	dump := func() (all []byte) {
		require.NoError(t, blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
			r, err := blocks.Open(ctx, core.Extent{Block: b.ID, Length: b.Size})
			require.NoError(t, err)
			part := make([]byte, b.Size)
			_, err = r.ReadAt(part, 0)
			require.NoError(t, err)
			all = append(all, part...)
			return r.Close()
		}))
		return all
	}
	require.False(t, bytes.Contains(dump(), word))

	require.Zero(t, w.encrypt("mine", form(1000), vfs.Encryption{Customer: mine}).Dictionary)
	w.put("plain", form(1000))
	require.Zero(t, w.dataOf("plain").Dictionary, "the sealed one is not for it")
	w.learn("plain")
	w.put("other", form(1002))
	require.NotZero(t, w.dataOf("other").Dictionary)
	require.NotEqual(t, sealed.Dictionary, w.dataOf("other").Dictionary)
	require.Equal(t, sealed.Dictionary, w.encrypt("k2", form(1001), vfs.Encryption{Store: true}).Dictionary)
	require.True(t, bytes.Contains(dump(), word), "the plain one is there to be read")
	w.requireContent("other", form(1002))
}

// TestDictionaryUnderANewKey rotates the master keys, cut off anywhere: the dictionary is there under both until it needs the new one only.
func TestDictionaryUnderANewKey(t *testing.T) {
	needsPlain(t)
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, func(o *vfs.Options) {
		o.Keys, o.EncryptAll = parseKeys(t, firstKey), true
	})
	w.compressed(codec.Better)
	w.learn("k")
	require.NotZero(t, w.dataOf("k").Dictionary)
	record := func() *core.DictionaryRecord {
		list, err := w.meta.Records(ctx, core.DictionaryKind, "", 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
		r, err := core.DecodeDictionary(list[0])
		require.NoError(t, err)
		return r
	}
	require.EqualValues(t, 1, record().KeyID)
	ends := map[uint32]int{}
	for left := 1; ; left++ {
		both := w.reopened(blocks, secondKey+","+firstKey)
		_, err := both.fs.Rotate(&stopping{Context: ctx, left: left})
		w.reopened(blocks, secondKey+","+firstKey).requireContent("k", form(1000))
		if err == nil {
			break
		}
		require.Equal(t, core.Canceled, core.KindOf(err), "%v", err)
		ends[record().KeyID]++
	}
	require.Positive(t, ends[1])
	require.Positive(t, ends[2], "a rotation that is cut off behind the dictionary")
	only := w.reopened(blocks, secondKey)
	require.NoError(t, only.fs.CheckKeys(ctx))
	only.requireContent("k", form(1000))
	_, err := w.reopened(blocks, firstKey).read("k", 0, -1)
	require.Error(t, err)
}
