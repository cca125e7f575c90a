package main

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/cmd/orcas/internal/client"
)

// TestListsOfVersions: ls, stat, du and rm know versions and delete markers.
func TestListsOfVersions(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "--versioning", "s3://bucket1")
	for _, text := range []string{"1", "22", "333"} {
		require.Zero(t, sh.try(text, "pipe", "-q", "s3://bucket1/dir/a").status)
	}
	sh.run("rm", "s3://bucket1/dir/a")
	sh.try("x", "pipe", "-q", "s3://bucket1/dir/ab")
	sh.fails(client.StatusNotFound, "nothing at s3://bucket1 begins with dir/b", "ls", "s3://bucket1/dir/b")
	require.Equal(t, 5, strings.Count(sh.run("ls", "-r", "--versions", "s3://bucket1"), "\n"))
	versions := sh.json("ls", "-r", "--versions", "s3://bucket1/dir/a")
	require.Len(t, versions, 5)
	require.Equal(t, "delete-marker", versions[0]["type"])
	require.Equal(t, true, versions[0]["latest"])
	require.Equal(t, false, versions[1]["latest"])
	require.Equal(t, 3.0, versions[1]["size"])
	require.Equal(t, 1.0, versions[3]["size"])
	oldest, marker := versions[3]["version_id"].(string), versions[0]["version_id"].(string)
	require.Equal(t, "1", sh.run("cat", "--version-id", oldest, "s3://bucket1/dir/a"))
	sh.fails(client.StatusNotFound, "s3://bucket1/dir/a is deleted: orcas undelete", "cat", "s3://bucket1/dir/a")
	sh.fails(client.StatusNotFound, "there is no such version of s3://bucket1/dir/a", "cat", "--version-id", versions[4]["version_id"].(string), "s3://bucket1/dir/a")
	require.Regexp(t, `^ +7 +1 objects +3 old versions +1 delete markers  s3://bucket1\n$`, sh.run("du", "--versions", "--depth", "0", "s3://bucket1"))
	total := sh.json("du", "--versions", "s3://bucket1/dir/")
	require.Equal(t, map[string]any{"type": "total", "address": "s3://bucket1/dir/", "size": 7.0, "objects": 1.0, "noncurrent_versions": 3.0, "delete_markers": 1.0}, total[0])
	require.Len(t, sh.json("stat", "--versions", "s3://bucket1/dir/a"), 4)
	require.Contains(t, sh.run("stat", "--versions", "s3://bucket1/dir/a"), "delete marker")
	require.Equal(t, 1.0, sh.json("stat", "--version-id", oldest, "s3://bucket1/dir/a")[0]["size"])

	sh.run("cp", "--version-id", oldest, "s3://bucket1/dir/a", "old")
	require.Equal(t, "1", sh.read("old"))
	sh.run("cp", "--version-id", oldest, "s3://bucket1/dir/a", "s3://bucket1/copy")
	require.Equal(t, "1", sh.object("bucket1", "copy"))

	require.Contains(t, sh.run("rm", "--dry-run", "--version-id", marker, "s3://bucket1/dir/a"), "would delete")
	sh.run("rm", "--version-id", marker, "s3://bucket1/dir/a")
	require.Equal(t, "333", sh.object("bucket1", "dir/a"), "without the marker, the object is there again")
	deleted := sh.json("rm", "--versions", "s3://bucket1/dir/a")
	require.Len(t, deleted, 4)
	require.Equal(t, map[string]any{"op": "summary", "deleted": 3.0, "failed": 0.0}, deleted[3])
	require.Equal(t, "copy dir/ab", sh.keys("bucket1"))
	sh.fails(client.StatusNotFound, "there is nothing to delete at s3://bucket1/dir/a", "rm", "--versions", "s3://bucket1/dir/a")
}

// TestUndelete restores objects one by one, below a prefix, and as of a time.
func TestUndelete(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "--versioning", "s3://bucket1")
	put := func(key, text string) { require.Zero(t, sh.try(text, "pipe", "-q", "s3://bucket1/"+key).status) }
	put("a/1", "old")
	put("a/2", "two")
	time.Sleep(1100 * time.Millisecond) // times of versions have whole seconds in listings of some servers
	before := time.Now().UTC()
	time.Sleep(1100 * time.Millisecond)
	put("a/1", "new")
	put("a/3", "three")
	sh.run("rm", "-rf", "s3://bucket1/a/")
	require.Empty(t, sh.keys("bucket1"))
	require.Contains(t, sh.run("undelete", "--dry-run", "s3://bucket1/a/1"), "would restore s3://bucket1/a/1")
	require.Empty(t, sh.keys("bucket1"))
	sh.run("undelete", "s3://bucket1/a/1")
	require.Equal(t, "new", sh.object("bucket1", "a/1"))
	sh.fails(client.StatusNotFound, "is not deleted", "undelete", "s3://bucket1/a/1")
	sh.fails(client.StatusNotFound, "there are no versions of s3://bucket1/a/9", "undelete", "s3://bucket1/a/9")
	restored := sh.json("undelete", "-r", "s3://bucket1/a")
	require.Len(t, restored, 3)
	require.Equal(t, "restore", restored[0]["op"])
	require.Equal(t, 1.0, restored[0]["markers"])
	require.Equal(t, 2.0, restored[2]["restored"])
	require.Equal(t, "a/1 a/2 a/3", sh.keys("bucket1"))
	sh.run("undelete", "-r", "s3://bucket1", "--at", before.Format(time.RFC3339))
	require.Equal(t, "old", sh.object("bucket1", "a/1"), "the version of that time")
	require.Equal(t, "three", sh.object("bucket1", "a/3"), "what did not exist then does not change")
	versions := sh.json("ls", "-r", "--versions", "s3://bucket1/a/1")
	require.Len(t, versions, 3, "nothing is lost")
	sh.run("undelete", "s3://bucket1/a/1", "--version-id", versions[1]["version_id"].(string))
	require.Equal(t, "new", sh.object("bucket1", "a/1"))
}

// TestTagsAndProperties: what is set is shown.
func TestTagsAndProperties(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1", "--tag", "team=a=b")
	sh.write("f", "text")
	sh.run("cp", "f", "s3://bucket1/f", "--content-type", "text/x-own", "--cache-control", "no-store", "--metadata", "color=blue", "--metadata", "n=1,2=3",
		"--tag", "a=1", "--tag", "b=")
	stat := sh.json("stat", "s3://bucket1/f")[0]
	require.Equal(t, "text/x-own", stat["content_type"])
	require.Equal(t, "no-store", stat["cache_control"])
	metadata := stat["metadata"].(map[string]any)
	require.Equal(t, "blue", metadata["color"])
	require.Equal(t, "1,2=3", metadata["n"])
	require.Contains(t, metadata, "mtime", "the time of the file is always recorded")
	require.Equal(t, map[string]any{"a": "1", "b": ""}, stat["tags"])
	require.NotEmpty(t, stat["checksums"])
	text := sh.run("stat", "s3://bucket1/f")
	for _, line := range []string{"address        s3://bucket1/f\n", "size           4 bytes (4 B)\n", "content type   text/x-own\n", "metadata       color=blue\n", "tag            a=1\n"} {
		require.Contains(t, text, line)
	}
	require.Equal(t, "a=1\nb=\n", sh.run("tag", "list", "s3://bucket1/f"))
	sh.run("tag", "set", "s3://bucket1/f", "a=2", "c=x=y")
	require.Equal(t, map[string]any{"a": "2", "b": "", "c": "x=y"}, sh.json("tag", "list", "s3://bucket1/f")[0]["tags"])
	sh.run("tag", "remove", "s3://bucket1/f", "b")
	sh.fails(client.StatusNotFound, "has no tag b", "tag", "remove", "s3://bucket1/f", "b")
	require.Equal(t, "a=2\nc=x=y\n", sh.run("tag", "list", "s3://bucket1/f"))
	require.Equal(t, "s3://bucket1/f\n", sh.run("find", "s3://bucket1", "--tag", "a=2", "--tag", "c"))
	require.Empty(t, sh.run("find", "s3://bucket1", "--tag", "a=1"))
	sh.run("tag", "set", "--replace", "s3://bucket1/f", "z=1")
	require.Equal(t, "z=1\n", sh.run("tag", "list", "s3://bucket1/f"))
	sh.run("cp", "s3://bucket1/f", "s3://bucket1/g")
	copied := sh.json("stat", "s3://bucket1/g")[0]
	require.Equal(t, map[string]any{"z": "1"}, copied["tags"], "a copy has the tags")
	require.Equal(t, stat["metadata"], copied["metadata"], "and the metadata")
	sh.run("tag", "remove", "s3://bucket1/f")
	require.Empty(t, sh.run("tag", "list", "s3://bucket1/f"))
	require.Equal(t, "team=a=b\n", sh.run("tag", "list", "s3://bucket1"))
	bucket := sh.json("stat", "s3://bucket1")[0]
	require.Equal(t, "disabled", bucket["versioning"])
	require.Equal(t, map[string]any{"team": "a=b"}, bucket["tags"])
	sh.run("mb", "s3://locked1", "--lock")
	require.Contains(t, sh.run("stat", "s3://locked1"), "versioning     enabled\nsettings       object-lock\n")
}

// TestFind: each condition excludes what does not meet it.
func TestFind(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	for key, size := range map[string]int{"a/one.jpg": 10, "a/two.JPG": 20, "b/three.jpg": 30, "c": 0} {
		require.Zero(t, sh.try(strings.Repeat("x", size), "pipe", "-q", "s3://bucket1/"+key).status)
	}
	for _, c := range []struct{ flags, want string }{
		{"", "a/one.jpg a/two.JPG b/three.jpg c"},
		{"--name *.jpg", "a/one.jpg b/three.jpg"},
		{"--name *.jpg --name c", "a/one.jpg b/three.jpg c"},
		{"--larger 10", "a/two.JPG b/three.jpg"},
		{"--smaller 30B", "a/one.jpg a/two.JPG c"},
		{"--larger 0 --smaller 20", "a/one.jpg"},
		{"--newer 1h --older 0s", "a/one.jpg a/two.JPG b/three.jpg c"},
		{"--older 1h", ""},
		{"--newer 2200-01-01", ""},
		{"--limit 2", "a/one.jpg a/two.JPG"},
		{"--limit 1 --name *.jpg", "a/one.jpg"},
	} {
		var keys []string
		for _, object := range sh.json(append([]string{"find", "s3://bucket1"}, strings.Fields(c.flags)...)...) {
			keys = append(keys, object["key"].(string))
		}
		require.Equal(t, c.want, strings.Join(keys, " "), c.flags)
	}
	require.Equal(t, "s3://bucket1/b/three.jpg\n", sh.run("find", "s3://bucket1/b"))
}

// TestDeletionsAsk: nothing that deletes a lot happens by mistake.
func TestDeletionsAsk(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	for _, key := range []string{"logs/1", "logs/2", "logs-old", "x"} {
		require.Zero(t, sh.try("x", "pipe", "-q", "s3://bucket1/"+key).status)
	}
	sh.fails(client.StatusUsage, "rm --recursive s3://bucket1 would delete all objects of the bucket: use --force", "rm", "-r", "s3://bucket1")
	sh.fails(client.StatusUsage, "expected s3://BUCKET/KEY (or --recursive)", "rm", "s3://bucket1")
	sh.fails(client.StatusNotFound, "there is no object s3://bucket1/logs", "rm", "s3://bucket1/logs")
	sh.fails(client.StatusNotFound, "there is nothing to delete", "rm", "-r", "s3://bucket1/nothing")
	require.Equal(t, 2, strings.Count(sh.run("rm", "-rn", "s3://bucket1/logs"), "would delete"))
	require.Empty(t, sh.run("rm", "-r", "--older-than", "1h", "s3://bucket1"))
	require.Equal(t, "logs-old logs/1 logs/2 x", sh.keys("bucket1"))
	sh.run("rm", "-r", "s3://bucket1/logs")
	require.Equal(t, "logs-old x", sh.keys("bucket1"), "a prefix is a directory")
	sh.run("rm", "-f", "s3://bucket1/missing")
	sh.run("rm", "-rf", "s3://bucket1")
	require.Empty(t, sh.keys("bucket1"))
}

// TestLocks: what is locked stays, and the command says so.
func TestLocks(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://locked1", "--lock")
	sh.daemon.retain("locked1", "a", time.Now().Add(time.Hour))
	sh.try("x", "pipe", "-q", "s3://locked1/b")
	d := sh.try("", "rm", "-r", "--force", "--versions", "s3://locked1")
	require.Equal(t, client.StatusSomeFailed, d.status)
	require.Contains(t, d.stderr, "access to s3://locked1/a is denied")
	require.Contains(t, d.stderr, "1 of 2 were not deleted")
	sh.fails(client.StatusSomeFailed, "access to s3://locked1/a is denied", "rb", "--force", "s3://locked1")
	sh.run("rb", "--force", "--bypass-governance", "s3://locked1")
	require.Empty(t, sh.run("ls"))
}

// TestPresign: the URLs work without credentials, and only for what they are for.
func TestPresign(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	sh.write("f", "text")
	sh.run("cp", "f", "s3://bucket1/dir/f")
	link := strings.TrimSpace(sh.run("presign", "s3://bucket1/dir/f", "--download", "näme.txt", "--content-type", "text/x-own"))
	response := fetch(t, "GET", link, "")
	require.Equal(t, "text", response.body)
	require.Equal(t, "text/x-own", response.header.Get("Content-Type"))
	require.Contains(t, response.header.Get("Content-Disposition"), "filename")
	require.Equal(t, 403, fetch(t, "PUT", link, "other").status)
	u, err := url.Parse(link)
	require.NoError(t, err)
	require.Equal(t, "3600", u.Query().Get("X-Amz-Expires"))

	put := strings.TrimSpace(sh.run("presign", "s3://bucket1/new", "--method", "PUT", "--expires", "7d"))
	require.Equal(t, 200, fetch(t, "PUT", put, "new text").status)
	require.Equal(t, "new text", sh.object("bucket1", "new"))

	form := sh.json("presign", "s3://bucket1/up/", "--method", "POST", "--max-size", "10", "--content-type", "text/plain")[0]
	fields := map[string]string{}
	for name, value := range form["fields"].(map[string]any) {
		fields[name] = value.(string)
	}
	require.Subset(t, slices.Collect(maps.Keys(fields)), []string{"policy", "key"})
	require.Less(t, postForm(t, form["url"].(string), fields, "x.txt", "short"), 300)
	require.Equal(t, 400, postForm(t, form["url"].(string), fields, "y.txt", "longer than ten bytes"))
	require.Equal(t, "dir/f new up/x.txt", sh.keys("bucket1"))

	sh.fails(client.StatusUsage, "--expires: expected 1s to 7d, not 192h0m0s", "presign", "s3://bucket1/x", "--expires", "8d")
	sh.fails(client.StatusUsage, "are for --method GET", "presign", "s3://bucket1/x", "--method", "PUT", "--version-id", "x")
	sh.fails(client.StatusUsage, "a URL can be signed only with keys", "presign", "s3://bucket1/x", "--anonymous")
	require.NotEmpty(t, sh.with("AWS_ENDPOINT_URL=http://127.0.0.1:1").run("presign", "s3://bucket1/x"), "no request is sent")
}

// TestAliases manages profiles, whose file only its owner can read.
func TestAliases(t *testing.T) {
	sh := newShell(t)
	endpoint, secret := sh.value("AWS_ENDPOINT_URL"), sh.value("AWS_SECRET_ACCESS_KEY")
	config := filepath.Join(sh.value("HOME"), ".config", "orcas", "config")
	d := sh.try(secret+"\nnot read", "alias", "set", "home", endpoint, "--access-key", sh.value("AWS_ACCESS_KEY_ID"))
	require.Equal(t, "added home in "+config+"; try: orcas ls home://\n", d.stdout, d.stderr)
	info, err := os.Stat(config)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	named := sh.with("AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_ENDPOINT_URL=")
	require.Equal(t, "created home://bucket1\n", named.run("mb", "home://bucket1"))
	require.Equal(t, "home://bucket1", named.json("ls", "home://")[0]["address"])
	named.fails(client.StatusUsage, "no credentials for s3:// addresses", "ls")
	named.fails(client.StatusUsage, "there is no profile hme (the profiles are home): add it with orcas alias set hme URL", "ls", "hme://")
	require.Contains(t, sh.run("alias", "set", "default", endpoint, "--from-env", "--ref-level", "OFF"), "try: orcas ls s3://\n")
	require.Equal(t, "s3://bucket1", named.json("ls")[0]["address"])
	list := named.try("", "alias", "list")
	require.NotContains(t, list.stdout, secret)
	require.Contains(t, list.stdout, "home             "+endpoint+" "+sh.value("AWS_ACCESS_KEY_ID"))
	require.Contains(t, sh.run("alias", "set", "home", endpoint, "--anonymous"), "replaced home")
	named.fails(client.StatusDenied, "access to home://bucket1 is denied", "ls", "home://bucket1")
	sh.run("alias", "remove", "home")
	sh.fails(client.StatusNotFound, "there is no profile home", "alias", "remove", "home")
	require.Equal(t, []any{"default"}, []any{named.json("alias", "list")[0]["name"]})

	sh.fails(client.StatusUsage, "expected --access-key", "alias", "set", "x1", endpoint)
	sh.fails(client.StatusUsage, "expected the secret key of --access-key k", "alias", "set", "x1", endpoint, "--access-key", "k")
	sh.fails(client.StatusUsage, "s3:// addresses use the profile default", "alias", "set", "s3", endpoint, "--anonymous")
	sh.fails(client.StatusUsage, "http://HOST:PORT", "alias", "set", "x1", "localhost:9000", "--anonymous")
	sh.fails(client.StatusUsage, "--from-env cannot be combined", "alias", "set", "x1", endpoint, "--from-env", "--access-key", "k")
	named.fails(client.StatusUsage, "--from-env: AWS_ACCESS_KEY_ID", "alias", "set", "x1", endpoint, "--from-env")
}

// TestProfilesAreRefusedIfOthersCanRead: the message says what to do.
func TestProfilesAreRefusedIfOthersCanRead(t *testing.T) {
	sh := newShell(t)
	sh.run("alias", "set", "open", sh.value("AWS_ENDPOINT_URL"), "--anonymous")
	config := filepath.Join(sh.value("HOME"), ".config", "orcas", "config")
	require.NoError(t, os.Chmod(config, 0o644))
	sh.fails(client.StatusUsage, "has mode 0644, but it contains secret keys: run chmod 600 "+config, "ls")
	require.NoError(t, os.Chmod(config, 0o600))
	require.NoError(t, os.WriteFile(config, []byte("{\"profiles\":\n{x"), 0o600))
	sh.fails(client.StatusUsage, "config, line 2: not valid JSON", "ls")
	sh.with("ORCAS_CONFIG=" + filepath.Join(sh.dir, "other")).run("ls")
}
