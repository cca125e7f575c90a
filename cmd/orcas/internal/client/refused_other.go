//go:build !windows

package client

import "syscall"

// ErrRefused is the error of a connection to a port on which no program listens.
const ErrRefused = syscall.ECONNREFUSED
