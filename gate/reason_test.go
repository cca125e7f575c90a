package gate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReasonOf(t *testing.T) {
	for code, want := range map[string]Reason{
		"": "", "NoSuchKey": "", "InternalError": "", "AccessDenied": Authorization, "SignatureDoesNotMatch": Authentication,
		"InsufficientStorage": FullDrive, "ServiceUnavailable": ReadOnly, "SlowDown": InFlight,
	} {
		require.Equal(t, want, ReasonOf(code), code)
	}
	for code, r := range codeReasons {
		require.Contains(t, Reasons(), r, code)
	}
}
