package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/server"
)

// output runs a command, which must succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(args, nil, &stdout, &stderr), stderr.String())
	return stdout.String()
}

// completions are lines that a user has typed, the last word incomplete, and the words that complete it.
var completions = []struct{ line, want string }{
	{"orcas ser", "server"},
	{"orcas admin key cr", "create"},
	{"orcas server --tls-self", "--tls-self-signed"},
	{"orcas server --data admin --allow", "--allow-missing-blocks"}, // admin is a value here
	{"orcas admin key create x --access w", "write"},
	{"orcas completion zs", "zsh"},
	{"orcas man", ""}, // orcas man is hidden
}

func TestCompletionInBash(t *testing.T) {
	script := output(t, "completion", "bash")
	for _, c := range completions {
		words := strings.Split(c.line, " ")
		try := exec.Command("bash", "-c", script+fmt.Sprintf(`
COMP_WORDS=(%s); COMP_CWORD=%d; cd /; _orcas; echo "${COMPREPLY[*]}"`, c.line, len(words)-1))
		got, err := try.CombinedOutput()
		require.NoError(t, err, string(got))
		require.Equal(t, c.want, strings.TrimSpace(string(got)), c.line)
	}
}

func TestCompletionInFish(t *testing.T) {
	shell, err := exec.LookPath("fish")
	if err != nil {
		t.Skip("fish is not installed")
	}
	file := filepath.Join(t.TempDir(), "orcas.fish")
	require.NoError(t, os.WriteFile(file, []byte(output(t, "completion", "fish")), 0o600))
	for _, c := range completions {
		try := exec.Command(shell, "--no-config", "-c", fmt.Sprintf("source %s; complete -C %q", file, c.line))
		try.Env = append(os.Environ(), "HOME="+t.TempDir())
		got, err := try.CombinedOutput()
		require.NoError(t, err, string(got))
		word, _, _ := strings.Cut(strings.TrimSpace(string(got)), "\t")
		require.Equal(t, c.want, word, c.line)
	}
}

func TestCompletionInZsh(t *testing.T) {
	script := output(t, "completion", "zsh")
	require.True(t, strings.HasPrefix(script, "#compdef orcas\n"))
	require.Contains(t, script, `'--access=[Allow read, write or readwrite access]:access:(read write readwrite)'`)
	shell, err := exec.LookPath("zsh")
	if err != nil {
		t.Skip("zsh is not installed")
	}
	file := filepath.Join(t.TempDir(), "_orcas")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	got, err := exec.Command(shell, "-n", file).CombinedOutput()
	require.NoError(t, err, string(got))
}

// TestManPages: the pages have every command, flag and variable, and no line that troff takes for a request by mistake.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	output(t, "man", dir)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	require.NoError(t, err)
	require.Greater(t, len(files), 9)
	request := regexp.MustCompile(`(?m)^[.'](.*)$`)
	known := regexp.MustCompile(`^(TH|SH|SS|TP|PP|B|I|BR|RI)( |$)|^\\"`)
	for _, file := range files {
		text := read(filepath.Base(file))
		for _, m := range request.FindAllStringSubmatch(text, -1) {
			require.Regexp(t, known, m[1], file)
		}
	}
	main := read("orcas.1")
	for _, command := range []string{"server", "admin", "fsck", "backup", "completion"} {
		require.Contains(t, main, ".BR orcas-"+command+" (1)\n")
		require.FileExists(t, filepath.Join(dir, "orcas-"+command+".1"))
	}
	require.NoFileExists(t, filepath.Join(dir, "orcas-man.1"))
	serverPage := read("orcas-server.1")
	require.Contains(t, serverPage, `.B \-\-tls\-self\-signed`)
	for _, v := range server.Variables() {
		require.Contains(t, serverPage, ".B "+v.Name+"\n")
	}
	require.Contains(t, read("orcas-cp.1"), ".SH EXIT STATUS\n.TP\n.B 0\nsuccess\n")
	require.Contains(t, read("orcas-admin.1"), ".SH EXIT STATUS\n0 if ")
	require.Contains(t, read("orcas-admin.1"), ".SS \"orcas admin key create\"\n")
}

func TestVersionShowsFormats(t *testing.T) {
	text := output(t, "version")
	require.Equal(t, text, output(t, "--version"))
	require.Regexp(t, `(?m)^orcas \S+$`, text)
	require.Regexp(t, `(?m)^on-disk format 1 \(data directory \d+, block \d+, changes \d+, schema \d+, backup \d+\)$`, text)
}
