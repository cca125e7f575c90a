//go:build !cgo || !(linux || darwin)

package main

import "strings"

type serverHalf = absentServer

// storeText describes this build.
func storeText() string { return "client commands only, " }

// textOf returns an error as one line of text for people.
func textOf(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// variablesText returns nothing: only a server has settings.
func variablesText() string { return "" }

// manVariables writes nothing.
func manVariables(*strings.Builder) {}
