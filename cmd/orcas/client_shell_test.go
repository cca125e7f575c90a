package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/cmd/orcas/internal/client"
)

// TestCompleteAddress lists profiles, buckets and keys, and never fails: a shell shows no errors there.
func TestCompleteAddress(t *testing.T) {
	sh := newShell(t)
	sh.run("alias", "set", "home", sh.value("AWS_ENDPOINT_URL"), "--from-env")
	sh.run("mb", "home://alpha-1")
	sh.run("mb", "home://alpha-2")
	for _, key := range []string{"dir/one", "dir/two", "double", "x y"} {
		sh.daemon.put("alpha-1", key, "")
	}
	for prefix, want := range map[string]string{
		"":                    "home://|s3://",
		"h":                   "home://",
		"home:":               "home://",
		"x":                   "",
		"home://":             "home://alpha-1/|home://alpha-2/",
		"s3://alpha-2":        "s3://alpha-2/",
		"home://alpha-1/":     "home://alpha-1/dir/|home://alpha-1/double|home://alpha-1/x y",
		"home://alpha-1/d":    "home://alpha-1/dir/|home://alpha-1/double",
		"home://alpha-1/dir/": "home://alpha-1/dir/one|home://alpha-1/dir/two",
		"home://beta/":        "",
		"none://":             "",
		"http://":             "",
	} {
		require.Equal(t, want, strings.Join(strings.Split(strings.TrimSuffix(sh.run("complete-address", prefix), "\n"), "\n"), "|"), prefix)
	}
	hangs := sh.with(answering(t, hang(t)))
	begun := time.Now()
	require.Empty(t, hangs.run("complete-address", "s3://alpha-1/"))
	require.Less(t, time.Since(begun), time.Minute, "it gives up, so the shell does not hang")
}

// TestShellsCompleteAddresses: bash, zsh and fish offer buckets and keys.
func TestShellsCompleteAddresses(t *testing.T) {
	sh := newShell(t).program()
	sh.run("mb", "s3://alpha-1")
	sh.daemon.put("alpha-1", "dir/one", "")
	sh.daemon.put("alpha-1", "x y", "")
	sh.write("s3file", "")
	cases := []struct{ line, want string }{
		{"orcas ls s3://al", "s3://alpha-1/"},
		{"orcas rm --dry-run s3://alpha-1/d", "s3://alpha-1/dir/"},
		{"orcas tag list s3://alpha-1/dir/", "s3://alpha-1/dir/one"},
		{"orcas cp s3f", "s3file"},
		{"orcas cp s3file s3://alpha-1/dir/o", "s3://alpha-1/dir/one"},
	}
	for _, c := range cases {
		// Bash splits words at colons, and the completions are only what follows the last one.
		words := strings.Split(strings.ReplaceAll(strings.ReplaceAll(c.line, "s3:", "s3 : "), " : //", " : //"), " ")
		cur := words[len(words)-1]
		try := exec.Command("bash", "-c", output(t, "completion", "bash")+fmt.Sprintf(`
COMP_LINE=%s; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(%s); COMP_CWORD=%d; _orcas; echo "${COMPREPLY[*]}"`, quoted(c.line), strings.Join(words, " "), len(words)-1))
		try.Env, try.Dir = sh.environ, sh.dir
		got, err := try.CombinedOutput()
		require.NoError(t, err, string(got))
		want := c.want
		if strings.HasPrefix(cur, "//") {
			want = strings.TrimPrefix(want, "s3:")
		}
		require.Equal(t, want, strings.TrimSpace(string(got)), c.line)
	}
	if fish, err := exec.LookPath("fish"); err == nil {
		file := sh.write("orcas.fish", output(t, "completion", "fish"))
		for _, c := range cases {
			try := exec.Command(fish, "--no-config", "-c", fmt.Sprintf("source %s; complete -C %q", file, c.line))
			try.Env, try.Dir = sh.environ, sh.dir
			got, err := try.CombinedOutput()
			require.NoError(t, err, string(got))
			require.Contains(t, strings.Split(string(got), "\n"), c.want, c.line)
		}
	}
	if zsh, err := exec.LookPath("zsh"); err == nil {
		sh.write("functions/_orcas", output(t, "completion", "zsh"))
		for _, c := range cases[:3] {
			require.Contains(t, inZsh(t, sh, zsh, c.line), c.want, c.line)
		}
	}
}

// inZsh returns the addresses that the script for zsh offers for the last word of a line.
func inZsh(t *testing.T, sh *shell, zsh, line string) string {
	word := line[strings.LastIndex(line, " ")+1:]
	script := fmt.Sprintf(`compdef() {}
_files() {}
compadd() { while [[ $1 == -* ]]; do [[ $1 == -S ]] && shift; shift; done; print -l -- "$@" }
source %s
_orcas_program=orcas PREFIX=%s
_orcas_addresses_and_files
`, filepath.Join(sh.dir, "functions/_orcas"), quoted(word))
	try := exec.Command(zsh, "-f", "-c", script)
	try.Env, try.Dir = sh.environ, sh.dir
	got, err := try.CombinedOutput()
	require.NoError(t, err, string(got))
	return string(got)
}

// TestProgressOnATerminal: a terminal shows the rate and the time left, and a pipe does not.
func TestProgressOnATerminal(t *testing.T) {
	sh := newShell(t).program()
	sh.run("mb", "s3://bucket1")
	sh.write("big", strings.Repeat("0123456789abcdef", 3<<16)) // 3 MiB
	command := "orcas cp big s3://bucket1/big --ref-level OFF --bandwidth 1MiB/s"
	terminal := exec.Command("script", "-qec", "stty cols 150 rows 40; "+command, "/dev/null")
	terminal.Env, terminal.Dir, terminal.Stdin = sh.with("TERM=xterm").environ, sh.dir, strings.NewReader("")
	shownThere, err := terminal.CombinedOutput()
	require.NoError(t, err, string(shownThere))
	require.Regexp(t, `\d of 1 files, [0-9.]+ [KM]iB of 3.0 MiB, [0-9.]+ [KM]iB/s, \d+s left`, string(shownThere))
	require.Contains(t, string(shownThere), "1 file copied (3.0 MiB)")
	quiet := exec.Command("script", "-qec", "stty cols 150 rows 40; "+command+" --no-progress", "/dev/null")
	quiet.Env, quiet.Dir, quiet.Stdin = terminal.Env, sh.dir, strings.NewReader("")
	shownThere, err = quiet.CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(shownThere), " left")
	d := sh.try("", strings.Fields(command)[1:]...)
	require.Equal(t, client.StatusOK, d.status)
	require.Empty(t, d.stderr)
}

// TestInterrupted: Ctrl-C leaves nothing at the target, and the same command continues.
func TestInterrupted(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	const size = 48 << 20
	sh.write("big", strings.Repeat("0123456789abcdef", size/16))
	upload := []string{"cp", "big", "s3://bucket1/big", "--part-size", "5MiB", "--ref-level", "OFF"}
	sh.interrupt(append(upload, "--bandwidth", "16MiB/s"), func() bool { return sh.daemon.parts("bucket1", "big") >= 2 })
	require.Empty(t, sh.keys("bucket1"))
	done := sh.json(upload...)
	require.Equal(t, "summary", done[len(done)-1]["op"])
	require.Less(t, done[0]["bytes_sent"].(float64), float64(size-9<<20), "what has arrived is not sent again")
	require.Equal(t, sh.read("big"), sh.object("bucket1", "big"))

	download := []string{"cp", "s3://bucket1/big", "back/big", "--part-size", "5MiB"}
	sh.interrupt(append(download, "--bandwidth", "16MiB/s"), func() bool { return sh.diskUse("back") >= 26<<20 })
	require.NoFileExists(t, filepath.Join(sh.dir, "back/big"))
	done = sh.json(download...)
	require.Less(t, done[len(done)-1]["bytes_received"].(float64), float64(size-4<<20), "what has arrived is not received again")
	require.Equal(t, sh.read("big"), sh.read("back/big"))

	for i := range 400 {
		sh.write(fmt.Sprintf("tree/%03d", i), strings.Repeat("x", 20<<10))
	}
	sh.interrupt([]string{"sync", "tree", "s3://bucket1/tree", "--bandwidth", "2MiB/s"}, func() bool { return strings.Count(sh.keys("bucket1"), "tree/") > 50 })
	done = sh.json("sync", "tree", "s3://bucket1/tree", "--ref-level", "OFF")
	copied := done[len(done)-1]["copied"].(float64)
	require.Positive(t, copied)
	require.Less(t, copied, 350.0, "what has arrived is not sent again")
	require.Equal(t, 400, strings.Count(sh.keys("bucket1"), "tree/"))
}

// interrupt starts a command, sends SIGINT when it has come far enough, and waits for its end.
func (sh *shell) interrupt(args []string, enough func() bool) {
	sh.t.Helper()
	command := sh.command(args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	require.NoError(sh.t, command.Start())
	require.Eventually(sh.t, enough, time.Minute, 20*time.Millisecond, "%v", args)
	require.NoError(sh.t, command.Process.Signal(syscall.SIGINT))
	_ = command.Wait() // its status follows
	require.Equal(sh.t, client.StatusFailed, command.ProcessState.ExitCode(), stderr.String())
	require.Contains(sh.t, stderr.String(), "orcas: interrupted: files that were not finished do not exist at the target; the same command continues\n")
}

// parts returns how many parts of an unfinished upload the server has.
func (d *daemon) parts(bucket, key string) (n int) {
	ctx := context.Background()
	uploads, err := d.client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &bucket})
	require.NoError(d.t, err)
	for _, u := range uploads.Uploads {
		parts, err := d.client.ListParts(ctx, &s3.ListPartsInput{Bucket: &bucket, Key: &key, UploadId: u.UploadId})
		if err == nil { // otherwise it has just ended
			n += len(parts.Parts)
		}
	}
	return n
}

// diskUse returns how many bytes the files in a directory use on the drive.
func (sh *shell) diskUse(dir string) (n int64) {
	entries, _ := os.ReadDir(filepath.Join(sh.dir, dir)) // it may not exist yet
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
	}
	return n
}
