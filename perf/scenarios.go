package perf

import "time"

// params are the figures of a scenario in one profile. What a scenario does not use is zero.
type params struct {
	duration time.Duration // of one load
	sizes    []int         // bytes
	workers  []int
	rates    []float64 // requests a second
	keys     []int
	turns    int
	maxBytes int64 // of bodies that one load may send, since the servers of a run keep what was deleted
}

// scenario is one way to load a server.
type scenario struct {
	id, help, mode string
	serverless     bool   // it starts the servers that it needs itself
	note           string // what its figures do not show by themselves
	profiles       [3]params
	bytes          func(p params) float64 // that it stores, where that does not depend on the server's speed; nil: little
	run            func(s *session) error
}

// Help is a scenario's id and what it does.
type Help struct{ ID, Text string }

// List names the scenarios, in the order in which they are run.
func List() []Help {
	var list []Help
	for _, s := range allScenarios() {
		list = append(list, Help{s.id, s.help})
	}
	return list
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	sec = time.Second
)

// allScenarios returns the table. Its profiles are smoke, baseline, saturation.
func allScenarios() []scenario {
	return append(append(append(putScenarios(), getScenarios()...), keyScenarios()...), storeScenarios()...)
}

func putScenarios() []scenario {
	return []scenario{
		{id: "batch-compare", help: "PUT with packing on and off, in turns", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{4 * kib}, workers: []int{1, 50}, maxBytes: gib},
				{duration: 2 * sec, sizes: []int{kib, 4 * kib, 64 * kib}, workers: []int{1, 10, 50, 100}, turns: 3, maxBytes: gib},
				{duration: 10 * sec, sizes: []int{kib, 4 * kib, 64 * kib}, workers: []int{1, 10, 50, 100}, turns: 5, maxBytes: 4 * gib},
			}, run: (*session).batchCompare},
		{id: "put-sweep", help: "PUT of growing sizes at a rate; the largest in a closed loop", mode: "size-sweep",
			profiles: [3]params{
				{duration: sec, sizes: []int{kib, mib, 10 * mib}, rates: []float64{50}, workers: []int{4}, maxBytes: gib},
				{duration: 15 * sec, sizes: []int{kib, mib, 100 * mib}, rates: []float64{200}, workers: []int{4}, maxBytes: 6 * gib},
				{duration: 60 * sec, sizes: []int{kib, mib, 100 * mib}, rates: []float64{200}, workers: []int{4}, maxBytes: 30 * gib},
			}, run: (*session).putSweep},
		{id: "overwrite", help: "PUT to keys that exist", mode: "single",
			profiles: [3]params{
				{duration: sec, sizes: []int{kib}, rates: []float64{100}, keys: []int{200}},
				{duration: 15 * sec, sizes: []int{kib}, rates: []float64{200}, keys: []int{200}},
				{duration: 60 * sec, sizes: []int{kib}, rates: []float64{200}, keys: []int{200}},
			}, run: (*session).overwrite},
		{id: "burst", help: "PUT by 0 to 100 workers within 2 s, and how soon the server recovers", mode: "single",
			profiles: burstParams(), run: func(s *session) error { return s.burst(false) }},
		{id: "burst-read", help: "GET by 0 to 100 workers within 2 s, and how soon the server recovers", mode: "single",
			profiles: burstParams(), run: func(s *session) error { return s.burst(true) }},
		{id: "concurrent-1m", help: "PUT and GET of 1 MiB by ever more workers", mode: "table",
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{mib}, workers: []int{1, 10}, keys: []int{20}, maxBytes: gib / 2},
				{duration: 4 * sec, sizes: []int{mib}, workers: []int{1, 10, 50, 100}, keys: []int{200}, maxBytes: 3 * gib},
				{duration: 15 * sec, sizes: []int{mib}, workers: []int{1, 10, 50, 100}, keys: []int{200}, maxBytes: 8 * gib},
			}, run: (*session).concurrent},
		{id: "ops-sweep", help: "PUT, GET, HEAD, DELETE of growing sizes, one after the other", mode: "size-sweep",
			profiles: [3]params{
				{duration: 200 * time.Millisecond, sizes: []int{kib, mib}, keys: []int{10}, maxBytes: gib / 2},
				{duration: 1500 * time.Millisecond, sizes: []int{kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 10 * mib}, keys: []int{20}, maxBytes: 2 * gib},
				{duration: 10 * sec, sizes: []int{kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 10 * mib}, keys: []int{100}, maxBytes: 8 * gib},
			}, run: (*session).opsSweep},
		{id: "workers-sweep", help: "PUT and GET by 1 to 64 workers, repeated", mode: "table",
			profiles: [3]params{
				{duration: 150 * time.Millisecond, sizes: []int{64 * kib}, workers: []int{1, 8}, turns: 2, keys: []int{20}, maxBytes: gib / 4},
				{duration: 700 * time.Millisecond, sizes: []int{64 * kib, 256 * kib, mib}, workers: []int{1, 2, 4, 8, 16, 32, 64}, turns: 3, keys: []int{64}, maxBytes: gib / 2},
				{duration: 5 * sec, sizes: []int{64 * kib, 256 * kib, mib}, workers: []int{1, 2, 4, 8, 16, 32, 64}, turns: 5, keys: []int{64}, maxBytes: 2 * gib},
			}, run: (*session).workersSweep},
		{id: "file-sweep", help: "PUT and GET of single large files, with their MD5", mode: "size-sweep",
			profiles: [3]params{
				{sizes: []int{mib, 5 * mib}, turns: 1},
				{sizes: []int{mib, 2 * mib, 5 * mib, 10 * mib, 50 * mib}, turns: 3},
				{sizes: []int{mib, 2 * mib, 5 * mib, 10 * mib, 50 * mib}, turns: 3},
			}, run: (*session).fileSweep},
		{id: "multipart", help: "concurrent uploads in parts of 5 MiB", mode: "table",
			profiles: [3]params{
				{duration: sec / 2, sizes: []int{5 * mib}, workers: []int{4}, keys: []int{2}, maxBytes: gib / 2},
				{duration: 8 * sec, sizes: []int{5 * mib}, workers: []int{10, 50, 100}, keys: []int{5}, maxBytes: 5 * gib},
				{duration: 30 * sec, sizes: []int{5 * mib}, workers: []int{10, 50, 100}, keys: []int{5}, maxBytes: 20 * gib},
			}, run: (*session).multipart},
	}
}

func burstParams() [3]params {
	return [3]params{
		{duration: sec, sizes: []int{4 * kib}, workers: []int{20}, keys: []int{100}},
		{duration: 10 * sec, sizes: []int{4 * kib}, workers: []int{100}, keys: []int{1000}},
		{duration: 20 * sec, sizes: []int{4 * kib}, workers: []int{100}, keys: []int{1000}},
	}
}

func getScenarios() []scenario {
	return []scenario{
		{id: "get-warm", help: "GET of objects that were just read, at a rate", mode: "size-sweep",
			profiles: [3]params{
				{duration: sec, sizes: []int{kib, mib}, rates: []float64{100}, keys: []int{50}},
				{duration: 15 * sec, sizes: []int{kib, mib}, rates: []float64{500}, keys: []int{1000}},
				{duration: 60 * sec, sizes: []int{kib, mib}, rates: []float64{500}, keys: []int{1000}},
			}, bytes: seeded, run: (*session).getWarm},
		{id: "get-cold", help: "GET of each object once, after a restart with dropped caches, then again", mode: "size-sweep",
			profiles: [3]params{
				{sizes: []int{kib, mib}, rates: []float64{100}, keys: []int{50}},
				{sizes: []int{kib, mib}, rates: []float64{500}, keys: []int{1000}},
				{sizes: []int{kib, mib}, rates: []float64{500}, keys: []int{1000}},
			}, bytes: seeded, run: (*session).getCold},
		{id: "range", help: "GET of pieces of a 10 MiB object", mode: "size-sweep",
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{100, kib, 100 * kib}, workers: []int{16}},
				{duration: 5 * sec, sizes: []int{100, kib, 100 * kib}, workers: []int{16}},
				{duration: 60 * sec, sizes: []int{100, kib, 100 * kib}, workers: []int{16}},
			}, run: (*session).ranges},
		{id: "mixed-ramp", help: "mixes of GET, PUT and DELETE at growing rates, until the server no longer keeps up", mode: "ramp",
			note: "Beyond 2000 requests a second the steps grow by half.",
			profiles: [3]params{
				{duration: sec / 2, sizes: []int{4 * kib}, rates: []float64{100, 500}, keys: []int{200}, turns: 2},
				{duration: 5 * sec, sizes: []int{4 * kib}, rates: rampRates(), keys: []int{1000}, turns: 16},
				{duration: 30 * sec, sizes: []int{4 * kib}, rates: rampRates(), keys: []int{1000}, turns: 16},
			}, bytes: seeded, run: (*session).mixedRamp},
		{id: "web-quick", help: "a small web site at 4 requests a second", mode: "table",
			profiles: [3]params{{duration: sec, rates: []float64{8}}, {duration: 5 * sec, rates: []float64{4}}, {duration: 5 * sec, rates: []float64{4}}},
			run:      (*session).web},
		{id: "web-sustained", help: "the web site at 10, then at 100 requests a second", mode: "table",
			profiles: [3]params{{duration: sec, rates: []float64{20}}, {duration: 40 * sec, rates: []float64{10, 100}}, {duration: 600 * sec, rates: []float64{10, 100}}},
			run:      (*session).web},
		{id: "web-spike", help: "the web site from 5 to 100 requests a second", mode: "table",
			profiles: [3]params{{duration: sec, rates: []float64{5, 40}}, {duration: 30 * sec, rates: []float64{5, 100}}, {duration: 120 * sec, rates: []float64{5, 100}}},
			run:      (*session).web},
		{id: "web-conformance", help: "status, type and length of each page of the web site, expected 403 and 404 included", mode: "table",
			profiles: [3]params{{turns: 1}, {turns: 5}, {turns: 20}}, run: (*session).webConformance},
	}
}

func rampRates() []float64 {
	return []float64{100, 300, 500, 700, 900, 1100, 1300, 1500, 1700, 1900}
}

// seeded is the bytes of a scenario that puts as many keys of each size.
func seeded(p params) float64 {
	total := 0.0
	for _, size := range p.sizes {
		total += float64(size) * float64(p.keys[len(p.keys)-1])
	}
	return total
}

func keyScenarios() []scenario {
	at := func(rate float64, keys int, d time.Duration) params {
		return params{duration: d, sizes: []int{kib}, rates: []float64{rate}, keys: []int{keys}}
	}
	return []scenario{
		{id: "head", help: "HEAD at a rate", mode: "single",
			profiles: [3]params{at(200, 100, sec/2), at(500, 1000, 15*sec), at(500, 1000, 60*sec)}, bytes: seeded, run: (*session).head},
		{id: "delete", help: "DELETE of each key once, at a rate", mode: "single",
			profiles: [3]params{at(200, 100, 0), at(200, 1000, 0), at(200, 1000, 0)}, bytes: seeded, run: (*session).deletes},
		{id: "delete-batch", help: "DeleteObjects, 10 keys at a time", mode: "single",
			profiles: [3]params{at(20, 200, 0), at(20, 1000, 0), at(20, 1000, 0)}, bytes: seeded, run: (*session).deleteBatches},
		{id: "copy", help: "CopyObject to fresh keys, at a rate", mode: "single",
			profiles: [3]params{at(100, 50, sec/2), at(200, 200, 15*sec), at(200, 200, 60*sec)}, bytes: seeded, run: (*session).copies},
		{id: "tagging", help: "PutObjectTagging and GetObjectTagging, at a rate", mode: "single",
			profiles: [3]params{at(100, 50, sec/2), at(200, 200, 15*sec), at(200, 200, 60*sec)}, bytes: seeded, run: (*session).tagging},
		{id: "list", help: "first page, whole walk and delimiters over growing namespaces", mode: "table",
			profiles: [3]params{
				{keys: []int{2000}, workers: []int{1}, turns: 5},
				{keys: []int{10_000, 100_000, 1_000_000}, workers: []int{1}, turns: 100},
				{keys: []int{10_000, 100_000, 1_000_000}, workers: []int{1}, turns: 500},
			}, bytes: func(p params) float64 { return 1000 * float64(p.keys[len(p.keys)-1]) }, run: (*session).list},
	}
}

func storeScenarios() []scenario {
	return []scenario{
		{id: "churn", help: "PUT and DELETE in a bounded set, and what the disk holds afterwards", mode: "single",
			profiles: [3]params{
				{duration: sec, sizes: []int{16 * kib}, workers: []int{8}, keys: []int{300}, maxBytes: gib},
				{duration: 20 * sec, sizes: []int{16 * kib}, workers: []int{16}, keys: []int{300}, maxBytes: 8 * gib},
				{duration: 60 * sec, sizes: []int{16 * kib}, workers: []int{16}, keys: []int{300}, maxBytes: 30 * gib},
			}, run: (*session).churn},
		{id: "footprint", help: "bytes, files, memory, start and rebuild of a store of many small objects", mode: "table",
			profiles: [3]params{
				{sizes: []int{4 * kib}, keys: []int{2000}}, {sizes: []int{4 * kib}, keys: []int{1_000_000}}, {sizes: []int{4 * kib}, keys: []int{1_000_000}},
			}, bytes: seeded, run: (*session).footprint},
		{id: "instant", help: "PUT of content that the store has against content that it has not", mode: "table",
			profiles: [3]params{
				{duration: 200 * time.Millisecond, sizes: []int{10 * kib}, keys: []int{20, 3000}, turns: 1, maxBytes: gib / 2},
				{duration: sec / 2, sizes: []int{kib, 10 * kib, 100 * kib, mib, 10 * mib}, keys: []int{20, 150_000}, turns: 31, maxBytes: gib},
				{duration: 5 * sec, sizes: []int{kib, 10 * kib, 100 * kib, mib, 10 * mib}, keys: []int{200, 1_000_000}, turns: 5, maxBytes: 4 * gib},
			}, run: (*session).instant},
		{id: "encrypted", help: "PUT and GET with encryption by the server", mode: "size-sweep",
			profiles: [3]params{
				{duration: sec / 2, sizes: []int{4 * kib}, workers: []int{4}, keys: []int{20}, turns: 1},
				{duration: sec, sizes: []int{4 * kib, 256 * kib, 10 * mib}, workers: []int{4}, keys: []int{20}, turns: 11},
				{duration: 10 * sec, sizes: []int{4 * kib, 256 * kib, mib, 10 * mib}, workers: []int{16}, keys: []int{50}, turns: 5},
			}, run: (*session).encrypted},
		{id: "compression", help: "JSON records and random content, with compression and without it", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{4 * kib}, keys: []int{500}, turns: 1, maxBytes: gib / 4},
				{duration: sec, sizes: []int{4 * kib}, keys: []int{10_000}, turns: 25, maxBytes: gib},
				{duration: 10 * sec, sizes: []int{4 * kib}, keys: []int{100_000}, turns: 9, maxBytes: 2 * gib},
			}, run: (*session).compression},
		{id: "versions", help: "PUT into a bucket that keeps versions and into one that does not, in turns", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{4 * kib}, workers: []int{16}, keys: []int{50}, turns: 1, maxBytes: gib / 4},
				{duration: 3 * sec, sizes: []int{4 * kib}, workers: []int{64}, keys: []int{1000}, turns: 5, maxBytes: 2 * gib},
				{duration: 10 * sec, sizes: []int{4 * kib}, workers: []int{64}, keys: []int{1000}, turns: 9, maxBytes: 2 * gib},
			}, run: (*session).versions},
		{id: "core", help: "the goals of the core, beside the null server and the disk, in turns", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, keys: []int{2000}, turns: 1}, {duration: 4 * sec, keys: []int{100_000}, turns: 3}, {duration: 10 * sec, keys: []int{1_000_000}, turns: 5},
			}, run: (*session).core},
		{id: idCeilings, help: "the null server, the disk and the memory alone", mode: "table", serverless: true, run: (*session).onlyCeilings},
	}
}
