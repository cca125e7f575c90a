#!/bin/sh
# rpm runs this before it unpacks the files, which belong to the group orcas.
set -e
getent group orcas >/dev/null || groupadd --system orcas
getent passwd orcas >/dev/null ||
	useradd --system --gid orcas --home-dir /var/lib/orcas --no-create-home --shell /usr/sbin/nologin --comment "ORCAS object store" orcas
