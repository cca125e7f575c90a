package report

// elsewhere is what others publish. Their machines and conditions are not ours; what is comparable is said in the right column.
func elsewhere() Section {
	return Section{
		Title: "Published elsewhere",
		Text: []string{"Figures that others published, on their machines and under their conditions, to be read beside ours. Where nothing was durable, no socket was in the way or " +
			"nothing was signed, it is not the same work."},
		Table: []Table{{
			Prose:  true,
			Header: []string{"what", "figures", "conditions"},
			Rows: [][]string{
				{"packed writer, PUT/s of 1, 4, 64 KiB", "1 thread 409, 629, 482; 10: 1,226, 1,584, 1,277; 50: 1,545, 1,482, 973; 100: 1,589, 1,297, 953", "laptop with 12 cores; in process: no socket, no signature; not durable"},
				{"the same, packing off", "264, 249, 241; 740, 729, 723; 779, 805, 712; 721, 735, 727", "as above"},
				{"the same, large objects", "10 MiB at 10, 50, 100: 1,063, 1,643, 2,126 MB/s; 1 MiB at 1, 10, 50, 100: 16.9, 165, 521, 774 MB/s", "as above"},
				{"streaming web front", "below 1 KB 500/s, p50 45, p95 85, p99 150 ms; 1 MB 100/s, 120, 280, 450 ms; 10 MB 50/s, 250, 450, 800 ms; RSS 45 to 52 MB", "t3.medium"},
				{"the same, ranges", "100 B 800/s, p95 65 ms; 1 KB 750/s, 75 ms; 100 KB 400/s, 120 ms", "as above"},
				{"erasure-coded cluster", "1 MB up 8.0, down 32.3 MB/s; 2 MB up 1.6, down 47.6 MB/s", "8+4 on loopback; the 2 MB upload waited for 100 Continue"},
				{"orchestrator of S3 stores", "about 500 PUT/s of 1 KB, then it sheds load", "a hot row for quotas"},
				{"1 million objects of 1 KiB, creates and listed keys a second", "SeaweedFS 4,572 and 224,930; Garage 2,877 and 27,695; MinIO 498 and 4,573", "laptop, 16 clients"},
			},
		}},
	}
}
