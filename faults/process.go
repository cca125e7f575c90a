package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"orcas/core/reclaim"
	"orcas/internal/environ"
	"orcas/lifecycle"
	"orcas/s3/sigv4"
)

// hungAfter is how long a start may take before it counts as hung.
const hungAfter = 60 * time.Second

// Server is what the bench tries: something that can be started, and taken down in two ways, again and again, with what it
// keeps.
type Server interface {
	// Start starts it and returns its endpoint (http://host:port) when it is ready, or why it is not.
	Start(ctx context.Context) (endpoint string, err error)
	// Kill takes it down at once, in the middle of whatever it does.
	Kill() error
	// Stop asks it to end and waits until it has; it must end without an error.
	Stop() error
	// Credentials returns those of its root user, the same at every start.
	Credentials() Credentials
}

// Process is the real server.
type Process struct {
	Binary string
	Data   string // the data directory
	Log    string // the file that its output is appended to
	// ReadyMax is how long a start may take until the server is ready, also after a crash; 0: no limit.
	ReadyMax time.Duration
	// Settings are environments (NAME=value) that the starts use in turn, so that one set of data sees several; none: the
	// defaults.
	Settings [][]string
	// Always is environment (NAME=value) of every start, before Settings.
	Always []string
	// Env is more environment for the next starts; it comes behind Settings.
	Env []string

	root   Credentials // see Credentials
	admin  string      // the address of the admin listener
	starts int
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and exit is set
	exit   error
}

// Start starts the process. It dies with the bench.
func (p *Process) Start(ctx context.Context) (string, error) {
	begun := time.Now()
	endpoint, err := p.launch()
	if err != nil {
		return "", err
	}
	if err := p.await(ctx, endpoint); err != nil {
		return "", errors.Join(err, p.Kill())
	}
	if took := time.Since(begun); p.ReadyMax > 0 && took > p.ReadyMax {
		return "", errors.Join(fmt.Errorf("ready only after %v", took), p.Kill())
	}
	return endpoint, nil
}

// Stumble starts the process and kills it a little later, ready or not.
func (p *Process) Stumble(after time.Duration) error {
	if _, err := p.launch(); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return fmt.Errorf("ended by itself: %w", p.exit)
	case <-time.After(after):
		return p.Kill()
	}
}

// launch starts the process and returns its endpoint.
func (p *Process) launch() (string, error) {
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer log.Close()
	if p.admin, err = freeAddress(); err != nil {
		return "", err
	}
	p.cmd = exec.Command(p.Binary, "server", "--data", p.Data, "--address", address, "--admin-address", p.admin)
	p.cmd.Env = environ.Without("ORCAS_")
	p.cmd.Env = append(p.cmd.Env, "ORCAS_ROOT_ACCESS_KEY="+p.Credentials().AccessKey, "ORCAS_ROOT_SECRET_KEY="+p.Credentials().SecretKey)
	p.cmd.Env = append(p.cmd.Env, p.Always...)
	if len(p.Settings) > 0 {
		p.cmd.Env = append(p.cmd.Env, p.Settings[p.starts%len(p.Settings)]...)
	}
	p.cmd.Env = append(p.cmd.Env, p.Env...)
	p.starts++
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return "http://" + address, p.run()
}

// Credentials implements Server: random ones of this process.
func (p *Process) Credentials() Credentials {
	if p.root.AccessKey == "" {
		p.root = NewCredentials()
	}
	return p.root
}

// signer signs requests to this process.
func (p *Process) signer() *sigv4.Signer {
	return &sigv4.Signer{AccessKey: p.Credentials().AccessKey, SecretKey: p.Credentials().SecretKey, Region: "us-east-1"}
}

// run starts the command from a thread that lives as long as it: its death would be the signal of Pdeathsig.
func (p *Process) run() error {
	started := make(chan error)
	p.exited = make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.exit = p.cmd.Wait()
			close(p.exited)
		}
	}()
	return <-started
}

// await waits until the server is ready.
func (p *Process) await(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, hungAfter)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx, client, endpoint) {
		select {
		case <-p.exited:
			return fmt.Errorf("ended before it was ready: %w", p.exit)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Ended is closed when the process has ended that was started last.
func (p *Process) Ended() <-chan struct{} { return p.exited }

// Reclaim asks the server over its admin listener for a full round of reclaim, and waits for its end.
func (p *Process) Reclaim(ctx context.Context) (report reclaim.Report, err error) {
	err = p.post(ctx, "/-/admin/reclaim?wait=true", &report)
	return report, err
}

// Lifecycle asks for a pass of the lifecycles, and waits for its end.
func (p *Process) Lifecycle(ctx context.Context) (report lifecycle.Report, err error) {
	err = p.post(ctx, "/-/admin/lifecycle?wait=true", &report)
	return report, err
}

// post sends a request to the admin listener and reads the answer into report.
func (p *Process) post(ctx context.Context, path string, report any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.admin+path, nil)
	if err != nil {
		return err
	}
	signer := p.signer()
	signer.Sign(r, sigv4.EmptySHA256, time.Now())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: roundMax}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: status %d: %s", errRefused, answer.StatusCode, text)
	}
	if err == nil {
		err = json.Unmarshal(text, report)
	}
	return err
}

// errRefused is the error of a round that the server answered with one.
var errRefused = errors.New("refused")

// roundMax is how long a round may take before it counts as hung.
const roundMax = 2 * time.Minute

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// Stop sends SIGTERM and waits for the end, which must come within 35 seconds, with status 0.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	select {
	case <-p.exited:
	case <-time.After(35 * time.Second):
		return errors.Join(errors.New("still running 35 s after SIGTERM"), p.Kill())
	}
	if p.exit != nil {
		return fmt.Errorf("after SIGTERM: %w\n%s", p.exit, tail(p.Log))
	}
	return nil
}

// freeAddress returns an address of the local host that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// tail returns the end of a file, for a report.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// alarms are what a server never writes unless something is broken in it.
var alarms = []string{"DATA RACE", "panic", "fatal error:", "SIGSEGV", "are in no block any more", "damaged"}

// Alarms returns the lines of the log that tell of something broken, a few at most.
func (p *Process) Alarms() (list []string) {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(b)) {
		if slices.ContainsFunc(alarms, func(a string) bool { return strings.Contains(line, a) }) && len(list) < 10 {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// Build builds the server of the module that the working directory is in; mutant names the guard that is left out, "" none;
// race builds it with the race detector.
func Build(ctx context.Context, output, mutant string, race bool) error {
	args := []string{"build", "-o", output, fmt.Sprintf("-race=%v", race)}
	if mutant != "" {
		args = append(args, "-tags", "mutant", "-ldflags", "-X orcas/internal/mutant.active="+mutant)
	}
	out, err := exec.CommandContext(ctx, "go", append(args, "orcas/cmd/orcas")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build %s: %w\n%s", mutant, err, out)
	}
	return nil
}
