package iofault

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"orcas/faults"
	"orcas/faults/result"
	"orcas/fsck"
	"orcas/sdk"
)

// TestMain runs the tests in a mount namespace of their own. Otherwise another process could copy the namespace with
// the mounts in it and keep them alive, and Unmount would wait for that. Also, a bench that is killed leaves no mounts
// behind.
func TestMain(m *testing.M) {
	const inside = "ORCAS_FAULTS_INSIDE"
	if os.Getenv(inside) == "" && os.Geteuid() == 0 {
		runtime.LockOSThread() // the child would be killed when this thread ends
		cmd := faults.Private(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if cmd.Start() == nil { // otherwise the namespace is not permitted here
			_ = cmd.Wait() // ExitCode reports the result
			os.Exit(cmd.ProcessState.ExitCode())
		}
	}
	os.Exit(m.Run())
}

// needFuse skips the test if there is no FUSE, with a message that make faults lists at its end.
func needFuse(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err == nil {
		return
	}
	if os.Getenv("ORCAS_FAULTS_REQUIRED") == "1" {
		t.Fatal("REQUIRED, BUT NOT TESTED: faults of the drive need /dev/fuse, which is missing")
	}
	t.Skip("NOT TESTED: faults of the drive need /dev/fuse, which is missing")
}

func mounted(t *testing.T) *Drive {
	t.Helper()
	needFuse(t)
	d, err := Mount(t.TempDir(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Unmount()) })
	return d
}

// steps performs one of each file operation that the server uses, and returns their errors.
func steps(dir string) map[string]error {
	errs := map[string]error{}
	errs["mkdir"] = os.Mkdir(filepath.Join(dir, "d"), 0o755)
	f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errs["create"] = err; err != nil {
		return errs
	}
	defer f.Close()
	errs["fallocate"] = syscall.Fallocate(int(f.Fd()), 1, 0, 1<<16)
	_, errs["write"] = f.WriteAt([]byte("12345678"), 0)
	errs["fdatasync"] = syscall.Fdatasync(int(f.Fd()))
	errs["fsync"] = f.Sync()
	errs["truncate"] = f.Truncate(100)
	errs["rename"] = os.Rename(f.Name(), f.Name()+"2")
	d, err := os.Open(dir)
	if err == nil {
		errs["fsyncdir"] = d.Sync()
		d.Close()
	}
	errs["unlink"] = os.Remove(f.Name() + "2")
	errs["rmdir"] = os.Remove(filepath.Join(dir, "d"))
	for name, err := range errs {
		if err == nil {
			delete(errs, name)
		}
	}
	return errs
}

func TestDriveCountsAndFailsEachOperation(t *testing.T) {
	d := mounted(t)
	d.Set(Fault{}, nil)
	require.Empty(t, steps(d.Dir()))
	order := []string{"mkdir", "create", "fallocate", "write", "fdatasync", "fsync", "truncate", "rename", "fsyncdir", "unlink", "rmdir"}
	require.Equal(t, len(order), d.Lift().Seen)
	for i, name := range order {
		d.Set(Fault{Action: EIO, At: i + 1}, nil)
		errs := steps(d.Dir())
		s := d.Lift()
		require.Equal(t, name, s.First.Name)
		require.Equal(t, 1, s.Times)
		require.ErrorIs(t, errs[name], syscall.EIO, name)
		require.NoError(t, os.RemoveAll(filepath.Join(d.Dir(), "f")))
		require.NoError(t, os.RemoveAll(filepath.Join(d.Dir(), "f2")))
		require.NoError(t, os.RemoveAll(filepath.Join(d.Dir(), "d")))
	}
}

func TestChildrenDoNotInheritTheDevice(t *testing.T) {
	mounted(t)
	out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(out), "/dev/fuse")
}

func TestFullDriveFailsOperationsThatNeedSpace(t *testing.T) {
	d := mounted(t)
	d.Set(Fault{Action: ENOSPC, At: 3, ForEver: true}, nil)
	errs := steps(d.Dir())
	d.Lift()
	require.ErrorIs(t, errs["write"], syscall.ENOSPC)
	require.ErrorIs(t, errs["fallocate"], syscall.ENOSPC)
	for _, name := range []string{"mkdir", "create", "rmdir"} {
		require.NoError(t, errs[name], name)
	}
}

func TestFailedWriteIsTorn(t *testing.T) {
	d := mounted(t)
	f, err := os.Create(filepath.Join(d.Dir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	d.Set(Fault{Action: EIO, At: 1}, nil)
	_, err = f.WriteAt([]byte("12345678"), 0)
	require.ErrorIs(t, err, syscall.EIO)
	d.Lift()
	got, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.Equal(t, "1234", string(got))
}

func TestFailedSyncLosesItsData(t *testing.T) {
	d := mounted(t)
	f, err := os.Create(filepath.Join(d.Dir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	d.Set(Fault{Action: EIO, At: 4}, nil)
	write := func(at int64, text string) {
		_, err := f.WriteAt([]byte(text), at)
		require.NoError(t, err)
	}
	write(0, "aaaa")
	require.NoError(t, f.Sync())
	write(2, "bbbb")
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	write(6, "cc")
	require.NoError(t, f.Sync(), "the second sync must not report the loss")
	d.Lift()
	got, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.Equal(t, "aabbbbcc", string(got))
	require.NoError(t, d.Lose())
	got, err = os.ReadFile(f.Name())
	require.NoError(t, err)
	require.Equal(t, "aaaa\x00\x00cc", string(got))
}

func TestDriveCountsReadsSeparately(t *testing.T) {
	d := mounted(t)
	path := filepath.Join(d.Dir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("1"), 0o600))
	isRead := func(op Op) bool { return op.Name == "read" }
	d.Set(Fault{Action: EIO, At: 1, Reads: true, Only: isRead}, nil)
	_, err := os.ReadFile(path)
	require.ErrorIs(t, err, syscall.EIO)
	_, err = os.ReadFile(path)
	require.NoError(t, err)
	const reads = 3 // the failed one, and two of the second ReadFile
	require.Equal(t, reads, d.Lift().Seen, "the page cache must not serve reads")
}

// TestSQLiteOnTheDrive shows that a log with its shared memory works on the drive, with two connections, and that
// writes to it are counted.
func TestSQLiteOnTheDrive(t *testing.T) {
	d := mounted(t)
	open := func() *sql.DB {
		db, err := sql.Open("sqlite3", filepath.Join(d.Dir(), "x.db")+"?_journal_mode=WAL")
		require.NoError(t, err)
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	}
	a, b := open(), open()
	_, err := a.Exec("CREATE TABLE t (x)")
	require.NoError(t, err)
	for range 50 {
		_, err = a.Exec("INSERT INTO t VALUES (randomblob(3000))")
		require.NoError(t, err)
	}
	var n int
	require.NoError(t, b.QueryRow("SELECT count(*) FROM t").Scan(&n))
	require.Equal(t, 50, n)
	d.Set(Fault{Action: EIO, At: 1}, nil)
	_, err = a.Exec("INSERT INTO t VALUES (1)")
	require.Error(t, err)
	require.Equal(t, Op{"write", "x.db-wal"}, d.Lift().First)
	_, err = b.Exec("INSERT INTO t VALUES (1)")
	require.NoError(t, err)
	require.NoError(t, a.QueryRow("SELECT count(*) FROM t").Scan(&n))
	require.Equal(t, 51, n)
}

// bench prepares a bench for the server.
func bench(t *testing.T) *Bench {
	t.Helper()
	needFuse(t)
	b := &Bench{Binary: os.Getenv("ORCAS_FAULTS_BINARY"), Dir: t.TempDir(), Workers: 2, Features: FeaturesAsked()}
	if b.Binary == "" {
		b.Binary = filepath.Join(b.Dir, "orcas")
		require.NoError(t, faults.Build(t.Context(), b.Binary, "", false))
	}
	if n, err := strconv.Atoi(os.Getenv("ORCAS_FAULTS_WORKERS")); err == nil && n > 0 {
		b.Workers = n
	}
	b.Turn, _ = strconv.Atoi(os.Getenv("ORCAS_FAULTS_TURN"))
	return b
}

// TestFeatures checks that the features are in use: equal content is stored once, and takes less space with
// compression; responses report encryption; and content with a customer key cannot be read without it.
func TestFeatures(t *testing.T) {
	b := bench(t)
	live := map[Features]int64{}
	for _, f := range []Features{{}, {Compression: "better"}, {Compression: "better", Encrypted: true}} {
		b.Features, b.bases = f, nil
		p, err := start(b.Binary, filepath.Join(t.TempDir(), "data"), b.env(noRounds), nil)
		require.NoError(t, err)
		defer p.kill()
		r := b.run(newModel(), 2) // the next content can be compressed
		r.c = newClient(p)
		r.createBucket()
		r.put("small", smallSize)
		r.put("large", largeSize)
		r.put("large", largeSize)
		recounted := func() (report fsck.Report) {
			r.recount()
			require.NoError(t, json.Unmarshal(r.c.ask("POST", "fsck").body, &report))
			return report
		}
		before := recounted()
		r.again("equal", "small", false)
		r.again("equal-unsent", "small", true)
		r.again("equal-large", "large", false)
		r.again("equal-large-unsent", "large", true)
		after := recounted()
		require.Equal(t, before.Contents, after.Contents)
		require.Equal(t, before.Versions+4, after.Versions)
		live[f] = after.LiveBytes
		r.put(customers+"one", smallSize)
		r.again(customers+"two", customers+"one", true)
		require.Equal(t, before.Contents+2, recounted().Contents)
		for key, v := range r.m.objects {
			a := r.c.do("GET", key, "", nil, nil)
			require.Equal(t, v[0].Bytes(), a.body, key)
			if !strings.HasPrefix(key, customers) {
				require.Equal(t, f.Encrypted, a.header.Get("X-Amz-Server-Side-Encryption") == "AES256", key)
				continue
			}
			require.Equal(t, "AES256", a.header.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm"))
			require.Equal(t, 400, send(r.c.s3, &sdk.Request{Method: "GET", Path: "/" + bucket + "/" + key}).status, "a read without the customer key")
		}
		require.Empty(t, r.wrong)
		require.Empty(t, r.failed)
	}
	t.Log(live)
	require.Less(t, live[Features{Compression: "better"}], live[Features{}]*3/4)
	require.Less(t, live[Features{"better", true}], live[Features{}]*3/4)
}

// sweep runs one script with one fault and prints the result.
func sweep(t *testing.T, b *Bench, s Script, f Fault) *Row {
	t.Helper()
	row, err := b.Sweep(s, f)
	require.NoError(t, err)
	t.Log(row)
	require.Less(t, row.Points, pointsMax)
	return row
}

// script returns the script with a name, which may be followed by a slash and a stride, and by another stride for
// permanent faults and for reads.
func script(t *testing.T, name string) Script {
	t.Helper()
	words := strings.Split(name, "/")
	name = words[0]
	all := Scripts()
	i := slices.IndexFunc(all, func(s Script) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	for n, word := range words[1:] {
		stride, err := strconv.Atoi(word)
		require.NoError(t, err, name)
		if n == 0 {
			all[i].Stride = stride
		}
		all[i].RestStride = stride
	}
	return all[i]
}

// TestSweep tests every point of one script with some faults (one with -short) or, with ORCAS_FAULTS_FULL=1, of all
// scripts with all faults.
func TestSweep(t *testing.T) {
	b := bench(t)
	scripts := []Script{script(t, "put")}
	tried := []Fault{{Action: KILL}, {Action: EIO}, {Action: ENOSPC, ForEver: true}}
	if testing.Short() {
		tried = tried[:1]
	}
	if os.Getenv("ORCAS_FAULTS_FULL") == "1" {
		scripts, tried = Scripts(), nil
		for _, f := range []Fault{{Action: EIO}, {Action: ENOSPC}, {Action: KILL}, {Action: EIO, Reads: true}} {
			again := f
			again.ForEver = true
			tried = append(tried, f, again)
		}
		if names := os.Getenv("ORCAS_FAULTS_SCRIPTS"); names != "" {
			scripts = nil
			for _, name := range strings.Split(names, ",") {
				scripts = append(scripts, script(t, name))
			}
		}
	}
	for _, s := range scripts {
		for _, f := range tried {
			begun := time.Now()
			row := sweep(t, b, s, f)
			keep(t, row, begun)
			if s.Base == longLog && !f.Reads { // the script must reach a checkpoint, which writes the database
				require.Contains(t, row.Met, "write metadata.db", "%s did not reach a checkpoint", s.Name)
			}
			for _, v := range row.Violations[:min(len(row.Violations), 20)] {
				t.Errorf("%s, %s: %v", s.Name, f.Action, v)
			}
			if limit, _ := strconv.ParseInt(os.Getenv("ORCAS_FAULTS_READY"), 10, 64); limit > 0 {
				require.LessOrEqual(t, row.SlowestStart, limit*1000, "milliseconds until a server was ready")
			}
			require.NotZero(t, row.Points, "no run reached the fault")
		}
	}
}

// keep adds the result of a script with a fault to the results.
func keep(t *testing.T, row *Row, begun time.Time) {
	t.Helper()
	r := result.Row{Fault: "io-sweep", Name: row.title(), Unit: "points", Tried: row.Points, Acknowledged: int64(row.Acked), Started: begun,
		Ready: float64(row.SlowestStart) / 1000, Note: "server after the fault: " + result.Counts(row.Then)}
	if row.Stride > 1 {
		r.Note += fmt.Sprintf("; one in %d operations was tried", row.Stride)
	}
	if len(row.Violations) > 0 {
		r.Violations = map[string]int{"violations": len(row.Violations)}
	}
	require.NoError(t, result.Add(r))
}

// TestSweepDetectsAMutant runs the sweep with a server that responds before it writes anything. A server without that
// defect fills the data directory, because with the defect a part could arrive before its upload exists. The script has
// several writes, so that the operations of a write can be counted while the next write is sent; those of the last
// write may come after the end of the script.
func TestSweepDetectsAMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run `make test-all`")
	}
	b := bench(t)
	_, err := b.prepare(stocked)
	require.NoError(t, err)
	b.Binary = filepath.Join(b.Dir, "mutant")
	require.NoError(t, faults.Build(t.Context(), b.Binary, "ack-before-commit", false))
	row := sweep(t, b, script(t, "put"), Fault{Action: KILL})
	require.True(t, slices.ContainsFunc(row.Violations, func(v Violation) bool { return strings.HasPrefix(v.What, "lost: ") }), row.Violations)
}
