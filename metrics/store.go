package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"orcas/survey"
)

const (
	// MaxBuckets is the maximum number of buckets with metrics of their own: those with the most objects and bytes.
	MaxBuckets = 1000

	// Others is the value of the label bucket for the sum of all other buckets. No bucket can have this name.
	Others = "(other)"
)

// perBucket are the metrics of a bucket.
var perBucket = []struct {
	desc *prometheus.Desc
	of   func(b *survey.Bucket) int64
}{
	{bucketDesc("objects", "The number of objects in a bucket."), func(b *survey.Bucket) int64 { return b.Objects() }},
	{bucketDesc("versions", "The number of versions in a bucket, without delete markers."), func(b *survey.Bucket) int64 { return b.Versions }},
	{bucketDesc("bytes", "The size of all versions in a bucket."), func(b *survey.Bucket) int64 { return b.Bytes }},
	{bucketDesc("noncurrent_bytes", "The size of all noncurrent versions in a bucket."),
		func(b *survey.Bucket) int64 { return b.NoncurrentBytes }},
	{bucketDesc("uploads", "The number of unfinished multipart uploads in a bucket."), func(b *survey.Bucket) int64 { return b.Uploads }},
	{bucketDesc("upload_bytes", "The size of the parts of unfinished multipart uploads in a bucket."),
		func(b *survey.Bucket) int64 { return b.UploadBytes }},
}

func bucketDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("orcas_bucket_"+name, help, []string{"bucket"}, nil)
}

// ofStore are the metrics of the whole store. Those of its space are unknown at first.
var ofStore = []struct {
	desc    *prometheus.Desc
	inSpace bool
	of      func(r *survey.Result) float64
}{
	{storeDesc("orcas_buckets", "The number of buckets."), false, func(r *survey.Result) float64 { return float64(len(r.Buckets)) }},
	{storeDesc("orcas_store_logical_bytes", "The size of all versions and of the parts of unfinished uploads."), true,
		func(r *survey.Result) float64 { return float64(r.Space.Logical) }},
	{storeDesc("orcas_store_stored_bytes", "The size of all blocks with content."), true,
		func(r *survey.Result) float64 { return float64(r.Space.Stored) }},
	{storeDesc("orcas_store_live_bytes", "The space that stored content takes in the blocks."), true,
		func(r *survey.Result) float64 { return float64(r.Space.Live) }},
	{storeDesc("orcas_store_reclaimable_bytes", "The space in the blocks that no content takes."), true,
		func(r *survey.Result) float64 { return float64(r.Space.Reclaimable()) }},
	{storeDesc("orcas_deduplication_ratio", "The size of all versions and parts divided by that of the stored content."), true,
		func(r *survey.Result) float64 { return r.Space.Deduplication() }},
	{storeDesc("orcas_compression_ratio", "The size of the stored content divided by the space that it takes."), true,
		func(r *survey.Result) float64 { return r.Space.Compression() }},
}

func storeDesc(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

// Store has the metrics of what a store holds, as of the last survey. It is a prometheus.Collector.
type Store struct {
	last func() *survey.Result // the last result, or nil

	mu   sync.Mutex // guards the fields below
	from *survey.Result
	list []prometheus.Metric // made from that result
}

// NewStore returns a Store that reads the results of a survey with last.
func NewStore(last func() *survey.Result) *Store { return &Store{last: last} }

// Describe implements prometheus.Collector.
func (s *Store) Describe(c chan<- *prometheus.Desc) {
	for _, m := range perBucket {
		c <- m.desc
	}
	for _, m := range ofStore {
		c <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(c chan<- prometheus.Metric) {
	s.mu.Lock()
	if r := s.last(); r != s.from {
		s.from, s.list = r, storeMetrics(r)
	}
	list := s.list
	s.mu.Unlock()
	for _, m := range list {
		c <- m
	}
}

// storeMetrics returns the metrics of a result.
func storeMetrics(r *survey.Result) (list []prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		list = append(list, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...))
	}
	for _, m := range ofStore {
		if !m.inSpace || !r.SpaceAt.IsZero() {
			gauge(m.desc, m.of(r))
		}
	}
	buckets, others := r.Largest(MaxBuckets)
	if len(buckets) < len(r.Buckets) {
		buckets = append(buckets[:len(buckets):len(buckets)], survey.Bucket{Name: Others, Tally: others})
	}
	for i := range buckets {
		for _, m := range perBucket {
			gauge(m.desc, float64(m.of(&buckets[i])), buckets[i].Name)
		}
	}
	return list
}
