package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/faults/result"
)

// mutant is a build without one guard, and what must find it: the bench, or a test of the code itself.
type mutant struct {
	name  string
	guard string // what was taken out

	power  bool // found by power cuts
	strict bool // ... on a strict disk
	downs  int  // ... or SIGKILLs, within so many

	pkg, run string   // found by a test in process
	env      []string // for it
	tags     string   // ... and for its build, beside mutant
}

var mutants = []mutant{
	{name: "no-data-sync", guard: "the sync of data", power: true, downs: 3},
	{name: "no-replay", guard: "the replay of records at a start", power: true, downs: 3},
	{name: "no-dir-sync", guard: "the sync of directories", power: true, strict: true, downs: 3},
	{name: "ack-before-commit", guard: "the answer comes after the commit", downs: 6},
	{name: "no-history", guard: "a version that is no longer the newest one is kept", downs: 3},
	{name: "noncurrent-at-once", guard: "a version is noncurrent since the next one was written", downs: 6},
	{name: "last-key-stays", guard: "a pass of a lifecycle decides on the last key, too", downs: 2},
	{name: "no-expected-version", guard: "a lifecycle deletes what it has read, and nothing that came since", pkg: "./lifecycle", run: "TestRaces"},
	{name: "no-frame-check", guard: "the checksums of frames", pkg: "./faults/model", run: "TestFlipsInABlockOfARunningServer"},
	{name: "no-row-check", guard: "the checksums of rows in the database", pkg: "./faults/model", run: "TestFlipsInTheDatabase", env: []string{"ORCAS_FAULTS_FLIPS=1000"}},
	{name: "no-tail-cut", guard: "a start leaves out the write that a crash cut off", pkg: "./batch", run: "TestEveryCutIsAPrefix|TestTornLastBatch"},
	{name: "no-relaxed-cut", guard: "in relaxed mode what stands behind a gap is no part of the history", pkg: "./batch", run: "TestRelaxedPowerCuts"},
	{name: "overdue-sync-waits", guard: "in relaxed mode a sync that is overdue begins at once", pkg: "./batch", run: "TestRelaxedBound"},
	{name: "no-last-note", guard: "in relaxed mode a clean stop records what is durable", pkg: "./batch", run: "TestRelaxedDamageAfterStop"},
	{name: "no-idle-note", guard: "in relaxed mode what is durable is recorded when writes cease", pkg: "./batch", run: "TestRelaxedDamageWhenIdle"},
	{name: "no-void", guard: "a write reported as failed does not come back with a replay", pkg: "./batch", run: "TestApplyThatWroteNothingIsVoided|TestFailuresFailTheirBatchOnly"},
	{name: "no-log-bound", guard: "a long read gives way when the log of the database is at its bound", pkg: "./core/sqlite", run: "TestLogBoundBesideASnapshot"},
	{name: "log-stays-long", guard: "the file of the log is emptied when no writes come", pkg: "./core/sqlite", run: "TestIdleLogIsEmptied"},
	{name: "no-rest", guard: "a snapshot that gave way to writes is not tried again at once", pkg: "./reclaim", run: "TestSnapshotGivesWay"},
	{name: "parts-resolved", guard: "parts are read without their content by whoever needs none", pkg: "./core/sqlite", run: "TestStatementsOfParts"},
	{name: "rows-twice", guard: "a repair writes a row once that a damaged tree yields twice", pkg: "./cmd/orcas", run: "TestFsckRepairsATree"},
	{name: "repair-keeps-loss", guard: "a repair takes lost rows from the blocks", pkg: "./cmd/orcas", run: "TestFsckRepairsATree"},
	{name: "no-seal", guard: "nothing is appended to a block after a failed sync", pkg: "./core/disk", run: "TestBlocks|TestFailedSteps"},
	{name: "no-metadata-seal", guard: "no metadata is written after a failed write of the database", pkg: "./core/sqlite", run: "TestStopped|TestFailedCommitStopsWrites"},
	{name: "no-lock-file", guard: "one process owns a data directory", pkg: "./core/disk", run: "TestOnlyOneOwner"},
	{name: "no-cache-gate", guard: "what was read before a write is not cached after it", pkg: "./core/cached", run: "TestOldRowIsNotStored"},
	{name: "no-head", guard: "metadata is not made again from blocks that lack the newest records", pkg: "./batch", run: "TestRelaxedWithoutBlocks"},
	{name: "no-marker", guard: "a directory of blocks that is not that of the store is refused", pkg: "./core/disk", run: "TestUnmounted|TestForeignBlocks"},
	{name: "no-start-compare", guard: "a start compares the blocks with the metadata", pkg: "./cmd/orcas", run: "TestOneBlockMissing|TestManyBlocksMissing"},
	{name: "no-scrub-compare", guard: "the scrub compares the blocks with the metadata", pkg: "./cmd/orcas", run: "TestScrubFindsMissingBlocks"},
	{name: "hidden-ability", guard: "optional abilities of drivers are found below wrappers", pkg: "./server", run: "TestAbilitiesAreReachable"},
	{name: "early-release", guard: "a pooled buffer is given back by its last holder", pkg: "./faults/model", run: "TestClockSteps", tags: ",poison"},
	{name: "no-condition", guard: "conditions are decided in the transaction", pkg: "./faults/model", run: "TestOneWinner"},
	{name: "no-tags-recorded", guard: "tags that a request sets are in its record, and come back with a replay", pkg: "./faults/model", run: "TestLinearizable"},
	{name: "no-tags-condition", guard: "an append keeps tags that were set while it was under way", pkg: "./faults/model", run: "TestLinearizable"},
	{name: "no-object-lock", guard: "a deletion asks the version's lock in the transaction", pkg: "./s3", run: "TestDeleteLocked"},
	{name: "hint-is-proof", guard: "reclaim asks the metadata what is alive, whatever the garbage says", pkg: "./reclaim", run: "TestReclaimRounds"},
	{name: "no-second-look", guard: "a block that was emptied is looked through once more", pkg: "./reclaim", run: "TestWhatDidNotMoveStays"},
	{name: "no-scan-error", guard: "a block that cannot be read proves nothing", pkg: "./reclaim", run: "TestErrorsDeleteNothing"},
	{name: "no-move-check", guard: "what is moved is verified first", pkg: "./reclaim", run: "TestDamageIsNotMoved"},
	{name: "no-floor", guard: "blocks that are written to are no garbage", pkg: "./reclaim", run: "TestOrphansGo|TestDeletedWhileItMoves"},
	{name: "no-snapshot-cover", guard: "a block of records stays until a snapshot covers them", pkg: "./reclaim", run: "TestReclaimRounds"},
	{name: "no-sync-before-unlink", guard: "the database is synced before a block of records goes", pkg: "./reclaim", run: "TestPowerCutAfterEachRound"},
	{name: "no-quiet", guard: "a block goes when nobody is about to pin it", pkg: "./reclaim", run: "TestUnlinkWaitsForReaders"},
	{name: "no-pin", guard: "a reader pins what it has yet to read", pkg: "./content", run: "TestPinnedContentStays"},
	{name: "no-pin-check", guard: "reclaim leaves what is pinned alone", pkg: "./content", run: "TestPinnedContentStays"},
	{name: "forget-early", guard: "garbage is forgotten when its block is gone", pkg: "./reclaim", run: "TestGarbageOutlivesAFailedUnlink"},
	{name: "no-path-check", guard: "nothing is appended to a block whose file was removed", pkg: "./core/disk", run: "TestNothingIsAppendedToARemovedFile"},
	{name: "no-verify", guard: "a stored copy is verified before new content shares it", pkg: "./content", run: "TestDamagedContentIsStoredAgain"},
	{name: "no-verify-large", guard: "the blocks of large content are looked at before it is shared", pkg: "./content", run: "TestDamagedContentIsStoredAgain"},
	{name: "no-repair", guard: "good bytes that arrive repair what refers to a damaged copy", pkg: "./content", run: "TestDamagedContentIsStoredAgain"},
	{name: "mend-undecoded", guard: "old frames that take the place of damaged content are decoded first", pkg: "./scrub", run: "TestNothingIsRepairedFromAnotherKey"},
	{name: "suspects-verified", guard: "a block with damage that nobody has looked into is not verified", pkg: "./scrub", run: "TestSuspectBlocksAreNotVerified"},
	{name: "no-content-check", guard: "checksums that the client sent are compared", pkg: "./s3", run: "TestSpoiltContent"},
	{name: "no-payload-hash", guard: "the signed SHA-256 of a body is compared", pkg: "./s3", run: "TestSpoiltContent|TestPayloadModes"},
}

// TestMutants shows that the bench is not blind: it must find something wrong with each mutant.
func TestMutants(t *testing.T) {
	wanted := strings.Split(os.Getenv("ORCAS_FAULTS_MUTANTS"), ",")
	if wanted[0] == "" {
		t.Skip("ORCAS_FAULTS_MUTANTS names none")
	}
	for _, m := range mutants {
		if !slices.Contains(wanted, m.name) && wanted[0] != "all" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			if m.power && !private(t) {
				return
			}
			row := result.Of(t, result.Row{Fault: "mutant", Name: m.name, Unit: "builds", Tried: 1, Note: m.guard})
			if m.pkg != "" {
				row.Killed = m.run + " in " + m.pkg
				m.findInProcess(t)
				return
			}
			row.Killed = m.find(t)
		})
	}
}

// find takes the mutant down under load, until something is wrong; it returns what did so.
func (m mutant) find(t *testing.T) string {
	found, down := "SIGKILL under load", Down(Kill)
	var b *Bench
	if m.power {
		var disk *Disk
		b, disk = newPowerBench(t, buildServer(t, m.name), m.strict)
		found, down = "power cuts", PowerCut(disk)
		if m.strict {
			found += ", strict"
		}
	} else {
		dir := workDir(t)
		b = newBench(t, buildServer(t, m.name), dir, filepath.Join(dir, "data"), 4*time.Second)
		b.Leftovers = true
	}
	s := b.Run(t.Context(), m.downs, down)
	t.Log(s)
	for _, v := range s.Violations[:min(5, len(s.Violations))] {
		t.Log("found:", v)
	}
	require.NotEmpty(t, s.Violations, "the mutant survived: the bench is blind")
	require.NotZero(t, s.Downs, "it did not even run")
	return found
}

// findInProcess runs the tests in a build of the mutant: they must fail there, and pass in one of no mutant.
func (m mutant) findInProcess(t *testing.T) {
	test := func(active string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-tags", "mutant"+m.tags, "-ldflags", "-X orcas/internal/mutant.active="+active,
			"-run", "^("+m.run+")$", m.pkg)
		cmd.Dir = ".."
		cmd.Env = append(append(os.Environ(), "ORCAS_FAULTS_RESULTS="), m.env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := test("none")
	require.NoError(t, err, "without any mutant: %s", out)
	require.NotContains(t, out, "no tests to run")
	out, err = test(m.name)
	require.Error(t, err, "the mutant survived: the bench is blind")
	require.Contains(t, out, "--- FAIL: Test", "it must be a test that fails, not the build")
}
