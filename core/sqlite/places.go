package sqlite

import (
	"context"
	"database/sql/driver"

	"orcas/core"
	"orcas/core/encoding"
)

// Places implements core.Placer with one read transaction. Like a snapshot, it returns Busy if it has to yield to
// writes.
func (m *Meta) Places(ctx context.Context, emit func(id core.DataID, block core.BlockID, length int64) error) error {
	const op = "sqlite.Places"
	return m.readLong(ctx, op, func(ctx context.Context, c *conn, r *longRead) error {
		return c.snapshot(func() error {
			newest := int64(0)
			if err := c.scan(ctx, "SELECT coalesce(max(id), 0) FROM data", func(cols []driver.Value) error {
				newest = integer(cols[0])
				return nil
			}); err != nil {
				return err
			}
			rows := 0
			return c.scan(ctx, "SELECT id, sha256, info FROM data", func(cols []driver.Value) error {
				id := integer(cols[0])
				if rows++; rows%progressEvery == 0 {
					r.did(id, newest)
					if err := ctx.Err(); err != nil {
						return core.E(op, core.Canceled, err)
					}
				}
				info, err := dataKey(id, bytes(cols[1])).checkSum(bytes(cols[2]))
				if err != nil {
					return nil
				}
				var failed error
				_ = encoding.EachBlock(info, func(block core.BlockID, length int64) { // the checksum matches, so decoding cannot fail
					if failed == nil {
						failed = emit(core.DataID(id), block, length)
					}
				})
				return failed
			})
		})
	})
}
