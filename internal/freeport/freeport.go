// Package freeport finds addresses for servers that tools start.
//
// A port that the kernel chooses (port 0) and that is released again is a trap: it is in the range from which outgoing
// connections get their ports. Before the server listens on it, such a connection may take it. Worse, a client that
// polls the port until the server is ready may connect to itself: once in about 28,000 attempts the kernel gives the
// connection the port that it connects to, and both ends meet (TCP simultaneous open, RFC 9293, section 3.5). Then the
// server cannot listen. So this package chooses ports below that range.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

const (
	lowest   = 10_000 // below it are the default ports of many programs, ORCAS among them
	highest  = 32_767 // the default range of outgoing connections on Linux begins above it
	attempts = 1000
)

// Addresses returns n different loopback addresses, each with a port on which nothing is listening.
func Addresses(n int) ([]string, error) {
	below := ephemeral()
	var addresses []string
	for range attempts {
		if len(addresses) == n {
			return addresses, nil
		}
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", lowest+rand.IntN(below-lowest)))
		if err != nil {
			continue // in use
		}
		defer l.Close() // not earlier, so that all addresses differ
		addresses = append(addresses, l.Addr().String())
	}
	return nil, fmt.Errorf("found %d free ports from %d to %d; expected %d", len(addresses), lowest, below-1, n)
}

// Address returns one such address.
func Address() (string, error) {
	addresses, err := Addresses(1)
	if err != nil {
		return "", err
	}
	return addresses[0], nil
}

// ephemeral returns the first port that outgoing connections may use, or the default of Linux if that is unknown or
// leaves too few ports.
func ephemeral() int {
	first, err := firstEphemeral()
	if err != nil || first < lowest+1000 {
		return highest + 1
	}
	return min(first, highest+1)
}

func firstEphemeral() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0, errors.New("ip_local_port_range must have two numbers")
	}
	return strconv.Atoi(fields[0])
}
