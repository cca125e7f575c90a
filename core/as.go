package core

import "orcas/internal/mutant"

// As finds an optional ability of a Meta, a Blocks, a BlockWriter or a BlockReader: it returns the first value that
// implements T in the chain of x and the drivers it wraps. A driver that wraps another one returns it from a method
//
//	Unwrap() Meta    // or Blocks, BlockWriter, BlockReader
//
// so that it hides no ability of the driver below it, including abilities that it does not know. A wrapper that must
// take part in an ability (a cache that has to invalidate its entries, or a wrapper that injects or counts failures)
// implements it itself, and As finds it first. If no driver below it has the ability, its methods return an error of
// kind Unsupported.
//
// Callers use As instead of a type assertion. Call it during setup, not for each request.
func As[T any](x any) (ability T, ok bool) {
	for {
		if ability, ok = x.(T); ok || mutant.Is("hidden-ability") {
			return ability, ok
		}
		switch wrapper := x.(type) {
		case interface{ Unwrap() Meta }:
			x = wrapper.Unwrap()
		case interface{ Unwrap() Blocks }:
			x = wrapper.Unwrap()
		case interface{ Unwrap() BlockWriter }:
			x = wrapper.Unwrap()
		case interface{ Unwrap() BlockReader }:
			x = wrapper.Unwrap()
		default:
			return ability, false
		}
	}
}
