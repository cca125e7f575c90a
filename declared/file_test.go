package declared

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestRead: errors have the line and the name, and no names of Go.
func TestRead(t *testing.T) {
	for text, says := range map[string]string{
		"buckets:\n  - name: b\n    colour: red\n": `line 3: unknown name "colour"`,
		"bucket: []\n":                                                     `line 1: unknown name "bucket"`,
		"buckets:\n  - name: b\n    name: c\n":                             `line 3: the name "name" is used twice: line 2 has it too`,
		"users: alice\n":                                                   "line 1: expected a list, found the text alice",
		"users:\n  - name: [a]\n":                                          "line 2: expected text, found a list",
		"users:\n  - alice\n":                                              "line 2: expected names with values, found the text alice",
		"buckets:\n  - lifecycle:\n    - expire_days: soon\n":              "line 3: expected a number, found the text soon",
		"keys:\n  - no_delete: perhaps\n":                                  "line 2: expected true or false, found the text perhaps",
		"users:\n  - name: a\n   name: b\n":                                "line 1: did not find expected",
		"users: []\n---\nusers: []\n":                                      "more than one document",
		"users: [\n":                                                       "line ",
		"a: &a [x]\nb: *c\n":                                               "unknown anchor",
		"users: []\n# " + strings.Repeat("x", MaxBytes):                    "at most 131072 are allowed",
		"buckets:\n  - cors:\n    - allowed_origin: [\"*\"]\n":             `line 3: unknown name "allowed_origin"`,
		"policies:\n  - name: a\n    document: {}\n    Document: {}\n":     `line 4: unknown name "Document"`,
		"users:\n  - name: a\n    groups: {readers: true}\n":               "line 3: expected a list, found names with values",
		"keys:\n  - name: k\n    secret_key: not-in-this-file-please-no\n": `line 3: unknown name "secret_key"`,
	} {
		_, err := Read([]byte(text))
		require.ErrorContains(t, err, says, text)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.NotContains(t, err.Error(), "declared.")
		require.NotContains(t, err.Error(), "yaml:")
	}
	for _, text := range []string{"", "# nothing\n", "users: []\n", "---\nusers: []\n", "{}\n"} {
		f, err := Read([]byte(text))
		require.NoError(t, err, text)
		require.Empty(t, f.Users)
	}
}

// TestJSON: documents in YAML become the JSON text that their author means.
func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"{Version: 2012-10-17, Statement: [{Effect: Allow, Action: 's3:*'}]}": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*"}]}`,
		"{Bool: {aws:SecureTransport: false}, N: 012, F: 1e3, Y: yes}":        `{"Bool":{"aws:SecureTransport":"false"},"N":"012","F":"1e3","Y":"yes"}`,
		"|\n  {\"Version\":  \"2012-10-17\"}\n":                               `{"Version":"2012-10-17"}`,
		"not json":                                                            "not json",
		"[&a {x: '\"<'}, *a]":                                                 `[{"x":"\"\u003c"},{"x":"\"\u003c"}]`,
		"{a: 1, a: 2}":                                                        `{"a":"1","a":"2"}`, // the parser of policies refuses it
		"{a: }":                                                               "",
		"{[a]: b}":                                                            "",
		"{<<: {a: b}}":                                                        "",
		strings.Repeat("[", 30) + strings.Repeat("]", 30):                     "",
		"[" + strings.Repeat("&a xxxxxxxxxx, ", 9000) + "]":                   "",
	} {
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte("x: "+text), &n), text)
		got, err := jsonOf(n.Content[0].Content[1])
		if want == "" {
			require.ErrorIs(t, err, errDocument, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	// Aliases that would make a document of a billion values.
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := byte('b'); c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 10), ", ") + "]\n"
	}
	var n yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(bomb), &n))
	_, err := jsonOf(n.Content[0])
	require.ErrorIs(t, err, errDocument)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("buckets:\n  - name: b\n    policy: {Version: 2012-10-17}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Read(text)
		if err != nil {
			return
		}
		for i := range file.Buckets {
			_, _ = jsonOf(&file.Buckets[i].Policy)
		}
	})
}
