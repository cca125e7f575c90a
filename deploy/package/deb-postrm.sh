#!/bin/sh
# Removal keeps the data, the settings and the user. Purge removes them.
set -e
[ ! -d /run/systemd/system ] || systemctl --system daemon-reload >/dev/null || true
case "$1" in
remove)
	! [ -x /usr/bin/deb-systemd-helper ] || deb-systemd-helper mask orcas.service >/dev/null || true
	;;
purge)
	if [ -x /usr/bin/deb-systemd-helper ]; then
		deb-systemd-helper purge orcas.service >/dev/null || true
		deb-systemd-helper unmask orcas.service >/dev/null || true
	fi
	# A mounted file system in the directory, or a symbolic link, leads to data that is elsewhere. It stays.
	if grep -q ' /var/lib/orcas/' /proc/self/mountinfo; then
		echo "orcas: file systems are mounted in /var/lib/orcas; it is not removed" >&2
	elif [ -L /var/lib/orcas ]; then
		rm -f /var/lib/orcas
	elif [ -d /var/lib/orcas ]; then
		find /var/lib/orcas -xdev -mindepth 1 -delete || true
		rmdir --ignore-fail-on-non-empty /var/lib/orcas 2>/dev/null || true
	fi
	rmdir --ignore-fail-on-non-empty /etc/orcas 2>/dev/null || true
	# The user stays while it owns data.
	if ! [ -e /var/lib/orcas ] && getent passwd orcas >/dev/null; then
		userdel orcas || true
	fi
	;;
esac
