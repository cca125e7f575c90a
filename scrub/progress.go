package scrub

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"orcas/core"
)

// progress records when each block was last verified. It is stored in records of the kind "scrub". One record covers
// up to 256 blocks whose IDs differ only in the last byte. Its key is the rest of the ID in hexadecimal. Its value has
// 5 bytes per block: the last byte of the ID, and the time in seconds since 1970, big endian. The value of the record
// "pass" is the start of the current or last pass (8 bytes), followed by 1 while that pass is in progress, otherwise 0
// (1 byte).
type progress struct {
	mu      sync.RWMutex // guards groups, which Scrubber.Verified reads during a pass; only a pass uses the other fields
	groups  map[groupID]*group
	dirty   map[groupID]bool // groups that must be saved
	started int64            // start of the current or last pass, in seconds since 1970; 0 if there was none
	open    bool             // the current pass is not complete
	pass    bool             // the record "pass" must be saved
	newest  int64            // the latest time in groups
	saved   time.Time        // when the progress was last saved
	count   int              // number of blocks verified since the progress was last saved
}

type groupID [15]byte

type group [256]uint32

const (
	progressKind = "scrub"
	passKey      = "pass"
)

// pageSize is the number of records that are read per call.
const pageSize = 1000

// Progress is saved after saveBlocks blocks or after saveEvery, whichever comes first.
const (
	saveBlocks = 256
	saveEvery  = 5 * time.Minute
)

func groupOf(id core.BlockID) (g groupID) {
	copy(g[:], id[:])
	return g
}

func (g groupID) key() string { return hex.EncodeToString(g[:]) }

// loadProgress reads the records.
func loadProgress(ctx context.Context, meta core.Meta) (*progress, error) {
	p := &progress{groups: map[groupID]*group{}, dirty: map[groupID]bool{}}
	for r, err := range core.EachRecord(ctx, meta, progressKind, pageSize) {
		if err != nil {
			return nil, err
		}
		p.read(r)
	}
	return p, nil
}

// read adds a record. It ignores malformed records, so that their blocks are read again.
func (p *progress) read(r *core.Record) {
	if r.Key == passKey {
		if len(r.Value) == 9 {
			p.started, p.open = int64(binary.BigEndian.Uint64(r.Value)), r.Value[8] == 1
		}
		return
	}
	var id groupID
	if n, err := hex.Decode(id[:], []byte(r.Key[:min(len(r.Key), 2*len(id))])); err != nil || n != len(id) || len(r.Key) != 2*len(id) {
		return
	}
	g := &group{}
	for entry := range slices.Chunk(r.Value, 5) {
		if len(entry) == 5 {
			g[entry[0]] = binary.BigEndian.Uint32(entry[1:])
			p.newest = max(p.newest, int64(g[entry[0]]))
		}
	}
	p.groups[id] = g
}

// last returns the time at which a block was last verified, in seconds since 1970, or 0 if it was never verified.
func (p *progress) last(id core.BlockID) int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if g := p.groups[groupOf(id)]; g != nil {
		return int64(g[id[15]])
	}
	return 0
}

// begin begins a pass, unless one is already open. The start of a pass is always later than the times of all blocks
// that were verified before it, even if the clock was set back.
func (p *progress) begin(now time.Time) {
	p.saved = now
	if !p.open {
		p.started, p.open, p.pass = max(now.Unix(), p.newest+1), true, true
	}
}

// abandon ends the open pass without completing it, so that the next call of begin begins another.
func (p *progress) abandon() { p.open = false }

func (p *progress) end() { p.open, p.pass = false, true }

// verified sets the time at which a block was verified.
func (p *progress) verified(id core.BlockID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groups[groupOf(id)]
	if g == nil {
		g = &group{}
		p.groups[groupOf(id)] = g
	}
	second := max(now.Unix(), p.started)
	g[id[15]] = uint32(second)
	p.newest = max(p.newest, second)
	p.dirty[groupOf(id)] = true
	p.count++
}

// prune deletes the times of blocks that no longer exist.
func (p *progress) prune(list []core.BlockInfo) {
	existing := map[groupID]*[256]bool{}
	for _, b := range list {
		t := existing[groupOf(b.ID)]
		if t == nil {
			t = &[256]bool{}
			existing[groupOf(b.ID)] = t
		}
		t[b.ID[15]] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, g := range p.groups {
		t := existing[id]
		for i := range g {
			if g[i] != 0 && (t == nil || !t[i]) {
				g[i] = 0
				p.dirty[id] = true
			}
		}
	}
}

// todo returns the blocks in list that the pass has not read yet, least recently verified first, and their total size
// in bytes.
func (p *progress) todo(list []core.BlockInfo) (todo []core.BlockInfo, size int64) {
	for _, b := range list {
		if p.last(b.ID) < p.started {
			todo = append(todo, b)
			size += b.Size
		}
	}
	slices.SortFunc(todo, func(a, b core.BlockInfo) int {
		return cmp.Or(cmp.Compare(p.last(a.ID), p.last(b.ID)), a.ID.Compare(b.ID))
	})
	return todo, size
}

// changes returns the changes that save the progress, if it is time to save it or if all is set. It assumes that the
// caller writes them; if that fails, the caller must call unsaved.
func (p *progress) changes(now time.Time, all bool) (changes []core.Change) {
	if !all && p.count < saveBlocks && now.Sub(p.saved) < saveEvery {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved, p.count = now, 0
	for id := range p.dirty {
		var value []byte // nil deletes the record
		for i, second := range p.groups[id] {
			if second != 0 {
				value = binary.BigEndian.AppendUint32(append(value, byte(i)), second)
			}
		}
		if value == nil {
			delete(p.groups, id)
		}
		changes = append(changes, &core.PutRecord{Record: core.Record{Kind: progressKind, Key: id.key(), Value: value}})
	}
	clear(p.dirty)
	if p.pass {
		value := binary.BigEndian.AppendUint64(nil, uint64(p.started))
		if p.open {
			value = append(value, 1)
		} else {
			value = append(value, 0)
		}
		changes = append(changes, &core.PutRecord{Record: core.Record{Kind: progressKind, Key: passKey, Value: value}})
		p.pass = false
	}
	return changes
}

// unsaved marks changes that could not be written, so that the next call of changes includes them.
func (p *progress) unsaved(changes []core.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range changes {
		key := c.(*core.PutRecord).Record.Key
		if key == passKey {
			p.pass = true
			continue
		}
		var id groupID
		_, _ = hex.Decode(id[:], []byte(key)) // cannot fail, because changes encoded the key
		if p.groups[id] == nil {
			p.groups[id] = &group{}
		}
		p.dirty[id] = true
	}
}
