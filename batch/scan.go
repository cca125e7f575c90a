package batch

import (
	"errors"

	"orcas/core/frame"
)

// errTail: a record whose later frames are missing.
var errTail = errors.New("the record is cut off")

// readRecord returns the payload of the record that begins with h, over all its frames, and where it ends.
func readRecord(s *frame.Scanner, h frame.Header) (all []byte, end int64, err error) {
	for index := uint32(0); ; index++ {
		if h.Index != index || h.Type != frame.Record {
			return nil, 0, errTail
		}
		b, err := s.Payload(h)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, b...)
		if h.Last {
			return all, h.End(), nil
		}
		id := h.ID
		if h, err = s.Header(h.End()); err != nil {
			return nil, 0, err
		}
		if h.ID != id {
			return nil, 0, errTail
		}
	}
}
