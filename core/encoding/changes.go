package encoding

import (
	"encoding/binary"
	"errors"
	"fmt"

	"orcas/core"
	"orcas/internal/mutant"
)

func (c *coder) strings(v *[]string) {
	list(c, v, 1)
	for i := range *v {
		c.string(&(*v)[i])
	}
}

func (c *coder) precondition(p *core.Precondition) {
	there := !p.IsZero()
	if !c.bool(&there) {
		return
	}
	f := c.fields(3)
	c.strings(&p.Match)
	c.strings(&p.NoneMatch)
	number(c, &p.Seq)
	f.time(&p.Modified)
	if f.flag(&p.HasSize) {
		number(c, &p.Size)
	}
	if f.flag(&p.HasTags) {
		c.attrs(&p.Tags)
	}
	f.end()
}

// The kinds of sources: none, a version, and equal content. The last one fails its check in
// Apply, even during a replay.
const (
	sourceNone = iota
	sourceVersion
	sourceContent
	sourceHead
)

func sourceKind(s *core.Source) byte {
	switch {
	case s == nil:
		return sourceNone
	case s.Content == nil:
		return sourceVersion
	case s.Content.Head:
		return sourceHead
	}
	return sourceContent
}

func (c *coder) source(v **core.Source) {
	kind := sourceKind(*v)
	switch octet(c, &kind); kind {
	case sourceNone:
	case sourceVersion:
		s := pointee(c, v)
		c.target(&s.Bucket, &s.Key)
		number(c, &s.Seq)
	case sourceContent, sourceHead:
		s := pointee(c, v)
		k := pointee(c, &s.Content)
		if c.decoding {
			k.Head = kind == sourceHead
		}
		number(c, &k.Scope)
		number(c, &k.KeyID)
		c.fixed(k.SHA256[:])
		number(c, &k.Size)
		c.sums(&s.Sums)
	default:
		c.fail()
	}
}

// target handles the bucket and the key, with which most changes begin.
func (c *coder) target(bucket *core.BucketID, key *string) {
	number(c, bucket)
	if c.list != nil {
		c.shared(key, &c.list.key)
	} else {
		c.string(key)
	}
}

// change handles the struct of a change.
func (c *coder) change(change core.Change) {
	switch x := change.(type) {
	case *core.PutBucket:
		info := &x.Info
		if mutant.Is("no-documents-recorded") && !c.decoding {
			info = &core.BucketInfo{ID: x.Info.ID, Name: x.Info.Name, Owner: x.Info.Owner, Created: x.Info.Created}
		}
		c.target(&info.ID, &info.Name)
		c.bucket(info)
		if x.Expect != nil || c.decoding && c.err == nil && len(c.b) > 0 { // it is present if the change has more bytes
			c.bucket(pointee(c, &x.Expect))
		}
	case *core.DeleteBucket:
		number(c, &x.Bucket)
	case *core.PutObject:
		c.target(&x.Object.Bucket, &x.Object.Key)
		c.object(&x.Object, true, 0)
		c.precondition(&x.If)
		c.source(&x.Source)
	case *core.DeleteObject:
		c.target(&x.Bucket, &x.Key)
		number(c, &x.Version)
		c.precondition(&x.If)
		c.time(&x.Modified)
		c.string(&x.Owner)
		c.bool(&x.Bypass)
	case *core.UpdateObject:
		c.update(x)
	case *core.MoveObject:
		c.move(x)
	case *core.CreateUpload:
		c.target(&x.Upload.Bucket, &x.Upload.Key)
		c.upload(&x.Upload)
	case *core.PutPart:
		c.target(&x.Bucket, &x.Key)
		number(c, &x.Upload)
		number(c, &x.Part.Number)
		c.part(&x.Part, true)
		c.source(&x.Source)
	case *core.CompleteUpload:
		c.complete(x)
	case *core.AbortUpload:
		c.target(&x.Bucket, &x.Key)
		number(c, &x.Upload)
	case *core.PutRecord:
		c.putRecord(x)
	case *core.SetReplayFrom:
		c.fixed(x.ReplayFrom[:])
	case *core.Synced:
		number(c, &x.UpTo)
		c.fixed(x.ReplayFrom[:])
		c.bool(&x.Relaxed)
	case *core.Void:
		number(c, &x.From)
		number(c, &x.To)
	case *core.MoveData:
		number(c, &x.Data)
		c.extents(&x.From)
		c.extents(&x.To)
	case *core.RewrapData:
		number(c, &x.Data)
		c.bytes(&x.From)
		number(c, &x.KeyID)
		c.bytes(&x.DataKey)
	case *core.FreeGarbage:
		list(c, &x.IDs, 1)
		for i := range x.IDs {
			number(c, &x.IDs[i])
		}
	case *core.DropParts:
		number(c, &x.Garbage)
		number(c, &x.Count)
	case *core.Unshare:
		number(c, &x.Data)
	case *core.RepairData:
		c.extents(&x.From)
		c.data(pointee(c, &x.Info))
	default:
		panic(fmt.Sprintf("encoding: no encoding for %T", change)) // the set of changes is closed, so this is a bug in this file
	}
}

// newChange has functions that return an empty change of each kind; they are nil for unknown kinds.
var newChange = [...]func() core.Change{
	core.ChangePutBucket:      func() core.Change { return &core.PutBucket{} },
	core.ChangeDeleteBucket:   func() core.Change { return &core.DeleteBucket{} },
	core.ChangePutObject:      func() core.Change { return &core.PutObject{} },
	core.ChangeDeleteObject:   func() core.Change { return &core.DeleteObject{} },
	core.ChangeUpdateObject:   func() core.Change { return &core.UpdateObject{} },
	core.ChangeMoveObject:     func() core.Change { return &core.MoveObject{} },
	core.ChangeCreateUpload:   func() core.Change { return &core.CreateUpload{} },
	core.ChangePutPart:        func() core.Change { return &core.PutPart{} },
	core.ChangeCompleteUpload: func() core.Change { return &core.CompleteUpload{} },
	core.ChangeAbortUpload:    func() core.Change { return &core.AbortUpload{} },
	core.ChangePutRecord:      func() core.Change { return &core.PutRecord{} },
	core.ChangeSetReplayFrom:  func() core.Change { return &core.SetReplayFrom{} },
	core.ChangeSynced:         func() core.Change { return &core.Synced{} },
	core.ChangeVoid:           func() core.Change { return &core.Void{} },
	core.ChangeMoveData:       func() core.Change { return &core.MoveData{} },
	core.ChangeRewrapData:     func() core.Change { return &core.RewrapData{} },
	core.ChangeFreeGarbage:    func() core.Change { return &core.FreeGarbage{} },
	core.ChangeDropParts:      func() core.Change { return &core.DropParts{} },
	core.ChangeUnshare:        func() core.Change { return &core.Unshare{} },
	core.ChangeRepairData:     func() core.Change { return &core.RepairData{} },
}

func (c *coder) update(x *core.UpdateObject) {
	f := c.fields(6)
	c.target(&x.Bucket, &x.Key)
	number(c, &x.Version)
	c.time(&x.Time)
	f.flag(&x.SetTags)
	f.flag(&x.SetRetention)
	f.flag(&x.SetHold)
	if f.has(len(x.Tags) > 0 && !mutant.Is("no-tags-recorded")) {
		c.attrs(&x.Tags)
	}
	f.lock(&x.Lock)
	f.flag(&x.Bypass)
	f.end()
}

func (c *coder) putRecord(x *core.PutRecord) {
	f := c.fields(3)
	c.string(&x.Record.Kind)
	c.string(&x.Record.Key)
	if f.has(x.Record.Value != nil) {
		if c.bytes(&x.Record.Value); c.decoding && x.Record.Value == nil {
			x.Record.Value = []byte{} // nil would delete the record
		}
	}
	if f.flag(&x.HasExpect) {
		c.bytes(&x.Expect)
	}
	optionalNumber(&f, &x.In)
	f.end()
}

func (c *coder) complete(x *core.CompleteUpload) {
	c.target(&x.Object.Bucket, &x.Object.Key)
	number(c, &x.Upload)
	list(c, &x.Parts, 2)
	for i := range x.Parts {
		number(c, &x.Parts[i].Number)
		number(c, &x.Parts[i].Seq)
	}
	c.object(&x.Object, true, 0)
	c.precondition(&x.If)
}

func (c *coder) move(x *core.MoveObject) {
	f := c.fields(2)
	c.target(&x.From.Bucket, &x.From.Key)
	number(c, &x.From.Seq)
	c.target(&x.Bucket, &x.Key)
	c.precondition(&x.If)
	c.time(&x.Time)
	c.string(&x.Owner)
	f.lock(&x.Lock)
	f.string(&x.Token)
	f.end()
}

// AppendChanges appends a list of changes with their stamps, which is the payload of a record.
func AppendChanges(b []byte, changes []core.Change) []byte {
	c := coder{b: binary.AppendUvarint(append(b, encodingVersion), uint64(len(changes))), lean: true, list: &listState{}}
	var last core.Seq
	for _, change := range changes {
		c.b = binary.AppendUvarint(append(c.b, byte(change.Kind())), uint64(change.Stamp()-last))
		last = change.Stamp()
		// The length is not yet known: reserve one byte for it, and move the struct if that is not enough.
		c.b = append(c.b, 0)
		at := len(c.b)
		c.change(change)
		n := len(c.b) - at
		if n < 0x80 {
			c.b[at-1] = byte(n)
			continue
		}
		var length [binary.MaxVarintLen32]byte
		more := binary.PutUvarint(length[:], uint64(n)) - 1
		c.b = append(c.b, length[:more]...) // only the space
		copy(c.b[at+more:], c.b[at:at+n])
		copy(c.b[at-1:], length[:more+1])
	}
	return c.b
}

// DecodeChanges is the inverse of AppendChanges. It returns Unsupported for a newer version of the encoding or an
// unknown kind of change.
func DecodeChanges(b []byte) ([]core.Change, error) {
	const op = "encoding.DecodeChanges"
	c := coder{b: b, decoding: true}
	version, least := c.byte(), 3 // a change has at least one byte for its kind, one for its stamp, and one for its length
	switch {
	case c.err != nil:
	case version == 1:
		least = 6
	case version == encodingVersion:
		c.list = &listState{}
	default:
		return nil, core.E(op, core.Unsupported, fmt.Errorf("the record has version %d, but this version of ORCAS supports only versions up to %d", version, encodingVersion))
	}
	changes := make([]core.Change, 0, c.count(least))
	var last core.Seq
	for range cap(changes) {
		kind := core.ChangeKind(c.byte())
		last += core.Seq(c.uint())
		length := 0
		if version > 1 {
			length = c.count(1)
		} else if b := c.raw(4); b != nil {
			length = int(binary.LittleEndian.Uint32(b))
		}
		body := coder{b: c.raw(length), decoding: true, list: c.list}
		if c.err != nil {
			break
		}
		if int(kind) >= len(newChange) || newChange[kind] == nil {
			return nil, core.E(op, core.Unsupported, fmt.Errorf("%w: kind %d", errNewerKind, kind))
		}
		change := newChange[kind]()
		body.change(change)
		if err := body.done(); err != nil {
			return nil, err
		}
		change.SetStamp(last)
		changes = append(changes, change)
	}
	return changes, c.done()
}

var errNewerKind = errors.New("the change was written by a newer version of ORCAS")
