// Package memlimit determines how much memory a process may use before the kernel kills it: the limit of its control
// group (cgroup), which container runtimes, Kubernetes and systemd set.
package memlimit

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// unlimited is the smallest limit, in bytes, that means no limit: version 1 of control groups shows the absence of a
// limit as the largest multiple of the page size.
const unlimited = 1 << 62

// Read returns the limit of this process in bytes, or 0 if it has none or if the limit cannot be read.
func Read() int64 { return read(os.DirFS("/")) }

// read is Read for the files below root. The limit of every control group above that of the process applies too, so it
// returns the lowest one.
func read(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return 0
	}
	lowest := int64(0)
	for _, m := range parseMounts(mounts) {
		group, ok := findGroup(groups, m.v2)
		if !ok {
			continue
		}
		for _, dir := range m.directories(group) {
			if n := readLimit(root, path.Join(dir, m.file())); n > 0 && (lowest == 0 || n < lowest) {
				lowest = n
			}
		}
	}
	return lowest
}

// mount is a mounted hierarchy of control groups that can limit memory.
type mount struct {
	root string // the control group that the mount point shows
	at   string // the mount point
	v2   bool   // of version 2
}

// file returns the name of the file with the limit of a control group.
func (m *mount) file() string {
	if m.v2 {
		return "memory.max"
	}
	return "memory.limit_in_bytes"
}

// directories returns the directory of a control group and of all control groups above it that the mount shows. In a
// container, the path of the control group may not be below the root of the mount; the mount shows the container's.
func (m *mount) directories(group string) []string {
	below, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !ok || below != "" && below[0] != '/' || strings.Contains(below, "..") {
		below = "/"
	}
	top := strings.TrimPrefix(m.at, "/")
	list := []string{top}
	for below = path.Clean(below); below != "/" && below != "."; below = path.Dir(below) {
		list = append(list, path.Join(top, below))
	}
	return list
}

// parseMounts returns the hierarchies of /proc/self/mountinfo that can limit memory. A line has the root in its fourth
// field and the mount point in its fifth; after " - " follow the file system, the source and the options.
func parseMounts(text []byte) []mount {
	var list []mount
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(place) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{root: unescape(place[3]), at: unescape(place[4]), v2: kind[0] == "cgroup2"}
		if m.v2 || kind[0] == "cgroup" && strings.Contains(","+kind[2]+",", ",memory,") {
			list = append(list, m)
		}
	}
	return list
}

// unescape returns a path of mountinfo, in which white space and backslashes are octal numbers.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// findGroup returns the control group of the process from /proc/self/cgroup, whose lines are ID:CONTROLLERS:PATH. In
// version 2 there are no controllers.
func findGroup(text []byte, v2 bool) (string, bool) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		f := strings.SplitN(lines.Text(), ":", 3)
		if len(f) != 3 {
			continue
		}
		if v2 && f[0] == "0" && f[1] == "" || !v2 && strings.Contains(","+f[1]+",", ",memory,") {
			return f[2], true
		}
	}
	return "", false
}

// readLimit returns the limit in a file, or 0 if there is none.
func readLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is not a number
	if err != nil || n <= 0 || n >= unlimited {
		return 0
	}
	return n
}
