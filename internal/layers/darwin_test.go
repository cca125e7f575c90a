package layers

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath        string
	Dir               string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
	Module            *struct{ Main bool }
	Error             *struct{ Err string }
}

// foreign type-checks programs for another system, with cgo but without a C compiler: whatever a file says about C is
// accepted, and everything else must be correct.
type foreign struct {
	files   *token.FileSet
	sizes   types.Sizes
	checked map[string]*types.Package
	bodies  int // packages of this module that were checked with the bodies of their functions
}

// importing resolves the imports of one package.
type importing struct {
	*foreign
	names map[string]string
}

func (i importing) Import(path string) (*types.Package, error) {
	if to, found := i.names[path]; found {
		path = to
	}
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, errors.New("not checked before: " + path)
}

// check type-checks a package, whose imports have been checked. extra is the source of one more file, or "".
func (f *foreign) check(p *listed, extra string) error {
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		file, err := parser.ParseFile(f.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	if extra != "" {
		file, err := parser.ParseFile(f.files, "extra.go", extra, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	var problems []error
	ours := p.Module != nil && p.Module.Main
	config := types.Config{
		FakeImportC: true, Sizes: f.sizes, Importer: importing{f, p.ImportMap}, IgnoreFuncBodies: !ours,
		Error: func(err error) { problems = append(problems, err) },
	}
	f.checked[p.ImportPath], _ = config.Check(p.ImportPath, f.files, files, nil) // config.Error has the errors
	if ours {
		f.bodies++
	}
	return errors.Join(problems...)
}

// checkFor type-checks orcas for a system and an architecture with everything that it imports.
func checkFor(t *testing.T, system, arch string) *foreign {
	f := &foreign{files: token.NewFileSet(), sizes: types.SizesFor("gc", arch), checked: map[string]*types.Package{}}
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles,ImportMap,Module,Error", "orcas/cmd/orcas")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS="+system, "GOARCH="+arch)
	out, err := cmd.Output()
	require.NoError(t, err)
	packages := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			return f
		} else {
			require.NoError(t, err)
		}
		require.Nil(t, p.Error, p.ImportPath)
		if p.ImportPath != "unsafe" {
			require.NoError(t, f.check(&p, ""), "%s for %s/%s", p.ImportPath, system, arch)
		}
	}
}

// TestServerFitsMacOS type-checks the server for macOS, for which no C compiler is needed.
func TestServerFitsMacOS(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		f := checkFor(t, "darwin", arch)
		for _, name := range []string{"orcas/server", "orcas/core/sqlite", "orcas/core/disk", "orcas/internal/durable", "github.com/mattn/go-sqlite3"} {
			require.NotNil(t, f.checked[name], name)
		}
		require.Nil(t, f.checked["orcas/perf"], "orcas perf needs Linux")
		require.Greater(t, f.bodies, 50)
		call := func(text string) error {
			p := &listed{ImportPath: "call", Module: &struct{ Main bool }{true}}
			return f.check(p, "package call\nimport \"golang.org/x/sys/unix\"\nfunc f() { "+text+" }")
		}
		require.NoError(t, call("_, _ = unix.FcntlInt(0, unix.F_FULLFSYNC, 0)"))
		require.ErrorContains(t, call("_ = unix.Fdatasync(0)"), "undefined: unix.Fdatasync", "a call of Linux must be found")
	}
}
