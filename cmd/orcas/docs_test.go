package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// shown finds command lines in documents: at the beginning of a line (after variables), or in backticks.
var shown = regexp.MustCompile("(?m)(^(?:\\$ )?(?:[A-Z_]+=\\S+ )*|`|&& )(?:bin/)?orcas ([a-z][^`#&|<\n]*)")

// incomplete matches errors about arguments that are missing.
var incomplete = regexp.MustCompile("missing flag|^expected |must not be empty")

// TestDocumentsShowExistingCommands parses each command line in the documents: the command exists, and has these flags.
func TestDocumentsShowExistingCommands(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	more, err := filepath.Glob("../../docs/contributing/*.md")
	require.NoError(t, err)
	documents = append(documents, more...)
	parse := func(words string, complete bool) error {
		parser, err := kong.New(&commands{}, kong.Exit(func(int) {}))
		require.NoError(t, err)
		_, err = parser.Parse(strings.Fields(strings.NewReplacer("[", "", "]", "", "HOST:PORT", "127.0.0.1:0").Replace(words)))
		if err != nil && !complete && incomplete.MatchString(err.Error()) {
			return nil // backticks can name a command without its required arguments
		}
		return err
	}
	found := 0
	for _, path := range append(documents, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		joined := strings.ReplaceAll(string(text), "\\\n", " ")
		for _, m := range shown.FindAllStringSubmatch(joined, -1) {
			found++
			complete := m[1] != "`" && !strings.Contains(m[2], "--help")
			require.NoError(t, parse(m[2], complete), "%s: orcas %s", filepath.Base(path), m[2])
		}
	}
	require.Greater(t, found, 40)
	for _, wrong := range []string{"adminn", "admin backup", "fsck --data DIR --contents"} {
		require.Error(t, parse(wrong, false), wrong)
	}
	require.NoError(t, parse("server --address HOST:PORT", false))
	require.Error(t, parse("server --address HOST:PORT", true))
}
