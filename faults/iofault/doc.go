// Package iofault makes the drive under a server fail at one operation after another, and compares the server with the
// writes that it acknowledged.
//
// A Drive is a pass-through file system (FUSE) with one counter for all operations that reach it, from Go and from
// SQLite alike. A Fault specifies at which of them something happens, once or from then on: the operation fails with
// EIO or ENOSPC, or the server gets a SIGKILL during it (its Action). A write that fails, or during which the server
// dies, leaves the first half of its bytes. Read operations (read, readdir, stat) are counted separately, see
// Fault.Reads.
//
// A failed sync loses the data that it was to make durable: the data can be read while the server runs, and is lost
// when the server has ended (see losses).
//
// Two kinds of operations are not counted: locks, which the kernel handles itself and which do not reach the drive; and
// the kernel's own writes of the shared memory that SQLite maps beside its log (the file -shm), for which no program
// waits and on which no start relies. All other operations on that file are counted. All other files bypass the page
// cache, so that every read and write is counted.
//
// A Script is a short sequence of requests, with a start or a stop, on a prepared data directory. A Sweep runs it with
// the fault at operation 1, 2, 3, ... until it ends before the fault is reached. At each point:
//
//   - each request ends, within a time limit, with status 200, or with a 5xx and an S3 error document, or, if the
//     server was killed, with a broken connection; a 200 never has wrong bytes, but a download breaks off if a later
//     read fails;
//   - after the fault, the server accepts writes or refuses them with 503; reads work;
//   - a stop ends, and the next start is ready within 5 s without manual repair;
//   - then, and after one more stop and start, everything that was acknowledged exists and is complete; deleted objects
//     do not exist; listings agree with reads; and fsck, which recounts all references and reads all content, finds no
//     difference.
//
// Every data directory contains some content twice, and some that is encrypted with a customer key. With the variables
// below, everything is also compressed and encrypted. A Script with a rotation of the master key starts without the old
// key once the rotation was acknowledged, and in the end without the database too.
//
// A failed request may have been carried out or not. Both are correct, until a later request for the same key is
// acknowledged.
//
// The tests read these variables:
//
//	ORCAS_FAULTS_FULL      1: every script with every fault; otherwise one script
//	ORCAS_FAULTS_REQUIRED  1: without /dev/fuse, the tests fail instead of being skipped
//	ORCAS_FAULTS_BINARY    the server to test; otherwise it is built
//	ORCAS_FAULTS_SCRIPTS   with FULL: the names of the scripts, separated by commas; otherwise all of them.
//	                       NAME/9: only every ninth operation of that script;
//	                       NAME/1/9: every operation, but every ninth for permanent faults and for reads
//	ORCAS_FAULTS_COMPRESSION  compression of the server, fast or better (default: off)
//	ORCAS_FAULTS_ENCRYPTION  1: the server encrypts everything
//	ORCAS_FAULTS_TURN      0 to 3: the ending of the first point (default 0); four runs, one with each value, cover
//	                       every ending of every point
//	ORCAS_FAULTS_WORKERS   points that are tested concurrently (default 2)
package iofault
