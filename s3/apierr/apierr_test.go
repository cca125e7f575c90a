package apierr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/s3/apierr"
)

func Example() {
	err := apierr.Argument("max-keys", "many", "The value must be a number.").With("MaxSizeAllowed", "1000")
	fmt.Println(err.Status, err)
	fmt.Println(err.Field("ArgumentValue"), err.Field("MaxSizeAllowed"))
	// Output:
	// 400 s3: InvalidArgument: The value must be a number.
	// many 1000
}

// The shared values do not change when errors are derived from them.
func TestDerivedErrorsAreCopies(t *testing.T) {
	before := *apierr.NotImplemented
	cause := errors.New("cause")
	first := apierr.UnservedHeader("X-Amz-Mfa").WithHeader("Connection", "close").Because(cause)
	second, third := first.With("A", "1"), first.With("B", "2")
	require.Equal(t, before, *apierr.NotImplemented)
	require.Equal(t, []apierr.Field{{Name: "Header", Value: "x-amz-mfa"}}, first.Fields)
	require.Equal(t, []apierr.Field{{Name: "Header", Value: "x-amz-mfa"}, {Name: "A", Value: "1"}}, second.Fields)
	require.Equal(t, []apierr.Field{{Name: "Header", Value: "x-amz-mfa"}, {Name: "B", Value: "2"}}, third.Fields)
	require.Equal(t, []apierr.Field{{Name: "Connection", Value: "close"}}, second.Headers)
	require.ErrorIs(t, third, cause)
	require.Empty(t, apierr.Argument("prefix", "", "It is empty.").Field("ArgumentValue"))
}
