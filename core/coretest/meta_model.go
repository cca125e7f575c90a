package coretest

import (
	"context"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// samePage asks the model and the driver for one page and compares.
func samePage(t require.TestingT, ctx context.Context, model, driver core.Meta, q core.ListQuery) {
	want, err := model.List(ctx, q)
	require.NoError(t, err)
	got, err := driver.List(ctx, q)
	require.NoError(t, err)
	require.Equal(t, render(want, q.Kind, 0), render(got, q.Kind, 0), "%+v", q)
	if want.Truncated {
		require.Equal(t, want.Next, got.Next, "%+v", q)
	}
}
