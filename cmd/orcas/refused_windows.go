package main

import "golang.org/x/sys/windows"

// errRefused is the error of a connection to a port on which no program listens. It differs from syscall.ECONNREFUSED,
// which Windows never returns.
const errRefused = windows.WSAECONNREFUSED
