package encoding

import (
	"fmt"

	"orcas/core"
)

// The first byte of a row's binary form. Numbers are never reused.
const (
	rowState   = 1
	rowBucket  = 2
	rowData    = 3
	rowObject  = 4
	rowUpload  = 5
	rowPart    = 6
	rowGarbage = 7
	rowRecord  = 8
	// 9 and 10 begin the rows of a delta (package core/snapshot).
)

// AppendRow appends the binary form of a row: its kind, the fields that identify the noun, and the noun.
func AppendRow(b []byte, r *core.Row) []byte {
	if kind := rowKind(r); kind != 0 {
		c := coder{b: append(b, kind)}
		c.row(kind, r)
		b = c.b
	}
	return b
}

func rowKind(r *core.Row) byte {
	switch {
	case r.State != nil:
		return rowState
	case r.Bucket != nil:
		return rowBucket
	case r.Data != nil:
		return rowData
	case r.Object != nil:
		return rowObject
	case r.Upload != nil:
		return rowUpload
	case r.Part != nil:
		return rowPart
	case r.Garbage != nil:
		return rowGarbage
	case r.Record != nil:
		return rowRecord
	}
	return 0
}

// row handles a row of a kind, without the kind. It reports whether it knows the kind.
func (c *coder) row(kind byte, r *core.Row) bool {
	switch kind {
	case rowState:
		st := pointee(c, &r.State)
		number(c, &st.Seq)
		number(c, &st.NextData)
		c.fixed(st.ReplayFrom[:])
		number(c, &st.Synced)
	case rowBucket:
		b := pointee(c, &r.Bucket)
		c.target(&b.ID, &b.Name)
		c.bucket(b)
	case rowData:
		d := pointee(c, &r.Data)
		number(c, &d.Refs)
		c.data(d)
	case rowObject:
		o := pointee(c, &r.Object)
		c.target(&o.Bucket, &o.Key)
		c.bool(&o.Latest)
		c.resolvedObject(o)
	case rowUpload:
		u := pointee(c, &r.Upload)
		c.target(&u.Bucket, &u.Key)
		number(c, &u.ID)
		c.upload(u)
	case rowPart:
		p := pointee(c, &r.Part)
		number(c, &p.List)
		number(c, &p.Number)
		number(c, &p.Seq)
		c.part(&p.PartInfo, false)
	case rowGarbage:
		g := pointee(c, &r.Garbage)
		number(c, &g.ID)
		number(c, &g.List)
		c.extents(&g.Extents)
	case rowRecord:
		record := pointee(c, &r.Record)
		c.string(&record.Kind)
		c.string(&record.Key)
		c.bytes(&record.Value)
	default:
		return false
	}
	return true
}

// DecodeRow is the inverse of AppendRow. The row shares the memory of b, which must not be modified afterwards.
// DecodeRow returns Unsupported for an unknown kind.
func DecodeRow(b []byte) (*core.Row, error) {
	c := coder{b: b, decoding: true, share: true}
	r, kind := &core.Row{}, c.byte()
	if !c.row(kind, r) && c.err == nil {
		return nil, core.E("encoding.DecodeRow", core.Unsupported, fmt.Errorf("unknown kind of row: %d", kind))
	}
	if err := c.done(); err != nil {
		return nil, err
	}
	return r, nil
}
