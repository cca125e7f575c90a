package server

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/gate"
	"orcas/s3/sigv2"
)

// audits are the settings of an audit log that is not used.
var audits = AuditSettings{AuditFileSize: 100 << 20, AuditKeep: 10}

func TestSettingsDefaults(t *testing.T) {
	s, err := ReadSettings([]string{"PATH=/bin", "ORCAS_REGION=", "EMPTY"})
	require.NoError(t, err)
	require.Equal(t, Settings{
		WriteSettings: WriteSettings{
			BatchWrite: true, MaxPackedSize: 65536, MaxBatchBytes: 8388608, MaxBatchCount: 2048, Window: 10 * time.Second, Durability: Strict,
		},
		InstantUpload: true, Region: "us-east-1", MinFree: Reserve{Percent: 1, Bytes: 256 << 20}, Reclaim: true, ScrubPeriod: 168 * time.Hour,
		Compression: core.CompressionOff,
		Lifecycle:   time.Hour, LifecycleDay: 24 * time.Hour,
		LimitSettings: LimitSettings{MinRate: 16384, Proxies: ProxySettings{Header: gate.XForwardedFor}}, AccessSettings: AccessSettings{AuditSettings: audits, SignatureV2: sigv2.Presigned},
	}, s)
}

func TestSettingsAll(t *testing.T) {
	s, err := ReadSettings([]string{
		"ORCAS_BATCH_WRITE_ENABLED=false", "ORCAS_MAX_BATCH_WRITE_FILE_SIZE=1000", "ORCAS_MAX_WRITE_BUFFER_SIZE=100000",
		"ORCAS_MAX_WRITE_BUFFER_COUNT=7", "ORCAS_DURABILITY=strict", "ORCAS_INSTANT_UPLOAD_ENABLED=false",
		"ORCAS_REGION=eu-central-1", "ORCAS_DOMAINS=s3.Example.org, localhost ", "ORCAS_BUCKETS=one,two.three",
		"ORCAS_MIN_FREE=2.5%", "ORCAS_ROOT_ACCESS_KEY=root", "ORCAS_ROOT_SECRET_KEY=long=enough,/",
		"ORCAS_RECLAIM_ENABLED=false", "ORCAS_ABANDONED_UPLOAD_DAYS=7", "ORCAS_SCRUB_DAYS=0", "ORCAS_COMPRESSION=better",
		"ORCAS_LIFECYCLE_INTERVAL_SEC=0", "ORCAS_LIFECYCLE_DAY_SEC=86400",
		"ORCAS_LIMIT_KEY_RATE=10", "ORCAS_LIMIT_KEY_BANDWIDTH=1MiB", "ORCAS_LIMIT_ADDRESS_RATE=20", "ORCAS_LIMIT_ADDRESS_BANDWIDTH=2MiB",
		"ORCAS_LIMIT_ADDRESS_CONNECTIONS=30", "ORCAS_TRUSTED_PROXIES=10.0.0.0/8, ::1", "ORCAS_PROXY_HEADER=X-Real-IP",
		"ORCAS_ALLOW_ESCAPING_KEYS=true", "ORCAS_MIN_RESPONSE_RATE=0",
		"ORCAS_SIGNATURE_V2=all", "ORCAS_PUBLIC_ACCESS_BLOCK=off", "ORCAS_IAM_API=off", "ORCAS_CORS_ALLOWED_ORIGINS=https://*.example.org, http://localhost:3000",
	})
	require.NoError(t, err)
	require.Equal(t, Settings{
		WriteSettings: WriteSettings{
			MaxPackedSize: 1000, MaxBatchBytes: 100000, MaxBatchCount: 7, Window: 10 * time.Second, Durability: Strict,
		},
		Region: "eu-central-1", Domains: []string{"s3.example.org", "localhost"}, Buckets: []string{"one", "two.three"},
		MinFree: Reserve{Percent: 2.5, Bytes: 256 << 20}, AccessKey: "root", SecretKey: "long=enough,/",
		UploadAge: 7 * 24 * time.Hour, Compression: core.CompressionBetter, LifecycleDay: 24 * time.Hour, EscapingKeys: true,
		LimitSettings: LimitSettings{
			Rates:   RateSettings{KeyRate: 10, KeyBandwidth: 1 << 20, AddressRate: 20, AddressBandwidth: 2 << 20, AddressConnections: 30},
			Proxies: ProxySettings{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}, Header: gate.XRealIP},
		},
		AccessSettings: AccessSettings{AuditSettings: audits, SignatureV2: sigv2.All, OpenBuckets: true, NoIAM: true}, CORSOrigins: []string{"https://*.example.org", "http://localhost:3000"},
	}, s)

	s, err = ReadSettings([]string{"ORCAS_MIN_FREE=4096"})
	require.NoError(t, err)
	require.Equal(t, Reserve{Bytes: 4096}, s.MinFree)
}

func TestSettingsSizes(t *testing.T) {
	s, err := ReadSettings([]string{
		"ORCAS_MAX_BATCH_WRITE_FILE_SIZE=64KB", "ORCAS_MAX_WRITE_BUFFER_SIZE=1.5MiB", "ORCAS_MIN_FREE=10 GiB",
		"ORCAS_MIN_RESPONSE_RATE=0.5KiB",
	})
	require.NoError(t, err)
	require.Equal(t, int64(64_000), s.MaxPackedSize)
	require.Equal(t, int64(3<<19), s.MaxBatchBytes)
	require.Equal(t, Reserve{Bytes: 10 << 30}, s.MinFree)
	require.Equal(t, int64(512), s.MinRate)

	_, err = ReadSettings([]string{"ORCAS_MAX_BATCH_WRITE_FILE_SIZE=1GiB"})
	require.EqualError(t, err, "ORCAS_MAX_BATCH_WRITE_FILE_SIZE: 1GiB is out of range: expected 1 to 16MiB")
}

func TestSettingsRelaxed(t *testing.T) {
	s, err := ReadSettings([]string{"ORCAS_DURABILITY=relaxed", "ORCAS_WRITE_BUFFER_WINDOW_SEC=3"})
	require.NoError(t, err)
	require.Equal(t, Relaxed, s.Durability)
	require.Equal(t, 3*time.Second, s.Window)
	require.Empty(t, s.Warnings)
}

// TestSettingsLifecycle: if the lifecycle day is short, it is also the default interval of passes.
func TestSettingsLifecycle(t *testing.T) {
	s, err := ReadSettings([]string{"ORCAS_LIFECYCLE_DAY_SEC=5"})
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, s.LifecycleDay)
	require.Equal(t, 5*time.Second, s.Lifecycle)
	s, err = ReadSettings([]string{"ORCAS_LIFECYCLE_DAY_SEC=5", "ORCAS_LIFECYCLE_INTERVAL_SEC=600"})
	require.NoError(t, err)
	require.Equal(t, 10*time.Minute, s.Lifecycle)
}

func TestSettingsWarn(t *testing.T) {
	for _, entry := range []string{
		"ORCAS_WRITE_BUFFER_WINDOW_SEC=5", "ORCAS_LIFECYCLE_DAY_SEC=60", "ORCAS_MIN_FREEE=1%",
		"ORCAS_AUDIT_FILE_SIZE=2MiB", "ORCAS_AUDIT_KEEP=3",
	} {
		s, err := ReadSettings([]string{entry})
		require.NoError(t, err)
		require.Len(t, s.Warnings, 1, entry)
		name, _, _ := strings.Cut(entry, "=")
		require.Contains(t, s.Warnings[0], name)
	}
}

func TestSettingsRefused(t *testing.T) {
	for _, entry := range []string{
		"ORCAS_BATCH_WRITE_ENABLED=maybe",
		"ORCAS_MAX_BATCH_WRITE_FILE_SIZE=0", "ORCAS_MAX_BATCH_WRITE_FILE_SIZE=64k", "ORCAS_MAX_BATCH_WRITE_FILE_SIZE=9000000",
		"ORCAS_MAX_WRITE_BUFFER_SIZE=-1", "ORCAS_MAX_WRITE_BUFFER_SIZE=1",
		"ORCAS_MAX_WRITE_BUFFER_COUNT=0", "ORCAS_MAX_WRITE_BUFFER_COUNT=99999999999999999999",
		"ORCAS_WRITE_BUFFER_WINDOW_SEC=0", "ORCAS_WRITE_BUFFER_WINDOW_SEC=1.5",
		"ORCAS_DURABILITY=lax", "ORCAS_DURABILITY=none",
		"ORCAS_INSTANT_UPLOAD_ENABLED=on",
		"ORCAS_RECLAIM_ENABLED=auto", "ORCAS_ABANDONED_UPLOAD_DAYS=-1", "ORCAS_ABANDONED_UPLOAD_DAYS=1d", "ORCAS_SCRUB_DAYS=400",
		"ORCAS_COMPRESSION=best", "ORCAS_COMPRESSION=default",
		"ORCAS_REGION=EU", "ORCAS_REGION=-x",
		"ORCAS_DOMAINS=http://s3.example.org", "ORCAS_DOMAINS=s3.example.org:9000", "ORCAS_DOMAINS=a..b",
		"ORCAS_BUCKETS=ok-one,X", "ORCAS_BUCKETS=no",
		"ORCAS_SIGNATURE_V2=header", "ORCAS_SIGNATURE_V2=true",
		"ORCAS_CORS_ALLOWED_ORIGINS=example.org", "ORCAS_CORS_ALLOWED_ORIGINS=https://*.*", "ORCAS_CORS_ALLOWED_ORIGINS=https://example.org/",
		"ORCAS_MIN_FREE=1M", "ORCAS_MAX_WRITE_BUFFER_SIZE=0.1KiB", "ORCAS_MAX_WRITE_BUFFER_SIZE=2GiB", "ORCAS_MIN_FREE=-1%", "ORCAS_MIN_FREE=95%", "ORCAS_MIN_FREE=NaN%", "ORCAS_MIN_FREE=-1",
		"ORCAS_MIN_RESPONSE_RATE=-1", "ORCAS_MIN_RESPONSE_RATE=16k", "ORCAS_MIN_RESPONSE_RATE=2GiB",
		"ORCAS_ROOT_ACCESS_KEY=ab", "ORCAS_ROOT_ACCESS_KEY=has/slash", "ORCAS_ROOT_ACCESS_KEY=alone",
		"ORCAS_ROOT_SECRET_KEY=short", "ORCAS_ROOT_SECRET_KEY=alone-but-long",
	} {
		_, err := ReadSettings([]string{entry})
		require.Error(t, err, entry)
		name, value, _ := strings.Cut(entry, "=")
		require.Contains(t, err.Error(), name)
		if name == "ORCAS_ROOT_SECRET_KEY" {
			require.NotContains(t, err.Error(), value)
		}
	}
}

func TestSettingsNameTheWords(t *testing.T) {
	_, err := ReadSettings([]string{"ORCAS_LOG=loud"})
	require.EqualError(t, err, `ORCAS_LOG: "loud" is not valid: expected off, errors, summary or requests`)
	_, err = ReadSettings([]string{"ORCAS_LOG_FORMAT=xml"})
	require.EqualError(t, err, `ORCAS_LOG_FORMAT: "xml" is not valid: expected json or text`)
}
