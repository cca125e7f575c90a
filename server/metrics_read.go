package server

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orcas/core"
	"orcas/core/cached"
	"orcas/metrics"
	"orcas/s3"
)

// emit returns the value of a metric with labels, in the order of their names.
type emit = func(value float64, labels ...string)

// readings are the metrics of a server that are read when they are collected.
type readings struct{ *Server }

// add adds the metrics that are read from the parts of an open server when they are collected. Nothing that they
// call waits for a write, or makes one wait.
func (s readings) add(handler *s3.Server) error {
	list := s.writeMetrics()
	list = append(list, s.metadataMetrics()...)
	list = append(list, s.driveMetrics()...)
	list = append(list, s.healthMetrics()...)
	list = append(list, s.backgroundMetrics()...)
	list = append(list, s.connectionMetrics()...)
	list = append(list, metrics.NewStore(s.survey.Last))
	return s.counts.registry.Add(append(list,
		metrics.Gauge("orcas_s3_requests_in_flight", "The number of requests that are being processed.",
			func() float64 { return float64(handler.InFlight()) }))...)
}

// writeMetrics returns the metrics of the write buffer that Writes does not count.
func (s readings) writeMetrics() []prometheus.Collector {
	return []prometheus.Collector{
		metrics.Gauge("orcas_write_queue_length", "The number of writes that are waiting for a batch.",
			func() float64 { return float64(s.writer.Queued()) }),
		metrics.Gauge("orcas_writes_refused", "1 if the server refuses all writes, otherwise 0.",
			func() float64 { return number(s.writer.Err() != nil) }),
		metrics.Labeled("orcas_relaxed_lag_seconds", "The age of the oldest write that is not durable, with relaxed durability.",
			prometheus.GaugeValue, nil, func(emit emit) {
				if s.writer.Relaxed() {
					emit(s.writer.Lag().Oldest.Seconds())
				}
			}),
	}
}

// metadataMetrics returns the metrics of the metadata engine and its caches.
func (s readings) metadataMetrics() []prometheus.Collector {
	use := func(value func(cached.Usage) float64) func(emit) {
		return func(emit emit) {
			if c, ok := s.meta.(interface{ Caches() []cached.Usage }); ok {
				for _, u := range c.Caches() {
					emit(value(u), u.Name)
				}
			}
		}
	}
	cache := []string{"cache"}
	return []prometheus.Collector{
		metrics.Gauge("orcas_wal_bytes", "The size of the write-ahead log of the metadata.", func() float64 {
			info, err := os.Stat(filepath.Join(s.config.Data, databaseFile+logSuffix))
			if err != nil {
				return 0
			}
			return float64(info.Size())
		}),
		metrics.Labeled("orcas_cache_hits_total", "The number of lookups of metadata that a cache answered.",
			prometheus.CounterValue, cache, use(func(u cached.Usage) float64 { return float64(u.Hits) })),
		metrics.Labeled("orcas_cache_misses_total", "The number of lookups of metadata that the database answered.",
			prometheus.CounterValue, cache, use(func(u cached.Usage) float64 { return float64(u.Misses) })),
		metrics.Labeled("orcas_cache_bytes", "The approximate size of the entries of a cache.",
			prometheus.GaugeValue, cache, use(func(u cached.Usage) float64 { return float64(u.Bytes) })),
	}
}

// driveMetrics returns the metrics of the space on the drive. They have no values while it cannot be determined: with 0,
// the drive would look full. The log says why, once.
func (s readings) driveMetrics() []prometheus.Collector {
	var failed atomic.Bool
	gauge := func(name, help string, value func(free, total int64) int64) prometheus.Collector {
		return metrics.Labeled(name, help, prometheus.GaugeValue, nil, func(emit emit) {
			spacer, ok := core.As[core.Spacer](s.blocks)
			if !ok {
				return
			}
			free, total, err := spacer.Space(context.Background())
			if err == nil {
				emit(float64(value(free, total)))
			}
			if was := failed.Swap(err != nil); err != nil && !was {
				s.log.Warn("the free space of the drive cannot be determined, so its metrics have no values", "err", err)
			}
		})
	}
	return []prometheus.Collector{
		gauge("orcas_drive_free_bytes", "The free space of the drive with the blocks.", func(free, _ int64) int64 { return free }),
		gauge("orcas_drive_total_bytes", "The size of the drive with the blocks.", func(_, total int64) int64 { return total }),
		gauge("orcas_drive_reserve_bytes", "The free space below which PUT is refused.",
			func(_, total int64) int64 { return s.config.Settings.MinFree.of(total) }),
	}
}

// healthMetrics returns the metrics of the state of the server, of readers, and of damage.
func (s readings) healthMetrics() []prometheus.Collector {
	lost := func(value func(blocks, contents int) int) func() float64 {
		return func() float64 {
			last, _ := s.compared()
			if last == nil {
				return 0
			}
			contents, _ := last.Lost()
			return float64(value(len(last.Missing), contents))
		}
	}
	return []prometheus.Collector{
		metrics.Gauge("orcas_missing_blocks", "The number of blocks that the metadata refers to but that do not exist.",
			lost(func(blocks, _ int) int { return blocks })),
		metrics.Gauge("orcas_lost_objects", "The number of pieces of content in missing blocks.",
			lost(func(_, contents int) int { return contents })),
		metrics.Gauge("orcas_pinned_bytes", "The size of the garbage that is kept because clients still read it.",
			func() float64 { return float64(s.reclaimer.Status().PinnedBytes) }),
		metrics.Gauge("orcas_oldest_reader_seconds", "How long the oldest reader has been reading.",
			func() float64 { return s.reclaimer.Status().OldestReader }),
		metrics.Gauge("orcas_memory_limit_bytes", "The memory that the server may use; 0 if there is no limit.",
			func() float64 { return float64(s.memory.limit) }),
		metrics.Counter("orcas_log_dropped_total", "The number of lines that are missing in the log, because it could not be written.",
			func() float64 { return float64(s.logBuffer.Lost()) }),
		metrics.Gauge("orcas_memory_waiting_uploads", "The number of uploads that wait for memory.",
			func() float64 { return float64(s.content.Waiting()) }),
		metrics.Labeled("orcas_audit_dropped_total", "The number of audit records that a sink has dropped.",
			prometheus.CounterValue, []string{"sink"}, func(emit emit) {
				if s.view.audit != nil {
					s.view.audit.Dropped(func(sink string, records int64) { emit(float64(records), sink) })
				}
			}),
		metrics.Labeled("orcas_state", "The state of the server: 1 for the current one.", prometheus.GaugeValue,
			[]string{"state"}, func(emit emit) {
				now := s.state()
				for _, state := range []string{stateReady, stateDegraded, stateReadOnly, stateStopping} {
					emit(number(state == now), state)
				}
			}),
	}
}

// backgroundMetrics returns the metrics of background work.
func (s readings) backgroundMetrics() []prometheus.Collector {
	name := []string{"work"}
	return []prometheus.Collector{
		metrics.Labeled("orcas_background_running", "1 while the background work is running, otherwise 0.", prometheus.GaugeValue, name,
			func(emit emit) {
				for _, w := range s.work() {
					emit(number(w.Running), w.Name)
				}
			}),
		metrics.Labeled("orcas_background_last_success_timestamp_seconds",
			"When the background work last succeeded, or, before its first success, when the server started.", prometheus.GaugeValue, name,
			func(emit emit) {
				for _, w := range s.work() {
					regular := w.Enabled && w.Name != "snapshot" // an idle store needs no snapshot
					switch {
					case w.Success != nil:
						emit(seconds(*w.Success), w.Name)
					case regular:
						emit(seconds(s.counts.started), w.Name)
					}
				}
			}),
		metrics.Gauge("orcas_scrub_progress_ratio", "The progress of the current or last scrub, from 0 to 1.",
			func() float64 {
				if st := s.scrubber.Status(); st.BytesTotal > 0 {
					return float64(st.BytesDone) / float64(st.BytesTotal)
				}
				return 0
			}),
		metrics.Counter("orcas_scrub_errors_found_total", "The number of pieces of damage that the scrub found.",
			func() float64 { return float64(s.scrubber.Status().EverFound) }),
		metrics.Counter("orcas_scrub_errors_repaired_total", "The number of pieces of damage that the scrub repaired.",
			func() float64 { return float64(s.scrubber.Status().Repaired) }),
	}
}

// connectionMetrics returns the metrics of the listeners.
func (s readings) connectionMetrics() []prometheus.Collector {
	listeners := func(visit func(name string, l *limitListener, c *certificate)) {
		visit("s3", s.listener, s.view.cert)
		if s.adminListen != nil {
			visit("admin", s.adminListen, s.adminCert)
		}
	}
	return []prometheus.Collector{
		metrics.Labeled("orcas_connections_open", "The number of open connections.", prometheus.GaugeValue, []string{"listener"},
			func(emit emit) {
				listeners(func(name string, l *limitListener, _ *certificate) { emit(float64(l.open()), name) })
			}),
		metrics.Labeled("orcas_connections_closed_total", "The number of connections that a limit has closed.",
			prometheus.CounterValue, []string{"listener", "reason"}, func(emit emit) {
				listeners(func(name string, l *limitListener, _ *certificate) {
					emit(float64(l.evicted.Load()), name, "idle")
					emit(float64(l.refused.Load()+l.dropped.Load()), name, "limit")
					emit(float64(l.crowded.Load()), name, "address")
				})
			}),
		metrics.Labeled("orcas_certificate_expiry_timestamp_seconds", "When the certificate of a listener expires.",
			prometheus.GaugeValue, []string{"listener"}, func(emit emit) {
				listeners(func(name string, _ *limitListener, c *certificate) {
					if c == nil {
						return
					}
					if end := c.expires(); !end.IsZero() {
						emit(seconds(end), name)
					}
				})
			}),
	}
}

// number returns 1 for true.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds returns a time in seconds since 1970.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
