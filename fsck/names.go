package fsck

import (
	"context"
	"fmt"
	"strings"

	"orcas/core"
	"orcas/core/ids"
)

// ObjectName names an object that refers to content: a version of a key, or a part of an upload in progress. The IDs have
// the form that clients use.
type ObjectName struct {
	Bucket  string `json:"bucket"`
	Key     string `json:"key"`
	Version string `json:"version,omitempty"`
	Upload  string `json:"upload,omitempty"`
	Part    int    `json:"part,omitempty"`
}

// String returns the name on one line.
func (n ObjectName) String() string {
	s := fmt.Sprintf("%s/%q", n.Bucket, n.Key)
	if n.Version != "" {
		s += " version " + n.Version
	}
	if n.Upload != "" {
		s += " upload " + n.Upload
	}
	if n.Part != 0 {
		s += fmt.Sprint(" part ", n.Part)
	}
	return s
}

// maxNames is the maximum length of Referrers.Names.
const maxNames = 10

// Referrers are the versions and parts that refer to a DataID.
type Referrers struct {
	Names []ObjectName // at most maxNames
	Count int
}

func (u *Referrers) add(n ObjectName) {
	u.Count++
	if len(u.Names) < maxNames {
		u.Names = append(u.Names, n)
	}
}

// String returns the names on one line.
func (u *Referrers) String() string {
	var names []string
	for _, n := range u.Names {
		names = append(names, n.String())
	}
	if u.Count > len(names) {
		names = append(names, fmt.Sprint("and ", u.Count-len(names), " more"))
	}
	return strings.Join(names, ", ")
}

// partOf is a part that refers to a DataID.
type partOf struct {
	number int
	data   core.DataID
}

// FindReferrers fills in the Referrers of the given DataIDs. It reads all metadata once, and a second time if parts
// refer to one of the DataIDs. It skips rows that cannot be read.
func FindReferrers(ctx context.Context, meta Source, contents map[core.DataID]*Referrers) error {
	codec := codecOf(ctx, meta)
	each := func(emit func(*core.Row) error) error {
		return EachRow(ctx, meta, emit, func(string, error) {})
	}
	buckets, lists := map[core.BucketID]string{}, map[core.UploadID][]partOf{}
	err := each(func(r *core.Row) error {
		switch {
		case r.Bucket != nil:
			buckets[r.Bucket.ID] = r.Bucket.Name
		case r.Object != nil:
			for _, s := range r.Object.Segments {
				if u := contents[s.Data]; u != nil {
					u.add(versionName(codec, buckets, r.Object))
				}
			}
		case r.Part != nil:
			for _, s := range r.Part.Segments {
				if contents[s.Data] != nil {
					lists[r.Part.List] = append(lists[r.Part.List], partOf{r.Part.Number, s.Data})
				}
			}
		}
		return nil
	})
	if err != nil || len(lists) == 0 {
		return err
	}
	return each(func(r *core.Row) error {
		switch {
		case r.Object != nil && r.Object.List != 0:
			for _, p := range lists[r.Object.List] {
				n := versionName(codec, buckets, r.Object)
				n.Part = p.number
				contents[p.data].add(n)
			}
		case r.Upload != nil:
			for _, p := range lists[r.Upload.ID] {
				contents[p.data].add(ObjectName{
					Bucket: bucketName(buckets, r.Upload.Bucket), Key: r.Upload.Key, Upload: codec.Upload(r.Upload.ID), Part: p.number,
				})
			}
		}
		return nil
	})
}

func versionName(codec *ids.Codec, buckets map[core.BucketID]string, o *core.ObjectInfo) ObjectName {
	return ObjectName{Bucket: bucketName(buckets, o.Bucket), Key: o.Key, Version: codec.Version(o.Version())}
}

// uploadName returns the name of an upload in a difference.
func uploadName(codec *ids.Codec, id core.UploadID, key string) string {
	return fmt.Sprintf("upload %s of key %q", codec.Upload(id), key)
}

// codecOf returns the codec of version IDs and upload IDs. If its record cannot be read, it returns nil, so that IDs are
// sequences.
func codecOf(ctx context.Context, meta core.Meta) *ids.Codec {
	codec, err := ids.Load(ctx, meta)
	if err != nil {
		return nil
	}
	return codec
}

func bucketName(buckets map[core.BucketID]string, id core.BucketID) string {
	if name, ok := buckets[id]; ok {
		return name
	}
	return fmt.Sprint("(missing bucket ", id, ")")
}

// EachRow calls emit with every row of the metadata. After a row that cannot be read, it calls lost with a description
// of the row and the error, and continues, if the engine supports this. Otherwise it returns the error.
func EachRow(ctx context.Context, meta core.Snapshotter, emit func(*core.Row) error, lost func(what string, err error)) error {
	if s, ok := core.As[core.Salvager](meta); ok {
		return s.Salvage(ctx, emit, lost)
	}
	return meta.Snapshot(ctx, emit)
}
