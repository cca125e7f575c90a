package tree

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Pattern includes or excludes paths. Create it with Include or Exclude.
//
// Patterns are matched with paths relative to the directory or prefix, such as "photos/2026/a.jpg". In a pattern
//
//   - matches any characters except "/"
//     **       matches any characters
//     ?        matches one character except "/"
//     [a-z]    matches one character of a class, [^a-z] one that is not in it
//     {a,b}    matches a or b, which are patterns too
//     \        takes the following character literally
//
// A pattern that begins with "/" must match the whole path, any other also the end of a path after a "/": "*.txt" matches
// "a.txt" and "b/a.txt", and "/*.txt" only "a.txt". A pattern that ends with "/" matches everything below the directory,
// like "dir/**". These are the patterns of rclone.
//
// The order counts as for the AWS command line: the last pattern that matches a path decides. If no pattern matches,
// the path is included, unless the first pattern of the list includes: with only Include("*.jpg"), nothing else is
// transferred.
type Pattern struct {
	text    string
	include bool
	match   *regexp.Regexp
	below   string // a pattern that ends with "/" or "/**": the directory, without a slash at the end; otherwise ""
	rooted  bool
}

// Include returns a pattern whose paths are transferred.
func Include(pattern string) (Pattern, error) { return newPattern(pattern, true) }

// Exclude returns a pattern whose paths are ignored in both trees: they are neither transferred nor deleted.
func Exclude(pattern string) (Pattern, error) { return newPattern(pattern, false) }

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

func newPattern(text string, include bool) (Pattern, error) {
	p := Pattern{text: text, include: include}
	glob := text
	if rest, ok := strings.CutPrefix(glob, "/"); ok {
		glob, p.rooted = rest, true
	}
	if glob == "" {
		return p, fmt.Errorf("tree: pattern %q is empty", text)
	}
	if !utf8.ValidString(glob) {
		return p, fmt.Errorf("tree: pattern %q is not valid UTF-8", text)
	}
	if strings.HasSuffix(glob, "/") {
		glob += "**"
	}
	if dir, ok := strings.CutSuffix(glob, "/**"); ok && !strings.ContainsAny(dir, `*?[]{}\`) {
		p.below = dir
	}
	expr, err := expression(glob)
	if err != nil {
		return p, fmt.Errorf("tree: pattern %q: %w", text, err)
	}
	start := `(?s)(?:^|/)`
	if p.rooted {
		start = `(?s)^`
	}
	if p.match, err = regexp.Compile(start + expr + `$`); err != nil {
		return p, fmt.Errorf("tree: pattern %q: %w", text, err)
	}
	return p, nil
}

// expression translates a glob into a regular expression.
func expression(glob string) (string, error) {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			if strings.HasPrefix(glob[i:], "**") {
				b.WriteString(".*")
				i++
				continue
			}
			b.WriteString("[^/]*")
		case '?':
			b.WriteString("[^/]")
		case '[':
			class, length, err := classExpression(glob[i:])
			if err != nil {
				return "", err
			}
			b.WriteString(class)
			i += length - 1
		case '{':
			depth++
			b.WriteString("(?:")
		case '}':
			if depth--; depth < 0 {
				return "", errors.New("} without {")
			}
			b.WriteString(")")
		case ',':
			if depth > 0 {
				b.WriteString("|")
				continue
			}
			b.WriteString(",")
		case '\\':
			if i++; i == len(glob) {
				return "", errors.New(`\ at the end`)
			}
			_, size := utf8.DecodeRuneInString(glob[i:])
			b.WriteString(regexp.QuoteMeta(glob[i : i+size]))
			i += size - 1
		default:
			_, size := utf8.DecodeRuneInString(glob[i:])
			b.WriteString(regexp.QuoteMeta(glob[i : i+size]))
			i += size - 1
		}
	}
	if depth > 0 {
		return "", errors.New("{ without }")
	}
	return b.String(), nil
}

// classExpression translates the class at the beginning of glob, and returns its length in bytes.
func classExpression(glob string) (string, int, error) {
	end := 1
	if strings.HasPrefix(glob[end:], "^") || strings.HasPrefix(glob[end:], "!") {
		end++
	}
	start := end
	if strings.HasPrefix(glob[end:], "]") { // a class that contains ]
		end++
	}
	n := strings.IndexByte(glob[end:], ']')
	if n < 0 {
		return "", 0, errors.New("[ without ]")
	}
	members := glob[start : end+n]
	if strings.Contains(members, "/") {
		return "", 0, errors.New("a class cannot contain /")
	}
	quoted := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`, `~`, `\~`).Replace(members)
	if start > 1 {
		return "[^/" + quoted + "]", end + n + 1, nil
	}
	return "[" + quoted + "]", end + n + 1, nil
}

// filter decides about paths with a list of patterns.
type filter []Pattern

// includes reports whether a path is transferred. The slash at the end of a directory is not matched.
func (f filter) includes(path string) bool {
	path = strings.TrimSuffix(path, "/")
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].match.MatchString(path) {
			return f[i].include
		}
	}
	return len(f) == 0 || !f[0].include
}

// excludesAll reports whether nothing below a directory can be included, so that it need not be read. It may return false
// although nothing is.
func (f filter) excludesAll(dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	for i := len(f) - 1; i >= 0; i-- {
		p := &f[i]
		if p.include {
			return false // it might match something below
		}
		if p.coversAll(dir) {
			return true
		}
	}
	return false
}

// coversAll reports whether the pattern matches every path below a directory.
func (p *Pattern) coversAll(dir string) bool {
	if p.text == "*" || p.text == "**" || p.text == "/**" {
		return true
	}
	if p.below == "" {
		return false
	}
	if p.rooted {
		return dir == p.below || strings.HasPrefix(dir, p.below+"/")
	}
	return strings.Contains("/"+dir+"/", "/"+p.below+"/")
}
