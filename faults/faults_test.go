package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/faults/result"
)

// count returns the value of a variable or, if it is not set, a default, which is divided by three with -short.
func count(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" && testing.Short() {
		return (otherwise + 2) / 3
	}
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, variable)
	return n
}

// seed returns the seed of all random choices, and prints it.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(count(t, "ORCAS_FAULTS_SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("ORCAS_FAULTS_SEED=%d", n)
	return n
}

// workDir returns an empty directory, which is kept if ORCAS_FAULTS_DIR is set.
func workDir(t *testing.T) string {
	t.Helper()
	keep := os.Getenv("ORCAS_FAULTS_DIR")
	if keep == "" {
		return t.TempDir()
	}
	require.NoError(t, os.MkdirAll(keep, 0o755))
	dir, err := os.MkdirTemp(keep, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	require.NoError(t, err)
	t.Log("kept in", dir)
	return dir
}

// long skips a test with -short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: run `make test-all`")
	}
}

// built are the binaries that this process has built. They are kept because a build takes longer than many of the tests.
var built struct {
	mu    sync.Mutex // guards the fields below
	dir   string
	ready map[string]bool // the files in dir
	sound map[string]bool // the tests that have passed without a mutant (see findInProcess)
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(built.dir) // the system removes temporary files too
	os.Exit(code)
}

// buildOnce returns the path of the file with the given name, which build creates unless this process has done so before.
func buildOnce(t *testing.T, name string, build func(path string) error) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "orcas-faults-")
		require.NoError(t, err)
		built.dir, built.ready, built.sound = dir, map[string]bool{}, map[string]bool{}
	}
	path := filepath.Join(built.dir, name)
	if !built.ready[name] {
		require.NoError(t, build(path))
		built.ready[name] = true
	}
	return path
}

// buildServer returns the path of the server's binary, built as a mutant if mutant is not "".
func buildServer(t *testing.T, mutant string) string {
	t.Helper()
	if given := os.Getenv("ORCAS_FAULTS_BINARY"); given != "" && mutant == "" {
		return given
	}
	return buildOnce(t, "orcas"+mutant, func(path string) error { return Build(t.Context(), path, mutant, raceEnabled) })
}

// buildTests returns the path of the tests of a package, built with the given tags.
func buildTests(t *testing.T, pkg, tags string) string {
	t.Helper()
	return buildOnce(t, strings.ReplaceAll(pkg+","+tags, "/", "_"), func(path string) error {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", tags, "-o", path, pkg)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("the tests of %s: %w\n%s", pkg, err, out)
		}
		return nil
	})
}

// settings are used by the starts of a server in turn: the defaults three times, then no packing.
var settings = [][]string{{}, {}, {}, {"ORCAS_BATCH_WRITE_ENABLED=false"}}

// loadMax is the longest time of load before the server goes down; the shortest is a quarter of it.
const loadMax = 2 * time.Second

// newBench returns a bench for a process with its data in the directory data.
func newBench(t *testing.T, binary, dir, data string, load time.Duration) *Bench {
	t.Helper()
	ledger, err := OpenLedger(filepath.Join(dir, "ledger"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ledger.Close()) })
	p := &Process{Binary: binary, Data: data, Log: filepath.Join(dir, "server.log"), Settings: settings,
		Always: slices.Clone(lifeSettings), ReadyMax: time.Duration(count(t, "ORCAS_FAULTS_READY", 0)) * time.Second}
	if level := os.Getenv("ORCAS_FAULTS_COMPRESSION"); level != "" {
		p.Always = append(p.Always, "ORCAS_COMPRESSION="+level)
	}
	if os.Getenv("ORCAS_FAULTS_ENCRYPTION") == "1" {
		p.Always = append(p.Always, "ORCAS_MASTER_KEY="+strings.Repeat("e5", 32), "ORCAS_ENCRYPTION=all")
	}
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return &Bench{Server: p, Ledger: ledger, Mix: StandardMix(), Seed: seed(t), Logf: t.Logf, LoadMin: load / 4, LoadMax: load,
		Stumble: p.Stumble}
}

// judge reports the results of a run to the test, and adds them to the row.
func judge(t *testing.T, b *Bench, s Summary, downs int, row *result.Row) {
	t.Helper()
	t.Log(s)
	// All cycles take about the same time, so the rate is the mean over them.
	row.Rate = (row.Rate*float64(row.Tried) + s.Rate()*float64(s.Downs)) / max(float64(row.Tried+s.Downs), 1)
	row.Tried, row.Acknowledged, row.Ready, row.Seed = row.Tried+s.Downs, row.Acknowledged+s.Acked, max(row.Ready, s.Start.Seconds()), b.Seed
	for _, v := range s.Violations {
		if row.Violations == nil {
			row.Violations = map[string]int{}
		}
		row.Violations[v.Kind]++
	}
	for i, v := range s.Violations {
		if i == 30 {
			t.Errorf("... and %d more", len(s.Violations)-i)
			break
		}
		t.Error(v)
	}
	if s, ok := b.Server.(*soaker); ok {
		b.Server = s.Process
	}
	if p, ok := b.Server.(*Process); ok {
		for _, line := range p.Alarms() {
			t.Error("the server's log:", line)
		}
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", tail(p.Log))
			return
		}
	}
	require.Equal(t, downs, s.Downs)
	if downs >= lifeDowns && b.Mix.Versions {
		require.NotZero(t, s.Kept, "no version was locked")
		require.NotZero(t, s.Taken, "the lifecycle deleted nothing")
	}
	require.GreaterOrEqual(t, s.Rate(), float64(count(t, "ORCAS_FAULTS_RATE", 0)), "acknowledged operations per second")
}

// lifeDowns is the number of cycles after which something must have expired, and something must have been locked.
const lifeDowns = 10

// TestKill kills the server with SIGKILL at random moments under load. No acknowledged write may be lost.
func TestKill(t *testing.T) {
	row := result.Of(t, result.Row{Fault: "sigkill", Name: "SIGKILL at a random moment under load", Unit: "kills"})
	onDirectories(t, count(t, "ORCAS_FAULTS_CRASH", 3), Kill, row)
}

// TestOtherRunsAreRefused: a server refuses requests of another run.
func TestOtherRunsAreRefused(t *testing.T) {
	dir := workDir(t)
	p := &Process{Binary: buildServer(t, ""), Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "server.log")}
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	endpoint, err := p.Start(t.Context())
	require.NoError(t, err)
	code, _ := status(NewClient(endpoint, (&Process{}).Credentials(), bucket, 1).MakeBucket(t.Context(), bucket))
	require.Equal(t, http.StatusForbidden, code)
	require.NoError(t, NewClient(endpoint, p.Credentials(), bucket, 1).MakeBucket(t.Context(), bucket))
}

// TestTerm ends the server with SIGTERM under load. It must exit with status 0, and no acknowledged write may be lost.
func TestTerm(t *testing.T) {
	row := result.Of(t, result.Row{Fault: "sigterm", Name: "SIGTERM under load", Unit: "stops"})
	onDirectories(t, count(t, "ORCAS_FAULTS_TERM", 1), Term, row)
}

// perDirectory is the maximum number of cycles with the same data, which grows in each of them.
const perDirectory = 50

// onDirectories takes servers down n times in total, with one data directory after another.
func onDirectories(t *testing.T, n int, down Down, row *result.Row) {
	binary := buildServer(t, "")
	for n > 0 && !t.Failed() {
		part := min(n, perDirectory)
		n -= part
		dir := workDir(t)
		b := newBench(t, binary, dir, filepath.Join(dir, "data"), loadMax)
		b.Leftovers = true
		judge(t, b, b.Run(t.Context(), part, down), part, row)
		if os.Getenv("ORCAS_FAULTS_DIR") == "" {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "data")))
		}
	}
}

// TestPowerCut cuts the power under load. No write that was acknowledged before may be lost. A strict disk also loses
// every name whose directory was not synced; on a plain disk, the file system decides.
func TestPowerCut(t *testing.T) {
	onDisks(t, "ORCAS_FAULTS_POWER", "", func(*Bench, *Disk) {})
}

// TestPowerCutReclaim does the same while blocks are constantly compacted and unlinked.
func TestPowerCutReclaim(t *testing.T) {
	long(t)
	onDisks(t, "ORCAS_FAULTS_POWER_RECLAIM", "; with reclaim", func(b *Bench, _ *Disk) {
		p := b.Server.(*Process)
		s := newSoaker(p, p.Binary, "", b.Seed)
		b.Mix, b.Server, b.Beside = churnMix(), s, s.beside
		t.Cleanup(func() {
			t.Logf("%d full rounds completed, which freed %d MB", s.full, s.total.BytesFreed>>20)
		})
	})
}

// TestPowerCutRelaxed cuts the power of a server that acknowledges writes before they are synced, with reclaim during
// the load. Writes acknowledged longer ago than the window plus two syncs must survive. For later writes, a key may
// have any value that it had since. The syncs of a strict disk are slow in two of three cycles: up to as long as the
// window.
func TestPowerCutRelaxed(t *testing.T) {
	long(t)
	onDisks(t, "ORCAS_FAULTS_POWER_RELAXED", "; relaxed durability", func(b *Bench, disk *Disk) {
		p := b.Server.(*Process)
		p.Settings = [][]string{{"ORCAS_DURABILITY=relaxed", "ORCAS_WRITE_BUFFER_WINDOW_SEC=1"}}
		s := newSoaker(p, p.Binary, "", b.Seed)
		b.Mix, b.Server, b.AtRisk = churnMix(), s, p.AtRisk
		cycle := 0
		b.Beside = func(ctx context.Context) []Violation {
			disk.SlowSyncs([]time.Duration{time.Second, 250 * time.Millisecond, 0}[cycle%3])
			cycle++
			return s.beside(ctx)
		}
		b.LoadMin, b.LoadMax = 3*time.Second, 6*time.Second
		// A start calls syncfs to make the data durable that a killed server left in the page cache. A strict disk does
		// not see that call.
		stumble := b.Stumble
		b.Stumble = func(after time.Duration) error { return errors.Join(stumble(after), disk.SyncAll()) }
		b.Ledger.Relax()
	})
}

// onDisks cuts the power of one disk after another, as often as the variable specifies. prepare may change the bench.
func onDisks(t *testing.T, variable, what string, prepare func(*Bench, *Disk)) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict=%v", strict), func(t *testing.T) {
			if !private(t) {
				return
			}
			name := innerFS() + ": data that did not reach the device is lost"
			if strict {
				name = innerFS() + ", strict: names whose directory was not synced are lost too"
			}
			row := result.Of(t, result.Row{Fault: "power-cut", Name: name + what, Unit: "cuts"})
			binary := buildServer(t, "")
			for n := count(t, variable, 1); n > 0 && !t.Failed(); {
				part := min(n, perDisk)
				n -= part
				b, disk := newPowerBench(t, binary, strict)
				prepare(b, disk)
				judge(t, b, b.Run(t.Context(), part, PowerCut(disk)), part, row)
				require.NoError(t, disk.Close())
			}
		})
	}
}

// TestVolatileCache cuts the power of a drive with a write cache: writes since the last flush are lost, reordered and
// torn at random.
func TestVolatileCache(t *testing.T) {
	long(t)
	if !private(t) {
		return
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		cannot(t, "reordered and torn writes need /dev/fuse, which is missing")
	}
	row := result.Of(t, result.Row{Fault: "write-log", Name: innerFS() + " on a drive with a write cache: writes since the last flush are lost, reordered, or torn by sectors", Unit: "cuts"})
	binary := buildServer(t, "")
	for n := count(t, "ORCAS_FAULTS_VOLATILE", 1); n > 0 && !t.Failed(); {
		part := min(n, perDisk)
		n -= part
		dir := workDir(t)
		drive, err := NewVolatile(t.Context(), filepath.Join(dir, "disk"), innerFS(), seed(t))
		if err != nil {
			cannot(t, err.Error())
		}
		t.Cleanup(func() { require.NoError(t, drive.Close()) })
		b := newBench(t, binary, dir, filepath.Join(drive.Path(), "data"), loadMax)
		judge(t, b, b.Run(t.Context(), part, PowerCut(drive)), part, row)
		require.NoError(t, drive.Close())
	}
}

// perDisk is the maximum number of power cuts of the same disk, whose image fills up.
const perDisk = 25

// newPowerBench returns a bench whose server has its data on a disk whose power can be cut.
func newPowerBench(t *testing.T, binary string, strict bool) (*Bench, *Disk) {
	t.Helper()
	dir := workDir(t)
	disk, err := NewDisk(t.Context(), filepath.Join(dir, "disk"), innerFS(), strict)
	if err != nil {
		cannot(t, err.Error())
	}
	t.Cleanup(func() { require.NoError(t, disk.Close()) })
	b := newBench(t, binary, dir, filepath.Join(disk.Path(), "data"), loadMax)
	return b, disk
}

// innerFS returns the type of the file system whose power is cut.
func innerFS() string {
	if fs := os.Getenv("ORCAS_FAULTS_FS"); fs != "" {
		return fs
	}
	return "ext4"
}

// cannot skips a test that cannot run on this machine, or fails it if every test is required.
func cannot(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("ORCAS_FAULTS_REQUIRED") == "1" {
		t.Fatalf("REQUIRED, BUT NOT TESTED: %s", why)
	}
	t.Skipf("NOT TESTED: %s", why)
}

// private runs the test again in a process with a mount namespace of its own and returns false. In that process, it
// returns true. So no mount and no loop device outlives the test, however it ends.
func private(t *testing.T) bool {
	t.Helper()
	const inside = "ORCAS_FAULTS_INSIDE"
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		cannot(t, "mounting file systems needs root")
	}
	runtime.LockOSThread() // the child would be killed when this thread ends
	defer runtime.UnlockOSThread()
	cmd := Private(os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v", "-test.timeout=0", fmt.Sprintf("-test.short=%v", testing.Short()))
	cmd.Env = append(os.Environ(), inside+"=1", "ORCAS_FAULTS_BINARY="+buildServer(t, ""))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	if strings.Contains(string(out), "--- SKIP") {
		t.Skip("NOT TESTED: see above")
	}
	return false
}

// TestUncleanStart kills a server with many objects, and starts it with and without its database. Both times, it must
// have all objects.
func TestUncleanStart(t *testing.T) {
	const writers, size = 64, 1000
	n := count(t, "ORCAS_FAULTS_START", 2000)
	row := result.Of(t, result.Row{Fault: "start", Name: "SIGKILL, then a start with and a start without the database", Unit: "objects", Tried: n})
	dir := workDir(t)
	p := &Process{Binary: buildServer(t, ""), Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "server.log")}
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	endpoint, err := p.Start(t.Context())
	require.NoError(t, err)
	client := NewClient(endpoint, p.Credentials(), bucket, writers)
	require.NoError(t, client.CreateBucket(t.Context()))
	key := func(i uint64) string { return fmt.Sprintf("object/%08d", i) }
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < uint64(n); i = next.Add(1) - 1 {
				_, body := NewValue(Piece{ID: i + 1, Size: size})
				if _, err := client.Put(t.Context(), key(i), body, "", ""); err != nil {
					t.Errorf("object %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	client.Close()
	row.Acknowledged = int64(n)
	var took []time.Duration
	for _, lost := range []bool{false, true} {
		require.NoError(t, p.Kill())
		if lost {
			require.NoError(t, removeDatabase(p.Data))
		}
		begun := time.Now()
		endpoint, err := p.Start(t.Context())
		require.NoError(t, err)
		took = append(took, time.Since(begun))
		client := NewClient(endpoint, p.Credentials(), bucket, writers)
		listed := 0
		require.NoError(t, client.List(t.Context(), 1000, func(string, Value) { listed++ }))
		require.Equal(t, n, listed)
		for i := uint64(0); i < uint64(n); i += uint64(max(n/500, 1)) {
			v, _ := NewValue(Piece{ID: i + 1, Size: size})
			body, tag, _, err := client.Get(t.Context(), key(i))
			require.NoError(t, err)
			require.Equal(t, v.ETag, tag)
			require.Empty(t, v.differ(body))
		}
		client.Close()
	}
	row.Ready = took[0].Seconds()
	if limit := count(t, "ORCAS_FAULTS_READY", 0); limit > 0 {
		require.LessOrEqual(t, took[0], time.Duration(limit)*time.Second)
	}
	row.Note = fmt.Sprintf("ready after %.2f s with the database, and after %.2f s without it, which includes the rebuild from the records", took[0].Seconds(), took[1].Seconds())
	t.Log(row.Note)
	require.NoError(t, p.Stop())
	require.Empty(t, p.Alarms())
}

// removeDatabase removes the database from a data directory, so that the next start rebuilds it from the blocks.
func removeDatabase(data string) error {
	for _, name := range []string{"metadata.db", "metadata.db-wal", "metadata.db-shm"} {
		if err := os.Remove(filepath.Join(data, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// TestReadBack writes objects of random sizes with 64 concurrent writers, and compares every one. Only this finds a
// race that stores two objects in the same bytes.
func TestReadBack(t *testing.T) {
	const writers, sizeMax = 64, 70_000
	n := uint64(count(t, "ORCAS_FAULTS_READBACK", 3000))
	dir, random := workDir(t), seed(t)
	row := result.Of(t, result.Row{Fault: "read-back", Name: "64 concurrent writers, every object read back", Unit: "objects", Tried: int(n), Seed: random})
	row.Acknowledged = int64(n)
	p := &Process{Binary: buildServer(t, ""), Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "server.log")}
	endpoint, err := p.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	client := NewClient(endpoint, p.Credentials(), bucket, writers)
	defer client.Close()
	require.NoError(t, client.CreateBucket(t.Context()))

	value := func(i uint64) (string, *Value, []byte) {
		r := rand.New(rand.NewPCG(random, i))
		v, body := NewValue(Piece{ID: i + 1, Size: r.Int64N(sizeMax + 1)})
		return fmt.Sprintf("object/%08d", i), v, body
	}
	each := func(fn func(ctx context.Context, i uint64) error) {
		var next atomic.Uint64
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
					if err := fn(t.Context(), i); err != nil {
						t.Errorf("object %d: %v", i, err)
					}
				}
			})
		}
		wg.Wait()
	}
	each(func(ctx context.Context, i uint64) error {
		key, v, body := value(i)
		tag, err := client.Put(ctx, key, body, "", "")
		if err == nil && tag != v.ETag {
			err = fmt.Errorf("acknowledged with ETag %s; expected %s", tag, v.ETag)
		}
		return err
	})
	each(func(ctx context.Context, i uint64) error {
		key, v, _ := value(i)
		body, tag, _, err := client.Get(ctx, key)
		if diff := v.differ(body); err == nil && (diff != "" || tag != v.ETag) {
			err = fmt.Errorf("ETag %s, expected %s; %s", tag, v.ETag, diff)
		}
		return err
	})
	listed := uint64(0)
	require.NoError(t, client.List(t.Context(), 1000, func(string, Value) { listed++ }))
	require.Equal(t, n, listed)
	require.NoError(t, p.Stop())
	require.Empty(t, p.Alarms())
}
