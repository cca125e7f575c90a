package perf_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/perf"
)

// stored returns the number of bytes that content takes as frames, including headers.
func stored(e codec.Encoder, content []byte) (n int) {
	for at := 0; at < len(content); at += frame.MaxPlain {
		var h frame.Header
		piece := content[at:min(at+frame.MaxPlain, len(content))]
		if coded := e.Encode(nil, &h, piece); coded != nil {
			piece = coded
		}
		n += frame.HeaderSize + len(piece)
	}
	return n
}

// TestRecordsShrink: compression shrinks small JSON documents to at most a third, with a dictionary that was trained on
// other documents.
func TestRecordsShrink(t *testing.T) {
	r := perf.Records{Seed: 7, Size: 4096}
	var samples [][]byte
	for i := range 192 {
		samples = append(samples, r.Record(uint64(1_000_000+i)))
	}
	d, err := codec.Train(40_000, samples)
	require.NoError(t, err)
	var plain, alone, with int
	for i := range 500 {
		body := r.Record(uint64(i))
		require.Len(t, body, r.Size)
		require.True(t, json.Valid(body))
		require.Equal(t, body, r.Record(uint64(i)))
		plain += len(body)
		alone += stored(codec.Encoder{Level: core.CompressionBetter}, body)
		with += stored(codec.Encoder{Level: core.CompressionBetter, Dictionary: d}, body)
	}
	t.Logf("%.2f times smaller, frame headers included; without the dictionary %.2f", float64(plain)/float64(with), float64(plain)/float64(alone))
	require.GreaterOrEqual(t, float64(plain)/float64(with), 3.0)
}

// TestTextShrinks: the better level makes the text in the file ORCAS_CORPUS at least 2.5 times smaller (`make corpus`
// downloads a text).
func TestTextShrinks(t *testing.T) {
	path := os.Getenv("ORCAS_CORPUS")
	if path == "" {
		t.Skip("ORCAS_CORPUS is not set")
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Greater(t, len(text), 1<<20)
	for _, level := range []core.Compression{core.CompressionFast, core.CompressionBetter} {
		ratio := float64(len(text)) / float64(stored(codec.Encoder{Level: level}, text))
		t.Logf("%v: %.2f times smaller", level, ratio)
		if level == core.CompressionBetter {
			require.GreaterOrEqual(t, ratio, 2.5)
		}
	}
}
