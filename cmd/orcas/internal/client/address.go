package client

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"orcas/sdk/profile"
)

// Address is a command's argument: a bucket or an object of a profile, or a local path.
type Address struct {
	Profile string // "" is the default profile
	Bucket  string // "" is all buckets
	Key     string // a key or a prefix, as it is written
	Path    string // a local path, if Local
	Local   bool
}

// scheme is the beginning of an address that is not a local path. One letter is a drive of Windows.
var scheme = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9_.+-]+)://(.*)$`)

// parseAddress parses s3://BUCKET/KEY (the default profile), NAME://BUCKET/KEY (a named one) or a local path. A path that
// looks like an address can be written as ./NAME://... .
func parseAddress(text string) (Address, error) {
	if text == "" {
		return Address{}, usagef("an address must not be empty: expected s3://BUCKET/KEY, NAME://BUCKET/KEY or a local path")
	}
	if strings.ContainsRune(text, 0) {
		return Address{}, usagef("%q: an address must not contain a NUL character", text)
	}
	m := scheme.FindStringSubmatch(strings.ReplaceAll(text, "\n", "\x00"))
	if m == nil {
		return Address{Path: text, Local: true}, nil
	}
	name, rest := m[1], text[len(m[1])+len("://"):]
	a := Address{}
	if name != "s3" {
		if err := profile.CheckName(name); err != nil {
			return a, usagef("%q: expected s3://BUCKET/KEY or NAME://BUCKET/KEY, where NAME is a profile (orcas alias set NAME URL)", text)
		}
		a.Profile = name
	}
	a.Bucket, a.Key, _ = strings.Cut(rest, "/")
	switch {
	case a.Bucket == "" && a.Key != "":
		return a, usagef("%q has no bucket: expected %s://BUCKET/KEY", text, name)
	case strings.ContainsAny(a.Bucket, " \t?#%\\"):
		return a, usagef("%q is not the name of a bucket: it has 3 to 63 lower-case letters, digits, dots and hyphens", a.Bucket)
	}
	return a, nil
}

// parseRemote is parseAddress for a command that takes no local path. want says what it takes, such as s3://BUCKET/KEY.
func parseRemote(text, want string) (Address, error) {
	a, err := parseAddress(text)
	if err != nil {
		return a, err
	}
	switch {
	case a.Local:
		return a, usagef("expected %s, not the local path %q", want, text)
	case a.Bucket == "" && !strings.Contains(want, "[BUCKET"):
		return a, usagef("expected %s, not %q", want, text)
	case a.Key == "" && strings.Contains(want, "/KEY") && !strings.Contains(want, "[/KEY"):
		return a, usagef("expected %s, not %q", want, text)
	case a.Key != "" && !strings.Contains(want, "/KEY") && !strings.Contains(want, "/PREFIX"):
		return a, usagef("expected %s without a key, not %q", want, text)
	}
	return a, nil
}

// String returns the address as it is typed.
func (a Address) String() string {
	if a.Local {
		return a.Path
	}
	return a.root() + a.Bucket + a.slashKey()
}

// root returns the beginning of the addresses of a's profile, s3:// or NAME://.
func (a Address) root() string {
	if a.Profile == "" {
		return "s3://"
	}
	return a.Profile + "://"
}

func (a Address) slashKey() string {
	if a.Key == "" {
		return ""
	}
	return "/" + a.Key
}

// object returns the address of another key of the bucket.
func (a Address) object(key string) Address {
	a.Key = key
	return a
}

// isDirectory reports whether the address means a directory or a prefix rather than one name: it ends with a slash, or
// is a whole bucket.
func (a Address) isDirectory() bool {
	if a.Local {
		return strings.HasSuffix(a.Path, "/") || runtime.GOOS == "windows" && strings.HasSuffix(a.Path, `\`)
	}
	return a.Key == "" || strings.HasSuffix(a.Key, "/")
}

// name returns the last part of a path or key.
func (a Address) name() string {
	if a.Local {
		return filepath.Base(a.Path)
	}
	return a.Key[strings.LastIndexByte(a.Key, '/')+1:]
}

// standard reports whether the address means standard input or output.
func (a Address) standard() bool { return a.Local && a.Path == "-" }

// UsageError is an error in the command line.
type UsageError struct{ text string }

// Error says what was expected.
func (e *UsageError) Error() string { return e.text }

// ExitStatus returns StatusUsage.
func (e *UsageError) ExitStatus() int { return StatusUsage }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }
