package admin

import "time"

// Status is the response to GET /-/admin/status: everything that a page about the health of a server needs.
type Status struct {
	State      string    `json:"state"` // ready, degraded, readonly or stopping
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	Uptime     float64   `json:"uptime_seconds"`
	Durability string    `json:"durability"`
	Warnings   []Warning `json:"warnings"` // problems that need attention; empty if there are none

	Load
	Requests uint64 `json:"requests"`                 // to the address of S3, since the start
	Refused  string `json:"writes_refused,omitempty"` // why writes are refused

	Drive        *Drive        `json:"drive"` // null while it cannot be determined
	Memory       Memory        `json:"memory"`
	Relaxed      any           `json:"relaxed,omitempty"` // with relaxed durability: what a power cut could lose
	Readers      Readers       `json:"readers"`
	Work         []Work        `json:"work"`
	Scrub        ScrubState    `json:"scrub"`
	Store        *Holdings     `json:"store"` // null until the first survey has ended
	Saved        *Saved        `json:"saved"` // null until the first survey has ended
	Missing      Missing       `json:"missing"`
	Certificates []Certificate `json:"certificates,omitempty"`
	Audit        []AuditState  `json:"audit,omitempty"`
	LogLevel     string        `json:"log_level"`
	LogDropped   int64         `json:"log_dropped"` // lines since the start, because the log could not be written
}

// Warning is a problem, with what to do about it.
type Warning struct {
	Problem string `json:"problem"`
	Action  string `json:"action"`
}

// Drive is the space on the drive, in bytes.
type Drive struct {
	Free    int64 `json:"free_bytes"`
	Total   int64 `json:"total_bytes"`
	Reserve int64 `json:"reserve_bytes"` // writes are refused when less than this is free
}

// Memory is the memory of the process, in bytes.
type Memory struct {
	Used  uint64 `json:"used_bytes"`            // by the Go runtime, without memory that it has returned
	Heap  uint64 `json:"heap_bytes"`            // in use
	Limit int64  `json:"limit_bytes,omitempty"` // the limit of the Go runtime; 0 for none
}

// Readers are the clients that are reading content.
type Readers struct {
	Count  int     `json:"count"`
	Oldest float64 `json:"oldest_seconds"`
	Pinned int64   `json:"pinned_bytes"` // deleted content that is kept for them
}

// Work is the state of background work.
type Work struct {
	Name    string     `json:"name"`         // reclaim, snapshot, scrub, lifecycle or survey
	Enabled bool       `json:"enabled"`      // it starts without a command
	Running bool       `json:"running"`      // at present
	Ended   *time.Time `json:"last_ended"`   // when it last ended; null if it has not ended since the server started
	Success *time.Time `json:"last_success"` // when it last succeeded; null if it has not succeeded since the server started
	Error   string     `json:"last_error,omitempty"`
}

// ScrubState is the progress of the scrub, and the number of pieces of damage.
type ScrubState struct {
	Progress float64 `json:"progress"` // of the current pass, from 0 to 1
	Found    int     `json:"found"`    // since the start, repaired or not
	Repaired int     `json:"repaired"` // since the start
	Damaged  int     `json:"damaged"`  // found and not repaired
}

// Holdings is what the store held at the last survey.
type Holdings struct {
	Time            time.Time `json:"time"`
	Buckets         int       `json:"buckets"`
	Objects         int64     `json:"objects"`          // that listings show
	Versions        int64     `json:"versions"`         // without delete markers
	NoncurrentBytes int64     `json:"noncurrent_bytes"` // of versions that are not the newest of their key
	Uploads         int64     `json:"uploads"`          // unfinished
	Space           *Space    `json:"space"`            // null until it is known
}

// Space is the use of the drive by content, in bytes.
type Space struct {
	Time          time.Time `json:"time"`                // when it was determined
	Logical       int64     `json:"logical_bytes"`       // the size of all versions and parts
	Stored        int64     `json:"stored_bytes"`        // the size of all blocks with content
	Live          int64     `json:"live_bytes"`          // the part of Stored that content in use takes
	Reclaimable   int64     `json:"reclaimable_bytes"`   // the rest of Stored
	Deduplication float64   `json:"deduplication_ratio"` // the logical size divided by that of the stored content
	Compression   float64   `json:"compression_ratio"`   // the size of the stored content divided by Live
}

// Missing is what the last comparison of the blocks with the metadata has found.
type Missing struct {
	Comparing bool  `json:"comparing"` // the comparison at the start has not ended
	Blocks    int   `json:"blocks"`
	Contents  int   `json:"lost_contents"` // pieces of content in missing blocks; orcas admin lost lists the objects
	Bytes     int64 `json:"lost_bytes"`
}

// Certificate is a certificate for HTTPS.
type Certificate struct {
	Listener string    `json:"listener"` // s3 or admin
	Expires  time.Time `json:"expires"`
}

// AuditState is a sink of the audit log.
type AuditState struct {
	Sink    string `json:"sink"`    // file or webhook
	Dropped int64  `json:"dropped"` // records, since the start
}

// Saved is what packing, deduplication, compression and instant upload have saved.
type Saved struct {
	Files       int64 `json:"files"`        // versions that have no file of their own
	BytesStored int64 `json:"bytes_stored"` // that versions and parts have, and the drive need not have
	BytesSent   int64 `json:"bytes_sent"`   // that clients did not send since the start, because the bucket had the content
}
