package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTallyOf(t *testing.T) {
	o := &ObjectInfo{Size: 7}
	require.Equal(t, Tally{Versions: 1, Bytes: 7}, TallyOf(o, true))
	require.Equal(t, Tally{Versions: 1, Bytes: 7, NoncurrentVersions: 1, NoncurrentBytes: 7}, TallyOf(o, false))
	require.Equal(t, Tally{DeleteMarkers: 1}, TallyOf(&ObjectInfo{Marker: true}, true))
	require.Equal(t, Tally{DeleteMarkers: 1}, TallyOf(&ObjectInfo{Marker: true}, false))
}

func TestTallyArithmetic(t *testing.T) {
	a, b := Tally{1, 2, 3, 4, 5, 6, 7}, Tally{70, 60, 50, 40, 30, 20, 10}
	require.Equal(t, Tally{71, 62, 53, 44, 35, 26, 17}, a.Plus(b))
	require.Equal(t, b, a.Plus(b).Minus(a))
	require.Equal(t, int64(20), b.Objects())
	require.Equal(t, Usage{Bytes: 70, Objects: 70}, b.Usage())
	require.Equal(t, "1 versions with 2 bytes, 3 noncurrent versions with 4 bytes, 5 delete markers, and 6 uploads with 7 bytes", a.String())
}

// A sum that is too large for an int64 is shown as the largest one, limits a quota, and comes back exactly.
func TestTallyTooLarge(t *testing.T) {
	const most = math.MaxInt64
	large := Tally{Versions: 1, Bytes: most - 10}
	both := large.Plus(Tally{Versions: 1, Bytes: 20})
	require.Equal(t, Tally{Versions: 2, Bytes: most}, both.Clamped())
	require.Equal(t, Tally{Versions: 2, Bytes: most}, Tally{Versions: 2, Bytes: math.MinInt64}.Clamped())
	require.Equal(t, Usage{Bytes: most, Objects: 1}, Tally{Versions: 1, Bytes: most, UploadBytes: 1}.Usage())
	require.Equal(t, Tally{Versions: 1, Bytes: 20}, both.Minus(large))
	require.Equal(t, Tally{}, Tally{Versions: -1, Bytes: -100, UploadBytes: -1}.Clamped())
	require.Error(t, Quota{Bytes: most}.Admit(Tally{Bytes: most, UploadBytes: 1}.Usage(), Usage{Bytes: 1}))
}
