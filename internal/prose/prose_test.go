// Package prose holds the test behind `make prose`: it finds phrases that are not idiomatic English in documents,
// comments, messages and help texts, and lines of documents that are too long. It has no code of its own.
//
// It reads every Markdown file and script of the tree, and the comments and string literals of every Go file.
package prose

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// lineMax is the number of columns that a line of a document may have. Rows of tables cannot be wrapped, so they may be
// longer.
const lineMax = 120

// banned maps phrases to replacements. They are matched in lower case, and across line breaks. A text that does not
// contain the word cannot contain the phrase, so the slower search for the phrase is skipped.
var banned = []struct{ word, phrase, instead string }{
	{"whether", `\b(say|says|said|saying|tell|tells|told|telling) whether\b`, "reports whether"},
	{"go of", `\b(let|lets|letting) go of\b`, "releases"},
	{"room back", `\b(gives?|gave|given|giving)( \w+){0,3} room back\b`, "frees its space"},
	{"back", `\b(gives?|gave|given|giving) back (the|its|their|no) room\b`, "frees the space"},
	{"room of what", `\broom of what\b`, "space of deleted objects"},
	{"unasked", `\bunasked\b`, "by itself, automatically, by default"},
	{"anew", `\banew\b`, "again, re-"},
	{"due", `\bwhat (is|are|was|they say is) due\b`, "what has expired"},
	{"against", `\b(hold|holds|held|holding)\b[^.,;:]{0,60}\bagainst\b`, "checks, compares with"},
	{"mend", `\bmend(s|ed|ing)?([^a-z-]|$)`, "repair"}, // in names of mutants, a hyphen follows
	{"be had", `\b(is|are|was|were|has|have) (not )?to be had\b`, "cannot be obtained"},
	{"the way", `\bthe ways? of a (batch|request|change)\b`, "path"},
	{"in whose place", `\bin whose place\b`, "it replaces"},
	{"that which", `\bthat which\b`, "what, the content that"},
	{"none", `\bwhere there (is|are|was|were) none\b`, "if absent"},
	{"made where", `\bmade where\b`, "created if"},
	{"such thing", `\bno such thing\b`, "name the thing"},
	{"of it", `\b(came|comes|come) of it\b`, "the result"},
	{"may everything", `\bmay everything\b`, "may do everything"},
	{"as it goes", `\bas fast as it goes\b`, "as fast as possible"},
	{"there", `\bwhat (there (is|was)|is there)\b`, "name it: the existing content, the remaining files"},
	{"taken", `\bplaces? (is|are) taken\b`, "is already in use"},
	{"twice", `\bcom(e|es|ing) twice\b`, "is used twice, already exists"},
	{"content", `\b(a|one|each|every|another) content (that|which|is|was|has|of)\b`, "content, a piece of content"},
}

// skippedDirs contain no text that was written for this project. generated are files written by programs whose own
// texts are checked.
var (
	skippedDirs = []string{".git", ".venv", ".programs", ".tools", "bin", "data", "node_modules", "testdata", "internal/prose", "docs/perf"}
	generated   = []string{"PERFORMANCE_TEST_REPORT.md", "docs/reliability.md"}
	scripts     = []string{".sh", ".py", ".mjs", ".mk", ".tmpl", ".html", ".md", ".yml"}
)

// finding is a problem at a line of a file.
type finding struct {
	line    int
	message string
}

func TestProse(t *testing.T) {
	const root = "../.."
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if slices.Contains(skippedDirs, name) || slices.Contains(skippedDirs, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || slices.Contains(generated, name) {
			return nil
		}
		extension := filepath.Ext(name)
		if extension != ".go" && !slices.Contains(scripts, extension) && d.Name() != "Makefile" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, f := range check(extension, text) {
			t.Errorf("%s:%d: %s", name, f.line, f.message)
		}
		return nil
	}))
}

func TestCheckFindsEachPhrase(t *testing.T) {
	for text, want := range map[string]int{
		"It says whether it runs.": 1, "It reports whether it runs.": 0, "It lets\ngo of the block.": 1, "It gives its room back.": 1,
		"It gives back the room.": 1, "unasked": 1, "It is made anew.": 1, "what is due": 1, "It holds each sum against a count.": 1,
		"The sums were held against\nthe model.": 1, "It holds. Against that, it fails.": 0, "The scrub mended it.": 1, "amendment": 0,
		"It is not to be had.": 1, "the way of a batch": 1, "the version in whose place it comes": 1, "that which is new": 1,
		"if it is not there, one is made where it is missing": 1, "none where there is none": 1, "`mended` counts contents": 0, "what came of it": 1, "the room of what was deleted": 1,
		strings.Repeat("long ", 30): 1, "| " + strings.Repeat("long ", 30): 0, "no such thing": 1,
		"the owner may everything": 1, "as fast as it goes": 1, "It keeps what is there.": 1, "It restores what there was.": 1,
		"Its places are taken.": 1, "An ID that comes twice.": 1, "a content that is stored": 1, "one content type that": 0,
	} {
		require.Len(t, check(".md", []byte(text+"\n")), want, text)
	}
	code := "package x // it is made\n\n// F lets\n// go of it.\nfunc F() error { return errors.New(\"made anew\") }\n\n" +
		"type t struct {\n\tmended int `json:\"mended\"`\n}\n"
	require.Equal(t, []finding{{3, `"lets go of": write "releases"`}, {5, `"anew": write "again, re-"`}}, check(".go", []byte(code)))
}

// check returns the problems in the text of a file, in the order of its lines.
func check(extension string, text []byte) []finding {
	var findings []finding
	switch extension {
	case ".go":
		for _, p := range passages(text) {
			findings = append(findings, p.check()...)
		}
		return findings
	case ".md":
		findings = longLines(text)
		text = codeSpan.ReplaceAllFunc(text, func(span []byte) []byte { return bytes.Repeat([]byte("x"), len(span)) })
	}
	p := passage{line: 1, text: string(text)}
	findings = append(findings, p.check()...)
	slices.SortStableFunc(findings, func(a, b finding) int { return a.line - b.line })
	return findings
}

// codeSpan matches code within a line of Markdown: names of fields and commands, which are not checked.
var codeSpan = regexp.MustCompile("`[^`\n]*`")

func longLines(text []byte) []finding {
	var findings []finding
	for i, line := range bytes.Split(text, []byte("\n")) {
		if n := utf8.RuneCount(line); n > lineMax && !bytes.HasPrefix(line, []byte("|")) {
			findings = append(findings, finding{i + 1, fmt.Sprintf("%d columns: at most %d", n, lineMax)})
		}
	}
	return findings
}

// passage is a piece of text, and the line at which it begins.
type passage struct {
	line int
	text string
}

// passages returns the comments and the string literals of a Go file; consecutive lines of comments are one passage.
func passages(src []byte) []passage {
	var (
		s       scanner.Scanner
		list    []passage
		comment = -1 // the last line of the previous comment, if the next one may continue it
	)
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		line := file.Line(pos)
		switch kind {
		case token.EOF:
			return list
		case token.COMMENT:
			if line == comment+1 && strings.HasPrefix(literal, "//") {
				list[len(list)-1].text += "\n" + strings.TrimPrefix(literal, "//")
			} else {
				list = append(list, passage{line, strings.TrimPrefix(literal, "//")})
			}
			comment = line + strings.Count(literal, "\n")
		case token.STRING:
			if !strings.HasPrefix(literal, "`json:") {
				list = append(list, passage{line, literal})
			}
			comment = -1
		case token.SEMICOLON: // the scanner inserts it at a line end
		default:
			comment = -1
		}
	}
}

var (
	space   = regexp.MustCompile(`[ \t]*\n[ \t#]*`)
	phrases = func() (all []*regexp.Regexp) {
		for _, b := range banned {
			all = append(all, regexp.MustCompile(b.phrase))
		}
		return all
	}()
)

// check returns the banned phrases of a passage. A line break counts as a space, but a blank line ends a phrase.
func (p *passage) check() []finding {
	// starts are the offsets in the joined text at which lines of the passage begin.
	var joined strings.Builder
	starts := []int{0}
	at := 0
	for _, gap := range space.FindAllStringIndex(p.text, -1) {
		joined.WriteString(p.text[at:gap[0]])
		for range strings.Count(p.text[gap[0]:gap[1]], "\n") {
			starts = append(starts, joined.Len()+1)
		}
		joined.WriteByte(' ')
		at = gap[1]
	}
	joined.WriteString(p.text[at:])
	text := strings.ToLower(joined.String())
	var findings []finding
	for i, phrase := range phrases {
		if !strings.Contains(text, banned[i].word) {
			continue
		}
		for _, m := range phrase.FindAllStringIndex(text, -1) {
			line := p.line + sort.SearchInts(starts, m[0]+1) - 1
			findings = append(findings, finding{line, fmt.Sprintf("%q: write %q", text[m[0]:m[1]], banned[i].instead)})
		}
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return a.line - b.line })
	return findings
}
