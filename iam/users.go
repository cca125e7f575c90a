package iam

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"orcas/auth"
	"orcas/auth/identity"
	"orcas/internal/mutant"
)

// lowerName is the key of identities in lists: names are unique without regard to case.
func lowerName(i *identity.Identity) string { return strings.ToLower(i.Name) }

// writeUser writes the elements of a user.
func (c *call) writeUser(u *identity.Identity) {
	x := &c.result
	x.Text("Path", "/")
	x.Text("UserName", u.Name)
	x.Text("UserId", u.ID)
	x.Text("Arn", u.ARN())
	c.writeTime("CreateDate", u.Created)
}

// writeWholeUser writes the element User, with the tags.
func (c *call) writeWholeUser(u *identity.Identity) {
	c.result.Open("User")
	c.writeUser(u)
	c.writeTags(u.Tags)
	c.result.Close("User")
}

// writeTags writes the element Tags, unless there are none.
func (c *call) writeTags(tags map[string]string) {
	if len(tags) == 0 {
		return
	}
	c.result.Open("Tags")
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		c.result.Open("member")
		c.writeTag(k, tags[k])
		c.result.Close("member")
	}
	c.result.Close("Tags")
}

func (c *call) writeTag(key, value string) {
	c.result.Text("Key", key)
	c.result.Text("Value", value)
}

func createUser(c *call) error {
	if err := c.checkPath("Path"); err != nil {
		return err
	}
	tags, err := c.newTags("iam:TagUser")
	if err != nil {
		return err
	}
	u, err := c.h.o.Identities.CreateUser(c.ctx(), c.account(), c.value("UserName"), tags)
	if err == nil {
		c.writeWholeUser(u)
	}
	return err
}

func getUser(c *call) error {
	if c.user == nil && c.target.arn == c.caller.ARN { // the root
		c.result.Open("User")
		c.result.Text("UserId", c.caller.ID)
		c.result.Text("Arn", c.caller.ARN)
		c.result.Close("User")
		return nil
	}
	u, err := c.theUser()
	if err == nil {
		c.writeWholeUser(u)
	}
	return err
}

func listUsers(c *call) error {
	var all []*identity.Identity
	if c.inPath() {
		all = c.h.o.Identities.List(identity.User, c.account())
	}
	return list(c, "Users", all, lowerName, c.writeUser)
}

func updateUser(c *call) error {
	u, err := c.theUser()
	if err == nil {
		err = c.rename(u, "NewUserName")
	}
	return err
}

// rename gives a user or a group the name in a parameter, if there is one. The caller needs the permission of the action
// for the new name too: otherwise, it could take a name to which policies give more rights.
func (c *call) rename(i *identity.Identity, parameter string) error {
	if err := c.checkPath("NewPath"); err != nil {
		return err
	}
	name, given := c.parameters[parameter]
	if !given {
		return nil
	}
	c.aim(string(i.Kind)+"/", name, nil)
	if err := c.authorize(c.route.Action); err != nil && !mutant.Is("any-new-name") {
		return err
	}
	_, err := c.h.o.Identities.Rename(c.ctx(), i.Kind, c.account(), i.Name, name)
	return err
}

func deleteUser(c *call) error {
	u, err := c.theUser()
	if err == nil {
		err = c.h.o.Identities.DeleteEmptyUser(c.ctx(), c.account(), u.Name)
	}
	return err
}

// newTags returns the tags of what the call creates. If there are any, they need a permission.
func (c *call) newTags(permission auth.Action) (map[string]string, error) {
	tags, err := c.requestTags()
	if err == nil && len(tags) > 0 && !mutant.Is("tags-for-free") {
		err = c.authorize(permission)
	}
	return tags, err
}

// requestTags returns the tags in the parameters Tags.member.N.Key and Tags.member.N.Value.
func (c *call) requestTags() (map[string]string, error) {
	tags, n := map[string]string{}, 0
	for ; ; n++ {
		prefix := fmt.Sprintf("Tags.member.%d.", n+1)
		key, given := c.parameters[prefix+"Key"]
		if !given {
			break
		}
		if _, repeated := tags[key]; repeated {
			return nil, errInvalidInput.saying("Duplicate tag keys found. Please note that tag keys are case insensitive.")
		}
		tags[key] = c.value(prefix + "Value")
	}
	return tags, c.checkCount("Tags.member.", 2*n)
}

// requestTagKeys returns the tag keys in the parameters TagKeys.member.N.
func (c *call) requestTagKeys() (keys []string, err error) {
	for n := 1; ; n++ {
		key, given := c.parameters[fmt.Sprintf("TagKeys.member.%d", n)]
		if !given {
			break
		}
		keys = append(keys, key)
	}
	return keys, c.checkCount("TagKeys.member.", len(keys))
}

// checkCount checks the number of parameters of a list, so that none is ignored: not those after a gap either.
func (c *call) checkCount(prefix string, want int) error {
	n := 0
	for name := range c.parameters {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	if n != want {
		return errValidation.saying("The parameters %sN must be numbered from 1 without gaps, and each must be complete.", prefix)
	}
	return nil
}

func addTags(c *call) error {
	tags, err := c.requestTags()
	if err != nil {
		return err
	}
	return c.changeTags(tags, nil)
}

func removeTags(c *call) error {
	keys, err := c.requestTagKeys()
	if err != nil {
		return err
	}
	return c.changeTags(nil, keys)
}

// changeTags changes the tags of the user, the role or the policy that the call names.
func (c *call) changeTags(add map[string]string, remove []string) error {
	if c.route.target == arnTarget {
		p, err := c.changeable()
		if err == nil {
			err = c.h.o.Identities.ChangePolicyTags(c.ctx(), c.account(), p.Name, add, remove)
		}
		return err
	}
	i, err := c.holder()
	if err == nil {
		_, err = c.h.o.Identities.ChangeTags(c.ctx(), i.Kind, c.account(), i.Name, add, remove)
	}
	return err
}

func listTags(c *call) error {
	i, err := c.holder()
	if err != nil {
		return err
	}
	return c.listTags(i.Tags)
}

func listPolicyTags(c *call) error {
	p, err := c.thePolicy()
	if err != nil {
		return err
	}
	return c.listTags(p.Tags)
}

func (c *call) listTags(tags map[string]string) error {
	self := func(key string) string { return key }
	return list(c, "Tags", slices.Collect(maps.Keys(tags)), self, func(key string) { c.writeTag(key, tags[key]) })
}

func createAccessKey(c *call) error {
	u, err := c.theUser()
	if err != nil {
		return err
	}
	u, secret, err := c.h.o.Identities.CreateAccessKeyWith(c.ctx(), c.caller, c.event.AccessKey, u.Name, 0)
	if err != nil {
		return err
	}
	c.result.Open("AccessKey")
	c.result.Text("UserName", u.Name)
	c.result.Text("AccessKeyId", secret.AccessKey)
	c.result.Text("Status", keyActive)
	c.result.Text("SecretAccessKey", secret.SecretKey)
	c.writeTime("CreateDate", u.Keys[len(u.Keys)-1].Created)
	c.result.Close("AccessKey")
	return nil
}

// The statuses of access keys.
const (
	keyActive   = "Active"
	keyInactive = "Inactive"
)

func listAccessKeys(c *call) error {
	u, err := c.theUser()
	if err != nil {
		return err
	}
	key := func(k identity.AccessKey) string { return k.Created.UTC().Format("20060102150405") + k.ID }
	return list(c, "AccessKeyMetadata", u.Keys, key, func(k identity.AccessKey) {
		status := keyActive
		if k.Disabled || !k.Expires.IsZero() && !c.h.o.Now().Before(k.Expires) {
			status = keyInactive
		}
		c.result.Text("UserName", u.Name)
		c.result.Text("AccessKeyId", k.ID)
		c.result.Text("Status", status)
		c.writeTime("CreateDate", k.Created)
	})
}

func updateAccessKey(c *call) error {
	if err := c.oneOf("Status", keyActive, keyInactive); err != nil {
		return err
	}
	u, err := c.theUser()
	if err == nil {
		enabled := c.value("Status") == keyActive
		_, err = c.h.o.Identities.EnableAccessKey(c.ctx(), c.account(), u.Name, c.value("AccessKeyId"), enabled)
	}
	return err
}

func deleteAccessKey(c *call) error {
	u, err := c.theUser()
	if err == nil {
		_, err = c.h.o.Identities.DeleteAccessKey(c.ctx(), c.account(), u.Name, c.value("AccessKeyId"))
	}
	return err
}

// getAccessKeyLastUsed returns when an access key was last used. The service and the region are not known.
func getAccessKeyLastUsed(c *call) error {
	if c.user == nil {
		return errNoEntity.saying("The Access Key with id %s cannot be found.", c.value("AccessKeyId"))
	}
	used := c.h.o.Identities.LastUsed(c.value("AccessKeyId"))
	c.result.Text("UserName", c.user.Name)
	c.result.Open("AccessKeyLastUsed")
	if !used.IsZero() {
		c.writeTime("LastUsedDate", used)
	}
	c.result.Text("ServiceName", "N/A")
	c.result.Text("Region", "N/A")
	c.result.Close("AccessKeyLastUsed")
	return nil
}

// tagOf returns the value of a tag. The keys of tags of IAM are compared without case.
func tagOf(tags map[string]string, key string) (string, bool) {
	for k, v := range tags {
		if strings.EqualFold(k, key) {
			return v, true
		}
	}
	return "", false
}

// kindAndName is the key of identities in lists with several kinds.
func kindAndName(i *identity.Identity) string { return string(i.Kind) + "/" + lowerName(i) }
