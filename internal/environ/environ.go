// Package environ says which environment a server gets that the tools and the tests of ORCAS start.
package environ

import (
	"os"
	"slices"
	"strings"
)

// Without returns the environment of this process without the variables whose names begin with one of prefixes: what is
// meant for a tool is no setting of the server that it starts.
func Without(prefixes ...string) []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(v, prefix) })
	})
}
