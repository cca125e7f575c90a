package faults

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBenchFindsLies runs the bench against servers that break one promise each, which it must find, and against one
// that keeps all of them, in which it must find no violation.
func TestBenchFindsLies(t *testing.T) {
	tests := []struct {
		lie   string
		kinds []string // a violation of one of these kinds must be found
		ops   []string // the operations of the load; nil for all
	}{
		{"", nil, nil},
		{"memory", []string{"lost", "stale", "returned"}, nil},
		{"torn", []string{"torn"}, []string{"put-small"}},
		{"mixed", []string{"torn", "stale"}, []string{"put-small"}},
		{"undelete", []string{"returned", "stale"}, []string{"put-small", "delete"}},
		{"stale", []string{"stale"}, []string{"overwrite"}},
		{"etag", []string{"etag"}, []string{"put-small"}},
		{"tag", []string{"tag", "stale"}, []string{"put-small", "label"}},
		{"append", []string{"torn"}, []string{"put-small", "append"}},
		{"half-rename", []string{"returned", "stale"}, []string{"put-small", "rename"}},
		{"condition", []string{"condition"}, []string{"put-if-absent"}},
		{"multi-delete", []string{"returned", "phantom", "stale"}, []string{"put-small", "delete-many"}},
		{"hidden", []string{"listing"}, []string{"put-small"}},
		{"listing", []string{"listing"}, []string{"put-small"}},
		{"directory", []string{"listing"}, []string{"put-small"}},
		{"copied-part", []string{"etag"}, []string{"put-large", "multipart-copy"}},
		{"lost-bucket", []string{"bucket"}, []string{"bucket"}},
		{"lost-document", []string{"document"}, []string{"put-small", "document"}},
		{"lost-identity", []string{"identity"}, []string{"put-small", "identity"}},
		{"lost-tags", []string{"identity"}, []string{"put-small", "identity"}},
		{"old-keys", []string{"identity"}, []string{"put-small", "identity"}},
		{"deleted-keys-work", []string{"identity"}, []string{"put-small", "identity"}},
		{"inherited", []string{"identity", "half"}, []string{"put-small", "identity"}},
		{"lost-part", []string{"upload"}, []string{"put-small", "multipart-left-open"}},
		{"lost-upload", []string{"upload"}, []string{"put-small", "multipart-left-open"}},
		{"undead-upload", []string{"upload"}, []string{"put-small"}},
		{"lost-version", []string{"lost"}, []string{"v-put"}},
		{"mixed-version", []string{"torn"}, []string{"v-put", "v-delete"}},
		{"lost-marker", []string{"marker"}, []string{"v-put", "v-delete"}},
		{"phantom-marker", []string{"marker"}, []string{"v-put", "v-delete"}},
		{"undeleted-version", []string{"phantom", "marker", "order"}, []string{"v-put", "v-delete-version"}},
		{"shuffled", []string{"order"}, []string{"v-put", "v-delete"}},
		{"merged", []string{"lost", "torn", "lock"}, []string{"v-put"}},
		{"no-latest", []string{"listing"}, []string{"v-put"}},
		{"half-versions", []string{"marker", "half", "order", "phantom"}, []string{"v-put", "v-rename"}},
		{"unlocked", []string{"lock"}, []string{"v-put"}},
		{"lost-lock", []string{"lock"}, []string{"v-put"}},
		{"no-lock", []string{"lock"}, []string{"v-put", "v-hold"}},
		{"early", []string{"lost", "lock", "marker"}, []string{"v-put", "v-delete"}},
		{"early-upload", []string{"upload"}, []string{"life-upload"}},
		{"lost-status", []string{"bucket"}, []string{"v-put"}},
		{"lost-rules", []string{"bucket"}, []string{"v-put"}},
		{"dead", []string{"start"}, []string{"put-small"}},
	}
	for i, test := range tests {
		if testing.Short() && i%3 > 0 {
			continue // `make test-all` runs all of them
		}
		t.Run("lie="+test.lie, func(t *testing.T) {
			ledger, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"))
			require.NoError(t, err)
			mix := Mix{Workers: 4, SmallKeys: 80, LargeKeys: 8, LargeRate: 32 << 20, Versions: true}
			for _, op := range Operations() {
				if test.ops == nil || slices.Contains(test.ops, op.Name) {
					mix.Ops = append(mix.Ops, op)
				}
			}
			b := &Bench{Server: newLiar(test.lie), Ledger: ledger, Mix: mix, Seed: 1, Logf: t.Logf,
				LoadMin: 150 * time.Millisecond, LoadMax: 250 * time.Millisecond}
			cycles := 20 // it ends with the first violation
			if test.lie == "" {
				cycles = 2
			}
			s := b.Run(t.Context(), cycles, Kill)
			require.NoError(t, ledger.Close())
			t.Log(s)
			if test.lie == "" {
				require.Empty(t, s.Violations)
				return
			}
			for _, v := range s.Violations[:min(3, len(s.Violations))] {
				t.Log(v)
			}
			found := slices.ContainsFunc(s.Violations, func(v Violation) bool { return slices.Contains(test.kinds, v.Kind) })
			require.True(t, found, "the bench did not find the lie: expected a violation of one of the kinds %v", test.kinds)
		})
	}
}

// TestLedgerReplays reopens a ledger, which must restore its state.
func TestLedgerReplays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path)
	require.NoError(t, err)
	b := &Bench{Server: newLiar(""), Ledger: l, Mix: StandardMix(), Seed: 2, Logf: t.Logf, LoadMin: 100 * time.Millisecond, LoadMax: 100 * time.Millisecond}
	require.Empty(t, b.Run(t.Context(), 1, Kill).Violations)
	want, next := l.State(), l.Number()
	require.NoError(t, l.Close())
	l, err = OpenLedger(path)
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, want, l.State())
	require.LessOrEqual(t, l.Number(), next)
	require.Greater(t, l.Number(), uint64(10))

	require.NoError(t, os.WriteFile(path, []byte("{\"type\":\"done\",\"request\":7}\n"), 0o644))
	_, err = OpenLedger(path)
	require.Error(t, err, "the ledger has the end of a request that never began")
}

// TestRange takes ranges of a value of several pieces.
func TestRange(t *testing.T) {
	v, body := NewValue(Piece{ID: 1, Size: 10}, Piece{ID: 2, From: 3, Size: 20}, Piece{ID: 3, Size: 5})
	for first := range v.Size {
		for length := int64(1); first+length <= v.Size; length++ {
			require.Equal(t, body[first:first+length], v.Range(first, length).Bytes(), "%d bytes from %d", length, first)
		}
	}
}

// TestCopied: the ETag of a copy is that of an object that was not uploaded in parts.
func TestCopied(t *testing.T) {
	whole, body := NewValue(Piece{ID: 1, Size: 10}, Piece{ID: 2, Size: 20})
	one, _ := NewValue(Piece{ID: 1, Size: 10})
	two, _ := NewValue(Piece{ID: 2, Size: 20})
	for _, v := range []*Value{whole, Join(one, two), one.Append(two), Join(one, two).Labeled("tag")} {
		copied := v.Copied()
		require.Equal(t, whole.ETag, copied.ETag)
		require.True(t, copied.is(body, v.Label))
	}
	// If a copy onto itself is uncertain, both ETags are correct, but no third one.
	s, n := newState(), Name{Key: "k"}
	for i, v := range []*Value{Join(one, two), whole} {
		require.NoError(t, s.apply(Record{Type: Begin, Request: uint64(i + 1), Effects: []Effect{{n, v}}}))
	}
	for tag, wrong := range map[string]int{whole.ETag: 0, Join(one, two).ETag: 0, one.ETag: 1} {
		c := &checker{state: s}
		c.content(n, body, tag, "")
		require.Len(t, c.report.Violations, wrong, tag)
	}
}

// TestCutState applies requests before, during and after a cut.
func TestCutState(t *testing.T) {
	l, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	require.NoError(t, err)
	defer l.Close()
	write := func(typ string, request uint64, key string, v *Value) {
		r := Record{Type: typ, Request: request}
		if typ == Begin {
			r.Effects = []Effect{{Name{Key: key}, v}}
		}
		require.NoError(t, l.Write(r))
	}
	a, _ := NewValue(Piece{ID: 1, Size: 10})
	b, _ := NewValue(Piece{ID: 2, Size: 20})
	write(Begin, 1, "before", a)
	write(Done, 1, "", nil)
	write(Begin, 2, "across", a)
	write(Cut, 0, "", nil)
	write(Done, 2, "", nil)
	write(Begin, 3, "before", b)
	write(Done, 3, "", nil)
	write(CutDone, 0, "", nil)
	write(Begin, 4, "after", a)
	write(Done, 4, "", nil)
	write(Rewind, 0, "", nil)

	may := func(key string) (values []*Value) {
		for _, c := range l.State().candidates(Name{Key: key}) {
			values = append(values, c.value)
		}
		return values
	}
	require.Equal(t, []*Value{a, b}, may("before"))
	require.Equal(t, []*Value{nil, a}, may("across"))
	require.Equal(t, []*Value{nil}, may("after"))
}

// TestDiffer checks that differ identifies the content that is in place of the expected content.
func TestDiffer(t *testing.T) {
	for _, x := range []uint64{0, 1, 1 << 32, 77<<32 | 123456, ^uint64(0)} {
		require.Equal(t, x, unmix(mix(x)))
	}
	v, body := NewValue(Piece{ID: 5, Size: 1000}, Piece{ID: 6, From: 333, Size: 555})
	require.Len(t, body, 1555)
	require.Empty(t, v.differ(body))
	require.Equal(t, Piece{ID: 6, Size: 2000}.appendTo(nil)[333:888], body[1000:])
	other := Piece{ID: 9, Size: 2000}.appendTo(nil)
	copy(body[700:800], other[64:])
	require.Equal(t, "bytes 700..799 of 1555 differ: found content #9 at 64", v.differ(body))
	clear(body[700:800])
	require.Contains(t, v.differ(body), "zeros")
}

// TestUploadDuringACut: each request between the two records of a cut may have come before the cut or not. So an upload
// that was created and aborted there may be in progress afterwards.
func TestUploadDuringACut(t *testing.T) {
	ledger, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	require.NoError(t, err)
	defer ledger.Close()
	unnamed, n := Name{Key: "k", Upload: "?1"}, Name{Key: "k", Upload: "8e93"}
	for _, r := range []Record{
		{Type: Cut},
		{Type: Begin, Request: 1, Effects: []Effect{{unnamed, &Value{}}}},
		{Type: Done, Request: 1, Effects: []Effect{{n, &Value{}}, {unnamed, nil}}},
		{Type: Begin, Request: 2, Effects: []Effect{{n, nil}}},
		{Type: Done, Request: 2},
		{Type: CutDone},
		{Type: Rewind},
	} {
		require.NoError(t, ledger.Write(r))
	}
	for _, name := range []Name{n, unnamed} {
		exist, lack := ledger.May(name)
		require.True(t, exist, name)
		require.True(t, lack, name)
	}
}

// TestRelaxedCutState: writes acknowledged within the window before a cut may survive or not; earlier ones survive.
func TestRelaxedCutState(t *testing.T) {
	s := newState()
	s.relax()
	a, _ := NewValue(Piece{ID: 1, Size: 10})
	b, _ := NewValue(Piece{ID: 2, Size: 20})
	c, _ := NewValue(Piece{ID: 3, Size: 30})
	put := func(at int64, request uint64, key string, v *Value) {
		require.NoError(t, s.apply(Record{Type: Begin, Request: request, Time: at, Effects: []Effect{{Name{Key: key}, v}}}))
		require.NoError(t, s.apply(Record{Type: Done, Request: request, Time: at + 1}))
	}
	put(1, 1, "old", a)
	put(3, 2, "old", b)
	put(3, 3, "gone", a)
	put(20, 4, "old", c)
	put(21, 5, "new", a)
	put(22, 6, "new", b)
	put(23, 7, "gone", nil)
	require.NoError(t, s.apply(Record{Type: Cut, Time: 25, Window: 10}))
	require.NoError(t, s.apply(Record{Type: CutDone, Time: 26}))
	require.NoError(t, s.apply(Record{Type: Rewind, Time: 27}))
	may := func(key string) (values []*Value) {
		for _, x := range s.candidates(Name{Key: key}) {
			values = append(values, x.value)
		}
		return values
	}
	require.Equal(t, []*Value{b, c}, may("old"))
	require.Equal(t, []*Value{nil, a, b}, may("new"))
	require.Equal(t, []*Value{a, nil}, may("gone"))
	require.NoError(t, s.apply(Record{Type: Seen, Time: 28, Effects: []Effect{{Name{Key: "new"}, a}}}))
	require.NoError(t, s.apply(Record{Type: Checked, Time: 29}))
	require.NoError(t, s.apply(Record{Type: Cut, Time: 30, Window: 10}))
	require.NoError(t, s.apply(Record{Type: CutDone, Time: 31}))
	require.NoError(t, s.apply(Record{Type: Rewind, Time: 32}))
	require.Equal(t, []*Value{a}, may("new"), "a start makes everything that it finds durable")
}
