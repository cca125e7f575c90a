#!/usr/bin/env bash
# Prints a table of where the server's CPU time goes in a PUT and a GET of 4 KiB over 64 connections. It uses CPU
# profiles of BenchmarkSockets (package s3), in which the client runs in separate goroutines. Shares are of the server's
# time; a stage includes the functions that it calls. Run it with `make profile`.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
times=${1:-200000}
for op in put get; do # objects must be written before they are read: six times as many reads hide the cost of the writes
	go test -run '^$' -bench "^BenchmarkSockets/$op\$" -benchtime "$([ $op = get ] && echo $((6 * times)) || echo $times)x" -cpuprofile "$dir/$op.prof" -o "$dir/s3.test" ./s3 >"$dir/$op.log"
	go tool pprof -focus 'net/http.\(\*conn\).serve|orcas/batch.\(\*Writer\).(gather|applyAll)' -unit ms -top -cum -nodecount=100000 -nodefraction=0 "$dir/s3.test" "$dir/$op.prof" 2>/dev/null |
		awk '$4 ~ /ms$/ { cum = $4; sub(/ms$/, "", cum); name = $6; for (i = 7; i <= NF; i++) if ($i != "(inline)") name = name " " $i; print cum "\t" name }' >"$dir/$op.txt"
done
share() { # op, function: its share of the server's time in percent
	awk -F '\t' -v f="$2" '
		$2 == "net/http.(*conn).serve" || $2 == "orcas/batch.(*Writer).gather" || $2 == "orcas/batch.(*Writer).applyAll" { all += $1 }
		$2 == f { it = $1 }
		END { if (it > 0) printf "%.0f %%", 100 * it / all; else printf "" }' "$dir/$1.txt"
}
echo "| stage | PUT | GET |"
echo "| --- | --- | --- |"
missing=""
while IFS='|' read -r name function ops; do
	put="" get=""
	[[ $ops == *put* ]] && put=$(share put "$function")
	[[ $ops == *get* ]] && get=$(share get "$function")
	echo "| $name | $put | $get |"
	[[ $put$get ]] || missing+=" $function"
done <<-'STAGES'
	read and parse the request (net/http)|net/http.(*conn).readRequest|put get
	verify the signature|orcas/s3.(*Server).authenticate|put get
	read the body and hash it|orcas/s3.(*upload).receive|put
	... MD5|crypto/md5.Sum|put
	... SHA-256|crypto/sha256.Sum256|put
	lay out and sync a batch (the gatherer)|orcas/batch.(*Writer).gather|put
	... fdatasync|orcas/internal/durable.(*File).DataSync|put
	metadata of a batch in SQLite (the applier)|orcas/batch.(*Writer).applyAll|put
	look up the object|orcas/core/cached.(*Meta).Object|get
	read and verify frames|orcas/content.(*Section).next|get
	write to the socket|orcas/server.(*limitedConn).Write|put get
	access log|orcas/s3.(*accessLog).Observe|put get
	allocate memory (part of the other stages)|runtime.mallocgc|put get
STAGES
if [[ $missing ]]; then
	echo "perf/profile.sh: these functions used no CPU time, so they may have been renamed:$missing" >&2
	exit 1
fi
