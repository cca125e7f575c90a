package bytesize

import (
	"encoding"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "65536": 65536, "007": 7, "12B": 12, "12 b": 12,
		"64KiB": 64 << 10, "64 KiB": 64 << 10, "64kib": 64 << 10, "1MiB": 1 << 20, "3GiB": 3 << 30, "2TiB": 2 << 40, "1PiB": 1 << 50,
		"64KB": 64_000, "1mb": 1_000_000, "1GB": 1e9, "1TB": 1e12, "1PB": 1e15,
		"1.5GiB": 3 << 29, "0.5KiB": 512, "1.0": 1, "1.000KB": 1000, "1.001KB": 1001, "2.50MB": 2_500_000, "0.125KiB": 128, "0.0009765625KiB": 1,
		"9223372036854775807": math.MaxInt64, "8191PiB": 8191 << 50,
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, message := range map[string]string{
		"": "is not a size", "KiB": "is not a size", "64k": "64KiB", "64K": "64KiB", "1M": "is not a size", "-1": "is not a size", "+1": "is not a size",
		"1e3": "is not a size", "0x10": "is not a size", "1_000": "is not a size", "1,5KiB": "is not a size", ".5KiB": "is not a size", "1.KiB": "is not a size",
		"1.2.3": "is not a size", " 1": "is not a size", "1  KiB": "is not a size", "1KiB ": "is not a size", "64KiBs": "is not a size", "1%": "is not a size",
		"1.5": "whole number of bytes", "1.0001KiB": "whole number of bytes", "0.0001KB": "whole number of bytes",
		"9223372036854775808": "too large", "8192PiB": "too large", "8191.9999999PiB": "whole number", "9300PB": "too large",
		"1." + string(make([]byte, 60)): "is not a size",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, message, "%q", text)
	}
}

// TestParseIsExact compares Parse with rational numbers.
func TestParseIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`[0-9]{1,6}(\.[0-9]{1,12})?`).Draw(t, "number")
		unit := rapid.SampledFrom([]string{"", "B", "KiB", "KB", "MiB", "MB", "GiB", "GB", "TiB", "TB"}).Draw(t, "unit")
		bytes := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "KB": 1e3, "MiB": 1 << 20, "MB": 1e6, "GiB": 1 << 30, "GB": 1e9, "TiB": 1 << 40, "TB": 1e12}
		want, ok := new(big.Rat).SetString(number)
		require.True(t, ok)
		want.Mul(want, new(big.Rat).SetInt64(bytes[unit]))
		got, err := Parse(number + unit)
		require.Equal(t, want.IsInt() && want.Num().IsInt64(), err == nil, "%s%s: %v", number, unit, err)
		if err == nil {
			require.Equal(t, want.Num().Int64(), got)
		}
	})
}

func TestFormat(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1KiB", 65536: "64KiB", 8 << 20: "8MiB", 3 << 29: "1536MiB", 1 << 60: "1024PiB", 1000: "1000", 1025: "1025",
	} {
		require.Equal(t, want, Format(n))
		back, err := Parse(want)
		require.NoError(t, err)
		require.Equal(t, n, back)
	}
}

func TestRound(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 50 << 20: "50.0 MiB", 3 << 29: "1.50 GiB", 5 << 40: "5.00 TiB"} {
		require.Equal(t, want, Round(n))
	}
}

func TestSizeIsAFlag(t *testing.T) {
	var s Size
	var _ encoding.TextUnmarshaler = &s
	require.NoError(t, s.UnmarshalText([]byte("64KiB")))
	require.Equal(t, Size(65536), s)
	require.Equal(t, "64KiB", s.String())
	require.Error(t, s.UnmarshalText([]byte("64k")))
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"64KiB", "1.5GB", "9223372036854775807", "1.", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("Parse(%q) is %d: expected 0 or more", s, n)
		}
		if back, err := Parse(Format(n)); err != nil || back != n {
			t.Fatalf("Parse(%q) is %d, which is formatted as %q and parsed as %d, %v", s, n, Format(n), back, err)
		}
	})
}
