package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
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

// count returns the number that a variable holds, or what stands in for it, which is a third with -short.
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

// workDir returns an empty directory; it stays where ORCAS_FAULTS_DIR says so.
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

// long leaves out a test with -short, which the target test-all of the Makefile runs.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: `make test-all` runs it")
	}
}

// built are the servers that this process has built, by the names of their mutants: a build takes longer than many of
// the tests.
var built struct {
	mu   sync.Mutex // guards what follows
	dir  string
	path map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(built.dir) // the system removes temporary files too
	os.Exit(code)
}

// buildServer returns the server, built with a mutant's name unless that is empty.
func buildServer(t *testing.T, mutant string) string {
	t.Helper()
	if given := os.Getenv("ORCAS_FAULTS_BINARY"); given != "" && mutant == "" {
		return given
	}
	built.mu.Lock()
	defer built.mu.Unlock()
	if path := built.path[mutant]; path != "" {
		return path
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "orcas-faults-")
		require.NoError(t, err)
		built.dir, built.path = dir, map[string]string{}
	}
	path := filepath.Join(built.dir, "orcas"+mutant)
	require.NoError(t, Build(t.Context(), path, mutant, raceEnabled))
	built.path[mutant] = path
	return path
}

// settings are what the starts of a server use in turn: the defaults, and one of four times no packing.
var settings = [][]string{{}, {}, {}, {"ORCAS_BATCH_WRITE_ENABLED=false"}}

// loadMax is the longest time of load before the server goes down; the shortest is a quarter of it.
const loadMax = 2 * time.Second

// newBench returns a bench for a process with its data at data.
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

// judge reports what a run found, also in the row.
func judge(t *testing.T, b *Bench, s Summary, downs int, row *result.Row) {
	t.Helper()
	t.Log(s)
	// The parts of a run differ little in length: the rate is the mean of theirs.
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
		require.NotZero(t, s.Taken, "the lifecycle took nothing")
	}
	require.GreaterOrEqual(t, s.Rate(), float64(count(t, "ORCAS_FAULTS_RATE", 0)), "acknowledged operations a second")
}

// lifeDowns is how many times a server is taken down until something must have been due, and something must have been
// locked.
const lifeDowns = 10

// TestKill kills the server with SIGKILL at random moments under load. Nothing that it acknowledged may be lost.
func TestKill(t *testing.T) {
	row := result.Of(t, result.Row{Fault: "sigkill", Name: "SIGKILL at a random moment under load", Unit: "kills"})
	onDirectories(t, count(t, "ORCAS_FAULTS_CRASH", 3), Kill, row)
}

// TestRunsAreStrangers: a request of one run that comes to the server of another is refused.
func TestRunsAreStrangers(t *testing.T) {
	dir := workDir(t)
	p := &Process{Binary: buildServer(t, ""), Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "server.log")}
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	endpoint, err := p.Start(t.Context())
	require.NoError(t, err)
	code, _ := status(NewClient(endpoint, (&Process{}).Credentials(), bucket, 1).MakeBucket(t.Context(), bucket))
	require.Equal(t, http.StatusForbidden, code)
	require.NoError(t, NewClient(endpoint, p.Credentials(), bucket, 1).MakeBucket(t.Context(), bucket))
}

// TestTerm ends the server with SIGTERM under load: it must exit with status 0, and nothing that it acknowledged may be
// lost.
func TestTerm(t *testing.T) {
	row := result.Of(t, result.Row{Fault: "sigterm", Name: "SIGTERM under load", Unit: "stops"})
	onDirectories(t, count(t, "ORCAS_FAULTS_TERM", 1), Term, row)
}

// perDirectory is how many times a server is taken down with the same data: it grows each time.
const perDirectory = 50

// onDirectories takes servers down n times in all, on one data directory after the other.
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

// TestPowerCut cuts the power under load. Nothing that was acknowledged before may be lost. A strict disk forgets every
// name whose directory was not synced, a plain one does what its file system does.
func TestPowerCut(t *testing.T) {
	onDisks(t, "ORCAS_FAULTS_POWER", "", func(*Bench, *Disk) {})
}

// TestPowerCutReclaim does so while blocks are emptied and unlinked all the time.
func TestPowerCutReclaim(t *testing.T) {
	long(t)
	onDisks(t, "ORCAS_FAULTS_POWER_RECLAIM", "; with reclaim", func(b *Bench, _ *Disk) {
		p := b.Server.(*Process)
		s := newSoaker(p, p.Binary, "", b.Seed)
		b.Mix, b.Server, b.Beside = churnMix(), s, s.beside
		t.Cleanup(func() {
			t.Logf("%d full rounds ended, which freed %d MB", s.full, s.total.BytesFreed>>20)
		})
	})
}

// TestPowerCutRelaxed cuts the power of a server that answers before the sync, with reclaim beside the load. What was
// acknowledged longer ago than the window plus two syncs is there, and everything else is something that the key once
// was, no older than that. The syncs of a strict disk are slow in two of three cycles, up to as long as the window.
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
		// A start makes durable what a killed one has left to the operating system, by syncfs, which a strict disk
		// never sees.
		stumble := b.Stumble
		b.Stumble = func(after time.Duration) error { return errors.Join(stumble(after), disk.SyncAll()) }
		b.Ledger.Relax()
	})
}

// onDisks cuts the power of one disk after the other, as often as the variable says; prepare may change the bench.
func onDisks(t *testing.T, variable, what string, prepare func(*Bench, *Disk)) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict=%v", strict), func(t *testing.T) {
			if !private(t) {
				return
			}
			name := innerFS() + ": what the device does not have is gone"
			if strict {
				name = innerFS() + ", strict: every name whose directory was not synced is gone too"
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

// TestVolatileCache cuts the power of a drive with a write cache: what no flush covers is lost, reordered and torn at
// random.
func TestVolatileCache(t *testing.T) {
	long(t)
	if !private(t) {
		return
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		cannot(t, "there is no /dev/fuse, so nothing is known about reordered and torn writes")
	}
	row := result.Of(t, result.Row{Fault: "write-log", Name: innerFS() + " on a drive with a write cache: what no flush covers is lost, reordered, or torn by sectors", Unit: "cuts"})
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

// perDisk is how many times the power of the same disk is cut: its image fills up.
const perDisk = 25

// newPowerBench returns a bench whose server's data lies on a disk that loses its power.
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

// innerFS is the file system whose power is cut.
func innerFS() string {
	if fs := os.Getenv("ORCAS_FAULTS_FS"); fs != "" {
		return fs
	}
	return "ext4"
}

// cannot says that a test cannot run here, which fails where everything is required.
func cannot(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("ORCAS_FAULTS_REQUIRED") == "1" {
		t.Fatalf("REQUIRED, AND NOT TESTED: %s", why)
	}
	t.Skipf("NOT TESTED: %s", why)
}

// private runs the test again in a process with a mount namespace of its own and says false, or says true in that
// process. So no mount and no loop device outlives the test, however it ends.
func private(t *testing.T) bool {
	t.Helper()
	const inside = "ORCAS_FAULTS_INSIDE"
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		cannot(t, "power cuts need root, for mounts")
	}
	runtime.LockOSThread() // the thread's end would be the signal for the child's
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

// TestUncleanStart kills a server with many objects, and starts it with its database and without: both find all of
// them.
func TestUncleanStart(t *testing.T) {
	const writers, size = 64, 1000
	n := count(t, "ORCAS_FAULTS_START", 2000)
	row := result.Of(t, result.Row{Fault: "start", Name: "SIGKILL, then a start with the database and one without", Unit: "objects", Tried: n})
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
			for _, name := range []string{"metadata.db", "metadata.db-wal", "metadata.db-shm"} {
				if err := os.Remove(filepath.Join(p.Data, name)); err != nil {
					require.ErrorIs(t, err, os.ErrNotExist)
				}
			}
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
	row.Note = fmt.Sprintf("ready after %.2f s; with the database deleted after %.2f s, rebuilt from the records", took[0].Seconds(), took[1].Seconds())
	t.Log(row.Note)
	require.NoError(t, p.Stop())
	require.Empty(t, p.Alarms())
}

// TestReadBack writes objects of random sizes from 64 writers at once, and compares every one: the race that puts two
// objects into the same bytes shows in no other way.
func TestReadBack(t *testing.T) {
	const writers, sizeMax = 64, 70_000
	n := uint64(count(t, "ORCAS_FAULTS_READBACK", 3000))
	dir, random := workDir(t), seed(t)
	row := result.Of(t, result.Row{Fault: "read-back", Name: "64 writers at once, every object read back", Unit: "objects", Tried: int(n), Seed: random})
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
			err = fmt.Errorf("acknowledged with ETag %s, right would be %s", tag, v.ETag)
		}
		return err
	})
	each(func(ctx context.Context, i uint64) error {
		key, v, _ := value(i)
		body, tag, _, err := client.Get(ctx, key)
		if diff := v.differ(body); err == nil && (diff != "" || tag != v.ETag) {
			err = fmt.Errorf("ETag %s, right would be %s; %s", tag, v.ETag, diff)
		}
		return err
	})
	listed := uint64(0)
	require.NoError(t, client.List(t.Context(), 1000, func(string, Value) { listed++ }))
	require.Equal(t, n, listed)
	require.NoError(t, p.Stop())
	require.Empty(t, p.Alarms())
}
