package perf

import "time"

// params are the parameters of a scenario in one profile. Those that a scenario does not use are zero.
type params struct {
	duration time.Duration // duration of one load
	sizes    []int         // bytes
	workers  []int
	rates    []float64 // requests per second
	keys     []int
	turns    int
	parts    int           // number of parts of an upload
	idle     time.Duration // how long the server idles without requests
	maxBytes int64         // bytes of bodies that one load may send, because a server may not reclaim space in time
}

// scenario is one way to load a server.
type scenario struct {
	id, help, mode string
	serverless     bool   // the scenario itself starts the servers that it needs
	note           string // an explanation of its figures
	profiles       [3]params
	bytes          func(p params) float64 // bytes that it stores, if independent of the server's speed; nil: few
	run            func(s *session) error
}

// Help is the ID and the description of a scenario.
type Help struct{ ID, Text string }

// List returns the scenarios, in the order in which they run.
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

// allScenarios returns the table of scenarios. Their profiles are smoke, baseline and saturation.
func allScenarios() []scenario {
	return append(append(append(putScenarios(), getScenarios()...), keyScenarios()...), storeScenarios()...)
}

func putScenarios() []scenario {
	return []scenario{
		{id: "batch-compare", help: "Compare PUT with packing on and off, alternately.", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{4 * kib}, workers: []int{1, 50}, maxBytes: gib},
				{duration: 800 * time.Millisecond, sizes: []int{kib, 4 * kib, 64 * kib}, workers: []int{1, 10, 50, 100}, turns: 3, maxBytes: gib},
				{duration: 10 * sec, sizes: []int{kib, 4 * kib, 64 * kib}, workers: []int{1, 10, 50, 100}, turns: 5, maxBytes: 4 * gib},
			}, run: runBatchCompare},
		{id: "put-sweep", help: "PUT objects of growing sizes at a fixed rate; the largest in a closed loop.", mode: "size-sweep",
			profiles: [3]params{
				{duration: sec, sizes: []int{kib, mib, 10 * mib}, rates: []float64{50}, workers: []int{4}, maxBytes: gib},
				{duration: 8 * sec, sizes: []int{kib, mib, 100 * mib}, rates: []float64{200}, workers: []int{4}, maxBytes: 6 * gib},
				{duration: 60 * sec, sizes: []int{kib, mib, 100 * mib}, rates: []float64{200}, workers: []int{4}, maxBytes: 30 * gib},
			}, run: runPutSweep},
		{id: "overwrite", help: "PUT to existing keys.", mode: "single",
			profiles: [3]params{
				{duration: sec, sizes: []int{kib}, rates: []float64{100}, keys: []int{200}},
				{duration: 8 * sec, sizes: []int{kib}, rates: []float64{200}, keys: []int{200}},
				{duration: 60 * sec, sizes: []int{kib}, rates: []float64{200}, keys: []int{200}},
			}, run: runOverwrite},
		{id: "burst", help: "Ramp PUT up from 0 to 100 workers within 2 s, and measure how soon the server recovers.", mode: "single",
			profiles: burstParams(), run: func(s *session) error { return runBurst(s, false) }},
		{id: "burst-read", help: "Ramp GET up from 0 to 100 workers within 2 s, and measure how soon the server recovers.", mode: "single",
			profiles: burstParams(), run: func(s *session) error { return runBurst(s, true) }},
		{id: "concurrent-1m", help: "PUT and GET objects of 1 MiB with a growing number of workers.", mode: "table",
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{mib}, workers: []int{1, 10}, keys: []int{20}, maxBytes: gib / 2},
				{duration: 2 * sec, sizes: []int{mib}, workers: []int{1, 10, 50, 100}, keys: []int{200}, maxBytes: 3 * gib},
				{duration: 15 * sec, sizes: []int{mib}, workers: []int{1, 10, 50, 100}, keys: []int{200}, maxBytes: 8 * gib},
			}, run: runConcurrent},
		{id: "ops-sweep", help: "PUT, GET, HEAD and DELETE objects of growing sizes, one after the other.", mode: "size-sweep",
			profiles: [3]params{
				{duration: 200 * time.Millisecond, sizes: []int{kib, mib}, keys: []int{10}, maxBytes: gib / 2},
				{duration: sec, sizes: []int{kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 10 * mib}, keys: []int{20}, maxBytes: 2 * gib},
				{duration: 10 * sec, sizes: []int{kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 10 * mib}, keys: []int{100}, maxBytes: 8 * gib},
			}, run: runOpsSweep},
		{id: "workers-sweep", help: "PUT and GET with 1 to 64 workers, repeatedly.", mode: "table",
			profiles: [3]params{
				{duration: 150 * time.Millisecond, sizes: []int{64 * kib}, workers: []int{1, 8}, turns: 2, keys: []int{20}, maxBytes: gib / 4},
				{duration: 300 * time.Millisecond, sizes: []int{64 * kib, 256 * kib, mib}, workers: []int{1, 2, 4, 8, 16, 32, 64}, turns: 3, keys: []int{64}, maxBytes: gib / 2},
				{duration: 5 * sec, sizes: []int{64 * kib, 256 * kib, mib}, workers: []int{1, 2, 4, 8, 16, 32, 64}, turns: 5, keys: []int{64}, maxBytes: 2 * gib},
			}, run: runWorkersSweep},
		{id: "file-sweep", help: "PUT and GET single large files, and check their MD5.", mode: "size-sweep",
			profiles: [3]params{
				{sizes: []int{mib, 5 * mib}, turns: 1},
				{sizes: []int{mib, 2 * mib, 5 * mib, 10 * mib, 50 * mib}, turns: 3},
				{sizes: []int{mib, 2 * mib, 5 * mib, 10 * mib, 50 * mib}, turns: 3},
			}, run: runFileSweep},
		{id: "multipart", help: "Upload files concurrently in parts of 5 MiB.", mode: "table",
			profiles: [3]params{
				{duration: sec / 2, sizes: []int{5 * mib}, workers: []int{4}, parts: 2, maxBytes: gib / 2},
				{duration: 8 * sec, sizes: []int{5 * mib}, workers: []int{10, 50, 100}, parts: 5, maxBytes: 5 * gib},
				{duration: 30 * sec, sizes: []int{5 * mib}, workers: []int{10, 50, 100}, parts: 5, maxBytes: 20 * gib},
			}, run: runMultipart},
	}
}

func burstParams() [3]params {
	return [3]params{
		{duration: sec, sizes: []int{4 * kib}, workers: []int{20}, keys: []int{100}},
		{duration: 8 * sec, sizes: []int{4 * kib}, workers: []int{100}, keys: []int{1000}},
		{duration: 20 * sec, sizes: []int{4 * kib}, workers: []int{100}, keys: []int{1000}},
	}
}

func getScenarios() []scenario {
	return []scenario{
		{id: "get-warm", help: "GET objects that have just been read, at a fixed rate.", mode: "size-sweep",
			profiles: [3]params{
				{duration: sec, sizes: []int{kib, mib}, rates: []float64{100}, keys: []int{50}},
				{duration: 8 * sec, sizes: []int{kib, mib}, rates: []float64{500}, keys: []int{1000}},
				{duration: 60 * sec, sizes: []int{kib, mib}, rates: []float64{500}, keys: []int{1000}},
			}, bytes: seeded, run: runGetWarm},
		{id: "get-cold", help: "GET each object once after a restart with dropped caches, then again.", mode: "size-sweep",
			profiles: [3]params{
				{sizes: []int{kib, mib}, rates: []float64{100}, keys: []int{50}},
				{sizes: []int{kib, mib}, rates: []float64{500}, keys: []int{1000}},
				{sizes: []int{kib, mib}, rates: []float64{500}, keys: []int{1000}},
			}, bytes: seeded, run: runGetCold},
		{id: "range", help: "GET ranges of an object of 10 MiB.", mode: "size-sweep",
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{100, kib, 100 * kib}, workers: []int{16}},
				{duration: 3 * sec, sizes: []int{100, kib, 100 * kib}, workers: []int{16}},
				{duration: 60 * sec, sizes: []int{100, kib, 100 * kib}, workers: []int{16}},
			}, run: runRanges},
		{id: "mixed-ramp", help: "Mix GET, PUT and DELETE at growing rates, until the server cannot keep up.", mode: "ramp",
			note: "Above 2,000 requests per second, each step is 1.5 times the previous one.",
			profiles: [3]params{
				{duration: sec / 2, sizes: []int{4 * kib}, rates: []float64{100, 500}, keys: []int{200}, turns: 2},
				{duration: 1500 * time.Millisecond, sizes: []int{4 * kib}, rates: rampRates(), keys: []int{1000}, turns: 16},
				{duration: 30 * sec, sizes: []int{4 * kib}, rates: rampRates(), keys: []int{1000}, turns: 16},
			}, bytes: seeded, run: runMixedRamp},
		{id: "web-quick", help: "Load a small website with 4 requests per second.", mode: "table",
			profiles: [3]params{{duration: sec, rates: []float64{8}}, {duration: 5 * sec, rates: []float64{4}}, {duration: 5 * sec, rates: []float64{4}}},
			run:      runWeb},
		{id: "web-sustained", help: "Load the website with 10, then with 100 requests per second.", mode: "table",
			profiles: [3]params{{duration: sec, rates: []float64{20}}, {duration: 15 * sec, rates: []float64{10, 100}}, {duration: 600 * sec, rates: []float64{10, 100}}},
			run:      runWeb},
		{id: "web-spike", help: "Load the website at a rate that grows from 5 to 100 requests per second.", mode: "table",
			profiles: [3]params{{duration: sec, rates: []float64{5, 40}}, {duration: 15 * sec, rates: []float64{5, 100}}, {duration: 120 * sec, rates: []float64{5, 100}}},
			run:      runWeb},
		{id: "web-conformance", help: "Check status, type and length of each page of the website, including the expected 403 and 404 responses.", mode: "table",
			profiles: [3]params{{turns: 1}, {turns: 5}, {turns: 20}}, run: runWebConformance},
	}
}

func rampRates() []float64 {
	return []float64{100, 300, 500, 700, 900, 1100, 1300, 1500, 1700, 1900}
}

// seeded returns the bytes of a scenario that puts the same number of keys of each size.
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
		{id: "head", help: "HEAD at a fixed rate.", mode: "single",
			profiles: [3]params{at(200, 100, sec/2), at(500, 1000, 8*sec), at(500, 1000, 60*sec)}, bytes: seeded, run: runHead},
		{id: "delete", help: "DELETE each key once, at a fixed rate.", mode: "single",
			profiles: [3]params{at(200, 100, 0), at(200, 1000, 0), at(200, 1000, 0)}, bytes: seeded, run: runDeletes},
		{id: "delete-batch", help: "Delete 10 keys at a time with DeleteObjects.", mode: "single",
			profiles: [3]params{at(20, 200, 0), at(20, 1000, 0), at(20, 1000, 0)}, bytes: seeded, run: runDeleteBatches},
		{id: "copy", help: "Copy objects to new keys, at a fixed rate.", mode: "single",
			profiles: [3]params{at(100, 50, sec/2), at(200, 200, 8*sec), at(200, 200, 60*sec)}, bytes: seeded, run: runCopies},
		{id: "tagging", help: "Write and read object tags, at a fixed rate.", mode: "single",
			profiles: [3]params{at(100, 50, sec/2), at(200, 200, 8*sec), at(200, 200, 60*sec)}, bytes: seeded, run: runTagging},
		{id: "list", help: "List growing namespaces: the first page, all pages, and with delimiters.", mode: "table",
			profiles: [3]params{
				{keys: []int{2000}, workers: []int{1}, turns: 5},
				{keys: []int{10_000, 100_000, 1_000_000}, workers: []int{1}, turns: 100},
				{keys: []int{10_000, 100_000, 1_000_000}, workers: []int{1}, turns: 500},
			}, bytes: func(p params) float64 { return 1000 * float64(p.keys[len(p.keys)-1]) }, run: runList},
	}
}

func storeScenarios() []scenario {
	return []scenario{
		{id: "churn", help: "PUT and DELETE in a bounded set, and measure the disk usage afterwards.", mode: "single",
			profiles: [3]params{
				{duration: sec, sizes: []int{16 * kib}, workers: []int{8}, keys: []int{300}, maxBytes: gib},
				{duration: 12 * sec, sizes: []int{16 * kib}, workers: []int{16}, keys: []int{300}, maxBytes: 8 * gib},
				{duration: 60 * sec, sizes: []int{16 * kib}, workers: []int{16}, keys: []int{300}, maxBytes: 30 * gib},
			}, run: runChurn},
		{id: "footprint", help: "Measure disk usage, files, memory, startup and rebuild of a store with many small objects.", mode: "table",
			profiles: [3]params{
				{sizes: []int{4 * kib}, keys: []int{2000}}, {sizes: []int{4 * kib}, keys: []int{1_000_000}}, {sizes: []int{4 * kib}, keys: []int{1_000_000}},
			}, bytes: seeded, run: runFootprint},
		{id: idGrowth, help: "Grow a store, and measure how rates, pauses, memory and disk usage change; see --keys, --size and --order.", mode: "table",
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{256}, workers: []int{64}, keys: []int{4000}, turns: 1, idle: sec / 5},
				{duration: 2 * sec, sizes: []int{256}, workers: []int{64}, keys: []int{300_000}, turns: 3, idle: 30 * sec},
				{duration: 10 * sec, sizes: []int{256}, workers: []int{64}, keys: []int{1_000_000}, turns: 5, idle: 150 * sec},
			}, bytes: func(p params) float64 { return float64(p.keys[0]) * float64(p.sizes[0]+1000) }, run: runGrowth},
		{id: "small-beside-large", help: "PUT small objects while large ones are uploaded, and each alone.", mode: "table",
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{4 * kib, 10 * mib}, workers: []int{8}, rates: []float64{20}, turns: 1, maxBytes: gib / 2},
				{duration: 3 * sec, sizes: []int{4 * kib, 10 * mib}, workers: []int{8}, rates: []float64{20}, turns: 3, maxBytes: 2 * gib},
				{duration: 10 * sec, sizes: []int{4 * kib, 10 * mib}, workers: []int{8}, rates: []float64{20}, turns: 5, maxBytes: 4 * gib},
			}, bytes: func(p params) float64 { return float64(2 * int64(p.turns) * p.maxBytes) }, run: runBeside},
		{id: "instant", help: "Compare PUT of content that the store already has with PUT of new content.", mode: "table",
			profiles: [3]params{
				{duration: 200 * time.Millisecond, sizes: []int{10 * kib}, keys: []int{20, 3000}, turns: 1, maxBytes: gib / 2},
				{duration: sec / 2, sizes: []int{kib, 10 * kib, 100 * kib, mib, 10 * mib}, keys: []int{20, 150_000}, turns: 11, maxBytes: gib},
				{duration: 5 * sec, sizes: []int{kib, 10 * kib, 100 * kib, mib, 10 * mib}, keys: []int{200, 1_000_000}, turns: 5, maxBytes: 4 * gib},
			}, run: runInstant},
		{id: "encrypted", help: "Compare PUT and GET with and without server-side encryption.", mode: "size-sweep",
			profiles: [3]params{
				{duration: sec / 2, sizes: []int{4 * kib}, workers: []int{4}, keys: []int{20}, turns: 1},
				{duration: sec, sizes: []int{4 * kib, 256 * kib, 10 * mib}, workers: []int{4}, keys: []int{20}, turns: 5},
				{duration: 10 * sec, sizes: []int{4 * kib, 256 * kib, mib, 10 * mib}, workers: []int{16}, keys: []int{50}, turns: 5},
			}, run: runEncrypted},
		{id: "compression", help: "Compare JSON records and random content with and without compression.", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{4 * kib}, keys: []int{500}, turns: 1, maxBytes: gib / 4},
				{duration: sec, sizes: []int{4 * kib}, keys: []int{10_000}, turns: 9, maxBytes: gib},
				{duration: 10 * sec, sizes: []int{4 * kib}, keys: []int{100_000}, turns: 9, maxBytes: 2 * gib},
			}, run: runCompression},
		{id: "versions", help: "Compare PUT with and without versioning, alternately.", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{4 * kib}, workers: []int{16}, keys: []int{50}, turns: 1, maxBytes: gib / 4},
				{duration: 2 * sec, sizes: []int{4 * kib}, workers: []int{64}, keys: []int{1000}, turns: 3, maxBytes: 2 * gib},
				{duration: 10 * sec, sizes: []int{4 * kib}, workers: []int{64}, keys: []int{1000}, turns: 9, maxBytes: 2 * gib},
			}, run: runVersions},
		{id: "core", help: "Measure ORCAS against its performance goals, alternating with the null server and the disk.", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, keys: []int{2000}, turns: 1}, {duration: 2 * sec, keys: []int{100_000}, turns: 3}, {duration: 10 * sec, keys: []int{1_000_000}, turns: 5},
			}, run: runCore},
		{id: "builds", help: "Compare PUT and GET with another build of ORCAS, alternately; --before names it.", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 300 * time.Millisecond, sizes: []int{4 * kib}, keys: []int{1000}, turns: 1, maxBytes: gib / 4},
				{duration: 2 * sec, sizes: []int{4 * kib}, keys: []int{1000}, turns: 21, maxBytes: gib},
				{duration: 5 * sec, sizes: []int{4 * kib}, keys: []int{1000}, turns: 51, maxBytes: 2 * gib},
			}, run: runBuilds},
		{id: "peers", help: "Compare ORCAS with other S3 servers, alternately; --minio, --versitygw and --weed name their programs.", mode: "table", serverless: true,
			profiles: [3]params{
				{duration: 200 * time.Millisecond, keys: []int{1500, 1000}, turns: 1, maxBytes: gib / 4},
				{duration: 1200 * time.Millisecond, keys: []int{5000, 30_000}, turns: 3, maxBytes: gib},
				{duration: 10 * sec, keys: []int{100_000, 1_000_000}, turns: 5, maxBytes: 4 * gib},
			}, run: runPeers},
		{id: idCeilings, help: "Measure the null server, the disk and memory.", mode: "table", serverless: true, run: runOnlyCeilings},
	}
}
