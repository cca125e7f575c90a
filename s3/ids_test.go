package s3

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/ids"
)

func TestVersionIDs(t *testing.T) {
	for _, c := range []wireIDs{{}, {ids.New([16]byte{1}, 7)}} {
		for _, want := range []core.Version{7, 8, core.Null} {
			v, err := c.parseVersion(c.Version(want), true)
			require.NoError(t, err)
			require.Equal(t, want, v)
		}
		for _, id := range []string{"", "NULL", "0000000000000000", "nonsense"} {
			_, err := c.parseVersion(id, true)
			require.Equal(t, "InvalidArgument", toAPI(err).Code, id)
		}
		v, err := c.parseVersion("", false)
		require.NoError(t, err)
		require.Equal(t, core.Current, v)
	}
}

func TestUploadIDs(t *testing.T) {
	for _, c := range []wireIDs{{}, {ids.New([16]byte{1}, 7)}} {
		id, err := c.parseUpload(c.Upload(1 << 40))
		require.NoError(t, err)
		require.Equal(t, core.UploadID(1<<40), id)
		for _, s := range []string{"", "null", "0000000000000000", "nonsense", c.Version(8) + "A"} {
			_, err := c.parseUpload(s)
			require.ErrorIs(t, err, errNoSuchUpload, s)
		}
	}
}
