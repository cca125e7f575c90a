package build

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	hash := "0123456789abcdef0123456789abcdef01234567"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: modified}}
	}
	for name, c := range map[string]struct {
		linked Info
		built  debug.BuildInfo
		want   Info
	}{
		"release":      {Info{"v0.2.0", hash, "2026-01-02T03:04:05Z"}, debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026"}}, Info{"0.2.0", hash, "2026-01-02T03:04:05Z"}},
		"version only": {Info{Version: "0.1.0-dev"}, debug.BuildInfo{Settings: vcs("true")}, Info{Version: "0.1.0-dev"}},
		"module":       {Info{}, debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026"}, Settings: vcs("false")}, Info{"v0.0.0-2026", hash, "2026-01-02T03:04:05Z"}},
		"commit":       {Info{}, debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("true")}, Info{hash[:12], hash + "+dirty", "2026-01-02T03:04:05Z"}},
		"no VCS":       {Info{}, debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, Info{Version: "devel"}},
	} {
		require.Equal(t, c.want, of(c.linked, &c.built), name)
	}
	require.NotEmpty(t, Read().Version)
}
