package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// questions counts the requests of FindContent, and may refuse them.
type questions struct {
	http.RoundTripper
	count  atomic.Int64
	refuse bool
}

func (q *questions) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.RawQuery != "instant" && !strings.HasPrefix(r.URL.RawQuery, "instant=") {
		return q.RoundTripper.RoundTrip(r)
	}
	q.count.Add(1)
	if !q.refuse {
		return q.RoundTripper.RoundTrip(r)
	}
	_ = r.Body.Close()
	return &http.Response{StatusCode: 501, Header: http.Header{}, Body: http.NoBody, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// randomFiles returns n files of random content of the given size.
func randomFiles(n, size int) map[string]string {
	files := map[string]string{}
	for i := range n {
		b := make([]byte, size)
		_, _ = rand.Read(b)
		files[fmt.Sprintf("dir-%d/file-%05d", i%7, i)] = string(b)
	}
	return files
}

// TestInstantUpload: content that the bucket holds is not sent again, and many files share a question.
func TestInstantUpload(t *testing.T) {
	for _, level := range []sdk.RefLevel{sdk.RefFull, sdk.RefFast} {
		q := &questions{RoundTripper: http.DefaultTransport}
		c, bucket := newBucket(t, func(c *sdk.Config) { c.Transport = q })
		files := randomFiles(3000, 300)
		files["empty"] = ""
		dir := write(t, t.TempDir(), files)
		o := Options{RefLevel: &level}
		r, err := Sync(t.Context(), Local(dir), Remote(c, bucket, "a"), o)
		require.NoError(t, err)
		require.EqualValues(t, 3000*300, r.BytesSent)
		require.Zero(t, r.BytesReferred)

		before := q.count.Load()
		r, err = Sync(t.Context(), Local(dir), Remote(c, bucket, "b"), o)
		require.NoError(t, err)
		require.EqualValues(t, 3001, r.Copied)
		require.Zero(t, r.BytesSent)
		require.EqualValues(t, 3000*300, r.BytesReferred)
		require.Less(t, q.count.Load()-before, int64(3000/20), "files share questions")
		require.Equal(t, files, objects(t, c, bucket, "b/"))

		changed := randomFiles(30, 301)
		write(t, dir, changed)
		r, err = Sync(t.Context(), Local(dir), Remote(c, bucket, "c"), o)
		require.NoError(t, err)
		require.EqualValues(t, 30*301, r.BytesSent)
		require.EqualValues(t, 2970*300, r.BytesReferred)
	}
}

// TestInstantUploadOfOthers: a server that does not know the questions gets all content, and is asked once.
func TestInstantUploadOfOthers(t *testing.T) {
	q := &questions{RoundTripper: http.DefaultTransport, refuse: true}
	c, bucket := newBucket(t, func(c *sdk.Config) { c.Transport, c.RefLevel = q, sdk.RefFull })
	files := randomFiles(500, 10)
	r, err := Sync(t.Context(), Local(write(t, t.TempDir(), files)), Remote(c, bucket, ""), Options{})
	require.NoError(t, err)
	require.EqualValues(t, 5000, r.BytesSent)
	require.EqualValues(t, 1, q.count.Load())
	require.Equal(t, files, objects(t, c, bucket, ""))
}

// TestAskerBatches: files gather while the senders are busy, and are asked about at once when they are not.
func TestAskerBatches(t *testing.T) {
	e := &engine{options: &Options{}}
	a := newAsker(e, 2)
	add := func(n int) {
		for range n {
			a.add(&smallContent{content: []byte("x"), options: &sdk.PutOptions{}})
		}
	}
	add(1)
	require.Len(t, a.take(), 1, "the senders have nothing to do")
	add(1)
	require.Len(t, a.take(), 1, "one sender has nothing to do")
	add(askMax - 1)
	require.False(t, a.enough(), "all senders are busy")
	add(1)
	require.True(t, a.enough(), "a full question does not wait")
	add(askMax - 1)
	require.Len(t, a.take(), askMax)
	require.False(t, a.enough())
	a.close()
	require.Len(t, a.take(), askMax-1)
	require.Nil(t, a.take())
}

func TestBudget(t *testing.T) {
	b := newBudget(10)
	require.NoError(t, b.take(t.Context(), 8))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.take(ctx, 3), context.Canceled)
	require.NoError(t, b.take(t.Context(), 2), "nobody waits any more")
	order := make(chan int64)
	var done sync.WaitGroup
	for _, n := range []int64{9, 1} {
		before := len(waiting(b))
		done.Go(func() {
			if errors.Is(b.take(t.Context(), n), nil) {
				order <- n
			}
		})
		for len(waiting(b)) == before { // until it waits
		}
	}
	b.give(2)
	require.Len(t, waiting(b), 2, "a small request does not overtake a large one")
	b.give(8)
	first, second := <-order, <-order
	require.EqualValues(t, 10, first+second)
	done.Wait()
}

// waiting returns those who wait for memory.
func waiting(b *budget) []*waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// TestLargeFiles: files of several parts, both ways, with attributes and progress.
func TestLargeFiles(t *testing.T) {
	c, bucket := newBucket(t)
	big := make([]byte, 21<<20)
	_, _ = rand.Read(big)
	dir := write(t, t.TempDir(), map[string]string{"big.bin": string(big), "middle": string(big[:3<<20]), "small": "s"})
	state := t.TempDir()
	var last Progress
	o := Options{Preserve: true, StateDir: state, PartSize: 5 << 20, Progress: func(p Progress) { last = p }}
	r, err := Sync(t.Context(), Local(dir), Remote(c, bucket, ""), o)
	require.NoError(t, err)
	require.EqualValues(t, 24<<20+1, r.BytesCopied)
	require.GreaterOrEqual(t, r.BytesSent, int64(24<<20+1))
	require.EqualValues(t, 24<<20+1, last.BytesDone)
	require.EqualValues(t, 24<<20+1, last.Bytes)
	require.EqualValues(t, 3, last.Copied)
	require.True(t, last.Complete)
	info, err := c.Head(t.Context(), bucket, "big.bin", nil)
	require.NoError(t, err)
	require.Contains(t, info.ETag, "-5")
	require.Equal(t, "1580702706.789", info.Metadata["mtime"])
	require.NoError(t, os.Chmod(filepath.Join(dir, "big.bin"), 0o640))

	r, err = Sync(t.Context(), Local(dir), Remote(c, bucket, ""), Options{Checksum: true})
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Skipped, "the ETag of parts is compared, too")

	down := t.TempDir()
	r, err = Sync(t.Context(), Remote(c, bucket, ""), Local(down), o)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.BytesReceived, int64(24<<20+1))
	require.Equal(t, read(t, dir), read(t, down))
	file, err := os.Stat(filepath.Join(down, "big.bin"))
	require.NoError(t, err)
	require.Equal(t, old.UnixNano(), file.ModTime().UnixNano())
	list, err := os.ReadDir(state)
	require.NoError(t, err)
	require.Empty(t, list, "the state of a complete transfer is removed")
}

// TestLargeFilesContinue: what an interrupted run has sent of a large file is not sent again.
func TestLargeFilesContinue(t *testing.T) {
	big := make([]byte, 30<<20)
	_, _ = rand.Read(big)
	dir := write(t, t.TempDir(), map[string]string{"big": string(big)})
	o := Options{StateDir: t.TempDir(), PartSize: 5 << 20}
	var parts atomic.Int64
	limit := int64(5) // with four parts at a time, one or two are complete when the sixth begins
	ctx, cancel := context.WithCancel(t.Context())
	c, bucket := newBucket(t, func(c *sdk.Config) {
		c.Transport = denying{http.DefaultTransport, func(r *http.Request) bool {
			if strings.Contains(r.URL.RawQuery, "partNumber=") && parts.Add(1) > limit {
				cancel()
			}
			return false
		}}
	})
	_, err := Sync(ctx, Local(dir), Remote(c, bucket, ""), o)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, objects(t, c, bucket, ""), "nothing half done")
	limit = 100
	sent := c.Stats().BytesSent
	r, err := Sync(t.Context(), Local(dir), Remote(c, bucket, ""), o)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Copied)
	require.Less(t, c.Stats().BytesSent-sent, int64(26<<20), "%d parts", parts.Load())
	require.Equal(t, string(big), objects(t, c, bucket, "")["big"])
}
