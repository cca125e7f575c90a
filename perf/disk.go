package perf

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"orcas/perf/result"
)

// MeasureDisk appends size bytes n times to a file in dir, with an fdatasync after each. It measures the rate at which
// one writer can make data durable.
func MeasureDisk(ctx context.Context, dir string, size, n int) (row result.DiskRow, err error) {
	f, b, done, err := measured(dir, size)
	if err != nil {
		return row, err
	}
	defer done()
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if _, err := f.Write(b); err != nil {
			return row, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return row, os.NewSyscallError("fdatasync", err)
		}
		took[i] = time.Since(start)
		if ctx.Err() != nil {
			return row, ctx.Err()
		}
	}
	slices.Sort(took)
	row = result.DiskRow{SizeBytes: int64(size), P50us: micros(took[n/2])}
	row.BytesPerSec = float64(size) / took[n/2].Seconds()
	if n >= 100 {
		row.P99us = micros(took[n*99/100])
	}
	return row, nil
}

// measured returns a file in dir, which done deletes, and size random bytes to write to it.
func measured(dir string, size int) (f *os.File, b []byte, done func(), err error) {
	if f, err = os.CreateTemp(dir, "perf-disk-*"); err != nil {
		return nil, nil, nil, err
	}
	b = make([]byte, size)
	_, _ = rand.Read(b) // never fails
	return f, b, func() {
		f.Close()
		os.Remove(f.Name())
	}, nil
}

// MeasureSequential writes total bytes to a file in dir in pieces of size bytes, with one fdatasync at the end.
func MeasureSequential(dir string, size int, total int64) (row result.DiskRow, err error) {
	f, b, done, err := measured(dir, size)
	if err != nil {
		return row, err
	}
	defer done()
	start := time.Now()
	for written := int64(0); written < total; written += int64(size) {
		if _, err := f.Write(b); err != nil {
			return row, err
		}
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return row, os.NewSyscallError("fdatasync", err)
	}
	return result.DiskRow{SizeBytes: int64(size), Sequential: true, BytesPerSec: float64(total) / time.Since(start).Seconds()}, nil
}

// MeasureFiles writes n files of size bytes in dir, workers at a time, each in pieces of 256 KiB and with one fdatasync
// at its end. It returns the number of files per second that were made durable.
func MeasureFiles(dir string, size, n, workers int) (float64, error) {
	b := make([]byte, 256<<10)
	_, _ = rand.Read(b) // never fails
	work := make(chan int, n)
	for i := range n {
		work <- i
	}
	close(work)
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	start := time.Now()
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range work {
				if err := writeFile(dir, b, size); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	wg.Wait()
	took := time.Since(start)
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(n) / took.Seconds(), nil
	}
}

func writeFile(dir string, b []byte, size int) error {
	f, err := os.CreateTemp(dir, "perf-file-*")
	if err != nil {
		return err
	}
	defer os.Remove(filepath.Clean(f.Name()))
	defer f.Close()
	for left := size; left > 0; left -= len(b) {
		if _, err := f.Write(b[:min(left, len(b))]); err != nil {
			return err
		}
	}
	return unix.Fdatasync(int(f.Fd()))
}
