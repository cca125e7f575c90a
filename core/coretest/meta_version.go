package coretest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// versions formats the versions of a key, the newest first: the sequence relative to base, followed by n for a null
// version and d for a delete marker.
func (r *reader) versions(b *core.BucketInfo, key string, base core.Seq) string {
	page, err := r.m.List(r.ctx, core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Prefix: key, Limit: 1000})
	require.NoError(r.t, err)
	var out []string
	for _, o := range page.Objects {
		s := fmt.Sprint(o.Seq - base)
		if o.Null {
			s += "n"
		}
		if o.Marker {
			s += "d"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// script runs steps on key "k" of a new bucket: p put, d delete, N delete the null version, 1..9 delete the version of
// that step, E enable and S suspend versioning. It returns the versions of the key, with the numbers of their steps.
func (h *harness) script(name, steps string) string {
	b := h.bucket(name, core.VersioningOff)
	base := h.seq
	for i, step := range steps {
		switch step {
		case 'p':
			h.put(b, "k")
		case 'd':
			h.remove(b, "k")
		case 'N':
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: core.Null, Modified: h.at()})
		case 'E':
			h.set(b, core.VersioningEnabled)
		case 'S':
			h.set(b, core.VersioningSuspended)
		default:
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: core.Version(base) + core.Version(step-'0'), Modified: h.at()})
		}
		require.Equal(h.t, core.Seq(i+1), h.seq-base)
	}
	return h.versions(b, "k", base)
}

func versionCases() []metaCase {
	scripts := func(cases ...[2]string) func(h *harness) {
		return func(h *harness) {
			for i, c := range cases {
				require.Equal(h.t, c[1], h.script(fmt.Sprint("bucket", i), c[0]), c[0])
			}
		}
	}
	return []metaCase{
		{"version/off", scripts([2]string{"p", "1n"}, [2]string{"pp", "2n"}, [2]string{"pd", ""}, [2]string{"d", ""}, [2]string{"pN", ""}, [2]string{"N", ""},
			[2]string{"pdp", "3n"})},
		{"version/enabled", scripts([2]string{"Ep", "2"}, [2]string{"Epp", "3 2"}, [2]string{"Epd", "3d 2"}, [2]string{"Epdd", "4d 3d 2"},
			[2]string{"Ed", "2d"}, [2]string{"EpN", "2"}, [2]string{"Epp2", "3"}, [2]string{"Epp3", "2"}, [2]string{"Epd3", "2"}, [2]string{"Epd2", "3d"},
			[2]string{"Epdp3", "4 2"})},
		{"version/null version from before versioning", scripts([2]string{"pEp", "3 1n"}, [2]string{"pEd", "3d 1n"}, [2]string{"pEpN", "3"}, [2]string{"pEN", ""},
			[2]string{"pEp3", "1n"}, [2]string{"pEpd4", "3 1n"})},
		{"version/suspended", scripts([2]string{"Sp", "2n"}, [2]string{"Spp", "3n"}, [2]string{"Sd", "2nd"}, [2]string{"Spd", "3nd"}, [2]string{"Sdd", "3nd"},
			[2]string{"Sdp", "3n"}, [2]string{"SpN", ""}, [2]string{"SdN", ""})},
		{"version/suspended over enabled", scripts([2]string{"EpSp", "4n 2"}, [2]string{"EpSpp", "5n 2"}, [2]string{"EpSd", "4nd 2"}, [2]string{"EpSpd", "5nd 2"},
			[2]string{"EpSpN", "2"}, [2]string{"EpS2", ""}, [2]string{"EpSp2", "4n"}, [2]string{"pEpSp", "5n 3"}, [2]string{"pEpSd", "5nd 3"})},
		{"version/null version between others", scripts([2]string{"EpSpEp", "6 4n 2"}, [2]string{"EpSpEpN", "6 2"}, [2]string{"EpSpEpSp", "8n 6 2"},
			[2]string{"EpSdEp", "6 4nd 2"}, [2]string{"EpSdEpSd", "8nd 6 2"}, [2]string{"EpSdEpN", "6 2"})},
		{"version/a null version cannot be named by its sequence", versionNullByNameOnly},
		{"version/reads", versionReads},
		{"version/fields of a delete marker", versionMarkerFields},
		{"version/results of deletes", versionDeleteResults},
		{"version/results of deletes with suspended versioning", versionSuspendedDeleteResults},
		{"version/each version keeps its content", versionEachHasContent},
		{"version/a replaced null version is freed", versionNullIsReplaced},
		{"version/a change of the versioning applies within its batch", versionChangeInBatch},
	}
}

func versionNullByNameOnly(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	h.none(core.NoSuchVersion, b, "k", core.Version(o.Seq))
	r := h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: core.Version(o.Seq)})
	require.Equal(h.t, core.Current, r.Version)
	require.Equal(h.t, o.Seq, h.get(b, "k", core.Current).Seq)
}

func versionReads(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	null := h.put(b, "k")
	h.set(b, core.VersioningEnabled)
	v := h.put(b, "k")
	require.False(h.t, v.Null)
	require.Equal(h.t, core.Version(v.Seq), v.Version())
	marker := h.remove(b, "k")
	require.True(h.t, marker.Marker)
	require.Equal(h.t, core.Version(marker.Seq), marker.Version)
	got := h.get(b, "k", core.Current)
	require.True(h.t, got.Marker && got.Latest && !got.Null)
	require.Equal(h.t, got, h.get(b, "k", marker.Version))
	require.False(h.t, h.get(b, "k", v.Version()).Latest)
	require.Equal(h.t, null.Seq, h.get(b, "k", core.Null).Seq)
	require.False(h.t, h.get(b, "k", core.Null).Latest)
	h.none(core.NoSuchVersion, b, "k", core.Version(marker.Seq+1))
	h.none(core.NoSuchKey, b, "l", v.Version())
}

func versionMarkerFields(h *harness) {
	for i, v := range []core.Versioning{core.VersioningEnabled, core.VersioningSuspended} {
		b := h.bucket(fmt.Sprint("b", i), v)
		at := h.at()
		r := h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Modified: at, Owner: "me"})
		want := core.ObjectInfo{Bucket: b.ID, Key: "k", Seq: r.Seq, Null: i == 1, Marker: true, Latest: true, Modified: at, Owner: "me"}
		require.Equal(h.t, want, normalObject(h.get(b, "k", core.Current)))
		require.Equal(h.t, want.Version(), r.Version)
	}
}

func versionDeleteResults(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	o, marker := h.put(b, "k"), h.remove(b, "k")
	r := h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: marker.Version})
	require.Equal(h.t, marker.Version, r.Version)
	require.True(h.t, r.Marker)
	require.True(h.t, h.get(b, "k", core.Current).Latest, "the previous version must be the newest again")
	r = h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: o.Version()})
	require.Equal(h.t, o.Version(), r.Version)
	require.False(h.t, r.Marker)
	r = h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: o.Version()})
	require.Equal(h.t, core.Current, r.Version)
	h.none(core.NoSuchKey, b, "k", core.Current)
}

func versionSuspendedDeleteResults(h *harness) {
	b := h.bucket("b", core.VersioningSuspended)
	r := h.remove(b, "k")
	require.Equal(h.t, core.Null, r.Version)
	require.True(h.t, r.Marker)
	r = h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: core.Null})
	require.Equal(h.t, core.Null, r.Version)
	require.True(h.t, r.Marker)
	h.none(core.NoSuchKey, b, "k", core.Current)
}

func versionEachHasContent(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	old, o := h.put(b, "k"), h.put(b, "k")
	h.remove(b, "k")
	extents, _ := h.trash()
	require.Empty(h.t, extents)
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: old.Version()})
	extents, _ = h.trash()
	require.Equal(h.t, old.Segments[0].Info.Extents, extents)
	require.EqualValues(h.t, 1, h.refs(o.Segments[0].Data))
}

func versionNullIsReplaced(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	null := h.put(b, "k")
	h.set(b, core.VersioningEnabled)
	h.put(b, "k")
	h.set(b, core.VersioningSuspended)
	h.put(b, "k")
	extents, _ := h.trash()
	require.Equal(h.t, null.Segments[0].Info.Extents, extents)
	last := h.get(b, "k", core.Null)
	h.remove(b, "k")
	require.Zero(h.t, h.refs(last.Segments[0].Data))
}

func versionChangeInBatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	enabled := *b
	enabled.Versioning = core.VersioningEnabled
	rs := h.apply(&core.PutObject{Object: h.object(b, "k", h.content(1))}, &core.PutBucket{Info: enabled},
		&core.PutObject{Object: h.object(b, "k", h.content(2))}, &core.DeleteObject{Bucket: b.ID, Key: "k", Modified: h.at()})
	require.Equal(h.t, core.Null, rs[0].Version)
	require.Equal(h.t, core.Version(rs[2].Seq), rs[2].Version)
	require.True(h.t, rs[3].Marker)
}
