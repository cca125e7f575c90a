// Package result is what a performance run leaves behind: one JSON document, from which tables, plots, pages and comparisons are made.
// A run measures and writes it; everything else only reads it, so that a report can be made again without a server.
//
// Units stand in the names: _ms, _us, _sec, _bytes, _rps (requests a second). A figure that was not measured is left out; a percentile
// needs at least 100 samples for p99 and 20 for p95.
package result

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Version is the version of the document. A reader refuses a newer one.
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
	Failures    []Failure   `json:"failures,omitempty"` // of scenarios that gave no figures
	Notes       []string    `json:"notes,omitempty"`
	Benchmarks  []Benchmark `json:"benchmarks,omitempty"` // Go's, which no run makes: a report is given them
}

// Failure is a scenario that could not be carried out.
type Failure struct {
	Scenario string `json:"scenario"`
	Error    string `json:"error"`
}

// Environment says on what a run was made.
type Environment struct {
	OS             string            `json:"os"`
	Arch           string            `json:"arch"`
	CPU            string            `json:"cpu"`
	Encryption     string            `json:"encryption,omitempty"` // with what this program encrypts: see internal/aesgcm
	NumCPU         int               `json:"num_cpu"`
	MemoryBytes    int64             `json:"memory_bytes"`
	Kernel         string            `json:"kernel"`
	FileSystem     string            `json:"file_system"`      // of the data directory
	FdatasyncP50us float64           `json:"fdatasync_p50_us"` // 4 KiB appended
	FdatasyncP99us float64           `json:"fdatasync_p99_us"`
	GoVersion      string            `json:"go_version"`
	Version        string            `json:"orcas_version"`
	Commit         string            `json:"commit"`
	Server         string            `json:"server"`          // what the endpoint calls itself
	SameMachine    bool              `json:"same_machine"`    // client and server share it
	Durability     string            `json:"durability_mode"` // of the server, where known
	Settings       map[string]string `json:"settings,omitempty"`
	SigningMode    string            `json:"signing_mode"` // signed, unsigned, chunked, trailer
	Protocol       string            `json:"protocol"`     // http/1.1, h2, with "+tls"
	CompressibleBy float64           `json:"compressible,omitempty"`
}

// Ceilings are the most that the machine allows, measured in the same run.
type Ceilings struct {
	Null   []Row       `json:"null"` // put, get, head against the null server; Variant "null"
	Disk   []DiskRow   `json:"disk"`
	Memory []MemoryRow `json:"memory"`
}

// DiskRow is one writer that appends and syncs, or, where Sequential, only writes and syncs once at the end.
type DiskRow struct {
	SizeBytes   int64   `json:"size_bytes"`
	Sequential  bool    `json:"sequential,omitempty"`
	P50us       float64 `json:"p50_us,omitempty"`
	P99us       float64 `json:"p99_us,omitempty"`
	BytesPerSec float64 `json:"bytes_per_sec"`
}

// MemoryRow is what one core does of a function.
type MemoryRow struct {
	Function    string  `json:"function"` // md5, sha256, xxh3, crc64nvme, zstd
	BytesPerSec float64 `json:"bytes_per_sec"`
}

// Hardware is the short form of the environment that stands in each scenario.
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
	Rate          float64            `json:"rate,omitempty"` // asked for, requests a second
	DurationSec   float64            `json:"duration_sec"`
	Workers       int                `json:"workers,omitempty"`
	SeedCount     int                `json:"seed_count,omitempty"`
	SaturationRPS float64            `json:"saturation_rps,omitempty"`
	Hardware      Hardware           `json:"hardware"`
	StartedAt     time.Time          `json:"started_at"`
	Results       []Row              `json:"results"`
	Values        map[string]float64 `json:"values,omitempty"` // figures of the whole scenario
	Goals         []Goal             `json:"goals,omitempty"`
	Note          string             `json:"note,omitempty"` // what limits it, what was left out
}

// Goal is a figure that is asked for.
type Goal struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit string  `json:"limit"`
	Met   bool    `json:"met"`
}

// Row is one measurement: one operation at one size, load and variant.
type Row struct {
	Operation string `json:"operation"`         // put, get, head, delete, list, ...
	Variant   string `json:"variant,omitempty"` // packing-on, packing-off, cold, warm, null, ...
	SizeBytes int64  `json:"size_bytes"`
	Workers   int    `json:"workers,omitempty"`
	OpenLoop  bool   `json:"open_loop,omitempty"` // latency counts from the intended time of sending
	Turns     int    `json:"turns,omitempty"`     // the row is the median of so many

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
	ErrorRate     float64          `json:"error_rate"` // of what was sent: not the expected answer, or none
	StatusCodes   map[string]int64 `json:"status_codes,omitempty"`

	ServerCPUus float64            `json:"server_cpu_us_per_op,omitempty"`
	ClientCPUus float64            `json:"client_cpu_us_per_op,omitempty"`
	PeakRSS     int64              `json:"peak_rss_bytes,omitempty"`
	MD5         string             `json:"md5,omitempty"`    // of the object, where it is one
	Values      map[string]float64 `json:"values,omitempty"` // figures of this scenario alone; units in the names
}

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
		return nil, fmt.Errorf("not a report of a run: %w", err)
	}
	if r.Version < 1 || r.Version > Version {
		return nil, fmt.Errorf("a report of version %d, this program reads up to %d", r.Version, Version)
	}
	return &r, nil
}
