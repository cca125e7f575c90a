#!/bin/sh
# A removal keeps the data and the user: rpm has no purge.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
	[ "$1" -eq 0 ] || systemctl try-restart orcas.service || :
fi
