package server

import "golang.org/x/sys/unix"

// unsentBytes returns the number of bytes of a connection that the client has not acknowledged.
func unsentBytes(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.SIOCOUTQ) }
