package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"orcas/internal/environ"
	"orcas/internal/freeport"
	"orcas/lifecycle"
	"orcas/reclaim"
	"orcas/sdk"
)

// hungAfter is the time after which a start counts as hung.
const hungAfter = 60 * time.Second

// Server is the server under test. It can be started, killed and stopped repeatedly, and keeps its data.
type Server interface {
	// Start starts the server and returns its endpoint (http://host:port) as soon as it is ready.
	Start(ctx context.Context) (endpoint string, err error)
	// Kill ends the server immediately, in the middle of its work.
	Kill() error
	// Stop shuts the server down and waits for its end. It returns an error if the server ends with one.
	Stop() error
	// Admin returns the endpoint of the admin API.
	Admin() string
	// Credentials returns the credentials of the root user, which are the same at every start.
	Credentials() Credentials
}

// Process is the real server.
type Process struct {
	Binary string
	Data   string // the data directory
	Log    string // the file to which its output is appended
	// ReadyMax is the maximum time until the server is ready, including after a crash; 0 means no limit.
	ReadyMax time.Duration
	// Settings are environments (NAME=value) that successive starts use in turn, so that the same data is used with
	// several settings. Without any, every start uses the defaults.
	Settings [][]string
	// Always contains environment variables (NAME=value) for every start, before Settings.
	Always []string
	// Env contains additional environment variables for the next starts, after Settings.
	Env []string

	root   Credentials // see Credentials
	admin  string      // the address of the admin listener
	starts int
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended and exit is set
	exit   error
}

// Start starts the process, which is killed if the bench ends.
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
		return "", errors.Join(fmt.Errorf("ready after %v; expected at most %v", took, p.ReadyMax), p.Kill())
	}
	return endpoint, nil
}

// Stumble starts the process and kills it shortly after, ready or not.
func (p *Process) Stumble(after time.Duration) error {
	if _, err := p.launch(); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return fmt.Errorf("the server ended by itself: %w", p.exit)
	case <-time.After(after):
		return p.Kill()
	}
}

// launch starts the process and returns its endpoint.
func (p *Process) launch() (string, error) {
	addresses, err := freeport.Addresses(2)
	if err != nil {
		return "", err
	}
	address := addresses[0]
	p.admin = addresses[1]
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer log.Close()
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

// Admin implements Server.
func (p *Process) Admin() string { return "http://" + p.admin }

// Credentials implements Server. They are random.
func (p *Process) Credentials() Credentials {
	if p.root.AccessKey == "" {
		p.root = NewCredentials()
	}
	return p.root
}

// raw returns a client for an endpoint that a server has printed. It is used in the raw mode, which never retries. A
// request without progress fails after the time limit.
func (c Credentials) raw(endpoint string, t http.RoundTripper, limit time.Duration) *sdk.Client {
	client, err := sdk.New(sdk.Config{Endpoint: endpoint, Credentials: sdk.Static(c.AccessKey, c.SecretKey), Transport: t, IdleTimeout: limit})
	if err != nil {
		panic(err)
	}
	return client
}

// run starts the command from a thread that lives as long as the command: Pdeathsig is sent when the thread ends.
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
			return fmt.Errorf("the server ended before it was ready: %w", p.exit)
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// AtRisk returns the maximum age of a write that a power cut at this moment could lose, for a server with relaxed
// durability. As docs/durability.md states, that is the window plus the durations of the last sync and of the one in
// progress, which the server's health API reports.
func (p *Process) AtRisk(ctx context.Context) (time.Duration, error) {
	h, err := p.relaxed(ctx)
	if err != nil {
		return 0, err
	}
	return time.Duration((h.Window + h.Last + h.Running) * float64(time.Second)), nil
}

// relaxedHealth is the part of the server's health about relaxed durability, in seconds.
type relaxedHealth struct {
	Window  float64 `json:"window_seconds"`
	Last    float64 `json:"last_sync_seconds"`
	Running float64 `json:"running_sync_seconds"`
	Oldest  float64 `json:"oldest_write_seconds"`
}

// relaxed requests the relaxedHealth of the server.
func (p *Process) relaxed(ctx context.Context) (*relaxedHealth, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Admin()+"/-/health/ready", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var health struct {
		Relaxed *relaxedHealth `json:"relaxed"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil {
		return nil, err
	}
	if health.Relaxed == nil {
		return nil, fmt.Errorf("the response of %s has no field \"relaxed\"", r.URL)
	}
	return health.Relaxed, nil
}

// Ended returns a channel that is closed when the process that was started last has ended.
func (p *Process) Ended() <-chan struct{} { return p.exited }

// Reclaim requests a full round of reclaim over the admin API, and waits for its end.
func (p *Process) Reclaim(ctx context.Context) (report reclaim.Report, err error) {
	err = p.ask(ctx, http.MethodPost, "/-/admin/reclaim?wait=true", &report)
	return report, err
}

// ReclaimStatus returns the state of reclaim.
func (p *Process) ReclaimStatus(ctx context.Context) (status reclaim.Status, err error) {
	err = p.ask(ctx, http.MethodGet, "/-/admin/reclaim", &status)
	return status, err
}

// Lifecycle runs a lifecycle pass and waits for its end.
func (p *Process) Lifecycle(ctx context.Context) (report lifecycle.Report, err error) {
	err = p.ask(ctx, http.MethodPost, "/-/admin/lifecycle?wait=true", &report)
	return report, err
}

// ask sends a request to the admin API and decodes the response into report.
func (p *Process) ask(ctx context.Context, method, path string, report any) error {
	c := p.Credentials().raw(p.Admin(), &http.Transport{DisableKeepAlives: true}, roundMax)
	path, query, _ := strings.Cut(path, "?")
	response, err := c.Fetch(ctx, &sdk.Request{Method: method, Path: path, Query: query})
	if err == nil && response.Status != http.StatusOK {
		err = fmt.Errorf("%w: status %d: %s", errRefused, response.Status, response.Body)
	}
	if err == nil {
		err = json.Unmarshal(response.Body, report)
	}
	return err
}

// errRefused is the error of an admin request to which the server responded with an error.
var errRefused = errors.New("admin request refused")

// roundMax is the time after which an admin request counts as hung.
const roundMax = 2 * time.Minute

// Kill sends SIGKILL and waits until the process has ended.
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

// stopMax is the time after SIGTERM after which a server counts as hung. It is twice as long as a server waits for
// requests in flight.
const stopMax = time.Minute

// Stop sends SIGTERM and waits until the process has ended, which must happen within stopMax, with status 0.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	select {
	case <-p.exited:
	case <-time.After(stopMax):
		return errors.Join(fmt.Errorf("still running %v after SIGTERM", stopMax), p.Kill())
	}
	if p.exit != nil {
		return fmt.Errorf("after SIGTERM: %w\n%s", p.exit, tail(p.Log))
	}
	return nil
}

// tail returns the end of a file, for a report.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// alarms are texts that a server logs only if it is broken.
var alarms = []string{"DATA RACE", "panic", "fatal error:", "SIGSEGV", "are missing from the blocks", "damaged"}

// Alarms returns the first few lines of the log that contain one of the alarms.
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

// Build builds the server of the module that contains the working directory. mutant names the guard to leave out, or is
// "". race enables the race detector.
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
