package environ

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithout(t *testing.T) {
	t.Setenv("ORCAS_FAULTS_REQUIRED", "1")
	t.Setenv("AWS_REGION", "x")
	t.Setenv("NOT_ORCAS_", "y")
	require.Contains(t, Without(), "ORCAS_FAULTS_REQUIRED=1")
	require.NotContains(t, Without("ORCAS_", "AWS_"), "ORCAS_FAULTS_REQUIRED=1")
	require.NotContains(t, Without("ORCAS_", "AWS_"), "AWS_REGION=x")
	require.Contains(t, Without("ORCAS_"), "AWS_REGION=x")
	require.Contains(t, Without("ORCAS_", "AWS_"), "NOT_ORCAS_=y")
}
