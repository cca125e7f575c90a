#!/usr/bin/env bash
# deb.sh OLD.deb NEW.deb: installs, starts, upgrades, removes and purges the package. It runs in a clean Debian tree with
# systemd (release-test.sh starts one), and changes the system.
set -euo pipefail
old=$1 new=$2
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
step() { echo "--- $*"; }
fail() {
	echo "FAILED: $*" >&2
	systemctl status --no-pager orcas >&2 || true
	journalctl --no-pager -u orcas | tail -30 >&2 || true
	exit 1
}
is() { [ "$2" = "$3" ] || fail "$1: expected $3, found $2"; }
ready() {
	for _ in $(seq 900); do
		! curl -fs http://127.0.0.1:9000/-/health/ready >/dev/null || return 0
		sleep 0.2
	done
	fail "the server does not become ready"
}
key() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" /var/lib/orcas/root-credentials.json; }
s3() { curl -sS --fail-with-body -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" --aws-sigv4 aws:amz:us-east-1:s3 --user "$(key accessKey):$(key secretKey)" "$@"; }
url=http://127.0.0.1:9000/bucket

step "install and start $(basename "$old")"
before=$(find / -xdev -path /proc -prune -o -name '*orcas*' -not -path '/root/*' -print | sort)
dpkg -i "$old"
ready
is "state of the service" "$(systemctl is-active orcas) $(systemctl is-enabled orcas)" "active enabled"
pid=$(systemctl show -p MainPID --value orcas)
is "user of the server" "$(stat -c %U "/proc/$pid")" orcas
is "permissions of the settings" "$(stat -c '%a %U %G' /etc/orcas/orcas.env)" "640 root orcas"
is "permissions of the data" "$(stat -c '%a %U %G' /var/lib/orcas)" "700 orcas orcas"
[ -n "$(key secretKey)" ] || fail "there are no root credentials"
! journalctl --no-pager -u orcas | grep -F "$(key secretKey)" || fail "the journal has the secret"
is "shell completion" "$(bash -c '. /usr/share/bash-completion/completions/orcas; COMP_WORDS=(orcas serv) COMP_CWORD=1; _orcas; echo "$COMPREPLY"')" server
[ -s /usr/share/man/man1/orcas-server.1.gz ] || [ -e /etc/dpkg/dpkg.cfg.d/excludes ] || fail "there is no man page"
s3 -X PUT "$url"
head -c 300000 /dev/urandom >/root/object
s3 -T /root/object "$url/large"
s3 --data-binary small -X PUT "$url/small"
exposure=$(systemd-analyze security --no-pager orcas.service | sed -n 's/.*Overall exposure level for orcas.service: \([0-9.]*\) .*/\1/p')
awk -v e="$exposure" 'BEGIN { exit !(e != "" && e <= 2.0) }' || fail "the exposure of the service is $exposure"

step "upgrade to $(basename "$new")"
echo "# changed by the administrator
ORCAS_AUDIT_FILE=/var/log/orcas/audit.log
ORCAS_METRICS_TOKEN_FILE=/etc/orcas/metrics.token" >>/etc/orcas/orcas.env
echo token-of-the-metrics | install -m 640 -g orcas /dev/stdin /etc/orcas/metrics.token # as in docs/operations.md
dpkg --force-confold -i "$new"
ready
[ "$(systemctl show -p MainPID --value orcas)" != "$pid" ] || fail "the upgrade did not restart the server"
is "version" "$(orcas version | head -1)" "orcas $(dpkg-query -W -f '${Version}' orcas)"
grep -q "changed by the administrator" /etc/orcas/orcas.env || fail "the upgrade replaced the settings"
is "permissions of the settings" "$(stat -c '%a %U %G' /etc/orcas/orcas.env)" "640 root orcas"
objects() {
	is "small object" "$(s3 "$url/small")" small
	s3 "$url/large" | cmp - /root/object || fail "the large object differs"
}
objects
s3 -X PUT "$url-2"
metrics() { curl -s -o /dev/null -w '%{http_code}' "$@" http://127.0.0.1:9001/metrics; }
is "status of metrics" "$(metrics) $(metrics -H "Authorization: Bearer token-of-the-metrics")" "401 200"
grep -q bucket-2 /var/log/orcas/audit.log || fail "the audit log does not have a new bucket"

step "a stopped server stays stopped in an upgrade"
systemctl stop orcas
dpkg --force-confold -i "$new"
is "state of the service" "$(systemctl is-active orcas || true)" inactive
systemctl start orcas
ready

step "remove, and install again"
dpkg -r orcas
! systemctl is-active -q orcas || fail "the removed server runs"
[ -e /var/lib/orcas/STORE ] && grep -q "changed by" /etc/orcas/orcas.env || fail "the removal did not keep data and settings"
[ ! -e /usr/bin/orcas ] || fail "the removal left the program"
dpkg --force-confold -i "$new"
ready
objects

step "purge, with a mounted file system and symbolic links in the data directory"
mkdir -p /root/precious /var/lib/orcas/mounted
echo precious >/root/precious/file
mount --bind /root/precious /var/lib/orcas/mounted
ln -s /root/precious /var/lib/orcas/link
rm /etc/orcas/metrics.token
dpkg -P orcas
is "mounted file" "$(cat /var/lib/orcas/mounted/file)" precious
getent passwd orcas >/dev/null || fail "the user was removed, but its data is still there"
umount /var/lib/orcas/mounted
dpkg --force-confold -i "$new"
ready
dpkg -P orcas
is "linked file" "$(cat /root/precious/file)" precious
! getent passwd orcas || fail "the purge left the user"
after=$(find / -xdev -path /proc -prune -o -name '*orcas*' -not -path '/root/*' -print | sort)
is "files of the package after the purge" "$after" "$before"
echo "--- passed"
