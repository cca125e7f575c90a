package iam

import (
	"fmt"
	"strconv"
	"time"

	"orcas/auth/identity"
)

// theRole returns the role that the call names.
func (c *call) theRole() (*identity.Identity, error) {
	if c.role == nil {
		return nil, errNoEntity.saying("The role with name %s cannot be found.", c.value("RoleName"))
	}
	return c.role, nil
}

// writeRole writes the elements of a role.
func (c *call) writeRole(r *identity.Identity) {
	x := &c.result
	x.Text("Path", "/")
	x.Text("RoleName", r.Name)
	x.Text("RoleId", r.ID)
	x.Text("Arn", r.ARN())
	c.writeTime("CreateDate", r.Created)
	c.writeDocument("AssumeRolePolicyDocument", c.h.o.Identities.TrustOf(r))
	x.Optional("Description", r.Description)
	x.Int("MaxSessionDuration", int64(r.MaxSession))
}

// writeWholeRole writes the element Role, with the tags.
func (c *call) writeWholeRole(r *identity.Identity) {
	c.result.Open("Role")
	c.writeRole(r)
	c.writeTags(r.Tags)
	c.result.Close("Role")
}

// roleChange returns the settings of a role in the parameters.
func (c *call) roleChange() (change identity.RoleChange, err error) {
	if v, given := c.parameters["Description"]; given {
		change.Description = &v
	}
	if c.value("MaxSessionDuration") != "" {
		d, err := c.seconds("MaxSessionDuration")
		if err != nil {
			return change, err
		}
		change.MaxSession = &d
	}
	return change, nil
}

// seconds returns a parameter that is a number of seconds; 0 if it is absent.
func (c *call) seconds(name string) (time.Duration, error) {
	v := c.value(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, errValidation.saying("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: "+
			"Member must be a number of seconds", v, lowerFirst(name))
	}
	return time.Duration(n) * time.Second, nil
}

func createRole(c *call) error {
	if err := c.checkPath("Path"); err != nil {
		return err
	}
	change, err := c.roleChange()
	if err != nil {
		return err
	}
	if change.Tags, err = c.newTags("iam:TagRole"); err != nil {
		return err
	}
	trust := c.value("AssumeRolePolicyDocument")
	change.Trust = &trust
	r, err := c.h.o.Identities.CreateRole(c.ctx(), c.account(), c.value("RoleName"), change)
	if err == nil {
		c.writeWholeRole(r)
	}
	return err
}

func getRole(c *call) error {
	r, err := c.theRole()
	if err == nil {
		c.writeWholeRole(r)
	}
	return err
}

func listRoles(c *call) error {
	var all []*identity.Identity
	if c.inPath() {
		all = c.h.o.Identities.List(identity.Role, c.account())
	}
	return list(c, "Roles", all, lowerName, c.writeRole)
}

func updateRole(c *call) error {
	r, err := c.theRole()
	if err != nil {
		return err
	}
	change, err := c.roleChange()
	if err == nil {
		_, err = c.h.o.Identities.UpdateRole(c.ctx(), c.account(), r.Name, change)
	}
	return err
}

// updateRoleDescription replaces the description of a role, by an empty one too.
func updateRoleDescription(c *call) error {
	text, given := c.parameters["Description"]
	if !given {
		return errValidation.saying("1 validation error detected: Value null at 'description' failed to satisfy constraint: Member must not be null")
	}
	r, err := c.theRole()
	if err != nil {
		return err
	}
	r, err = c.h.o.Identities.UpdateRole(c.ctx(), c.account(), r.Name, identity.RoleChange{Description: &text})
	if err == nil {
		c.writeWholeRole(r)
	}
	return err
}

func updateAssumeRolePolicy(c *call) error {
	r, err := c.theRole()
	if err == nil {
		trust := c.value("PolicyDocument")
		_, err = c.h.o.Identities.UpdateRole(c.ctx(), c.account(), r.Name, identity.RoleChange{Trust: &trust})
	}
	return err
}

func deleteRole(c *call) error {
	r, err := c.theRole()
	if err == nil {
		err = c.h.o.Identities.DeleteEmptyRole(c.ctx(), c.account(), r.Name)
	}
	return err
}

// listInstanceProfiles lists the instance profiles of a role. There are none, but programs ask for them before they
// delete a role.
func listInstanceProfiles(c *call) error {
	if _, err := c.theRole(); err != nil {
		return err
	}
	return empty("InstanceProfiles")(c)
}

// assumeRole begins a session of a role. The trust policy of the role and the policies of the caller decide.
func assumeRole(c *call) error {
	lifetime, err := c.seconds("DurationSeconds")
	if err != nil {
		return err
	}
	in := identity.AssumeRole{
		Role: c.value("RoleArn"), Session: c.value("RoleSessionName"), Duration: lifetime, ExternalID: c.value("ExternalId"),
		Policy: c.value("Policy"), Facts: facts{c},
	}
	for n := 1; ; n++ {
		arn, given := c.parameters[fmt.Sprintf("PolicyArns.member.%d.arn", n)]
		if !given {
			break
		}
		in.PolicyARNs = append(in.PolicyARNs, arn)
	}
	if err := c.checkCount("PolicyArns.member.", len(in.PolicyARNs)); err != nil {
		return err
	}
	s, err := c.h.o.Identities.AssumeRole(c.ctx(), c.caller, in)
	if err != nil {
		return err
	}
	x := &c.result
	x.Open("AssumedRoleUser")
	x.Text("AssumedRoleId", s.Principal.ID)
	x.Text("Arn", s.Principal.ARN)
	x.Close("AssumedRoleUser")
	x.Open("Credentials")
	x.Text("AccessKeyId", s.AccessKey)
	x.Text("SecretAccessKey", s.SecretKey)
	x.Text("SessionToken", s.Token)
	c.writeTime("Expiration", s.Expires)
	x.Close("Credentials")
	if s.PackedSize > 0 {
		x.Int("PackedPolicySize", int64(s.PackedSize))
	}
	return nil
}
