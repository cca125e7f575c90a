package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/auth"
	"orcas/gate"
	"orcas/s3"
)

// TestRoutesOfAllAPIs: the rows of all APIs can be in one table: their names are unique, and their actions have the
// prefix of their API.
func TestRoutesOfAllAPIs(t *testing.T) {
	names := map[string]bool{}
	for prefix, rows := range map[string][]*gate.Route{"s3:": s3.Routes(), "orcas:": admin.Routes()} {
		require.NotEmpty(t, rows)
		for _, r := range rows {
			require.False(t, names[prefix+r.Name], r.Name)
			names[prefix+r.Name] = true
			for _, a := range append([]auth.Action{r.Action, r.VersionAction}, r.Secondary...) {
				require.True(t, a == "" || strings.HasPrefix(string(a), prefix), "%s: %s", r.Name, a)
			}
		}
	}
}
