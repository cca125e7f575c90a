//go:build cgo && linux

package main

import (
	"fmt"
	"slices"

	"orcas/internal/bytesize"
	"orcas/perf"
)

// growthFlags are the flags of the scenario growth.
type growthFlags struct {
	Size  bytesize.Size `placeholder:"SIZE" help:"Put objects of this size, for example 4KiB (scenario growth only; default 256)."`
	Order string        `default:"" enum:",sequential,random,interleaved" help:"Put keys in this order: sequential, random, or interleaved, with an ascending sequence for each connection (scenario growth only; default sequential)."`
}

// objectMin and objectMax limit --size: each object ends in 8 bytes that make its content unique, and each of 64
// connections keeps one object in memory.
const (
	objectMin bytesize.Size = 8
	objectMax bytesize.Size = 64 << 20
)

// check checks the flags, with the scenarios and the number of keys that were requested.
func (f *growthFlags) check(scenarios []string, keys int) error {
	only := slices.Equal(scenarios, []string{"growth"})
	switch {
	case f.Size != 0 && !only:
		return fmt.Errorf("--size can only be used with --scenario growth, and no other scenario")
	case f.Order != "" && !only:
		return fmt.Errorf("--order can only be used with --scenario growth, and no other scenario")
	case f.Size != 0 && (f.Size < objectMin || f.Size > objectMax):
		return fmt.Errorf("--size: %v is out of range: expected %v to %v", f.Size, objectMin, objectMax)
	case only && keys > 0 && keys < perf.GrowthKeysMin:
		return fmt.Errorf("--keys: %d is too few for --scenario growth: expected at least %d", keys, perf.GrowthKeysMin)
	}
	return nil
}
