#!/usr/bin/env bash
# image.sh RELEASE WORK: builds the image, and runs its default command as an arbitrary user with a read-only root.
set -euo pipefail
. deploy/test/common.sh
new=$1 work=$2
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

# The container has a loopback of its own, so the default ports are free.
run=(run --network none --read-only --user 12345:54321 --cap-drop all --security-opt no-new-privileges
	--ulimit nofile=8192:8192 --ulimit nproc=4096:4096)
"${podman[@]}" "${run[@]}" --no-healthcheck --rm localhost/orcas:test version >"$work/log" 2>&1 ||
	untested image "the image, because podman cannot run containers here: $(tail -1 "$work/log")"
# Without systemd, podman starts no health checks by itself, and says so.
"${podman[@]}" "${run[@]}" --detach --name orcas-test --volume orcas-test:/data localhost/orcas:test >"$work/log" 2>&1 ||
	fail "the default command: $(cat "$work/log")"
pid=$("${podman[@]}" inspect orcas-test --format '{{.State.Pid}}')
curl() { nsenter --net --target "$pid" curl "$@"; }
ready 9000
"${podman[@]}" healthcheck run orcas-test || fail "the health check of the image"
"${podman[@]}" exec orcas-test /orcas admin status --data /data/orcas >"$work/log" || fail "orcas admin in the container"
volume=$("${podman[@]}" volume inspect orcas-test --format '{{.Mountpoint}}')
secret=$(sed -n 's/.*"secretKey": *"\([^"]*\)".*/\1/p' "$volume/orcas/root-credentials.json")
access=$(sed -n 's/.*"accessKey": *"\([^"]*\)".*/\1/p' "$volume/orcas/root-credentials.json")
[ -n "$secret" ] || fail "there are no root credentials"
"${podman[@]}" logs orcas-test >"$work/log" 2>&1
! grep -F "$secret" "$work/log" || fail "the log of the container has the secret"
grep -q root-credentials.json "$work/log" || fail "the log of the container does not name the file with the credentials"
roundtrip 9000 "$access:$secret"
"${podman[@]}" stop -t 60 orcas-test >"$work/log" 2>&1
[ "$("${podman[@]}" inspect orcas-test --format '{{.State.ExitCode}}')" = 0 ] || fail "the stopped server has an exit status other than 0"
