package dictionary_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/dictionary"
)

func newKey(t *testing.T, b byte) *codec.Key {
	k, err := codec.NewKey(bytes.Repeat([]byte{b}, codec.KeySize))
	require.NoError(t, err)
	return k
}

func TestDictionaryRecord(t *testing.T) {
	raw := []byte(strings.Repeat("pieces of content, ", 100))
	d, err := codec.NewDictionary(codec.MinDictionaryID+7, raw)
	require.NoError(t, err)
	first, second := newKey(t, 1), newKey(t, 2)

	plain := dictionary.New(5, d, 0, nil)
	sealed := dictionary.New(5, d, 3, first)
	for _, r := range []*dictionary.Record{plain, sealed} {
		record := r.Encode()
		require.Equal(t, "00008007", record.Key)
		require.Equal(t, r.KeyID == 0, bytes.Contains(record.Value, []byte("pieces")))
		again, err := dictionary.Decode(record)
		require.NoError(t, err)
		require.Equal(t, r, again)
		opened, err := again.Open(first)
		require.NoError(t, err)
		require.Equal(t, raw, opened.Raw())
		require.Equal(t, d.ID(), opened.ID())

		for n := range record.Value { // truncated, or with a flipped bit
			_, err := dictionary.Decode(core.Record{Key: record.Key, Value: record.Value[:n]})
			require.Error(t, err, n)
			flipped := bytes.Clone(record.Value)
			flipped[n] ^= 1 << (n % 8)
			if r, err := dictionary.Decode(core.Record{Key: record.Key, Value: flipped}); err == nil && n > 2 {
				_, err = r.Open(first)
				require.Error(t, err, n)
			}
		}
		_, err = dictionary.Decode(core.Record{Key: "8007", Value: record.Value})
		require.True(t, core.Is(err, core.Damaged), "%v", err)
	}
	_, err = dictionary.Decode(core.Record{Key: "00008007", Value: []byte{3, 5}})
	require.True(t, core.Is(err, core.Unsupported), "%v", err)

	_, err = sealed.Open(second)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
	again, err := sealed.Rewrap(first, second, 4)
	require.NoError(t, err)
	require.EqualValues(t, 3, sealed.KeyID, "the record itself is not modified")
	require.Equal(t, sealed.Stored, again.Stored)
	opened, err := again.Open(second)
	require.NoError(t, err)
	require.Equal(t, raw, opened.Raw())
	_, err = sealed.Rewrap(second, first, 5)
	require.True(t, core.Is(err, core.Damaged), "%v", err)

	other := *sealed // the record of another dictionary
	other.ID++
	_, err = other.Open(first)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
}
