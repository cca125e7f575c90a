package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"orcas/server"
)

// TestDeployedCommandsExist parses the command lines of the systemd unit, its settings, the image and the chart, and
// looks up the variables that they set.
func TestDeployedCommandsExist(t *testing.T) {
	parse := func(words []string) {
		t.Helper()
		parser, err := kong.New(&commands{}, kong.Exit(func(int) {}))
		require.NoError(t, err)
		_, err = parser.Parse(words)
		require.NoError(t, err, "%q", words)
	}
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", filepath.FromSlash(path)))
		require.NoError(t, err)
		return string(text)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/orcas (.*) \$FLAGS$`).FindStringSubmatch(read("package/orcas.service"))
	require.NotNil(t, start)
	settings := read("package/orcas.env")
	flags := regexp.MustCompile(`(?m)^#?FLAGS="(.*)"$`).FindStringSubmatch(settings)
	require.NotNil(t, flags)
	parse(append(strings.Fields(start[1]), strings.Fields(flags[1])...))

	found := 0
	chart := read("helm/orcas/templates/statefulset.yaml")
	for _, name := range regexp.MustCompile(`ORCAS_[A-Z_]+`).FindAllString(settings+chart+read("helm/orcas/values.yaml"), -1) {
		require.True(t, slices.ContainsFunc(server.Variables(), func(v server.Variable) bool { return v.Name == name }), name)
		found++
	}
	require.Greater(t, found, 6)

	for _, m := range regexp.MustCompile(`(?m)^(?:CMD|HEALTHCHECK .* CMD) (\[.*\])$`).FindAllStringSubmatch(read("container/Containerfile"), -1) {
		var words []string
		require.NoError(t, json.Unmarshal([]byte(m[1]), &words))
		parse(slices.DeleteFunc(words, func(s string) bool { return s == "/orcas" }))
	}
	args := []string{"server"}
	for _, m := range regexp.MustCompile(`(?m)^ +- (--[a-z-]+(?:=[^ {]*)?)$`).FindAllStringSubmatch(chart, -1) {
		if m[1] != "--admin-insecure" { // instead of the certificate
			args = append(args, m[1])
		}
	}
	require.Greater(t, len(args), 6)
	parse(args)
}
