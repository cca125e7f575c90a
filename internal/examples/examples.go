// Package examples checks for tests that a package's exported names are shown in its examples.
package examples

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Missing parses the package in dir, and returns its exported names that appear in the body of no example, sorted:
// functions, types, variables, constants, and methods as TYPE.METHOD. A method counts as shown if an example selects
// its name, whatever the type is, because the types of expressions are not computed. It returns an error if an example
// has no output, because such an example is compiled only.
func Missing(dir string) ([]string, error) {
	var sources, tests []*ast.File
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, "_test.go") {
			tests = append(tests, f)
		} else {
			sources = append(sources, f)
		}
	}
	shown := map[string]bool{}
	for _, e := range doc.Examples(tests...) {
		if e.Output == "" && !e.EmptyOutput {
			return nil, fmt.Errorf("%s: Example%s has no output, so it does not run", dir, e.Name)
		}
		ast.Inspect(e.Code, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				shown[s.Sel.Name] = true
			}
			return true
		})
	}
	var missing []string
	for _, f := range sources {
		for _, d := range f.Decls {
			for _, name := range exported(d) {
				if !shown[name[strings.LastIndexByte(name, '.')+1:]] {
					missing = append(missing, name)
				}
			}
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing), nil // files for different systems declare the same names
}

// exported returns the exported names that d declares.
func exported(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			r := receiver(d.Recv.List[0].Type)
			if !ast.IsExported(r) {
				return nil
			}
			name = r + "." + name
		}
		if d.Name.IsExported() {
			names = append(names, name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of the type of a receiver.
func receiver(x ast.Expr) string {
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr: // a generic type
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
