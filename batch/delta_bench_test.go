package batch_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/batch"
	"orcas/core"
	"orcas/core/disk"
	"orcas/core/snapshot"
	"orcas/core/sqlite"
	"orcas/internal/checksum"
)

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hashed returns a write like putting, with the checksums of real content, which cannot be compressed.
func hashed(w *batch.Writer, bucket core.BucketID, key string, n uint64, content []byte) batch.Write {
	p := putting(w, bucket, key, content)
	p.Info.SHA256 = sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
	sum := sha256.Sum256(p.Info.SHA256[:])
	p.Info.Sums = []core.Checksum{{Algorithm: checksum.MD5, Value: sum[:16]}}
	o := &p.Change.(*core.PutObject).Object
	o.Sums, o.ETag, o.Segments[0].Info = p.Info.Sums, hex.EncodeToString(sum[:16]), p.Info
	return p
}

// BenchmarkDelta overwrites random keys, a hundred in each batch, and writes the changes to a delta, reads it back, and
// restores the chain. Beside that it measures the complete snapshot.
func BenchmarkDelta(b *testing.B) {
	for _, size := range []int{256, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const keys, together = 100_000, 100
			changes := keys / 3
			dir := b.TempDir()
			blocks, err := disk.Open(dir, disk.Options{})
			require.NoError(b, err)
			meta, err := sqlite.Open(filepath.Join(dir, "metadata.db"), sqlite.Options{})
			require.NoError(b, err)
			w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: blocks})
			require.NoError(b, err)
			res, err := w.Do(ctx, batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "b", Created: time.UnixMilli(1)}}})
			require.NoError(b, err)
			content, n := make([]byte, size), uint64(0)
			put := func(count int) {
				for i := 0; i < count; i += together {
					writes := make([]batch.Write, together)
					for j := range writes {
						n++
						writes[j] = hashed(w, core.BucketID(res.Seq), fmt.Sprintf("prefix/%08d", n*7919%keys), n, content)
					}
					_, errs := w.DoAll(ctx, writes)
					require.NoError(b, errs[0])
				}
			}
			put(keys)
			began := cpuTime(b)
			base, err := snapshot.Write(ctx, meta, blocks, snapshot.WriteOptions{})
			require.NoError(b, err)
			require.NoError(b, snapshot.Read(ctx, blocks, base, func(*core.Row) error { return nil }))
			complete := cpuTime(b) - began
			put(changes)
			var wrote, read, restored time.Duration
			var info *snapshot.Info
			for i := 0; b.Loop(); i++ {
				began := cpuTime(b)
				info, err = delta(meta, blocks, base)
				require.NoError(b, err)
				written := cpuTime(b)
				require.NoError(b, snapshot.ReadDelta(ctx, blocks, info))
				wrote, read = wrote+written-began, read+cpuTime(b)-written
				fresh, err := sqlite.Open(filepath.Join(dir, fmt.Sprint("restored-", i)), sqlite.Options{Bulk: true})
				require.NoError(b, err)
				whole := *base
				began = cpuTime(b)
				require.NoError(b, snapshot.Restore(ctx, blocks, info, fresh))
				both := cpuTime(b) - began
				require.NoError(b, fresh.Close())
				fresh, err = sqlite.Open(filepath.Join(dir, fmt.Sprint("base-", i)), sqlite.Options{Bulk: true})
				require.NoError(b, err)
				began = cpuTime(b)
				require.NoError(b, snapshot.Restore(ctx, blocks, &whole, fresh))
				restored += both - (cpuTime(b) - began)
				require.NoError(b, fresh.Close())
				require.NoError(b, blocks.Delete(ctx, info.Deltas[0].Block))
			}
			per := float64(b.N) * float64(changes)
			b.ReportMetric(float64(wrote)/per, "write-cpu-ns/change")
			b.ReportMetric(float64(read)/per, "read-cpu-ns/change")
			b.ReportMetric(float64(restored)/per, "restore-cpu-ns/change")
			b.ReportMetric(float64(info.DeltaSize())/float64(changes), "B/change")
			b.ReportMetric(float64(complete)/float64(base.Rows), "complete-cpu-ns/row")
			b.ReportMetric(float64(base.Size)/float64(base.Rows), "complete-B/row")
			require.NoError(b, w.Close())
			require.NoError(b, meta.Close())
			require.NoError(b, blocks.Close())
		})
	}
}
