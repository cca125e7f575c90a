package s3

import (
	"net"
	"strings"
	"unicode/utf8"

	"orcas/s3/apierr"
)

// MaxKeyBytes is the maximum length of a key, in bytes.
const MaxKeyBytes = 1024

// S3 reserves bucket names with these prefixes and suffixes.
var (
	reservedPrefixes = []string{"xn--", "sthree-", "amzn-s3-demo-"}
	reservedSuffixes = []string{"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"}
)

// ValidBucketName reports whether name is a valid bucket name: 3 to 63 lowercase letters, digits, dots and hyphens,
// with a letter or digit at both ends and on both sides of each dot. IPv4 addresses and names that S3 reserves are not
// valid.
func ValidBucketName(name string) bool {
	if len(name) < 3 || len(name) > 63 {
		return false
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			continue
		}
		if c != '-' && c != '.' || i == 0 || i == len(name)-1 {
			return false
		}
		if before := name[i-1]; before == '.' || c == '.' && before == '-' {
			return false
		}
	}
	if name[0] <= '9' && net.ParseIP(name) != nil {
		return false
	}
	for _, p := range reservedPrefixes {
		if strings.HasPrefix(name, p) {
			return false
		}
	}
	for _, s := range reservedSuffixes {
		if strings.HasSuffix(name, s) {
			return false
		}
	}
	return true
}

// checkKey returns an error if key is not valid: it must be 1 to 1024 bytes of UTF-8 without NUL.
func checkKey(key string) error {
	if len(key) > MaxKeyBytes {
		return errKeyTooLong.With("Size", itoa(int64(len(key)))).With("MaxSizeAllowed", itoa(MaxKeyBytes))
	}
	if key == "" {
		return apierr.Argument("Key", key, "A key must be specified.")
	}
	if !utf8.ValidString(key) {
		return errInvalidURI
	}
	if strings.IndexByte(key, 0) >= 0 {
		return apierr.Argument("Key", key, "A key cannot contain the NUL character.")
	}
	return nil
}

// climbs reports whether the ".." segments of a key lead above the root if the key is read as a path from left to
// right, as in "../a" and "a/../../b". Tools that turn objects into files would write such a key outside their
// directory. Empty segments and "." have no effect.
func climbs(key string) bool {
	if !strings.Contains(key, "..") {
		return false
	}
	depth := 0
	for segment := range strings.SplitSeq(key, "/") {
		switch segment {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}
