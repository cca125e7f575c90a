package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// maxFile is the maximum size of a configuration file, in bytes.
const maxFile = 1 << 20

// section is a section of a configuration file of AWS: values by key, in lower case. The keys of nested values have the
// name of the block in front: "s3.addressing_style".
type section map[string]string

// readINI reads a configuration file of AWS as aws-cli does: sections in brackets, KEY = VALUE, comments that begin a
// line with # or ;, and nested values, which are indented under a KEY = without a value. A file that does not exist is
// empty. Errors name the line, and never contain a value.
func readINI(path string) (map[string]section, error) {
	text, err := readLimited(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	sections := map[string]section{}
	var current section
	block, number := "", 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		number++
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';' {
			continue
		}
		indented := line[0] == ' ' || line[0] == '\t'
		if trimmed[0] == '[' && !indented {
			name, ok := sectionName(trimmed)
			if !ok {
				return nil, fmt.Errorf("%s, line %d: expected the name of a section in brackets, such as [default] or [profile NAME]", path, number)
			}
			if current = sections[name]; current == nil {
				current = section{}
				sections[name] = current
			}
			block = ""
			continue
		}
		key, value, ok := strings.Cut(trimmed, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		switch {
		case indented && block == "" && current != nil: // continues a value, which no setting of S3 does
			continue
		case current == nil || !ok || key == "":
			return nil, fmt.Errorf("%s, line %d: expected KEY = VALUE in a section, such as region = us-east-1 below [default]", path, number)
		case indented:
			current[block+"."+key] = value
			continue
		}
		current[key] = value
		if block = ""; value == "" {
			block = key
		}
	}
	return sections, nil
}

// sectionName returns the name in the brackets of a line. The words of a name are joined by one space and lose their
// quotation marks, so [profile "a b"] is "profile a b".
func sectionName(line string) (string, bool) {
	name, rest, ok := strings.Cut(line[1:], "]")
	rest = strings.TrimSpace(rest)
	if !ok || rest != "" && rest[0] != '#' && rest[0] != ';' {
		return "", false
	}
	words, err := splitWords(name)
	return strings.Join(words, " "), err == nil && len(words) > 0
}

// splitWords splits a line into words as a POSIX shell does, with quotation marks and backslashes, and without
// variables.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case '"', '\'':
			inWord = true
			end := quotedEnd(line, i)
			if end < 0 {
				return nil, errors.New("a quotation mark is not closed")
			}
			text := line[i+1 : end]
			if c == '"' {
				text = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(text)
			}
			word.WriteString(text)
			i = end
		case '\\':
			inWord = true
			if i++; i < len(line) {
				word.WriteByte(line[i])
			}
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// quotedEnd returns the index of the quotation mark that closes the one at start, or -1.
func quotedEnd(line string, start int) int {
	for i := start + 1; i < len(line); i++ {
		switch {
		case line[i] == '\\' && line[start] == '"':
			i++
		case line[i] == line[start]:
			return i
		}
	}
	return -1
}

// readLimited reads a whole file that is not larger than a configuration is.
func readLimited(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: expected a file", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes: expected a configuration file of at most %d", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}
