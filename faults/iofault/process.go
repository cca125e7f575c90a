package iofault

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"orcas/internal/environ"
)

// Time limits of a server, which are reached only if something hangs.
const (
	startMax   = 2 * time.Minute
	stopMax    = 2 * time.Minute
	requestMax = time.Minute
)

// Credentials of the servers.
const (
	accessKey = "iofault-key"
	secretKey = "iofault-secret-key"
)

// process is a running server.
type process struct {
	cmd      *exec.Cmd
	endpoint string
	admin    string // the URL of the admin listener
	out      output
	exited   chan struct{} // closed when it has ended and exit is set
	exit     error
}

// output collects the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// errEnded is the error of a start that ended before it was ready.
var errEnded = errors.New("ended before it was ready")

// start starts a server on the directory data, with additional environment variables, and waits until it is ready.
// armed, if set, is called just before, with a function that kills the server. If start fails, the process has ended;
// it is returned nonetheless, for its output.
func start(binary, data string, env []string, armed func(kill func())) (*process, error) {
	p := &process{cmd: exec.Command(binary, "server", "--data", data, "--address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0"), exited: make(chan struct{})}
	p.cmd.Env = append(environ.Without("ORCAS_"), "ORCAS_ROOT_ACCESS_KEY="+accessKey, "ORCAS_ROOT_SECRET_KEY="+secretKey)
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	running := make(chan struct{})
	if armed != nil {
		armed(func() {
			<-running
			p.signal(syscall.SIGKILL)
		})
	}
	begun := time.Now()
	if err := p.launch(running); err != nil {
		close(p.exited)
		return p, err
	}
	if err := p.await(begun); err != nil {
		p.kill()
		return p, err
	}
	return p, nil
}

// launch starts the command from a thread that lives as long as the command: Pdeathsig is sent when the thread ends.
func (p *process) launch(running chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		close(running)
		started <- err
		if err == nil {
			p.exit = p.cmd.Wait()
			close(p.exited)
		}
	}()
	return <-started
}

var banner = regexp.MustCompile(`endpoint +(http://\S+)\s+admin +(http://\S+)\s`)

// await waits until the server is ready.
func (p *process) await(begun time.Time) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startMax}
	for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
		select {
		case <-p.exited:
			return errEnded
		default:
		}
		if m := banner.FindStringSubmatch(p.out.String()); m != nil {
			p.endpoint, p.admin = m[1], m[2]
			res, err := client.Get(p.endpoint + "/-/health/ready")
			if err == nil {
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
		if time.Since(begun) > startMax {
			return fmt.Errorf("neither ready nor ended after %v", startMax)
		}
	}
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended already

// kill ends the process and waits for it.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// stop sends SIGTERM and waits. It returns an error if the process does not end, or ends with another status than 0.
func (p *process) stop() error {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return p.exit
	case <-time.After(stopMax):
		p.kill()
		return fmt.Errorf("hang: still running %v after SIGTERM", stopMax)
	}
}

// panicked returns output that a healthy process never writes, or "".
func (p *process) panicked() string {
	text := p.out.String()
	for _, sign := range []string{"panic: ", "fatal error: ", "SIGBUS", "SIGSEGV", "DATA RACE", "is not a setting of this version"} {
		if i := strings.Index(text, sign); i >= 0 {
			return text[i:min(len(text), i+2000)]
		}
	}
	return ""
}

// tail returns the end of the output.
func (p *process) tail() string { return p.last(400) }

// last returns the last n bytes of the output.
func (p *process) last(n int) string {
	text := strings.TrimSpace(p.out.String())
	return text[max(0, len(text)-n):]
}
