//go:build !race && !poison

package batch

const poison = false
