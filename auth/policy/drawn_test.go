package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawnMutants is the number of mutants that TestDrawnMutants draws.
const drawnMutants = 60

// edit is a change of a source file: it replaces the bytes from at to end with text.
type edit struct {
	file    string
	at, end int
	text    string
	line    int
}

// swapped are the operators and keywords that a drawn mutant exchanges.
var swapped = map[gotoken.Token]gotoken.Token{
	gotoken.EQL: gotoken.NEQ, gotoken.NEQ: gotoken.EQL, gotoken.LSS: gotoken.LEQ, gotoken.LEQ: gotoken.LSS, gotoken.GTR: gotoken.GEQ, gotoken.GEQ: gotoken.GTR,
	gotoken.LAND: gotoken.LOR, gotoken.LOR: gotoken.LAND, gotoken.ADD: gotoken.SUB, gotoken.SUB: gotoken.ADD,
	gotoken.BREAK: gotoken.CONTINUE, gotoken.CONTINUE: gotoken.BREAK,
}

// editsOf returns every change of a file that a mutant can make: it exchanges an operator, inverts a condition or a
// boolean, changes a number by one, removes a statement, a case or an operand, or skips the body of an if or a loop.
func editsOf(name string, source []byte) (list []edit, err error) {
	files := gotoken.NewFileSet()
	file, err := parser.ParseFile(files, name, source, 0)
	if err != nil {
		return nil, err
	}
	offset := func(p gotoken.Pos) int { return files.Position(p).Offset }
	add := func(from, to gotoken.Pos, text string) {
		list = append(list, edit{name, offset(from), offset(to), text, files.Position(from).Line})
	}
	textOf := func(n ast.Node) string { return string(source[offset(n.Pos()):offset(n.End())]) }
	remove := func(s ast.Stmt) {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt:
			add(s.Pos(), s.End(), "")
		case *ast.AssignStmt:
			if s.Tok != gotoken.DEFINE {
				add(s.Pos(), s.End(), "")
			}
		case *ast.IfStmt:
			if s.Else == nil && s.Init == nil {
				add(s.Pos(), s.End(), "")
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if with, ok := swapped[n.Op]; ok {
				add(n.OpPos, n.OpPos+gotoken.Pos(len(n.Op.String())), with.String())
			}
			if n.Op == gotoken.LAND || n.Op == gotoken.LOR {
				add(n.Pos(), n.End(), textOf(n.X))
				add(n.Pos(), n.End(), textOf(n.Y))
			}
		case *ast.BranchStmt:
			if with, ok := swapped[n.Tok]; ok && n.Label == nil {
				add(n.Pos(), n.End(), with.String())
			}
		case *ast.IfStmt:
			add(n.Cond.Pos(), n.Cond.End(), "!("+textOf(n.Cond)+")")
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				add(n.Pos(), n.End(), strconv.FormatBool(n.Name == "false"))
			}
		case *ast.UnaryExpr:
			if n.Op == gotoken.NOT {
				add(n.Pos(), n.X.Pos(), "")
			}
		case *ast.BasicLit:
			if i, err := strconv.Atoi(n.Value); n.Kind == gotoken.INT && err == nil {
				add(n.Pos(), n.End(), strconv.Itoa(i+1))
			}
		case *ast.BlockStmt:
			for _, s := range n.List {
				remove(s)
			}
		case *ast.CaseClause:
			for _, s := range n.Body {
				remove(s)
			}
			if n.List != nil && len(n.Body) > 0 {
				add(n.Body[0].Pos(), n.Body[len(n.Body)-1].End(), "")
			}
		}
		return true
	})
	return list, nil
}

// TestDrawnMutants changes the source of the package at places that are drawn at random, and checks that a test fails
// for each. It runs only as part of make policy-mutants, with a seed that is printed; ORCAS_POLICY_MUTANTS_SEED repeats a
// run. A change that does not build is drawn again. One without any effect is in equivalent.
func TestDrawnMutants(t *testing.T) {
	if os.Getenv("ORCAS_POLICY_MUTANTS") == "" {
		t.Skip("ORCAS_POLICY_MUTANTS is not set")
	}
	seed := rand.Uint64()
	if s := os.Getenv("ORCAS_POLICY_MUTANTS_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("ORCAS_POLICY_MUTANTS_SEED=%d", seed)
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	sort.Strings(names)
	sources, all := map[string][]byte{}, []edit(nil)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		sources[name], err = os.ReadFile(name)
		require.NoError(t, err)
		edits, err := editsOf(name, sources[name])
		require.NoError(t, err)
		all = append(all, edits...)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	caught := 0
	for _, e := range all {
		if caught == drawnMutants {
			break
		}
		was := string(sources[e.file][e.at:e.end])
		what := fmt.Sprintf("%s:%d: %q becomes %q", e.file, e.line, was, e.text)
		overlay, err := overlayOf(t.TempDir(), e.file, string(sources[e.file][:e.at])+e.text+string(sources[e.file][e.end:]))
		require.NoError(t, err)
		out, err := testWith(t, overlay)
		switch {
		case err == nil && equivalent[e.file+" "+was+" "+e.text] == "":
			t.Errorf("the mutant survived: %s", what)
			caught++
		case err != nil && !failedTest(out): // it does not build
		default:
			caught++
		}
	}
	t.Logf("%d of %d possible mutants", caught, len(all))
}

// equivalent are the changes without an effect, with the reason, by file, old text and new text.
var equivalent = map[string]string{
	"decide.go if result == no {\n\t\t\treturn no\n\t\t} ": "the minimum of no and anything else is no; the return saves the work",
}

// testWith runs the tests of the package that always do the same with an overlay, and returns their output.
func testWith(t *testing.T, overlay string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-failfast", "-timeout", "1m", "-vet=off", "-ldflags=-s -w",
		"-skip", randomTests, "-overlay", overlay, ".")
	cmd.Env = append(os.Environ(), "ORCAS_POLICY_MUTANTS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// failedTest reports whether a test failed, and not the build.
func failedTest(out string) bool {
	return strings.Contains(out, "--- FAIL: Test") || strings.Contains(out, "panic: ") || strings.Contains(out, "FAIL: Example")
}
