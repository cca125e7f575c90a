package perf

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"orcas/internal/environ"
	"orcas/internal/freeport"
	"orcas/internal/loadgen"
)

// NewKeys returns random credentials.
func NewKeys() loadgen.Keys {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return loadgen.Keys{Access: "PERF" + hex.EncodeToString(b[:6]), Secret: hex.EncodeToString(b[:])}
}

// ownRegion is the region of the servers that a run starts.
const ownRegion = "us-east-1"

// Program describes how a run starts a server: this program with another command and an --address, or another server.
type Program struct {
	Path  string // path of the binary
	Name  string // base name of its log
	Dir   string // directory of its log
	Args  []string
	Env   []string
	Ready string // a path that returns 200 once the server accepts requests
	Keys  loadgen.Keys
	TLS   bool // --tls-self-signed is among Args

	Address string   // the address that Args contain; if empty, --address with a free one is added
	Under   []string // a program to run the server under, such as strace, with its arguments
}

// Process is a server under load.
type Process struct {
	Target     *loadgen.Target
	PID        int
	ReadyAfter time.Duration // time from the start until the server was ready
	program    Program
	cmd        *exec.Cmd
	done       chan struct{} // closed when the process has ended
}

// readyTimeout is the longest that a start may take. It may include the rebuild of a large store.
const readyTimeout = 15 * time.Minute

// Start starts a server and waits until it is ready. Its output is appended to NAME.log in Dir.
func (p Program) Start(ctx context.Context) (*Process, error) {
	address, args := p.Address, slices.Clone(p.Args)
	if address == "" {
		var err error
		if address, err = freeport.Address(); err != nil {
			return nil, err
		}
		args = append(args, "--address", address)
	}
	command := slices.Concat(p.Under, []string{p.Path}, args)
	log, err := os.OpenFile(filepath.Join(p.Dir, p.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(environ.Without("ORCAS_"), "ORCAS_ROOT_ACCESS_KEY="+p.Keys.Access, "ORCAS_ROOT_SECRET_KEY="+p.Keys.Secret)
	cmd.Env = append(cmd.Env, p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// Use a separate process group, so that an interrupt from the terminal reaches only the run, which stops its
	// servers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Process{
		Target: loadgen.NewTarget(address, p.Keys, ownRegion),
		PID:    cmd.Process.Pid, program: p, cmd: cmd, done: make(chan struct{}),
	}
	if p.TLS {
		s.Target.TLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}} // the certificate was just generated on this machine
	}
	go func() {
		_ = cmd.Wait() // it only matters that the process has ended
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
			_, _ = io.Copy(io.Discard, resp.Body) // only the status matters
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.done:
			return errors.New("the process has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("not ready after %v", readyTimeout)
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

// stopTimeout is the longest that a server may take to stop.
const stopTimeout = 2 * time.Minute

// Stop sends SIGTERM to the process and waits for its end. It kills the process after stopTimeout.
func (s *Process) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails if the process has already ended
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
		s.Kill()
	}
}

// Kill sends SIGKILL to the process and its children, and waits for its end.
func (s *Process) Kill() {
	select {
	case <-s.done: // its process ID may have been reused
		return
	default:
	}
	_ = syscall.Kill(-s.PID, syscall.SIGKILL) // it has its own process group
	<-s.done
}

// Again starts the same server again, after Stop or Kill.
func (s *Process) Again(ctx context.Context) (*Process, error) { return s.program.Start(ctx) }
