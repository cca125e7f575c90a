package examples

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a_linux.go", "package a\nfunc System() {}\n")
	write("a_windows.go", "package a\nfunc System() {}\n")
	write("a.go", `package a
type T struct{}
func (*T) Method() {}
func (T) hidden() {}
type G[K any] struct{}
func (*G[K]) Generic() {}
type t struct{}
func (t) Method2() {}
func Func() {}
const C, c = 1, 2
var ErrA, ErrB error
`)
	write("a_test.go", `package a_test
import "a"
func ExampleFunc() {
	a.Func()
	_ = a.ErrB
	// Output:
}
func ExampleT() {
	// Func and T.Method in a comment, or in "a.C", do not count.

	// Output:
}
func helper() { a.System() }
`)
	missing, err := Missing(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"C", "ErrA", "G", "G.Generic", "System", "T", "T.Method"}, missing)

	write("b_test.go", "package a_test\nfunc ExampleT_Method() {}\n")
	_, err = Missing(dir)
	require.ErrorContains(t, err, "ExampleT_Method has no output")
	write("b_test.go", "package")
	_, err = Missing(dir)
	require.Error(t, err)
}
