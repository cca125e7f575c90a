package profile

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"orcas/sdk"
)

// awsFiles are the two files of aws-cli.
type awsFiles struct {
	config, credentials         map[string]section
	configPath, credentialsPath string
}

// aws reads the files of aws-cli. Files that do not exist are empty.
func (p *Profiles) aws() (a awsFiles, err error) {
	home := p.env["HOME"]
	if runtime.GOOS == "windows" {
		home = p.env["USERPROFILE"]
	}
	path := func(variable, name string) string {
		path := p.env[variable]
		if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
			path = filepath.Join(home, rest)
		}
		if path == "" && home != "" {
			path = filepath.Join(home, ".aws", name)
		}
		return path
	}
	a.configPath = path("AWS_CONFIG_FILE", "config")
	a.credentialsPath = path("AWS_SHARED_CREDENTIALS_FILE", "credentials")
	if a.configPath != "" {
		if a.config, err = readINI(a.configPath); err != nil {
			return a, err
		}
	}
	if a.credentialsPath != "" {
		a.credentials, err = readINI(a.credentialsPath)
	}
	return a, err
}

// names returns the names of the profiles in the files, which can begin an address.
func (a *awsFiles) names() []string {
	names := map[string]bool{}
	for name := range a.config {
		if short, ok := strings.CutPrefix(name, "profile "); ok {
			names[short] = true
		} else if name == "default" {
			names[name] = true
		}
	}
	for name := range a.credentials {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// unsupported are settings of aws-cli that get credentials in ways that orcas does not have.
var unsupported = []string{"role_arn", "web_identity_token_file", "sso_session", "sso_start_url", "login_session"}

// fromAWS returns a profile of the files of AWS, or nil. With elsewhere, its credentials do not matter.
func (p *Profiles) fromAWS(a awsFiles, name string, elsewhere bool) (*Profile, error) {
	config, ok := a.config["profile "+name]
	if !ok && name == "default" {
		config, ok = a.config[name]
	}
	shared, inShared := a.credentials[name]
	if !ok && !inShared {
		return nil, nil
	}
	profile := &Profile{
		Name: name, Region: config["region"], CABundle: config["ca_bundle"],
		VirtualHost:           config["s3.addressing_style"] == "virtual",
		ChecksumsWhenRequired: strings.EqualFold(config["request_checksum_calculation"], "when_required"),
		Source:                fmt.Sprintf("profile %s in %s", name, a.credentialsPath),
	}
	profile.ignoreEndpoints = strings.EqualFold(config["ignore_configured_endpoint_urls"], "true")
	if !profile.ignoreEndpoints && !p.ignoresEndpoints() {
		services := config["services"]
		if services != "" && a.config["services "+services] == nil {
			return nil, fmt.Errorf("%s: profile %s: there is no section [services %s]", a.configPath, name, services)
		}
		profile.Endpoint = cmp.Or(a.config["services "+services]["s3.endpoint_url"], config["endpoint_url"],
			p.env["AWS_ENDPOINT_URL_S3"], p.env["AWS_ENDPOINT_URL"])
	}
	if profile.Endpoint != "" {
		if err := CheckEndpoint(profile.Endpoint); err != nil {
			return nil, fmt.Errorf("%s: profile %s: endpoint_url: %w", a.configPath, name, err)
		}
	}
	if elsewhere {
		return profile, nil
	}
	return profile, p.awsCredentials(a, profile, config, shared)
}

// awsCredentials sets the credentials of a profile: the keys in the credentials file, or those of a program, or the keys
// in the config file. A profile without any keeps none.
func (p *Profiles) awsCredentials(a awsFiles, profile *Profile, config, shared section) error {
	for _, key := range unsupported {
		if cmp.Or(shared[key], config[key]) != "" {
			return fmt.Errorf("%s: profile %s: %s is not supported: use aws-cli to get the credentials, with "+
				"credential_process = aws configure export-credentials --profile %[2]s --format process in another profile",
				a.configPath, profile.Name, key)
		}
	}
	for _, from := range []struct {
		values section
		path   string
	}{{shared, a.credentialsPath}, {config, a.configPath}} {
		source := fmt.Sprintf("profile %s in %s", profile.Name, from.path)
		command := cmp.Or(shared["credential_process"], config["credential_process"])
		if from.path == a.configPath && command != "" {
			profile.Source = source
			profile.Credentials = &process{command: command, source: source, environ: p.options.Environ, now: p.now}
			return nil
		}
		key, secret := from.values["aws_access_key_id"], from.values["aws_secret_access_key"]
		if (key == "") != (secret == "") {
			return fmt.Errorf("%s: aws_access_key_id and aws_secret_access_key must be set together", source)
		}
		if key != "" {
			profile.Source = source
			profile.Credentials = sdk.Keys{AccessKey: key, SecretKey: secret, SessionToken: from.values["aws_session_token"]}
			return nil
		}
	}
	return nil
}
