#!/bin/sh
# $1 is 1 for an installation and 2 for an upgrade. As usual with rpm, an installation does not start the server.
[ -e /var/lib/orcas ] || [ -L /var/lib/orcas ] || install -d -m 0700 -o orcas -g orcas /var/lib/orcas
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
	[ "$1" -ne 1 ] || systemctl preset orcas.service || :
fi
