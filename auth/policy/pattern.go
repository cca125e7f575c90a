package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// tokenKind is the type of a part of a pattern.
type tokenKind uint8

const (
	literal    tokenKind = iota
	anyText              // "*"
	anyChar              // "?"
	isVariable           // "${...}": replaced by a literal when a request is known
)

type token struct {
	kind     tokenKind
	text     string // of a literal
	variable *variable
}

// variable is a policy variable: a condition key, and the text that replaces it if the request has no value for it.
type variable struct {
	key        conditionKey
	hasDefault bool
	value      string // the default
}

// syntax is the set of special characters that a text can have.
type syntax uint8

const (
	wildcards syntax = 1 << iota
	variables
)

// parsePattern splits a text into tokens.
func parsePattern(text string, with syntax) ([]token, error) {
	var tokens []token
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			tokens = append(tokens, token{kind: literal, text: plain.String()})
			plain.Reset()
		}
	}
	for i := 0; i < len(text); {
		switch {
		case with&wildcards != 0 && text[i] == '*':
			flush()
			if len(tokens) == 0 || tokens[len(tokens)-1].kind != anyText {
				tokens = append(tokens, token{kind: anyText})
			}
			i++
		case with&wildcards != 0 && text[i] == '?':
			flush()
			tokens = append(tokens, token{kind: anyChar})
			i++
		case with&variables != 0 && strings.HasPrefix(text[i:], "${"):
			v, special, n, err := parseVariable(text[i:])
			if err != nil {
				return nil, err
			}
			if v != nil {
				flush()
				tokens = append(tokens, token{kind: isVariable, variable: v})
			}
			plain.WriteString(special)
			i += n
		default:
			plain.WriteByte(text[i])
			i++
		}
	}
	flush()
	return tokens, nil
}

var errVariable = errors.New("a variable must have the form ${KEY} or ${KEY, 'DEFAULT'}")

// parseVariable parses the variable at the beginning of a text. It returns either the variable or the special character
// that it stands for, and its length.
func parseVariable(text string) (v *variable, special string, n int, err error) {
	end := strings.IndexAny(text, ",}")
	if end < 0 {
		return nil, "", 0, errVariable
	}
	name := strings.TrimSpace(text[len("${"):end])
	if text[end] == '}' && (name == "*" || name == "?" || name == "$") {
		return nil, name, end + 1, nil
	}
	key, ok := keyNamed(name)
	switch {
	case !ok:
		return nil, "", 0, fmt.Errorf("the variable ${%s} is not a condition key", name)
	case key.list:
		return nil, "", 0, fmt.Errorf("the key %s may have several values, so it cannot be a variable", key.name)
	}
	v = &variable{key: key}
	if text[end] == '}' {
		return v, "", end + 1, nil
	}
	rest := strings.TrimLeft(text[end+1:], " ")
	if !strings.HasPrefix(rest, "'") {
		return nil, "", 0, errVariable
	}
	value, rest, ok := strings.Cut(rest[1:], "'")
	rest = strings.TrimLeft(rest, " ")
	if !ok || !strings.HasPrefix(rest, "}") {
		return nil, "", 0, errVariable
	}
	v.hasDefault, v.value = true, value
	return v, "", len(text) - len(rest) + 1, nil
}

// variablesOf appends the variables of tokens to list.
func variablesOf(list []*variable, tokens []token) []*variable {
	for i := range tokens {
		if tokens[i].kind == isVariable {
			list = append(list, tokens[i].variable)
		}
	}
	return list
}

// isLiteral reports whether tokens contain neither wildcards nor variables.
func isLiteral(tokens []token) bool {
	return len(tokens) == 0 || len(tokens) == 1 && tokens[0].kind == literal
}

// match reports whether the whole of s matches tokens, which have no variables. It takes a time proportional to the
// product of the lengths at most: if the tokens after a "*" do not match, only the last "*" is extended.
func match(tokens []token, s string) bool {
	next, at := 0, 0      // the next token, and the position in s
	star, starAt := -1, 0 // the last "*", and the end of what it matches
	for {
		switch {
		case next == len(tokens):
			if at == len(s) {
				return true
			}
		case tokens[next].kind == anyText && next == len(tokens)-1:
			return true
		case tokens[next].kind == anyText:
			star, starAt = next, at
			next++
			continue
		case tokens[next].kind == anyChar:
			if at < len(s) {
				at += charLen(s[at:])
				next++
				continue
			}
		case strings.HasPrefix(s[at:], tokens[next].text):
			at += len(tokens[next].text)
			next++
			continue
		}
		if star < 0 || starAt == len(s) {
			return false
		}
		starAt += charLen(s[starAt:])
		next, at = star+1, starAt
	}
}

// charLen returns the length of the first character of s, which is not empty.
func charLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// truth is the result of matching a statement with a request. If a decision is about all keys of a bucket, a statement
// may match some of them.
type truth uint8

const (
	no truth = iota
	maybe
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// matchPrefix matches tokens with all strings that begin with prefix and are longer. The results yes and no are exact;
// maybe includes patterns that match all of the strings in an unusual way.
func matchPrefix(tokens []token, prefix string) truth {
	if last := len(tokens) - 1; last >= 0 && tokens[last].kind == anyText && match(tokens, prefix) {
		return yes // without its last "*", the pattern matches the beginning of prefix
	}
	rest := prefix
	for i := range tokens {
		switch t := &tokens[i]; {
		case t.kind == anyText:
			return maybe // it can match the rest of prefix and more
		case t.kind == anyChar && rest == "":
			return maybe
		case t.kind == anyChar:
			rest = rest[charLen(rest):]
		case strings.HasPrefix(rest, t.text):
			rest = rest[len(t.text):]
		default:
			if strings.HasPrefix(t.text, rest) {
				return maybe
			}
			return no
		}
	}
	return no // the pattern ends within prefix
}
