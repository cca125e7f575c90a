//go:build !linux

package sqlite

func trimHeap() {}
