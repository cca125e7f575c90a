//go:build !race

package sdk_test

// poolsDrop is the number of allocations that the race detector adds.
const poolsDrop = 0.0
