#!/bin/bash
# Installs the programs that the tests drive: Debian packages into the system, everything else into .programs. Programs
# that cannot be installed are named, and their tests are skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
mkdir -p .programs
here=e2e/programs
missing=()

debian=(rclone restic s3cmd docker-registry s3fs awscli nodejs ceph-mon ceph-osd ceph-common radosgw)
command -v npm >/dev/null || debian+=(npm)
want=()
for p in "${debian[@]}"; do
	dpkg -s "$p" >/dev/null 2>&1 || command -v "${p/nodejs/node}" >/dev/null || want+=("$p")
done
if ((${#want[@]})); then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get update -qq
		for p in "${want[@]}"; do
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$p" >/dev/null || missing+=("$p")
		done
	else
		missing+=("${want[@]}")
	fi
fi

python3 -m venv --clear .programs/venv
.programs/venv/bin/python -m pip install -q --disable-pip-version-check -r $here/requirements.txt || missing+=("the Python clients")
python3 -m venv --clear .programs/old
.programs/old/bin/python -m pip install -q --disable-pip-version-check boto3==1.26.27 || missing+=("boto3 1.26")

cp $here/package.json .programs/
(cd .programs && npm install --silent --no-audit --no-fund >/dev/null) || missing+=("@aws-sdk/client-s3")
GOBIN=$PWD/.programs/bin go install github.com/benbjohnson/litestream/cmd/litestream@v0.3.13 || missing+=(litestream)
GOBIN=$PWD/.programs/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 || missing+=(versitygw)

if ((${#missing[@]})); then
	printf 'NOT INSTALLED, so not tested: %s\n' "${missing[@]}" >&2
fi
touch .programs/ready
