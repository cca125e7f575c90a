package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/cmd/orcas/internal/client"
)

// steady replaces what is different each time.
func steady(text string) string {
	text = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`).ReplaceAllString(text, "2026-01-31 12:00:00")
	return regexp.MustCompile(`in \d+\.\d s`).ReplaceAllString(text, "in 0.1 s")
}

// asPattern returns a pattern for an output in the document, in which ... stands for anything.
func asPattern(text string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(text), `\.\.\.`, `.*`) + `$`)
}

// program writes a script with which shells start the program under test as orcas, and returns a shell that finds it.
func (sh *shell) program() *shell {
	bin := filepath.Join(filepath.Dir(sh.dir), "bin")
	require.NoError(sh.t, os.MkdirAll(bin, 0o755))
	require.NoError(sh.t, os.WriteFile(filepath.Join(bin, "orcas"), []byte("#!/bin/sh\nexec "+quoted(os.Args[0])+` "$@"`+"\n"), 0o755))
	return sh.with("PATH=" + bin + ":" + os.Getenv("PATH"))
}

// TestCommandsDocument runs the examples of docs/commands.md, one after another, and compares their output.
func TestCommandsDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	sh := newShell(t).program()
	sh.write("beach.jpg", "beach")
	sh.write("album/a.jpg", "aaaa\n")
	sh.write("album/b.jpg", "bbbb\n")
	sh.age("beach.jpg", "album/a.jpg", "album/b.jpg")
	environ := map[string]string{}
	for _, entry := range sh.environ {
		name, value, _ := strings.Cut(entry, "=")
		environ[name] = value
	}
	sh.write("secret.txt", environ["AWS_SECRET_ACCESS_KEY"]+"\n")
	own := strings.NewReplacer(environ["AWS_ENDPOINT_URL"], "http://127.0.0.1:9000", environ["AWS_ACCESS_KEY_ID"], "ACCESS", "/tmp/", "downloads/")
	sh = sh.with("ACCESS_KEY="+environ["AWS_ACCESS_KEY_ID"], "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_ENDPOINT_URL=")
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for _, example := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(example, "\n")
			ran++
			command = strings.ReplaceAll(command, "http://127.0.0.1:9000", environ["AWS_ENDPOINT_URL"])
			bash := exec.Command("bash", "-c", command)
			bash.Env, bash.Dir = sh.environ, sh.dir
			got, err := bash.CombinedOutput()
			require.NoError(t, err, "%s: %s", command, got)
			shown := own.Replace(string(got))
			if strings.Contains(command, "orcas sync") { // in any order
				want, shown = sortedLines(want), sortedLines(shown)
			}
			require.Regexp(t, asPattern(steady(strings.TrimSpace(want))), steady(strings.TrimSpace(shown)), command)
			require.NotContains(t, string(got), environ["AWS_SECRET_ACCESS_KEY"])
		}
	}
	require.Greater(t, ran, 30)
}

func sortedLines(text string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(text), "\n"))), "\n")
}

// TestStatusesAreDocumented compares the table of exit statuses with the code.
func TestStatusesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	var table strings.Builder
	for status, meaning := range client.Statuses() {
		fmt.Fprintf(&table, "| %d | %s |\n", status, meaning)
	}
	require.Contains(t, string(text), "| status | meaning |\n| --- | --- |\n"+table.String()+"\n")
}
