package perf

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DiskCeiling is what one writer can make durable in a directory.
type DiskCeiling struct {
	SizeBytes int
	Median    time.Duration // of one append and fdatasync
	P99       time.Duration
}

// MeasureDisk appends size bytes n times to a file in dir, with an fdatasync after each.
func MeasureDisk(dir string, size, n int) (DiskCeiling, error) {
	f, err := os.CreateTemp(dir, "perf-disk-*")
	if err != nil {
		return DiskCeiling{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if _, err := f.Write(b); err != nil {
			return DiskCeiling{}, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return DiskCeiling{}, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return DiskCeiling{size, took[n/2], took[n*99/100]}, nil
}

// MeasureFiles writes n files of size bytes in dir, workers at a time, each in pieces of 256 KiB and with one fdatasync at its end, and
// returns how many a second were made durable.
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
