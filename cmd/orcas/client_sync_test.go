package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/cmd/orcas/internal/client"
)

// actions returns what a transfer reports: operations with their paths, sorted, and the summary.
func (sh *shell) actions(args ...string) (list string, summary map[string]any) {
	sh.t.Helper()
	objects := sh.json(args...)
	summary = objects[len(objects)-1]
	require.Equal(sh.t, "summary", summary["op"])
	var lines []string
	for _, o := range objects[:len(objects)-1] {
		lines = append(lines, fmt.Sprint(o["op"], " ", o["path"]))
	}
	sort.Strings(lines)
	return strings.Join(lines, ", "), summary
}

// TestSync: each flag of sync does what it says.
func TestSync(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	for _, name := range []string{"a.jpg", "b.txt", "sub/c.jpg", "sub/d.log"} {
		sh.write("tree/"+name, "content of "+name)
		sh.age("tree/" + name)
	}
	sync := func(flags ...string) (string, map[string]any) {
		return sh.actions(append([]string{"sync", "tree", "s3://bucket1/t"}, flags...)...)
	}
	list, summary := sync("--dry-run")
	require.Equal(t, "copy a.jpg, copy b.txt, copy sub/c.jpg, copy sub/d.log", list)
	require.Equal(t, true, summary["dry_run"])
	require.Empty(t, sh.keys("bucket1"), "a dry run does nothing")
	list, _ = sync("--exclude", "*", "--include", "*.jpg", "--exclude", "a*")
	require.Equal(t, "copy sub/c.jpg", list)
	list, _ = sync("--include", "*.jpg")
	require.Equal(t, "copy a.jpg", list)
	list, summary = sync("--parallel", "2")
	require.Equal(t, "copy b.txt, copy sub/d.log", list)
	require.Equal(t, 4.0, summary["files"])
	list, summary = sync()
	require.Empty(t, list)
	require.Zero(t, summary["bytes_sent"])

	sh.write("tree/a.jpg", "CONTENT OF a.jpg") // of the same size, and newer
	list, _ = sync("--size-only")
	require.Empty(t, list)
	sh.age("tree/a.jpg") // and now not newer
	list, _ = sync()
	require.Empty(t, list)
	list, _ = sync("--checksum")
	require.Equal(t, "copy a.jpg", list)
	require.Equal(t, "CONTENT OF a.jpg", sh.object("bucket1", "t/a.jpg"))

	require.NoError(t, os.Remove(filepath.Join(sh.dir, "tree/b.txt")))
	require.NoError(t, os.Remove(filepath.Join(sh.dir, "tree/sub/d.log")))
	list, _ = sync("--delete", "--exclude", "*.log", "--dry-run")
	require.Equal(t, "delete b.txt", list)
	list, summary = sync("--delete", "--exclude", "*.log")
	require.Equal(t, "delete b.txt", list)
	require.Equal(t, 1.0, summary["deleted"])
	require.Equal(t, "t/a.jpg t/sub/c.jpg t/sub/d.log", sh.keys("bucket1"))

	list, _ = sh.actions("sync", "s3://bucket1/t", "back", "--preserve")
	require.Equal(t, "copy a.jpg, copy sub/c.jpg, copy sub/d.log", list)
	require.Equal(t, "CONTENT OF a.jpg", sh.read("back/a.jpg"))
	list, _ = sh.actions("sync", "s3://bucket1/t", "s3://bucket1/copy")
	require.Equal(t, "copy a.jpg, copy sub/c.jpg, copy sub/d.log", list)
	require.Empty(t, sh.run("diff", "back", "s3://bucket1/t"))
	sh.write("back/new", "")
	sh.write("back/a.jpg", "longer than the object")
	require.NoError(t, os.Remove(filepath.Join(sh.dir, "back/sub/c.jpg")))
	d := sh.try("", "diff", "back", "s3://bucket1/copy")
	require.Equal(t, client.StatusFailed, d.status)
	require.Equal(t, "! a.jpg (size)\n< new\n> sub/c.jpg\n", d.stdout)
	require.Equal(t, "orcas: 3 differences\n", d.stderr)
	d = sh.try("", "diff", "--json", "back", "s3://bucket1/copy", "--include", "new")
	require.Contains(t, d.stdout, `{"difference":"only-from","path":"new","from_size":0,`)
}

// TestConflicts: each policy for a target that exists, for one file and for trees.
func TestConflicts(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	sh.write("dir/f.txt", "local, longer")
	sh.age("dir/f.txt")
	for policy, want := range map[string]string{"overwrite": "local, longer", "skip": "remote", "newer": "remote", "rename": "remote", "fail": "remote"} {
		for _, args := range [][]string{{"cp", "dir/f.txt", "s3://bucket1/%s/f.txt"}, {"cp", "-r", "dir", "s3://bucket1/%s"}, {"sync", "dir", "s3://bucket1/%s"}} {
			at := fmt.Sprintf("%s-%d", policy, len(args[1]))
			sh.daemon.put("bucket1", at+"/f.txt", "remote")
			args[len(args)-1] = fmt.Sprintf(args[len(args)-1], at)
			args = append(args, "--conflict", policy)
			if policy == "fail" {
				sh.fails(client.StatusPrecondition, "f.txt", args...)
			} else {
				sh.run(args...)
			}
			require.Equal(t, want, sh.object("bucket1", at+"/f.txt"), "%v", args)
			if policy == "rename" {
				require.Equal(t, "local, longer", sh.object("bucket1", at+"/f (1).txt"))
			}
		}
	}
}

// TestMoves: a source is deleted when the target has it, and not before.
func TestMoves(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	sh.write("tree/a", "1")
	sh.write("tree/sub/b", "2")
	_, summary := sh.actions("mv", "-r", "tree", "s3://bucket1/t")
	require.Equal(t, 2.0, summary["copied"])
	require.NoFileExists(t, filepath.Join(sh.dir, "tree/a"))
	require.Equal(t, "t/a t/sub/b", sh.keys("bucket1"))
	sh.run("mv", "-r", "s3://bucket1/t", "s3://bucket1/u")
	require.Equal(t, "u/a u/sub/b", sh.keys("bucket1"))
	sh.run("mv", "-r", "s3://bucket1/u", "back")
	require.Empty(t, sh.keys("bucket1"))
	require.Equal(t, "2", sh.read("back/sub/b"))
	require.Contains(t, sh.run("mv", "--dry-run", "back/a", "s3://bucket1"), "would")
	sh.fails(client.StatusNotFound, "there is no bucket", "mv", "back/a", "s3://missing1/")
	require.Equal(t, "1", sh.read("back/a"))
}

// TestAttributes: permissions, times and symbolic links survive a way to the server and back.
func TestAttributes(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	path := sh.write("tree/script", "#!/bin/sh")
	when := time.Date(2020, 2, 3, 4, 5, 6, 700, time.UTC)
	require.NoError(t, os.Chmod(path, 0o750))
	require.NoError(t, os.Chtimes(path, when, when))
	require.NoError(t, os.Symlink("script", filepath.Join(sh.dir, "tree/link")))
	require.NoError(t, os.Mkdir(filepath.Join(sh.dir, "tree/empty"), 0o755))
	sh.run("sync", "--preserve", "--directories", "tree", "s3://bucket1/t")
	sh.run("sync", "--preserve", "s3://bucket1/t", "back")
	info, err := os.Stat(filepath.Join(sh.dir, "back/script"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode())
	require.True(t, when.Equal(info.ModTime()), info.ModTime())
	target, err := os.Readlink(filepath.Join(sh.dir, "back/link"))
	require.NoError(t, err)
	require.Equal(t, "script", target)
	require.DirExists(t, filepath.Join(sh.dir, "back/empty"))
	sh.run("cp", "--preserve", "s3://bucket1/t/script", "one")
	info, err = os.Stat(filepath.Join(sh.dir, "one"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode())
	sh.run("sync", "--symlinks", "follow", "tree", "s3://bucket1/followed")
	require.Equal(t, "#!/bin/sh", sh.object("bucket1", "followed/link"))
	sh.run("sync", "tree", "s3://bucket1/skipped")
	require.NotContains(t, sh.keys("bucket1"), "skipped/link")
}

// TestBetweenServers: two profiles are two servers, and versions go over in their order.
func TestBetweenServers(t *testing.T) {
	sh, other := newShell(t), newShell(t)
	sh.run("alias", "set", "here", sh.value("AWS_ENDPOINT_URL"), "--from-env")
	keys := sh.with("AWS_ACCESS_KEY_ID="+other.value("AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY="+other.value("AWS_SECRET_ACCESS_KEY"))
	keys.run("alias", "set", "there", other.value("AWS_ENDPOINT_URL"), "--from-env")
	sh = sh.with("AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_ENDPOINT_URL=")
	sh.run("mb", "--versioning", "here://bucket1")
	sh.run("mb", "--versioning", "there://bucket2")
	for _, text := range []string{"old", "new"} {
		require.Zero(t, sh.try(text, "pipe", "-q", "here://bucket1/a", "--tag", "x=1", "--metadata", "m=2", "--content-type", "text/x-own").status)
	}
	sh.run("cp", "here://bucket1/a", "there://bucket2/")
	require.Equal(t, "new", sh.run("cat", "there://bucket2/a"))
	stat := sh.json("stat", "there://bucket2/a")[0]
	require.Equal(t, "there://bucket2/a", stat["address"])
	require.Equal(t, "text/x-own", stat["content_type"])
	require.Equal(t, map[string]any{"x": "1"}, stat["tags"])
	sh.run("rm", "--versions", "there://bucket2/a")
	sh.run("sync", "--versions", "here://bucket1", "there://bucket2/copy")
	versions := sh.json("ls", "-r", "--versions", "there://bucket2")
	require.Len(t, versions, 2)
	require.Equal(t, "old", sh.run("cat", "--version-id", versions[1]["version_id"].(string), "there://bucket2/copy/a"))
	require.Contains(t, sh.json("stat", "there://bucket2/copy/a")[0]["metadata"], "orcas-source-version-id")
	sh.fails(client.StatusNotFound, "there is no bucket bucket9 at "+other.value("AWS_ENDPOINT_URL")+": create it with orcas mb there://bucket9", "sync", "here://bucket1", "there://bucket9")
	sh.fails(client.StatusNotFound, "there is no bucket bucket9", "cp", "here://bucket9/a", "there://bucket2/b")
}

// TestRefLevel: the flag comes before the profile, which comes before the environment, and FAST is the default.
func TestRefLevel(t *testing.T) {
	sh := newShell(t)
	sh.run("alias", "set", "off", sh.value("AWS_ENDPOINT_URL"), "--from-env", "--ref-level", "OFF")
	sh.run("alias", "set", "plain", sh.value("AWS_ENDPOINT_URL"), "--from-env")
	sh.run("mb", "s3://bucket1")
	sh.write("f", strings.Repeat("known content ", 10_000))
	sent := func(sh *shell, args ...string) bool {
		objects := sh.json(append([]string{"cp", "f"}, args...)...)
		summary := objects[len(objects)-1]
		require.Equal(t, objects[0]["bytes_sent"], summary["bytes_sent"])
		require.Equal(t, summary["bytes_sent"] == 0.0, summary["bytes_referred"] == 140_000.0)
		return summary["bytes_sent"].(float64) >= 140_000
	}
	require.True(t, sent(sh, "s3://bucket1/1"), "the server does not have it yet")
	require.False(t, sent(sh, "s3://bucket1/2"))
	require.False(t, sent(sh, "plain://bucket1/3", "--ref-level", "FULL"))
	require.True(t, sent(sh, "s3://bucket1/4", "--ref-level", "OFF"))
	require.True(t, sent(sh, "off://bucket1/5"))
	require.False(t, sent(sh, "off://bucket1/6", "--ref-level", "FAST"))
	environment := sh.with("ORCAS_REF_LEVEL=OFF")
	require.True(t, sent(environment, "plain://bucket1/7"))
	require.True(t, sent(environment, "s3://bucket1/8"))
	require.False(t, sent(environment, "s3://bucket1/9", "--ref-level", "FAST"))
	require.True(t, sent(sh.with("ORCAS_REF_LEVEL=FAST"), "off://bucket1/10"))
}
