package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"orcas/sdk/profile"
)

// aliasCommand manages profiles.
type aliasCommand struct {
	Set    aliasSetCommand    `cmd:"" help:"Add or replace a profile. The secret key is read from the terminal or the standard input, never from the command line."`
	List   aliasListCommand   `cmd:"" help:"List the profiles, without their secrets."`
	Remove aliasRemoveCommand `cmd:"" help:"Remove a profile."`
}

// aliasSetCommand adds a profile.
type aliasSetCommand struct {
	Name          string `arg:"" complete:"none" help:"Use this name: NAME://BUCKET/KEY. The profile named default is that of s3:// addresses."`
	URL           string `arg:"" name:"url" complete:"none" help:"Use this server: http(s)://HOST[:PORT]."`
	AccessKey     string `placeholder:"KEY" help:"Use this access key. On a terminal, orcas asks for what is not given; otherwise, the secret key is the first line of the standard input."`
	FromEnv       bool   `help:"Store the keys in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN."`
	Anonymous     bool   `help:"Do not sign requests."`
	Process       string `name:"credential-process" placeholder:"COMMAND" help:"Run this command to get the keys, as aws-cli does, instead of storing them."`
	Region        string `placeholder:"REGION" help:"Use this region (default us-east-1)."`
	CA            string `name:"ca" placeholder:"FILE" help:"Trust the certificates in this file (PEM)."`
	VirtualHosted bool   `help:"Put buckets into the host name: BUCKET.HOST."`
	WhenRequired  bool   `name:"checksums-when-required" help:"Send checksums only where S3 requires them, for servers that do not know the newer ones."`
	RefLevel      string `enum:"OFF,FULL,FAST," default:"" placeholder:"LEVEL" help:"Use instant upload like this: OFF, FULL or FAST."`
}

// aliasJSON is a profile as JSON, without its secrets.
type aliasJSON struct {
	Name      string `json:"name"`
	Endpoint  string `json:"endpoint,omitempty"`
	Region    string `json:"region,omitempty"`
	AccessKey string `json:"access_key,omitempty"`
	Anonymous bool   `json:"anonymous,omitempty"`
	Source    string `json:"source"` // the file
}

// Run adds the profile.
func (c *aliasSetCommand) Run(_ context.Context, console *Console) error {
	if err := profile.CheckName(c.Name); err != nil {
		return usagef("%s", err)
	}
	if err := profile.CheckEndpoint(c.URL); err != nil {
		return usagef("%s", err)
	}
	profiles, err := profile.Load(profile.Options{Environ: console.Environ})
	if err != nil {
		return configuration(err)
	}
	s := profile.Settings{
		Endpoint: strings.TrimSuffix(c.URL, "/"), Region: c.Region, AccessKey: c.AccessKey, Anonymous: c.Anonymous, CABundle: c.CA,
		CredentialProcess: c.Process, RefLevel: c.RefLevel,
	}
	if c.VirtualHosted {
		s.AddressingStyle = "virtual"
	}
	if c.WhenRequired {
		s.Checksums = "when_required"
	}
	if err := c.keys(console, &s); err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return usagef("%s", err)
	}
	file := profiles.File()
	verb := "added"
	if _, ok := file.Profiles[c.Name]; ok {
		verb = "replaced"
	}
	file.Profiles[c.Name] = s
	if err := file.Save(); err != nil {
		return &statusError{StatusDisk, fmt.Sprintf("cannot save the profile: %v", err), err}
	}
	root := c.Name
	if root == "default" {
		root = "s3"
	}
	_, err = fmt.Fprintf(console.Stdout, "%s %s in %s; try: orcas ls %s://\n", verb, c.Name, file.Path, root)
	return err
}

// keys gets the keys from the environment, the terminal or the standard input.
func (c *aliasSetCommand) keys(console *Console, s *profile.Settings) (err error) {
	switch {
	case c.Anonymous || c.Process != "":
		if c.FromEnv || c.AccessKey != "" {
			return usagef("--anonymous and --credential-process cannot be combined with keys")
		}
		return nil
	case c.FromEnv:
		if c.AccessKey != "" {
			return usagef("--from-env cannot be combined with --access-key")
		}
		for _, entry := range console.Environ {
			switch name, value, _ := strings.Cut(entry, "="); name {
			case "AWS_ACCESS_KEY_ID":
				s.AccessKey = value
			case "AWS_SECRET_ACCESS_KEY":
				s.SecretKey = value
			case "AWS_SESSION_TOKEN":
				s.SessionToken = value
			}
		}
		if s.AccessKey == "" || s.SecretKey == "" {
			return usagef("--from-env: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
		}
		return nil
	}
	in, ok := console.Stdin.(*os.File)
	if ok && isTerminal(in) {
		return c.ask(console, in, s)
	}
	if c.AccessKey == "" {
		return usagef("expected --access-key, with the secret key on the standard input, or --from-env, --credential-process or --anonymous")
	}
	if s.SecretKey, err = firstLine(console.Stdin); err != nil || s.SecretKey == "" {
		return usagef("expected the secret key of --access-key %s in the first line of the standard input", c.AccessKey)
	}
	return nil
}

// ask asks for the keys on the terminal. What is typed for the secret key is not shown.
func (c *aliasSetCommand) ask(console *Console, in *os.File, s *profile.Settings) error {
	if s.AccessKey == "" {
		fmt.Fprint(console.Stderr, "Access key: ")
		line, err := firstLine(in)
		if err != nil || line == "" {
			return usagef("expected an access key (--anonymous if the server needs none)")
		}
		s.AccessKey = line
	}
	fmt.Fprint(console.Stderr, "Secret key (not shown): ")
	secret, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(console.Stderr)
	if s.SecretKey = strings.TrimSpace(string(secret)); err != nil || s.SecretKey == "" {
		return usagef("expected a secret key")
	}
	return nil
}

// firstLine reads the first line, one byte at a time, so what follows remains for the next reader.
func firstLine(r io.Reader) (string, error) {
	if r == nil {
		return "", io.EOF
	}
	line, err := bufio.NewReaderSize(oneByte{r}, 16).ReadString('\n')
	if err == io.EOF && line != "" {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// oneByte returns one byte per Read.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

// aliasListCommand lists profiles.
type aliasListCommand struct {
	JSON bool `name:"json" help:"Print a JSON object per line."`
}

// Run lists the profiles of ORCAS, and those of AWS's files.
func (c *aliasListCommand) Run(_ context.Context, console *Console) error {
	profiles, err := profile.Load(profile.Options{Environ: console.Environ})
	if err != nil {
		return configuration(err)
	}
	out := newOutput(console.Stdout, c.JSON, false)
	own := profiles.File()
	for _, name := range profiles.Names() {
		j := aliasJSON{Name: name, Source: own.Path}
		s, ok := own.Profiles[name]
		if ok {
			j.Endpoint, j.Region, j.AccessKey, j.Anonymous = s.Endpoint, s.Region, s.AccessKey, s.Anonymous
		} else {
			j.Source = "the files of aws-cli"
		}
		if !ok && !c.JSON {
			out.line("%-16s (in %s)", shown(name), j.Source)
			continue
		}
		out.line("%-16s %s %s", shown(name), j.Endpoint, j.AccessKey)
		out.object(j)
	}
	return out.flush()
}

// aliasRemoveCommand removes a profile.
type aliasRemoveCommand struct {
	Name string `arg:"" complete:"none" help:"Remove the profile with this name."`
}

// Run removes the profile.
func (c *aliasRemoveCommand) Run(_ context.Context, console *Console) error {
	profiles, err := profile.Load(profile.Options{Environ: console.Environ})
	if err != nil {
		return configuration(err)
	}
	file := profiles.File()
	if _, ok := file.Profiles[c.Name]; !ok {
		return notFound("there is no profile %s in %s: orcas alias list shows the profiles", c.Name, file.Path)
	}
	delete(file.Profiles, c.Name)
	if err := file.Save(); err != nil {
		return &statusError{StatusDisk, fmt.Sprintf("cannot save the profiles: %v", err), err}
	}
	_, err = fmt.Fprintf(console.Stdout, "removed %s\n", c.Name)
	return err
}
