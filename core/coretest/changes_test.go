package coretest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/mem"
)

// everyChange applies the changes of the table to a model, and calls fn with each row and its change before it applies
// the change.
func everyChange(t *testing.T, fn func(row coretest.ChangeCase, c core.Change)) {
	w, m := &coretest.Walk{}, mem.NewMeta()
	for _, row := range coretest.EveryChange() {
		c := row.Change(w)
		w.Stamp(c)
		fn(row, c)
		results, err := m.Apply(t.Context(), []core.Change{c})
		require.NoError(t, err)
		require.NoError(t, results[0].Err, "%T", c)
		w.Done(c, results[0])
	}
}

func nameOf(c core.Change) string { return reflect.TypeOf(c).Elem().Name() }

// declaredChanges returns the names of the types of package core that embed Stamped.
func declaredChanges(t *testing.T) (names []string) {
	files, err := filepath.Glob("../*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && id.Name == "Stamped" {
						names = append(names, spec.Name.Name)
					}
				}
			}
			return true
		})
	}
	slices.Sort(names)
	return names
}

// TestEveryChangeHasItsRows fails if a change is added to core but not to the tables of this package, which are used by
// the tests of the encoding, the engines, the cache and the recovery.
func TestEveryChangeHasItsRows(t *testing.T) {
	declared := declaredChanges(t)
	require.Contains(t, declared, "MoveObject")
	walked, kinds := map[string]bool{}, map[core.ChangeKind]string{}
	everyChange(t, func(row coretest.ChangeCase, c core.Change) {
		name := nameOf(c)
		walked[name] = true
		other, ok := kinds[c.Kind()]
		require.True(t, !ok || other == name, "%s and %s have the same number", name, other)
		kinds[c.Kind()] = name
		brings := contains(reflect.ValueOf(c), reflect.TypeFor[core.DataInfo]()) || name == "MoveData"
		require.Equal(t, brings, row.Brings != nil, "%s: Brings", name)
	})
	for _, name := range declared {
		require.True(t, walked[name], "EveryChange has no row for %s", name)
	}
	require.Len(t, walked, len(declared))
	drawn := coretest.RandomKinds()
	require.Len(t, drawn, len(declared), "RandomChange must draw every kind")
	for kind, name := range kinds {
		require.Contains(t, drawn, kind, "RandomChange does not draw %s", name)
	}
}

// contains reports whether v contains a value of a type, directly or through pointers, slices and structs.
func contains(v reflect.Value, want reflect.Type) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && contains(v.Elem(), want)
	case reflect.Slice:
		for i := range v.Len() {
			if contains(v.Index(i), want) {
				return true
			}
		}
	case reflect.Struct:
		if v.Type() == want {
			return true
		}
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[time.Time]() && contains(v.Field(i), want) {
				return true
			}
		}
	}
	return false
}

func requireBound(t require.TestingT, c core.Change) {
	encoded := encoding.AppendChanges(nil, []core.Change{c})
	require.GreaterOrEqual(t, encoding.SizeBound(c), int64(len(encoded)), "the bound of %T is lower than its size", c)
}

// TestSizeBound checks that a change is never larger than its bound.
func TestSizeBound(t *testing.T) {
	everyChange(t, func(_ coretest.ChangeCase, c core.Change) {
		requireBound(t, c)
		for _, equal := range []bool{false, true} {
			full := reflect.New(reflect.TypeOf(c).Elem())
			fill(full.Elem(), equal)
			requireBound(t, full.Interface().(core.Change))
		}
	})
	rapid.Check(t, func(t *rapid.T) { requireBound(t, coretest.RandomChange(t)) })
}

// fill makes a value large: long texts, several elements in each list, high numbers. A Source refers to equal content
// if equal is set, and otherwise to a version.
func fill(v reflect.Value, equal bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*core.ContentKey]() && !equal {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), equal)
	case reflect.String:
		v.SetString(strings.Repeat("x", 1000))
	case reflect.Slice:
		n := 20
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = 1000
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(v.Index(i), equal)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), equal)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), equal)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 << 62)
	case reflect.Uint8:
		v.SetUint(255)
	case reflect.Uint32:
		v.SetUint(1<<32 - 1)
	case reflect.Uint64:
		v.SetUint(1<<64 - 1)
	}
}
