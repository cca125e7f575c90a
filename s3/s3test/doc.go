// Package s3test is a black-box test suite for the S3 protocol. It checks rules, grouped into areas, on a server over
// real sockets, using only requests and responses. The only package of the server that it imports is the request
// signer.
//
// Each case has a stable name, area/rule, and a description of the rule in one line. `make s3test-list` prints all
// cases. Every case uses a separate bucket, so cases can run in parallel without affecting each other. A case deletes
// only what it has created.
//
// By default the suite builds the server, starts it as a process with an empty directory, and stops it at the end. Set
// these variables to test another endpoint:
//
//	ORCAS_S3TEST_ENDPOINT    http://host:port or https://host:port
//	ORCAS_S3TEST_ACCESS_KEY  ... and ORCAS_S3TEST_SECRET_KEY: credentials that may create and delete buckets
//	ORCAS_S3TEST_REGION      the region that requests are signed for; us-east-1 if unset
//	ORCAS_S3TEST_DOMAIN      a base domain for virtual-host style; if unset, cases that need one are skipped
//	ORCAS_S3TEST_OURS        any value: the endpoint is an ORCAS server, so also test the extensions of ORCAS
//	ORCAS_S3TEST_INSECURE    any value: do not verify the certificate of the endpoint
//
// The suite itself is tested by mutation: `make s3test-mutants` breaks one rule at a time in the source of the server,
// and the case for that rule must fail. README.md has the results.
package s3test
