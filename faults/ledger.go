package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Name names a thing that requests change: an object (Key alone), an upload in progress (Key and Upload) or a part of
// one, a bucket beside the main one (Bucket alone), or something in that (Bucket, too). An upload whose id the client
// never learnt is named "?" and a number.
type Name struct {
	Key    string `json:"key"`
	Upload string `json:"upload,omitempty"`
	Part   int    `json:"part,omitempty"`
	Bucket string `json:"bucket,omitempty"`
}

// String writes the name for reports.
func (n Name) String() string {
	switch {
	case n.Bucket != "" && n.Key == "":
		return "bucket " + n.Bucket
	case n.Bucket != "":
		bucket := n.Bucket
		n.Bucket = ""
		return bucket + "/" + n.String()
	case n.Part > 0:
		return fmt.Sprintf("part %d of upload %s of %q", n.Part, n.Upload, n.Key)
	case n.Upload != "":
		return fmt.Sprintf("upload %s of %q", n.Upload, n.Key)
	}
	return fmt.Sprintf("%q", n.Key)
}

// Effect means that a thing gets a value, or ceases to exist if the value is nil.
type Effect struct {
	Name  Name   `json:"name"`
	Value *Value `json:"value"`
}

// The types of records.
const (
	Begin   = "begin"   // a request is about to be sent: its Effects may happen from now on
	Done    = "done"    // it was acknowledged: its Effects (those of Begin where it has none) have happened
	Refused = "refused" // it was refused: nothing happened
	Unknown = "unknown" // it failed, so nobody knows
	Seen    = "seen"    // the check found these Effects, so they are certain now
	Checked = "checked" // the check is over: no request that began before it is pending any more
	Cut     = "cut"     // the power is about to be cut
	CutDone = "cutdone" // the power is off
	Rewind  = "rewind"  // what follows goes on from what the cut left
	Note    = "note"    // a remark: a start, a kill
)

// Record is a line of the ledger.
type Record struct {
	Type    string   `json:"type"`
	Request uint64   `json:"request,omitempty"` // the number of the request, from 1
	Time    int64    `json:"time"`              // nanoseconds since 1970
	Op      string   `json:"op,omitempty"`
	Atomic  bool     `json:"atomic,omitempty"` // all of Effects happen, or none
	Effects []Effect `json:"effects,omitempty"`
	Steps   []Step   `json:"steps,omitempty"` // the same of keys with versions; with Done: what it saw
	IDs     []string `json:"ids,omitempty"`   // with Done: the ids that versions were given, beside the Steps of Begin
	Text    string   `json:"text,omitempty"`

	// Window, with a Cut of a server that answers before it is durable, is how long before the cut its writes are
	// durable.
	Window time.Duration `json:"window,omitempty"`
}

// Ledger is the file of records and the State that follows from them. Records reach the operating system before the
// call that writes them returns.
type Ledger struct {
	mu    sync.Mutex // guards the fields below
	file  *os.File
	next  uint64 // the number of the next request
	state *State
	err   error // the first failed write
}

// OpenLedger opens or begins the ledger at path.
func OpenLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{file: f, next: 1, state: newState()}
	err = readRecords(f, func(r Record) error {
		l.next = max(l.next, r.Request+1)
		for _, e := range r.Effects {
			if e.Value == nil {
				continue
			}
			for _, p := range e.Value.Pieces {
				l.next = max(l.next, p.ID+1)
			}
		}
		for _, s := range r.Steps {
			if s.Version != nil && s.Version.Value != nil {
				for _, p := range s.Version.Value.Pieces {
					l.next = max(l.next, p.ID+1)
				}
			}
		}
		return l.state.apply(r)
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read ledger %s: %w", path, err)
	}
	return l, nil
}

// readRecords calls fn for each record of a ledger.
func readRecords(r io.Reader, fn func(Record) error) error {
	dec := json.NewDecoder(bufio.NewReaderSize(r, 1<<20))
	for {
		var rec Record
		err := dec.Decode(&rec)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(rec)
		}
		if err != nil {
			return err
		}
	}
}

// Relax means that from now on the server answers before writes are durable, so each Cut has a Window.
func (l *Ledger) Relax() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.relax()
}

// Close closes the file and returns the first error of all writes.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Close(); l.err == nil {
		l.err = err
	}
	return l.err
}

// Number returns an unused number for a request. Contents use it as their ID.
func (l *Ledger) Number() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next - 1
}

// Write appends a record. After a failed write, all later writes and Close return its error.
func (l *Ledger) Write(r Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	r.Time = time.Now().UnixNano()
	line, err := json.Marshal(r)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = l.state.apply(r)
	}
	l.err = err
	return err
}

// Value returns the value of a thing and reports whether it is certain.
func (l *Ledger) Value(n Name) (*Value, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.state.candidates(n)
	return c[len(c)-1].value, len(c) == 1
}

// May reports whether a thing may exist, and whether it may not exist.
func (l *Ledger) May(n Name) (exist, lack bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.state.candidates(n) {
		exist = exist || c.value != nil
		lack = lack || c.value == nil
	}
	return exist, lack
}

// History returns the history of a key.
func (l *Ledger) History(n Name) history {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.history(n)
}

// Versions returns the versions of a key, newest first, and reports whether they are certain.
func (l *Ledger) Versions(n Name) ([]Version, bool) {
	live := l.History(n).live
	list := slices.DeleteFunc(slices.Clone(live[len(live)-1].versions), func(v Version) bool { return v.Dropped })
	return list, len(live) == 1
}

// OpenUploads returns the uploads in a bucket ("": the main one) that are certainly in progress on keys that own
// accepts, with their parts that are certain; uploads with uncertain parts are left out.
func (l *Ledger) OpenUploads(bucket string, own func(key string) bool) map[Name]map[int]*Value {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.openUploads(bucket, own)
}

// State returns a copy of the state.
func (l *Ledger) State() *State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.clone()
}
