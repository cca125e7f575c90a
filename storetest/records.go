package storetest

import (
	"bytes"

	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/frame"
)

// PlainRecords returns the payloads of the records in a block, without their compression. It is for tests that search
// for a text in everything that was stored.
func PlainRecords(t require.TestingT, id core.BlockID, block []byte) (all []byte) {
	s := &frame.Scanner{R: bytes.NewReader(block), Block: id, Size: int64(len(block))}
	for at, err := s.Next(0); at >= 0; at, err = s.Next(at + 1) {
		require.NoError(t, err)
		h, err := s.Header(at)
		require.NoError(t, err)
		payload, err := s.Payload(h)
		if err != nil || h.Type != frame.Record {
			continue
		}
		if h.Codec == frame.S2 {
			payload, err = s2.Decode(nil, payload)
			require.NoError(t, err)
		}
		all = append(all, payload...)
	}
	return all
}
