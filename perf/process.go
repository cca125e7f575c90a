package perf

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"orcas/internal/environ"
	"orcas/s3/sigv4"
)

// NewKeys makes credentials.
func NewKeys() Keys {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return Keys{"PERF" + hex.EncodeToString(b[:6]), hex.EncodeToString(b[:])}
}

// ownRegion is the region of the servers that a run starts.
const ownRegion = "us-east-1"

// Program is how a server of a run's own is started: this program with another command, which is told its --address.
type Program struct {
	Path  string // of the binary
	Name  string // for its log
	Dir   string // for its log
	Args  []string
	Env   []string
	Ready string // a path that is answered with 200 once it takes requests
	Keys  Keys
	TLS   bool // --tls-self-signed is among Args
}

// Process is a server under load.
type Process struct {
	Target     *Target
	PID        int
	ReadyAfter time.Duration // from the start until it was ready
	program    Program
	cmd        *exec.Cmd
	done       chan struct{} // closed when it has ended
}

// readyTimeout is the longest that a start may take: a rebuild of a large store is one.
const readyTimeout = 15 * time.Minute

// Start starts a server and waits until it is ready. What it prints is appended to NAME.log in its Dir.
func (p Program) Start(ctx context.Context) (*Process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close() // the server takes it over
	log, err := os.OpenFile(filepath.Join(p.Dir, p.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.Path, append(slices.Clone(p.Args), "--address", address)...)
	cmd.Env = append(environ.Without("ORCAS_"), "ORCAS_ROOT_ACCESS_KEY="+p.Keys.Access, "ORCAS_ROOT_SECRET_KEY="+p.Keys.Secret)
	cmd.Env = append(cmd.Env, p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own: an interrupt from the terminal is for the run, which stops its servers itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Process{
		Target: &Target{Address: address, Host: address, Signing: Signed, Signer: &sigv4.Signer{AccessKey: p.Keys.Access, SecretKey: p.Keys.Secret, Region: ownRegion}},
		PID:    cmd.Process.Pid, program: p, cmd: cmd, done: make(chan struct{}),
	}
	if p.TLS {
		s.Target.TLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}} // it was made a moment ago, on this machine
	}
	go func() {
		_ = cmd.Wait() // that it ended is what counts
		close(s.done)
	}()
	if err := s.waitReady(ctx); err != nil {
		s.Kill()
		return nil, fmt.Errorf("%s: %w: %s", p.Name, err, lastLine(log.Name()))
	}
	s.ReadyAfter = time.Since(start)
	return s, nil
}

func (s *Process) waitReady(ctx context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: s.Target.TLS.Clone(), DisableKeepAlives: true}}
	url := s.Target.Endpoint() + s.program.Ready
	for start := time.Now(); time.Since(start) < readyTimeout; {
		if resp, err := client.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // only that it answers counts
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.done:
			return fmt.Errorf("it has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("it is not ready after %v", readyTimeout)
}

// lastLine returns the last line of a file.
func lastLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// Stop asks the process to end, and waits.
func (s *Process) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	<-s.done
}

// Kill ends the process without asking, and waits.
func (s *Process) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.done
}

// Again starts the same server once more, after Stop or Kill.
func (s *Process) Again(ctx context.Context) (*Process, error) { return s.program.Start(ctx) }
