package prose

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// namedFile matches a file of the source tree in backticks.
	namedFile = regexp.MustCompile("`([a-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+\\.(?:go|md|sh|mk|py|json|tmpl|jsonl))`")
	// namedTest matches a test, a benchmark or a fuzz test in backticks.
	namedTest = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*)`")
	// namedTarget matches the target of a make command.
	namedTarget = regexp.MustCompile(`(?m)^make(?: [A-Z_]+=\S+)* ([a-z][a-z0-9-]*)`)
	// goTest matches a go test command, and captures its arguments.
	goTest = regexp.MustCompile(`(?m)^go test ([^\n#]*)`)
	// goFunc matches a test function in a Go file.
	goFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	// makeTarget matches a target in a makefile.
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
)

// documents returns the texts of the handwritten Markdown files, by name.
func documents(t *testing.T, root string) map[string]string {
	texts := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && (slices.Contains(skippedDirs, name) || slices.Contains(skippedDirs, d.Name())):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" || slices.Contains(generated, name):
			return nil
		}
		text, err := os.ReadFile(path)
		texts[name] = string(text)
		return err
	}))
	return texts
}

// commands returns the code of a document, one command or name on a line: lines of code blocks, and code within lines.
func commands(text string) string {
	var lines []string
	fenced := false
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced || strings.HasPrefix(line, "    "):
			lines = append(lines, strings.Split(strings.TrimSpace(line), " && ")...)
		default:
			for _, span := range codeSpan.FindAllString(line, -1) {
				lines = append(lines, strings.Trim(span, "`"))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// testsOf returns the names of the tests in a package and, if deep, in those below it.
func testsOf(t *testing.T, dir string, deep bool) (names []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && path != dir && (!deep || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range goFunc.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		return err
	}))
	return names
}

// TestDocumentsNameWhatExists checks the files, tests, make targets and go test commands that documents name.
func TestDocumentsNameWhatExists(t *testing.T) {
	const root = "../.."
	texts := documents(t, root)
	require.Contains(t, texts, "docs/contributing/change.md")
	all := testsOf(t, root, true)
	targets := map[string]bool{}
	for _, name := range []string{"Makefile", "faults/faults.mk", "deploy/release.mk"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for _, m := range makeTarget.FindAllSubmatch(text, -1) {
			targets[string(m[1])] = true
		}
	}
	for name, text := range texts {
		for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(m[1], "/")
			if _, err := os.Stat(filepath.Join(root, first)); err != nil && first != ".." {
				continue // a file of a data directory, or of another program
			}
			_, fromRoot := os.Stat(filepath.Join(root, m[1]))
			_, fromHere := os.Stat(filepath.Join(root, filepath.Dir(name), m[1]))
			assert.True(t, fromRoot == nil || fromHere == nil, "%s: there is no file %s", name, m[1])
		}
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			assert.Contains(t, all, m[1], "%s: there is no test %s", name, m[1])
		}
		code := commands(text)
		for _, m := range namedTarget.FindAllStringSubmatch(code, -1) {
			assert.True(t, targets[m[1]], "%s: there is no make target %s", name, m[1])
		}
		for _, m := range goTest.FindAllStringSubmatch(code, -1) {
			checkGoTest(t, root, name, m[1])
		}
	}
}

// checkGoTest checks the packages of a go test command, and that each name in its -run pattern begins the name of a
// test in them.
func checkGoTest(t *testing.T, root, document, arguments string) {
	words := strings.Fields(arguments)
	var tests []string
	for _, word := range words {
		if dir, ok := strings.CutPrefix(word, "./"); ok {
			dir, deep := strings.CutSuffix(dir, "...")
			assert.DirExists(t, filepath.Join(root, dir), "%s: go test %s", document, arguments)
			tests = append(tests, testsOf(t, filepath.Join(root, dir), deep)...)
		}
	}
	i := slices.Index(words, "-run")
	if i < 0 || i+1 == len(words) {
		return
	}
	pattern, _, _ := strings.Cut(strings.NewReplacer("'", "", `\`, "", "^", "", "$", "").Replace(words[i+1]), "/")
	for _, want := range strings.Split(pattern, "|") {
		found := slices.ContainsFunc(tests, func(name string) bool { return strings.Contains(name, want) })
		assert.True(t, found, "%s: go test %s: no test has %s in its name", document, arguments, want)
	}
}
