// Package monitoring defines the Grafana dashboards in deploy/grafana, and tests them and the alerts in
// deploy/prometheus. `make dashboards` writes the files; a test compares them with this package.
package monitoring

import "fmt"

// Dashboards returns all dashboards.
func Dashboards() []*Dashboard { return []*Dashboard{overview(), s3(), store(), buckets()} }

// on returns a metric of the chosen servers; matchers are further conditions, such as `status="500"`.
func on(metric string, matchers ...string) string {
	all := `instance=~"$instance"`
	for _, m := range matchers {
		all += "," + m
	}
	return metric + "{" + all + "}"
}

// perSec returns the sum of the rates of a counter, for each combination of the labels, if there are any. In Grafana,
// $__rate_interval is at least four scrapes.
func perSec(by, metric string, matchers ...string) string {
	return sumBy(by, fmt.Sprintf("rate(%s[$__rate_interval])", on(metric, matchers...)))
}

// sumBy returns the sum of series, for each combination of the labels, if there are any.
func sumBy(by, series string) string {
	if by == "" {
		return "sum(" + series + ")"
	}
	return fmt.Sprintf("sum by (%s) (%s)", by, series)
}

// quantiles returns the median, the 90th and the 99th percentile of a histogram.
func quantiles(metric string, matchers ...string) (list []query) {
	for _, q := range []struct{ value, name string }{{"0.5", "median"}, {"0.9", "90 %"}, {"0.99", "99 %"}} {
		list = append(list, query{quantile(q.value, "le", metric, matchers...), q.name})
	}
	return list
}

func quantile(q, by, metric string, matchers ...string) string {
	return fmt.Sprintf("histogram_quantile(%s, %s)", q, perSec(by, metric+"_bucket", matchers...))
}

// mean returns the average of the observations of a histogram.
func mean(metric string) string {
	return fmt.Sprintf("%s / %s", perSec("instance", metric+"_sum"), perSec("instance", metric+"_count"))
}

// Colors of values that should be low, or high.
func redFrom(from float64) []step   { return []step{{from, "red"}} }
func greenFrom(from float64) []step { return []step{{0, "red"}, {from, "green"}} }

// bucketLabel selects the chosen buckets.
const bucketLabel = `bucket=~"$bucket"`

func overview() *Dashboard {
	return &Dashboard{UID: "orcas-overview", Title: "ORCAS overview", Description: "Whether ORCAS servers are healthy, what they do, and the resources that they use.",
		sections: []section{
			{"Health", []panel{
				{kind: stat, title: "Up", means: "Servers that can be scraped.", unit: number, steps: greenFrom(1),
					queries: []query{{`sum(up{job="orcas",instance=~"$instance"})`, ""}}},
				{kind: stat, title: "Accept writes", means: "Servers that accept writes.", unit: number, steps: greenFrom(1),
					queries: []query{{"sum(1 - " + on("orcas_writes_refused") + ")", ""}}},
				{kind: stat, title: "Free above the reserve", means: "Free space until PUT is refused, of the server with the least.", unit: share,
					steps:   []step{{0, "red"}, {0.05, "orange"}, {0.15, "green"}},
					queries: []query{{"min((" + on("orcas_drive_free_bytes") + " - " + on("orcas_drive_reserve_bytes") + ") / " + on("orcas_drive_total_bytes") + ")", ""}}},
				{kind: stat, title: "Lost content", means: "Pieces of content in missing blocks.", unit: number, steps: redFrom(1),
					queries: []query{{"sum(" + on("orcas_lost_objects") + ")", ""}}},
				{kind: stat, title: "Missing blocks", means: "Files with stored content that do not exist.", unit: number, steps: redFrom(1),
					queries: []query{{"sum(" + on("orcas_missing_blocks") + ")", ""}}},
				{kind: stat, title: "Certificate expires", means: "When the first certificate expires. Empty without TLS.", unit: moment,
					queries: []query{{"min(" + on("orcas_certificate_expiry_timestamp_seconds") + ") * 1000", ""}}},
				{kind: table, title: "Servers", means: "The version of each server, and how it was built.", unit: ratio, width: 24, queries: []query{
					{"sum by (instance, version, commit, go_version) (" + on("orcas_build_info") + ")", "servers"},
				}},
			}},
			{"Requests", []panel{
				{kind: graph, title: "S3 requests", means: "Requests per second, by the class of their status.", unit: perSecond, stacks: true, queries: []query{
					{perSec("", "orcas_s3_requests_total", `status=~"2.."`), "2xx"},
					{perSec("", "orcas_s3_requests_total", `status=~"3.."`), "3xx"},
					{perSec("", "orcas_s3_requests_total", `status=~"4.."`), "4xx"},
					{perSec("", "orcas_s3_requests_total", `status=~"5.."`), "5xx"},
				}},
				{kind: graph, title: "Traffic", means: "Bytes of the bodies of requests and responses.", unit: byteRate, queries: []query{
					{perSec("instance", "orcas_s3_received_bytes_total"), "in {{instance}}"},
					{perSec("instance", "orcas_s3_sent_bytes_total"), "out {{instance}}"},
				}},
				{kind: graph, title: "Duration", means: "Time from the headers of a request to the end of its response.", unit: seconds,
					queries: quantiles("orcas_s3_request_duration_seconds")},
				{kind: graph, title: "Refused requests", means: "Requests that were not allowed, or exceeded a limit, by reason.", unit: perSecond,
					queries: []query{{perSec("reason", "orcas_s3_rejections_total"), "{{reason}}"}}},
				{kind: graph, title: "In flight", means: "S3 requests that are being processed.", unit: number,
					queries: []query{{on("orcas_s3_requests_in_flight"), "{{instance}}"}}},
				{kind: graph, title: "Connections", means: "Open connections, by listener.", unit: number,
					queries: []query{{"sum by (instance, listener) (" + on("orcas_connections_open") + ")", "{{listener}} {{instance}}"}}},
				{kind: graph, title: "IAM and admin requests", means: "Requests to the APIs of IAM and STS, and to the admin API.", unit: perSecond, queries: []query{
					{perSec("instance", "orcas_iam_requests_total"), "iam {{instance}}"},
					{perSec("instance", "orcas_admin_requests_total"), "admin {{instance}}"},
				}},
				{kind: graph, title: "Closed connections", means: "Connections that the server closed, by reason.", unit: rate,
					queries: []query{{perSec("reason, listener", "orcas_connections_closed_total"), "{{reason}} {{listener}}"}}},
				{kind: graph, title: "Dropped audit records", means: "Records of the audit log that could not be written, per second, by sink.", unit: rate,
					queries: []query{{perSec("sink", "orcas_audit_dropped_total"), "{{sink}}"}}},
			}},
			{"Resources", []panel{
				{kind: graph, title: "CPU", means: "Processors in use.", unit: ratio,
					queries: []query{{"rate(" + on("process_cpu_seconds_total") + "[$__rate_interval])", "{{instance}}"}}},
				{kind: graph, title: "Memory", means: "Resident memory of the process, memory of the Go heap, and the limit.", unit: sizeBytes, queries: []query{
					{on("process_resident_memory_bytes"), "resident {{instance}}"},
					{on("go_memstats_heap_inuse_bytes"), "heap {{instance}}"},
					{on("orcas_memory_limit_bytes") + " > 0", "limit {{instance}}"},
				}},
				{kind: graph, title: "File descriptors", means: "Open file descriptors, as a share of the limit.", unit: share, max: 1,
					queries: []query{{on("process_open_fds") + " / " + on("process_max_fds"), "{{instance}}"}}},
				{kind: graph, title: "Goroutines", means: "Goroutines of the process.", unit: number,
					queries: []query{{on("go_goroutines"), "{{instance}}"}}},
				{kind: graph, title: "Garbage collection", means: "Longest pause of recent garbage collections.", unit: seconds,
					queries: []query{{on("go_gc_duration_seconds", `quantile="1"`), "{{instance}}"}}},
				{kind: graph, title: "Uptime", means: "Time since the start of the process.", unit: seconds,
					queries: []query{{"time() - " + on("process_start_time_seconds"), "{{instance}}"}}},
			}},
		}}
}

func s3() *Dashboard {
	chosen := `operation=~"$operation"`
	return &Dashboard{UID: "orcas-s3", Title: "ORCAS S3", Description: "Requests of S3 by operation: rates, errors, durations and bytes.",
		variables: []variable{{"operation", "Operation", "orcas_s3_requests_total"}},
		sections: []section{
			{"Rates", []panel{
				{kind: graph, title: "Requests", means: "Requests per second, by operation.", unit: perSecond, width: 12,
					queries: []query{{perSec("operation", "orcas_s3_requests_total", chosen), "{{operation}}"}}},
				{kind: graph, title: "Status", means: "Requests per second, by the status of their response.", unit: perSecond, width: 12,
					queries: []query{{perSec("status", "orcas_s3_requests_total", chosen), "{{status}}"}}},
				{kind: graph, title: "Internal errors", means: "Requests per second that the server failed (5xx), by operation and status.", unit: perSecond, width: 12,
					queries: []query{{perSec("operation, status", "orcas_s3_requests_total", chosen, `status=~"5.."`), "{{operation}} {{status}}"}}},
				{kind: graph, title: "Client errors", means: "Requests per second that were refused (4xx), by operation and status.", unit: perSecond, width: 12,
					queries: []query{{perSec("operation, status", "orcas_s3_requests_total", chosen, `status=~"4.."`), "{{operation}} {{status}}"}}},
				{kind: graph, title: "Refused requests", means: "Requests that were not allowed, or exceeded a limit, by reason.", unit: perSecond, width: 12,
					queries: []query{{perSec("reason", "orcas_s3_rejections_total"), "{{reason}}"}}},
				{kind: graph, title: "In flight", means: "Requests that are being processed, and the uploads among them that wait for memory.", unit: number, width: 12,
					queries: []query{
						{on("orcas_s3_requests_in_flight"), "{{instance}}"},
						{on("orcas_memory_waiting_uploads"), "uploads that wait for memory {{instance}}"},
					}},
			}},
			{"Durations", []panel{
				{kind: graph, title: "Duration", means: "Time from the headers of a request to the end of its response, which includes the time in which the client sends and reads.",
					unit: seconds, queries: quantiles("orcas_s3_request_duration_seconds", chosen)},
				{kind: graph, title: "Duration, 99 %, by operation", means: "99th percentile of the duration of each operation.", unit: seconds,
					queries: []query{{quantile("0.99", "le, operation", "orcas_s3_request_duration_seconds", chosen), "{{operation}}"}}},
				{kind: graph, title: "Average duration, by operation", means: "Average duration of each operation.", unit: seconds,
					queries: []query{{perSec("operation", "orcas_s3_request_duration_seconds_sum", chosen) + " / " +
						perSec("operation", "orcas_s3_request_duration_seconds_count", chosen), "{{operation}}"}}},
				{kind: graph, title: "First byte", means: "Time from the headers of a request to the first byte of its response.", unit: seconds,
					queries: quantiles("orcas_s3_first_byte_seconds", chosen)},
				{kind: graph, title: "First byte, 99 %, by operation", means: "99th percentile of the time to the first byte of each operation.", unit: seconds,
					queries: []query{{quantile("0.99", "le, operation", "orcas_s3_first_byte_seconds", chosen), "{{operation}}"}}},
				{kind: graph, title: "First byte of reads", means: "Time to the first byte of GetObject and HeadObject.", unit: seconds,
					queries: quantiles("orcas_s3_first_byte_seconds", `operation=~"GetObject|HeadObject"`)},
			}},
			{"Bytes", []panel{
				{kind: graph, title: "Received", means: "Bytes of the bodies of requests, by operation.", unit: byteRate, width: 12, stacks: true,
					queries: []query{{perSec("operation", "orcas_s3_received_bytes_total", chosen), "{{operation}}"}}},
				{kind: graph, title: "Sent", means: "Bytes of the bodies of responses, by operation.", unit: byteRate, width: 12, stacks: true,
					queries: []query{{perSec("operation", "orcas_s3_sent_bytes_total", chosen), "{{operation}}"}}},
				{kind: table, title: "Operations", means: "Requests and bytes of each operation in the chosen time.", unit: number, width: 24, queries: []query{
					{`sum by (operation) (increase(` + on("orcas_s3_requests_total", chosen) + `[$__range]))`, "requests"},
					{`sum by (operation) (increase(` + on("orcas_s3_received_bytes_total", chosen) + `[$__range]))`, "bytes received"},
					{`sum by (operation) (increase(` + on("orcas_s3_sent_bytes_total", chosen) + `[$__range]))`, "bytes sent"},
				}},
			}},
		}}
}

func store() *Dashboard {
	return &Dashboard{UID: "orcas-store", Title: "ORCAS store", Description: "How ORCAS writes, what the drive holds, and the work in the background.",
		sections: []section{
			{"Write path", []panel{
				{kind: graph, title: "Write queue", means: "Writes that wait for a batch. At 16,384, further writes are refused.", unit: number,
					queries: []query{{on("orcas_write_queue_length"), "{{instance}}"}}},
				{kind: graph, title: "Objects per batch", means: "Average number of objects that share one sync of the drive.", unit: number,
					queries: []query{{mean("orcas_batch_objects"), "{{instance}}"}}},
				{kind: graph, title: "Bytes per batch", means: "Average size of the content of a batch.", unit: sizeBytes,
					queries: []query{{mean("orcas_batch_bytes"), "{{instance}}"}}},
				{kind: graph, title: "Commit", means: "Time to write and sync a batch.", unit: seconds, queries: quantiles("orcas_batch_commit_seconds")},
				{kind: graph, title: "Apply", means: "Time to apply a batch to the metadata.", unit: seconds, queries: quantiles("orcas_batch_apply_seconds")},
				{kind: graph, title: "fdatasync", means: "Time of a sync of the drive.", unit: seconds, queries: quantiles("orcas_fdatasync_seconds")},
				{kind: graph, title: "Failed batches", means: "Batches that failed, per second.", unit: rate,
					queries: []query{{perSec("instance", "orcas_batch_errors_total"), "{{instance}}"}}},
				{kind: graph, title: "Age of writes that are not durable", means: "With relaxed durability: the age of the oldest write that a power cut would lose.", unit: seconds,
					queries: []query{{on("orcas_relaxed_lag_seconds"), "{{instance}}"}}},
				{kind: graph, title: "Replayed changes", means: "Changes that the last start replayed from the blocks.", unit: number,
					queries: []query{{on("orcas_replayed_changes"), "{{instance}}"}}},
			}},
			{"Metadata", []panel{
				{kind: graph, title: "Database log", means: "Size of the write-ahead log. It is copied into the database at 24 MiB.", unit: sizeBytes,
					queries: []query{{on("orcas_wal_bytes"), "{{instance}}"}}},
				{kind: graph, title: "Checkpoints", means: "Copies of the log into the database, per second, by result.", unit: rate,
					queries: []query{{perSec("result", "orcas_checkpoints_total"), "{{result}}"}}},
				{kind: graph, title: "Time of checkpoints", means: "Average time of a checkpoint.", unit: seconds,
					queries: []query{{mean("orcas_checkpoint_seconds"), "{{instance}}"}}},
				{kind: graph, title: "Cache hits", means: "Share of lookups that a cache answered.", unit: share, max: 1, width: 12,
					queries: []query{{perSec("cache", "orcas_cache_hits_total") + " / (" + perSec("cache", "orcas_cache_hits_total") + " + " +
						perSec("cache", "orcas_cache_misses_total") + ")", "{{cache}}"}}},
				{kind: graph, title: "Size of caches", means: "Memory of each cache.", unit: sizeBytes, width: 12,
					queries: []query{{"sum by (cache) (" + on("orcas_cache_bytes") + ")", "{{cache}}"}}},
			}},
			{"Space", []panel{
				{kind: graph, title: "Drive", means: "Free space of the drive, and the reserve at which PUT is refused.", unit: sizeBytes, queries: []query{
					{on("orcas_drive_free_bytes"), "free {{instance}}"},
					{on("orcas_drive_reserve_bytes"), "reserve {{instance}}"},
					{on("orcas_drive_total_bytes"), "total {{instance}}"},
				}},
				{kind: graph, title: "Free space in a day", means: "Free space in 24 hours, at the rate of the last 6 hours.", unit: sizeBytes,
					queries: []query{{"predict_linear(" + on("orcas_drive_free_bytes") + "[6h], 86400)", "{{instance}}"}}},
				{kind: graph, title: "Stored bytes", means: "Size of objects; bytes on the drive, those of them that objects need, and those that can be reclaimed.", unit: sizeBytes, queries: []query{
					{on("orcas_store_logical_bytes"), "objects {{instance}}"},
					{on("orcas_store_stored_bytes"), "stored {{instance}}"},
					{on("orcas_store_live_bytes"), "live {{instance}}"},
					{on("orcas_store_reclaimable_bytes"), "reclaimable {{instance}}"},
				}},
				{kind: graph, title: "Deduplication and compression", means: "Size before, divided by size after.", unit: ratio, queries: []query{
					{on("orcas_deduplication_ratio"), "deduplication {{instance}}"},
					{on("orcas_compression_ratio"), "compression {{instance}}"},
				}},
				{kind: graph, title: "Kept for readers", means: "Deleted content that is kept because clients are still reading.", unit: sizeBytes,
					queries: []query{{on("orcas_pinned_bytes"), "{{instance}}"}}},
				{kind: graph, title: "Oldest reader", means: "How long the oldest read of large content has been running.", unit: seconds,
					queries: []query{{on("orcas_oldest_reader_seconds"), "{{instance}}"}}},
			}},
			{"Background work and damage", []panel{
				{kind: graph, title: "Scrub", means: "Share of the current pass of the scrub that is done.", unit: share, max: 1,
					queries: []query{{on("orcas_scrub_progress_ratio"), "{{instance}}"}}},
				{kind: graph, title: "Damage", means: "Damage that the scrub found and repaired in the chosen time.", unit: number, queries: []query{
					{"increase(" + on("orcas_scrub_errors_found_total") + "[$__range])", "found {{instance}}"},
					{"increase(" + on("orcas_scrub_errors_repaired_total") + "[$__range])", "repaired {{instance}}"},
				}},
				{kind: graph, title: "Missing and lost", means: "Missing blocks, and the pieces of content in them.", unit: number, queries: []query{
					{on("orcas_missing_blocks"), "blocks {{instance}}"},
					{on("orcas_lost_objects"), "content {{instance}}"},
				}},
				{kind: graph, title: "Running", means: "Work in the background that is running.", unit: number, width: 12, stacks: true,
					queries: []query{{"sum by (work) (" + on("orcas_background_running") + ")", "{{work}}"}}},
				{kind: bars, title: "Time since the last success", means: "Of each kind of work in the background, since the start of the server.", unit: seconds, width: 12,
					queries: []query{{"time() - max by (work) (" + on("orcas_background_last_success_timestamp_seconds") + " > 0)", "{{work}}"}}},
			}},
		}}
}

func buckets() *Dashboard {
	sum := func(metric string) string { return "sum by (bucket) (" + on(metric, bucketLabel) + ")" }
	top := func(metric string) []query { return []query{{"topk(20, " + sum(metric) + ")", "{{bucket}}"}} }
	return &Dashboard{UID: "orcas-buckets", Title: "ORCAS buckets", Description: "Objects, versions, bytes and unfinished uploads of each bucket.",
		variables: []variable{{"bucket", "Bucket", "orcas_bucket_objects"}},
		sections: []section{
			{"Totals", []panel{
				{kind: stat, title: "Buckets", means: "Number of buckets.", unit: number, queries: []query{{"sum(" + on("orcas_buckets") + ")", ""}}},
				{kind: stat, title: "Objects", means: "Objects in the chosen buckets.", unit: number, queries: []query{{"sum(" + on("orcas_bucket_objects", bucketLabel) + ")", ""}}},
				{kind: stat, title: "Versions", means: "Versions in the chosen buckets, current ones included.", unit: number, queries: []query{{"sum(" + on("orcas_bucket_versions", bucketLabel) + ")", ""}}},
				{kind: stat, title: "Size", means: "Bytes of all versions in the chosen buckets.", unit: sizeBytes, queries: []query{{"sum(" + on("orcas_bucket_bytes", bucketLabel) + ")", ""}}},
				{kind: stat, title: "Noncurrent", means: "Bytes of noncurrent versions in the chosen buckets.", unit: sizeBytes, queries: []query{{"sum(" + on("orcas_bucket_noncurrent_bytes", bucketLabel) + ")", ""}}},
				{kind: stat, title: "Unfinished uploads", means: "Bytes of multipart uploads that are not complete, in the chosen buckets.", unit: sizeBytes, queries: []query{{"sum(" + on("orcas_bucket_upload_bytes", bucketLabel) + ")", ""}}},
			}},
			{"Buckets", []panel{
				{kind: table, title: "Buckets", means: "The figures of each bucket. Of more than 1,000 buckets, the smallest are summed.", unit: number, width: 24, queries: []query{
					{sum("orcas_bucket_objects"), "objects"},
					{sum("orcas_bucket_versions"), "versions"},
					{sum("orcas_bucket_bytes"), "bytes"},
					{sum("orcas_bucket_noncurrent_bytes"), "noncurrent bytes"},
					{sum("orcas_bucket_uploads"), "uploads"},
					{sum("orcas_bucket_upload_bytes"), "bytes of uploads"},
				}},
				{kind: graph, title: "Size", means: "Bytes of all versions of the 20 largest buckets.", unit: sizeBytes, width: 12, queries: top("orcas_bucket_bytes")},
				{kind: graph, title: "Objects", means: "Objects of the 20 buckets that have the most.", unit: number, width: 12, queries: top("orcas_bucket_objects")},
				{kind: graph, title: "Noncurrent versions", means: "Bytes of noncurrent versions, of the 20 buckets that have the most.", unit: sizeBytes, width: 12, queries: top("orcas_bucket_noncurrent_bytes")},
				{kind: graph, title: "Unfinished uploads", means: "Bytes of unfinished uploads, of the 20 buckets that have the most.", unit: sizeBytes, width: 12, queries: top("orcas_bucket_upload_bytes")},
				{kind: graph, title: "Growth in a day", means: "Change of the size within 24 hours, of the 20 buckets that grow most.", unit: sizeBytes, width: 24,
					queries: []query{{"topk(20, sum by (bucket) (delta(" + on("orcas_bucket_bytes", bucketLabel) + "[1d])))", "{{bucket}}"}}},
			}},
		}}
}
