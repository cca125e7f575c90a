// Package result stores the results of fault injection: one JSON document per line, in the file that
// ORCAS_FAULTS_RESULTS names. Package faults/report generates docs/reliability.md from it.
package result

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Row is the result of one kind of fault in one run.
type Row struct {
	Fault string `json:"fault"` // the kind of fault: sigkill, power-cut, io-sweep, ...
	Name  string `json:"name"`  // the variant, as shown to readers
	Tried int    `json:"tried"`
	Unit  string `json:"unit"` // what Tried counts, in the plural: kills, cuts, points, ...

	Acknowledged int64          `json:"acknowledged,omitempty"` // operations that the server acknowledged
	Violations   map[string]int `json:"violations,omitempty"`   // number of broken guarantees by kind; empty if all were kept
	Killed       string         `json:"killed,omitempty"`       // for a mutant, the test that detected it; "" means that the mutant survived

	Ready   float64 `json:"ready_sec,omitempty"` // the longest time from a start until the server is ready, in seconds
	Rate    float64 `json:"rate,omitempty"`      // operations acknowledged per second, under load
	Seconds float64 `json:"seconds"`             // total duration
	Seed    uint64  `json:"seed,omitempty"`
	Note    string  `json:"note,omitempty"`

	Started     time.Time   `json:"started"`
	Environment Environment `json:"environment"`
}

// Environment describes the machine and the code of a run.
type Environment struct {
	Commit string `json:"commit"`
	Go     string `json:"go"`
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory_bytes"`
}

// Total returns the number of broken guarantees.
func (r *Row) Total() int {
	n := 0
	for _, v := range r.Violations {
		n += v
	}
	return n
}

// Add appends a row to the file that ORCAS_FAULTS_RESULTS names, and fills in its environment. It does nothing if the
// variable is unset. r.Started is when the run began, and Seconds is computed from it.
func Add(r Row) error {
	path := os.Getenv("ORCAS_FAULTS_RESULTS")
	if path == "" {
		return nil
	}
	r.Seconds = time.Since(r.Started).Seconds()
	r.Started = r.Started.UTC().Truncate(time.Second)
	r.Environment = environment()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Counts formats counts by name for a note: "killed 3, stopped 1".
func Counts(counts map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(list, ", ")
}

// Read returns the rows of a file, in its order.
func Read(path string) ([]Row, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var r Row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, i+1, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func environment() Environment {
	e := Environment{Go: runtime.Version(), Cores: runtime.NumCPU(), CPU: field("/proc/cpuinfo", "model name")}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		e.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) == nil {
		e.Memory = int64(s.Totalram) * int64(s.Unit)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, set := range info.Settings {
			if set.Key == "vcs.revision" {
				e.Commit = set.Value
			}
		}
	}
	if out, err := exec.Command("git", "rev-parse", "HEAD").Output(); e.Commit == "" && err == nil {
		e.Commit = strings.TrimSpace(string(out))
	}
	if len(e.Commit) > 12 {
		e.Commit = e.Commit[:12]
	}
	return e
}

// field returns the value of the first line of a file that is "name : value".
func field(path, name string) string {
	b, _ := os.ReadFile(path) // if the file is missing, the value is empty
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Test has the methods of *testing.T that Of needs.
type Test interface {
	Cleanup(func())
	Failed() bool
	Skipped() bool
	Errorf(format string, args ...any)
}

// Of adds a row when a test ends, unless the test was skipped. Until then the test may fill in more fields. A test that
// failed without recording a violation counts as one violation.
func Of(t Test, r Row) *Row {
	r.Started = time.Now()
	if level := os.Getenv("ORCAS_FAULTS_COMPRESSION"); level != "" {
		r.Name += "; compressed"
	}
	if os.Getenv("ORCAS_FAULTS_ENCRYPTION") == "1" {
		r.Name += "; encrypted"
	}
	t.Cleanup(func() {
		if t.Skipped() {
			return
		}
		if t.Failed() && r.Total() == 0 {
			r.Violations = map[string]int{"failed": 1}
		}
		if err := Add(r); err != nil {
			t.Errorf("add a row to the results: %v", err)
		}
	})
	return &r
}
