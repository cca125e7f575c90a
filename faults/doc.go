// Package faults is the bench that holds ORCAS to its first sentence: nothing acknowledged is ever lost. It runs the built
// binary as a process of its own, loads it over S3, takes it down at random moments, starts it again and compares all that
// it holds with what it had acknowledged.
//
// The parts:
//
//   - A Ledger is a file to which the load client appends, before each request, what the request is about to do, and after
//     it, how it ended. State is the fold of its records: for each object, upload and part the values that it may have. One
//     value: certain. Several: requests began and were never acknowledged, so either is right.
//   - Of a key with versions the State keeps a history: the courses of events that are possible, each with the versions that it leads to, newest
//     first (see Step). A request that nobody answered doubles them. After a power cut, and in relaxed mode, any beginning of what happened may be
//     left, and never an end without what went before it; of a rename both halves, or none.
//   - The load has buckets beside the main one: one for each worker, whose versions it suspends and enables again; one with object lock; one with versions and a
//     lifecycle whose days are seconds; and one with a lifecycle alone. After each start all versions are listed and read by their ids, what a lock
//     keeps must refuse to be deleted, and what is not there any more must have been due (see lifecycle.go). After the last of several kills or stops, the lifecycles are asked for passes until
//     all that they take must be gone: nothing may be left of it (see leftovers.go).
//   - A Load drives a mixture of the operations of the table in ops.go with many workers. A key belongs to one worker, so
//     that the order of its changes is known. A new writing operation is one more function and one more line in that table.
//   - Check reads everything back and compares it with the State; each difference is a Violation. What it finds of the
//     uncertain becomes certain, and the next cycle goes on from there with the same data.
//   - Credentials are random for each server: a request of another run is refused by it.
//   - A Server is what is tried: Process is the real binary; the tests have a small one in memory that lies in known
//     ways, which the bench must notice.
//   - Disk is a data directory on a file system whose power can be cut: an inner file system in an image file on an outer
//     file system that can clone files. A clone of the image while the server runs holds what had reached the device
//     at that moment; what was still in the page cache of the inner file system is missing in it, as after a power cut. A
//     strict Disk has Names on top, which also forget every name that no directory sync made last.
//
// The ledger is a text file with one JSON document per line, see Record. Contents are not kept: each is a run of a stream of
// numbers that its id determines, see Piece, so a wrong byte tells whose it is.
//
// The tests read these variables:
//
//	ORCAS_FAULTS_SEED      the seed of all random choices (default: the time; it is printed)
//	ORCAS_FAULTS_CRASH     cycles of SIGKILL (default 3)
//	ORCAS_FAULTS_TERM      cycles of SIGTERM (default 1)
//	ORCAS_FAULTS_POWER     power cuts (default 1)
//	ORCAS_FAULTS_POWER_RECLAIM  power cuts while blocks are emptied and unlinked (default 1)
//	ORCAS_FAULTS_VOLATILE  power cuts of a drive with a write cache (default 1)
//	ORCAS_FAULTS_SOAK      seconds of load with reclaim, and of kills in it (default 9)
//	ORCAS_FAULTS_SPACE     objects of the test of room (default 1500)
//	ORCAS_FAULTS_SPACE_TURNS  turns in which the speed with and without reclaim is measured (default 0: it is not)
//	ORCAS_FAULTS_READBACK  objects of the read-back test (default 3000)
//	ORCAS_FAULTS_START     objects of the test of starts (default 2000)
//	ORCAS_FAULTS_FULL      1: every kind of full drive (default: one)
//	ORCAS_FAULTS_RESULTS   a file to which each test adds a line, see package result (default none)
//	ORCAS_FAULTS_MUTANTS   mutants to build and hunt: "all" or names with commas between (default none)
//	ORCAS_FAULTS_RATE      acknowledged operations a second that the load must reach (default 0)
//	ORCAS_FAULTS_READY     seconds that a start may take until the server is ready (default: no limit, for busy machines)
//	ORCAS_FAULTS_FS        the inner file system of the power cuts, ext4 or xfs (default ext4)
//	ORCAS_FAULTS_COMPRESSION  fast or better: how the server compresses (default: not at all)
//	ORCAS_FAULTS_ENCRYPTION  1: the server encrypts everything
//	ORCAS_FAULTS_BINARY    the server (default: built from ./cmd/orcas)
//	ORCAS_FAULTS_DIR       where ledgers, logs and data are left for inspection (default: a directory that is removed)
//	ORCAS_FAULTS_REQUIRED  1: what cannot run here fails instead of being skipped
package faults
