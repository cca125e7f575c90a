package iam

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"
	"time"

	"orcas/auth/identity"
	"orcas/auth/policy"
	"orcas/internal/mutant"
)

// target is the type of the target of an action, and determines which parameter names it.
type target uint8

// The types of targets.
const (
	noTarget    target = iota // the permission is about no resource
	userTarget                // UserName
	selfTarget                // UserName; without it, the user who calls
	ownerTarget               // AccessKeyId: the user that it belongs to
	groupTarget               // GroupName
	roleTarget                // RoleName
	nameTarget                // PolicyName: a managed policy
	arnTarget                 // PolicyArn: a managed or built-in policy
)

// resource is the target of a call: the resource of its permission.
type resource struct {
	arn   string // "" if the action has none
	named string // the ARN with the name as in the request, for messages
	tags  map[string]string
}

// found are the identities and the policy that the parameters of a call name, as they were when the permission was
// decided. They are nil if they do not exist or if no parameter names them.
type found struct {
	user, group, role *identity.Identity

	policy    *managed
	policyARN string // of the policy if it exists, otherwise as in the request
}

var validName = regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]{1,64}$`)

// names are the parameters whose values are names.
var names = []string{"UserName", "NewUserName", "GroupName", "NewGroupName", "RoleName", "PolicyName"}

// find looks up what the parameters of a call name, and determines the target.
func (t target) find(c *call) error {
	for _, name := range names {
		if v, given := c.parameters[name]; given && !validName.MatchString(v) {
			return errValidation.saying("The specified value for %s is invalid. It must contain 1 to 64 letters, digits and "+
				"the following: +=,.@_-", lowerFirst(name))
		}
	}
	ids := c.h.o.Identities
	c.user, _ = ids.Get(identity.User, c.account(), c.value("UserName"))
	c.group, _ = ids.Get(identity.Group, c.account(), c.value("GroupName"))
	c.role, _ = ids.Get(identity.Role, c.account(), c.value("RoleName"))
	if c.policyARN = c.value("PolicyArn"); c.policyARN != "" {
		if c.policy = c.policyOf(c.policyARN); c.policy != nil {
			c.policyARN = c.policy.ARN()
		}
	}
	switch t {
	case noTarget:
	case userTarget:
		c.aim("user/", c.value("UserName"), c.user)
	case selfTarget:
		return c.aimAtSelf()
	case ownerTarget:
		if u := ids.UserOf(c.value("AccessKeyId")); u != nil && u.Account == c.account() {
			c.user = u
		}
		c.aim("user/", "", c.user)
		c.target.named = "access key " + c.value("AccessKeyId")
	case groupTarget:
		c.aim("group/", c.value("GroupName"), c.group)
	case roleTarget:
		c.aim("role/", c.value("RoleName"), c.role)
	case nameTarget:
		c.target.named = c.arn("policy/" + c.value("PolicyName"))
		c.target.arn = c.target.named
		if p, _ := ids.Policy(c.account(), c.value("PolicyName")); p != nil {
			c.target.arn, c.target.tags = p.ARN(), p.Tags
		}
	case arnTarget:
		c.target = resource{arn: c.policyARN, named: c.value("PolicyArn")}
		if c.policy != nil {
			c.target.tags = c.policy.Tags
		}
	default:
		return internalError("unknown type of target %d", t)
	}
	return nil
}

// arn returns the ARN of a resource in the account, such as user/alice.
func (c *call) arn(resource string) string { return "arn:aws:iam::" + c.account() + ":" + resource }

// aim makes an identity the target, which has a name in the request, and is nil if it does not exist.
func (c *call) aim(prefix, name string, i *identity.Identity) {
	c.target.named = c.arn(prefix + name)
	c.target.arn = c.target.named
	if i != nil && !mutant.Is("target-as-requested") {
		c.target.arn, c.target.tags = i.ARN(), i.Tags
	}
}

// aimAtSelf makes the named user the target, or the caller if no user is named.
func (c *call) aimAtSelf() error {
	name := c.value("UserName")
	if name == "" {
		var isUser bool
		if name, isUser = strings.CutPrefix(c.caller.ARN, c.arn("user/")); !isUser {
			c.target = resource{arn: c.caller.ARN, named: c.caller.ARN}
			if c.route.root && c.caller.ID == c.account() {
				return nil
			}
			return errValidation.saying("Must specify userName when calling with non-User credentials")
		}
		c.user, _ = c.h.o.Identities.Get(identity.User, c.account(), name)
	}
	c.aim("user/", name, c.user)
	return nil
}

// theUser returns the user that the call names.
func (c *call) theUser() (*identity.Identity, error) {
	if c.user == nil {
		return nil, errNoEntity.saying("The user with name %s cannot be found.", c.value("UserName"))
	}
	return c.user, nil
}

// theGroup returns the group that the call names.
func (c *call) theGroup() (*identity.Identity, error) {
	if c.group == nil {
		return nil, errNoEntity.saying("The group with name %s cannot be found.", c.value("GroupName"))
	}
	return c.group, nil
}

// thePolicy returns the policy that the call names by its ARN.
func (c *call) thePolicy() (*managed, error) {
	if c.policy == nil {
		return nil, errNoEntity.saying("Policy %s does not exist or is not attachable.", c.value("PolicyArn"))
	}
	return c.policy, nil
}

// managed is a managed or built-in policy.
type managed struct {
	*identity.ManagedPolicy
	key     string // by which identities refer to it
	builtIn bool
}

// builtInAccount is the account in the ARNs of built-in policies, as in those of policies that AWS manages.
const builtInAccount = "aws"

// builtInSince is the date of built-in policies.
var builtInSince = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// builtIn returns the built-in policy with a name, or nil.
func builtIn(name string) *managed {
	document := policy.BuiltInDocument(name)
	if document == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("ORCAS built-in policy " + name))
	return &managed{builtIn: true, key: name, ManagedPolicy: &identity.ManagedPolicy{
		Account: builtInAccount, Name: name, ID: "ANPA" + base32.StdEncoding.EncodeToString(sum[:])[:17], Document: document,
		Created: builtInSince, Updated: builtInSince, Version: 1, Since: builtInSince,
	}}
}

// policyOf returns the policy with an ARN, or nil.
func (c *call) policyOf(arn string) *managed {
	if name, ok := strings.CutPrefix(arn, "arn:aws:iam::"+builtInAccount+":policy/"); ok {
		return builtIn(name)
	}
	name, ok := strings.CutPrefix(arn, c.arn("policy/"))
	if !ok {
		return nil
	}
	p, _ := c.h.o.Identities.Policy(c.account(), name)
	if p == nil {
		return nil
	}
	return &managed{ManagedPolicy: p, key: p.ID}
}

// attached returns the policy that an identity refers to, or nil if it does not exist.
func (c *call) attached(key string) *managed {
	if p := builtIn(key); p != nil {
		return p
	}
	return c.policyOf(c.arn("policy/" + c.h.o.Identities.PolicyName(key)))
}
