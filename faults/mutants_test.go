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

// mutant is a build without one guard, and the test that must detect it: the bench, or a test of the code itself.
type mutant struct {
	name  string
	guard string // the guard that is removed

	power  bool       // the bench detects it by power cuts, otherwise by SIGKILLs
	strict bool       // the power cuts need a strict disk
	downs  int        // the maximum number of power cuts or SIGKILLs until it is detected
	mix    func() Mix // the load; nil for the standard one

	pkg, run string   // or these tests in this package detect it
	env      []string // the environment of the tests
	tags     string   // build tags of the tests, in addition to mutant
}

var mutants = []mutant{
	{name: "no-data-sync", guard: "the sync of data", power: true, downs: 3},
	{name: "no-replay", guard: "the replay of records at a start", downs: 3},
	{name: "no-dir-sync", guard: "the sync of directories", power: true, strict: true, downs: 3},
	{name: "ack-before-commit", guard: "a response is sent after the commit", downs: 6},
	{name: "identity-before-durable", guard: "a change of an identity is acknowledged when it is durable", downs: 6, mix: identityMix},
	{name: "no-history", guard: "a version is kept when it is no longer the newest", downs: 3},
	{name: "noncurrent-at-once", guard: "a version becomes noncurrent when the next one is written", downs: 6},
	{name: "last-key-stays", guard: "a lifecycle pass includes the last key", downs: 2},
	{name: "no-expected-version", guard: "a lifecycle deletes only the version that it has read, not a newer one", pkg: "./lifecycle", run: "TestRaces"},
	{name: "no-frame-check", guard: "the checksums of frames", pkg: "./faults/model", run: "TestFlipsInABlockOfARunningServer"},
	{name: "no-row-check", guard: "the checksums of rows in the database", pkg: "./core/sqlite", run: "TestBriefListingOfADamagedKey|TestDamagedRow"},
	{name: "no-tail-cut", guard: "a start ignores a write that a crash cut off", pkg: "./batch", run: "TestEveryCutIsAPrefix|TestTornLastBatch"},
	{name: "no-relaxed-cut", guard: "in relaxed mode, a replay ends at the first gap", pkg: "./batch", run: "TestRelaxedPowerCuts"},
	{name: "overdue-sync-waits", guard: "in relaxed mode, an overdue sync begins immediately", pkg: "./batch", run: "TestRelaxedBound"},
	{name: "no-last-note", guard: "in relaxed mode, a clean stop records which writes are durable", pkg: "./batch", run: "TestRelaxedDamageAfterStop"},
	{name: "no-idle-note", guard: "in relaxed mode, the server records which writes are durable when there are no more writes", pkg: "./batch", run: "TestRelaxedDamageWhenIdle"},
	{name: "no-void", guard: "a replay skips a write that was reported as failed", pkg: "./batch", run: "TestApplyThatWroteNothingIsVoided|TestFailuresFailTheirBatchOnly"},
	{name: "no-log-bound", guard: "a long read gives way when the log of the database reaches its limit", pkg: "./core/sqlite", run: "TestLogBoundBesideALongRead"},
	{name: "no-image-of-history", guard: "a snapshot has the rows of history that were deleted while it was read", pkg: "./core/sqlite", run: "TestMetaModel"},
	{name: "old-brief", guard: "a listing shows the version that becomes the current one again when a newer one is deleted", pkg: "./core/sqlite", run: "TestMetaModel"},
	{name: "no-absent-image", guard: "a snapshot lacks the rows that were moved to another table while it was read", pkg: "./core/sqlite", run: "TestMetaModel"},
	{name: "no-count-of-rows", guard: "a snapshot fails if a damaged page hides rows", pkg: "./core/sqlite", run: "TestHiddenRows"},
	{name: "log-stays-long", guard: "the log file is emptied when there are no writes", pkg: "./core/sqlite", run: "TestIdleLogIsEmptied"},
	{name: "no-rest", guard: "a snapshot that gave way to writes is not retried immediately", pkg: "./reclaim", run: "TestSnapshotGivesWay"},
	{name: "parts-resolved", guard: "parts are read without their content if it is not needed", pkg: "./core/sqlite", run: "TestStatementsOfParts"},
	{name: "rows-twice", guard: "a repair writes a row only once if a damaged tree returns it twice", pkg: "./cmd/orcas", run: "TestFsckRepairsATree"},
	{name: "repair-keeps-loss", guard: "a repair restores lost rows from the blocks", pkg: "./cmd/orcas", run: "TestFsckRepairsATree"},
	{name: "no-seal", guard: "a block gets no more writes after a failed sync", pkg: "./core/disk", run: "TestBlocks|TestFailedSteps"},
	{name: "no-write-out-error", guard: "a block fails if some of its bytes could not be written out before the sync", pkg: "./core/disk", run: "TestWriteOutError"},
	{name: "written-out-is-durable", guard: "bytes that were written out are still synced", pkg: "./core/disk", run: "TestSteps"},
	{name: "no-metadata-seal", guard: "the database gets no more writes after a failed write", pkg: "./core/sqlite", run: "TestStopped|TestFailedCommitStopsWrites"},
	{name: "no-lock-file", guard: "only one process uses a data directory", pkg: "./core/disk", run: "TestOnlyOneOwner"},
	{name: "no-cache-gate", guard: "a row that was read before a write is not cached after it", pkg: "./core/cached", run: "TestOldRowIsNotStored"},
	{name: "no-head", guard: "metadata is not rebuilt from blocks that lack the newest records", pkg: "./batch", run: "TestRelaxedWithoutBlocks"},
	{name: "no-marker", guard: "a directory that does not contain the blocks of this store is refused", pkg: "./core/disk", run: "TestUnmounted|TestForeignBlocks"},
	{name: "no-start-compare", guard: "a start compares the blocks with the metadata", pkg: "./cmd/orcas", run: "TestOneBlockMissing|TestManyBlocksMissing"},
	{name: "no-scrub-compare", guard: "the scrub compares the blocks with the metadata", pkg: "./cmd/orcas", run: "TestScrubFindsMissingBlocks"},
	{name: "hidden-ability", guard: "optional abilities of drivers are found through wrappers", pkg: "./server", run: "TestAbilitiesAreReachable"},
	{name: "early-release", guard: "a pooled buffer is released only by its last user", pkg: "./faults/model", run: "TestClockSteps", tags: ",poison"},
	{name: "no-condition", guard: "conditions are checked in the transaction", pkg: "./faults/model", run: "TestOneWinner"},
	{name: "no-tags-recorded", guard: "the tags that a request sets are in its record, and a replay restores them", pkg: "./faults/model", run: "TestLinearizable", env: []string{"ORCAS_FAULTS_HISTORIES=300"}},
	{name: "no-tags-condition", guard: "an append keeps tags that were set while it was in progress", pkg: "./faults/model", run: "TestLinearizable", env: []string{"ORCAS_FAULTS_HISTORIES=300"}},
	{name: "no-object-lock", guard: "a deletion checks the version's lock in the transaction", pkg: "./s3", run: "TestDeleteLocked"},
	{name: "hint-is-proof", guard: "reclaim checks the metadata for live content, and does not rely on the garbage list", pkg: "./reclaim", run: "TestReclaimRounds"},
	{name: "no-second-look", guard: "a block is scanned again after its content was moved", pkg: "./reclaim", run: "TestWhatDidNotMoveStays"},
	{name: "no-scan-error", guard: "a block that cannot be read is not deleted", pkg: "./reclaim", run: "TestErrorsDeleteNothing"},
	{name: "no-move-check", guard: "content is verified before it is moved", pkg: "./reclaim", run: "TestDamageIsNotMoved"},
	{name: "no-floor", guard: "blocks that are still being written are not deleted", pkg: "./reclaim", run: "TestOrphansGo|TestDeletedWhileItMoves"},
	{name: "no-snapshot-cover", guard: "a block of records is kept until a snapshot covers them", pkg: "./reclaim", run: "TestReclaimRounds"},
	{name: "delta-with-gaps", guard: "a delta that lacks a change is refused", pkg: "./core/snapshot", run: "TestDeltaLacksNoChange"},
	{name: "delta-over-any-base", guard: "a delta extends only the snapshot whose sequence it follows", pkg: "./core/snapshot", run: "TestDeltaOfAnotherSnapshot"},
	{name: "voids-forgotten", guard: "a delta lacks the changes that were reported as failed", pkg: "./batch", run: "TestDeltaOfRecords"},
	{name: "delta-skips-record", guard: "a delta has the changes of every record", pkg: "./batch", run: "TestDeltaOfRecords"},
	{name: "delta-without-base", guard: "the snapshot that a delta extends is kept", pkg: "./reclaim", run: "TestDeltas"},
	{name: "delta-not-read-back", guard: "a delta is read back before it covers records", pkg: "./reclaim", run: "TestDamagedDeltaCoversNothing"},
	{name: "no-sync-before-unlink", guard: "the database is synced before a block of records is deleted", pkg: "./reclaim", run: "TestPowerCutAfterEachRound"},
	{name: "no-quiet", guard: "a block is deleted only when no reader is about to pin it", pkg: "./reclaim", run: "TestUnlinkWaitsForReaders"},
	{name: "no-pin", guard: "a reader pins the content that it has not read yet", pkg: "./content", run: "TestPinnedContentStays"},
	{name: "no-pin-check", guard: "reclaim keeps pinned content", pkg: "./content", run: "TestPinnedContentStays"},
	{name: "forget-early", guard: "garbage is removed from the list only after its block was deleted", pkg: "./reclaim", run: "TestGarbageOutlivesAFailedUnlink"},
	{name: "no-path-check", guard: "a block whose file was removed gets no more writes", pkg: "./core/disk", run: "TestNothingIsAppendedToARemovedFile"},
	{name: "no-verify", guard: "a stored copy is verified before new content shares it", pkg: "./content", run: "TestDamagedContentIsStoredAgain"},
	{name: "no-verify-large", guard: "the blocks of large content are checked before it is shared", pkg: "./content", run: "TestDamagedContentIsStoredAgain"},
	{name: "no-repair", guard: "an upload with the same content repairs a damaged copy", pkg: "./content", run: "TestDamagedContentIsStoredAgain"},
	{name: "mend-undecoded", guard: "old frames are decoded before they replace damaged content", pkg: "./scrub", run: "TestNothingIsRepairedFromAnotherKey"},
	{name: "suspects-verified", guard: "a block with unexamined damage does not count as verified", pkg: "./scrub", run: "TestSuspectBlocksAreNotVerified"},
	{name: "no-late-hashes", guard: "a start finds the hashes of content whose ID was assigned before a run was complete", pkg: "./core/sqlite", run: "TestHashIndexModel"},
	{name: "early-tombstone-drop", guard: "only a merge into the oldest run drops tombstones", pkg: "./core/sqlite", run: "TestHashIndexGrows|TestHashIndexOfReplacedContent"},
	{name: "merge-hides-hashes", guard: "a merge adds its hashes to a filter that is not complete", pkg: "./core/sqlite", run: "TestMergesFillTheFilter"},
	{name: "refill-without-memory", guard: "a filter that is filled again has the hashes of the pairs in memory", pkg: "./core/sqlite", run: "TestFilterIsDroppedAndFilled"},
	{name: "free-not-counted", guard: "the amount of content in a block shrinks when content is freed", pkg: "./core/sqlite", run: "TestContentOfBlocks"},
	{name: "move-not-counted", guard: "the amount of content in a block shrinks when content is moved or repaired", pkg: "./core/sqlite", run: "TestContentOfBlocks"},
	{name: "noncurrent-not-counted", guard: "the tally of a bucket has its noncurrent versions", pkg: "./core/sqlite", run: "TestMigrationOfTallies"},
	{name: "no-marks", guard: "a read finds uncommitted changes", pkg: "./core/sqlite", run: "TestReadsOfTheOpenTransaction"},
	{name: "list-uncommitted", guard: "a listing commits the changes of its bucket first", pkg: "./core/sqlite", run: "TestReadsOfTheOpenTransaction"},
	{name: "kept-forgotten", guard: "uncommitted changes are applied again after a transaction was rolled back", pkg: "./core/sqlite", run: "TestFailedBatchKeepsTheOthers|TestFailedCommitKeepsTheTransaction"},
	{name: "lost-unnoticed", guard: "uncommitted changes are applied again after SQLite rolled a transaction back", pkg: "./core/sqlite", run: "TestFailedReadKeepsTheTransaction"},
	{name: "sync-uncommitted", guard: "a sync of the database commits first", pkg: "./core/sqlite", run: "TestKilledUncommitted"},
	{name: "new-database-unsynced", guard: "a rebuilt database is synced before it replaces the old one", pkg: "./server", run: "TestNewDatabaseIsSynced"},
	{name: "no-content-check", guard: "checksums that the client sent are compared with the content", pkg: "./s3", run: "TestSpoiltContent"},
	{name: "no-bucket-policy", guard: "the policy of the bucket takes part in every decision", pkg: "./auth/access", run: "TestBucketPolicy"},
	{name: "unknown-is-root", guard: "only the root of an account has rights without policies", pkg: "./auth/access", run: "TestUnknownPrincipals"},
	{name: "secret-of-any-key", guard: "an encrypted secret belongs to one access key", pkg: "./auth/identity", run: "TestSecretsAreEncrypted"},
	{name: "secrets-of-two-keys", guard: "no secret is encrypted with a second key while others need the first", pkg: "./auth/identity", run: "TestNoKey"},
	{name: "expired-keys-work", guard: "an access key is refused after its expiration", pkg: "./auth/identity", run: "TestApplicationKey|TestExpirationOfCreators"},
	{name: "disabled-keys-work", guard: "a disabled key, and the keys that it created, are refused", pkg: "./auth/identity", run: "TestRevoke"},
	{name: "rotation-keeps-keys", guard: "a rotation ends the previous access key", pkg: "./auth/identity", run: "TestRotation"},
	{name: "change-not-seen", guard: "a change of an identity applies to the next request", pkg: "./auth/identity", run: "TestRevoke"},
	{name: "anyone-rotates", guard: "a key can obtain no secret of a key that it did not create", pkg: "./auth/identity", run: "TestOnlyCreatorsManage"},
	{name: "creator-forgotten", guard: "a key never exceeds its creator", pkg: "./auth/identity", run: "TestRevoke|TestApplicationKey|TestModel"},
	{name: "uses-noted-again", guard: "the last use of an access key is stored once", pkg: "./auth/identity", run: "TestLastUsed"},
	{name: "no-trust", guard: "a role is assumed only by those whom its trust policy and their policies allow", pkg: "./auth/identity", run: "TestWhoMayAssume"},
	{name: "long-chains", guard: "a session that was begun with another session takes at most an hour", pkg: "./auth/identity", run: "TestChainsOfRoles"},
	{name: "token-of-another", guard: "a session token belongs to one access key", pkg: "./auth/identity", run: "TestTokenOfAnotherKey"},
	{name: "sessions-keep-rights", guard: "a change of a role applies to the next request of its sessions", pkg: "./auth/identity", run: "TestTokenAfterPoliciesChanged"},
	{name: "stale-policy", guard: "a compiled policy is used only for its own document", pkg: "./auth/access", run: "TestDecisionsUseTheDocumentOfTheRequest"},
	{name: "no-conceal", guard: "an object's absence is concealed from callers that may not list it", pkg: "./s3", run: "TestAbsenceIsConcealed"},
	{name: "no-decision-per-key", guard: "DeleteObjects decides about each key", pkg: "./s3", run: "TestDeleteObjectsDecidesPerKey"},
	{name: "any-number-of-forms", guard: "forms whose sender is not known yet occupy only a part of the requests in flight", pkg: "./s3", run: "TestSlowForms"},
	{name: "forms-take-their-time", guard: "the fields of a form must arrive within a time limit", pkg: "./s3", run: "TestFormTime"},
	{name: "decided-before-the-body", guard: "a request is authorized again when its body has arrived", pkg: "./s3", run: "TestRevocationWhileABodyArrives|TestPolicyChangesWhileABodyArrives"},
	{name: "tags-looked-up-once", guard: "the decision after the body is about the tags that the object has then", pkg: "./s3", run: "TestTagsChangeWhileABodyArrives"},
	{name: "replaced-secrets-work", guard: "a request that was signed with a replaced secret is refused when its body has arrived", pkg: "./gate", run: "TestAgain"},
	{name: "keys-outlive-their-creators", guard: "an application key expires with the access key that created it", pkg: "./auth/identity", run: "TestKeysAndAccessKeysOfTheirCreators"},
	{name: "admin-by-url", guard: "the admin API refuses signatures that others could use", pkg: "./admin", run: "TestSignaturesThatOthersCouldUse"},
	{name: "empty-is-present", guard: "an empty header is no fact", pkg: "./s3", run: "TestEmptyIsAbsent"},
	{name: "moves-have-no-properties", guard: "conditions about new versions apply to moves", pkg: "./s3", run: "TestFactsOfMoves"},
	{name: "no-confirm", guard: "a decision by the tags of an object is about the version that is read", pkg: "./s3", run: "TestTagsChangeAfterTheDecision"},
	{name: "initiator-despite-deny", guard: "a policy can deny an upload's initiator to abort it", pkg: "./s3", run: "TestInitiator"},
	{name: "no-documents-recorded", guard: "the documents of a bucket, such as its policy, are in its record, and a replay restores them", pkg: "./cmd/orcas", run: "TestIdentitiesSurvive"},
	{name: "guessed-ids", guard: "the ID of a new version cannot be guessed from its sequence", pkg: "./cmd/orcas", run: "TestIDsSurvive"},
	{name: "forged-ids", guard: "an ID that the store has not made is refused", pkg: "./core/ids", run: "TestBoundary"},
	{name: "iam-denies-nothing", guard: "each action of IAM needs a permission", pkg: "./iam", run: "TestPermissions"},
	{name: "target-as-requested", guard: "a permission is about the stored name of its target", pkg: "./iam", run: "TestCaseOfNames"},
	{name: "first-parameter-counts", guard: "a parameter that is given twice is refused", pkg: "./iam", run: "TestAttacks"},
	{name: "parameters-ignored", guard: "no parameter of an action of IAM is ignored", pkg: "./iam", run: "TestParameters"},
	{name: "any-new-name", guard: "a user takes another name only with a permission for that name", pkg: "./iam", run: "TestRename"},
	{name: "versions-forgotten", guard: "a policy is not deleted while it has other versions than the default", pkg: "./iam", run: "TestManagedPolicies"},
	{name: "disabled-accounts-work", guard: "the access keys of a disabled account are refused", pkg: "./auth/identity", run: "TestDisabledAccount"},
	{name: "account-with-users", guard: "an account is not deleted while anything belongs to it", pkg: "./auth/identity", run: "TestDisabledAccount"},
	{name: "tags-for-free", guard: "a user can be created with tags only with a permission for tags", pkg: "./iam", run: "TestUsers"},
	{name: "delete-whatever-is-left", guard: "DeleteUser refuses to delete a user with access keys, policies or groups", pkg: "./auth/identity", run: "TestAdministration"},
	{name: "no-payload-hash", guard: "the signed SHA-256 is compared with the body", pkg: "./s3", run: "TestSpoiltContent|TestPayloadModes"},
}

// TestMutants shows that the bench and the tests detect the absence of each guard.
func TestMutants(t *testing.T) {
	wanted := strings.Split(os.Getenv("ORCAS_FAULTS_MUTANTS"), ",")
	if wanted[0] == "" {
		t.Skip("ORCAS_FAULTS_MUTANTS is not set")
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

// find takes the mutant down under load until there is a violation, and returns the kind of fault that led to it.
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
	if m.mix != nil {
		b.Mix = m.mix()
	}
	s := b.Run(t.Context(), m.downs, down)
	t.Log(s)
	for _, v := range s.Violations[:min(5, len(s.Violations))] {
		t.Log("found:", v)
	}
	require.NotEmpty(t, s.Violations, "the mutant survived: the bench did not detect it")
	require.NotZero(t, s.Downs, "the mutant never ran under load")
	return found
}

// findInProcess runs the tests as the mutant, where they must fail, and without one, where they must pass.
func (m mutant) findInProcess(t *testing.T) {
	binary := buildTests(t, m.pkg, "mutant"+m.tags)
	args := []string{"-test.run", "^(" + m.run + ")$", "-test.failfast"}
	if flags, _ := exec.CommandContext(t.Context(), binary, "-help").CombinedOutput(); strings.Contains(string(flags), "rapid.shrinktime") {
		args = append(args, "-rapid.shrinktime=0s") // nobody reads the example
	}
	test := func(active string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = filepath.Join("..", m.pkg)
		cmd.Env = append(append(os.Environ(), "ORCAS_FAULTS_RESULTS=", "MUTANT="+active), m.env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	sound := strings.Join(append(m.env, m.pkg, m.run, m.tags), " ")
	if !built.sound[sound] {
		out, err := test("none")
		require.NoError(t, err, "the tests fail without a mutant: %s", out)
		require.NotContains(t, out, "no tests to run")
		built.sound[sound] = true
	}
	out, err := test(m.name)
	require.Error(t, err, "the mutant survived: the tests did not detect it")
	require.Contains(t, out, "--- FAIL: Test", "a test must fail, not the build")
}
