//go:build !mutant

// Package mutant removes single guards from a build, to show that the tests detect their absence. In normal builds, Is
// is constant, so the compiler removes every trace of it. A mutant is built with
//
//	go build -tags mutant -ldflags "-X orcas/internal/mutant.active=NAME" ./cmd/orcas
//
// where NAME is an argument of a call of Is. Without -ldflags, the environment variable MUTANT has the name, so that one
// build serves for all mutants.
package mutant

// Is reports whether this build is the mutant with the given name.
func Is(string) bool { return false }

// Stop kills the process at the place that ORCAS_STOP names, in builds with the tag; in normal builds it does nothing.
func Stop(string) {}
