package disk_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/core/disk"
	"orcas/internal/durable"
)

// TestSharedDirSyncs lets many writers share the syncs of their directory, some of which fail. For each commit that
// returned nil, it checks the order of events: a successful sync began after the file was created, and no sync failed
// in between.
func TestSharedDirSyncs(t *testing.T) {
	type event struct {
		what string // "created", "begun", "good", "bad", "committed"
		path string
	}
	var mu sync.Mutex
	var log []event
	record := func(what, path string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, event{what, path})
	}
	syncs := 0
	s := open(t, t.TempDir(), disk.Options{Hook: func(step durable.Step, do func() error) error {
		switch {
		case step.Op == durable.DirSync && strings.HasSuffix(step.Path, "00000"):
			record("begun", "")
			err := do()
			mu.Lock()
			if syncs++; syncs%7 == 0 {
				err = unix.EIO
			}
			mu.Unlock()
			if err != nil {
				record("bad", "")
			} else {
				record("good", "")
			}
			return err
		case step.Op == durable.Create && strings.HasSuffix(step.Path, ".large"):
			err := do()
			record("created", step.Path)
			return err
		}
		return do()
	}})
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			for range 10 {
				w, err := s.Create(t.Context(), core.BlockOptions{Kind: core.Large})
				if err == nil && w.Commit(t.Context()) == nil {
					record("committed", strings.ToLower(w.Block().String()[24:]))
				}
			}
		})
	}
	all.Wait()

	committed, bad, good := 0, 0, 0
	for i, e := range log {
		switch e.what {
		case "bad":
			bad++
		case "good":
			good++
		case "committed":
			committed++
			state := "no name"
			for _, before := range log[:i] {
				switch {
				case before.what == "created" && strings.HasSuffix(before.path, e.path+".large"):
					state = "created"
				case before.what == "begun" && state == "created":
					state = "begun"
				case before.what == "bad" && (state == "created" || state == "begun"):
					state = "in doubt"
				case before.what == "good" && state == "begun":
					state = "synced"
				}
			}
			require.Equal(t, "synced", state)
		}
	}
	require.NotZero(t, bad)
	require.Greater(t, committed, 24)
	require.LessOrEqual(t, good, 240)
	t.Logf("%d commits with %d syncs of the directory, %d of them failed", committed, good+bad, bad)
}

// TestDirectoryLeftBehind makes the sync of a new directory's name fail, and then its removal. The next block creates
// the directory again.
func TestDirectoryLeftBehind(t *testing.T) {
	failing := false
	s := open(t, t.TempDir(), disk.Options{Hook: func(step durable.Step, do func() error) error {
		if failing && (step.Op == durable.DirSync || step.Op == durable.Remove) {
			return unix.EIO
		}
		return do()
	}})
	failing = true
	for _, kind := range []core.BlockKind{core.Packed, core.Large} {
		_, err := s.Create(t.Context(), core.BlockOptions{Kind: kind})
		require.ErrorIs(t, err, unix.EIO)
	}
	failing = false
	w, err := s.Create(t.Context(), core.BlockOptions{Kind: core.Packed})
	require.NoError(t, err)
	require.NoError(t, w.Commit(t.Context()))
}
