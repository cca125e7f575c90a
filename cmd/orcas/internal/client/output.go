package client

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"orcas/internal/bytesize"
)

// output prints lines for people, or JSON objects. It may be used concurrently.
type output struct {
	json bool
	mu   sync.Mutex // guards the rest
	w    *bufio.Writer
	each bool // flush after each line
	err  error
}

func newOutput(w io.Writer, asJSON, terminal bool) *output {
	return &output{json: asJSON, w: bufio.NewWriterSize(w, 64<<10), each: terminal}
}

// line prints a line for people; with --json nothing.
func (o *output) line(format string, args ...any) {
	if o.json {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := fmt.Fprintf(o.w, format+"\n", args...)
	o.done(err)
}

// object prints a JSON object in a line; without --json nothing.
func (o *output) object(v any) {
	if !o.json {
		return
	}
	text, err := json.Marshal(v)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		_, err = o.w.Write(append(text, '\n'))
	}
	o.done(err)
}

// done remembers the first error, and flushes what people wait for.
func (o *output) done(err error) {
	if err == nil && o.each {
		err = o.w.Flush()
	}
	if o.err == nil {
		o.err = err
	}
}

// broken returns the first error of the output, such as that of a closed pipe.
func (o *output) broken() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// redirect prints what is buffered, and everything from now on to w.
func (o *output) redirect(w io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.w.Flush(); o.err == nil {
		o.err = err
	}
	o.w.Reset(w)
}

// flush prints what is buffered. It returns the first error of the output.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.w.Flush(); o.err == nil {
		o.err = err
	}
	return o.err
}

// shown returns a key or a path for people. One with control characters, which could do something to the terminal, is
// quoted.
func shown(s string) string {
	if !utf8.ValidString(s) {
		return strconv.QuoteToGraphic(s)
	}
	for _, r := range s {
		if unicode.IsControl(r) || !unicode.IsGraphic(r) && !unicode.IsSpace(r) {
			return strconv.QuoteToGraphic(s)
		}
	}
	return s
}

// bytesText formats a number of bytes, with a unit if human.
func bytesText(n int64, human bool) string {
	if human {
		return bytesize.Round(n)
	}
	return strconv.FormatInt(n, 10)
}

// localTime formats a time for people.
func localTime(t time.Time) string {
	if t.IsZero() {
		return "                   "
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// jsonTime formats a time for programs, with all digits that the server told.
func jsonTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
