package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"unicode"
)

// textHandler is a slog.Handler for lines that people read on a terminal:
//
//	15:04:05 WARN  requests in flight were aborted after=30s
//
// Text that is ambiguous, or could move the cursor, is quoted.
type textHandler struct {
	out    io.Writer // gets each line in one Write
	level  slog.Leveler
	prefix string // prepended to the names of attributes: the groups, each followed by a dot
	fixed  string // formatted attributes that every line has
}

func newTextHandler(out io.Writer, level slog.Leveler) *textHandler {
	return &textHandler{out: out, level: level}
}

// Enabled implements slog.Handler.
func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Handle implements slog.Handler.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %s%s", r.Time.Format("15:04:05"), r.Level, printable(r.Message), h.fixed)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, h.prefix, a)
		return true
	})
	b.WriteByte('\n')
	_, err := io.WriteString(h.out, b.String())
	return err
}

// WithAttrs implements slog.Handler.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, h.prefix, a)
	}
	with.fixed += b.String()
	return &with
}

// WithGroup implements slog.Handler.
func (h *textHandler) WithGroup(name string) slog.Handler {
	with := *h
	if name != "" {
		with.prefix += name + "."
	}
	return &with
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	switch {
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			writeAttr(b, prefix, member)
		}
	case a.Key != "" && !(v.Kind() == slog.KindAny && v.Any() == nil):
		text := v.String()
		if text == "" || strings.ContainsAny(text, " \"=") || !plain(text) {
			text = strconv.Quote(text)
		}
		fmt.Fprintf(b, " %s%s=%s", prefix, printable(a.Key), text)
	}
}

// plain reports whether a terminal shows every character of text.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
}

// printable quotes text that is not plain.
func printable(text string) string {
	if plain(text) {
		return text
	}
	return strconv.Quote(text)
}
