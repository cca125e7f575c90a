//go:build !windows

package main

import "syscall"

// errRefused is the error of a connection to a port on which no program listens.
const errRefused = syscall.ECONNREFUSED
