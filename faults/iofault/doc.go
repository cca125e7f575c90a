// Package iofault lets the drive under a server fail at one operation after the other, and compares the server with
// what it had acknowledged.
//
// A Drive is a pass-through file system (FUSE) with one counter over all operations that reach it, those of Go and of
// SQLite alike. A Fault says at which of them something happens (its Action: the operation fails with EIO or ENOSPC, or
// the server gets a SIGKILL in it), once or from there on. A write that fails, or dies, leaves the first half of its
// bytes. Reading (read, readdir, stat) is counted apart, see Fault.Reads.
//
// A sync that fails has lost what it was for: it can be read while the server runs, and is gone when it has ended (see
// losses).
//
// Left out of the counter: locks, which the kernel keeps by itself and which do not reach the drive; and what the
// kernel writes back, when it likes, of the shared memory that SQLite maps beside its log (the file -shm), which nobody
// waits for and which no start believes. Everything else of that file counts. All files but that one bypass the page
// cache, so that every read and write is seen.
//
// A Script is a short sequence of requests, with a start or a stop, on a prepared data directory. A Sweep runs it with
// the fault at operation 1, 2, 3, ... until it ends before the fault is reached. At each point it must hold that
//
//   - each request ends, within a bound, with 200, or with a 5xx and an error document of S3, or, when the server was killed,
//     with a broken connection; a 200 never brings wrong bytes, but a download breaks off if a later read fails;
//   - after the fault the server takes writes, or refuses them with 503; reads work;
//   - a stop ends, and the next start is ready within 5 s without repair by hand;
//   - then, and after one more stop and start, everything that was acknowledged is there, whole; what was deleted is not; the listings
//     say the same; and a recount of all references (fsck), which reads every content, finds no difference.
//
// Some content is in every data directory twice, and some is encrypted with a customer's key. With the variables below,
// everything is also compressed and encrypted. A Script with a rotation of the master key starts without the old key
// once the rotation was acknowledged, and in the end also without the database.
//
// A request that failed may have been carried out or not: both are right, until a later one on the same key is
// acknowledged.
//
// The tests read these variables:
//
//	ORCAS_FAULTS_FULL      1: every script with every fault; otherwise one script
//	ORCAS_FAULTS_REQUIRED  1: without /dev/fuse the tests fail instead of being skipped
//	ORCAS_FAULTS_BINARY    the server to try; otherwise it is built
//	ORCAS_FAULTS_SCRIPTS   with FULL: the names of the scripts, separated by commas; otherwise all. NAME/9: every ninth operation of it;
//	                       NAME/1/9: every one, and every ninth with a fault that stays or among those that read
//	ORCAS_FAULTS_COMPRESSION  fast or better: how the server compresses (default: not at all)
//	ORCAS_FAULTS_ENCRYPTION  1: the server encrypts everything
//	ORCAS_FAULTS_TURN      0 to 3: which ending the first point has (default 0); with all four, each point has had each
//	ORCAS_FAULTS_WORKERS   points that are tried at the same time (default 2)
package iofault
