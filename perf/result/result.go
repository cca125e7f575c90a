// Package result defines the result of a performance run: one JSON document, from which tables, plots, pages and
// comparisons are generated. A run measures and writes it; everything else only reads it, so a report can be
// regenerated without a server.
//
// Names end in units: _ms, _us, _sec, _bytes, _rps (requests per second). A figure that was not measured is omitted;
// p99 needs at least 100 samples, and p95 at least 20.
package result

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Version is the version of the document. A reader rejects newer versions.
const Version = 1

// Run is one run of `orcas perf`.
type Run struct {
	Version     int         `json:"version"`
	ID          string      `json:"id"`
	Profile     string      `json:"profile"` // smoke, baseline, saturation
	StartedAt   time.Time   `json:"started_at"`
	DurationSec float64     `json:"duration_sec"`
	Environment Environment `json:"environment"`
	Ceilings    *Ceilings   `json:"ceilings,omitempty"`
	Scenarios   []Scenario  `json:"scenarios"`
	Failures    []Failure   `json:"failures,omitempty"` // scenarios that failed
	Notes       []string    `json:"notes,omitempty"`
	Benchmarks  []Benchmark `json:"benchmarks,omitempty"` // results of go test -bench; a run does not measure them, but its report contains them
}

// Failure is a scenario that could not be completed.
type Failure struct {
	Scenario string `json:"scenario"`
	Error    string `json:"error"`
}

// Environment describes the machine, the server and the client of a run.
type Environment struct {
	OS             string            `json:"os"`
	Arch           string            `json:"arch"`
	CPU            string            `json:"cpu"`
	Encryption     string            `json:"encryption,omitempty"` // the implementation with which this program encrypts: see internal/aesgcm
	NumCPU         int               `json:"num_cpu"`
	MemoryBytes    int64             `json:"memory_bytes"`
	Kernel         string            `json:"kernel"`
	FileSystem     string            `json:"file_system"`      // of the data directory
	FdatasyncP50us float64           `json:"fdatasync_p50_us"` // after appending 4 KiB
	FdatasyncP99us float64           `json:"fdatasync_p99_us"`
	GoVersion      string            `json:"go_version"`
	Version        string            `json:"orcas_version"`
	Commit         string            `json:"commit"`
	Server         string            `json:"server"`          // name and version that the endpoint reports
	SameMachine    bool              `json:"same_machine"`    // client and server run on one machine
	Durability     string            `json:"durability_mode"` // of the server, if known
	Settings       map[string]string `json:"settings,omitempty"`
	SigningMode    string            `json:"signing_mode"` // signed, unsigned, chunked, trailer
	Protocol       string            `json:"protocol"`     // http/1.1, h2, with "+tls"
	CompressibleBy float64           `json:"compressible,omitempty"`
}

// Ceilings are the limits of the machine, measured in the same run.
type Ceilings struct {
	Null   []Row       `json:"null"` // put, get, head against the null server; Variant "null"
	Disk   []DiskRow   `json:"disk"`
	Memory []MemoryRow `json:"memory"`
}

// DiskRow is a measurement of one writer that syncs after each append or, if Sequential is set, once at the end.
type DiskRow struct {
	SizeBytes   int64   `json:"size_bytes"`
	Sequential  bool    `json:"sequential,omitempty"`
	P50us       float64 `json:"p50_us,omitempty"`
	P99us       float64 `json:"p99_us,omitempty"`
	BytesPerSec float64 `json:"bytes_per_sec"`
}

// MemoryRow is the throughput of a function on one core.
type MemoryRow struct {
	Function    string  `json:"function"` // md5, sha256, xxh3, crc64nvme, zstd
	BytesPerSec float64 `json:"bytes_per_sec"`
}

// Hardware is a summary of the environment, included in each scenario.
type Hardware struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	NumCPU    int    `json:"num_cpu"`
	GoVersion string `json:"go_version"`
}

// Scenario is the result of one scenario.
type Scenario struct {
	Scenario      string             `json:"scenario"` // id, as in `orcas perf list`
	Endpoint      string             `json:"endpoint"`
	Bucket        string             `json:"bucket"`
	Mode          string             `json:"mode"`           // single, size-sweep, ramp, table
	Rate          float64            `json:"rate,omitempty"` // target rate of an open loop, in requests per second
	DurationSec   float64            `json:"duration_sec"`
	Workers       int                `json:"workers,omitempty"`
	SeedCount     int                `json:"seed_count,omitempty"`
	Order         string             `json:"order,omitempty"` // of the keys: sequential, random, interleaved
	SaturationRPS float64            `json:"saturation_rps,omitempty"`
	Hardware      Hardware           `json:"hardware"`
	StartedAt     time.Time          `json:"started_at"`
	Results       []Row              `json:"results"`
	Values        map[string]float64 `json:"values,omitempty"` // figures of the whole scenario
	Goals         []Goal             `json:"goals,omitempty"`
	Servers       []Server           `json:"servers,omitempty"` // of a comparison of servers
	Note          string             `json:"note,omitempty"`    // what limits the scenario, and what was skipped
}

// Server is one server of a comparison. Figures that were not measured are nil.
type Server struct {
	Name            string   `json:"name"`
	Version         string   `json:"version,omitempty"`
	Command         string   `json:"command,omitempty"`    // how it was started, without paths and credentials
	Durability      string   `json:"durability,omitempty"` // what a successful PUT guarantees, judging by the system calls
	Missing         string   `json:"missing,omitempty"`    // the reason why it has no figures
	SyncsPerPut     *float64 `json:"syncs_per_put,omitempty"`
	BytesPerObject  *float64 `json:"disk_bytes_per_object,omitempty"`
	FilesPerObject  *float64 `json:"files_per_object,omitempty"`
	PeakRSS         *float64 `json:"peak_rss_bytes,omitempty"`
	StartAfterCrash *float64 `json:"start_after_crash_sec,omitempty"` // until an object can be read
}

// Goal is a performance goal, and the figure that was measured.
type Goal struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit string  `json:"limit"`
	Met   bool    `json:"met"`
}

// Row is one measurement: one operation at one size, load and variant.
type Row struct {
	Operation string `json:"operation"`         // put, get, head, delete, list, ...
	Variant   string `json:"variant,omitempty"` // packing-on, packing-off, cold, warm, null, null: first page, ...
	SizeBytes int64  `json:"size_bytes"`
	Workers   int    `json:"workers,omitempty"`
	OpenLoop  bool   `json:"open_loop,omitempty"` // latency counts from the intended time of sending
	Turns     int    `json:"turns,omitempty"`     // the row is the median of this many turns

	RequestedRPS  float64          `json:"requested_rps,omitempty"`
	SentRPS       float64          `json:"sent_rps,omitempty"`
	CompletedRPS  float64          `json:"completed_rps,omitempty"`
	ThroughputRPS float64          `json:"throughput_rps"` // successful
	Requests      int64            `json:"requests"`       // completed
	Samples       int64            `json:"samples"`        // in the histogram of latencies
	DurationSec   float64          `json:"duration_sec"`
	BytesPerSec   float64          `json:"bytes_per_sec,omitempty"`
	MeanMs        float64          `json:"mean_ms,omitempty"`
	P50Ms         float64          `json:"p50_ms,omitempty"`
	P95Ms         float64          `json:"p95_ms,omitempty"`
	P99Ms         float64          `json:"p99_ms,omitempty"`
	MaxMs         float64          `json:"max_ms,omitempty"`
	ErrorRate     float64          `json:"error_rate"` // share of requests with an unexpected response or none
	StatusCodes   map[string]int64 `json:"status_codes,omitempty"`

	Cost
	MD5    string             `json:"md5,omitempty"`    // of the object, if the row is about one
	Values map[string]float64 `json:"values,omitempty"` // figures that are specific to this scenario; their names end in units
}

// Cost is the measured cost of the operations of a row.
type Cost struct {
	ServerCPUus float64 `json:"server_cpu_us_per_op,omitempty"`
	ClientCPUus float64 `json:"client_cpu_us_per_op,omitempty"`
	PeakRSS     int64   `json:"peak_rss_bytes,omitempty"` // of the server
}

// NullVariant returns the variant of the null server's row that corresponds to a variant.
func NullVariant(variant string) string { return strings.TrimSuffix("null: "+variant, ": ") }

// Null reports whether a row belongs to the null server.
func (r *Row) Null() bool { return r.Variant == "null" || strings.HasPrefix(r.Variant, "null: ") }

// Write writes r as indented JSON.
func (r *Run) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Read reads a run.
func Read(from io.Reader) (*Run, error) {
	var r Run
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return nil, fmt.Errorf("not the result of a run of orcas perf: %w", err)
	}
	if r.Version < 1 || r.Version > Version {
		return nil, fmt.Errorf("the result has version %d, but this program reads versions 1 to %d", r.Version, Version)
	}
	return &r, nil
}

// ReadFile reads the run in a file.
func ReadFile(path string) (*Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
