package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
)

// used creates a data directory with a history: four starts, each with writes of every kind and a round of reclaim.
func used(t *testing.T) string {
	dir := t.TempDir()
	for i := range 4 {
		s := openStore(t, dir)
		s.fill()
		b := *s.OpenBucket(fmt.Sprint("changing-", i/2), core.VersioningOff)
		s.In(&b).Put("before", s.body(3000))
		b.Versioning, b.ObjectLock, b.Retention = core.VersioningEnabled, true, core.DefaultRetention{Mode: core.LockGovernance, Days: i + 1}
		_, err := s.Writer.Do(ctx, batch.Write{Change: &core.PutBucket{Info: b}})
		require.NoError(t, err)
		s.In(&b).Put("before", s.body(2000))
		for _, c := range []core.UpdateObject{
			{Key: "before", SetTags: true, Tags: []core.Attr{{Name: "start", Value: fmt.Sprint(i)}}},
			{Key: "before", Version: core.Null, SetHold: true, Lock: core.Lock{Hold: core.HoldOn}},
			{Key: "before", SetRetention: true, Lock: core.Lock{Mode: core.LockCompliance, Until: s.FS.Now().AddDate(1, 0, 0)}, Bypass: true},
		} {
			_, err := s.FS.Update(ctx, &b, c)
			require.NoError(t, err)
		}
		s.In(&b).Delete("before")
		for _, c := range []core.Change{
			&core.PutRecord{Record: core.Record{Kind: core.BucketRecordKind(b.ID), Key: "policy", Value: []byte(fmt.Sprint(i))}},
			&core.PutRecord{Record: core.Record{Kind: "user", Key: fmt.Sprint(i), Value: []byte("secret")}},
		} {
			_, err := s.Writer.Do(ctx, batch.Write{Change: c})
			require.NoError(t, err)
		}
		gone := s.OpenBucket("gone", core.VersioningOff)
		_, err = s.Writer.Do(ctx, batch.Write{Change: &core.DeleteBucket{Bucket: gone.ID}})
		require.NoError(t, err)
		s.reclaims(i%2 == 0, 0.2)
		s.In(&b).Put(fmt.Sprint("after-", i), s.body(1000))
		s.Close()
	}
	return dir
}

// TestRebuild: whatever happened to the database, it is rebuilt completely from the blocks.
func TestRebuild(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, database string){
		"intact":  func(*testing.T, string) {},
		"missing": func(t *testing.T, database string) { require.NoError(t, os.Remove(database)) },
		"garbage": func(t *testing.T, database string) {
			require.NoError(t, os.WriteFile(database, []byte("not a database"), 0o600))
		},
		"invalid log": func(t *testing.T, database string) {
			require.NoError(t, os.WriteFile(database+"-wal", []byte("not a log"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := used(t)
			database := filepath.Join(dir, "metadata.db")
			s := openStore(t, dir)
			want, wantSums := s.contents()
			s.Close()
			lose(t, database)
			old, _ := os.ReadFile(database)

			status, stdout, stderr := orcas("rebuild", "--data", dir)
			require.Equal(t, exitOK, status, stdout+stderr)
			t.Log(stdout)
			require.Contains(t, stdout, "restored the snapshot of change")
			require.Contains(t, stdout, "replayed ")
			require.Contains(t, stdout, "no difference")
			kept, err := filepath.Glob(database + ".before-rebuild-*")
			require.NoError(t, err)
			if name == "missing" {
				require.Empty(t, kept)
			} else {
				now, err := os.ReadFile(kept[0])
				require.NoError(t, err)
				require.Equal(t, old, now)
			}
			require.NoFileExists(t, database+".new")
			require.NoFileExists(t, database+"-wal")

			s = openStore(t, dir)
			got, gotSums := s.contents()
			require.Equal(t, want, got)
			require.Equal(t, wantSums, gotSums)
			s.In(s.OpenBucket("plain", 0)).Put("afterwards", s.body(10))
			s.Close()
			status, stdout, stderr = orcas("fsck", "--data", dir, "--content")
			require.Equal(t, exitOK, status, stdout+stderr)
		})
	}
}

// TestRebuildWithGaps: if changes are missing, a rebuild changes nothing, unless --lossy is given.
func TestRebuildWithGaps(t *testing.T) {
	dir := t.TempDir()
	for range 3 { // three packed blocks, and no snapshot
		s := openStore(t, dir)
		s.fill()
		s.Close()
	}
	packed := blockFiles(t, dir, ".packed")
	require.Len(t, packed, 3)
	require.NoError(t, os.Remove(packed[1]))
	database := filepath.Join(dir, "metadata.db")
	before, err := os.ReadFile(database)
	require.NoError(t, err)
	status, _, stderr := orcas("rebuild", "--data", dir)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "--lossy")
	after, err := os.ReadFile(database)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoFileExists(t, database+".new")

	status, stdout, stderr := orcas("rebuild", "--data", dir, "--lossy")
	t.Log(stdout)
	require.Equal(t, exitOK, status, stdout+stderr)
	require.Regexp(t, `missing: changes \d+ to \d+`, stdout)
	s := openStore(t, dir)
	state, sums := s.contents()
	require.Greater(t, len(sums), 30)
	s.Close()
	status, stdout, stderr = orcas("rebuild", "--data", dir) // starts from a snapshot after the gaps
	require.Equal(t, exitOK, status, stdout+stderr)
	s = openStore(t, dir)
	defer s.Close()
	again, sumsAgain := s.contents()
	require.Equal(t, state, again)
	require.Equal(t, sums, sumsAgain)
}

// TestRebuildOfNothing: a store without records is refused.
func TestRebuildOfNothing(t *testing.T) {
	dir := t.TempDir()
	openStore(t, dir).Close()
	status, _, stderr := orcas("rebuild", "--data", dir)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "nothing to rebuild from")
	require.FileExists(t, filepath.Join(dir, "metadata.db"))
}
