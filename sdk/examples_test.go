package sdk_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExamples: every exported function, type and method of the package is used in an example that runs as a test.
func TestExamples(t *testing.T) {
	files := token.NewFileSet()
	//lint:ignore SA1019 the names in the files matter, not what they import
	packages, err := parser.ParseDir(files, ".", func(fs.FileInfo) bool { return true }, parser.ParseComments)
	require.NoError(t, err)
	used := map[string]bool{}
	var tests []*ast.File
	for _, f := range packages["sdk_test"].Files {
		tests = append(tests, f)
	}
	examples := doc.Examples(tests...)
	for _, e := range examples {
		require.True(t, e.Output != "" || e.EmptyOutput, "Example%s has no output, so it does not run", e.Name)
		for _, word := range strings.Split(e.Name, "_") {
			used[word] = true
		}
		ast.Inspect(e.Code, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				used[s.Sel.Name] = true
			}
			return true
		})
	}
	require.Greater(t, len(examples), 50)
	var missing []string
	for name, f := range packages["sdk"].Files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) && !used[d.Name.Name] {
					missing = append(missing, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() && !used[s.Name.Name] {
						missing = append(missing, s.Name.Name)
					}
				}
			}
		}
	}
	slices.Sort(missing)
	require.Empty(t, missing, "names without an example")
}

// receiver returns the name of the type of a method.
func receiver(f *ast.FuncDecl) string {
	switch x := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return x.X.(*ast.Ident).Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}
