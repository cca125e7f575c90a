package reclaim

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"

	"orcas/core"
)

// errNoDictionary is what is said of content whose dictionary has no record.
var errNoDictionary = errors.New("there is no dictionary of this number")

// dictionary notes that there is one.
func (c *check) dictionary(r *core.Record) {
	id, err := strconv.ParseUint(r.Key, 16, 32)
	if err == nil {
		_, err = core.DecodeDictionary(*r)
	}
	c.dictionaries[uint32(id)] = err
	if err != nil {
		c.differ(Difference{Kind: KindDictionary, Where: "dictionary " + r.Key, Text: err.Error()})
	}
}

// codedWith notes which dictionary a content names.
func (c *check) codedWith(d *core.DataInfo) {
	if d.Dictionary == 0 {
		return
	}
	if c.coded[d.Dictionary] == nil {
		c.coded[d.Dictionary] = map[core.DataID]int64{}
	}
	c.coded[d.Dictionary][d.ID] = d.Size
}

// judgeDictionaries looks for content that cannot be read for want of its dictionary.
func (c *check) judgeDictionaries() error {
	for _, id := range slices.Sorted(maps.Keys(c.coded)) {
		err, there := c.dictionaries[id]
		if !there {
			err = errNoDictionary
		}
		if err == nil {
			continue
		}
		contents := slices.SortedFunc(maps.Keys(c.coded[id]), cmp.Compare[core.DataID])
		for _, data := range contents {
			c.differAbout(data, KindDictionary, c.coded[id][data], "dictionary %s: %v", core.DictionaryKey(id), err)
		}
	}
	return nil
}
