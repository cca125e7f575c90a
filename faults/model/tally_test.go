package model

import (
	"encoding/json"
	"fmt"

	"orcas/admin"
)

// holds returns what a bucket holds.
func (s *store) holds(name string) (h admin.Holds) {
	for _, list := range s.buckets[name].versions {
		for i, v := range list {
			switch {
			case v.o == nil:
				h.DeleteMarkers++
			case i == 0:
				h.Objects++
				h.Bytes += int64(len(v.o.body))
			default:
				h.NoncurrentVersions++
				h.NoncurrentBytes += int64(len(v.o.body))
			}
		}
	}
	for _, u := range s.uploads {
		if u.bucket == name && !u.ended {
			h.Uploads++
			for _, p := range u.parts {
				h.UploadBytes += int64(len(p.body))
			}
		}
	}
	return h
}

// compareTally compares what the server says that a bucket holds with the model.
func (r *script) compareTally(name string) error {
	a, err := r.m.admin.do("GET", "-", "admin/bucket", "name="+name, nil)
	if err := expect(a, err, ok); err != nil {
		return err
	}
	var got admin.BucketSettings
	if err := json.Unmarshal(a.body, &got); err != nil {
		return err
	}
	if want := r.s.holds(name); got.Holds != want {
		return fmt.Errorf("%w: the bucket holds %+v instead of %+v", errDiffers, got.Holds, want)
	}
	return nil
}
