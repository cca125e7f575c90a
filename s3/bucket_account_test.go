package s3_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/gate"
	"orcas/internal/sigv4"
	"orcas/s3"
)

// TestBucketOfAnEndedAccount: an account ends after a request to create a bucket was authorized, and before the bucket is
// there. The bucket does not stay.
func TestBucketOfAnEndedAccount(t *testing.T) {
	d := newIdentities(t)
	_, secret, err := d.CreateAccount(t.Context(), "tenant")
	require.NoError(t, err)
	lookups, end := 0, 0
	var w *world
	w = newWorld(t, d.lookups(), setup{options: func(o *s3.Options) {
		others := o.Lookup
		o.Lookup = func(ctx context.Context, key, token string) (gate.Credential, error) {
			if key == secret.AccessKey {
				if lookups++; lookups == end {
					_, err := w.fs.Bucket(ctx, "bucket")
					require.NoError(t, err, "the bucket is there already")
					_, err = d.EnableAccount(ctx, "tenant", false)
					require.NoError(t, err)
				}
			}
			return others(ctx, key, token)
		}
	}})
	create := func() *response {
		r := w.request("PUT", "/bucket", nil)
		(&sigv4.Signer{AccessKey: secret.AccessKey, SecretKey: secret.SecretKey, Region: "us-east-1"}).Sign(r, hash(nil), time.Now())
		return w.send(r)
	}
	create().is(200, "")
	b, err := w.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	require.NoError(t, w.fs.DeleteBucket(t.Context(), b))

	lookups, end = 0, lookups // the last one
	create().is(403, "InvalidAccessKeyId")
	require.Equal(t, end, lookups)
	_, err = w.fs.Bucket(t.Context(), "bucket")
	require.True(t, core.Is(err, core.NoSuchBucket), "%v", err)
}
