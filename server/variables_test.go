package server

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documentedVariable matches table rows that begin with variables: | `ORCAS_A`, `ORCAS_B` | default | ... |
var documentedVariable = regexp.MustCompile("(?m)^\\| (`ORCAS_[^|]*) \\|(.*)\\|$")

// documented returns the other cells of the row of each variable in a document's tables, without backticks.
func documented(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	rows := map[string][]string{}
	for _, m := range documentedVariable.FindAllStringSubmatch(string(text), -1) {
		var cells []string
		for _, cell := range strings.Split(m[2], " | ") {
			cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, "`", "")))
		}
		for _, name := range strings.Split(strings.ReplaceAll(m[1], "`", ""), ", ") {
			require.NotContains(t, rows, name, "%s: two rows for one variable", path)
			rows[name] = cells
		}
	}
	return rows
}

// TestDocumentsHaveEveryVariable compares the tables of two documents with the table in the code: the same variables,
// with the same defaults, and the same values.
func TestDocumentsHaveEveryVariable(t *testing.T) {
	configuration, readme := documented(t, "../docs/configuration.md"), documented(t, "../README.md")
	for _, v := range Variables() {
		require.Len(t, configuration[v.Name], 3, "docs/configuration.md: %s", v.Name)
		require.Equal(t, []string{v.Default, v.Values}, configuration[v.Name][:2], "docs/configuration.md: %s", v.Name)
		require.Len(t, readme[v.Name], 2, "README.md: %s", v.Name)
		require.Equal(t, v.Default, readme[v.Name][0], "README.md: %s", v.Name)
		require.Regexp(t, `^[A-Z].*\.$`, v.Help, "%s: the help text must be a sentence", v.Name)
		delete(configuration, v.Name)
		delete(readme, v.Name)
	}
	require.Empty(t, configuration, "docs/configuration.md lists variables that do not exist")
	require.Empty(t, readme, "README.md lists variables that do not exist")
}

// TestDefaultsMatchTheTable sets each variable to the default in the table, which must not change the settings.
func TestDefaultsMatchTheTable(t *testing.T) {
	unset, err := ReadSettings(nil)
	require.NoError(t, err)
	for _, v := range Variables() {
		if v.Default == "none" || v.Default == "generated" || strings.Contains(v.Default, "terminal") {
			continue
		}
		set := unset
		require.NoError(t, v.set(&set, v.Default), v.Name)
		set.windowSet, set.lifecycleSet = unset.windowSet, unset.lifecycleSet
		require.Equal(t, unset, set, v.Name)
	}
}
