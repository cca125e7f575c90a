package s3

import (
	"net"
	"strings"
	"unicode/utf8"
)

// MaxKeyBytes is the longest key.
const MaxKeyBytes = 1024

// reservedPrefixes and reservedSuffixes are those that S3 keeps for itself.
var (
	reservedPrefixes = []string{"xn--", "sthree-", "amzn-s3-demo-"}
	reservedSuffixes = []string{"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"}
)

// ValidBucketName says whether name can be the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens, a letter
// or digit at both ends and on both sides of a dot, no IPv4 address, nothing that S3 reserves.
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

// checkKey says whether key can be a key: 1 to 1024 bytes of UTF-8 without NUL.
func checkKey(key string) error {
	if len(key) > MaxKeyBytes {
		return errKeyTooLong.with("Size", itoa(int64(len(key)))).with("MaxSizeAllowed", itoa(MaxKeyBytes))
	}
	if key == "" {
		return argument("Key", key, "A key must be specified.")
	}
	if !utf8.ValidString(key) {
		return errInvalidURI
	}
	if strings.IndexByte(key, 0) >= 0 {
		return argument("Key", key, "A key cannot contain the NUL character.")
	}
	return nil
}
