package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/faults/result"
)

// TestFullDisk fills a small drive until all writes are refused. Refused writes must return 507, and no acknowledged
// write may be lost. Reads, listings and deletions must work, and the server must stop and start, even after a kill.
// When space is freed, writes must be accepted without a restart.
func TestFullDisk(t *testing.T) {
	long(t)
	for _, c := range []struct {
		name     string
		mkfs     []string
		settings []string
	}{
		{"the reserve is reached", nil, []string{"ORCAS_MIN_FREE=33554432"}},
		{"no reserve, no byte left", nil, []string{"ORCAS_MIN_FREE=0"}},
		{"no reserve, no packing", nil, []string{"ORCAS_MIN_FREE=0", "ORCAS_BATCH_WRITE_ENABLED=false"}},
		{"no inode left", []string{"-N", "128"}, []string{"ORCAS_MIN_FREE=0"}},
		{"no inode left, no packing", []string{"-N", "128"}, []string{"ORCAS_MIN_FREE=0", "ORCAS_BATCH_WRITE_ENABLED=false"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.mkfs != nil || len(c.settings) > 1 || c.settings[0] != "ORCAS_MIN_FREE=0" {
				if os.Getenv("ORCAS_FAULTS_FULL") != "1" {
					t.Skip("takes long: set ORCAS_FAULTS_FULL=1")
				}
			}
			if !private(t) {
				return
			}
			d := newDrive(t, 320<<20, c.mkfs, c.settings)
			d.reserve = !slices.Contains(c.settings, "ORCAS_MIN_FREE=0")
			d.row = result.Of(t, result.Row{Fault: "full-disk", Name: c.name, Unit: "writes refused", Seed: d.seed})
			d.run(t)
		})
	}
}

// smallDrive is a server with its data on a drive of a few hundred MiB, and the writes that it acknowledged.
type smallDrive struct {
	root   string // of the drive
	p      *Process
	client *Client
	seed   uint64
	random *rand.Rand
	id     uint64
	has    map[string]*Value // by key
	// may has the results of refused writes by key (nil: no object). A start may apply these writes from their records.
	may map[string][]*Value
	row *result.Row

	reserve bool // the server reserves space for deletions
}

func newDrive(t *testing.T, size int64, mkfs, settings []string) *smallDrive {
	t.Helper()
	dir := workDir(t)
	image, root := filepath.Join(dir, "image"), filepath.Join(dir, "drive")
	require.NoError(t, sparse(image, size))
	require.NoError(t, os.Mkdir(root, 0o755))
	ctx := t.Context()
	for _, command := range [][]string{append([]string{"mkfs.ext4", "-q", "-F"}, append(mkfs, image)...), {"mount", "-o", "loop,noatime", image, root}} {
		if err := run(ctx, command[0], command[1:]...); err != nil {
			cannot(t, err.Error())
		}
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, unix.MNT_DETACH)) })
	n := seed(t)
	d := &smallDrive{root: root, seed: n, random: rand.New(rand.NewPCG(n, 1)), has: map[string]*Value{}, may: map[string][]*Value{}}
	d.p = &Process{Binary: buildServer(t, ""), Data: filepath.Join(root, "data"), Log: filepath.Join(dir, "log"), Settings: [][]string{settings}}
	t.Cleanup(func() { require.NoError(t, d.p.Kill()) })
	return d
}

func (d *smallDrive) start(t *testing.T) {
	t.Helper()
	begun := time.Now()
	endpoint, err := d.p.Start(t.Context())
	require.NoError(t, err, "%s", tail(d.p.Log))
	d.row.Ready = max(d.row.Ready, time.Since(begun).Seconds())
	d.client = NewClient(endpoint, d.p.Credentials(), bucket, 4)
	t.Cleanup(d.client.Close)
}

// put writes an object and reports whether it was accepted; a refusal must be 507.
func (d *smallDrive) put(t *testing.T, key string, size int64) bool {
	t.Helper()
	d.id++
	v, body := NewValue(Piece{ID: d.id, Size: size})
	tag, err := d.client.Put(t.Context(), key, body, "", "")
	if err == nil {
		require.Equal(t, v.ETag, tag)
		d.has[key] = v
		delete(d.may, key)
		d.row.Acknowledged++
		return true
	}
	d.may[key] = append(d.may[key], v)
	d.refused(t, err)
	return false
}

// refused checks the error of a refused write.
func (d *smallDrive) refused(t *testing.T, err error) {
	t.Helper()
	code, name := status(err)
	require.Equal(t, http.StatusInsufficientStorage, code, "%s: %v\n%s", name, err, tail(d.p.Log))
	d.row.Tried++
}

// check compares all objects.
func (d *smallDrive) check(t *testing.T) {
	t.Helper()
	listed := map[string]string{}
	require.NoError(t, d.client.List(t.Context(), 1000, func(key string, v Value) { listed[key] = v.ETag }))
	for key, list := range d.may { // refused writes that a start has applied are certain from now on
		for _, v := range list {
			if tag, there := listed[key]; there && v != nil && tag == v.ETag {
				d.has[key] = v
			} else if !there && v == nil {
				delete(d.has, key)
			}
		}
	}
	for key, tag := range listed {
		require.Contains(t, d.has, key)
		require.Equal(t, d.has[key].ETag, tag, key)
	}
	require.Len(t, listed, len(d.has))
	for key, v := range d.has {
		body, tag, _, err := d.client.Get(t.Context(), key)
		require.NoError(t, err, key)
		require.Equal(t, v.ETag, tag, key)
		require.Empty(t, v.differ(body), key)
	}
}

// fill writes objects of a size until several in a row are refused.
func (d *smallDrive) fill(t *testing.T, name string, size int64) {
	t.Helper()
	for i, misses := 0, 0; misses < 5; i++ {
		require.Less(t, i, 100_000, "the drive is still not full")
		if !d.put(t, fmt.Sprintf("%s-%05d", name, i), size) {
			misses++
		}
	}
}

func (d *smallDrive) run(t *testing.T) {
	filler := filepath.Join(d.root, "filler")
	d.start(t)
	require.NoError(t, d.client.CreateBucket(t.Context()))
	require.NoError(t, os.WriteFile(filler, bytes.Repeat([]byte("x"), 64<<20), 0o644))
	var inodes []string // files that are removed together with the filler
	for i := range 12 {
		inodes = append(inodes, fmt.Sprintf("%s-%d", filler, i))
		require.NoError(t, os.WriteFile(inodes[i], nil, 0o644))
	}
	for i := range 20 {
		require.True(t, d.put(t, fmt.Sprintf("first-%d", i), d.random.Int64N(60_000)))
	}
	upload, err := d.client.CreateUpload(t.Context(), "joined")
	require.NoError(t, err)

	d.fill(t, "large", 3<<20)
	d.fill(t, "middle", 200<<10)
	d.fill(t, "small", 10_000)
	_, part := NewValue(Piece{ID: 1 << 40, Size: 5 << 20})
	_, err = d.client.PutPart(t.Context(), Name{Key: "joined", Upload: upload, Part: 1}, part)
	require.Error(t, err)
	d.refused(t, err)
	d.put(t, "first-0", 1<<20) // if this is refused, the old object remains
	d.check(t)
	d.remove(t, "first-1", "large-00000")
	d.check(t)

	for _, down := range []func() error{d.stopFull, d.p.Kill} {
		require.NoError(t, down())
		d.start(t)
		d.check(t)
		d.remove(t, "first-2", "first-3")
		d.fill(t, "again", 100<<10)
	}

	require.NoError(t, os.Remove(filler))
	for _, name := range inodes {
		require.NoError(t, os.Remove(name))
	}
	begun, resumeMax := time.Now(), time.Duration(count(t, "ORCAS_FAULTS_READY", 60))*time.Second
	for i := 0; !d.put(t, fmt.Sprintf("resumed-%d", i), 1<<20) || !d.put(t, fmt.Sprintf("resumed-small-%d", i), 100); i++ {
		require.Less(t, time.Since(begun), resumeMax, "writes are still refused")
		time.Sleep(50 * time.Millisecond)
	}
	d.row.Note = fmt.Sprintf("writes were accepted again %.1f s after space was freed", time.Since(begun).Seconds())
	d.check(t)
	require.NoError(t, d.p.Stop())
	require.Empty(t, d.p.Alarms())
}

// stopFull stops the server while the drive is full. Without a reserve, the database may have no space for the last
// changes. The server must say so, and the next start applies them from their records.
func (d *smallDrive) stopFull() error {
	err := d.p.Stop()
	if exit := new(exec.ExitError); !d.reserve && errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(tail(d.p.Log), "the next start applies them") {
		return nil
	}
	return err
}

// remove deletes keys, for which space is reserved. Without a reserve, a deletion on a full drive may return 507 and
// keep the object.
func (d *smallDrive) remove(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		err := d.client.Delete(context.WithoutCancel(t.Context()), key)
		if err != nil && !d.reserve {
			d.may[key] = append(d.may[key], nil)
			d.refused(t, err)
			continue
		}
		require.NoError(t, err, "%s\n%s", key, tail(d.p.Log))
		delete(d.may, key)
		maps.DeleteFunc(d.has, func(k string, _ *Value) bool { return k == key })
	}
}
