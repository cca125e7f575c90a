package codec

import "strings"

// compressedTypes are prefixes of media types whose content is usually already compressed.
var compressedTypes = [...]string{
	"audio/", "font/woff", "image/", "video/",
	"application/epub+zip", "application/gzip", "application/java-archive", "application/pdf", "application/vnd.android.package-archive",
	"application/vnd.apache.parquet", "application/vnd.oasis.opendocument", "application/vnd.openxmlformats-officedocument", "application/vnd.rar",
	"application/x-7z-compressed", "application/x-brotli", "application/x-bzip", "application/x-gzip", "application/x-lz4", "application/x-lzip",
	"application/x-rar", "application/x-xz", "application/x-zip", "application/zip", "application/zstd",
}

// rawTypes are prefixes of the exceptions: media types in compressedTypes whose content is not compressed.
var rawTypes = [...]string{"audio/wav", "audio/x-wav", "image/bmp", "image/svg+xml", "image/tiff", "image/x-ms-bmp", "image/x-portable"}

// IsCompressedType reports whether content of a media type (a Content-Type header) is usually compressed.
func IsCompressedType(contentType string) bool {
	return hasPrefix(contentType, compressedTypes[:]) && !hasPrefix(contentType, rawTypes[:])
}

// hasPrefix reports whether s begins with one of list, ignoring case.
func hasPrefix(s string, list []string) bool {
	for _, prefix := range list {
		if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// IsCompressedEncoding reports whether a Content-Encoding header names a compression.
func IsCompressedEncoding(contentEncoding string) bool {
	for e := range strings.SplitSeq(contentEncoding, ",") {
		switch strings.ToLower(strings.TrimSpace(e)) {
		case "br", "compress", "deflate", "gzip", "x-gzip", "zstd":
			return true
		}
	}
	return false
}
