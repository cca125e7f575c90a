// Package faults is the fault bench. It tests the main promise of ORCAS: no acknowledged write is ever lost. It runs
// the built binary as a separate process, loads it over S3, takes it down at random moments, starts it again, and
// compares everything that it serves with the writes that it acknowledged.
//
// The parts:
//
//   - A Ledger is a file to which the load client appends, before each request, the effects that the request may have,
//     and after it, how it ended. State is the fold of these records: the possible values of each object, upload and
//     part. If there is one possible value, it is certain. If there are several, requests began and were never
//     acknowledged, so each of the values is correct.
//   - For a key with versions, the State keeps a history: the possible courses of events, each with the versions that
//     it leads to, newest first (see Step). Each unacknowledged request doubles their number. After a power cut, and in
//     relaxed mode, any prefix of the events may have survived, but never an event without those before it. A rename
//     happens for both of its keys or for neither.
//   - The load changes objects, and two documents of the main bucket: its policy and its CORS configuration.
//   - It changes identities too: users, groups, roles, managed policies, application keys and accounts, and their tags,
//     inline policies, memberships, attached policies and access keys (see identityChanges). After each start, all of
//     them are listed. Every access key whose secret the load learned must be accepted, and the last one that was
//     deleted, rotated or disabled must be refused. No change of an identity may be lost in relaxed mode either.
//   - The load uses more buckets than the main one: one per worker, which suspends and enables its versioning; one with
//     object lock; one with versions and a lifecycle whose days are seconds; and one with only a lifecycle. After each
//     start, all versions are listed and read by ID, deletions of locked versions must be refused, and missing versions
//     must have expired (see lifecycle.go). After the last of several kills or stops, lifecycle passes run until
//     everything that expires must be deleted (see leftovers.go).
//   - A Load runs a mixture of the operations in ops.go with many workers. A key belongs to one worker, so the order of
//     its changes is known. A new write operation is one more function and one more line in that table.
//   - Check reads everything back and compares it with the State; each difference is a Violation. The results of the
//     check make uncertain values certain, and the next cycle continues from there with the same data.
//   - Credentials are random for each server, so a server refuses requests of another run.
//   - A Server is the server under test. Process is the real binary. The tests also have a small server in memory that
//     breaks its promises in known ways, which the bench must detect.
//   - Disk is a data directory on a file system whose power can be cut: an inner file system in an image file, on an
//     outer file system that can clone files. A clone of the image, taken while the server runs, contains the data that
//     had reached the device at that moment. The data in the page cache of the inner file system is missing, as after a
//     power cut. A strict Disk has Names on top, which also loses each name that was not made durable by a sync of its
//     directory.
//
// The ledger is a text file with one JSON document per line, see Record. Content is not stored: each piece is a range
// of a stream of numbers that its ID determines, see Piece. So a wrong byte shows which content it belongs to.
//
// The tests read these variables:
//
//	ORCAS_FAULTS_SEED      the seed of all random choices (default: the time; it is printed)
//	ORCAS_FAULTS_CRASH     cycles of SIGKILL (default 3)
//	ORCAS_FAULTS_TERM      cycles of SIGTERM (default 1)
//	ORCAS_FAULTS_IDENTITIES  cycles of SIGKILL while only identities and small objects change (default 3)
//	ORCAS_FAULTS_POWER     power cuts (default 1)
//	ORCAS_FAULTS_POWER_RECLAIM  power cuts while blocks are compacted and unlinked (default 1)
//	ORCAS_FAULTS_VOLATILE  power cuts of a drive with a write cache (default 1)
//	ORCAS_FAULTS_SOAK      seconds of load with reclaim, and with kills (default 9)
//	ORCAS_FAULTS_SPACE     objects in the test of disk space (default 1500)
//	ORCAS_FAULTS_SPACE_TURNS  turns of the measurement of the speed with and without reclaim (default 0: not measured)
//	ORCAS_FAULTS_READBACK  objects in the read-back test (default 3000)
//	ORCAS_FAULTS_START     objects in the test of starts (default 2000)
//	ORCAS_FAULTS_OVERWRITES  overwrites of 5 MiB while slow readers read (default 200)
//	ORCAS_FAULTS_READERS   slow readers, in addition to the one whose object is deleted (default 1000)
//	ORCAS_FAULTS_MEMORY    MiB of each of 64 uploads to a server with little memory (default: none, not tested)
//	ORCAS_FAULTS_FULL      1: every kind of full drive (default: one kind)
//	ORCAS_FAULTS_RESULTS   a file to which each test adds a line, see package result (default: none)
//	ORCAS_FAULTS_MUTANTS   mutants to build and detect: "all", or names separated by commas (default: none)
//	ORCAS_FAULTS_RATE      minimum rate of the load, in acknowledged operations per second (default 0)
//	ORCAS_FAULTS_READY     maximum seconds from a start until the server is ready, and from free space on a full
//	                       drive until it accepts writes (default: only a hang fails, for busy machines)
//	ORCAS_FAULTS_FS        the inner file system of the power cuts, ext4 or xfs (default ext4)
//	ORCAS_FAULTS_COMPRESSION  compression of the server, fast or better (default: off)
//	ORCAS_FAULTS_ENCRYPTION  1: the server encrypts everything
//	ORCAS_FAULTS_BINARY    the server (default: built from ./cmd/orcas)
//	ORCAS_FAULTS_DIR       a directory in which ledgers, logs and data are kept (default: a directory that is removed)
//	ORCAS_FAULTS_REQUIRED  1: tests that cannot run on this machine fail instead of being skipped
package faults
