package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentMax is the number of bytes of a connection that wait in the kernel until the client has space for them. Beyond
// it, a write waits.
//
// Without a bound, a client that reads slowly, or not at all, takes about 4 MiB of the memory that the kernel has for
// TCP (the default of net.ipv4.tcp_wmem), so a few hundred of them take all of it (net.ipv4.tcp_mem, by default less
// than a tenth of the machine's memory). As long as that lasts, the kernel resets each connection that is closed
// before the client has received everything. Responses to other clients then break off, even though the server has
// written them completely: their connections are closed if the client does not reuse them.
//
// Bytes in flight do not count, so the bound does not slow down clients far away. GETs of 1 and 8 MiB, by 1 and by 4
// clients on the same machine, cost the server as much CPU time per byte as without a bound (medians of 4 turns); with
// 128 KiB, those of a single client cost a quarter more.
const unsentMax = 256 << 10

// boundUnsent bounds the bytes of a connection that wait in the kernel. The bound cannot be set once for the listening
// socket, because package net listens with MPTCP, whose connections do not inherit it.
func boundUnsent(c net.Conn, bytes int) {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return
	}
	_ = control.Control(func(fd uintptr) { // it fails only if the connection is closed
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
}
