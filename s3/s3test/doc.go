// Package s3test is a black-box suite of the S3 protocol: rules, grouped into areas, each held against a server over real
// sockets and by nothing else than requests and answers. It imports nothing of the server but the signer of requests.
//
// Each case has a stable name, area/rule, and says in one line what the rule is; `make s3test-list` prints them all. A case
// works in a bucket of its own, so that cases run side by side and do not see one another, and it removes what it made and
// nothing else.
//
// Without further settings the suite builds the server, starts it as a process on a fresh directory, and stops it at the end.
// With these variables it tries any other endpoint:
//
//	ORCAS_S3TEST_ENDPOINT    http://host:port or https://host:port
//	ORCAS_S3TEST_ACCESS_KEY  ... and ORCAS_S3TEST_SECRET_KEY: credentials that may make and remove buckets
//	ORCAS_S3TEST_REGION      the region that requests are signed for; us-east-1 where it is unset
//	ORCAS_S3TEST_DOMAIN      a base domain of virtual-host style; unset: what needs one is skipped
//	ORCAS_S3TEST_OURS        any value: it is an ORCAS too, and serves what only ORCAS does
//	ORCAS_S3TEST_INSECURE    any value: do not verify the certificate of the endpoint
//
// The suite is tried itself: `make s3test-mutants` breaks one rule after the other in the source of the server, and the case
// that claims the rule has to fail. README.md has the results.
package s3test
