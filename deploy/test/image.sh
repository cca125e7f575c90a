#!/usr/bin/env bash
# image.sh RELEASE WORK PORT: builds the image, and runs it as an arbitrary user with a read-only root.
set -euo pipefail
. deploy/test/common.sh
new=$1 work=$2 port=$3
unset ORCAS_ROOT_ACCESS_KEY ORCAS_ROOT_SECRET_KEY
flags=(--storage-driver vfs --root "$work/images" --runroot "$work/run")
podman=(podman "${flags[@]}" --cgroup-manager cgroupfs --runtime runc)
trap '"${podman[@]}" rm -f -t 0 orcas-test >/dev/null 2>&1 || true' EXIT
export STORAGE_DRIVER=vfs
BUILDER="buildah ${flags[*]}" RELEASE=$new deploy/container/build.sh "$(go env GOHOSTARCH)" localhost/orcas:test >"$work/log" 2>&1 || {
	cat "$work/log"
	fail "the image"
}
"${podman[@]}" image inspect localhost/orcas:test --format '{{.Config.Healthcheck.Test}} {{.Config.User}}' | tee "$work/inspect"
grep -q health "$work/inspect" || fail "the image has no health check"

mkdir "$work/volume"
chown 12345:54321 "$work/volume"
run=(run --network host --read-only --user 12345:54321 --cap-drop all --security-opt no-new-privileges
	--ulimit nofile=8192:8192 --ulimit nproc=4096:4096 --no-healthcheck)
if ! "${podman[@]}" "${run[@]}" --rm localhost/orcas:test version >"$work/log" 2>&1; then
	echo "NOT TESTED: running the image, because podman cannot run containers here: $(tail -1 "$work/log")"
	exit 0
fi
"${podman[@]}" "${run[@]}" --detach --name orcas-test --volume "$work/volume:/data" localhost/orcas:test \
	server --data /data/orcas --address "127.0.0.1:$port" --admin-address none >/dev/null
ready "$port"
secret=$(sed -n 's/.*"secretKey": *"\([^"]*\)".*/\1/p' "$work/volume/orcas/root-credentials.json")
access=$(sed -n 's/.*"accessKey": *"\([^"]*\)".*/\1/p' "$work/volume/orcas/root-credentials.json")
[ -n "$secret" ] || fail "there are no root credentials"
"${podman[@]}" logs orcas-test >"$work/log" 2>&1
! grep -F "$secret" "$work/log" || fail "the log of the container has the secret"
grep -q root-credentials.json "$work/log" || fail "the log of the container does not name the file with the credentials"
roundtrip "$port" "$access:$secret"
! "$new/orcas-linux-$(go env GOHOSTARCH)" help health >/dev/null 2>&1 || "${podman[@]}" exec orcas-test /orcas health --address "127.0.0.1:$port" || fail "orcas health in the container"
"${podman[@]}" stop -t 60 orcas-test >/dev/null
[ "$("${podman[@]}" inspect orcas-test --format '{{.State.ExitCode}}')" = 0 ] || fail "the stopped server has an exit status other than 0"
