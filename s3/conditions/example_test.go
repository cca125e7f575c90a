package conditions_test

import (
	"fmt"
	"net/http"
	"time"

	"orcas/s3/conditions"
)

func ExampleSet_Judge() {
	set := conditions.OfRequest(http.Header{"If-None-Match": {`"other", "etag"`}})
	switch v := set.Judge("etag", time.Unix(0, 0), time.Now()); v {
	case conditions.NotModified:
		fmt.Println(set.Refused(v))
	}
	// Output: s3: PreconditionFailed: At least one of the pre-conditions you specified did not hold
}

func ExampleParseRange() {
	span, ok, err := conditions.ParseRange("bytes=-10", 100)
	fmt.Println(span, ok, err)
	// Output: {90 10} true <nil>
}
