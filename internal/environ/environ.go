// Package environ builds the environment of servers that the tools and tests of ORCAS start.
package environ

import (
	"os"
	"slices"
	"strings"
)

// Without returns the environment of this process without the variables whose names begin with one of prefixes, because
// settings of a tool must not affect the server that it starts.
func Without(prefixes ...string) []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(v, prefix) })
	})
}
