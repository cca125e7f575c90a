package report

// method explains how the figures were measured and how to read them.
func method() Section {
	return Section{Title: "How it was measured", Text: []string{
		"`orcas perf` measured all of these figures in one run, and Go's benchmarks ran just before it. This text was generated from what they left (`docs/perf/baseline.json` and " +
			"`docs/perf/bench.txt`), including what it says of limits. Client and server shared one machine, so ratios say more than figures do.",
		"An open loop sends at the rate asked for, whatever the answers do, and counts latency from the moment at which a request should have been sent. A closed loop sends the next " +
			"request when the answer is there. Every answer had to be the expected one, and every body that came back was compared. Rates are of successful requests; MB is 10^6 bytes. " +
			"Shortened scenarios say so. The load generator was compared with ApacheBench: it reaches within 15 % of its requests a second (`docs/performance.md`).",
		"What limits a row is found from the run itself. \"CPU\" is that of client and server together, of all cores, at four fifths or more of what the null server reaches with the " +
			"same kind of request; \"one at a time\" is a single connection, and the shares of its time overlap; \"waits\" is many connections with idle cores; \"rate asked\" is an " +
			"open loop that got what it asked for, which says nothing about what the server can do. Rows whose variant begins with \"null\" are the null server's, measured in turns with the others.",
	}}
}
