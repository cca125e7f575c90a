package s3

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/gate"
)

// An action that the route does not declare is refused without asking the authorizer, even for the owner.
func TestUndeclaredActionsAreRefused(t *testing.T) {
	owner := &auth.Principal{Account: "111122223333"}
	q := &request{
		s: &Server{authorizer: auth.Owners{}}, r: httptest.NewRequest("PUT", "/bucket/key", nil), ctx: t.Context(),
		caller: owner, bucketName: "bucket", key: "key",
		route: &route{Route: gate.Route{
			Name: "PutObject", Level: gate.Object, Action: "s3:PutObject",
			Secondary: []auth.Action{"s3:PutObjectTagging"},
		}},
	}
	require.NoError(t, q.authorize("s3:PutObject", q.resource()))
	require.NoError(t, q.authorize("s3:PutObjectTagging", q.resource()))
	for _, a := range []auth.Action{"s3:PutObjectRetention", "s3:putobject", "s3:*", ""} {
		e := toAPI(q.authorize(a, q.resource()))
		require.Equal(t, "InternalError", e.Code, a)
		require.ErrorContains(t, e.Cause, "route PutObject does not declare", a)
	}
}
