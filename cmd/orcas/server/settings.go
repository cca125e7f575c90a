package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"orcas/core/codec"
	"orcas/lifecycle"
	"orcas/s3"
)

// Durability says when a write is acknowledged.
type Durability string

// The modes: Strict answers after the sync, and what was acknowledged survives a power cut. Relaxed answers when the operating system has the
// write, and syncs it within Settings.Window.
const (
	Strict  Durability = "strict"
	Relaxed Durability = "relaxed"
)

// Settings is what the environment says. Each field names its variable; docs/configuration.md tells the whole story.
type Settings struct {
	BatchWrite    bool          // ORCAS_BATCH_WRITE_ENABLED: pack small objects
	MaxPackedSize int64         // ORCAS_MAX_BATCH_WRITE_FILE_SIZE: bytes of the largest object that is packed
	MaxBatchBytes int64         // ORCAS_MAX_WRITE_BUFFER_SIZE: a batch is closed at this many bytes
	MaxBatchCount int           // ORCAS_MAX_WRITE_BUFFER_COUNT: ... or at this many objects
	Window        time.Duration // ORCAS_WRITE_BUFFER_WINDOW_SEC: the longest time until a relaxed write is synced
	Durability    Durability    // ORCAS_DURABILITY
	InstantUpload bool          // ORCAS_INSTANT_UPLOAD_ENABLED: share equal content
	Compression   codec.Level   // ORCAS_COMPRESSION: of content in buckets that do not say
	Region        string        // ORCAS_REGION
	Domains       []string      // ORCAS_DOMAINS: base domains of virtual-host style
	Buckets       []string      // ORCAS_BUCKETS: made at start
	MinFree       Reserve       // ORCAS_MIN_FREE: the reserve below which PUT is refused
	Reclaim       bool          // ORCAS_RECLAIM_ENABLED: free garbage unasked
	ScrubPeriod   time.Duration // ORCAS_SCRUB_DAYS: in which everything is read and verified once; 0: never unasked
	Lifecycle     time.Duration // ORCAS_LIFECYCLE_INTERVAL_SEC: between two looks for what the lifecycles of buckets, and UploadAge, say is due; 0: never unasked
	LifecycleDay  time.Duration // ORCAS_LIFECYCLE_DAY_SEC: how long a day of a lifecycle is
	UploadAge     time.Duration // ORCAS_ABANDONED_UPLOAD_DAYS: after so long an upload in progress is aborted; 0: never
	MasterKeys    *codec.Keys   // ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_KEY; nil: none
	Encrypt       bool          // ORCAS_ENCRYPTION: all content, whatever its bucket says
	SSECOverHTTP  bool          // ORCAS_SSEC_OVER_HTTP: take customers' keys without TLS
	AccessKey     string        // ORCAS_ROOT_ACCESS_KEY; "" with SecretKey: made at the first start
	SecretKey     string        // ORCAS_ROOT_SECRET_KEY

	windowSet, lifecycleSet bool
	keysFrom                string // the variable that brought MasterKeys

	// Warnings are settings that are taken and will not do what one may expect of them.
	Warnings []string
}

// Reserve is the room that must stay free: the larger of a share of the drive and a number of bytes.
type Reserve struct {
	Percent float64 // of the drive, 0..100
	Bytes   int64
}

// minReserve is the least that a share of the drive comes to, in bytes.
const minReserve = 256 << 20

const (
	minAccessKey, maxAccessKey = 3, 128
	minSecretKey, maxSecretKey = 8, 128
)

// variables are those that readSettings reads, each with how its value gets into the settings.
var variables = []struct {
	name string
	set  func(s *Settings, value string) error
}{
	{"ORCAS_BATCH_WRITE_ENABLED", func(s *Settings, v string) error { return parseBool(&s.BatchWrite, v) }},
	{"ORCAS_MAX_BATCH_WRITE_FILE_SIZE", func(s *Settings, v string) error { return parseInt(&s.MaxPackedSize, v, 1, 16<<20) }},
	{"ORCAS_MAX_WRITE_BUFFER_SIZE", func(s *Settings, v string) error { return parseInt(&s.MaxBatchBytes, v, 64<<10, 1<<30) }},
	{"ORCAS_MAX_WRITE_BUFFER_COUNT", func(s *Settings, v string) error { return parseInt(&s.MaxBatchCount, v, 1, 100_000) }},
	{"ORCAS_WRITE_BUFFER_WINDOW_SEC", setWindow},
	{"ORCAS_DURABILITY", setDurability},
	{"ORCAS_INSTANT_UPLOAD_ENABLED", func(s *Settings, v string) error { return parseBool(&s.InstantUpload, v) }},
	{"ORCAS_COMPRESSION", setCompression},
	{"ORCAS_REGION", setRegion},
	{"ORCAS_DOMAINS", setDomains},
	{"ORCAS_BUCKETS", setBuckets},
	{"ORCAS_MIN_FREE", setMinFree},
	{"ORCAS_RECLAIM_ENABLED", func(s *Settings, v string) error { return parseBool(&s.Reclaim, v) }},
	{"ORCAS_ABANDONED_UPLOAD_DAYS", func(s *Settings, v string) error { return parseDays(&s.UploadAge, v, 36500) }},
	{"ORCAS_LIFECYCLE_INTERVAL_SEC", setLifecycle},
	{"ORCAS_LIFECYCLE_DAY_SEC", func(s *Settings, v string) error { return parseSeconds(&s.LifecycleDay, v, 1, 86_400) }},
	{"ORCAS_SCRUB_DAYS", func(s *Settings, v string) error { return parseDays(&s.ScrubPeriod, v, 365) }},
	{keyFileVariable, setKeyFile},
	{keyVariable, setKey},
	{"ORCAS_ENCRYPTION", setEncryption},
	{"ORCAS_SSEC_OVER_HTTP", func(s *Settings, v string) error { return parseBool(&s.SSECOverHTTP, v) }},
	{"ORCAS_ROOT_ACCESS_KEY", setAccessKey},
	{"ORCAS_ROOT_SECRET_KEY", setSecretKey},
}

// ReadSettings reads the environment, as os.Environ gives it. An empty variable is an unset one. An error names the
// variable whose value makes no sense, and never shows a secret.
func ReadSettings(environ []string) (Settings, error) {
	s := Settings{
		BatchWrite:    true,
		InstantUpload: true,
		Reclaim:       true,
		ScrubPeriod:   7 * 24 * time.Hour,
		Lifecycle:     time.Hour,
		LifecycleDay:  lifecycle.Day,
		MaxPackedSize: 64 << 10,
		MaxBatchBytes: 8 << 20,
		MaxBatchCount: 2048,
		Window:        10 * time.Second,
		Durability:    Strict,
		Compression:   codec.Off,
		Region:        "us-east-1",
		MinFree:       Reserve{Percent: 1, Bytes: minReserve},
	}
	values := map[string]string{}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "ORCAS_") && value != "" {
			values[name] = value
		}
	}
	for _, v := range variables {
		value, ok := values[v.name]
		if !ok {
			continue
		}
		delete(values, v.name)
		if err := v.set(&s, value); err != nil {
			return Settings{}, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	for name := range values {
		s.warn(name, "is no setting of this version")
	}
	err := s.agree()
	slices.Sort(s.Warnings)
	return s, err
}

// agree checks the variables against each other.
func (s *Settings) agree() error {
	if s.windowSet && s.Durability == Strict {
		s.warn("ORCAS_WRITE_BUFFER_WINDOW_SEC", "has no effect with durability strict: every write is synced before it is acknowledged")
	}
	if s.LifecycleDay < lifecycle.Day {
		s.warn("ORCAS_LIFECYCLE_DAY_SEC", "makes the days of lifecycles shorter than days are: objects expire early")
	}
	if !s.lifecycleSet {
		s.Lifecycle = min(s.Lifecycle, s.LifecycleDay)
	}
	s.windowSet, s.lifecycleSet = false, false
	switch {
	case s.Encrypt && s.MasterKeys == nil:
		return errors.New("ORCAS_ENCRYPTION: all needs a master key: " + keyFileVariable + " or " + keyVariable)
	case s.AccessKey == "" && s.SecretKey != "":
		return errors.New("ORCAS_ROOT_ACCESS_KEY: must be set where ORCAS_ROOT_SECRET_KEY is")
	case s.AccessKey != "" && s.SecretKey == "":
		return errors.New("ORCAS_ROOT_SECRET_KEY: must be set where ORCAS_ROOT_ACCESS_KEY is")
	case s.MaxPackedSize > s.MaxBatchBytes:
		return fmt.Errorf("ORCAS_MAX_BATCH_WRITE_FILE_SIZE: %d is more than a batch holds (ORCAS_MAX_WRITE_BUFFER_SIZE: %d)",
			s.MaxPackedSize, s.MaxBatchBytes)
	}
	return nil
}

func (s *Settings) warn(name, what string) { s.Warnings = append(s.Warnings, name+" "+what) }

func setWindow(s *Settings, v string) error {
	s.windowSet = true
	return parseSeconds(&s.Window, v, 1, 3600)
}

func setLifecycle(s *Settings, v string) error {
	s.lifecycleSet = true
	return parseSeconds(&s.Lifecycle, v, 0, 7*86_400)
}

func setDurability(s *Settings, v string) error {
	switch Durability(v) {
	case Strict, Relaxed:
		s.Durability = Durability(v)
		return nil
	}
	return fmt.Errorf("%q is neither strict nor relaxed", v)
}

func setCompression(s *Settings, v string) (err error) {
	if s.Compression, err = codec.ParseLevel(v); err == nil && s.Compression == codec.Default {
		err = fmt.Errorf("%q is none of off, fast and better", v)
	}
	return err
}

func setRegion(s *Settings, v string) error {
	if len(v) > 64 || strings.Trim(v, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || v[0] == '-' {
		return fmt.Errorf("%q is no region: up to 64 lower-case letters, digits and hyphens", v)
	}
	s.Region = v
	return nil
}

func setDomains(s *Settings, v string) error {
	for _, domain := range splitList(v) {
		domain = strings.ToLower(domain)
		if !isHostName(domain) {
			return fmt.Errorf("%q is no domain: give host names without scheme or port, with commas between them", domain)
		}
		s.Domains = append(s.Domains, domain)
	}
	return nil
}

func setBuckets(s *Settings, v string) error {
	for _, name := range splitList(v) {
		if !s3.ValidBucketName(name) {
			return fmt.Errorf("%q is no bucket name: 3 to 63 lower-case letters, digits, dots and hyphens", name)
		}
		s.Buckets = append(s.Buckets, name)
	}
	return nil
}

func setMinFree(s *Settings, v string) error {
	if share, ok := strings.CutSuffix(v, "%"); ok {
		percent, err := strconv.ParseFloat(share, 64)
		if err != nil || math.IsNaN(percent) || percent < 0 || percent > 90 {
			return fmt.Errorf("%q is no percentage from 0%% to 90%%", v)
		}
		s.MinFree = Reserve{Percent: percent, Bytes: minReserve}
		return nil
	}
	var bytes int64
	if err := parseInt(&bytes, v, 0, 1<<50); err != nil {
		return fmt.Errorf("%q is neither a number of bytes nor a percentage such as 1%%", v)
	}
	s.MinFree = Reserve{Bytes: bytes}
	return nil
}

func parseSeconds(to *time.Duration, v string, from, upTo int64) error {
	var seconds int
	if err := parseInt(&seconds, v, from, upTo); err != nil {
		return err
	}
	*to = time.Duration(seconds) * time.Second
	return nil
}

func parseDays(to *time.Duration, v string, most int64) error {
	var days int
	if err := parseInt(&days, v, 0, most); err != nil {
		return err
	}
	*to = time.Duration(days) * 24 * time.Hour
	return nil
}

func setAccessKey(s *Settings, v string) error {
	if len(v) < minAccessKey || len(v) > maxAccessKey || strings.ContainsFunc(v, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("/,=", r)
	}) {
		return fmt.Errorf("must be %d to %d visible ASCII characters without slash, comma and equals sign", minAccessKey, maxAccessKey)
	}
	s.AccessKey = v
	return nil
}

func setSecretKey(s *Settings, v string) error {
	if len(v) < minSecretKey || len(v) > maxSecretKey || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("must be %d to %d visible ASCII characters", minSecretKey, maxSecretKey)
	}
	s.SecretKey = v
	return nil
}

func parseBool(to *bool, v string) error {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", v)
	}
	*to = b
	return nil
}

func parseInt[T int | int64](to *T, v string, from, upTo int64) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < from || n > upTo {
		return fmt.Errorf("%q is no whole number from %d to %d", v, from, upTo)
	}
	*to = T(n)
	return nil
}

// splitList splits at commas and leaves out blanks.
func splitList(v string) []string {
	var list []string
	for _, item := range strings.Split(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func isHostName(s string) bool {
	if len(s) > 253 {
		return false
	}
	for _, label := range strings.Split(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}
