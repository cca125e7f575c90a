package tree

import (
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	unix, windows := nameRules{}, nameRules{windows: true}
	for _, path := range []string{"a", "a/b", "a/b/", ".a", "a..b", "...", strings.Repeat("x", 255), "ü/日本", "CONSOLE", "COMX", "COM10", "a.con"} {
		require.NoError(t, unix.check(path), path)
		if path != "..." {
			require.NoError(t, windows.check(path), path)
		}
	}
	for _, path := range []string{"", "/", "/a", "a//b", "a//", "..", "../x", "a/..", "a/../b", ".", "./a", "a/.", "a\x00b", strings.Repeat("x", 256),
		"a/" + strings.Repeat("é", 128), ".orcas-0123456789abcdef.tmp", "a/.orcas-0123456789abcdef"} {
		require.Error(t, unix.check(path), path)
		require.Error(t, windows.check(path), path)
	}
	for _, path := range []string{"CON", "con", "a/NUL", "nul.txt", "Aux.tar.gz", "COM1", "lpt9.x", "COM²", "CONIN$", "a.", "a ", "a/b. /c", `a\b`, `..\x`, "a:b",
		"a*", "a?", `a"b`, "a<b", "a>b", "a|b", "a\x1fb", "NUL .txt"} {
		require.NoError(t, unix.check(path), path)
		require.Error(t, windows.check(path), path)
	}
}

func TestKeys(t *testing.T) {
	require.NoError(t, checkKey("ü/日本"))
	require.NoError(t, checkKey(strings.Repeat("x", 1024)))
	require.ErrorContains(t, checkKey("a\xffb"), "UTF-8")
	require.ErrorContains(t, checkKey(strings.Repeat("x", 1025)), "1025 bytes")
}

// TestAncestry compares with a search in all paths.
func TestAncestry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfDistinct(rapid.StringMatching(`[ab](-|/|[ab]|\.){0,5}[ab]/?`), func(s string) string { return s }).Draw(t, "paths")
		slices.Sort(list)
		var s ancestry
		kept := map[string]bool{}
		for _, path := range list {
			want := ""
			for dir := path; strings.Contains(dir, "/"); {
				dir = dir[:strings.LastIndexByte(dir, '/')]
				if kept[dir] {
					want = dir // the ancestor
					break
				}
			}
			got := s.add(path, path)
			require.Equal(t, want, got, path)
			if got == "" && !strings.HasSuffix(path, "/") {
				kept[path] = true
			}
		}
	})
	var s ancestry
	require.Empty(t, s.add("x", "x"))
	require.Equal(t, "x", s.add("x.rclonelink", "x"), "a link and a file of the same name")
	s = ancestry{}
	require.Empty(t, s.add("x.rclonelink", "x"))
	require.Equal(t, "x", s.add("x/y", "x/y"), "nothing is below a link")
}

func TestFolding(t *testing.T) {
	f := newFolded()
	require.False(t, f.add("Readme"))
	require.False(t, f.add("Readme.txt"))
	require.True(t, f.add("README"))
	require.False(t, f.add("Straße"))
	require.True(t, f.add("STRAßE"))
	require.Equal(t, "aBC ü1", swapCase("Abc Ü1"))
	require.Equal(t, runtime.GOOS == "windows" || runtime.GOOS == "darwin", foldsCase(t.TempDir()))
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Time{
		"0": time.Unix(0, 0), "1580702706.789": time.Unix(1580702706, 789_000_000), "1580702706": time.Unix(1580702706, 0),
		"1.000000001": time.Unix(1, 1), "1.0000000019": time.Unix(1, 1), "1.5": time.Unix(1, 500_000_000), "-1.5": time.Unix(-2, 500_000_000),
	} {
		got, ok := parseTime(text)
		require.True(t, ok, text)
		require.True(t, want.Equal(got), "%s: %s, expected %s", text, got, want)
	}
	for _, text := range []string{"", "x", "1.x", "1.-5", "+1", "--1", "1e9", " 1", "99999999999999999999", "2000-01-01T00:00:00Z", "1.+5"} {
		_, ok := parseTime(text)
		require.False(t, ok, text)
	}
	require.Equal(t, "1580702706.789", formatTime(1580702706_789_000_000))
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "ns")
		got, ok := parseTime(formatTime(ns))
		require.True(t, ok)
		require.Equal(t, ns, got.UnixNano())
	})
	require.True(t, sameTime(time.Unix(7, 0), 7_999_999_999), "a program that knows only seconds")
	require.False(t, sameTime(time.Unix(7, 1), 7_000_000_002))
}

func TestModes(t *testing.T) {
	for text, want := range map[string]uint32{
		"33188": 0o100644, "16877": 0o040755, "41471": 0o120777, // s3fs
		"100644": 0o100644, "40755": 0o040755, "120777": 0o120777, "41777": 0o041777, "644": 0o644, "0644": 0o644, // rclone
	} {
		got, ok := parseMode(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "x", "rw-r--r--", "-1", "99999", "777777777", "0o644"} {
		_, ok := parseMode(text)
		require.False(t, ok, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		mode := fs.FileMode(rapid.Uint32Range(0, 0o777).Draw(t, "mode")) | rapid.SampledFrom([]fs.FileMode{0, fs.ModeDir}).Draw(t, "type")
		e := entry{mode: mode, owner: 1000, group: 0, owned: true}
		a := readAttributes(metadata(&e, map[string]string{"x": "y"}, true))
		require.Equal(t, unixMode(mode), a.mode)
		require.Equal(t, 1000, a.owner)
		require.Equal(t, 0, a.group)
	})
	link := entry{mode: fs.ModeSymlink | 0o777}
	a := readAttributes(metadata(&link, nil, true))
	require.True(t, a.isLink())
	require.Equal(t, -1, a.owner)
}
