// Package bytesize parses and formats numbers of bytes the way people type them.
//
// A size is a number, an optional space, and an optional unit: 65536, 64KiB, 64 KiB, 1.5GiB, 64KB. Units from B to PiB
// are recognized in any case. KiB, MiB, GiB, TiB and PiB are powers of 1024; KB, MB, GB, TB and PB are powers of 1000.
// Bare K, M and G are refused, because programs disagree about whether they are powers of 1024 or 1000. A fraction is
// accepted if the result is a whole number of bytes.
package bytesize

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are all units, in lower case, and the number of bytes in each.
var units = map[string]int64{
	"": 1, "b": 1,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15,
}

// maxFraction is the maximum number of digits after the point: a PiB is 2^50 bytes, so a longer fraction is never a
// whole number of bytes.
const maxFraction = 50

// Size is a number of bytes. A flag of this type is parsed by Parse.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := Parse(string(text))
	*s = Size(n)
	return err
}

// String formats the size with Format.
func (s Size) String() string { return Format(int64(s)) }

// Parse returns the number of bytes in s, from 0 to 2^63-1.
func Parse(s string) (int64, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit, ok := units[strings.ToLower(s[len(number):])]
	number = strings.TrimSuffix(number, " ")
	whole, fraction, point := strings.Cut(number, ".")
	if !ok || !digits(whole) || point && !digits(fraction) {
		return 0, fmt.Errorf("%q is not a size: expected a number of bytes such as 65536, 64KiB (1024) or 64KB (1000)", s)
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is too large for a size", s)
	}
	part, err := scale(fraction, unit)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", s, err)
	}
	if n *= unit; n > math.MaxInt64-part {
		return 0, fmt.Errorf("%q is too large for a size", s)
	}
	return n + part, nil
}

// scale returns 0.fraction times unit, or an error if that is not a whole number. It is exact, like long
// multiplication: from the last digit to the first, the remainder of each division by ten is one decimal digit of the
// result.
func scale(fraction string, unit int64) (int64, error) {
	fraction = strings.TrimRight(fraction, "0")
	exact, whole := len(fraction) <= maxFraction, int64(0)
	for i := len(fraction) - 1; i >= 0 && exact; i-- {
		whole += int64(fraction[i]-'0') * unit
		exact = whole%10 == 0
		whole /= 10
	}
	if !exact {
		return 0, errors.New("not a whole number of bytes")
	}
	return whole, nil
}

// digits reports whether s is one or more decimal digits.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// ParseRange parses a size that must be from lowest to highest.
func ParseRange(s string, lowest, highest int64) (int64, error) {
	n, err := Parse(s)
	if err == nil && (n < lowest || n > highest) {
		err = fmt.Errorf("%s is out of range: expected %s to %s", s, Format(lowest), Format(highest))
	}
	return n, err
}

// Format returns the shortest text that Parse parses as n: in the largest binary unit that divides n.
func Format(n int64) string {
	names := []string{"", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for ; n != 0 && n%1024 == 0 && i < len(names)-1; i++ {
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + names[i]
}

// Round formats n for people, with three or four digits: 1023 B, 48.2 MiB, 1.50 GiB.
func Round(n int64) string {
	for _, u := range []struct {
		size   int64
		name   string
		digits int
	}{{1 << 40, "TiB", 2}, {1 << 30, "GiB", 2}, {1 << 20, "MiB", 1}, {1 << 10, "KiB", 1}} {
		if n >= u.size {
			return strconv.FormatFloat(float64(n)/float64(u.size), 'f', u.digits, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}
