// Package policy is the policy language of IAM and S3: it compiles policy documents, and decides whether a request is
// allowed by the policies that are in force. It is pure: a decision depends on the request and the policies alone, and
// nothing here reads a clock, a file or the network.
//
// # The language
//
// A document is JSON: a Version, an optional Id, and one or more statements. A statement has
//
//   - Effect: Allow or Deny.
//   - Principal or NotPrincipal, in bucket and trust policies only: "*", or an object with entries of AWS (an account,
//     or the ARN of a root, a user, a role, a session of a role, or an application key), CanonicalUser, Federated and
//     Service. The last two are accepted, but no caller is one of them.
//   - Action or NotAction: names of actions.txt, without regard to case, with the wildcards "*" and "?".
//   - Resource or NotResource: ARNs with wildcards, or "*". A bucket policy can only be about its bucket and its keys.
//     A trust policy has no such element: it is about its role, and about the actions of STS on roles.
//   - Condition: for each operator, condition keys with values. All must hold. Of several values, one must match; with
//     a negated operator, none may match.
//
// Keys are compared without case, except for the key of an object tag after the slash. An operator may have the prefix
// ForAllValues: or ForAnyValue: and the suffix IfExists. If the request does not have the key, a condition is false,
// with four exceptions: it is true with IfExists, with ForAllValues:, and with a negated operator that has no prefix;
// and Null compares the absence itself. Hence
//
//	"Condition": {"StringNotEquals": {"aws:PrincipalTag/team": "red"}}
//
// matches callers without the tag.
//
// In version 2012-10-17, resources and the values of String and Arn operators may have variables: ${aws:username} is
// replaced by the value of the key, ${aws:username, 'nobody'} has a default, and ${*}, ${?} and ${$} stand for these
// characters. Wildcards in the value of a variable have no meaning. If a variable has no value, the statement does not
// match, whether it allows or denies, unless the variable is in a condition with IfExists whose key is absent.
//
// The parser is strict, because a document that is understood differently from what its author meant gives permissions
// away. Elements must have the right case and occur once (encoding/json would accept the wrong case, and keep the last
// of several). Unknown elements, actions, keys, operators, principals and resources are errors; so are actions that
// apply to no resource of the statement, keys that apply to none of its actions, and documents of more than 20 KiB. An
// Error names the statement, the element and the line.
//
// # The decision
//
// Decide takes these steps, in this order:
//
//  1. A statement that matches and denies, in any policy, denies the request. This binds the root of an account too,
//     except that no bucket policy keeps it from reading, replacing and deleting the policy of its own bucket.
//  2. An anonymous caller needs a bucket policy that allows the request, and that the public access block does not
//     cancel: if RestrictPublicBuckets is set and the policy is public (IsPublic), what the policy allows applies only
//     to callers of the bucket's account.
//  3. Within the account of the bucket, it is sufficient that either a policy of the identity or the bucket policy
//     allows the request. The root of an account is allowed everything by its identity. A bucket policy that names the
//     account, rather than the identity or everyone, leaves the choice to the account: it allows the request to the
//     root only.
//  4. Across accounts, both must allow it. Here naming the account is sufficient for the bucket policy.
//  5. Policies of a session limit both what the identity is allowed and what the bucket policy allows to the role or to
//     everyone. They do not limit what the bucket policy allows to that very session, by its ARN.
//  6. Everything else is denied.
//
// An application key has its own policies and a creator. The steps are taken for the key, for its creator, for the
// creator's creator, and so on: all of them must be allowed. So a key never exceeds its creator, and loses what its
// creator loses.
//
// # Trust
//
// The trust policy of a role decides who may assume it. DecideTrust takes the same steps with the trust policy in the
// place of the bucket policy, except for these differences:
//
//   - The trust policy must allow the request in any case. Within the account, it is sufficient that it names the
//     caller or everyone. If it names the account, a policy of the identity must allow the request too. Across
//     accounts, a policy of the identity must allow it in any case.
//   - Roots of accounts, anonymous callers and application keys cannot assume roles. The root of an account has all
//     rights that its roles can have; an application key could exceed its creator.
//
// # Many keys
//
// Some requests are about many keys. For them a statement may match all keys, some, or none: a resource is compared
// with everything that begins with "BUCKET/", and keys of conditions that depend on the object, such as
// s3:ExistingObjectTag/team, are unknown. With auth.AnyKey the question is whether some key could be allowed, so
// "perhaps" counts as a match for Allow and as none for Deny. The caller must decide about each key later. With
// auth.EveryKey the question is whether all keys are certainly allowed, so "perhaps" counts the other way. Several
// statements that together cover a bucket, but none of them alone, are not recognized.
//
// auth.Below is like auth.AnyKey for the keys that begin with a prefix, and for buckets that may not exist yet.
// auth.Perhaps is about one key or bucket, with the same keys of conditions unknown. Pages ask these questions to hide
// what a user may not do; no operation is performed because of the answer.
//
// # Traps
//
// A condition key that does not apply to an action is absent, even if the request has a parameter or header of that
// name: GetObject?prefix=home/ does not satisfy a condition on the prefix of listings. Keys about the caller, such as
// aws:username, come from the caller and never from the request. Only users have a user name, so that an application
// key or a role named like a user does not get the user's home directory. IPv4-mapped IPv6 addresses are IPv4
// addresses, in policies and in requests.
//
// # What differs from AWS
//
//   - The same checks apply to the policies of identities and to bucket policies. IAM accepts unknown actions and keys,
//     and actions that do not fit their resource.
//   - Operators and elements must be written with the right case.
//   - A principal that NotPrincipal exempts from Deny must be named itself. Naming its account as well, as AWS
//     requires, is permitted, but exempts only the root.
//   - s3:prefix, s3:delimiter and s3:max-keys apply to ListBucketMultipartUploads too. There are additional actions
//     (orcas:*, s3:GetBucketQuota, s3:PutBucketQuota) and principals (arn:aws:iam::ACCOUNT:key/NAME).
//   - There are no permissions boundaries, and no policies of organizations.
//   - Keys that describe organizations, VPCs, MFA and calls by services of AWS are known, but requests never have them.
package policy
