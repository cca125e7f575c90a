// Package latency counts durations in classes of fixed bounds, of which there are four for each power of two
// microseconds. So a histogram has a fixed size, adding to it is cheap, and its quantiles are at most a quarter too
// large.
package latency

import (
	"math/bits"
	"time"
)

const classBits = 2

// Classes is the number of classes.
const Classes = 64 << classBits

// Class returns the class of a duration.
func Class(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 1<<classBits {
		return int(us)
	}
	power := bits.Len64(us) - 1 - classBits
	return power<<classBits + int(us>>power) // the highest bit of us>>power adds one more power
}

// Longest returns the longest duration of a class, in whole microseconds.
func Longest(class int) time.Duration {
	if class < 1<<classBits {
		return time.Duration(class) * time.Microsecond
	}
	power := class>>classBits - 1
	within := uint64(class&(1<<classBits-1) | 1<<classBits)
	return time.Duration((within+1)<<power-1) * time.Microsecond
}

// Histogram has the number of durations in each class.
type Histogram [Classes]int64

// Quantile returns the duration within which a share of the durations, from 0 to 1, lies. It overestimates by up to a
// quarter. It returns 0 if the histogram is empty.
func (h *Histogram) Quantile(share float64) time.Duration {
	var total int64
	for _, n := range h {
		total += n
	}
	left := int64(share * float64(total))
	longest := 0
	for i, n := range h {
		if n == 0 {
			continue
		}
		if left -= n; left < 0 {
			return Longest(i)
		}
		longest = i
	}
	return Longest(longest)
}
