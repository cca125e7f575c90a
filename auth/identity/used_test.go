package identity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/gate"
)

func TestLastUsed(t *testing.T) {
	b, ctx := open(t), t.Context()
	p, secret := b.create(b.Root(), "key")
	other, otherSecret := b.create(b.Root(), "other")
	at := func(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0).UTC() }
	records := func() (n int) {
		list, err := b.store.Meta.Records(ctx, usedRecords, "", 10)
		require.NoError(t, err)
		return len(list)
	}
	changes := func() core.Seq {
		state, err := b.store.Meta.State(ctx)
		require.NoError(t, err)
		return state.Seq
	}
	require.Zero(t, b.LastUsed(secret.AccessKey))
	require.NoError(t, b.NoteUses(ctx))
	require.Zero(t, records())

	b.Observe(ctx, &gate.Event{AccessKey: secret.AccessKey, Principal: p, Start: at(20)})
	b.Observe(ctx, &gate.Event{AccessKey: secret.AccessKey, Principal: p, Start: at(10)})
	b.Observe(ctx, &gate.Event{AccessKey: otherSecret.AccessKey, Start: at(30)}) // not authenticated
	b.Observe(ctx, &gate.Event{AccessKey: "AKIAROOT", Principal: b.Root(), Start: at(30)})
	require.Equal(t, at(20), b.LastUsed(secret.AccessKey))
	require.Zero(t, b.LastUsed(otherSecret.AccessKey))
	before := changes()
	for range 3 {
		require.NoError(t, b.NoteUses(ctx))
	}
	require.Equal(t, before+1, changes(), "a use is stored once")
	_, second, err := b.RotateKey(ctx, b.Root(), "", "key", time.Hour)
	require.NoError(t, err)
	require.Equal(t, at(20), b.LastUsed(secret.AccessKey), "a change of the identity keeps the uses")
	require.Zero(t, b.LastUsed(second.AccessKey))
	b.reopen()
	require.Equal(t, at(20), b.LastUsed(secret.AccessKey))
	b.Observe(ctx, &gate.Event{AccessKey: otherSecret.AccessKey, Principal: other, Start: at(40)})
	require.NoError(t, b.NoteUses(ctx))
	require.Equal(t, 2, records())
	require.NoError(t, b.DeleteKey(ctx, b.Root(), "key"))
	require.Zero(t, b.LastUsed(secret.AccessKey))
	require.NoError(t, b.NoteUses(ctx))
	require.Equal(t, 1, records(), "the record of a deleted access key is deleted")
	b.reopen()
	require.Equal(t, at(40), b.LastUsed(otherSecret.AccessKey))
	event := &gate.Event{AccessKey: otherSecret.AccessKey, Principal: other, Start: at(50)}
	require.Zero(t, testing.AllocsPerRun(10, func() { b.Observe(ctx, event) }))
}
