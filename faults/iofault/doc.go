// Package iofault makes the drive under a server fail at one operation after another, and compares the server with the
// writes that it acknowledged.
//
// A Drive is a pass-through file system (FUSE) with one counter for all operations that reach it, from Go and from
// SQLite alike. A Fault selects one operation, or all operations from that one on. Its Action determines what happens
// there: the operation fails with EIO or ENOSPC, or the server gets a SIGKILL during it. A write that fails, or during
// which the server is killed, still writes the first half of its bytes. Read operations (read, readdir, stat) are
// counted separately (see Fault.Reads).
//
// A failed sync loses the data that it should have made durable: the data can be read while the server runs, and is
// lost once the server has exited (see losses).
//
// Some operations are not counted: locks, which the kernel handles itself and which do not reach the drive;
// closing files and directories; and, of the -shm file, which is the shared memory that SQLite maps,
//
//   - reads, because a page of mapped memory that cannot be read is a SIGBUS, which the server need not survive; and
//   - the kernel's own writes, because no program waits for them and no startup relies on them.
//
// Every other operation that the server uses is counted, on the -shm file too. All other files bypass the page cache,
// so that every read and write is counted.
//
// A Script is a short sequence of requests, with a start or a stop, on a prepared data directory. A Sweep runs it with
// the fault at operation 1, 2, 3, ... until it ends before the fault is reached. At each point:
//
//   - each request ends, within a time limit, with status 200, or with a 5xx and an S3 error document, or, if the
//     server was killed, with a broken connection; a 200 never has wrong bytes, but a download breaks off if a later
//     read fails;
//   - after the fault, the server accepts writes or refuses them with 503; reads work;
//   - a shutdown completes, and the server is ready within 5 s after it is started again, without manual repair;
//   - then, and after one more stop and start, everything that was acknowledged exists and is complete; deleted objects
//     do not exist; listings agree with reads; and fsck, which recounts all references and reads all content, finds no
//     difference.
//
// Every data directory contains some content twice, and some that is encrypted with a customer key. With
// ORCAS_FAULTS_COMPRESSION and ORCAS_FAULTS_ENCRYPTION, all content is also compressed and encrypted. Once a Script has
// rotated the master key and the rotation was acknowledged, the server is restarted without the old key, and at the end
// without the database too.
//
// A failed request may or may not have taken effect. Both outcomes are correct until a later request for the same key
// is acknowledged.
//
// The tests read these variables:
//
//	ORCAS_FAULTS_FULL      1: every script with every fault; otherwise one script
//	ORCAS_FAULTS_REQUIRED  1: without /dev/fuse, the tests fail instead of being skipped
//	ORCAS_FAULTS_BINARY    the server to test; otherwise it is built
//	ORCAS_FAULTS_SCRIPTS   with FULL: the names of the scripts, separated by commas; otherwise all of them.
//	                       NAME/9: only every ninth operation of that script;
//	                       NAME/1/9: every operation, but only every ninth for permanent faults and for reads
//	ORCAS_FAULTS_COMPRESSION  compression of the server, fast or better (default: off)
//	ORCAS_FAULTS_ENCRYPTION  1: the server encrypts everything
//	ORCAS_FAULTS_TURN      0 to 3 (default 0): offset in the cycle of the four ways to end a point (see point.withFault);
//	                       four runs, one with each value, end every point in every way
//	ORCAS_FAULTS_WORKERS   points that are tested concurrently (default 2)
package iofault
