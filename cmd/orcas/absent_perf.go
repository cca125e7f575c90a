//go:build !cgo || !linux

package main

type perfHalf = absentPerf
