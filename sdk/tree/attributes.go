package tree

import (
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Names of metadata (x-amz-meta-NAME) in which attributes of files are kept.
const (
	metaTime  = "mtime" // seconds since 1970 with nanoseconds, as rclone and s3fs write it
	metaMode  = "mode"  // type and permissions in decimal, as s3fs writes them; rclone writes octal digits
	metaOwner = "uid"
	metaGroup = "gid"

	// Names of the metadata of versions that were copied from another bucket.
	metaSourceVersion = "orcas-source-version-id"
	metaSourceTime    = "orcas-source-last-modified" // RFC 3339 with nanoseconds, UTC
)

// linkSuffix is the end of the key of a stored symbolic link, as rclone writes it.
const linkSuffix = ".rclonelink"

// Types of files in the mode of Unix.
const (
	unixType      = 0o170000
	unixRegular   = 0o100000
	unixDirectory = 0o040000
	unixLink      = 0o120000
)

// attributes are the attributes of a file that metadata can have.
type attributes struct {
	modified time.Time // zero: not recorded
	mode     uint32    // type and permissions as on Unix; 0: not recorded
	owner    int       // -1: not recorded
	group    int       // -1: not recorded
}

// isLink reports whether the attributes are those of a symbolic link, as s3fs stores it.
func (a *attributes) isLink() bool { return a.mode&unixType == unixLink }

// formatTime returns a time as rclone writes it.
func formatTime(ns int64) string {
	sign, abs := "", ns
	if ns < 0 {
		sign, abs = "-", -ns
	}
	s := sign + strconv.FormatInt(abs/1e9, 10)
	if frac := abs % 1e9; frac != 0 {
		digits := strconv.FormatInt(1e9+frac, 10)[1:]
		s += "." + strings.TrimRight(digits, "0")
	}
	return s
}

// parseTime parses a time in seconds, with or without a fraction. Nanoseconds after the ninth digit are cut off.
func parseTime(s string) (time.Time, bool) {
	rest, negative := strings.CutPrefix(s, "-")
	whole, frac, _ := strings.Cut(rest, ".")
	sec, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || sec >= 1<<40 || strings.HasPrefix(whole, "+") {
		return time.Time{}, false
	}
	ns := uint64(0)
	if frac != "" {
		frac = (frac + "000000000")[:9]
		if ns, err = strconv.ParseUint(frac, 10, 64); err != nil {
			return time.Time{}, false
		}
	}
	if negative {
		return time.Unix(-int64(sec), -int64(ns)), true
	}
	return time.Unix(int64(sec), int64(ns)), true
}

// parseMode parses a mode: in decimal with a type, as s3fs writes it, or octal digits, as rclone writes them.
func parseMode(s string) (uint32, bool) {
	if decimal, err := strconv.ParseUint(s, 10, 32); err == nil && !strings.HasPrefix(s, "0") {
		switch {
		case decimal&unixType == unixRegular, decimal&unixType == unixDirectory, decimal == unixLink|0o777:
			if decimal <= 0o177777 {
				return uint32(decimal), true
			}
		}
	}
	octal, err := strconv.ParseUint(s, 8, 32)
	if err != nil || octal > 0o177777 {
		return 0, false
	}
	return uint32(octal), true
}

// readAttributes returns the attributes in an object's metadata. Values that make no sense are ignored.
func readAttributes(meta map[string]string) attributes {
	a := attributes{owner: -1, group: -1}
	if t, ok := parseTime(meta[metaTime]); ok {
		a.modified = t
	}
	if m, ok := parseMode(meta[metaMode]); ok {
		a.mode = m
	}
	if n, err := strconv.ParseUint(meta[metaOwner], 10, 31); err == nil {
		a.owner = int(n)
	}
	if n, err := strconv.ParseUint(meta[metaGroup], 10, 31); err == nil {
		a.group = int(n)
	}
	return a
}

// metadata returns the metadata of a local file: base, and the attributes of the entry.
func metadata(e *entry, base map[string]string, preserve bool) map[string]string {
	m := make(map[string]string, len(base)+4)
	maps.Copy(m, base)
	m[metaTime] = formatTime(e.modified)
	if preserve {
		m[metaMode] = strconv.FormatUint(uint64(unixMode(e.mode)), 10)
		if e.owned {
			m[metaOwner] = strconv.FormatUint(uint64(e.owner), 10)
			m[metaGroup] = strconv.FormatUint(uint64(e.group), 10)
		}
	}
	return m
}

// unixMode returns a mode as Unix has it.
func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	switch {
	case m.IsDir():
		mode |= unixDirectory
	case m&fs.ModeSymlink != 0:
		mode |= unixLink
	default:
		mode |= unixRegular
	}
	return mode
}
