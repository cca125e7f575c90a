package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/coretest"
)

func openAt(t testing.TB, dir string, o Options) *Meta {
	m, err := Open(filepath.Join(dir, "meta.db"), o)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// The suites use short runs, so that pairs of the hash index are written and merged after a few changes, and the tests
// find them in every state.
func TestMeta(t *testing.T) {
	coretest.Meta(t, func(t *testing.T) core.Meta { return openAt(t, t.TempDir(), Options{runLength: 1}) })
}

func TestMetaReopen(t *testing.T) {
	coretest.MetaReopen(t, func(t *testing.T, dir string) core.Meta { return openAt(t, dir, Options{}) })
}

func TestMetaModel(t *testing.T) {
	coretest.MetaModel(t, func(t *testing.T) core.Meta { return openAt(t, t.TempDir(), Options{runLength: 7}) })
}
