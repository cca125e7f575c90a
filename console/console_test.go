package console

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPageIsSmall: what a browser loads is small, and every module that a file imports is a file of the program.
func TestPageIsSmall(t *testing.T) {
	files, err := load()
	require.NoError(t, err)
	total := 0
	for name, f := range files {
		total += len(f.packed)
		if !strings.HasSuffix(name, ".js") && !strings.HasSuffix(name, ".mjs") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)(?:^|[;}])(?:import\s*|(?:import|export)\b[^"';=]*?\bfrom\s*)["']([^"'\n]+)["']`).FindAllStringSubmatch(string(f.plain), -1) {
			require.True(t, strings.HasPrefix(m[1], "./"), "%s imports %q, which browsers cannot resolve", name, m[1])
			require.Contains(t, files, path.Join(path.Dir(name), m[1]), name)
		}
		if strings.HasPrefix(name, "vendor/") {
			continue
		}
		for _, unsafe := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "document.write", "eval(", "new Function", "javascript:"} {
			require.NotContains(t, string(f.plain), unsafe, name)
		}
	}
	require.Less(t, total, 300<<10)
	page := string(files["index.html"].plain)
	require.NotContains(t, page, "style=")
	require.NotRegexp(t, `<script(?:\s+type="module")?>`, page, "the policy does not allow scripts in the page")
	require.NotContains(t, policy, "unsafe")
}

// TestEntryNames: no name leads out of the directory into which an archive is unpacked.
func TestEntryNames(t *testing.T) {
	for name, want := range map[string]string{
		"a/b.txt": "a/b.txt", "a/": "a/", "ünïcödé": "ünïcödé", "a b": "a b",
	} {
		require.Equal(t, want, entryName(name, "key"), name)
	}
	seen := map[string]bool{}
	for _, name := range []string{"../a", "a/../../b", "/etc/passwd", "..", ".", "", "//", "a//b", `a\..\b`, "C:a", "line\nbreak", "\xff", "a/./b", errorsFile, "a\x00b"} {
		got := entryName(name, name)
		require.NotEqual(t, name, got)
		require.False(t, seen[got], got)
		seen[got] = true
		require.NotContains(t, got, `\`)
		require.False(t, strings.HasPrefix(got, "/"), got)
		for _, part := range strings.Split(strings.TrimSuffix(got, "/"), "/") {
			require.NotContains(t, []string{"", ".", ".."}, part, got)
		}
	}
}

// TestAttachment: the name of a download cannot add headers or parameters.
func TestAttachment(t *testing.T) {
	for key, want := range map[string]string{
		"/b/a.txt": "attachment; filename=a.txt", "/b/a b.txt": `attachment; filename="a b.txt"`, "/b/": "attachment; filename=b",
		"/b/a\"b": `attachment; filename="a\"b"`, "/b/a\r\nSet-Cookie: x": `attachment; filename="a__Set-Cookie: x"`, "": "attachment",
		"/b/ü": "attachment; filename*=utf-8''%C3%BC",
	} {
		require.Equal(t, want, attachment(key), "%q", key)
	}
}
