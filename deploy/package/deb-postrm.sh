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
	# A mounted file system in a directory, or a symbolic link, leads to data that is elsewhere. It stays.
	for dir in /var/lib/orcas /var/log/orcas; do
		if [ -L $dir ]; then
			rm -f $dir
		elif grep -qF " $(readlink -f $dir)/" /proc/self/mountinfo; then # not its name: /var may be a symbolic link
			echo "orcas: file systems are mounted in $dir; it is not removed" >&2
		elif [ -d $dir ]; then
			find $dir -xdev -mindepth 1 -delete || true
			rmdir --ignore-fail-on-non-empty $dir 2>/dev/null || true
		fi
	done
	rmdir --ignore-fail-on-non-empty /etc/orcas 2>/dev/null || true
	# The user stays while it owns data.
	if ! [ -e /var/lib/orcas ] && getent passwd orcas >/dev/null; then
		userdel orcas || true
	fi
	;;
esac
