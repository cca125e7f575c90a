package s3

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

func TestVersionIDs(t *testing.T) {
	for v, id := range map[core.Version]string{
		core.Null: "null", 1: "0000000000000001", 1 << 40: "0000010000000000", core.Null - 1: "fffffffffffffffe",
	} {
		require.Equal(t, id, versionID(v))
		got, ok := parseVersionID(id)
		require.True(t, ok, id)
		require.Equal(t, v, got)
	}
	require.Empty(t, versionID(core.Current))
	for _, id := range []string{
		"", "NULL", "1", "00000000000000000", "ffffffffffffffff", "000000000000000g", "0000000000000000",
		"+000000000000001",
	} {
		_, ok := parseVersionID(id)
		require.False(t, ok, id)
		_, err := parseVersion(id, true)
		require.Equal(t, "InvalidArgument", toAPI(err).Code, id)
	}
	v, err := parseVersion("", false)
	require.NoError(t, err)
	require.Equal(t, core.Current, v)
}

func TestUploadIDs(t *testing.T) {
	id, err := parseUploadID(uploadID(1 << 40))
	require.NoError(t, err)
	require.Equal(t, core.UploadID(1<<40), id)
	for _, s := range []string{"", "null", "0000000000000000", "nonsense"} {
		_, err := parseUploadID(s)
		require.ErrorIs(t, err, errNoSuchUpload, s)
	}
}
