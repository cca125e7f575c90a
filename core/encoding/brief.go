package encoding

import (
	"orcas/core"
	"orcas/internal/checksum"
)

// compositeSum marks the algorithm of a composite checksum in a brief object.
const compositeSum = 0x80

// briefFields is the number of fields of a brief object.
const briefFields = 4

// brief handles the fields of a brief object (see core.ListQuery) that the row of its version does not have otherwise.
func (c *coder) brief(o *core.ObjectInfo) {
	f := c.fields(briefFields)
	c.time(&o.Modified)
	optionalNumber(&f, &o.Size)
	if f.has(o.ETag != "") {
		c.etag(&o.ETag)
	}
	if f.has(len(o.Sums) > 0) {
		c.briefSum(&o.Sums)
	}
	class := ""
	if !c.decoding {
		class = core.AttrValue(o.Attrs, core.StorageClassAttr)
	}
	if f.string(&class); class != "" && c.decoding {
		newSlice(c, &o.Attrs, 1)
		o.Attrs[0] = core.Attr{Name: core.StorageClassAttr, Value: class}
	}
	f.end()
}

// briefSum handles the algorithm of the first checksum.
func (c *coder) briefSum(sums *[]core.Checksum) {
	var of checksum.Algorithm
	if !c.decoding {
		if of = (*sums)[0].Algorithm; (*sums)[0].Composite {
			of |= compositeSum
		}
	}
	if octet(c, &of); c.decoding {
		newSlice(c, sums, 1)
		(*sums)[0] = core.Checksum{Algorithm: of &^ compositeSum, Composite: of&compositeSum != 0}
	}
}

// AppendBrief appends the fields of a brief object, except those that identify the version and Null, Marker, and Latest.
func AppendBrief(b []byte, o *core.ObjectInfo) []byte {
	c := coder{b: b}
	c.brief(o)
	return c.b
}

// DecodeBrief sets the fields that AppendBrief encoded. o shares the memory of b, which must not be modified afterwards.
func (d *ObjectDecoder) DecodeBrief(b []byte, o *core.ObjectInfo) error {
	c := coder{b: b, decoding: true, share: true, slabs: d}
	c.brief(o)
	return c.done()
}
