package report

// method explains how the figures were measured and how to read them.
func method() Section {
	return Section{Title: "How it was measured", Text: []string{
		"`orcas perf` measured all of these figures in one run, right after Go's benchmarks. This page was generated from the results (`docs/perf/baseline.json` and " +
			"`docs/perf/bench.txt`), including the sentences about limits. Client and server shared one machine, so ratios are more reliable than absolute figures.",
		"An open loop sends requests at the requested rate, whether or not responses arrive, and counts latency from the time at which a request should have been sent. A closed loop " +
			"sends the next request when the response to the previous one has arrived. Every response had to be the expected one, and every body that was read was compared. Rates count " +
			"successful requests only; MB is 10^6 bytes. Notes mark shortened scenarios. The load generator was compared with ApacheBench, and its requests per second are within 15 % " +
			"of ApacheBench's (`docs/performance.md`).",
		"The limit of a row is derived from the run itself. \"CPU\" means that client and server together use at least four fifths of the CPU that the null server reaches with the same " +
			"kind of request, as a share of all cores; \"one at a time\" means a single connection, and the shares of its time overlap; \"waiting\" means many connections with idle " +
			"cores; \"requested rate\" means an open loop that reached its rate, which does not show what the server can do. Rows whose variant begins with \"null\" are those of the " +
			"null server, measured alternately with the others.",
	}}
}
