package content_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/dictionary"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/core/snapshot"
	"orcas/fsck"
	"orcas/storetest"
	"orcas/vfs"
)

// form returns a small document. Different forms have much in common, but each one has little repetition in itself.
func form(i int) []byte {
	b := storetest.Random(uint64(i), 12)
	return fmt.Appendf(nil, `{"applicant":{"given_name":"%x","family_name":"%x","date_of_birth":"19%02d-01-%02d"},"employment_status":"retired","household_income":%d,"declared_residency":"%x","supporting_documents":["passport_copy","proof_of_address"],"decision":null}`,
		b[:3], b[3:6], i%100, 1+i%28, i*7919%100_000, b[6:])
}

// ofBothKinds runs a test with unencrypted content and with encrypted content.
func ofBothKinds(t *testing.T, test func(t *testing.T, kind func(*content.Options))) {
	t.Run("plain", func(t *testing.T) {
		storetest.NeedsPlain(t)
		test(t, func(*content.Options) {})
	})
	t.Run("encrypted", func(t *testing.T) {
		test(t, func(o *content.Options) {
			o.Keys, o.EncryptAll = parseKeys(t, firstKey), true
		})
	})
}

// learn puts enough forms to train a dictionary, and then one more under key.
func (w *world) learn(key string) {
	w.T.Helper()
	for i := range 256 {
		w.Put(fmt.Sprint("form/", i), form(i))
	}
	require.Equal(w.T, 1, w.train())
	w.Put(key, form(1000))
}

// train trains dictionaries on the samples collected so far, and returns how many it activated.
func (w *world) train() int {
	w.T.Helper()
	activated, err := content.NewTrainer(w.FS.Engine, w.FS, nil).TrainNow(ctx)
	require.NoError(w.T, err)
	return activated
}

// sweep deletes the dictionaries that are no longer needed, and returns their number.
func (w *world) sweep() int {
	w.T.Helper()
	deleted, err := content.NewTrainer(w.FS.Engine, w.FS, nil).Sweep(ctx)
	require.NoError(w.T, err)
	return deleted
}

func TestDictionaryOfABucket(t *testing.T) { ofBothKinds(t, testDictionaryOfABucket) }

func testDictionaryOfABucket(t *testing.T, kind func(*content.Options)) {
	w := worldWith(t, mem.NewBlocks(), kind)
	w.compressed(core.CompressionBetter)
	w.Put("before", form(2000))
	require.Zero(t, w.dataOf("before").Dictionary)
	w.learn("after")
	id := w.dataOf("after").Dictionary
	require.NotZero(t, id)
	require.Less(t, storedBytes(w.dataOf("after"))-frame.HeaderSize, (storedBytes(w.dataOf("before"))-frame.HeaderSize)*2/3)
	w.RequireContent("after", form(1000))
	w.RequireContent("before", form(2000))
	for i := range 256 {
		w.RequireContent(fmt.Sprint("form/", i), form(i))
	}
	w.Put("random", storetest.Random(1, 3000))
	require.Zero(t, w.dataOf("random").Dictionary, "incompressible content needs no dictionary")
	w.Put("large", storetest.Text(1, 100_000))
	require.Zero(t, w.dataOf("large").Dictionary)

	require.Zero(t, w.train(), "there are no new samples")
}

// TestDictionaryAfterAStart reads through a new FS with empty caches, which must continue to use the bucket's
// dictionary.
func TestDictionaryAfterAStart(t *testing.T) { ofBothKinds(t, testDictionaryAfterAStart) }

func testDictionaryAfterAStart(t *testing.T, kind func(*content.Options)) {
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, kind)
	w.compressed(core.CompressionFast)
	w.learn("k")
	id := w.dataOf("k").Dictionary
	writer, err := batch.Open(ctx, batch.Options{Meta: w.Meta, Blocks: blocks})
	require.NoError(t, err)
	defer writer.Close()
	o := content.Options{Meta: w.Meta, Blocks: blocks, Writer: writer}
	kind(&o)
	w.FS, err = storetest.NewFS(o)
	require.NoError(t, err)
	w.RequireContent("k", form(1000))
	w.Put("k2", form(1001))
	require.Equal(t, id, w.dataOf("k2").Dictionary)
}

// TestDictionariesThatDoNotPay checks that no dictionary is activated if it saves too little, or if compression is off.
func TestDictionariesThatDoNotPay(t *testing.T) {
	for name, body := range map[string]func(i int) []byte{
		"random":            func(i int) []byte { return storetest.Random(uint64(i), 2000) },
		"nothing in common": func(i int) []byte { return bytes.Repeat(storetest.Random(uint64(i), 500), 4) },
	} {
		w := newWorld(t)
		w.compressed(core.CompressionBetter)
		for i := range 600 {
			w.Put(fmt.Sprint(i), body(i))
		}
		require.Zero(t, w.train(), name)
		w.Put("k", body(9999))
		require.Zero(t, w.dataOf("k").Dictionary)
	}
	w := newWorld(t)
	w.compressed(core.CompressionOff)
	for i := range 600 {
		w.Put(fmt.Sprint(i), form(i))
	}
	require.Zero(t, w.train(), "compression of the bucket is off")
}

// TestDictionaryOutlivesItsBucket copies content by reference into another bucket, and then deletes the first bucket.
func TestDictionaryOutlivesItsBucket(t *testing.T) { ofBothKinds(t, testDictionaryOutlivesItsBucket) }

func testDictionaryOutlivesItsBucket(t *testing.T, kind func(*content.Options)) {
	w := worldWith(t, mem.NewBlocks(), kind)
	w.compressed(core.CompressionBetter)
	w.learn("k")
	source, err := w.FS.Stat(ctx, w.Bucket, "k", core.Current)
	require.NoError(t, err)
	records := func() int {
		list, err := w.Meta.Records(ctx, dictionary.Kind, "", 10)
		require.NoError(t, err)
		return len(list)
	}
	require.Zero(t, w.sweep())
	require.Equal(t, 1, records(), "its bucket still exists")

	other, err := w.FS.CreateBucket(ctx, core.BucketInfo{Name: "other"})
	require.NoError(t, err)
	_, err = w.FS.Copy(ctx, vfs.CopyRequest{SourceBucket: w.Bucket, Source: source, Bucket: other, Key: "copy"})
	require.NoError(t, err)
	all, err := w.FS.List(ctx, core.ListQuery{Bucket: w.Bucket.ID, Limit: 1000})
	require.NoError(t, err)
	for _, o := range all.Objects {
		require.NoError(t, w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: o.Key}})[0].Err)
	}
	require.NoError(t, w.FS.DeleteBucket(ctx, w.Bucket))
	require.Zero(t, w.sweep())
	require.Equal(t, 1, records(), "the copy still refers to it")
	w.Bucket = other
	w.RequireContent("copy", form(1000))

	require.NoError(t, w.FS.Delete(ctx, other, "", []vfs.DeleteRequest{{Key: "copy"}})[0].Err)
	require.Equal(t, 1, w.sweep())
	require.Zero(t, records())
}

// TestRepairNeedsNoDictionary checks that repaired content does not use a dictionary: copies in other buckets may refer
// to the content after the bucket of the upload and its dictionaries have been deleted.
func TestRepairNeedsNoDictionary(t *testing.T) { ofBothKinds(t, testRepairNeedsNoDictionary) }

func testRepairNeedsNoDictionary(t *testing.T, kind func(*content.Options)) {
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, kind)
	w.compressed(core.CompressionBetter)
	w.learn("k")
	was := w.dataOf("k")
	require.NotZero(t, was.Dictionary)
	require.NoError(t, blocks.Delete(ctx, was.Extents[0].Block))
	w.Put("again", form(1000))
	now := w.dataOf("k")
	require.Equal(t, was.ID, now.ID)
	require.Zero(t, now.Dictionary)
	w.RequireContent("k", form(1000))
}

// TestDictionaryIsRebuilt rebuilds the metadata from the blocks, first from records alone and then from a snapshot.
func TestDictionaryIsRebuilt(t *testing.T) { ofBothKinds(t, testDictionaryIsRebuilt) }

func testDictionaryIsRebuilt(t *testing.T, kind func(*content.Options)) {
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, kind)
	w.compressed(core.CompressionBetter)
	w.learn("k")
	for _, withSnapshot := range []bool{false, true} {
		if withSnapshot {
			_, err := snapshot.Write(ctx, w.Meta, blocks, snapshot.WriteOptions{})
			require.NoError(t, err)
		}
		after, meta := blocks.Crash(), mem.NewMeta()
		found, err := batch.Rebuild(ctx, meta, after, slog.New(slog.DiscardHandler), false)
		require.NoError(t, err)
		require.Equal(t, withSnapshot, found.Snapshot != nil)
		writer, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: after})
		require.NoError(t, err)
		o := content.Options{Meta: meta, Blocks: after, Writer: writer}
		kind(&o)
		fs, err := storetest.NewFS(o)
		require.NoError(t, err)
		again := w.In(w.Bucket)
		again.FS = fs
		again.RequireContent("k", form(1000))
		require.NoError(t, writer.Close())
	}
}

// TestLostDictionary deletes the record of a dictionary that is in use. Reads must fail, and fsck must name the
// affected object.
func TestLostDictionary(t *testing.T) { ofBothKinds(t, testLostDictionary) }

func testLostDictionary(t *testing.T, kind func(*content.Options)) {
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, kind)
	w.compressed(core.CompressionBetter)
	w.learn("k")
	list, err := w.Meta.Records(ctx, dictionary.Kind, "", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	report, err := fsck.Check(ctx, w.Meta, blocks, fsck.Options{Content: true})
	require.NoError(t, err)
	require.Zero(t, report.Found, "%v", report.Differences)

	state, err := w.Meta.State(ctx)
	require.NoError(t, err)
	change := &core.PutRecord{Record: core.Record{Kind: dictionary.Kind, Key: list[0].Key}}
	change.Seq = state.Seq + 1
	_, err = w.Meta.Apply(ctx, []core.Change{change})
	require.NoError(t, err)
	report, err = fsck.Check(ctx, w.Meta, blocks, fsck.Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]int{fsck.KindDictionary: 1}, report.ByKind)
	require.Contains(t, report.Differences[0].Where, `"k"`)
	require.Contains(t, report.Differences[0].Text, list[0].Key)

	change = &core.PutRecord{Record: core.Record{Kind: dictionary.Kind, Key: list[0].Key, Value: []byte("\x01nonsense")}}
	change.Seq = state.Seq + 2
	_, err = w.Meta.Apply(ctx, []core.Change{change})
	require.NoError(t, err)
	report, err = fsck.Check(ctx, w.Meta, blocks, fsck.Options{})
	require.NoError(t, err)
	require.Equal(t, 2, report.ByKind[fsck.KindDictionary], "the record and the content that needs it")

	writer, err := batch.Open(ctx, batch.Options{Meta: w.Meta, Blocks: mem.NewBlocks()})
	require.NoError(t, err)
	defer writer.Close()
	o := content.Options{Meta: w.Meta, Blocks: blocks, Writer: writer}
	kind(&o)
	w.FS, err = storetest.NewFS(o)
	require.NoError(t, err)
	_, err = w.Read("k", 0, -1)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
}

// TestDictionariesWhileInUse trains and sweeps dictionaries while several buckets are written and read.
func TestDictionariesWhileInUse(t *testing.T) {
	w := worldWith(t, mem.NewBlocks(), func(o *content.Options) { o.Compression = core.CompressionFast })
	life, end := context.WithCancel(ctx)
	var background, writers sync.WaitGroup
	background.Go(func() { content.NewTrainer(w.FS.Engine, w.FS, nil).Run(life) })
	for g := range 4 {
		b, err := w.FS.CreateBucket(ctx, core.BucketInfo{Name: fmt.Sprint("bucket-", g)})
		require.NoError(t, err)
		writers.Go(func() {
			mine := w.In(b)
			for i := range 700 {
				key := fmt.Sprint(i % 50)
				mine.Put(key, form(i+1000*g))
				mine.RequireContent(key, form(i+1000*g))
			}
		})
	}
	writers.Wait()
	end()
	background.Wait()
	w.sweep()
}

// TestDictionariesOfTwoKinds checks that encrypted and unencrypted content have different dictionaries, that the first
// one is not stored in plain text, and that content under a customer key has no dictionary.
func TestDictionariesOfTwoKinds(t *testing.T) {
	storetest.NeedsPlain(t)
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, withKeys(t, firstKey))
	w.compressed(core.CompressionBetter)
	mine, err := codec.NewKey(bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	for i := range 600 {
		w.encrypt(fmt.Sprint("mine/", i), form(i), content.Encryption{Customer: mine})
	}
	require.Zero(t, w.train())
	before := w.encrypt("before", form(2000), content.Encryption{Store: true})
	for i := range 256 {
		w.encrypt(fmt.Sprint("sealed/", i), form(i), content.Encryption{Store: true})
	}
	require.Equal(t, 1, w.train())
	sealed := w.encrypt("k", form(1000), content.Encryption{Store: true})
	require.NotZero(t, sealed.Dictionary)
	require.Less(t, storedBytes(sealed)-frame.HeaderSize, (storedBytes(before)-frame.HeaderSize)*2/3)
	w.RequireContent("k", form(1000))
	w.RequireContent("sealed/7", form(7))

	word := []byte("supporting_documents")
	list, err := w.Meta.Records(ctx, dictionary.Kind, "", 10)
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
			all = append(append(all, part...), storetest.PlainRecords(t, b.ID, part)...)
			return r.Close()
		}))
		return all
	}
	require.False(t, bytes.Contains(dump(), word))

	require.Zero(t, w.encrypt("mine", form(1000), content.Encryption{Customer: mine}).Dictionary)
	w.Put("plain", form(1000))
	require.Zero(t, w.dataOf("plain").Dictionary, "the encrypted dictionary must not be used")
	w.learn("plain")
	w.Put("other", form(1002))
	require.NotZero(t, w.dataOf("other").Dictionary)
	require.NotEqual(t, sealed.Dictionary, w.dataOf("other").Dictionary)
	require.Equal(t, sealed.Dictionary, w.encrypt("k2", form(1001), content.Encryption{Store: true}).Dictionary)
	require.True(t, bytes.Contains(dump(), word), "the plain dictionary is readable")
	w.RequireContent("other", form(1002))
}

// TestDictionaryUnderANewKey interrupts a rotation of the master keys at every point. The dictionary must be readable
// with both keys at any time, and with the new key alone after the rotation.
func TestDictionaryUnderANewKey(t *testing.T) {
	storetest.NeedsPlain(t)
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, func(o *content.Options) {
		o.Keys, o.EncryptAll = parseKeys(t, firstKey), true
	})
	w.compressed(core.CompressionBetter)
	w.learn("k")
	require.NotZero(t, w.dataOf("k").Dictionary)
	record := func() *dictionary.Record {
		list, err := w.Meta.Records(ctx, dictionary.Kind, "", 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
		r, err := dictionary.Decode(list[0])
		require.NoError(t, err)
		return r
	}
	require.EqualValues(t, 1, record().KeyID)
	ends := map[uint32]int{}
	for left := 1; ; left++ {
		both := w.reopened(blocks, secondKey+","+firstKey)
		_, err := content.NewRotator(both.FS.Engine).Run(&stopping{Context: ctx, left: left})
		w.reopened(blocks, secondKey+","+firstKey).RequireContent("k", form(1000))
		if err == nil {
			break
		}
		require.Equal(t, core.Canceled, core.KindOf(err), "%v", err)
		ends[record().KeyID]++
	}
	require.Positive(t, ends[1])
	require.Positive(t, ends[2], "no rotation was interrupted after it rewrapped the dictionary")
	only := w.reopened(blocks, secondKey)
	require.NoError(t, only.FS.CheckKeys(ctx))
	only.RequireContent("k", form(1000))
	_, err := w.reopened(blocks, firstKey).Read("k", 0, -1)
	require.Error(t, err)
}
