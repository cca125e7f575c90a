package iam

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocs compares the table of actions in docs/iam.md with the routes.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/iam.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## Actions\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, served []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z, ]*) \|`).FindAllStringSubmatch(section, -1) {
		documented = append(documented, strings.Split(m[1], ", ")...)
	}
	for _, r := range allRoutes() {
		served = append(served, r.Name)
	}
	slices.Sort(documented)
	slices.Sort(served)
	require.Equal(t, served, documented)
}
