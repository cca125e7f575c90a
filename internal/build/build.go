// Package build tells what this binary was built from. A release is built with
//
//	-ldflags "-X orcas/internal/build.version=1.2.3 -X orcas/internal/build.commit=HASH -X orcas/internal/build.date=DATE"
//
// In other builds, the values come from the information that the Go toolchain embeds if it has found a repository.
package build

import (
	"runtime/debug"
	"strings"
)

// version, commit and date are set by the linker.
var version, commit, date string

// Info is the origin of a binary. Fields that are unknown are empty, except Version.
type Info struct {
	Version string // the release, a pseudo-version, the commit, or "devel"
	Commit  string // the full hash, followed by "+dirty" if the files had changes that were not committed
	Date    string // the time of the commit in UTC (RFC 3339)
}

// Read returns the origin of this binary.
func Read() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(Info{version, commit, date}, info)
}

// of completes what the linker has set with the information of the toolchain.
func of(linked Info, built *debug.BuildInfo) Info {
	if linked.Version != "" {
		linked.Version = strings.TrimPrefix(linked.Version, "v")
		return linked
	}
	i := Info{}
	dirty := ""
	for _, s := range built.Settings {
		switch {
		case s.Key == "vcs.revision":
			i.Commit = s.Value
		case s.Key == "vcs.time":
			i.Date = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	switch v := built.Main.Version; {
	case v != "" && v != "(devel)":
		i.Version = v
	case len(i.Commit) >= 12:
		i.Version = i.Commit[:12]
	default:
		i.Version = "devel"
	}
	if i.Commit != "" {
		i.Commit += dirty
	}
	return i
}
