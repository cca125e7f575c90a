package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/s3"
)

// ORCAS_PUBLIC_ACCESS_BLOCK determines whether new buckets have a public access block, those of ORCAS_BUCKETS included.
// It does not change existing buckets.
func TestPublicAccessBlockOfNewBuckets(t *testing.T) {
	config := testConfig(t)
	open := func(environ ...string) (s *Server, stop func() error) {
		var err error
		config.Settings, err = ReadSettings(append(environ, "ORCAS_MIN_FREE=0"))
		require.NoError(t, err)
		return running(t, config)
	}
	isOpen := func(s *Server, name string) bool {
		b, err := s.fs.Bucket(t.Context(), name)
		require.NoError(t, err)
		none := s3.WithoutPublicAccessBlock()
		return core.AttrValue(b.Attrs, none.Name) == none.Value
	}
	s, stop := open("ORCAS_PUBLIC_ACCESS_BLOCK=off", "ORCAS_BUCKETS=first")
	require.True(t, isOpen(s, "first"))
	require.NoError(t, stop())
	s, stop = open("ORCAS_BUCKETS=first,second")
	require.True(t, isOpen(s, "first"))
	require.False(t, isOpen(s, "second"))
	require.NoError(t, stop())
	s, _ = open("ORCAS_PUBLIC_ACCESS_BLOCK=off", "ORCAS_BUCKETS=first,second")
	require.False(t, isOpen(s, "second"))

	_, err := ReadSettings([]string{"ORCAS_PUBLIC_ACCESS_BLOCK=none"})
	require.ErrorContains(t, err, "ORCAS_PUBLIC_ACCESS_BLOCK")
}
