package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// candidate is a value that a named item (a Name) may have, and the request that may have written it; 0 means the
// initial state.
type candidate struct {
	request uint64
	value   *Value
}

// slot is the known state of an item. It is replaced, never modified, so copies of a State can share it.
type slot struct {
	candidates []candidate // at least one, in the order in which the requests began
	past       []candidate // a few superseded ones, the newest last, to explain an unexpected value
}

// pastMax is the number of superseded values that a slot remembers.
const pastMax = 6

// nothing is the slot of an item that no request has written.
var nothing = slot{candidates: []candidate{{}}}

// State is the content of a ledger: the values that each item may have.
type State struct {
	slots   map[Name]slot
	keys    map[Name]history  // histories of the keys that have versions
	pending map[uint64]Record // requests that have begun and have no known outcome
	cut     *State            // between Cut and Rewind: the state that the cut leaves
	cutting bool              // between Cut and CutDone

	// For a server that acknowledges writes before they are durable: writes acknowledged before the Window of a Cut are
	// certain to survive it; later ones may or may not.
	relaxed bool
	old     *State   // the state that is certain to be durable
	recent  []Record // later records
}

// relax makes s the state of a server that acknowledges writes before they are durable. Everything known so far is
// durable.
func (s *State) relax() {
	s.relaxed, s.old, s.recent = true, s.clone(), nil
}

// age advances old to the beginning of a cut's window.
func (s *State) age(cut Record) error {
	if cut.Window <= 0 {
		return fmt.Errorf("the record of the cut has no window, but the server has relaxed durability")
	}
	n := 0
	for ; n < len(s.recent) && s.recent[n].Time <= cut.Time-int64(cut.Window); n++ {
		if err := s.old.apply(s.recent[n]); err != nil {
			return err
		}
	}
	s.recent = s.recent[n:]
	return nil
}

// doubtful returns the state that a power cut at this moment leaves, in which all recent writes except those
// of identities are uncertain.
func (s *State) doubtful() (*State, error) {
	cut := s.old.clone()
	for _, r := range s.recent {
		switch r.Type {
		case Done:
			for _, e := range r.Effects { // effects named only in the response
				cut.add(r.Request, e)
			}
			cut.happened(cut.pending[r.Request], r, false)
		case Begin, Refused:
			r.Atomic = r.Atomic && len(r.Steps) > 0 // without versioning, a later request may have overwritten half of it
			if err := cut.apply(r); err != nil {
				return nil, err
			}
		}
	}
	for n, sl := range s.slots { // changes of identities are durable when they are acknowledged, in every mode
		if n.Identity != "" {
			cut.slots[n] = sl
		}
	}
	return cut, nil
}

// newState returns the state in which nothing exists.
func newState() *State {
	return &State{slots: map[Name]slot{}, keys: map[Name]history{}, pending: map[uint64]Record{}}
}

// clone returns a copy, without the cut.
func (s *State) clone() *State {
	return &State{slots: maps.Clone(s.slots), keys: maps.Clone(s.keys), pending: maps.Clone(s.pending)}
}

// candidates returns the values that n may have.
func (s *State) candidates(n Name) []candidate {
	if c, ok := s.slots[n]; ok {
		return c.candidates
	}
	return nothing.candidates
}

// apply updates the state with a record.
func (s *State) apply(r Record) error {
	if s.relaxed && !s.cutting && (r.Type == Begin || r.Type == Done || r.Type == Refused) {
		s.recent = append(s.recent, r)
	}
	if s.cutting && r.Type == Begin {
		if err := s.cut.apply(r); err != nil {
			return err
		}
	}
	if s.cutting && r.Type == Done { // effects named only in the response, such as an upload ID, may exist too
		for _, e := range r.Effects {
			s.cut.add(r.Request, e)
		}
		s.cut.happened(s.cut.pending[r.Request], r, false)
	}
	switch r.Type {
	case Begin:
		s.pending[r.Request] = r
		for _, e := range r.Effects {
			s.add(r.Request, e)
		}
		s.may(r)
	case Done:
		begun, ok := s.pending[r.Request]
		if !ok {
			return fmt.Errorf("request %d ended but never began", r.Request)
		}
		effects := r.Effects
		if effects == nil {
			effects = begun.Effects
		}
		for _, e := range effects {
			s.set(r.Request, e)
		}
		s.happened(begun, r, true)
		delete(s.pending, r.Request)
	case Refused:
		for _, e := range s.pending[r.Request].Effects {
			s.remove(r.Request, e)
		}
		s.cannot(s.pending[r.Request])
		delete(s.pending, r.Request)
	case Seen:
		for _, e := range r.Effects {
			s.set(0, e)
		}
		for _, step := range r.Steps {
			s.seen(step)
		}
	case Checked:
		clear(s.pending)
		s.settled()
		if s.relaxed {
			s.relax() // a start makes everything that it finds durable
		}
	case Cut:
		s.cut, s.cutting = s.clone(), true
		if s.relaxed {
			var err error
			if err = s.age(r); err == nil {
				s.cut, err = s.doubtful()
			}
			if err != nil {
				return err
			}
		}
	case CutDone:
		s.cutting = false
	case Rewind:
		if s.cut == nil {
			return fmt.Errorf("rewind without a cut")
		}
		s.slots, s.keys, s.pending, s.cut = s.cut.slots, s.cut.keys, s.cut.pending, nil
	}
	return nil
}

// add makes an effect possible.
func (s *State) add(request uint64, e Effect) {
	old := s.slots[e.Name]
	s.slots[e.Name] = slot{append(slices.Clone(s.candidates(e.Name)), candidate{request, e.Value}), old.past}
}

// remove undoes add.
func (s *State) remove(request uint64, e Effect) {
	old := s.slots[e.Name]
	left := slices.DeleteFunc(slices.Clone(old.candidates), func(c candidate) bool { return c.request == request })
	s.slots[e.Name] = slot{left, old.past}
}

// set makes an effect certain. A removed upload is deleted from the state, with its parts.
func (s *State) set(request uint64, e Effect) {
	if e.Name.Upload != "" && e.Name.Part == 0 && e.Value == nil {
		for n := 0; n <= partsMax; n++ {
			delete(s.slots, Name{Bucket: e.Name.Bucket, Key: e.Name.Key, Upload: e.Name.Upload, Part: n})
		}
		return
	}
	old := s.slots[e.Name]
	past := slices.Clone(old.past)
	for _, c := range old.candidates {
		if c.value != nil && !same(c.value, e.Value) {
			past = append(past, c)
		}
	}
	past = past[max(0, len(past)-pastMax):]
	s.slots[e.Name] = slot{[]candidate{{request, e.Value}}, past}
}

// openUploads implements Ledger.OpenUploads.
func (s *State) openUploads(bucket string, own func(key string) bool) map[Name]map[int]*Value {
	list := map[Name]map[int]*Value{}
	for n, sl := range s.slots {
		known := n.Bucket == bucket && n.Upload != "" && !strings.HasPrefix(n.Upload, "?")
		if known && n.Part == 0 && own(n.Key) && len(sl.candidates) == 1 && sl.candidates[0].value != nil {
			list[n] = map[int]*Value{}
		}
	}
	for n, sl := range s.slots {
		up := Name{Bucket: n.Bucket, Key: n.Key, Upload: n.Upload}
		if n.Part == 0 || list[up] == nil {
			continue
		}
		if len(sl.candidates) > 1 {
			delete(list, up)
		} else if v := sl.candidates[0].value; v != nil {
			list[up][n.Part] = v
		}
	}
	return list
}
