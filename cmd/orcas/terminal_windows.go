package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// understandsEscapes makes a console understand the escape sequences of terminals, and reports whether it does: older
// consoles of Windows do so only on request, or not at all.
func understandsEscapes(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return mode&windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING != 0 ||
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
