package server

import (
	"fmt"

	"orcas/backup"
	"orcas/core/disk"
	"orcas/core/encoding"
	"orcas/core/frame"
	"orcas/core/sqlite"
)

// ReleasedFormat numbers the on-disk formats of releases. It increases with a release that writes any part of a store in
// a newer version. TestReleasedFormats opens a store of each.
const ReleasedFormat = 1

// Formats describes the on-disk formats that this binary writes. A start upgrades older ones.
func Formats() string {
	return fmt.Sprintf("%d (data directory %d, block %d, changes %d, schema %d, backup %d)",
		ReleasedFormat, disk.Format, frame.BlockVersion, encoding.Version, sqlite.SchemaVersion(), backup.Format)
}
