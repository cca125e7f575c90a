package core

import "strings"

// selfExplanatory contains the kinds of errors that people can understand from the text of the cause alone.
var selfExplanatory = map[Kind]bool{Internal: true, InvalidArgument: true, Busy: true, Unsupported: true, NoSuchBucket: true}

// Text returns err as one line of text for people. It omits operations, and kinds that are clear from the cause or
// repeat the kind of the cause. Logs contain err.Error() instead, which has all of them.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(textOf(err), "\n", "; ")
}

func textOf(err error) string {
	if e, ok := err.(*Error); ok {
		if e.Err == nil {
			return e.Kind.String()
		}
		text := textOf(e.Err)
		if selfExplanatory[e.Kind] || Is(e.Err, e.Kind) {
			return text
		}
		return e.Kind.String() + ": " + text
	}
	// The text of a wrapping error contains the text of the error it wraps.
	text := err.Error()
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		text = replaceText(text, wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			text = replaceText(text, inner)
		}
	}
	return text
}

func replaceText(text string, inner error) string {
	if inner == nil {
		return text
	}
	return strings.Replace(text, inner.Error(), textOf(inner), 1)
}
