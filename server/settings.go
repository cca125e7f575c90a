package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"orcas/core"
	"orcas/core/codec"
	"orcas/gate"
	"orcas/internal/bytesize"
	"orcas/lifecycle"
	"orcas/s3"
	"orcas/s3/cors"
	"orcas/s3/sigv2"
)

// Durability determines when a write is acknowledged.
type Durability string

// The modes: Strict acknowledges a write after the sync, so acknowledged writes survive a power cut. Relaxed
// acknowledges it when the operating system has it; it is durable within Settings.Window plus the time of two syncs.
const (
	Strict  Durability = "strict"
	Relaxed Durability = "relaxed"
)

// Settings are the values of the environment variables. docs/configuration.md describes them in full.
type Settings struct {
	WriteSettings
	EncryptionSettings
	AccessSettings
	LimitSettings

	InstantUpload bool             // ORCAS_INSTANT_UPLOAD_ENABLED: share equal content
	Compression   core.Compression // ORCAS_COMPRESSION: level for buckets without a setting
	Region        string           // ORCAS_REGION
	Domains       []string         // ORCAS_DOMAINS: base domains for virtual-host style
	Buckets       []string         // ORCAS_BUCKETS: created at startup
	Bootstrap     *Bootstrap       // ORCAS_BOOTSTRAP: applied at startup; nil for none
	MinFree       Reserve          // ORCAS_MIN_FREE: the reserve below which PUT is refused
	Reclaim       bool             // ORCAS_RECLAIM_ENABLED: free garbage in the background
	ScrubPeriod   time.Duration    // ORCAS_SCRUB_DAYS: the period of a scrub pass; 0: only on request
	Lifecycle     time.Duration    // ORCAS_LIFECYCLE_INTERVAL_SEC: the period of a lifecycle pass; 0: only on request
	LifecycleDay  time.Duration    // ORCAS_LIFECYCLE_DAY_SEC: the length of a day in lifecycle rules
	UploadAge     time.Duration    // ORCAS_ABANDONED_UPLOAD_DAYS: age at which an upload is aborted; 0: never
	AllowMissing  bool             // ORCAS_ALLOW_MISSING_BLOCKS: accept writes even if many blocks are missing
	EscapingKeys  bool             // ORCAS_ALLOW_ESCAPING_KEYS: accept writes to keys such as "../a"
	CORSOrigins   []string         // ORCAS_CORS_ALLOWED_ORIGINS: origins for buckets without a CORS configuration
	Log           LogMode          // ORCAS_LOG; "": depends on the destination of the log
	LogFormat     LogFormat        // ORCAS_LOG_FORMAT; "": depends on the destination of the log
	AccessKey     string           // ORCAS_ROOT_ACCESS_KEY; if it and SecretKey are "", the first start generates both
	SecretKey     string           // ORCAS_ROOT_SECRET_KEY

	lifecycleSet bool

	// Warnings are about settings that are valid but may not have the expected effect.
	Warnings []string
}

// WriteSettings configure how writes are batched, and when they become durable.
type WriteSettings struct {
	BatchWrite    bool          // ORCAS_BATCH_WRITE_ENABLED: pack small objects
	MaxPackedSize int64         // ORCAS_MAX_BATCH_WRITE_FILE_SIZE: maximum size of a packed object, in bytes
	MaxBatchBytes int64         // ORCAS_MAX_WRITE_BUFFER_SIZE: a batch is written at this many bytes
	MaxBatchCount int           // ORCAS_MAX_WRITE_BUFFER_COUNT: ... or at this many objects
	Window        time.Duration // ORCAS_WRITE_BUFFER_WINDOW_SEC: see Relaxed
	Durability    Durability    // ORCAS_DURABILITY

	windowSet bool
}

// AccessSettings configure who has access, and the log of what they change.
type AccessSettings struct {
	AuditSettings
	ConsoleSettings

	OpenBuckets bool       // ORCAS_PUBLIC_ACCESS_BLOCK=off: new buckets have no public access block
	SignatureV2 sigv2.Mode // ORCAS_SIGNATURE_V2: where signatures of version 2 are accepted
	NoIAM       bool       // ORCAS_IAM_API=off: POST / is not the API of IAM and STS

	MetricsTokenFile string // ORCAS_METRICS_TOKEN_FILE: the file with the token of /metrics; "" for none
}

// LimitSettings configure what clients and the server may use.
type LimitSettings struct {
	MinRate int64  // ORCAS_MIN_RESPONSE_RATE: bytes per second that a client must read; 0: no minimum
	Memory  Memory // ORCAS_MEMORY: the memory that the server may use
	Rates   RateSettings
	Proxies ProxySettings
}

// EncryptionSettings configure the encryption of content.
type EncryptionSettings struct {
	MasterKeys   *codec.Keys // ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_KEY; nil without either
	Encrypt      bool        // ORCAS_ENCRYPTION: encrypt all content, in every bucket
	SSECOverHTTP bool        // ORCAS_SSEC_OVER_HTTP: accept customers' keys without TLS
	keysFrom     string      // name of the variable from which MasterKeys were read
}

// Reserve is the space that must stay free: the larger of a share of the drive and a number of bytes.
type Reserve struct {
	Percent float64 // of the drive, 0..100
	Bytes   int64
}

// minReserve is the minimum reserve in bytes if the setting is a share of the drive.
const minReserve = 256 << 20

const (
	minAccessKey, maxAccessKey = 3, 128
	minSecretKey, maxSecretKey = 8, 128
)

// ReadSettings reads the environment, in the format of os.Environ. An empty variable counts as unset. An error
// contains the name of the invalid variable, and never a secret.
func ReadSettings(environ []string) (Settings, error) {
	s := Settings{
		WriteSettings: WriteSettings{
			BatchWrite: true, MaxPackedSize: 64 << 10, MaxBatchBytes: 8 << 20, MaxBatchCount: 2048,
			Window: 10 * time.Second, Durability: Strict,
		},
		AccessSettings: AccessSettings{
			AuditSettings: AuditSettings{AuditFileSize: auditFileSize, AuditKeep: auditKeep}, SignatureV2: sigv2.Presigned,
		},
		LimitSettings: LimitSettings{MinRate: 16 << 10, Proxies: ProxySettings{Header: gate.XForwardedFor}},
		InstantUpload: true,
		Reclaim:       true,
		ScrubPeriod:   7 * 24 * time.Hour,
		Lifecycle:     time.Hour,
		LifecycleDay:  lifecycle.Day,
		Compression:   core.CompressionOff,
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
		value, ok := values[v.Name]
		if !ok {
			continue
		}
		delete(values, v.Name)
		if err := v.set(&s, value); err != nil {
			return Settings{}, fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	for name := range values {
		s.warn(name, "is not a setting of this version")
	}
	err := s.agree()
	slices.Sort(s.Warnings)
	return s, err
}

// agree checks the settings for conflicts.
func (s *Settings) agree() error {
	if s.windowSet && s.Durability == Strict {
		s.warn("ORCAS_WRITE_BUFFER_WINDOW_SEC", "has no effect with durability strict: every write is synced before it is acknowledged")
	}
	if s.LifecycleDay < lifecycle.Day {
		s.warn("ORCAS_LIFECYCLE_DAY_SEC", "shortens the days of lifecycle rules, so objects expire early")
	}
	if s.AuditFile == "" && s.AuditFileSize != auditFileSize {
		s.warn("ORCAS_AUDIT_FILE_SIZE", "has no effect without ORCAS_AUDIT_FILE")
	}
	if s.AuditFile == "" && s.AuditKeep != auditKeep {
		s.warn("ORCAS_AUDIT_KEEP", "has no effect without ORCAS_AUDIT_FILE")
	}
	if !s.lifecycleSet {
		s.Lifecycle = min(s.Lifecycle, s.LifecycleDay)
	}
	s.warnAboutProxies()
	s.windowSet, s.lifecycleSet = false, false
	switch {
	case s.Encrypt && s.MasterKeys == nil:
		return errors.New("ORCAS_ENCRYPTION: all requires a master key: set " + keyFileVariable + " or " + keyVariable)
	case s.AuditToken != "" && s.AuditWebhook == "":
		return errors.New("ORCAS_AUDIT_WEBHOOK must be set too if ORCAS_AUDIT_WEBHOOK_TOKEN_FILE is set")
	case s.AccessKey == "" && s.SecretKey != "":
		return errors.New("ORCAS_ROOT_ACCESS_KEY must be set too if ORCAS_ROOT_SECRET_KEY is set")
	case s.AccessKey != "" && s.SecretKey == "":
		return errors.New("ORCAS_ROOT_SECRET_KEY must be set too if ORCAS_ROOT_ACCESS_KEY is set")
	case s.MaxPackedSize > s.MaxBatchBytes:
		return fmt.Errorf("ORCAS_MAX_BATCH_WRITE_FILE_SIZE: %s is larger than a batch (ORCAS_MAX_WRITE_BUFFER_SIZE: %s)",
			bytesize.Format(s.MaxPackedSize), bytesize.Format(s.MaxBatchBytes))
	}
	return nil
}

func (s *Settings) warn(name, what string) { s.Warnings = append(s.Warnings, name+" "+what) }

func setWindow(s *Settings, v string) error {
	s.windowSet = true
	return parseDuration(&s.Window, v, time.Second, 1, 3600)
}

func setLifecycle(s *Settings, v string) error {
	s.lifecycleSet = true
	return parseDuration(&s.Lifecycle, v, time.Second, 0, 7*86_400)
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
	if s.Compression, err = core.ParseCompression(v); err == nil && s.Compression == core.CompressionDefault {
		err = fmt.Errorf("%q is not valid: expected off, fast or better", v)
	}
	return err
}

// setOff returns the function that sets a value to true if a variable is off, and to false if it is on.
func setOff(value func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		if v != "on" && v != "off" {
			return fmt.Errorf("%q is neither on nor off", v)
		}
		*value(s) = v == "off"
		return nil
	}
}

func setRegion(s *Settings, v string) error {
	if len(v) > 64 || strings.Trim(v, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || v[0] == '-' {
		return fmt.Errorf("%q is not a region: expected up to 64 lowercase letters, digits and hyphens", v)
	}
	s.Region = v
	return nil
}

func setDomains(s *Settings, v string) error {
	for _, domain := range splitList(v) {
		domain = strings.ToLower(domain)
		if !isHostName(domain) {
			return fmt.Errorf("%q is not a domain: expected host names without scheme or port, separated by commas", domain)
		}
		s.Domains = append(s.Domains, domain)
	}
	return nil
}

func setCORSOrigins(s *Settings, v string) error {
	for _, origin := range splitList(v) {
		scheme, host, ok := strings.Cut(origin, "://")
		if cors.CheckOrigin(origin) != nil || origin != "*" && (!ok || scheme == "" || host == "" || strings.Contains(host, "/")) {
			return fmt.Errorf("%q is not an origin: expected *, or a scheme and a host such as https://*.example.com, separated by commas", origin)
		}
		s.CORSOrigins = append(s.CORSOrigins, origin)
	}
	return nil
}

func setBuckets(s *Settings, v string) error {
	for _, name := range splitList(v) {
		if !s3.ValidBucketName(name) {
			return fmt.Errorf("%q is not a bucket name: expected 3 to 63 lowercase letters, digits, dots and hyphens", name)
		}
		s.Buckets = append(s.Buckets, name)
	}
	return nil
}

func setMinFree(s *Settings, v string) error {
	if share, ok := strings.CutSuffix(v, "%"); ok {
		percent, err := strconv.ParseFloat(share, 64)
		if err != nil || math.IsNaN(percent) || percent < 0 || percent > 90 {
			return fmt.Errorf("%q is not a percentage from 0%% to 90%%", v)
		}
		s.MinFree = Reserve{Percent: percent, Bytes: minReserve}
		return nil
	}
	var bytes int64
	if err := parseSize(&bytes, v, 0, 1<<50); err != nil {
		return fmt.Errorf("%w, or a percentage of the drive, such as 1%%", err)
	}
	s.MinFree = Reserve{Bytes: bytes}
	return nil
}

// parseDuration parses a whole number of units, such as seconds.
func parseDuration(to *time.Duration, v string, unit time.Duration, from, upTo int64) error {
	var n int64
	if err := parseInt(&n, v, from, upTo); err != nil {
		return err
	}
	*to = time.Duration(n) * unit
	return nil
}

func setAccessKey(s *Settings, v string) error {
	if len(v) < minAccessKey || len(v) > maxAccessKey || strings.ContainsFunc(v, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("/,=", r)
	}) {
		return fmt.Errorf("expected %d to %d visible ASCII characters without slash, comma and equals sign", minAccessKey, maxAccessKey)
	}
	s.AccessKey = v
	return nil
}

func setSecretKey(s *Settings, v string) error {
	if len(v) < minSecretKey || len(v) > maxSecretKey || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("expected %d to %d visible ASCII characters", minSecretKey, maxSecretKey)
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
		return fmt.Errorf("%q is not a whole number from %d to %d", v, from, upTo)
	}
	*to = T(n)
	return nil
}

// parseWord checks that a value is one of a list of words.
func parseWord[T ~string](to *T, v string, words ...T) error {
	if slices.Contains(words, T(v)) {
		*to = T(v)
		return nil
	}
	list := strings.Fields(strings.Trim(fmt.Sprint(words), "[]"))
	last := len(list) - 1
	return fmt.Errorf("%q is not valid: expected %s or %s", v, strings.Join(list[:last], ", "), list[last])
}

// parseSize parses a number of bytes, with an optional unit.
func parseSize(to *int64, v string, from, upTo int64) error {
	n, err := bytesize.ParseRange(v, from, upTo)
	if err == nil {
		*to = n
	}
	return err
}

// splitList splits a list at commas, trims the items, and omits empty ones.
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
