package storetest_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/storetest"
)

// unpack extracts testdata/data-format-1.tar.gz: a data directory of a server with data format 1, which has full frame
// headers only, version 1 of the list of changes, and schema version 2. It is older than on-disk format 1 of the releases,
// which TestReleasedFormats opens. The body of an object is the text that oldBody returns.
func unpack(t *testing.T, skip string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open("testdata/data-format-1.tar.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		require.NoError(t, err)
		path := filepath.Join(dir, h.Name)
		switch {
		case h.Typeflag == tar.TypeDir:
			require.NoError(t, os.MkdirAll(path, 0o700))
		case h.Name != skip:
			b, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}
	}
}

func oldBody(name string, size int) []byte {
	return []byte(strings.Repeat("content of "+name+"\n", size/len(name)+1)[:size])
}

// openOld opens the old store. Its buckets are plain and versions.
func openOld(t *testing.T, dir string) *storetest.Store {
	t.Helper()
	s := storetest.Open(t, storetest.Options{Dir: dir, Bare: true, Scrub: true})
	b, err := s.Meta.Bucket(t.Context(), "versions")
	require.NoError(t, err)
	versions := s.In(b)
	versions.RequireContent("object", oldBody("version-3", 903))
	_, err = versions.Read("deleted", 0, -1)
	require.True(t, core.Is(err, core.NoSuchKey), "%v", err)
	s.Bucket, err = s.Meta.Bucket(t.Context(), "plain")
	require.NoError(t, err)
	return s
}

// TestOldStore opens a store of data format 1, with its database or after a rebuild from the blocks. It has everything
// that was written, and it stays sound while new objects replace old ones, blocks with frames of both formats are
// compacted, and everything is verified and rebuilt.
func TestOldStore(t *testing.T) {
	for name, skip := range map[string]string{"with its database": "", "rebuilt": storetest.Database} {
		t.Run(name, func(t *testing.T) {
			s := openOld(t, unpack(t, skip))
			for i := range 24 {
				s.Want[fmt.Sprintf("small-%02d", i)] = oldBody(fmt.Sprintf("small-%02d", i), i*i*7)
			}
			s.Want["copy"], s.Want["large"], s.Want["parts"] = s.Want["small-20"], oldBody("large", 300<<10), oldBody("parts", 200<<10)
			s.RequireWant()
			s.RequireSound()
			info, err := s.Meta.Object(t.Context(), s.Bucket.ID, "small-07", core.Current)
			require.NoError(t, err)
			require.Equal(t, []core.Attr{{Name: "Content-Type", Value: "text/plain"}, {Name: "x-amz-meta-number", Value: "7"}}, info.Attrs)
			require.Equal(t, fmt.Sprintf("%x", md5.Sum(s.Want["small-07"])), info.ETag)

			for i := range 24 { // most of the old block is garbage afterwards
				key := fmt.Sprintf("small-%02d", i)
				switch i % 4 {
				case 0, 1:
					s.Set(key, storetest.Random(uint64(i), 100*i))
				case 2:
					s.Delete(key)
					delete(s.Want, key)
				}
			}
			s.Set("equal to an old one", s.Want["small-23"])
			s.RequireWant()
			s.RequireSound()
			s.Restart()
			s.Bucket, err = s.Meta.Bucket(t.Context(), "plain")
			require.NoError(t, err)
			moved := s.Full()
			require.NotZero(t, moved.BlocksFreed, "%+v", moved)
			status := s.Pass()
			require.Empty(t, status.Damaged)
			s.RequireWant()
			s.RequireSound()
		})
	}
}
