package core

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSuccessorAndCommonPrefix(t *testing.T) {
	require.Equal(t, "b", Successor("a"))
	require.Equal(t, "b", Successor("a\xff"))
	require.Equal(t, "", Successor("\xff\xff"))
	for _, c := range []struct {
		key, prefix, delimiter, want string
		rolled                       bool
	}{
		{"a/b/c", "", "/", "a/", true},
		{"a/b/c", "a/", "/", "a/b/", true},
		{"a/", "a/", "/", "", false},
		{"a--b", "", "--", "a--", true},
		{"ab", "", "/", "", false},
		{"xb/", "a", "/", "", false},
	} {
		got, rolled := CommonPrefix(c.key, c.prefix, c.delimiter)
		require.Equal(t, c.want, got)
		require.Equal(t, c.rolled, rolled)
	}
}

// TestBlocksInLogs checks that logs contain the ID of a block in hexadecimal, so that its file can be found.
func TestBlocksInLogs(t *testing.T) {
	var text bytes.Buffer
	id := BlockID{0: 0xab, 11: 3, 15: 0x1c}
	slog.New(slog.NewJSONHandler(&text, nil)).Error("damaged", "block", id)
	require.Contains(t, text.String(), `"block":"ab00000000000000000000030000001c"`)
}
