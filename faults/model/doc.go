// Package model holds the tests of the fault bench that run a whole server in their own process, over real sockets,
// real block files and a real database: its behaviour against a model in memory, with restarts and crashes among the
// operations; linearizability of each key; one winner among conditional writers; flipped bits in everything it keeps;
// goroutines that outlive it; a clock that steps. It has no code of its own.
//
// # Crashes
//
// A server in this process cannot be killed, but what a killed one leaves behind can be had: a copy of its data
// directory, taken while it runs. The database is copied before the blocks, so the copy holds it at or before the
// moment of the blocks, as after a SIGKILL or a power cut. Two harder states are legal as well, since every change is
// recorded in the blocks: the database as it was at some time before, and no database at all.
//
// # Scripts
//
// A sequence of operations is data (step). A failed one is printed as Go source, after rapid has made it shorter, to be
// put into the table of named cases.
//
// The tests read these variables; the counts are of whole test runs:
//
//	ORCAS_FAULTS_SEED       the seed of all random choices (default: the time; it is printed)
//	ORCAS_FAULTS_FULL       1: the counts of each change instead of the short ones; the real binary too, with SIGKILL
//	ORCAS_FAULTS_SEQUENCES  sequences against the model
//	ORCAS_FAULTS_HISTORIES  histories for linearizability
//	ORCAS_FAULTS_OPS        operations of each of the 16 clients in a history
//	ORCAS_FAULTS_ROUNDS     rounds of 64 writers
//	ORCAS_FAULTS_FLIPS      flipped bits per kind of file, with a start each
//	ORCAS_FAULTS_BITS       flipped bits of a block under a running server
//
// And these, of the servers: ORCAS_FAULTS_COMPRESSION (fast or better) and ORCAS_FAULTS_ENCRYPTION (1: everything), as
// package faults does. A quarter of the sequences has both on from the beginning, and so has half of the flips in
// stores that stand still; in all of them some content is equal to other.
package model
