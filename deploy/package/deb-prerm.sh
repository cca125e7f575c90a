#!/bin/sh
set -e
# An upgrade leaves the server running; the new package restarts it.
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	deb-systemd-invoke stop orcas.service || true
fi
