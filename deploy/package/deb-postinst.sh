#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
getent group orcas >/dev/null || groupadd --system orcas
getent passwd orcas >/dev/null ||
	useradd --system --gid orcas --home-dir /var/lib/orcas --no-create-home --shell /usr/sbin/nologin --comment "ORCAS object store" orcas
if [ -z "$2" ]; then # not an upgrade: later, the permissions are the administrator's
	chown root:orcas /etc/orcas/orcas.env
	chmod 0640 /etc/orcas/orcas.env
	[ -e /var/lib/orcas ] || [ -L /var/lib/orcas ] || install -d -m 0700 -o orcas -g orcas /var/lib/orcas
fi
# An upgrade restarts the server if it runs. An installation starts it, also one after a removal, which has masked it.
action=try-restart
mask=/etc/systemd/system/orcas.service
masked=$(readlink $mask || true)
deb-systemd-helper unmask orcas.service >/dev/null || true
if [ -z "$2" ] || { [ "$masked" = /dev/null ] && ! [ -L $mask ]; }; then
	action=start
fi
if deb-systemd-helper --quiet was-enabled orcas.service; then
	deb-systemd-helper enable orcas.service >/dev/null || true
else
	deb-systemd-helper update-state orcas.service >/dev/null || true
fi
if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
	deb-systemd-invoke $action orcas.service || true
fi
