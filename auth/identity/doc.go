// Package identity keeps the identities of a store: accounts, users, groups, application keys, their access keys, and
// their policies. A Directory answers the two questions that every request asks: which secret and which principal
// belong to an access key (Lookup), and which policies apply to a principal (Caller).
//
// # The model
//
// An account owns buckets, users, groups, roles, policies and application keys. It has an ID of 12 digits, which ARNs
// contain, and a canonical ID (auth.CanonicalID), which S3 shows to clients. The root of the default account has the
// root credentials of the server, which are not stored here. Its ID is computed from the number of the store, so
// rebuilds, backups and restores keep it, and a start need not write anything. Other accounts are created by the default
// account; their roots have access keys like users.
//
//   - A user has a name, several access keys, tags, policies, and groups whose policies apply to it too. The policies of
//     a user are inline, which means that they are part of the user, or managed, which means that several users and
//     groups can share them. The built-in policies of package policy can be attached like managed ones.
//
//   - An application key is for a program. It is a principal of its own, with one inline policy and no user, and has an
//     access key. Its creator is the root, a user, or another application key. Package policy takes every decision for
//     the key and for its creator, so the key never exceeds its creator. When the creator is deleted, disabled or
//     expires, so does the key.
//
//   - A role has policies like a user, but no access keys. Its trust policy says who may assume it. The principals in it
//     are stored with their unique IDs.
//
// Every identity has a unique ID, such as KEYA6GSPW2RNZ7CMJZ2VX, which is never used again. Identities refer to each
// other by these IDs, never by name: an identity that is created under the name of a deleted one inherits nothing.
//
// # Records
//
// Each identity and each managed policy is one record of the metadata store (core.Record). So every operation is a
// single change, which a batch applies as a whole or not at all, and no crash leaves half of it. Records are part of
// the blocks, of snapshots, of backups, and of what a rebuild restores.
//
//	kind          key             value, in JSON
//	iam-user      ACCOUNT/name    Identity: groups, tags, policies, access keys
//	iam-group     ACCOUNT/name    Identity: policies
//	iam-key       ACCOUNT/name    Identity: the policy, the access keys, the creator
//	iam-role      ACCOUNT/name    Identity: policies, the trust policy
//	iam-policy    ACCOUNT/name    ManagedPolicy
//	iam-account   ACCOUNT/name    Identity: the access keys of its root, under the ID of the default account
//	iam-used      access key      when it was last used, at most once a minute
//
// The name in the key is in lower case, because names are unique without regard to case. A user or a group that is
// renamed keeps the key of its record, so that a rename is a single change too. If the key of a new identity belongs to a
// renamed one, the ID of the new one is added to its key (see Identity.OtherKey). A program refuses records with
// fields that it does not know: they might restrict what it would otherwise allow.
//
// The change states the value that it replaces (core.PutRecord.Expect). If that value has changed, another process has
// changed the record, or an earlier change was applied although it returned an error. Then the directory reads all
// records again, and the operation starts over.
//
// # Secrets
//
// The secret of an access key must be known to verify signatures, so it cannot be stored as a hash. It is encrypted
// with AES-256-GCM: a random nonce of 12 bytes, the ciphertext, and the tag, in Base64. The access key and the unique
// ID of its identity are authenticated, so the secret of one access key cannot be copied to another. The key comes from
// a file that is not a part of the metadata (see Options.Key), so blocks alone do not reveal secrets.
//
// If the file is missing or belongs to another store, the secrets cannot be decrypted. These access keys are then
// refused, and no new one can be created until the file is back, or until the identities with these access keys are
// deleted: otherwise some secrets would need one key and some another.
//
// # Sessions
//
// AssumeRole begins a session of a role: a temporary access key, its secret, and a session token that a request must
// present with them. The session has the policies that the role has at the time of each request, limited by the session
// policies. It ends when it expires, and when the role, a managed session policy, the user that began it, or a role in
// between is deleted.
//
// A session is not stored. Its token contains all of it (ticket): the access key and the secret, the ID of the role, the
// name, the times, the session policy, and the IDs of those it depends on. The token is encrypted with AES-256-GCM, so
// nobody can read, change or forge one:
//
//	Base64 (RFC 4648, "-" and "_", not padded) of: byte 1, a random nonce of 12 bytes, the ticket in JSON, encrypted, the tag
//
// The key is HMAC-SHA256(the key of the secrets, "ORCAS session tokens 1"); the text "ORCAS session token 1" is
// authenticated. Tokens are sealed rather than stored, because every program that uses roles begins a session at each
// start, and many do so every few minutes: each would be a durable write, and a record to delete later. In return, a
// single session cannot be deleted. To end all sessions of a role that were begun before some time, deny requests with a
// condition on aws:TokenIssueTime, as in AWS. A restart, a rebuild and a restore keep sessions, as long as the key
// remains.
//
// Opened tokens are kept in memory (sessions). The caller is computed again whenever the state has changed, so what
// applies to access keys applies to sessions: they are refused as soon as the command that revokes them returns.
//
// # Reading and writing
//
// All identities are in memory, in an immutable value (state) behind an atomic pointer. Lookup and Caller read it
// without a lock and without allocating. A change is written to the store first; when it is durable, a new state
// replaces the old one. The directory is asked about each request, also on connections that are already open, so a
// revoked access key is refused as soon as the command that revokes it returns.
//
// A new state is built from the value that was written, by the code that also reads records at a start. So the state in
// memory and the state after a restart cannot differ.
//
// # What was not done
//
// Secrets are not encrypted with the master keys directly. The rotation of master keys would then have to rewrite each
// identity before it may retire a key, and identities would be lost with a key that no content needs. Instead, the file
// with the key is itself encrypted with the newest master key, at each start.
package identity
