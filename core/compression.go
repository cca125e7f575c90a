package core

import "fmt"

// Compression is the compression level for the new content of a bucket. The values are stored with buckets and are
// never reused.
type Compression uint8

// The values of Compression.
const (
	CompressionDefault Compression = iota // the setting of the server
	CompressionOff                        // no compression
	CompressionFast                       // the least CPU time
	CompressionBetter                     // three to four times the CPU time of fast, and about a tenth less space
)

var compressionNames = [...]string{"default", "off", "fast", "better"}

// String returns the name of c.
func (c Compression) String() string {
	if int(c) < len(compressionNames) {
		return compressionNames[c]
	}
	return fmt.Sprintf("level %d", uint8(c))
}

// ParseCompression is the inverse of String.
func ParseCompression(s string) (Compression, error) {
	for c, name := range compressionNames {
		if s == name {
			return Compression(c), nil
		}
	}
	return 0, fmt.Errorf("%q is not a compression level: expected off, fast or better", s)
}
