package server

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/lifecycle"
)

// TestLifecycleOfServer: the lifecycle worker uses the server's clock and settings, and the admin API starts a pass.
func TestLifecycleOfServer(t *testing.T) {
	var late atomic.Int64
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	config.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	config.Settings.UploadAge = 3 * lifecycle.Day
	config.Settings.Lifecycle = 0 // only on request
	s, stop := running(t, config)
	ctx := t.Context()
	b, err := s.fs.CreateBucket(ctx, core.BucketInfo{Name: "bucket", Owner: s.identities.Root().Account})
	require.NoError(t, err)
	_, err = s.fs.CreateUpload(ctx, b, core.UploadInfo{Bucket: b.ID, Key: "key"})
	require.NoError(t, err)
	pass := func() (r lifecycle.Report) {
		t.Helper()
		status, text, _ := ask(t, s, s.Credentials().SecretKey, "POST", "/-/admin/lifecycle?wait=true", "")
		require.Equal(t, 200, status, "%s", text)
		require.NoError(t, json.Unmarshal(text, &r))
		return r
	}
	require.Zero(t, pass().Uploads)
	late.Store(int64(4 * lifecycle.Day))
	r, err := s.lifecycle.Pass(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(1), r.Uploads)
	late.Store(0)
	require.Zero(t, pass().Uploads)
	require.Equal(t, 3, s.lifecycle.Status().Passes)
	require.NoError(t, stop())
}
