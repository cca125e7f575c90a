#!/usr/bin/env bash
# Prints the flags with which Go programs are built with vector AES (see aesgcm.go); nothing, where the processor has none or Intel's library is
# not there. As root on Debian it gets the library, but tries that once only: the file that it is given says that it did.
set -euo pipefail
tried=$1

fits() {
	echo 'int main(void) { return 0; }' | ${CC:-gcc} -include intel-ipsec-mb.h -x c - -o /dev/null -l:libIPSec_MB.a 2>/dev/null
}

[ "$(uname -m)" = x86_64 ] && grep -qsw vaes /proc/cpuinfo && grep -qsw avx512bw /proc/cpuinfo || exit 0
if ! fits && [ ! -e "$tried" ]; then
	mkdir -p "$(dirname "$tried")" && touch "$tried"
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "Getting libipsec-mb-dev, for vector AES" >&2
		{ apt-get update -qq && apt-get install -y -qq libipsec-mb-dev; } >&2 || true
	fi
	fits || echo "Building without vector AES: encryption takes three times as long as with it (Debian: apt-get install libipsec-mb-dev)" >&2
fi
if fits; then
	echo -tags=ipsecmb
fi
