package server

import (
	"slices"
	"time"

	"orcas/s3/sigv2"
)

// Variable is an environment variable that a server reads. The documentation and the help of orcas server list all of
// them; tests compare docs/configuration.md and README.md with this table.
type Variable struct {
	Name    string
	Default string // the meaning of an unset variable
	Values  string // the values that it accepts
	Help    string
	set     func(s *Settings, value string) error
}

// Variables returns all environment variables, in the order in which they are shown to people.
func Variables() []Variable { return slices.Clone(variables) }

var variables = []Variable{
	{"ORCAS_ROOT_ACCESS_KEY", "generated", "3 to 128 visible ASCII characters, no /, comma or =",
		"The root access key; set both root keys or neither.", setAccessKey},
	{"ORCAS_ROOT_SECRET_KEY", "generated", "8 to 128 visible ASCII characters",
		"The root secret key.", setSecretKey},
	{"ORCAS_REGION", "us-east-1", "lowercase letters, digits, hyphens",
		"The region that clients sign requests for.", setRegion},
	{"ORCAS_DOMAINS", "none", "host names, separated by commas",
		"Base domains for virtual-host style: bucket.DOMAIN names a bucket.", setDomains},
	{"ORCAS_BUCKETS", "none", "bucket names, separated by commas",
		"Buckets to create at startup if they do not exist.", setBuckets},
	{bootstrapVariable, "none", "a YAML file",
		"Make the store have the buckets, users, keys and policies that this file declares, at every startup.", setBootstrap},
	{"ORCAS_DURABILITY", "strict", "strict, relaxed",
		"Acknowledge a write after the disk sync (strict), or as soon as the operating system has it (relaxed).", setDurability},
	{"ORCAS_WRITE_BUFFER_WINDOW_SEC", "10", "1 to 3600",
		"With relaxed durability: a power cut loses at most this many seconds of acknowledged writes, plus the time of two syncs.", setWindow},
	{"ORCAS_BATCH_WRITE_ENABLED", "true", "true, false",
		"Pack small objects into shared blocks.", func(s *Settings, v string) error { return parseBool(&s.BatchWrite, v) }},
	{"ORCAS_MAX_BATCH_WRITE_FILE_SIZE", "64KiB", "a size from 1 to 16MiB, at most ORCAS_MAX_WRITE_BUFFER_SIZE",
		"The largest object that is packed.", func(s *Settings, v string) error { return parseSize(&s.MaxPackedSize, v, 1, 16<<20) }},
	{"ORCAS_MAX_WRITE_BUFFER_SIZE", "8MiB", "a size from 64KiB to 1GiB",
		"Flush a batch when it has this many bytes.", func(s *Settings, v string) error { return parseSize(&s.MaxBatchBytes, v, 64<<10, 1<<30) }},
	{"ORCAS_MAX_WRITE_BUFFER_COUNT", "2048", "1 to 100000",
		"Flush a batch when it has this many objects.", func(s *Settings, v string) error { return parseInt(&s.MaxBatchCount, v, 1, 100_000) }},
	{"ORCAS_INSTANT_UPLOAD_ENABLED", "true", "true, false",
		"Store duplicate content within a bucket once.", func(s *Settings, v string) error { return parseBool(&s.InstantUpload, v) }},
	{"ORCAS_COMPRESSION", "off", "off, fast, better",
		"Compress new content in buckets that have no setting of their own.", setCompression},
	{keyFileVariable, "none", "a file of keys, mode 0600",
		"Read the master keys for encryption at rest from this file.", setKeyFile},
	{keyVariable, "none", "keys, the newest first",
		"The master keys, given directly instead of in a file.", setKey},
	{"ORCAS_ENCRYPTION", "off", "off, all",
		"Encrypt new content in every bucket; requires a master key.", setEncryption},
	{"ORCAS_SSEC_OVER_HTTP", "false", "true, false",
		"Accept customer keys (SSE-C) over plain HTTP, behind a proxy that terminates TLS.",
		func(s *Settings, v string) error { return parseBool(&s.SSECOverHTTP, v) }},
	{"ORCAS_ALLOW_ESCAPING_KEYS", "false", "true, false",
		"Accept writes to keys that climb above the root of their bucket, such as ../a.",
		func(s *Settings, v string) error { return parseBool(&s.EscapingKeys, v) }},
	{"ORCAS_CORS_ALLOWED_ORIGINS", "none", "origins, separated by commas",
		"Origins whose pages may use buckets that have no CORS configuration.", setCORSOrigins},
	{"ORCAS_SIGNATURE_V2", "presigned", "off, presigned, all",
		"Accept signatures of version 2: in presigned URLs (presigned), in the Authorization header and in HTML forms too (all), or nowhere (off).",
		func(s *Settings, v string) error {
			return parseWord(&s.SignatureV2, v, sigv2.Off, sigv2.Presigned, sigv2.All)
		}},
	{"ORCAS_PUBLIC_ACCESS_BLOCK", "on", "on, off",
		"Create buckets with a public access block, which prevents public bucket policies until it is removed.",
		setOff(func(s *Settings) *bool { return &s.OpenBuckets })},
	{"ORCAS_IAM_API", "on", "on, off",
		"Serve the API of IAM and STS on the S3 address, to manage users and policies with aws-cli and Terraform.",
		setOff(func(s *Settings) *bool { return &s.NoIAM })},
	{"ORCAS_MIN_FREE", "1%", "0% to 90%, or a size",
		"Refuse PUT with 507 when less space than this is free on the drive.", setMinFree},
	{"ORCAS_MIN_RESPONSE_RATE", "16KiB", "a size from 0 to 1GiB",
		"Disconnect a client that reads a response more slowly than this many bytes per second, averaged over five minutes; 0: never.",
		func(s *Settings, v string) error { return parseSize(&s.MinRate, v, 0, 1<<30) }},
	{"ORCAS_LIMIT_KEY_RATE", "off", "off, or 1 to 1000000",
		"Refuse the requests of an access key, or of all sessions of a role, beyond this many per second.",
		setRate(func(s *Settings) *int64 { return &s.Rates.KeyRate })},
	{"ORCAS_LIMIT_KEY_BANDWIDTH", "off", "off, or a size from 16KiB to 1TiB",
		"Slow down the bodies of an access key, or of all sessions of a role, to this many bytes per second.",
		setBandwidth(func(s *Settings) *int64 { return &s.Rates.KeyBandwidth })},
	{"ORCAS_LIMIT_ADDRESS_RATE", "off", "off, or 1 to 1000000",
		"Refuse the requests of a client address beyond this many per second.",
		setRate(func(s *Settings) *int64 { return &s.Rates.AddressRate })},
	{"ORCAS_LIMIT_ADDRESS_BANDWIDTH", "off", "off, or a size from 16KiB to 1TiB",
		"Slow down the bodies of a client address to this many bytes per second.",
		setBandwidth(func(s *Settings) *int64 { return &s.Rates.AddressBandwidth })},
	{"ORCAS_LIMIT_ADDRESS_CONNECTIONS", "off", "off, or 1 to 1000000",
		"Close new connections of a client address that already has this many.",
		setRate(func(s *Settings) *int { return &s.Rates.AddressConnections })},
	{proxiesVariable, "none", "addresses and networks, separated by commas",
		"Take the address of a client from a header if the request comes from one of these proxies.", setTrustedProxies},
	{proxyHeaderVariable, "x-forwarded-for", "x-forwarded-for, forwarded, x-real-ip",
		"Take the address of the client from this header of requests from trusted proxies.", setProxyHeader},
	{memoryVariable, "auto", "auto, off, or a size from 64MiB to 16TiB",
		"Size buffers and caches to stay below this memory limit; auto: the limit of the container or control group, if there is one.", setMemory},
	{"ORCAS_ALLOW_MISSING_BLOCKS", "false", "true, false",
		"Start, and accept writes, even if stored blocks are missing.", func(s *Settings, v string) error { return parseBool(&s.AllowMissing, v) }},
	{"ORCAS_RECLAIM_ENABLED", "true", "true, false",
		"Reclaim the space of deleted objects in the background.", func(s *Settings, v string) error { return parseBool(&s.Reclaim, v) }},
	{"ORCAS_SCRUB_DAYS", "7", "0 to 365",
		"Read and verify everything once in this many days; 0: only on request.",
		func(s *Settings, v string) error { return parseDuration(&s.ScrubPeriod, v, 24*time.Hour, 0, 365) }},
	{"ORCAS_LIFECYCLE_INTERVAL_SEC", "3600", "0 to 604800",
		"Evaluate lifecycle rules this often, in seconds; 0: only on request. The default is ORCAS_LIFECYCLE_DAY_SEC if that is shorter.",
		setLifecycle},
	{"ORCAS_LIFECYCLE_DAY_SEC", "86400", "1 to 86400",
		"The length of a day in lifecycle rules, in seconds; for tests.",
		func(s *Settings, v string) error { return parseDuration(&s.LifecycleDay, v, time.Second, 1, 86_400) }},
	{"ORCAS_ABANDONED_UPLOAD_DAYS", "0", "0 to 36500",
		"Abort multipart uploads after this many days; 0: never.",
		func(s *Settings, v string) error { return parseDuration(&s.UploadAge, v, 24*time.Hour, 0, 36500) }},
	{metricsTokenVariable, "none", "a file, mode 0600 or 0640",
		"Require the token in this file for /metrics on the admin address; without a token, only a loopback address serves metrics.",
		setMetricsTokenFile},
	{"ORCAS_CONSOLE", "on", "on, off",
		"Serve the console, a web page, under /console/ on the admin address.",
		setOff(func(s *Settings) *bool { return &s.NoConsole })},
	{"ORCAS_CONSOLE_URL", "none", "a URL that begins with http:// or https://",
		"The address of the console in browsers, without /console/; if unset, that of the admin listener.", setConsoleURL},
	{"ORCAS_PUBLIC_URL", "none", "a URL that begins with http:// or https://, without a path",
		"The address of S3 in links that the console makes; if unset, the endpoint.", setPublicURL},
	{"ORCAS_LOG", "requests; on a terminal: summary", "off, errors, summary, requests",
		"What to log: nothing (off); warnings and errors (errors); also a summary of the requests once a minute (summary); or, instead of the summary, every request (requests).",
		func(s *Settings, v string) error {
			return parseWord(&s.Log, v, LogOff, LogErrors, LogSummary, LogRequests)
		}},
	{"ORCAS_LOG_FORMAT", "json; on a terminal: text", "json, text",
		"The format of the log: JSON lines for programs, or text for people.",
		func(s *Settings, v string) error { return parseWord(&s.LogFormat, v, LogJSON, LogText) }},
	{"ORCAS_AUDIT_FILE", "none", "a file",
		"Record every request that changes data or settings, and every attempt, in this file.",
		func(s *Settings, v string) error { s.AuditFile = v; return nil }},
	{"ORCAS_AUDIT_FILE_SIZE", "100MiB", "a size from 1MiB to 1TiB",
		"Rotate the audit file when it reaches this size.",
		func(s *Settings, v string) error {
			return parseSize(&s.AuditFileSize, v, minAuditFileSize, maxAuditFileSize)
		}},
	{"ORCAS_AUDIT_KEEP", "10", "1 to 1000",
		"Keep this many rotated audit files.", func(s *Settings, v string) error { return parseInt(&s.AuditKeep, v, 1, 1000) }},
	{"ORCAS_AUDIT_WEBHOOK", "none", "a URL that begins with https://",
		"Also send the records of the audit log to this URL.", setAuditWebhook},
	{"ORCAS_AUDIT_WEBHOOK_TOKEN_FILE", "none", "a file, mode 0600 or 0640",
		"Send the token in this file with the records, as Authorization: Bearer.", setAuditToken},
}
