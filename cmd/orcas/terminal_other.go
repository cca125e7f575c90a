//go:build !windows

package main

import "os"

// understandsEscapes returns true: every terminal understands the escape sequences that orcas prints.
func understandsEscapes(*os.File) bool { return true }
