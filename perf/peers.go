package perf

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"orcas/internal/freeport"
	"orcas/internal/loadgen"
)

// Peers are the programs of other S3 servers, which the scenario "peers" compares with ORCAS. A server with an empty
// path is not measured.
type Peers struct {
	MinIO     string `name:"minio" placeholder:"PATH" help:"Also measure this MinIO server, for comparison."`
	VersityGW string `name:"versitygw" placeholder:"PATH" help:"Also measure this Versity S3 Gateway (with its POSIX backend), for comparison."`
	SeaweedFS string `name:"weed" placeholder:"PATH" help:"Also measure this SeaweedFS server, for comparison."`

	more []peer // added by tests
}

// peer is one kind of server, and how to start it.
type peer struct {
	name, flag, path string
	version          []string // arguments that print the version
	ready            string   // a path that returns 200 when the server is ready
	// command returns the arguments and the environment for a server on a loopback address, with its data in the
	// existing directory dir.
	command func(address, dir string, keys loadgen.Keys) (args, env []string, err error)
}

// list returns every kind of peer.
func (p Peers) list() []peer {
	return append([]peer{
		{"MinIO", "--minio", p.MinIO, []string{"--version"}, "/minio/health/live", minio},
		{"Versity S3 Gateway", "--versitygw", p.VersityGW, []string{"--version"}, "/health", versitygw},
		{"SeaweedFS", "--weed", p.SeaweedFS, []string{"version"}, "/healthz", seaweedfs},
	}, p.more...)
}

func minio(address, dir string, keys loadgen.Keys) (args, env []string, err error) {
	console, err := freeport.Address()
	return []string{"server", "--quiet", "--address", address, "--console-address", console, dir},
		[]string{"MINIO_ROOT_USER=" + keys.Access, "MINIO_ROOT_PASSWORD=" + keys.Secret, "MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CALLHOME_ENABLE=off"}, err
}

func versitygw(address, dir string, keys loadgen.Keys) (args, env []string, err error) {
	return []string{"--port", address, "--health", "/health", "--region", ownRegion, "posix", dir},
		[]string{"ROOT_ACCESS_KEY=" + keys.Access, "ROOT_SECRET_KEY=" + keys.Secret}, nil
}

// seaweedfs runs all servers of SeaweedFS in one process. Each of them has two ports, one for gRPC.
func seaweedfs(address, dir string, keys loadgen.Keys) (args, env []string, err error) {
	config := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+".s3.json")
	text := fmt.Sprintf(`{"identities":[{"name":"perf","credentials":[{"accessKey":%q,"secretKey":%q}],"actions":["Admin","Read","Write","List","Tagging"]}]}`, keys.Access, keys.Secret)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, err
	}
	args = []string{"server", "-dir", dir, "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1", "-filer", "-s3", "-s3.config", config, "-s3.port", port}
	flags := []string{"-s3.port.grpc", "-master.port", "-master.port.grpc", "-volume.port", "-volume.port.grpc", "-filer.port", "-filer.port.grpc"}
	addresses, err := freeport.Addresses(len(flags))
	if err != nil {
		return nil, nil, err
	}
	for i, flag := range flags {
		_, port, err := net.SplitHostPort(addresses[i])
		if err != nil {
			return nil, nil, err
		}
		args = append(args, flag, port)
	}
	return args, nil, nil
}

// contender is a server of the comparison.
type contender struct {
	name    string
	program func(name string) (Program, error) // the server, with its data in a directory of that name
	process *Process
}

// contenders returns ORCAS, the null server and the peers whose programs are given.
func (r *run) contenders() []*contender {
	list := []*contender{
		{name: "ORCAS", program: func(name string) (Program, error) { return r.ownProgram(name), nil }},
		{name: nullName, program: func(name string) (Program, error) { return r.nullProgram(name), nil }},
	}
	for _, p := range r.o.Peers.list() {
		if p.path != "" {
			list = append(list, &contender{name: p.name, program: func(name string) (Program, error) { return r.peerProgram(p, name) }})
		}
	}
	return list
}

// nullName is the name of the null server among the contenders.
const nullName = "null server"

// peerProgram returns the Program of a peer. Its address does not change between starts, because SeaweedFS remembers
// it.
func (r *run) peerProgram(p peer, name string) (Program, error) {
	address, err := freeport.Address()
	if err != nil {
		return Program{}, err
	}
	dir := filepath.Join(r.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Program{}, err
	}
	args, env, err := p.command(address, dir, r.keys)
	return Program{Path: p.path, Name: name, Dir: r.dir, Args: args, Env: env, Ready: p.ready, Keys: r.keys, Address: address}, err
}

// programVersion returns the version of a program, from its build information or from what it prints.
func (p *peer) programVersion(ctx context.Context) string {
	if info, err := buildinfo.ReadFile(p.path); err == nil && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	out, err := exec.CommandContext(ctx, p.path, p.version...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// beginContender starts a server of the comparison and creates its bucket. It retries for a while, because some servers
// refuse to create a bucket right after they report that they are ready.
func (r *run) beginContender(c *contender, name string, under ...string) error {
	program, err := c.program(name)
	if err != nil {
		return err
	}
	program.Under = under
	if c.process, err = program.Start(r.ctx); err != nil {
		return err
	}
	c.process.Target.Signing = r.o.Signing
	for start := time.Now(); ; sleep(r.ctx, 100*time.Millisecond) {
		a, err := once(r.ctx, c.process.Target, loadgen.Request{Method: http.MethodPut, Path: "/" + r.bucket, Keep: true})
		if err == nil && (a.Status == http.StatusOK || a.Status == http.StatusConflict) {
			return nil
		}
		if err == nil {
			err = errors.New(describe(a))
		}
		if r.ctx.Err() != nil || time.Since(start) > time.Minute {
			c.process.Kill()
			return fmt.Errorf("create a bucket: %w", err)
		}
	}
}

// endContender kills a server of the comparison and removes its data.
func (r *run) endContender(c *contender) {
	if c.process == nil {
		return
	}
	c.process.Kill()
	_ = os.RemoveAll(filepath.Join(r.dir, c.process.program.Name)) // the end of the run removes what is left
	c.process = nil
}

// syncCalls are the system calls with which a program makes its writes durable.
const syncCalls = "fsync,fdatasync,sync_file_range,msync,sync,syncfs"

// countSyncs runs a server under strace, and returns its sync calls per PUT, for n sequential PUTs of 4 KiB. Opening a
// file for synchronous writes counts as a sync call.
func (s *session) countSyncs(c *contender, n int) (float64, error) {
	tracer, err := exec.LookPath("strace")
	if err != nil {
		return 0, err
	}
	file := filepath.Join(s.dir, "syncs.strace")
	defer os.Remove(file)
	name := s.sc.id + "-syncs"
	if err := s.beginContender(c, name, tracer, "-f", "-qq", "-o", file, "-e", "trace="+syncCalls+",open,openat"); err != nil {
		return 0, err
	}
	defer s.endContender(c)
	contents := s.contents(4 * kib)
	put := func(count int, name string) error {
		base := s.fresh()
		res, err := (&Load{Target: c.process.Target, Workers: 1, Count: uint64(count), Next: func(w *Worker, n uint64) (loadgen.Request, Expect) {
			return s.put(w, contents, name+key(n), base+n)
		}}).Run(s.ctx)
		if err == nil && res.ErrorRate() > 0 {
			err = res.FirstError
		}
		return err
	}
	if err := put(10, "first/"); err != nil { // the first PUTs create directories, volumes and the like
		return 0, err
	}
	before, err := syncsIn(file)
	if err != nil {
		return 0, err
	}
	if err := put(n, "then/"); err != nil {
		return 0, err
	}
	after, err := syncsIn(file)
	return float64(after-before) / float64(n), err
}

// syncsIn counts the sync calls in the output of strace.
func syncsIn(file string) (n int, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		_, call, _ := strings.Cut(line, " ") // after the process id
		name, args, found := strings.Cut(strings.TrimSpace(call), "(")
		switch {
		case !found || strings.HasPrefix(name, "<"): // the end of a call that was already counted
		case strings.HasPrefix(name, "open"):
			if strings.Contains(args, "O_SYNC") || strings.Contains(args, "O_DSYNC") {
				n++
			}
		default:
			n++
		}
	}
	return n, nil
}

// durabilityOf describes what a successful PUT guarantees, judging by the number of syncs per PUT.
func durabilityOf(syncs float64) string {
	number := strings.TrimSuffix(strconv.FormatFloat(syncs, 'f', 1, 64), ".0")
	switch {
	case number == "0":
		return "not synced: a power cut can lose acknowledged PUTs"
	case syncs < 0.9:
		return "not always synced (" + number + " syncs for each PUT): a power cut can lose acknowledged PUTs"
	case number == "1":
		return "synced: 1 sync for each PUT of a single client"
	}
	return "synced: " + number + " syncs for each PUT of a single client"
}
