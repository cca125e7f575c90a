package fsck

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"

	"orcas/core"
	"orcas/core/dictionary"
)

// errNoDictionary is the error for a dictionary that has no record.
var errNoDictionary = errors.New("the dictionary does not exist")

// dictionary records a dictionary, and whether its record is damaged.
func (c *check) dictionary(r *core.Record) {
	id, err := strconv.ParseUint(r.Key, 16, 32)
	if err == nil {
		_, err = dictionary.Decode(*r)
	}
	c.dictionaries[uint32(id)] = err
	if err != nil {
		c.differ(Difference{Kind: KindDictionary, Where: "dictionary " + r.Key, Text: core.Text(err)})
	}
}

// codedWith records which dictionary d uses.
func (c *check) codedWith(d *core.DataInfo) {
	if d.Dictionary == 0 {
		return
	}
	if c.coded[d.Dictionary] == nil {
		c.coded[d.Dictionary] = map[core.DataID]int64{}
	}
	c.coded[d.Dictionary][d.ID] = d.Size
}

// judgeDictionaries reports content that cannot be read because its dictionary is missing or damaged.
func (c *check) judgeDictionaries() error {
	for _, id := range slices.Sorted(maps.Keys(c.coded)) {
		err, exists := c.dictionaries[id]
		if !exists {
			err = errNoDictionary
		}
		if err == nil {
			continue
		}
		contents := slices.SortedFunc(maps.Keys(c.coded[id]), cmp.Compare[core.DataID])
		for _, data := range contents {
			c.differAbout(data, KindDictionary, c.coded[id][data], "dictionary %s: %v", dictionary.Key(id), err)
		}
	}
	return nil
}
