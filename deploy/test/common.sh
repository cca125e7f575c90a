# Functions of the tests of a release.

fail() {
	echo "FAILED: $*" >&2
	exit 1
}
untested() { # untested PART WHAT...: this machine cannot run PART, which is a failure if RELEASE_TEST_REQUIRED names it
	[[ " ${RELEASE_TEST_REQUIRED:-} " != *" $1 "* ]] || fail "cannot test ${*:2}"
	echo "NOT TESTED: ${*:2}"
	exit 0
}
ready() { # ready PORT
	for _ in $(seq 900); do
		! curl -fs "http://127.0.0.1:$1/-/health/ready" >/dev/null || return 0
		sleep 0.2
	done
	fail "the server on port $1 does not become ready"
}
roundtrip() { # roundtrip PORT ACCESS_KEY:SECRET_KEY: an object written is read again
	local s3=(curl -sS --fail-with-body -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" --aws-sigv4 aws:amz:us-east-1:s3 --user "$2")
	head -c 200000 /dev/urandom >"$work/object"
	"${s3[@]}" -X PUT "http://127.0.0.1:$1/bucket"
	"${s3[@]}" -T "$work/object" "http://127.0.0.1:$1/bucket/key"
	"${s3[@]}" "http://127.0.0.1:$1/bucket/key" | cmp - "$work/object" || fail "the object differs"
}
