package tree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/internal/examples"
)

// TestExamples: every exported name of the package is in the body of an example that runs as a test.
func TestExamples(t *testing.T) {
	missing, err := examples.Missing(".")
	require.NoError(t, err)
	require.Empty(t, missing)
}
