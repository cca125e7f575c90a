package sdk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
)

func sampleStates() []*transferState {
	sum := checksum.Encode(checksum.Sum(checksum.CRC64NVME, []byte("x")))
	return []*transferState{
		{Version: 1, Kind: stateUpload, Endpoint: "http://h:1", Bucket: "b", Key: "k/ä\n", PartSize: 5 << 20, Algorithm: "CRC64NVME", UploadID: "id",
			Source: &sourceIdentity{Path: "/p", Size: 7, Modified: time.Unix(1, 5).UTC(), File: "1:2"}, Parts: []statePart{{1, "e", sum}, {9, "", ""}}},
		{Version: 1, Kind: stateDownload, Endpoint: "http://h:1", Bucket: "b", Key: "k", PartSize: 100, Algorithm: "MD5", ETag: `"e"`, VersionID: "v",
			Size: 250, Temp: ".orcas-0", Parts: []statePart{{1, "", ""}, {3, "", ""}}},
	}
}

func TestStateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, s := range sampleStates() {
		none, err := loadState(path, s)
		require.NoError(t, err)
		require.Nil(t, none)
		require.NoError(t, s.save(path))
		s.add(statePart{Number: 2})
		require.NoError(t, s.save(path))
		got, err := loadState(path, s)
		require.NoError(t, err)
		require.Equal(t, s, got)
		require.NotNil(t, got.part(2))
		require.Nil(t, got.part(4))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		for _, change := range []func(*transferState){
			func(s *transferState) { s.Kind = "other" }, func(s *transferState) { s.Endpoint += "0" },
			func(s *transferState) { s.Bucket = "c" }, func(s *transferState) { s.Key = "l" },
		} {
			other := *s
			change(&other)
			_, err := loadState(path, &other)
			require.ErrorIs(t, err, ErrState)
			require.ErrorContains(t, err, path)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "no temporary file remains")
		require.NoError(t, os.Remove(path))
	}
}

// TestStateFileIsKept: a file that is not a state file is never overwritten, and an empty one is no state.
func TestStateFileIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letter.txt")
	want := sampleStates()[0]
	valid, err := json.Marshal(want)
	require.NoError(t, err)
	for _, text := range []string{"Dear Sir", "{}", "null", string(valid) + "x", string(valid[:len(valid)-1]), string(make([]byte, stateMax+1))} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := loadState(path, want)
		require.ErrorIs(t, err, ErrState)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	s, err := loadState(path, want)
	require.NoError(t, err)
	require.Nil(t, s)
	_, err = loadState(filepath.Dir(path), want)
	require.Error(t, err)
	require.Error(t, want.save(filepath.Join(path, "below a file")))
}

// TestStateValues: each field that no transfer writes is refused.
func TestStateValues(t *testing.T) {
	for name, change := range map[string]func(up, down *transferState){
		"version":   func(up, _ *transferState) { up.Version = 2 },
		"kind":      func(up, _ *transferState) { up.Kind = "" },
		"bucket":    func(up, _ *transferState) { up.Bucket = "" },
		"part size": func(up, _ *transferState) { up.PartSize = 0 },
		"algorithm": func(up, _ *transferState) { up.Algorithm = "CRC1" },
		"upload":    func(up, _ *transferState) { up.UploadID = "" },
		"source":    func(up, _ *transferState) { up.Source = nil },
		"number":    func(up, _ *transferState) { up.Parts[0].Number = 0 },
		"high":      func(up, _ *transferState) { up.Parts[1].Number = partsMax + 1 },
		"order":     func(up, _ *transferState) { up.Parts[0].Number = 9 },
		"sum":       func(up, _ *transferState) { up.Parts[0].Sum = "AAAA" },
		"etag":      func(_, down *transferState) { down.ETag = "" },
		"size":      func(_, down *transferState) { down.Size = -1 },
		"beyond":    func(_, down *transferState) { down.Parts[1].Number = 4 },
		"temp":      func(_, down *transferState) { down.Temp = "../../etc/passwd" },
		"dot dot":   func(_, down *transferState) { down.Temp = ".." },
	} {
		s := sampleStates()
		require.NoError(t, s[0].check())
		require.NoError(t, s[1].check())
		change(s[0], s[1])
		require.False(t, s[0].check() == nil && s[1].check() == nil, name)
	}
}

// TestSourceIdentity: a file that was modified, replaced or moved is another source.
func TestSourceIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	id := func() sourceIdentity {
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		id, err := identify(f)
		require.NoError(t, err)
		return id
	}
	require.NoError(t, os.WriteFile(path, []byte("1"), 0o600))
	first := id()
	require.True(t, first.same(id()))
	now := time.Now()
	require.NoError(t, os.Chtimes(path, now, now.Add(time.Hour)))
	second := id()
	require.False(t, first.same(second))
	require.NoError(t, os.WriteFile(path+"2", []byte("1"), 0o600))
	require.NoError(t, os.Chtimes(path+"2", now, now.Add(time.Hour)))
	require.NoError(t, os.Rename(path+"2", path))
	require.False(t, second.same(id()), "another file with the same time and size")
	require.False(t, sourceIdentity{Size: 1}.same(sourceIdentity{Size: 1}), "a reader has no identity")
}

func FuzzParseState(f *testing.F) {
	for _, s := range sampleStates() {
		text, err := json.Marshal(s)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseState(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		require.NoError(t, err)
		back, err := parseState(again)
		require.NoError(t, err, "what was read can be written and read")
		require.Equal(t, s, back)
	})
}
