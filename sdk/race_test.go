//go:build race

package sdk_test

// poolsDrop is the number of allocations that the race detector adds, because it makes every fourth Put to a sync.Pool do
// nothing.
const poolsDrop = 20.0
