package perf

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"orcas/s3/sigv4"
)

// Process is a server under load: this program, started again with another command.
type Process struct {
	Target Target
	PID    int
	cmd    *exec.Cmd
	log    *os.File
}

// Keys are credentials made for one run.
type Keys struct{ Access, Secret string }

// NewKeys makes credentials.
func NewKeys() Keys {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return Keys{"PERF" + hex.EncodeToString(b[:6]), hex.EncodeToString(b[:])}
}

// Start starts program with args, to which it adds --address, and waits until it answers at path. What it prints goes to a file in dir.
func Start(program, dir, name string, keys Keys, path string, env []string, args ...string) (*Process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append(args, "--address", address)...)
	cmd.Env = append(os.Environ(), "ORCAS_ROOT_ACCESS_KEY="+keys.Access, "ORCAS_ROOT_SECRET_KEY="+keys.Secret)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{
		Target: Target{Address: address, Signer: &sigv4.Signer{AccessKey: keys.Access, SecretKey: keys.Secret, Region: "us-east-1"}},
		PID:    cmd.Process.Pid, cmd: cmd, log: log,
	}
	for range 200 {
		if resp, err := http.Get("http://" + address + path); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // only that it answers counts
			resp.Body.Close()
			return p, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.Stop()
	return nil, fmt.Errorf("%s does not answer: see %s", name, log.Name())
}

// Stop asks the process to end, and waits.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	err := p.cmd.Wait()
	p.log.Close()
	return err
}
