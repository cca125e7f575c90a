package content_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/storetest"
)

// undated is a Meta whose content was stored before DataInfo.Written was recorded.
type undated struct{ core.Meta }

func (m undated) Unwrap() core.Meta { return m.Meta }

func (m undated) Data(ctx context.Context, ids []core.DataID) ([]core.DataInfo, error) {
	list, err := m.Meta.Data(ctx, ids)
	for i := range list {
		list[i].Written = time.Time{}
	}
	return list, err
}

func (m undated) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	d, err := m.Meta.FindData(ctx, k)
	if err == nil {
		d.Written = time.Time{}
	}
	return d, err
}

// TestUndatedContent checks large content without a recorded time of writing. Its block may have been modified since it
// was stored, so the content must be read before it is shared, until it has been scrubbed.
func TestUndatedContent(t *testing.T) {
	w := newWard(t, false, content.Options{})
	o := content.Options{Meta: undated{w.Meta}, Instant: true, Verified: w.Scrubber.Verified}
	w.Mount(o)
	body := storetest.Text(2, 300_000)
	w.Set("k", body)
	d := w.Data("k")
	require.False(t, w.isKnown(body))
	w.Set("again", body)
	require.Equal(t, d.ID, w.Data("again").ID)
	w.Flip(d.Extents[0].Block, d.Extents[0].Offset+1000)
	w.Set("repairs", body)
	w.RequireWant()

	w.Scrubber = w.RepairingScrubber(func() time.Time { return time.Now().Add(2 * time.Second) })
	o.Verified = w.Scrubber.Verified
	w.Mount(o)
	w.Pass()
	require.True(t, w.isKnown(body))
	w.RequireWant()
}
