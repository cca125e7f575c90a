package s3

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	const rate, window = 16 << 10, 5 * time.Minute
	for _, c := range []struct {
		name  string
		bytes int // of each write
		waits []time.Duration
		cut   int // number of writes after which the client is too slow; 0 if it never is
	}{
		{"fast", 256 << 10, repeat(time.Millisecond, 1_000_000), 0},
		{"just fast enough", 256 << 10, repeat(16*time.Second, 100), 0},
		{"slightly too slow", 256 << 10, repeat(17*time.Second, 100), 18}, // 18 * 17 s are the first five minutes
		{"a trickle", 1 << 10, repeat(2*time.Second, 1000), 150},
		{"too slow for less than the window", 256 << 10, repeat(50*time.Second, 5), 0},
		{"a pause, but fast enough on average", 5 << 20, append(repeat(time.Second, 10), 4*time.Minute, 50*time.Second), 0},
		{"fast at first, slow later", 256 << 10, append(repeat(10*time.Millisecond, 1000), repeat(30*time.Second, 30)...), 1020},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pace{rate: rate, window: window}
			cut := 0
			for i, d := range c.waits {
				if err := p.took(c.bytes, d); err != nil {
					cut = i + 1
					break
				}
			}
			require.Equal(t, c.cut, cut)
		})
	}
	p := pace{window: window}
	require.NoError(t, p.took(0, 24*time.Hour), "without a minimum rate, no client is too slow")
}

// A write is too slow if, and only if, it takes longer than its limit.
func TestPaceLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := pace{rate: 1 + random.Int64N(1<<20), window: time.Duration(1 + random.Int64N(int64(time.Hour)))}
		for range 20 {
			n := random.IntN(1 << 20)
			limit, longer := p.limit(n), p
			require.Positive(t, limit)
			require.Error(t, longer.took(n, limit+time.Microsecond))
			d := time.Duration(random.Int64N(int64(10 * time.Minute)))
			require.NoError(t, p.took(n, max(0, min(d, limit-time.Microsecond))))
		}
	}
}

func repeat(d time.Duration, n int) []time.Duration {
	list := make([]time.Duration, n)
	for i := range list {
		list[i] = d
	}
	return list
}
