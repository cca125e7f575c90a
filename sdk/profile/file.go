package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// File is the file of profiles of ORCAS: a JSON document that only its owner can read, because it has secret keys.
type File struct {
	Path     string              `json:"-"`
	RefLevel string              `json:"ref_level,omitempty"` // for profiles without one: OFF, FULL or FAST
	Profiles map[string]Settings `json:"profiles"`
}

// Settings is a profile in a File. Everything but the endpoint is optional.
type Settings struct {
	Endpoint          string `json:"endpoint,omitempty"`           // http(s)://HOST[:PORT]; "" is AWS
	Region            string `json:"region,omitempty"`             // "" is us-east-1
	AccessKey         string `json:"access_key,omitempty"`         //
	SecretKey         string `json:"secret_key,omitempty"`         //
	SessionToken      string `json:"session_token,omitempty"`      // of temporary credentials
	CredentialProcess string `json:"credential_process,omitempty"` // a program that prints credentials, as for aws-cli
	Anonymous         bool   `json:"anonymous,omitempty"`          // requests are not signed
	CABundle          string `json:"ca_bundle,omitempty"`          // a file of certificates to trust (PEM)
	AddressingStyle   string `json:"addressing_style,omitempty"`   // path or virtual
	Checksums         string `json:"checksums,omitempty"`          // when_supported or when_required
	RefLevel          string `json:"ref_level,omitempty"`          // OFF, FULL or FAST
}

// validName is a name that can begin an address. A name of one letter would be a drive on Windows.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+-]+$`)

// reserved are names that mean something else at the beginning of an address.
var reserved = map[string]string{
	"s3":    "s3:// addresses use the profile default: set that",
	"http":  "http:// begins a URL",
	"https": "https:// begins a URL",
	"file":  "file:// begins a URL",
}

// CheckName returns an error if a profile cannot have a name.
func CheckName(name string) error {
	if why := reserved[strings.ToLower(name)]; why != "" {
		return fmt.Errorf("a profile cannot be named %s: %s", name, why)
	}
	if !validName.MatchString(name) {
		return fmt.Errorf("a profile cannot be named %q: expected two or more letters, digits and any of _.+- (it is used as NAME://BUCKET/KEY)", name)
	}
	return nil
}

// CheckEndpoint returns an error if text is not the URL of an S3 server: http(s)://HOST[:PORT]. The error does not
// contain a password that the URL may have.
func CheckEndpoint(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		if strings.Contains(text, "@") {
			text = "a URL with a user name"
		}
		return fmt.Errorf("expected the URL of an S3 server, http://HOST:PORT or https://HOST:PORT, not %q", text)
	case u.User != nil:
		return errors.New("the URL of an S3 server must not contain a user name and a password: keys are stored apart from it")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("expected the URL of an S3 server without a path, such as %s://%s, not %q: buckets and keys are part of addresses", u.Scheme, u.Host, text)
	}
	return nil
}

// Check returns an error that names the first setting that is wrong, without its value if that is a secret.
func (s *Settings) Check() error {
	for _, one := range []struct {
		key, value string
		allowed    []string
	}{
		{"addressing_style", s.AddressingStyle, []string{"path", "virtual"}},
		{"checksums", s.Checksums, []string{"when_supported", "when_required"}},
		{"ref_level", s.RefLevel, refLevels},
	} {
		if one.value != "" && !slices.Contains(one.allowed, one.value) {
			return fmt.Errorf("%s: expected %s, not %q", one.key, strings.Join(one.allowed, " or "), one.value)
		}
	}
	if s.Endpoint != "" {
		if err := CheckEndpoint(s.Endpoint); err != nil {
			return fmt.Errorf("endpoint: %w", err)
		}
	}
	switch {
	case (s.AccessKey == "") != (s.SecretKey == ""):
		return errors.New("access_key and secret_key must be set together")
	case s.AccessKey != "" && s.CredentialProcess != "":
		return errors.New("credential_process cannot be combined with access_key")
	case s.Anonymous && (s.AccessKey != "" || s.CredentialProcess != ""):
		return errors.New("anonymous cannot be combined with keys")
	case s.SessionToken != "" && s.AccessKey == "":
		return errors.New("session_token needs access_key and secret_key")
	}
	return nil
}

// refLevels are the values of ref_level and ORCAS_REF_LEVEL.
var refLevels = []string{"OFF", "FULL", "FAST"}

// Open reads the profiles in a file. If it does not exist, there are none. The error is about the file if others than
// its owner can read it, or if it is not a valid document.
func Open(path string) (*File, error) {
	f := &File{Path: path, Profiles: map[string]Settings{}}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	} else if err != nil {
		return nil, err
	}
	if err := checkPrivate(path, info); err != nil {
		return nil, err
	}
	text, err := readLimited(path)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return f, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(f); err != nil {
		return nil, describeJSON(path, text, err)
	}
	if decoder.More() {
		return nil, fmt.Errorf("%s, line %d: expected nothing after the JSON document", path, lineAt(text, decoder.InputOffset()))
	}
	if f.RefLevel != "" && !slices.Contains(refLevels, f.RefLevel) {
		return nil, fmt.Errorf("%s: ref_level: expected %s, not %q", path, strings.Join(refLevels, " or "), f.RefLevel)
	}
	if f.Profiles == nil {
		f.Profiles = map[string]Settings{}
	}
	return f, nil
}

// describeJSON returns an error that names the line, and does not quote the document.
func describeJSON(path string, text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s, line %d: not valid JSON: %w", path, lineAt(text, syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s, line %d: %s: expected a %s, not a %s", path, lineAt(text, kind.Offset), kind.Field, kind.Type, kind.Value)
	}
	if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return fmt.Errorf("%s, line %d: there is no setting %s", path, lineAt(text, int64(bytes.Index(text, []byte(name)))), name)
	}
	return fmt.Errorf("%s: not valid JSON: the document is incomplete", path)
}

// lineAt returns the number of the line at an offset.
func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:max(0, min(offset, int64(len(text))))], []byte("\n"))
}

// Save writes the file with mode 0600, and the directory if it does not exist. A reader, or a crash, finds either the
// old or the new profiles.
func (f *File) Save() (err error) {
	path := f.Path
	if path == "" {
		return errors.New("there is no directory for settings, because HOME is not set: set ORCAS_CONFIG to the path of a file")
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".config-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(append(text, '\n'))
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
