#!/bin/bash
# Runs Ceph's S3 gateway with a whole cluster of one monitor and one OSD, which keeps everything in memory.
#
#     radosgw.sh DIRECTORY MONITOR-PORT PORT ACCESS-KEY SECRET-KEY
#
# The gateway serves S3 on 127.0.0.1:PORT. It prints "ready" when it does, and ends when its standard input does.
set -euo pipefail
dir=$1 monitor=$2 port=$3 access=$4 secret=$5
mkdir -p "$dir"/{run,log,mon,osd,rgw}
cd "$dir"
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT

fsid=$(cat /proc/sys/kernel/random/uuid) osd=$(cat /proc/sys/kernel/random/uuid)
export CEPH_CONF=$dir/ceph.conf
cat >ceph.conf <<END
[global]
fsid = $fsid
mon host = v2:127.0.0.1:$monitor
ms bind msgr1 = false
public addr = 127.0.0.1
keyring = $dir/keyring
run dir = $dir/run
admin socket = $dir/run/\$name.asok
pid file = $dir/run/\$name.pid
log file = $dir/log/\$name.log
mon data = $dir/mon
mon data avail warn = 1
mon data avail crit = 0
mon allow pool size one = true
mon max pg per osd = 1000
osd data = $dir/osd
osd objectstore = memstore
osd class load list = *
osd class default list = *
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
memstore device bytes = 2147483648
[client.rgw.a]
keyring = $dir/keyring
rgw data = $dir/rgw
rgw frontends = beast endpoint=127.0.0.1:$port
rgw thread pool size = 32
END

exec 3>&1 >log/start 2>&1
ceph-authtool --create-keyring keyring --gen-key -n mon. --cap mon 'allow *'
ceph-authtool keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
ceph-authtool keyring --gen-key -n osd.0 --cap osd 'allow *' --cap mon 'allow profile osd'
ceph-authtool keyring --gen-key -n client.rgw.a --cap mon 'allow *' --cap osd 'allow *'
monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$monitor]" monmap
ceph-mon --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -f -i a &
ceph osd create "$osd" 0
ceph-osd -i 0 --mkfs --osd-uuid "$osd"
ceph-osd -f -i 0 &
ceph osd crush add osd.0 1.0 root=default host=local
radosgw-admin user create --uid=test --display-name=test --access-key="$access" --secret="$secret"
radosgw -f -n client.rgw.a &
until (exec 4<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
echo ready >&3
cat >/dev/null
