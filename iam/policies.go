package iam

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"orcas/auth/identity"
	"orcas/auth/policy"
)

// holder returns the user, the group or the role that an action on policies is about, whichever it names.
func (c *call) holder() (*identity.Identity, error) {
	switch c.route.target {
	case groupTarget:
		return c.theGroup()
	case roleTarget:
		return c.theRole()
	}
	return c.theUser()
}

// writeHolder writes the name of a user, a group or a role.
func (c *call) writeHolder(i *identity.Identity) {
	switch i.Kind {
	case identity.Group:
		c.result.Text("GroupName", i.Name)
	case identity.Role:
		c.result.Text("RoleName", i.Name)
	default:
		c.result.Text("UserName", i.Name)
	}
}

func putInline(c *call) error {
	i, err := c.holder()
	if err == nil {
		_, err = c.h.o.Identities.PutInlinePolicy(c.ctx(), i.Kind, c.account(), i.Name, c.value("PolicyName"), c.value("PolicyDocument"))
	}
	return err
}

func getInline(c *call) error {
	i, err := c.holder()
	if err != nil {
		return err
	}
	for _, p := range i.Inline {
		if strings.EqualFold(p.Name, c.value("PolicyName")) {
			c.writeHolder(i)
			c.result.Text("PolicyName", p.Name)
			c.writeDocument("PolicyDocument", p.Document)
			return nil
		}
	}
	return errNoEntity.saying("The %s policy with name %s cannot be found.", i.Kind, c.value("PolicyName"))
}

func listInline(c *call) error {
	i, err := c.holder()
	if err != nil {
		return err
	}
	items, next, err := page(c, i.Inline, func(p identity.Inline) string { return strings.ToLower(p.Name) })
	if err != nil {
		return err
	}
	c.result.Open("PolicyNames")
	for _, p := range items {
		c.result.Text("member", p.Name)
	}
	c.result.Close("PolicyNames")
	c.endList(next)
	return nil
}

func deleteInline(c *call) error {
	i, err := c.holder()
	if err == nil {
		_, err = c.h.o.Identities.DeleteInlinePolicy(c.ctx(), i.Kind, c.account(), i.Name, c.value("PolicyName"))
	}
	return err
}

func attach(c *call) error { return c.setAttached(true) }
func detach(c *call) error { return c.setAttached(false) }

func (c *call) setAttached(attached bool) error {
	i, err := c.holder()
	if err != nil {
		return err
	}
	p, err := c.thePolicy()
	if err != nil {
		return err
	}
	if !attached && !slices.Contains(i.Attached, p.key) {
		return errNoEntity.saying("Policy %s was not found.", p.ARN())
	}
	_, err = c.h.o.Identities.Attach(c.ctx(), i.Kind, c.account(), i.Name, p.Name, attached)
	return err
}

func listAttached(c *call) error {
	i, err := c.holder()
	if err != nil {
		return err
	}
	var all []*managed
	for _, key := range i.Attached {
		if p := c.attached(key); p != nil && c.inPath() {
			all = append(all, p)
		}
	}
	return list(c, "AttachedPolicies", all, lowerPolicy, func(p *managed) {
		c.result.Text("PolicyName", p.Name)
		c.result.Text("PolicyArn", p.ARN())
	})
}

// lowerPolicy is the key of policies in lists. No managed policy has the name of a built-in one.
func lowerPolicy(p *managed) string { return strings.ToLower(p.Name) }

// writePolicy writes the elements of a policy; if whole is set, also those that lists do not have.
func (c *call) writePolicy(p *managed, whole bool) {
	x := &c.result
	x.Text("PolicyName", p.Name)
	x.Text("PolicyId", p.ID)
	x.Text("Arn", p.ARN())
	x.Text("Path", "/")
	current := p.Default()
	x.Text("DefaultVersionId", current.ID())
	x.Int("AttachmentCount", int64(len(c.h.o.Identities.AttachedTo(c.account(), p.key))))
	x.Int("PermissionsBoundaryUsageCount", 0)
	x.Bool("IsAttachable", true)
	c.writeTime("CreateDate", p.Created)
	c.writeTime("UpdateDate", p.Updated)
	if whole {
		x.Optional("Description", p.Description)
		c.writeTags(p.Tags)
	}
}

func createPolicy(c *call) error {
	if err := c.checkPath("Path"); err != nil {
		return err
	}
	tags, err := c.newTags("iam:TagPolicy")
	if err != nil {
		return err
	}
	p, err := c.h.o.Identities.CreatePolicyWithTags(
		c.ctx(), c.account(), c.value("PolicyName"), c.value("PolicyDocument"), c.value("Description"), tags)
	if err == nil {
		c.result.Open("Policy")
		c.writePolicy(&managed{ManagedPolicy: p, key: p.ID}, true)
		c.result.Close("Policy")
	}
	return err
}

func getPolicy(c *call) error {
	p, err := c.thePolicy()
	if err == nil {
		c.result.Open("Policy")
		c.writePolicy(p, true)
		c.result.Close("Policy")
	}
	return err
}

func listPolicies(c *call) error {
	for name, values := range map[string][]string{
		"Scope": {"All", "AWS", "Local"}, "OnlyAttached": {"true", "false"},
		"PolicyUsageFilter": {"PermissionsPolicy", "PermissionsBoundary"},
	} {
		if err := c.oneOf(name, values...); err != nil {
			return err
		}
	}
	var all []*managed
	if c.value("Scope") != "AWS" {
		for _, p := range c.h.o.Identities.Policies(c.account()) {
			all = append(all, &managed{ManagedPolicy: p, key: p.ID})
		}
	}
	if c.value("Scope") != "Local" {
		for _, name := range policy.BuiltIns() {
			all = append(all, builtIn(name))
		}
	}
	all = slices.DeleteFunc(all, func(p *managed) bool {
		isUnused := c.value("OnlyAttached") == "true" && len(c.h.o.Identities.AttachedTo(c.account(), p.key)) == 0
		return isUnused || !c.inPath() || c.value("PolicyUsageFilter") == "PermissionsBoundary"
	})
	return list(c, "Policies", all, lowerPolicy, func(p *managed) { c.writePolicy(p, false) })
}

func deletePolicy(c *call) error {
	p, err := c.changeable()
	if err == nil {
		err = c.h.o.Identities.DeleteSinglePolicy(c.ctx(), c.account(), p.Name)
	}
	return err
}

// changeable returns the policy that the call names, which must not be built in.
func (c *call) changeable() (*managed, error) {
	p, err := c.thePolicy()
	if err == nil && p.builtIn {
		return nil, errDenied.saying("The policy %s is built in, so it cannot be changed or deleted.", p.ARN())
	}
	return p, err
}

// writeVersion writes the elements of a version of a policy.
func (c *call) writeVersion(p *managed, v identity.PolicyVersion) {
	c.result.Text("VersionId", v.ID())
	c.result.Bool("IsDefaultVersion", v.Number == p.Version)
	c.writeTime("CreateDate", v.Created)
}

func createPolicyVersion(c *call) error {
	if err := c.oneOf("SetAsDefault", "true", "false"); err != nil {
		return err
	}
	p, err := c.changeable()
	if err != nil {
		return err
	}
	changed, v, err := c.h.o.Identities.CreatePolicyVersion(
		c.ctx(), c.account(), p.Name, c.value("PolicyDocument"), c.value("SetAsDefault") == "true")
	if err == nil {
		c.result.Open("PolicyVersion")
		c.writeVersion(&managed{ManagedPolicy: changed, key: p.key}, v)
		c.result.Close("PolicyVersion")
	}
	return err
}

// validVersion is the form of the ID of a version. The part after a period, which AWS's own policies have, is never used.
var validVersion = regexp.MustCompile(`^v[1-9][0-9]{0,8}$`)

// versionNumber returns the number of the version that the call names.
func (c *call) versionNumber() (int, error) {
	id := c.value("VersionId")
	if !validVersion.MatchString(id) {
		return 0, errValidation.saying("1 validation error detected: Value '%s' at 'versionId' failed to satisfy constraint: "+
			"Member must be the letter v and a number, such as v1", id)
	}
	return strconv.Atoi(id[1:])
}

func getPolicyVersion(c *call) error {
	number, err := c.versionNumber()
	if err != nil {
		return err
	}
	p, err := c.thePolicy()
	if err != nil {
		return err
	}
	for _, v := range p.Versions() {
		if v.Number == number {
			c.result.Open("PolicyVersion")
			c.writeDocument("Document", v.Document)
			c.writeVersion(p, v)
			c.result.Close("PolicyVersion")
			return nil
		}
	}
	return errNoEntity.saying("Policy %s version v%d does not exist.", p.ARN(), number)
}

func listPolicyVersions(c *call) error {
	p, err := c.thePolicy()
	if err != nil {
		return err
	}
	key := func(v identity.PolicyVersion) string { return fmt.Sprintf("%010d", v.Number) }
	return list(c, "Versions", p.Versions(), key, func(v identity.PolicyVersion) { c.writeVersion(p, v) })
}

// changeVersion returns the handler of an action that changes one version of a policy.
func changeVersion(change func(ids *identity.Directory, ctx context.Context, account, name string, number int) error) handler {
	return func(c *call) error {
		number, err := c.versionNumber()
		if err != nil {
			return err
		}
		p, err := c.changeable()
		if err != nil {
			return err
		}
		return change(c.h.o.Identities, c.ctx(), c.account(), p.Name, number)
	}
}

func listEntitiesForPolicy(c *call) error {
	for name, values := range map[string][]string{
		"EntityFilter":      {"User", "Role", "Group", "LocalManagedPolicy", "AWSManagedPolicy"},
		"PolicyUsageFilter": {"PermissionsPolicy", "PermissionsBoundary"},
	} {
		if err := c.oneOf(name, values...); err != nil {
			return err
		}
	}
	p, err := c.thePolicy()
	if err != nil {
		return err
	}
	filter := strings.ToLower(c.value("EntityFilter"))
	all := slices.DeleteFunc(c.h.o.Identities.AttachedTo(c.account(), p.key), func(i *identity.Identity) bool {
		return !c.inPath() || filter != "" && filter != string(i.Kind) || c.value("PolicyUsageFilter") == "PermissionsBoundary"
	})
	all, next, err := page(c, all, kindAndName)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		kind           identity.Kind
		list, name, id string
	}{
		{identity.Group, "PolicyGroups", "GroupName", "GroupId"}, {identity.User, "PolicyUsers", "UserName", "UserId"},
		{identity.Role, "PolicyRoles", "RoleName", "RoleId"},
	} {
		c.result.Open(of.list)
		for _, i := range all {
			if i.Kind == of.kind {
				c.result.Open("member")
				c.result.Text(of.name, i.Name)
				c.result.Text(of.id, i.ID)
				c.result.Close("member")
			}
		}
		c.result.Close(of.list)
	}
	c.endList(next)
	return nil
}
