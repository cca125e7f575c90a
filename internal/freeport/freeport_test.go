package freeport

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	const n = 50
	addresses, err := Addresses(n)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, address := range addresses {
		require.False(t, seen[address], "%s was returned twice", address)
		seen[address] = true
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.Less(t, number, ephemeral(), "outgoing connections may use the port")
		l, err := net.Listen("tcp", address)
		require.NoError(t, err, "the port must be free")
		require.NoError(t, l.Close())
	}
	_, err = Addresses(highest)
	require.ErrorContains(t, err, "free ports")
}
