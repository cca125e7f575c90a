package tree

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// patterns parses patterns: "+ PATTERN" includes and "- PATTERN" excludes.
func patterns(t interface {
	Helper()
	Errorf(string, ...any)
	FailNow()
}, list ...string) filter {
	t.Helper()
	var f filter
	for _, s := range list {
		create := Include
		if s[0] == '-' {
			create = Exclude
		}
		p, err := create(s[2:])
		require.NoError(t, err)
		f = append(f, p)
	}
	return f
}

func TestPatterns(t *testing.T) {
	cases := []struct {
		pattern, yes, no string // space-separated paths
	}{
		{"*.txt", "a.txt b/a.txt .txt b/.txt", "a.txt/b atxt a.txt2"},
		{"/*.txt", "a.txt", "b/a.txt"},
		{"a", "a b/a b/c/a", "ab ba a/b"},
		{"dir/**", "dir/a dir/b/c x/dir/a", "dir dirx/a xdir/a"},
		{"dir/", "dir/a dir/b/c x/dir/a", "dir dirx/a"},
		{"/dir/", "dir/a dir/b/c", "x/dir/a"},
		{"a/*/c", "a/b/c x/a/b/c", "a/c a/b/b/c"},
		{"a/**/c", "a/b/c a/b/b/c", "a/c"},
		{"a**", "a ab a/b ab/c x/ab", "ba"},
		{"?", "a b/c ü", "ab"},
		{"[a-c]x", "ax b/cx", "dx abx"},
		{"[^a-c]x", "dx", "ax x"},
		{"[!a-c]x", "dx", "ax x"},
		{"[]]x", "]x", "ax"},
		{"[.^]x", ".x ^x", "ax"},
		{`[\d]x`, `\x dx`, "1x"},
		{"*.{jpg,p*}", "a.jpg a.png a.p", "a.gif a.jpgx"},
		{"{a,b/{c,d}}.x", "a.x b/c.x b/d.x", "c.x b.x"},
		{`\*`, "* a/*", "a"},
		{"a,b", "a,b", "a b"},
		{"a+b(c)|d.e$", "a+b(c)|d.e$", "aab a+b(c) d.e"},
		{"日?.txt", "日本.txt", "日.txt"},
		{"**", "a a/b", ""},
		{"*", "a a/b", ""},
		{"/*", "a", "a/b"},
	}
	for _, c := range cases {
		p, err := Include(c.pattern)
		require.NoError(t, err, c.pattern)
		require.Equal(t, c.pattern, p.String())
		for s := range strings.FieldsSeq(c.yes) {
			require.True(t, filter{p}.includes(s), "%s should match %s", c.pattern, s)
		}
		for s := range strings.FieldsSeq(c.no) {
			require.False(t, filter{p}.includes(s), "%s should not match %s", c.pattern, s)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for pattern, problem := range map[string]string{
		"": "empty", "/": "empty", "[a": "[ without ]", "[a/b]": "cannot contain /", "{a": "{ without }", "a}": "} without {", `a\`: `\ at the end`,
		"[z-a]": "invalid character class range", "\xff": "not valid UTF-8",
	} {
		for _, create := range []func(string) (Pattern, error){Include, Exclude} {
			_, err := create(pattern)
			require.ErrorContains(t, err, problem, pattern)
			require.ErrorContains(t, err, "pattern", pattern)
		}
	}
}

func TestOrderOfPatterns(t *testing.T) {
	cases := []struct {
		patterns string
		yes, no  string
	}{
		{"", "a b/c", ""},
		{"- *.txt", "a b/c", "a.txt b/a.txt"},
		{"+ *.jpg", "a.jpg", "a.txt"},
		{"- *|+ *.txt", "a.txt b/a.txt", "a.jpg"},
		{"- *|+ *.txt|- secret.txt", "a.txt", "secret.txt a.jpg"},
		{"+ *.txt|- secret.txt", "a.txt", "secret.txt a.jpg"},
		{"+ *.txt|- *", "", "a.txt a"},
		{"- dir/|+ dir/keep", "dir/keep a", "dir/a"},
	}
	for _, c := range cases {
		var list []string
		if c.patterns != "" {
			list = strings.Split(c.patterns, "|")
		}
		f := patterns(t, list...)
		for s := range strings.FieldsSeq(c.yes) {
			require.True(t, f.includes(s), "%s: %s", c.patterns, s)
		}
		for s := range strings.FieldsSeq(c.no) {
			require.False(t, f.includes(s), "%s: %s", c.patterns, s)
		}
	}
}

func TestExcludedDirectories(t *testing.T) {
	for _, c := range []struct {
		patterns string
		yes, no  string
	}{
		{"- .git/", ".git/ a/.git/ .git/objects/", "a/ .gitx/"},
		{"- /.git/**", ".git/ .git/objects/", "a/.git/"},
		{"- *", "a/", ""},
		{"- *|+ *.txt", "", "a/"},
		{"- *.txt", "", "a.txt/ a/"},
		{"+ *.txt|- .git/", ".git/", "a/"},
	} {
		f := patterns(t, strings.Split(c.patterns, "|")...)
		for s := range strings.FieldsSeq(c.yes) {
			require.True(t, f.excludesAll(s), "%s: %s", c.patterns, s)
		}
		for s := range strings.FieldsSeq(c.no) {
			require.False(t, f.excludesAll(s), "%s: %s", c.patterns, s)
		}
	}
}

// TestExcludedDirectoriesHaveNothing: nothing below a directory that is not read would be included.
func TestExcludedDirectoriesHaveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[ab*]{1,2}|\*\*`)
		pattern := rapid.Custom(func(t *rapid.T) string {
			sign := rapid.SampledFrom([]string{"+ ", "- ", "- /", "- "}).Draw(t, "sign")
			return sign + strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "/") + rapid.SampledFrom([]string{"", "/", "/**"}).Draw(t, "end")
		})
		f := patterns(t, rapid.SliceOfN(pattern, 0, 3).Draw(t, "patterns")...)
		name := rapid.StringMatching(`[ab]{1,2}(/[ab]{1,2}){0,2}`)
		dir, below := name.Draw(t, "dir"), name.Draw(t, "below")
		if f.excludesAll(dir+"/") && f.includes(dir+"/"+below) {
			t.Fatalf("%q excludes the directory %q, but includes %q", f, dir, dir+"/"+below)
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"*.txt", "/a/**", "{a,[b-c]}?", `\*`, "[!]]", "a//b"} {
		f.Add(s, "a/b.txt")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := Exclude(pattern)
		if err != nil {
			return
		}
		_ = filter{p}.includes(path)
		if !strings.ContainsAny(pattern, `*?[]{}\/`) && pattern != path && (filter{p}).includes(path) == strings.HasSuffix(strings.TrimSuffix(path, "/"), "/"+pattern) {
			t.Fatalf("the pattern %q without special characters does not decide about %q as it should", pattern, path)
		}
		_ = regexp.MustCompile(p.match.String())
	})
}
