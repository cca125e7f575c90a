package batch

import (
	"context"

	"orcas/core"
)

// Doer makes changes durable, as Writer.DoAll does. Background workers use it instead of a *Writer, so that tests can
// make writes fail.
type Doer interface {
	DoAll(ctx context.Context, writes []Write) ([]core.Result, []error)
}

var _ Doer = (*Writer)(nil)
