//go:build race

package faults

// raceEnabled says that the tests have the race detector, so that the server gets it too.
const raceEnabled = true
