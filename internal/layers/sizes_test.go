package layers

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A type with more methods or fields than these does too many things: split it. An embedded type counts as one field,
// and its methods are not counted.
const (
	maxMethods = 60
	maxFields  = 25
)

// TestTypesAreSmall: no type of the module has too many methods or fields. There are no exceptions.
func TestTypesAreSmall(t *testing.T) {
	sizes, err := measure(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.NotEmpty(t, sizes)
	for name, s := range sizes {
		if s.methods > maxMethods || s.fields > maxFields {
			t.Errorf("%s has %d methods and %d fields: at most %d and %d are allowed", name, s.methods, s.fields, maxMethods, maxFields)
		}
	}
}

// TestMeasure tests the count itself.
func TestMeasure(t *testing.T) {
	sizes := map[string]size{}
	source := `package p
type A struct { a, b int; C; d struct { e, f int } }
func (a A) M() {}
func (*A) N() {}
type G[T any] struct { t T }
func (g *G[T]) M() {}
func f() {}`
	parsed, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	require.NoError(t, err)
	count(sizes, "p", parsed)
	require.Equal(t, map[string]size{"p.A": {2, 4}, "p.G": {1, 1}}, sizes)
}

// size is the number of methods and fields of a type.
type size struct{ methods, fields int }

// measure returns the sizes of the types of a module by package and name. Types and methods declared in tests are
// counted separately.
func measure(dir string) (map[string]size, error) {
	sizes := map[string]size{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && name != dir && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(base, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(name))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		if strings.HasSuffix(base, "_test.go") {
			pkg = fmt.Sprintf("%s (tests of %s)", pkg, parsed.Name.Name)
		}
		count(sizes, pkg, parsed)
		return nil
	})
	return sizes, err
}

// count adds the types and methods of a file to sizes.
func count(sizes map[string]size, pkg string, file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				name := pkg + "." + receiver(d.Recv.List[0].Type)
				s := sizes[name]
				s.methods++
				sizes[name] = s
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if st, ok := typ.Type.(*ast.StructType); ok {
					name := pkg + "." + typ.Name.Name
					s := sizes[name]
					for _, f := range st.Fields.List {
						s.fields += cmp.Or(len(f.Names), 1)
					}
					sizes[name] = s
				}
			}
		}
	}
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return fmt.Sprintf("%T", e)
		}
	}
}
