// Package declared makes a store have what a file declares: accounts, policies, groups, users, roles, application keys,
// and buckets with their settings. The file is YAML:
//
//	accounts:
//	  - name: tenant
//	    enabled: true
//	policies:
//	  - name: reports
//	    document: {Version: "2012-10-17", Statement: [...]}    # or the JSON text of the document
//	groups:
//	  - name: readers
//	    policies: [readonly]                                   # attached to the group
//	    inline_policies: [{name: more, document: {...}}]       # part of the group; so do users and roles
//	users:
//	  - name: alice
//	    groups: [readers]
//	    policies: [reports]
//	    tags: {team: red}
//	    generate_key: true                                     # unless the user has an access key
//	    access_keys:
//	      - access_key: ALICE
//	        secret_file: alice.secret                          # the file has the secret key
//	roles:
//	  - name: deployer
//	    users: [alice]                                         # who may assume the role, or
//	    trust: {Version: "2012-10-17", Statement: [...]}       # its trust policy
//	    description: deploys the site
//	    max_session: 4h
//	    policies: [readwrite]
//	    tags: {team: red}
//	buckets:
//	  - name: photos
//	    versioning: enabled                                    # or suspended
//	    compression: fast                                      # off, fast, better or default
//	    chunk_size: 4MiB                                       # or default
//	    max_bytes: 10GiB                                       # or none
//	    max_objects: 1000000                                   # or none
//	    public: none                                           # read, none or custom (the policy decides)
//	    policy: {...}
//	    cors: [{allowed_origins: ["*"], allowed_methods: [GET], allowed_headers: [], expose_headers: [], max_age_seconds: 60}]
//	    lifecycle: [{id: old, prefix: tmp/, expire_days: 7, noncurrent_days: 30, keep_noncurrent: 3, abort_uploads_days: 2}]
//	keys:
//	  - name: camera
//	    bucket: photos
//	    prefix: camera/
//	    access: readwrite                                      # read, write or readwrite
//	    no_delete: true
//	    expires: 90d
//	    access_key: CAMERA                                     # with secret_file; otherwise both are generated
//	    secret_file: camera.secret                             # the file has the secret key
//
// What the file does not name stays as it is: other identities, other buckets, and the settings of a bucket or a role
// that its entry leaves out. Lists of groups, policies, tags and access keys add to those that a group, a user or a role
// has already. So nothing is ever deleted, and a second application changes nothing.
//
// Read accepts no unknown names. Plan checks everything else, against the store too, before it returns the first step.
// Each step is a single change of the store; if one fails, those before it stay, and a later application continues.
package declared

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is what a file declares.
type File struct {
	Accounts []accountEntry `yaml:"accounts"`
	Policies []policyEntry  `yaml:"policies"`
	Groups   []groupEntry   `yaml:"groups"`
	Users    []userEntry    `yaml:"users"`
	Roles    []roleEntry    `yaml:"roles"`
	Buckets  []bucketEntry  `yaml:"buckets"`
	Keys     []keyEntry     `yaml:"keys"`

	root *yaml.Node // of the document, for the lines of errors
}

type policyEntry struct {
	Name     string    `yaml:"name"`
	Document yaml.Node `yaml:"document"`
}

type accountEntry struct {
	Name    string `yaml:"name"`
	Enabled *bool  `yaml:"enabled"`
}

// groupEntry is also what the entries of groups, users and roles have in common.
type groupEntry struct {
	Name     string        `yaml:"name"`
	Policies []string      `yaml:"policies"`
	Inline   []policyEntry `yaml:"inline_policies"`
}

type userEntry struct {
	groupEntry  `yaml:",inline"`
	Groups      []string          `yaml:"groups"`
	Tags        map[string]string `yaml:"tags"`
	GenerateKey bool              `yaml:"generate_key"`
	AccessKeys  []givenKey        `yaml:"access_keys"`
}

type roleEntry struct {
	groupEntry  `yaml:",inline"`
	Trust       yaml.Node         `yaml:"trust"`
	Users       []string          `yaml:"users"`
	Description *string           `yaml:"description"`
	MaxSession  string            `yaml:"max_session"`
	Tags        map[string]string `yaml:"tags"`
}

// givenKey is an access key that was not generated.
type givenKey struct {
	AccessKey  string `yaml:"access_key"`
	SecretFile string `yaml:"secret_file"`
}

type bucketEntry struct {
	Name        string          `yaml:"name"`
	Versioning  *string         `yaml:"versioning"`
	Compression *string         `yaml:"compression"`
	ChunkSize   *string         `yaml:"chunk_size"`
	MaxBytes    *string         `yaml:"max_bytes"`
	MaxObjects  *string         `yaml:"max_objects"`
	Public      *string         `yaml:"public"`
	Policy      yaml.Node       `yaml:"policy"`
	CORS        []corsRule      `yaml:"cors"`
	Lifecycle   []lifecycleRule `yaml:"lifecycle"`
}

type corsRule struct {
	ID      string   `yaml:"id"`
	Origins []string `yaml:"allowed_origins"`
	Methods []string `yaml:"allowed_methods"`
	Headers []string `yaml:"allowed_headers"`
	Expose  []string `yaml:"expose_headers"`
	MaxAge  *int32   `yaml:"max_age_seconds"`
}

type lifecycleRule struct {
	ID             string `yaml:"id"`
	Prefix         string `yaml:"prefix"`
	Disabled       bool   `yaml:"disabled"`
	ExpireDays     *int32 `yaml:"expire_days"`
	NoncurrentDays *int32 `yaml:"noncurrent_days"`
	KeepNoncurrent *int32 `yaml:"keep_noncurrent"`
	AbortDays      *int32 `yaml:"abort_uploads_days"`
}

type keyEntry struct {
	Name     string `yaml:"name"`
	Bucket   string `yaml:"bucket"`
	Prefix   string `yaml:"prefix"`
	Access   string `yaml:"access"`
	NoDelete bool   `yaml:"no_delete"`
	Expires  string `yaml:"expires"`
	givenKey `yaml:",inline"`
}

// MaxBytes is the maximum size of a file.
const MaxBytes = 128 << 10

// Error is an error in a file.
type Error struct {
	Line int // from 1; 0 if it is not known
	Text string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Text)
}

// Read parses a file. Unknown and repeated names are errors. Every error is an *Error.
func Read(text []byte) (*File, error) {
	if len(text) > MaxBytes {
		return nil, &Error{0, fmt.Sprintf("the file has %d bytes: at most %d are allowed", len(text), MaxBytes)}
	}
	f, root := new(File), new(yaml.Node)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(f)
	if err == nil {
		err = yaml.Unmarshal(text, root)
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the file is empty
		return nil, readable(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &Error{0, "the file has more than one document"}
	}
	f.root = root
	return f, nil
}

var (
	unknownName  = regexp.MustCompile(`^line (\d+): field (\S+) not found in type \S+$`)
	repeatedName = regexp.MustCompile(`^line (\d+): mapping key ("[^"]*") already defined at line (\d+)$`)
	wrongType    = regexp.MustCompile("^line (\\d+): cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.*)$")
	anyLine      = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
)

// readable returns an error of the YAML decoder without names of Go types.
func readable(err error) *Error {
	text := err.Error()
	var types *yaml.TypeError
	if errors.As(err, &types) {
		text = types.Errors[0]
	}
	e := &Error{}
	number := func(s string) { _, _ = fmt.Sscan(s, &e.Line) } // the patterns match digits only
	if m := unknownName.FindStringSubmatch(text); m != nil {
		number(m[1])
		e.Text = fmt.Sprintf("unknown name %q", m[2])
	} else if m := repeatedName.FindStringSubmatch(text); m != nil {
		number(m[1])
		e.Text = fmt.Sprintf("the name %s is used twice: line %s has it too", m[2], m[3])
	} else if m := wrongType.FindStringSubmatch(text); m != nil {
		number(m[1])
		e.Text = fmt.Sprintf("expected %s, found %s", typeName(m[4]), strings.TrimSpace(kindName(m[2])+" "+m[3]))
	} else if m := anyLine.FindStringSubmatch(text); m != nil {
		number(m[1])
		e.Text = m[2]
	} else {
		e.Text = strings.TrimPrefix(text, "yaml: ")
	}
	return e
}

// typeName describes what a Go type is in a file.
func typeName(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "declared."), strings.HasPrefix(goType, "map["):
		return "names with values"
	case strings.Contains(goType, "int"):
		return "a number"
	case strings.Contains(goType, "bool"):
		return "true or false"
	}
	return "text"
}

// kindName describes a tag of YAML.
func kindName(tag string) string {
	switch tag {
	case "map":
		return "names with values"
	case "seq":
		return "a list"
	case "str":
		return "the text"
	}
	return "the value"
}

// fail returns an error about a value in the file. path are the names and positions that lead to it; the error has the
// line of the last one that exists.
func (f *File) fail(path []any, format string, args ...any) error {
	e := &Error{Text: fmt.Sprintf(format, args...)}
	n := f.root
	if n != nil && n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for _, p := range path {
		line := 0
		if n, line = child(n, p); n == nil {
			break
		}
		e.Line = line
	}
	return e
}

// child returns a value below a node, and the line at which it begins.
func child(n *yaml.Node, at any) (*yaml.Node, int) {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch at := at.(type) {
	case int:
		if n != nil && n.Kind == yaml.SequenceNode && at < len(n.Content) {
			return n.Content[at], n.Content[at].Line
		}
	case string:
		for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == at {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	}
	return nil, 0
}

// maxDocument bounds the JSON of a policy, which aliases in YAML could make very large. Valid ones have 20 KiB at most.
const maxDocument = 64 << 10

var errDocument = errors.New("the document is too large, or is not made of names, lists and values")

// jsonOf returns the JSON text of a document. A text is taken as it is. All values become texts, so that dates such as
// 2012-10-17 and numbers keep the form that they have in the file.
func jsonOf(n *yaml.Node) (string, error) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(n.Value)) != nil {
			return n.Value, nil // the parser of policies describes the error
		}
		return compact.String(), nil
	}
	var b bytes.Buffer
	if err := writeJSON(&b, n, 0); err != nil {
		return "", err
	}
	return b.String(), nil
}

func writeJSON(b *bytes.Buffer, n *yaml.Node, depth int) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if b.Len() > maxDocument || depth > 20 {
		return errDocument
	}
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Kind != yaml.ScalarNode || n.Content[i].ShortTag() == "!!merge" {
				return errDocument
			}
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, n.Content[i].Value)
			b.WriteByte(':')
			if err := writeJSON(b, n.Content[i+1], depth+1); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item, depth+1); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return errDocument
		}
		writeText(b, n.Value)
	default:
		return errDocument
	}
	return nil
}

func writeText(b *bytes.Buffer, text string) {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // texts can always be encoded
	}
	b.Write(encoded)
}

// SecretFiles returns the names of the files with secrets that the file refers to.
func (f *File) SecretFiles() (list []string) {
	add := func(k *givenKey) {
		if k.SecretFile != "" {
			list = append(list, k.SecretFile)
		}
	}
	for i := range f.Users {
		for n := range f.Users[i].AccessKeys {
			add(&f.Users[i].AccessKeys[n])
		}
	}
	for i := range f.Keys {
		add(&f.Keys[i].givenKey)
	}
	return list
}
