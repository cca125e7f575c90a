//go:build mutant

package mutant

// active is set by the linker.
var active string

// Is says whether this build is the mutant of that name.
func Is(name string) bool { return name == active }
