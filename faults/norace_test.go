//go:build !race

package faults

// raceEnabled reports whether the tests were built with the race detector. If so, the server is built with it too.
const raceEnabled = false
