package tree

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// lyingServer lists the given keys, in the given order and whatever was asked for, and returns content for all of them.
func lyingServer(t *testing.T, keys ...string) *sdk.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("list-type") == "" {
			w.Header().Set("Last-Modified", "Tue, 03 Feb 2026 04:05:06 GMT")
			w.Header().Set("ETag", `"x"`)
			_, _ = w.Write([]byte("evil!"))
			return
		}
		fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>`)
		for _, k := range keys {
			fmt.Fprintf(w, `<Contents><Key>%s</Key><LastModified>2026-02-03T04:05:06.000Z</LastModified><ETag>&quot;x&quot;</ETag><Size>5</Size></Contents>`,
				html.EscapeString(url.QueryEscape(k)))
		}
		fmt.Fprint(w, `</ListBucketResult>`)
	}))
	t.Cleanup(s.Close)
	return newClient(t, s.URL)
}

// TestHostileKeys: whatever keys a server lists, only files inside the target appear.
func TestHostileKeys(t *testing.T) {
	keys := []string{
		"p//abs", "p/../up", "p/./dot", "p/..", "p/a/../../up", "p/a//b", "p/a/..", "p/nul\x00x", "p/good", "p/good/below", "p/" + strings.Repeat("x", 256),
		"p/link/through", "p/out/through", "p/.orcas-0123456789abcdef.tmp", "p/slash/", "p/sub/fine", "p/\\..\\up",
	}
	slices.Sort(keys)
	outside := write(t, t.TempDir(), map[string]string{"keep": "1"})
	dir := write(t, filepath.Join(t.TempDir(), "target"), map[string]string{"real/x": "1", "link": "-> real", "out": "-> " + outside})
	for _, symlinks := range []Symlinks{SkipSymlinks, FollowSymlinks, StoreSymlinks} {
		c := lyingServer(t, keys...)
		var failed []string
		o := Options{Symlinks: symlinks, Report: func(a Action) {
			if a.Op == OpError {
				require.Error(t, a.Err)
				failed = append(failed, a.Path)
			}
		}}
		r, err := Sync(t.Context(), Remote(c, "bucket", "p"), Local(dir), o)
		require.ErrorIs(t, err, ErrPartial)
		require.EqualValues(t, 14, r.Failed, "%q", failed)
		got := read(t, dir)
		delete(got, `\..\up`)
		require.Equal(t, map[string]string{"real/x": "1", "link": "-> real", "out": "-> " + outside, "good": "evil!", "sub/fine": "evil!"}, got)
		require.Equal(t, map[string]string{"keep": "1"}, read(t, outside))
	}
	list, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, list, 1, "nothing beside the target")
}

// TestDisorderedListings: a listing that no correct server sends ends the transfer, and deletes nothing.
func TestDisorderedListings(t *testing.T) {
	for name, keys := range map[string][]string{
		"out of order": {"p/b", "p/a"}, "twice": {"p/a", "p/a"}, "outside the prefix": {"p/a", "q/b"}, "no prefix": {"etc/passwd"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, t.TempDir(), map[string]string{"extra": "1"})
			c := lyingServer(t, keys...)
			_, err := Sync(t.Context(), Remote(c, "bucket", "p"), Local(dir), Options{Delete: true})
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrPartial)
			require.Contains(t, read(t, dir), "extra")
			_, err = Sync(t.Context(), Local(dir), Remote(c, "bucket", "p"), Options{Delete: true})
			require.Error(t, err)
			for _, err = range Diff(t.Context(), Local(dir), Remote(c, "bucket", "p"), Options{}) {
			}
			require.Error(t, err)
		})
	}
}

// TestNothingIsDeletedAfterAnError: without knowing all of the source, nothing is extra.
func TestNothingIsDeletedAfterAnError(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{"extra": "1"})
	c := lyingServer(t, "p/a", "p/a/b") // a/b cannot be written
	r, err := Sync(t.Context(), Remote(c, "bucket", "p"), Local(dir), Options{Delete: true})
	require.ErrorIs(t, err, ErrPartial)
	require.EqualValues(t, 0, r.Deleted)
	require.Equal(t, map[string]string{"extra": "1", "a": "evil!"}, read(t, dir))
}
