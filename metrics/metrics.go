// Package metrics counts what a server does, and serves the counts to Prometheus.
//
// A Registry belongs to one server; the package has no global state. Atomic integers count every request (Requests),
// which costs about 100 ns and no allocation, and every batch, sync and checkpoint (Writes). Everything else, such as
// the free space on the drive, is read when the metrics are collected.
//
// Labels are bounded: an operation is the name of a route, or "Unknown".
//
// docs/metrics.md explains every metric; a test compares it with what a server exports.
package metrics

import (
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
)

// Build describes a binary.
type Build struct {
	Version   string
	Commit    string // "" if it is not known
	GoVersion string
}

// Registry has the collectors of one server.
type Registry struct{ registry *prometheus.Registry }

// New returns a Registry with the metrics of the process and of the Go runtime, and with orcas_build_info.
func New(build Build) (*Registry, error) {
	r := &Registry{prometheus.NewRegistry()}
	return r, r.Add(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		Labeled("orcas_build_info", "The version of the server; the value is always 1.", prometheus.GaugeValue,
			[]string{"version", "commit", "go_version"}, func(emit func(float64, ...string)) {
				emit(1, build.Version, build.Commit, build.GoVersion)
			}),
	)
}

// Add adds collectors. It returns an error if two of them have a metric in common.
func (r *Registry) Add(list ...prometheus.Collector) error {
	for _, c := range list {
		if err := r.registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// Describe sends a description of each metric to c.
func (r *Registry) Describe(c chan<- *prometheus.Desc) { r.registry.Describe(c) }

// Write writes all metrics in the text format of Prometheus.
func (r *Registry) Write(w io.Writer) error {
	families, err := r.registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return nil
}

// Gauge returns a metric whose value is read when metrics are collected.
func Gauge(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

// Counter is like Gauge, for a value that never decreases while the server runs.
func Counter(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read)
}

// Labeled returns a metric with labels. read is called when metrics are collected; it emits each value, with the values
// of the labels in the order of their names.
func Labeled(
	name, help string, kind prometheus.ValueType, labels []string, read func(emit func(value float64, labels ...string)),
) prometheus.Collector {
	return &labeled{prometheus.NewDesc(name, help, labels, nil), kind, read}
}

type labeled struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(emit func(value float64, labels ...string))
}

// Describe implements prometheus.Collector.
func (l *labeled) Describe(c chan<- *prometheus.Desc) { c <- l.desc }

// Collect implements prometheus.Collector.
func (l *labeled) Collect(c chan<- prometheus.Metric) {
	l.read(func(value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(l.desc, l.kind, value, labels...)
	})
}
