package perf

import (
	"bufio"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"orcas/internal/aesgcm"
	"orcas/internal/checksum"
	"orcas/perf/result"
)

// ownCPUTime returns the CPU time that this process has used.
func ownCPUTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuTime returns the user and system CPU time that a process has used, in steps of 10 ms, or 0 if it cannot be read.
func cpuTime(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11]) // the kernel guarantees a number
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * (time.Second / 100)
}

// ResidentBytes returns the resident memory of a process and its peak, or 0 if they cannot be read.
func ResidentBytes(pid int) (now, peak int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || pid == 0 {
		return 0, 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak
}

// writtenBytes returns the bytes that a process has caused to be written to a drive: write_bytes of /proc/PID/io, which
// the kernel counts when a clean page of a file becomes dirty. It includes neither the journal of the file system nor
// writes of other processes.
func writtenBytes(pid int) (int64, error) {
	file := fmt.Sprintf("/proc/%d/io", pid)
	n, err := strconv.ParseInt(procField(file, "write_bytes"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s cannot be read, or has no field write_bytes", file)
	}
	return n, nil
}

// deviceWrittenBytes returns the bytes that all processes and the kernel have written to the block device of a
// directory, or false if its file system is not on a block device.
func deviceWrittenBytes(dir string) (int64, bool) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0, false
	}
	b, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return 0, false
	}
	const sectorsWritten, sector = 6, 512 // Documentation/block/stat.rst of Linux
	f := strings.Fields(string(b))
	if len(f) <= sectorsWritten {
		return 0, false
	}
	n, err := strconv.ParseInt(f[sectorsWritten], 10, 64)
	return n * sector, err == nil
}

// usage returns the number of files below a directory and the bytes that they use on the drive. Files that a running
// server deletes in the meantime do not count.
func usage(dir string) (files int, bytes int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return nil
		}
		var st unix.Stat_t
		if err == nil {
			err = unix.Stat(path, &st)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir:
			return nil
		case err != nil:
			return err
		}
		files++
		bytes += st.Blocks * 512
		return nil
	})
	return files, bytes, err
}

// freeBytes returns the number of free bytes on the file system of a directory.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// environment describes this machine. The caller fills in the fields about a data directory.
func environment(version string) result.Environment {
	e := result.Environment{OS: runtime.GOOS, Arch: runtime.GOARCH, NumCPU: runtime.NumCPU(), GoVersion: runtime.Version(), Version: version, Encryption: aesgcm.Means()}
	e.CPU = procField("/proc/cpuinfo", "model name")
	kb, _ := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	e.MemoryBytes = kb << 10
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		e.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				e.Commit = s.Value + e.Commit
			case s.Key == "vcs.modified" && s.Value == "true":
				e.Commit += " (modified)"
			}
		}
	}
	return e
}

// procField returns the first value of a name in a file of "name : value" lines, or "" if there is none.
func procField(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if k, v, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// fileSystem returns the name of the file system of a directory.
func fileSystem(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	longest, kind := 0, ""
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		at := strings.TrimSuffix(f[1], "/")
		if len(f[1]) >= longest && (dir == at || strings.HasPrefix(dir, at+"/")) {
			longest, kind = len(f[1]), f[2]
		}
	}
	return kind
}

// MeasureMemory measures the throughput on one core of each function that processes content, each for the time d.
func MeasureMemory(d time.Duration) ([]result.MemoryRow, error) {
	random := make([]byte, 1<<20)
	_, _ = rand.Read(random) // never fails
	half := append([]byte(nil), random...)
	for at := 0; at < len(half); at += 1 << 10 {
		clear(half[at : at+512])
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer encoder.Close()
	var compressed []byte
	of := func(h hash.Hash) func() {
		return func() { _, _ = h.Write(random) } // hashes never fail
	}
	var rows []result.MemoryRow
	for _, f := range []struct {
		name string
		run  func()
	}{
		{"md5", of(md5.New())}, {"sha256", of(sha256.New())}, {"xxh3", of(xxh3.New())}, {"crc64nvme", of(checksum.New(checksum.CRC64NVME))},
		{"zstd", func() { compressed = encoder.EncodeAll(half, compressed[:0]) }},
	} {
		f.run() // warm up
		start, n := time.Now(), 0
		for ; time.Since(start) < d; n++ {
			f.run()
		}
		rows = append(rows, result.MemoryRow{Function: f.name, BytesPerSec: float64(n) * float64(len(random)) / time.Since(start).Seconds()})
	}
	return rows, nil
}
