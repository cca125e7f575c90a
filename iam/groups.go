package iam

import (
	"slices"

	"orcas/auth/identity"
)

// writeGroup writes the elements of a group.
func (c *call) writeGroup(g *identity.Identity) {
	x := &c.result
	x.Text("Path", "/")
	x.Text("GroupName", g.Name)
	x.Text("GroupId", g.ID)
	x.Text("Arn", g.ARN())
	c.writeTime("CreateDate", g.Created)
}

func createGroup(c *call) error {
	if err := c.checkPath("Path"); err != nil {
		return err
	}
	g, err := c.h.o.Identities.Create(c.ctx(), identity.Group, c.account(), c.value("GroupName"))
	if err == nil {
		c.result.Open("Group")
		c.writeGroup(g)
		c.result.Close("Group")
	}
	return err
}

// getGroup returns a group and its members.
func getGroup(c *call) error {
	g, err := c.theGroup()
	if err != nil {
		return err
	}
	c.result.Open("Group")
	c.writeGroup(g)
	c.result.Close("Group")
	return list(c, "Users", c.h.o.Identities.MembersOf(g), lowerName, c.writeUser)
}

func listGroups(c *call) error {
	var all []*identity.Identity
	if c.inPath() {
		all = c.h.o.Identities.List(identity.Group, c.account())
	}
	return list(c, "Groups", all, lowerName, c.writeGroup)
}

func updateGroup(c *call) error {
	g, err := c.theGroup()
	if err == nil {
		err = c.rename(g, "NewGroupName")
	}
	return err
}

func deleteGroup(c *call) error {
	g, err := c.theGroup()
	if err == nil {
		err = c.h.o.Identities.DeleteEmptyGroup(c.ctx(), c.account(), g.Name)
	}
	return err
}

func addUserToGroup(c *call) error {
	g, err := c.theGroup()
	if err != nil {
		return err
	}
	u, err := c.theUser()
	if err == nil {
		_, err = c.h.o.Identities.SetMember(c.ctx(), c.account(), u.Name, g.Name, true)
	}
	return err
}

func removeUserFromGroup(c *call) error {
	g, err := c.theGroup()
	if err != nil {
		return err
	}
	u, err := c.theUser()
	if err != nil {
		return err
	}
	if !slices.Contains(u.Groups, g.ID) {
		return errNoEntity.saying("The user with name %s is not in the group %s.", u.Name, g.Name)
	}
	_, err = c.h.o.Identities.SetMember(c.ctx(), c.account(), u.Name, g.Name, false)
	return err
}

func listGroupsForUser(c *call) error {
	u, err := c.theUser()
	if err != nil {
		return err
	}
	return list(c, "Groups", c.h.o.Identities.GroupsOf(u), lowerName, c.writeGroup)
}
