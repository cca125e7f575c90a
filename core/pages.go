package core

import (
	"context"
	"iter"
)

// EachBucket reads all buckets after a name, in the order of their names. An error ends the sequence. Like EachPart and
// EachRecord, it reads page by page, so the caller may be slow between two entries, and may stop early.
func EachBucket(ctx context.Context, meta Meta, after string) iter.Seq2[*BucketInfo, error] {
	return pages(1000, after, func(after string, limit int) ([]BucketInfo, error) {
		return meta.Buckets(ctx, "", after, limit)
	}, func(b *BucketInfo) string { return b.Name })
}

// EachPart reads all parts of a segment list, without their content.
func EachPart(ctx context.Context, meta Meta, list UploadID) iter.Seq2[*PartInfo, error] {
	return pages(1000, 0, func(after, limit int) ([]PartInfo, error) {
		return meta.Parts(ctx, list, after, limit, WithoutContent)
	}, func(p *PartInfo) int { return p.Number })
}

// EachRecord reads all records of a kind, in pages of limit records.
func EachRecord(ctx context.Context, meta Meta, kind string, limit int) iter.Seq2[*Record, error] {
	return pages(limit, "", func(after string, limit int) ([]Record, error) {
		return meta.Records(ctx, kind, after, limit)
	}, func(r *Record) string { return r.Key })
}

// pages reads the entries after a key. A page with fewer than limit entries is the last one.
func pages[T, K any](limit int, after K, read func(after K, limit int) ([]T, error), keyOf func(*T) K) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for {
			page, err := read(after, limit)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
			if len(page) < limit {
				return
			}
			after = keyOf(&page[limit-1])
		}
	}
}
