package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/auth"
	"orcas/auth/policy"
	"orcas/gate"
	"orcas/iam"
	"orcas/s3"
)

// TestRoutesOfAllAPIs: the rows of all APIs can be in one table: their names are unique, and their actions have the
// prefix of their API.
func TestRoutesOfAllAPIs(t *testing.T) {
	names := map[string]bool{}
	apis := map[string][]*gate.Route{"s3:": s3.Routes(), "orcas:": admin.Routes()}
	for _, r := range iam.Routes() { // two services
		service, _, _ := strings.Cut(string(r.Action), ":")
		require.Contains(t, []string{"iam", "sts"}, service, r.Name)
		apis[service+":"] = append(apis[service+":"], r)
	}
	for prefix, rows := range apis {
		require.NotEmpty(t, rows)
		for _, r := range rows {
			require.False(t, names[prefix+r.Name], r.Name)
			names[prefix+r.Name] = true
			for _, a := range []auth.Action{r.Action, r.VersionAction} {
				require.True(t, a == "" || strings.HasPrefix(string(a), prefix), "%s: %s", r.Name, a)
			}
			for _, a := range r.Secondary { // the admin API can do what S3 can do
				require.True(t, strings.HasPrefix(string(a), prefix) || prefix == "orcas:" && strings.HasPrefix(string(a), "s3:"), "%s: %s", r.Name, a)
			}
		}
	}
}

// TestEffects: every route has an effect. Only these operations do more than read although their method is GET or their
// name begins like that of a reading one, and only these have the method of a change and yet read.
func TestEffects(t *testing.T) {
	reads := []string{"GetCallerIdentity", "FindContent", "PreviewLifecycle"}
	for api, rows := range map[string][]*gate.Route{"s3": s3.Routes(), "admin": admin.Routes(), "iam": iam.Routes()} {
		for _, r := range rows {
			require.NotZero(t, r.Effect, r.Name)
			require.NotEqual(t, "unknown", r.Effect.String(), r.Name)
			named := slices.ContainsFunc([]string{"Get", "List", "Head", "Simulate"}, func(p string) bool { return strings.HasPrefix(r.Name, p) })
			require.Equal(t, named || slices.Contains(reads, r.Name), r.Effect == gate.Read, r.Name)
			if api == "s3" && r.Effect != gate.Read {
				require.Equal(t, r.Target() == gate.Object, r.Effect == gate.Write, r.Name)
			}
		}
	}
	require.Equal(t, "unknown", gate.Effect(0).String())
}

// TestEventChanges: a request without a route counts by its method.
func TestEventChanges(t *testing.T) {
	require.True(t, (&gate.Event{Method: "PUT"}).Changes())
	require.False(t, (&gate.Event{Method: "GET"}).Changes())
	require.False(t, (&gate.Event{}).Changes(), "a request that could not be read")
	require.False(t, (&gate.Event{Method: "POST", Effect: gate.Read}).Changes())
	require.True(t, (&gate.Event{Method: "GET", Effect: gate.Work}).Changes())
}

// TestPoliciesKnowAllRoutes: policies can name each action of each route. The type of its resource is the same in both
// tables, and the condition keys of the route apply to its actions.
func TestPoliciesKnowAllRoutes(t *testing.T) {
	for _, r := range slices.Concat(s3.Routes(), admin.Routes(), iam.Routes()) {
		for _, a := range append([]auth.Action{r.Action, r.VersionAction}, r.Secondary...) {
			if a == "" {
				continue
			}
			known, _ := policy.Supports(a, "")
			require.True(t, known, "%s: %s", r.Name, a)
		}
		require.Equal(t, r.Target() == gate.Object, policy.IsOfObjects(r.Action), r.Name)
		for _, key := range r.Keys {
			if strings.HasSuffix(key, "/") {
				key += "tag"
			}
			canonical, _ := policy.CanonicalKey(key)
			require.Equal(t, canonical, key, r.Name)
			a := r.Action
			if key == "s3:VersionId" {
				a = r.VersionAction
			}
			if key == "s3:VersionId" && a == r.Action {
				continue // S3 has no such key for the actions of retention and legal hold
			}
			_, applies := policy.Supports(a, key)
			require.True(t, applies, "%s: %s", r.Name, key)
		}
	}
}
