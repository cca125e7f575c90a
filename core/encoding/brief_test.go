package encoding

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
)

func TestBrief(t *testing.T) {
	usual := core.ObjectInfo{
		Modified: sampleObject().Modified, Size: 4096, ETag: "0123456789abcdef0123456789abcdef",
		Sums: []core.Checksum{{Algorithm: checksum.CRC64NVME, Value: make([]byte, 8)}}, Owner: "owner",
		Attrs: []core.Attr{{Name: "Content-Type", Value: "text/plain"}},
	}
	require.Len(t, AppendBrief(nil, &usual), 28)
	sample := sampleObject()
	composite := usual
	composite.ETag += "-3"
	composite.Sums = []core.Checksum{{Algorithm: checksum.SHA256, Composite: true, Parts: 3}, usual.Sums[0]}
	composite.Attrs = append(composite.Attrs, core.Attr{Name: core.StorageClassAttr, Value: "GLACIER"})
	r := rand.New(rand.NewPCG(1, 2))
	var d ObjectDecoder
	for _, o := range []core.ObjectInfo{{}, usual, sample, composite, {ETag: "not an MD5"}} {
		b := AppendBrief(nil, &o)
		want := o.Brief()
		got := core.ObjectInfo{Bucket: want.Bucket, Key: want.Key, Seq: want.Seq, Null: want.Null, Marker: want.Marker, Latest: want.Latest}
		require.NoError(t, d.DecodeBrief(b, &got))
		require.Equal(t, want, got)
		for n := range b {
			require.Error(t, d.DecodeBrief(b[:n], &got), "cut at %d", n)
		}
		for range 1000 { // no panic
			c := append([]byte(nil), b...)
			c[r.IntN(len(c))] ^= 1 << r.IntN(8)
			_ = d.DecodeBrief(c, &got)
		}
		b[1] |= 0x80 // an unknown field
		require.Equal(t, core.Unsupported, core.KindOf(d.DecodeBrief(b, &got)))
	}
}
