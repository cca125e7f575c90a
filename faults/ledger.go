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

// Name identifies an item that requests change: an object (Key), an upload in progress (Key and Upload), one of its
// parts (Part too), a document of the main bucket (Document), an identity or a part of one (Identity), or a bucket other
// than the main one (Bucket). Items in such a bucket have Bucket set as well. If the client never learned the ID of an upload, Upload is "?" and a number.
type Name struct {
	Key      string `json:"key"`
	Upload   string `json:"upload,omitempty"`
	Part     int    `json:"part,omitempty"`
	Document string `json:"document,omitempty"`
	Identity string `json:"identity,omitempty"` // KIND/NAME or KIND/NAME/PART
	Bucket   string `json:"bucket,omitempty"`
}

// String returns the name as text for reports.
func (n Name) String() string {
	switch {
	case n.Document != "":
		return "document " + n.Document
	case n.Identity != "":
		return "identity " + n.Identity
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

// Effect means that an item gets a value or, if the value is nil, is deleted.
type Effect struct {
	Name  Name   `json:"name"`
	Value *Value `json:"value"`
}

// The types of records.
const (
	Begin   = "begin"   // a request is about to be sent: its Effects may happen from now on
	Done    = "done"    // a request was acknowledged: its Effects, or those of Begin if it has none, have happened
	Refused = "refused" // a request was refused: it had no effects
	Unknown = "unknown" // a request failed, so its effects are uncertain
	Seen    = "seen"    // the check found these Effects, so they are certain now
	Checked = "checked" // the check is complete: requests that began before it are no longer pending
	Cut     = "cut"     // the power is about to be cut
	CutDone = "cutdone" // the power is off
	Rewind  = "rewind"  // the following records continue from the state that the cut left
	Note    = "note"    // a remark: a start, a kill
)

// Record is a line of the ledger.
type Record struct {
	Type    string   `json:"type"`
	Request uint64   `json:"request,omitempty"` // the number of the request, from 1
	Time    int64    `json:"time"`              // nanoseconds since 1970
	Op      string   `json:"op,omitempty"`
	Atomic  bool     `json:"atomic,omitempty"` // either all of Effects happen, or none
	Effects []Effect `json:"effects,omitempty"`
	Steps   []Step   `json:"steps,omitempty"` // effects on keys with versions; with Done, the versions that it observed
	IDs     []string `json:"ids,omitempty"`   // with Done, the version IDs assigned to the Steps of Begin, in their order
	Text    string   `json:"text,omitempty"`

	// Window is set with a Cut of a server that acknowledges writes before they are durable. Writes that were
	// acknowledged earlier than Window before the cut are durable.
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

// OpenLedger opens the ledger at path, or creates it.
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

// Relax declares that from now on the server acknowledges writes before they are durable, so each Cut must have a
// Window.
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

// Number returns an unused number for a request, or for the ID of a Piece.
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

// Value returns the value of an item and reports whether it is certain.
func (l *Ledger) Value(n Name) (*Value, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.state.candidates(n)
	return c[len(c)-1].value, len(c) == 1
}

// May reports whether an item may exist, and whether it may be missing.
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

// OpenUploads returns the uploads in a bucket ("" for the main one) that are certainly in progress, for the keys that
// own accepts, with their parts. It leaves out uploads with uncertain parts.
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
