package server

import (
	"context"
	"log/slog"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/disk"
	"orcas/core/sqlite"
)

// ability is an optional interface, and a function that reports whether a driver, or a wrapper around it, provides it.
type ability struct {
	typ   reflect.Type
	reach func(x any) bool
}

func abilityOf[T any]() ability {
	return ability{reflect.TypeFor[T](), func(x any) bool { _, ok := core.As[T](x); return ok }}
}

// abilities are all optional interfaces of metadata engines and block stores.
var abilities = []ability{
	abilityOf[core.SingleWriter](), abilityOf[core.Guesser](), abilityOf[core.Verifier](), abilityOf[core.Checkpointer](),
	abilityOf[core.MemoryReleaser](),
	abilityOf[core.Snapshotter](), abilityOf[core.Salvager](), abilityOf[core.Syncer](),
	abilityOf[core.Placer](), abilityOf[core.Tallier](), abilityOf[core.Flusher](), abilityOf[core.Stater](), abilityOf[core.Spacer](),
	abilityOf[core.Filer](), abilityOf[core.Identifier](), abilityOf[core.WriterLister](), abilityOf[core.Healer](),
	abilityOf[sparer](),
}

// checkAbilities checks that every ability of a driver can be found through the wrapped driver that the server uses. If
// the driver has a method that belongs neither to its contract nor to a known ability, the test fails: add its
// interface to abilities.
func checkAbilities(t *testing.T, driver, contract reflect.Type, through any) {
	known := map[string]bool{}
	for m := range contract.Methods() {
		known[m.Name] = true
	}
	for _, a := range abilities {
		if !driver.Implements(a.typ) {
			continue
		}
		for m := range a.typ.Methods() {
			known[m.Name] = true
		}
		require.True(t, a.reach(through), "%v of %v is hidden from the server", a.typ, driver)
	}
	for m := range driver.Methods() {
		require.True(t, known[m.Name], "%v has the method %s, which is in no interface of this test", driver, m.Name)
	}
}

// TestAbilitiesAreReachable: no wrapper hides the abilities of a driver from the server.
func TestAbilitiesAreReachable(t *testing.T) {
	s, err := Open(context.Background(), testConfig(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	checkAbilities(t, reflect.TypeFor[*sqlite.Meta](), reflect.TypeFor[core.Meta](), s.meta)
	checkAbilities(t, reflect.TypeFor[*disk.Store](), reflect.TypeFor[core.Blocks](), s.blocks)
}

// TestUnknownDrivers: a store is not opened if the program does not have its driver.
func TestUnknownDrivers(t *testing.T) {
	o := driverOptions{dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	_, _, _, err := drivers{metadata: "sqlite", blocks: "tape"}.open(t.Context(), o)
	require.ErrorContains(t, err, `block driver "tape" does not exist`)
	_, _, _, err = drivers{metadata: "stone", blocks: "disk"}.open(t.Context(), o)
	require.ErrorContains(t, err, `metadata driver "stone" does not exist`)
	blocks, meta, _, err := ownDrivers.open(t.Context(), o)
	require.NoError(t, err, "the failed attempts must release the lock")
	require.NoError(t, meta.Close())
	require.NoError(t, blocks.Close())
}
