package encoding

import (
	"encoding/binary"

	"orcas/core"
	"orcas/internal/checksum"
)

// How the encoding of a run of extents begins.
const (
	inBlock     = 0 // followed by the block and the offset
	inSameBlock = 1 // as the previous run; followed by the offset
	atNext      = 2 // it begins where the last extent in the list of changes ended
)

// AppendExtents appends extents as runs of adjacent extents of equal length. It appends the number of runs and, for
// each of them, 1 if its block is that of the previous run (else 0 and the block), the offset, the length of an extent,
// and the number of extents.
func AppendExtents(b []byte, extents []core.Extent) []byte {
	return appendExtents(b, extents, nil)
}

// appendExtents is AppendExtents for a list of changes. The first run begins with 2, and without its block and offset,
// if it begins where the last extent in the list ended.
func appendExtents(b []byte, extents []core.Extent, list *listState) []byte {
	runs := 0
	for i := range extents {
		if i == 0 || !continues(extents, i) {
			runs++
		}
	}
	b = binary.AppendUvarint(b, uint64(runs))
	for i := 0; i < len(extents); {
		j := i + 1
		for j < len(extents) && continues(extents, j) {
			j++
		}
		e := &extents[i]
		switch {
		case i == 0 && list != nil && list.next.Block == e.Block && list.next.Offset == e.Offset:
			b = append(b, atNext)
		case i > 0 && extents[i-1].Block == e.Block:
			b = binary.AppendUvarint(append(b, inSameBlock), uint64(e.Offset))
		default:
			b = binary.AppendUvarint(append(append(b, inBlock), e.Block[:]...), uint64(e.Offset))
		}
		b = binary.AppendUvarint(b, uint64(e.Length))
		b = binary.AppendUvarint(b, uint64(j-i))
		i = j
	}
	list.follow(extents)
	return b
}

// follow sets where the last of some extents ends.
func (l *listState) follow(extents []core.Extent) {
	if l != nil && len(extents) > 0 {
		last := &extents[len(extents)-1]
		l.next = core.Extent{Block: last.Block, Offset: last.Offset + last.Length}
	}
}

// continues reports whether extent i follows extent i-1 in the same run.
func continues(extents []core.Extent, i int) bool {
	p, e := &extents[i-1], &extents[i]
	return p.Block == e.Block && p.Length == e.Length && p.Offset+p.Length == e.Offset
}

// maxExtents is the maximum number of extents in a run: content has at most 5 GiB, in chunks of at least 8 KiB.
const maxExtents = 1 << 20

// extents handles extents in the form that AppendExtents describes.
func (c *coder) extents(v *[]core.Extent) {
	if c.decoding {
		*v = c.decodeExtents()
	} else {
		c.b = appendExtents(c.b, *v, c.list)
	}
}

func (c *coder) decodeExtents() []core.Extent {
	runs := c.count(4)
	if runs == 0 {
		return nil
	}
	extents := make([]core.Extent, 0, runs)
	var block core.BlockID
	for i := range runs {
		var offset int64
		switch begins := c.byte(); {
		case begins == inBlock:
			copy(block[:], c.raw(len(block)))
			offset = c.int()
		case begins == inSameBlock:
			offset = c.int()
		case begins == atNext && i == 0 && c.list != nil:
			block, offset = c.list.next.Block, c.list.next.Offset
		default:
			c.fail()
		}
		length, n := c.int(), c.uint()
		if n == 0 || n > maxExtents || length < 0 || offset < 0 || uint64(length) > (1<<62)/n {
			c.fail()
			return nil
		}
		for i := range int64(n) {
			extents = append(extents, core.Extent{Block: block, Offset: offset + i*length, Length: length})
		}
	}
	c.list.follow(extents)
	return extents
}

// DecodeExtents is the inverse of AppendExtents.
func DecodeExtents(b []byte) (extents []core.Extent, err error) {
	c := coder{b: b, decoding: true}
	c.extents(&extents)
	return extents, c.done()
}

// dataFields is the number of optional fields of a DataInfo.
const dataFields = 13

// inRow is the bit of the last field: the DataInfo is in a row of a database, which is identified by the ID.
const inRow = 1 << (dataFields - 1)

func (c *coder) data(i *core.DataInfo) {
	f := c.fields(dataFields)
	isRow := c.keyed || f.set&inRow != 0
	if !isRow {
		c.dataID(&i.ID)
	}
	number(c, &i.Size)
	if f.has(i.SHA256 != [32]byte{}) {
		c.fixed(i.SHA256[:])
	}
	f.sums(&i.Sums)
	optionalOctet(&f, &i.Codec)
	optionalNumber(&f, &i.KeyID)
	f.bytes(&i.DataKey)
	optionalNumber(&f, &i.ChunkSize)
	if f.has(len(i.Extents) > 0) {
		c.extents(&i.Extents)
	}
	optionalNumber(&f, &i.Dictionary)
	optionalNumber(&f, &i.Scope)
	if f.has(i.HasHead()) {
		c.fixed(i.Head[:])
	}
	f.flag(&i.Damaged)
	f.time(&i.Written)
	f.flag(&isRow)
	f.end()
}

// EachBlock calls emit with the block and the length of each run of extents in a DataInfo encoded by AppendDataRow, and
// returns its size. It decodes no other fields and does not allocate.
func EachBlock(data []byte, emit func(block core.BlockID, length int64)) (size int64, err error) {
	c := coder{b: data, decoding: true, share: true}
	f := c.fields(dataFields)
	if f.set&inRow == 0 {
		c.uint()
	}
	size = c.int()
	if f.has(false) {
		c.raw(32)
	}
	if f.has(false) {
		for range c.count(3) {
			if algorithm := checksum.Algorithm(c.byte()); algorithm&usualSum != 0 {
				c.raw((algorithm &^ usualSum).Size())
				continue
			}
			c.uint()
			c.raw(c.count(1))
		}
	}
	if f.has(false) {
		c.byte()
	}
	if f.has(false) {
		c.uint()
	}
	if f.has(false) {
		c.raw(c.count(1))
	}
	if f.has(false) {
		c.uint()
	}
	if !f.has(false) {
		return size, c.err
	}
	var block core.BlockID
	for range c.count(4) {
		if c.byte() == 0 {
			copy(block[:], c.raw(len(block)))
		}
		c.int()
		length, n := c.int(), c.int()
		if c.err != nil || n > maxExtents || length > (1<<62)/max(n, 1) {
			c.fail()
			break
		}
		emit(block, length*n)
	}
	return size, c.err
}

// AppendDataRow appends all fields of i except ID and Refs.
func AppendDataRow(b []byte, i *core.DataInfo) []byte {
	c := coder{b: b, lean: true, keyed: true}
	c.data(i)
	return c.b
}

// DecodeDataRow is the inverse of AppendDataRow for the content with a DataID. It also decodes the form of schema
// version 2, which contains the ID. The result shares the memory of b, which must not be modified afterwards.
func DecodeDataRow(b []byte, id core.DataID) (*core.DataInfo, error) {
	c := coder{b: b, decoding: true, share: true}
	i := &core.DataInfo{ID: id}
	c.data(i)
	return i, c.done()
}
