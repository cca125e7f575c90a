package iam

import (
	"fmt"

	"orcas/auth/identity"
)

// Users have none of these things, but programs ask for them before they delete a user.

// emptyOf returns the handler of an action that lists things of a user which no user has.
func emptyOf(list string) handler {
	return func(c *call) error {
		if _, err := c.theUser(); err != nil {
			return err
		}
		return empty(list)(c)
	}
}

// empty returns the handler of an action that lists things which do not exist.
func empty(name string) handler {
	return func(c *call) error {
		return list(c, name, nil, func(string) string { return "" }, func(string) {})
	}
}

// noLoginProfile responds that a user has no password.
func noLoginProfile(c *call) error {
	u, err := c.theUser()
	if err == nil {
		err = errNoEntity.saying("Login Profile for User %s cannot be found.", u.Name)
	}
	return err
}

// getAccountSummary returns how many identities the account has, and how many access keys a user can have.
func getAccountSummary(c *call) error {
	ids := c.h.o.Identities
	c.result.Open("SummaryMap")
	for _, e := range []struct {
		key   string
		value int
	}{
		{"AccessKeysPerUserQuota", identity.MaxUserKeys},
		{"Groups", len(ids.List(identity.Group, c.account()))},
		{"MFADevices", 0},
		{"Policies", len(ids.Policies(c.account()))},
		{"Roles", len(ids.List(identity.Role, c.account()))},
		{"Users", len(ids.List(identity.User, c.account()))},
	} {
		c.result.Open("entry")
		c.result.Text("key", e.key)
		c.result.Text("value", fmt.Sprint(e.value))
		c.result.Close("entry")
	}
	c.result.Close("SummaryMap")
	return nil
}
