package auth_test

import (
	"context"
	"fmt"

	"orcas/auth"
)

func ExampleOwners() {
	root := &auth.Principal{Account: "111122223333", ARN: auth.RootARN("111122223333")}
	own := auth.Resource{Account: "111122223333", Bucket: "photos", Key: "cat.jpg"}
	other := auth.Resource{Account: "444455556666", Bucket: "films"}

	var rule auth.Authorizer = auth.Owners{}
	ctx := context.Background()
	fmt.Println(rule.Authorize(ctx, root, "s3:GetObject", own, nil))
	fmt.Println(rule.Authorize(ctx, root, "s3:ListBucket", other, nil))
	fmt.Println(rule.Authorize(ctx, auth.Anonymous, "s3:GetObject", own, nil))
	// Output:
	// <nil>
	// access denied
	// access denied
}
