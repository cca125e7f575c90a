package client

import "golang.org/x/sys/windows"

// ErrRefused is the error of a connection to a port on which no program listens. It differs from syscall.ECONNREFUSED,
// which Windows never returns.
const ErrRefused = windows.WSAECONNREFUSED
