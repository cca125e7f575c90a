//go:build !mutant

// Package mutant takes single guards out of a build, so that the fault bench can show that it notices. In the product
// Is is constant: the compiler removes every trace. A mutant is built with
//
//	go build -tags mutant -ldflags "-X orcas/internal/mutant.active=NAME" ./cmd/orcas
//
// where NAME is one of the names that the calls of Is give.
package mutant

// Is says whether this build is the mutant of that name.
func Is(string) bool { return false }

// Stop ends a build with the tag at a place, as a kill does, where the environment asks for it; in the product it does nothing.
func Stop(string) {}
