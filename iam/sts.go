package iam

// getCallerIdentity returns who the caller is. It needs no permission, and no policy can deny it, as in AWS: everyone
// can obtain the same information from an access denied error.
func getCallerIdentity(c *call) error {
	c.result.Text("Arn", c.caller.ARN)
	c.result.Text("UserId", c.caller.ID)
	c.result.Text("Account", c.caller.Account)
	return nil
}
