// Package model holds the tests of the fault bench that run a whole server in their own process, with real sockets,
// real block files and a real database. It has no code of its own. The tests check:
//
//   - the behavior of the server, compared with a model in memory, with restarts and crashes between operations;
//   - that each key is linearizable;
//   - that exactly one of several conditional writers wins;
//   - that flipped bits in stored data are detected;
//   - that no goroutine outlives the server;
//   - that the server works when its clock steps.
//
// # Crashes
//
// A server in this process cannot be killed. Instead, its data directory is copied while it runs: the copy is what a
// killed server would leave. The database is copied before the blocks, so it is never newer than the blocks, as after a
// SIGKILL or a power cut. Because every change is recorded in the blocks, two harder states are valid as well: an older
// database, and no database at all.
//
// # Scripts
//
// A sequence of operations is data (step). If a sequence fails, rapid shortens it, and the test prints it as Go source
// for the table of named cases.
//
// The tests read these variables; the counts are for a whole test run:
//
//	ORCAS_FAULTS_SEED       the seed of all random choices (default: the time; it is printed)
//	ORCAS_FAULTS_FULL       1: the full counts that each change must pass, and the real binary with SIGKILL
//	ORCAS_FAULTS_SEQUENCES  sequences compared with the model
//	ORCAS_FAULTS_HISTORIES  histories for linearizability
//	ORCAS_FAULTS_OPS        operations of each of the 16 clients in a history
//	ORCAS_FAULTS_ROUNDS     rounds of 64 writers
//	ORCAS_FAULTS_FLIPS      flipped bits per kind of file, with a start each
//	ORCAS_FAULTS_BITS       flipped bits of a block under a running server
//
// The servers also read ORCAS_FAULTS_COMPRESSION (fast or better) and ORCAS_FAULTS_ENCRYPTION (1: everything), as in
// package faults. A quarter of the sequences, and half of the flips in stopped stores, use both from the beginning. All
// of them have some equal content.
package model
