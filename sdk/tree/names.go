package tree

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"unicode/utf8"
)

// temporaryName matches the names of files that are being downloaded. They are not part of any tree.
var temporaryName = regexp.MustCompile(`^\.orcas-[0-9a-f]{16}(\.tmp)?$`)

const (
	nameMax = 255  // bytes of a name in most file systems
	keyMax  = 1024 // bytes of an S3 key
)

// nameRules are the rules of the local file system for names.
type nameRules struct {
	windows  bool // the names of Windows
	foldCase bool // names that differ only in case are the same file
}

// localRules returns the rules of this system for names below a directory.
func localRules(dir string) nameRules {
	return nameRules{windows: runtime.GOOS == "windows", foldCase: foldsCase(dir)}
}

// check returns an error if no file can have the relative slash path of a key. A path of a directory ends with "/".
func (r nameRules) check(path string) error {
	rest := strings.TrimSuffix(path, "/")
	for name := range strings.SplitSeq(rest, "/") {
		if err := r.checkName(name); err != nil {
			return err
		}
	}
	return nil
}

func (r nameRules) checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the key has an empty name between slashes")
	case name == "." || name == "..":
		return fmt.Errorf("the key contains the name %q", name)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("the key contains a zero byte")
	case len(name) > nameMax:
		return fmt.Errorf("the name %.20q... has %d bytes, and file systems allow %d", name, len(name), nameMax)
	case temporaryName.MatchString(name):
		return fmt.Errorf("the name %q is reserved for files that are being downloaded", name)
	case r.windows:
		return checkWindowsName(name)
	}
	return nil
}

// checkWindowsName returns an error if Windows does not allow a name, or means a device or another file by it.
func checkWindowsName(name string) error {
	for _, c := range name {
		if c < ' ' || strings.ContainsRune(`<>:"|?*\`, c) {
			return fmt.Errorf("the name %q contains the character %q, which Windows does not allow", name, c)
		}
	}
	if last := name[len(name)-1]; last == '.' || last == ' ' {
		return fmt.Errorf("the name %q ends with %q, which Windows removes", name, last)
	}
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return fmt.Errorf("the name %q is a device of Windows", name)
	}
	if rest, ok := strings.CutPrefix(base, "COM"); ok && isPortNumber(rest) {
		return fmt.Errorf("the name %q is a device of Windows", name)
	}
	if rest, ok := strings.CutPrefix(base, "LPT"); ok && isPortNumber(rest) {
		return fmt.Errorf("the name %q is a device of Windows", name)
	}
	return nil
}

// isPortNumber reports whether s is what follows COM or LPT in the name of a device.
func isPortNumber(s string) bool {
	return len(s) == 1 && s[0] >= '0' && s[0] <= '9' || s == "¹" || s == "²" || s == "³"
}

// checkKey returns an error if no object can have a key.
func checkKey(key string) error {
	switch {
	case !utf8.ValidString(key):
		return fmt.Errorf("the name is not valid UTF-8, as keys must be")
	case len(key) > keyMax:
		return fmt.Errorf("the key would have %d bytes, and S3 allows %d", len(key), keyMax)
	}
	return nil
}

// ancestry finds paths that are both a file and a directory, such as "a" beside "a/b", in a sorted stream of paths.
type ancestry struct {
	files []string // the files seen so far that are prefixes of the last path
}

// add adds the next path, and the name that its file will have. It returns the file that already has this name, or that
// of one of its directories, if there is one.
func (s *ancestry) add(path, name string) (file string) {
	n := len(s.files)
	for n > 0 && !strings.HasPrefix(path, s.files[n-1]) {
		n--
	}
	s.files = s.files[:n]
	for i := n - 1; i >= 0; i-- {
		if f := s.files[i]; f == name || len(path) > len(f) && path[len(f)] == '/' {
			return f
		}
	}
	if !strings.HasSuffix(path, "/") {
		s.files = append(s.files, name)
	}
	return ""
}
