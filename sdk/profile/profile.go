// Package profile finds the server and the credentials for an address such as s3://BUCKET/KEY or NAME://BUCKET/KEY. It
// reads the profiles of ORCAS (`orcas alias set`), and what aws-cli reads: its environment variables and the files
// ~/.aws/config and ~/.aws/credentials.
//
//	profiles, err := profile.Load(profile.Options{Environ: os.Environ()})
//	home, err := profiles.Get("home")
//	config, err := home.Config()
//	client, err := sdk.New(config)
//
// A named profile has its own settings only; if it is not in the file of ORCAS, it is looked for in the files of AWS.
// The default profile is the one that AWS_PROFILE names, or the one with the name "default". Environment variables
// override its settings, as with aws-cli.
package profile

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"orcas/sdk"
)

// Options are where Load looks, and what overrides the default profile.
type Options struct {
	Environ []string // NAME=VALUE; an empty value counts as unset

	// These override settings of the default profile; named profiles do not change.
	Endpoint, Region, CABundle string
	Anonymous                  bool
	Data                       string // the data directory of a local server, whose root credentials are used
}

// localEndpoint is the default address of orcas server.
const localEndpoint = "http://127.0.0.1:9000"

// rootCredentials and selfSigned are files in the data directory of a server.
const (
	rootCredentials = "root-credentials.json"
	selfSigned      = "self-signed.crt"
)

// Profiles are the profiles that a user has.
type Profiles struct {
	options Options
	env     map[string]string
	own     *File
	now     func() time.Time
}

// Profile says where a server is and how to use it.
type Profile struct {
	Name        string          // "" if the default profile is not in a file
	Source      string          // where the credentials come from, for messages; never a secret
	Endpoint    string          // "" is AWS
	Region      string          // "" is us-east-1
	Credentials sdk.Credentials // nil if requests are not signed
	CABundle    string          // a file of certificates to trust instead of the system's; "" if there is none
	VirtualHost bool            // buckets are part of the host name
	// ChecksumsWhenRequired is for servers that do not know the checksums of 2024.
	ChecksumsWhenRequired bool
	RefLevel              string // OFF, FULL, FAST; "" if nothing sets it

	anonymous       bool // no credentials are needed
	ignoreEndpoints bool // variables with endpoints do not count
}

// Load reads the profiles of ORCAS. The files of AWS are read when a profile is not among them.
func Load(o Options) (*Profiles, error) {
	p := &Profiles{options: o, env: map[string]string{}, now: time.Now}
	for _, entry := range o.Environ {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			p.env[name] = value
		}
	}
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	if p.own, err = Open(path); err != nil {
		return nil, err
	}
	if level := p.env["ORCAS_REF_LEVEL"]; level != "" && !slices.Contains(refLevels, level) {
		return nil, fmt.Errorf("ORCAS_REF_LEVEL: expected %s, not %q", strings.Join(refLevels, " or "), level)
	}
	return p, nil
}

// File returns the profiles of ORCAS, to be changed and saved.
func (p *Profiles) File() *File { return p.own }

// path returns the path of the file of profiles: ORCAS_CONFIG, or orcas/config in the directory for settings. Its path
// is "" if the user has no home directory.
func (p *Profiles) path() (string, error) {
	if path := p.env["ORCAS_CONFIG"]; path != "" {
		return path, nil
	}
	dir := ""
	switch runtime.GOOS {
	case "windows":
		dir = p.env["APPDATA"]
	case "darwin", "ios":
		if home := p.env["HOME"]; home != "" {
			dir = filepath.Join(home, "Library", "Application Support")
		}
	default:
		if dir = p.env["XDG_CONFIG_HOME"]; dir != "" && !filepath.IsAbs(dir) {
			return "", fmt.Errorf("XDG_CONFIG_HOME: expected an absolute path, not %q", dir)
		}
		if home := p.env["HOME"]; dir == "" && home != "" {
			dir = filepath.Join(home, ".config")
		}
	}
	if dir == "" {
		return "", nil
	}
	return filepath.Join(dir, "orcas", "config"), nil
}

// Names returns the names of all profiles, sorted. Files of AWS that cannot be read are left out.
func (p *Profiles) Names() []string {
	names := maps.Clone(p.own.Profiles)
	if a, err := p.aws(); err == nil {
		for _, name := range a.names() {
			names[name] = Settings{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// UnknownError is the error of Get for a name that no profile has.
type UnknownError struct {
	Name  string
	Known []string
	From  string // the variable that names the profile, "" if it was an address
}

// Error names the profiles that exist.
func (e *UnknownError) Error() string {
	known := "there are no profiles"
	if len(e.Known) > 0 {
		known = "the profiles are " + strings.Join(e.Known, ", ")
	}
	from := ""
	if e.From != "" {
		from = e.From + ": "
	}
	return fmt.Sprintf("%sthere is no profile %s (%s): add it with orcas alias set %s URL", from, e.Name, known, e.Name)
}

// Get returns the profile with a name, or the default profile if name is "". It returns an *UnknownError if there is no
// such profile, and an error that names the file and the setting if that is wrong or not supported. A default profile
// without credentials is an error, because nothing says that requests should not be signed.
func (p *Profiles) Get(name string) (*Profile, error) {
	if name == "" {
		return p.standard()
	}
	profile, err := p.named(name)
	if err != nil {
		return nil, err
	}
	if profile == nil {
		return nil, &UnknownError{Name: name, Known: p.Names()}
	}
	if profile.Credentials == nil && !profile.anonymous {
		return nil, fmt.Errorf("%s has no keys: run orcas alias set %s URL, with --anonymous if it needs none", profile.Source, name)
	}
	return p.finish(profile), nil
}

// named returns the profile with a name, or nil.
func (p *Profiles) named(name string) (*Profile, error) {
	s, ok := p.own.Profiles[name]
	if !ok {
		a, err := p.aws()
		if err != nil {
			return nil, err
		}
		return p.fromAWS(a, name, false)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%s: profile %s: %w", p.own.Path, name, err)
	}
	profile := &Profile{
		Name: name, Endpoint: s.Endpoint, Region: s.Region, CABundle: s.CABundle, RefLevel: s.RefLevel,
		Source:      fmt.Sprintf("profile %s in %s", name, p.own.Path),
		VirtualHost: s.AddressingStyle == "virtual", ChecksumsWhenRequired: s.Checksums == "when_required", anonymous: s.Anonymous,
	}
	switch {
	case s.AccessKey != "":
		profile.Credentials = sdk.Keys{AccessKey: s.AccessKey, SecretKey: s.SecretKey, SessionToken: s.SessionToken}
	case s.CredentialProcess != "":
		profile.Credentials = &process{command: s.CredentialProcess, source: profile.Source, environ: p.options.Environ, now: p.now}
	}
	return profile, nil
}

// finish adds what applies to all profiles.
func (p *Profiles) finish(profile *Profile) *Profile {
	profile.CABundle = cmp.Or(profile.CABundle, p.env["AWS_CA_BUNDLE"])
	profile.RefLevel = cmp.Or(profile.RefLevel, p.own.RefLevel, p.env["ORCAS_REF_LEVEL"])
	return profile
}

// standard returns the default profile: its settings, below environment variables, below the options.
func (p *Profiles) standard() (*Profile, error) {
	variable := "AWS_PROFILE"
	name := p.env[variable]
	if name == "" {
		variable = "AWS_DEFAULT_PROFILE"
		name = p.env[variable]
	}
	profile, err := p.base(cmp.Or(name, "default"))
	if err != nil {
		return nil, err
	}
	if profile == nil && name != "" {
		return nil, &UnknownError{Name: name, Known: p.Names(), From: variable}
	}
	if profile == nil {
		profile = &Profile{}
	}
	if !profile.ignoreEndpoints && !p.ignoresEndpoints() {
		profile.Endpoint = cmp.Or(p.env["AWS_ENDPOINT_URL_S3"], p.env["AWS_ENDPOINT_URL"], profile.Endpoint)
	}
	profile.Region = cmp.Or(p.options.Region, p.env["AWS_REGION"], p.env["AWS_DEFAULT_REGION"], profile.Region)
	if p.env["AWS_REQUEST_CHECKSUM_CALCULATION"] != "" {
		profile.ChecksumsWhenRequired = strings.EqualFold(p.env["AWS_REQUEST_CHECKSUM_CALCULATION"], "when_required")
	}
	profile.CABundle = cmp.Or(p.options.CABundle, p.env["AWS_CA_BUNDLE"], profile.CABundle)
	profile.Endpoint = cmp.Or(p.options.Endpoint, profile.Endpoint)
	if err := p.credentials(profile); err != nil {
		return nil, err
	}
	if profile.Endpoint != "" {
		if err := CheckEndpoint(profile.Endpoint); err != nil {
			return nil, fmt.Errorf("the endpoint of s3:// addresses: %w", err)
		}
	}
	return p.finish(profile), nil
}

// ignoresEndpoints reports whether endpoints in the environment and in the files of AWS do not count.
func (p *Profiles) ignoresEndpoints() bool {
	return strings.EqualFold(p.env["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"], "true")
}

// base returns the profile that the default profile begins with. A file of AWS that has an error, or a profile there
// that needs credentials which orcas cannot get, does not matter if the credentials come from elsewhere.
func (p *Profiles) base(name string) (*Profile, error) {
	if _, ok := p.own.Profiles[name]; ok {
		return p.named(name)
	}
	a, err := p.aws()
	if err != nil {
		return nil, err
	}
	elsewhere := p.options.Data != "" || p.options.Anonymous || p.env["AWS_ACCESS_KEY_ID"] != ""
	return p.fromAWS(a, name, elsewhere)
}

// credentials sets the credentials of the default profile: from the data directory, the environment, the profile, or
// the root credentials in the environment of a local server, in this order.
func (p *Profiles) credentials(profile *Profile) error {
	key, secret := p.env["AWS_ACCESS_KEY_ID"], p.env["AWS_SECRET_ACCESS_KEY"]
	root, rootSecret := p.env["ORCAS_ROOT_ACCESS_KEY"], p.env["ORCAS_ROOT_SECRET_KEY"]
	switch {
	case p.options.Anonymous:
		profile.Credentials, profile.Source = nil, "no credentials, because requests are anonymous"
	case p.options.Data != "":
		return p.local(profile)
	case (key == "") != (secret == ""):
		return errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set together")
	case key != "":
		profile.Credentials = sdk.Keys{AccessKey: key, SecretKey: secret, SessionToken: p.env["AWS_SESSION_TOKEN"]}
		profile.Source = "AWS_ACCESS_KEY_ID"
	case profile.Credentials != nil || profile.anonymous:
	case root != "" && rootSecret != "":
		profile.Credentials, profile.Source = sdk.Keys{AccessKey: root, SecretKey: rootSecret}, "ORCAS_ROOT_ACCESS_KEY"
		profile.Endpoint = cmp.Or(profile.Endpoint, localEndpoint)
	default:
		return ErrNoCredentials
	}
	return nil
}

// ErrNoCredentials is the error of Get if nothing has credentials for the default profile.
var ErrNoCredentials = errors.New("no credentials for s3:// addresses: run orcas alias set default URL, or set AWS_ACCESS_KEY_ID and " +
	"AWS_SECRET_ACCESS_KEY, or use --data DIR with a local server, or --anonymous for public buckets")

// local makes the default profile use the root credentials in the data directory of a local server.
func (p *Profiles) local(profile *Profile) error {
	file := filepath.Join(p.options.Data, rootCredentials)
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--data: cannot read the root credentials: %w", err)
	}
	var c struct{ AccessKey, SecretKey string }
	if json.Unmarshal(text, &c) != nil || c.AccessKey == "" || c.SecretKey == "" { // the JSON error may quote the file
		return fmt.Errorf("--data: %s does not contain an access key and a secret key", file)
	}
	profile.Credentials, profile.Source = sdk.Keys{AccessKey: c.AccessKey, SecretKey: c.SecretKey}, file
	profile.Endpoint = cmp.Or(profile.Endpoint, localEndpoint)
	if own := filepath.Join(p.options.Data, selfSigned); profile.CABundle == "" {
		if _, err := os.Stat(own); err == nil {
			profile.CABundle = own
		}
	}
	return nil
}

// Config returns the configuration of a client. The error is about the file of certificates.
func (p *Profile) Config() (sdk.Config, error) {
	config := sdk.Config{
		Endpoint: strings.TrimSuffix(p.Endpoint, "/"), Region: p.Region, Credentials: p.Credentials,
		VirtualHost: p.VirtualHost, ChecksumsWhenRequired: p.ChecksumsWhenRequired,
	}
	if p.CABundle != "" {
		text, err := os.ReadFile(p.CABundle)
		if err != nil {
			return config, fmt.Errorf("the certificates to trust: %w", err)
		}
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !config.TLS.RootCAs.AppendCertsFromPEM(text) {
			return config, fmt.Errorf("the certificates to trust: %s does not contain a certificate in PEM form", p.CABundle)
		}
	}
	return config, nil
}
