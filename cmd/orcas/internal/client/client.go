// Package client has the commands of orcas that list, transfer and change objects: orcas ls, cp, sync and so on. They
// are programs over packages sdk and sdk/tree, for ORCAS and any other S3 server, and need nothing of the store, so every
// build of orcas has them.
//
// A command parses its addresses, opens a session with a client for each profile, and prints what it does, as lines for
// people or as JSON. Its error becomes an exit status by the table in status.go.
package client

import (
	"io"
)

// Commands are the commands, for the command line of orcas.
type Commands struct {
	Ls       lsCommand       `cmd:"" help:"List buckets, or the objects of a bucket."`
	Cp       cpCommand       `cmd:"" help:"Copy files and objects: to a server, from it, and between buckets."`
	Sync     syncCommand     `cmd:"" help:"Make a directory or prefix have the files of another one."`
	Mv       mvCommand       `cmd:"" help:"Move files and objects: copy them, then delete the source."`
	Rm       rmCommand       `cmd:"" help:"Delete objects, or versions of them."`
	Cat      catCommand      `cmd:"" help:"Print the content of objects."`
	Pipe     pipeCommand     `cmd:"" help:"Store the standard input as an object."`
	Stat     statCommand     `cmd:"" help:"Show all properties of an object or a bucket."`
	Du       duCommand       `cmd:"" help:"Show how much space objects use, by prefix."`
	Tree     treeCommand     `cmd:"" help:"Show the objects of a bucket as a tree."`
	Find     findCommand     `cmd:"" help:"Find objects by name, size, age or tag."`
	Diff     diffCommand     `cmd:"" help:"Show how two directories or prefixes differ."`
	Mb       mbCommand       `cmd:"" help:"Create a bucket."`
	Rb       rbCommand       `cmd:"" help:"Delete a bucket."`
	Presign  presignCommand  `cmd:"" help:"Print a URL with which anybody can read or write an object for a while."`
	Tag      tagCommand      `cmd:"" help:"List, set or remove the tags of an object."`
	Undelete undeleteCommand `cmd:"" help:"Restore deleted objects of a bucket with versioning."`
	Alias    aliasCommand    `cmd:"" help:"Manage the profiles whose names begin addresses: NAME://BUCKET/KEY."`

	CompleteAddress completeCommand `cmd:"" name:"complete-address" hidden:"" help:"Print the addresses that begin with a text, for shells."`
}

// Console is the environment of a command.
type Console struct {
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}
