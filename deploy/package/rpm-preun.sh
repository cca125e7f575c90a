#!/bin/sh
# $1 is 0 for a removal and 1 for an upgrade.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
	systemctl disable --now orcas.service || :
fi
