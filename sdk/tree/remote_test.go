package tree

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// versioned enables versioning on a bucket.
func versioned(t *testing.T, c *sdk.Client, bucket string) {
	t.Helper()
	r, err := c.Fetch(t.Context(), &sdk.Request{Method: http.MethodPut, Path: "/" + bucket, Query: "versioning=",
		Body: []byte(`<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>`)})
	require.NoError(t, err)
	require.Equal(t, 200, r.Status, "%s", r.Body)
}

// otherServer makes the engine believe that the target is another server, so it reads and writes the content.
func otherServer(t *testing.T) *sdk.Client {
	return newClient(t, strings.Replace(shared, "127.0.0.1", "localhost", 1))
}

func TestBetweenBuckets(t *testing.T) {
	for name, target := range map[string]func(*testing.T) *sdk.Client{
		"same server":   func(t *testing.T) *sdk.Client { return newClient(t, shared) },
		"other servers": otherServer,
	} {
		t.Run(name, func(t *testing.T) {
			c, from := newBucket(t)
			_, to := newBucket(t)
			put(t, c, from, sample)
			p := sdk.Properties{ContentType: "image/x", CacheControl: "no-cache", Metadata: map[string]string{"k": "v"}, Tags: map[string]string{"t": "1 2"}}
			_, err := c.Put(t.Context(), from, "props", strings.NewReader("p"), &sdk.PutOptions{Properties: p})
			require.NoError(t, err)
			large := strings.Repeat("0123456789", smallMax/4)
			put(t, c, from, map[string]string{"large": large, "dir/": ""})
			put(t, c, to, map[string]string{"extra": "1", "a": "xx", "b-c": "differ"})
			d := target(t)
			r, done := syncBoth(t, Remote(c, from, ""), Remote(d, to, ""), Options{Delete: true})
			require.EqualValues(t, 11, r.Copied, "%q", done)
			require.EqualValues(t, 1, r.Deleted)
			require.Equal(t, objects(t, c, from, ""), objects(t, c, to, ""))
			info, err := c.Head(t.Context(), to, "props", nil)
			require.NoError(t, err)
			require.Equal(t, "image/x", info.ContentType)
			require.Equal(t, "no-cache", info.CacheControl)
			require.Equal(t, map[string]string{"k": "v"}, info.Metadata)
			require.Equal(t, 1, info.TagCount)
			if name == "same server" {
				require.Zero(t, r.BytesSent, "the server copies by itself")
			} else {
				require.EqualValues(t, r.BytesCopied, r.BytesSent)
			}
			r, done = syncBoth(t, Remote(c, from, ""), Remote(d, to, ""), Options{Delete: true})
			require.EqualValues(t, 0, r.Copied, "%q", done)
			r, _ = syncBoth(t, Remote(c, from, ""), Remote(d, to, ""), Options{Checksum: true})
			require.EqualValues(t, 0, r.Copied)
			o := Options{Always: true}
			o.Put.Metadata, o.Put.CacheControl = map[string]string{"more": "1"}, "max-age=1"
			_, _ = syncBoth(t, Remote(c, from, ""), Remote(d, to, ""), o)
			info, err = c.Head(t.Context(), to, "props", nil)
			require.NoError(t, err)
			require.Equal(t, map[string]string{"k": "v", "more": "1"}, info.Metadata)
			require.Equal(t, "max-age=1", info.CacheControl)
			require.Equal(t, "image/x", info.ContentType)
			require.Equal(t, 1, info.TagCount)
		})
	}
}

// TestCopyFallsBack: if the target's keys cannot read the source, the content is read with the source's keys.
func TestCopyFallsBack(t *testing.T) {
	c, from := newBucket(t)
	_, to := newBucket(t)
	put(t, c, from, sample)
	d := newClient(t, shared, func(c *sdk.Config) {
		c.Transport = denying{http.DefaultTransport, func(r *http.Request) bool { return r.Header.Get("X-Amz-Copy-Source") != "" }}
	})
	_, _ = syncBoth(t, Remote(c, from, ""), Remote(d, to, ""), Options{})
	require.Equal(t, sample, objects(t, c, to, ""))
}

// versionsOf returns the versions of a key from the oldest to the newest: their content, or "deleted".
func versionsOf(t *testing.T, c *sdk.Client, bucket, key string) (list []string, infos []*sdk.Info) {
	t.Helper()
	for h, err := range histories(t.Context(), &Place{client: c, bucket: bucket}, nil) {
		require.NoError(t, err)
		if h.path != key {
			continue
		}
		for _, v := range h.versions {
			if v.marker {
				list, infos = append(list, "deleted"), append(infos, nil)
				continue
			}
			info, err := c.Head(t.Context(), bucket, key, &sdk.GetOptions{VersionID: v.id})
			require.NoError(t, err)
			o, err := c.Get(t.Context(), bucket, key, &sdk.GetOptions{VersionID: v.id})
			require.NoError(t, err)
			var b strings.Builder
			_, err = copyAll(&b, o)
			require.NoError(t, err)
			list, infos = append(list, b.String()), append(infos, info)
		}
	}
	return list, infos
}

func TestVersions(t *testing.T) {
	for name, target := range map[string]func(*testing.T) *sdk.Client{
		"same server":   func(t *testing.T) *sdk.Client { return newClient(t, shared) },
		"other servers": otherServer,
	} {
		t.Run(name, func(t *testing.T) {
			c, from := newBucket(t)
			_, to := newBucket(t)
			versioned(t, c, from)
			versioned(t, c, to)
			history := func(key string, list ...string) {
				for _, content := range list {
					if content == "deleted" {
						_, err := c.Delete(t.Context(), from, key, nil)
						require.NoError(t, err)
						continue
					}
					_, err := c.Put(t.Context(), from, key, strings.NewReader(content), &sdk.PutOptions{Properties: sdk.Properties{
						ContentType: "image/x", Metadata: map[string]string{"k": content}, Tags: map[string]string{"t": content}}})
					require.NoError(t, err)
				}
			}
			history("a", "1", "22", "deleted", "333")
			history("b", "1", "deleted")
			history("c", "deleted", "deleted", "x")
			put(t, c, to, map[string]string{"extra": "1", "gone": "2"})
			_, err := c.Delete(t.Context(), to, "gone", nil)
			require.NoError(t, err)
			d := target(t)
			o := Options{Versions: true, Delete: true}
			r, done := syncBoth(t, Remote(c, from, ""), Remote(d, to, ""), o)
			require.EqualValues(t, 3, r.Copied)
			require.EqualValues(t, 1, r.Deleted, "a key whose current version is a delete marker is not extra")
			require.Contains(t, done, "copy a (4 of 4 versions)")
			list, infos := versionsOf(t, c, to, "a")
			require.Equal(t, []string{"1", "22", "deleted", "333"}, list)
			_, originals := versionsOf(t, c, from, "a")
			for i, info := range infos {
				if info == nil {
					continue
				}
				require.Equal(t, originals[i].VersionID, info.Metadata["orcas-source-version-id"])
				at, err := time.Parse(time.RFC3339, info.Metadata["orcas-source-last-modified"])
				require.NoError(t, err)
				require.WithinDuration(t, originals[i].LastModified, at, time.Second)
				require.Equal(t, list[i], info.Metadata["k"])
				require.Equal(t, "image/x", info.ContentType)
				require.Equal(t, 1, info.TagCount)
			}
			list, _ = versionsOf(t, c, to, "c")
			require.Equal(t, []string{"deleted", "deleted", "x"}, list)
			list, _ = versionsOf(t, c, to, "b")
			require.Equal(t, []string{"1", "deleted"}, list)

			r, done = syncBoth(t, Remote(c, from, ""), Remote(d, to, ""), o)
			require.EqualValues(t, 0, r.Copied, "%q", done)
			history("a", "deleted", "4444")
			history("b", "deleted")
			_, done = syncBoth(t, Remote(c, from, ""), Remote(d, to, ""), o)
			require.Subset(t, done, actions{"copy a (2 of 6 versions)", "copy b (1 of 3 versions)", "skip c (equal)"})
			list, _ = versionsOf(t, c, to, "a")
			require.Equal(t, []string{"1", "22", "deleted", "333", "deleted", "4444"}, list)
			put(t, c, to, map[string]string{"a": "foreign"})
			_, err = Sync(t.Context(), Remote(c, from, ""), Remote(d, to, ""), o)
			require.ErrorIs(t, err, ErrPartial)
			require.ErrorContains(t, err, "newer version")
		})
	}
}

// TestVersionsContinue: a copy that ended between two versions continues there.
func TestVersionsContinue(t *testing.T) {
	c, from := newBucket(t)
	_, to := newBucket(t)
	versioned(t, c, from)
	versioned(t, c, to)
	var want []string
	for i := range 9 {
		want = append(want, strings.Repeat("x", i))
		put(t, c, from, map[string]string{"a": want[i]})
	}
	var limit int
	d := newClient(t, strings.Replace(shared, "127.0.0.1", "localhost", 1), func(c *sdk.Config) {
		c.Transport = denying{http.DefaultTransport, func(r *http.Request) bool {
			if r.Method != http.MethodPut {
				return false
			}
			limit--
			return limit < 0
		}}
	})
	for runs := 0; ; runs++ {
		limit = 2
		_, err := Sync(t.Context(), Remote(c, from, ""), Remote(d, to, ""), Options{Versions: true})
		if err == nil {
			require.Equal(t, 4, runs)
			break
		}
		require.ErrorIs(t, err, sdk.ErrAccessDenied)
		require.Less(t, runs, 10)
	}
	list, _ := versionsOf(t, c, to, "a")
	require.Equal(t, want, list)
}

func TestVersionsNeedVersioning(t *testing.T) {
	c, from := newBucket(t)
	_, to := newBucket(t)
	versioned(t, c, from)
	put(t, c, from, map[string]string{"a": "1"})
	_, err := Sync(t.Context(), Remote(c, from, ""), Remote(c, to, ""), Options{Versions: true})
	require.True(t, errors.Is(err, errUnversioned), "%v", err)
}

func TestDiff(t *testing.T) {
	c, bucket := newBucket(t)
	put(t, c, bucket, map[string]string{"a": "1", "b/c": "22", "both": "same", "checksum": "abc", "z": ""})
	dir := write(t, t.TempDir(), map[string]string{"a": "11", "both": "same", "only": "x", "z": "", "checksum": "abd"})
	all := func(from, to Place, o Options) (list []string) {
		for d, err := range Diff(t.Context(), from, to, o) {
			require.NoError(t, err)
			require.NoError(t, d.Err)
			list = append(list, strings.TrimSpace(string(d.Kind)+" "+d.Path+" "+d.Reason))
		}
		return list
	}
	local, remote := Local(dir), Remote(c, bucket, "")
	require.Equal(t, []string{"differs a size", "only-to b/c", "only-from only"}, all(local, remote, Options{}))
	require.Equal(t, []string{"differs a size", "only-to b/c", "differs checksum checksum", "only-from only"}, all(local, remote, Options{Checksum: true}))
	require.Equal(t, []string{"differs a size", "only-from b/c", "differs both newer", "differs checksum newer", "only-to only", "differs z newer"}, all(remote, local, Options{}))
	require.Equal(t, []string{"differs a size", "only-from b/c", "only-to only"}, all(remote, local, Options{SizeOnly: true}))
	for d, err := range Diff(t.Context(), local, remote, Options{}) { // the caller may stop at any time
		require.NoError(t, err)
		require.Equal(t, Difference{Kind: Differs, Path: "a", Reason: "size", FromSize: 2, ToSize: 1, FromTime: d.FromTime, ToTime: d.ToTime}, d)
		break
	}
}

// copyAll copies a reader that is closed afterwards.
func copyAll(w io.Writer, r io.ReadCloser) (int64, error) {
	n, err := io.Copy(w, r)
	return n, errors.Join(err, r.Close())
}
