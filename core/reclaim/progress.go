package reclaim

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"time"

	"orcas/core"
)

// progress is when each block was verified last. It is kept in records of the kind "scrub". One record is about 256 blocks whose ids differ in the last byte alone:
// its key is the rest of the id in hexadecimal, its value a list of 5 bytes for each block, the last byte of its id and the second since 1970, big endian.
// The record "pass" holds the second at which the present pass began, or the last one (8 bytes), and 1 while it goes on (1 byte).
type progress struct {
	groups  map[groupID]*group
	dirty   map[groupID]bool // not kept yet
	started int64            // seconds since 1970, of the present pass or the last; 0: there was none
	open    bool             // that pass did not come to its end
	pass    bool             // what the record "pass" holds is old
	newest  int64            // of all times in groups
	saved   time.Time
	count   int // blocks since then
}

type groupID [15]byte

type group [256]uint32

const (
	progressKind = "scrub"
	passKey      = "pass"
)

// Progress is kept when so many blocks were verified, or so much time has gone.
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
	for after := ""; ; {
		records, err := meta.Records(ctx, progressKind, after, page)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			p.read(&r)
			after = r.Key
		}
		if len(records) < page {
			return p, nil
		}
	}
}

// read takes in a record. One that makes no sense is as good as none: its blocks are read anew.
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

// last returns the second in which a block was verified; 0: never.
func (p *progress) last(id core.BlockID) int64 {
	if g := p.groups[groupOf(id)]; g != nil {
		return int64(g[id[15]])
	}
	return 0
}

// begin begins a pass, unless one goes on. Every pass begins later than whatever was verified before it.
func (p *progress) begin(now time.Time) {
	p.saved = now
	if !p.open {
		p.started, p.open, p.pass = max(now.Unix(), p.newest+1), true, true
	}
}

func (p *progress) end() { p.open, p.pass = false, true }

// verified notes a block.
func (p *progress) verified(id core.BlockID, now time.Time) {
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

// prune forgets blocks that are not there any more.
func (p *progress) prune(list []core.BlockInfo) {
	there := map[groupID]*[256]bool{}
	for _, b := range list {
		t := there[groupOf(b.ID)]
		if t == nil {
			t = &[256]bool{}
			there[groupOf(b.ID)] = t
		}
		t[b.ID[15]] = true
	}
	for id, g := range p.groups {
		t := there[id]
		for i := range g {
			if g[i] != 0 && (t == nil || !t[i]) {
				g[i] = 0
				p.dirty[id] = true
			}
		}
	}
}

// changes returns what is to be kept now, which counts as kept from then on.
func (p *progress) changes(now time.Time, all bool) (changes []core.Change) {
	if !all && p.count < saveBlocks && now.Sub(p.saved) < saveEvery {
		return nil
	}
	p.saved, p.count = now, 0
	for id := range p.dirty {
		var value []byte // nil takes the record away
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

// unsaved notes that changes were not kept.
func (p *progress) unsaved(changes []core.Change) {
	for _, c := range changes {
		key := c.(*core.PutRecord).Record.Key
		if key == passKey {
			p.pass = true
			continue
		}
		var id groupID
		_, _ = hex.Decode(id[:], []byte(key)) // it was made from one
		if p.groups[id] == nil {
			p.groups[id] = &group{}
		}
		p.dirty[id] = true
	}
}
