package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/admin"
)

func TestHoldsText(t *testing.T) {
	for want, h := range map[string]admin.Holds{
		"0 objects (0 bytes), 0 noncurrent versions (0 bytes), 0 unfinished uploads (0 bytes)": {},
		"1 object (1 byte), 1 noncurrent version (1.0 KiB), 1 unfinished upload (1023 bytes), 1 delete marker": {
			Objects: 1, Bytes: 1, NoncurrentVersions: 1, NoncurrentBytes: 1024, Uploads: 1, UploadBytes: 1023, DeleteMarkers: 1},
		"2 objects (5.00 TiB), 2 noncurrent versions (0 bytes), 2 unfinished uploads (0 bytes), 2 delete markers": {
			Objects: 2, Bytes: 5 << 40, NoncurrentVersions: 2, Uploads: 2, DeleteMarkers: 2},
	} {
		require.Equal(t, want, holdsText(&h))
	}
}
