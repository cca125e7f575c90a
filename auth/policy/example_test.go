package policy_test

import (
	"fmt"

	"orcas/auth"
	"orcas/auth/policy"
)

func ExampleDecide() {
	home, err := policy.Parse([]byte(`{
		"Version": "2012-10-17",
		"Statement": [{
			"Sid": "Home",
			"Effect": "Allow",
			"Action": ["s3:GetObject", "s3:PutObject"],
			"Resource": "arn:aws:s3:::films/home/${aws:username}/*"
		}]
	}`), policy.Source{Name: "home"})
	if err != nil {
		fmt.Println(err)
		return
	}
	const account = "111122223333"
	alice := &policy.Caller{
		Principal: &auth.Principal{Account: account, ARN: "arn:aws:iam::" + account + ":user/alice"},
		Identity:  []*policy.Policy{home},
	}
	for _, key := range []string{"home/alice/cat.mp4", "home/bob/dog.mp4"} {
		r := policy.Decide(&policy.Request{
			Caller: alice, Action: "s3:GetObject",
			Resource: auth.Resource{Account: account, Bucket: "films", Key: key},
		})
		fmt.Println(key, r.Decision, r.Statements())
	}
	// Output:
	// home/alice/cat.mp4 allow [statement 1 (Home) of home]
	// home/bob/dog.mp4 implicitDeny []
}

func ExampleParse() {
	_, err := policy.Parse([]byte(`{
		"Version": "2012-10-17",
		"Statement": [{
			"Sid": "Public",
			"Effect": "Allow",
			"Principal": "*",
			"Action": "s3:GetObjekt",
			"Resource": "arn:aws:s3:::films/*"
		}]
	}`), policy.Source{Bucket: "films"})
	fmt.Println(err)
	// Output: statement 1 (Public), element Action, line 7: unknown action "s3:GetObjekt"
}
