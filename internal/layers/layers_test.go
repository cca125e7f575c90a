// Package layers holds the test that keeps the floors of ORCAS apart. It has no code of its own.
//
// A package imports lower floors only; floor 0 may also import internal packages. Only commands and tests import drivers,
// and a driver never imports another one. Nothing below package s3 knows HTTP, XML or the types of AWS, but for the two
// clients of HTTP that the table names. A package without a floor is an error: whoever adds one says here where it stands.
package layers

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "orcas"

// floors says on which floor each package stands. A name that ends with "/..." covers what is beneath it.
var floors = map[string]int{
	"cmd/...":       7,
	"perf":          6,
	"perf/result":   0,
	"perf/report":   1,
	"faults":        6,
	"faults/...":    7, // single tools of the bench, over what they share
	"faults/result": 0,
	"s3":            5,
	"s3/s3test":     5,
	"vfs":           4,
	"lifecycle":     4,
	"batch":         3,
	"core/reclaim":  3,
	"core/backup":   4,

	"core/sqlite":   2,
	"core/cached":   2,
	"core/disk":     2,
	"core/mem":      2,
	"core/coretest": 2,
	"core/snapshot": 2,

	"core": 1,
	"sdk":  1,

	"core/frame":   0,
	"core/codec":   0,
	"s3/sigv4":     0,
	"internal/...": 0,
}

// drivers implement the contracts of core. Which of them runs is for commands and tests to say.
var drivers = []string{"core/sqlite", "core/cached", "core/disk", "core/mem"}

// testPackages are part of tests, wherever their files are, and only tests import them.
var testPackages = []string{"core/coretest", "s3/s3test"}

// httpFloor is the lowest floor that speaks HTTP; speakHTTP are the packages below it that do, since they are its clients or
// its grammar.
const httpFloor = 5

var speakHTTP = []string{"sdk", "s3/sigv4"}

// wholeServer may be booted, and loaded by what loads servers, by the tests of everything that speaks HTTP.
var wholeServer = []string{"cmd/orcas/server", "perf"}

// serverSide are the roots that the SDK must not pull into a client's program.
var serverSide = []string{"core", "batch", "vfs", "s3", "cmd", "perf"}

// file is one Go file's imports. Pkg and imports of this module are relative to its root.
type file struct {
	pkg     string
	test    bool
	imports []string
}

func TestImportsPointDown(t *testing.T) {
	files, err := parseModule(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, problem := range check(files) {
		t.Error(problem)
	}
}

// TestCheckNotices holds the check itself against one breach of each rule.
func TestCheckNotices(t *testing.T) {
	cases := map[string]struct {
		file file
		want string // in the problem; "": none
	}{
		"down":                  {file{"vfs", false, []string{"orcas/core", "io"}}, ""},
		"up":                    {file{"core", false, []string{"orcas/batch"}}, "upwards"},
		"sideways":              {file{"batch", false, []string{"orcas/core/reclaim"}}, "upwards"},
		"up from a test":        {file{"core", true, []string{"orcas/vfs"}}, "upwards"},
		"sideways from a test":  {file{"batch", true, []string{"orcas/core/reclaim"}}, ""},
		"internal from floor 0": {file{"core/frame", false, []string{"orcas/internal/mutant"}}, ""},
		"frame from internal":   {file{"internal/x", false, []string{"orcas/core/frame"}}, "upwards"},
		"driver to driver":      {file{"core/cached", false, []string{"orcas/core/sqlite"}}, "driver"},
		"driver above":          {file{"vfs", false, []string{"orcas/core/disk"}}, "driver"},
		"driver above, test":    {file{"vfs", true, []string{"orcas/core/disk"}}, ""},
		"server in a test":      {file{"perf", true, []string{"orcas/cmd/orcas/server"}}, ""},
		"load in a test":        {file{"s3", true, []string{"orcas/perf"}}, ""},
		"load above":            {file{"s3", false, []string{"orcas/perf"}}, "upwards"},
		"server above":          {file{"perf", false, []string{"orcas/cmd/orcas/server"}}, "upwards"},
		"driver in a suite":     {file{"core/coretest", false, []string{"orcas/core/mem"}}, ""},
		"suite in a driver":     {file{"core/mem", false, []string{"orcas/core/coretest"}}, "only tests"},
		"suite in its test":     {file{"core/mem", true, []string{"orcas/core/coretest"}}, ""},
		"driver from cmd":       {file{"cmd/orcas", false, []string{"orcas/core/disk"}}, ""},
		"no floor":              {file{"util", false, nil}, "no floor"},
		"import of no floor":    {file{"vfs", false, []string{"orcas/util"}}, "no floor"},
		"HTTP below":            {file{"vfs", false, []string{"net/http"}}, "HTTP"},
		"XML below":             {file{"core/sqlite", false, []string{"encoding/xml"}}, "HTTP"},
		"AWS below":             {file{"batch", false, []string{"github.com/aws/aws-sdk-go-v2/aws"}}, "HTTP"},
		"HTTP in s3":            {file{"s3", false, []string{"net/http"}}, ""},
		"HTTP in sigv4":         {file{"s3/sigv4", false, []string{"net/http"}}, ""},
		"server in sdk":         {file{"sdk", false, []string{"orcas/core/frame"}}, "SDK"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			problems := check([]file{c.file})
			if c.want == "" {
				require.Empty(t, problems)
				return
			}
			require.NotEmpty(t, problems)
			require.Contains(t, strings.Join(problems, "\n"), c.want)
		})
	}
}

// check returns every breach of the rules in files, in order and once.
func check(files []file) []string {
	problems := map[string]bool{}
	for _, f := range files {
		f.test = f.test || slices.Contains(testPackages, f.pkg)
		from, ok := floorOf(f.pkg)
		if !ok {
			problems[fmt.Sprintf("%s has no floor: add it to the table", f.pkg)] = true
			continue
		}
		for _, imp := range f.imports {
			if p := checkImport(f, from, imp); p != "" {
				problems[p] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(problems))
}

func checkImport(f file, from int, imp string) string {
	target, ours := strings.CutPrefix(imp, module+"/")
	if !ours {
		if from < httpFloor && !f.test && !slices.Contains(speakHTTP, f.pkg) && isHTTP(imp) {
			return fmt.Sprintf("%s imports %s: nothing below floor %d knows HTTP, XML or AWS types", f.pkg, imp, httpFloor)
		}
		return ""
	}
	to, ok := floorOf(target)
	isDriver := slices.Contains(drivers, target)
	switch {
	case target == f.pkg: // an external test of the package itself
		return ""
	case slices.Contains(wholeServer, target) && f.test && from >= httpFloor: // a test that boots one
		return ""
	case !ok:
		return fmt.Sprintf("%s imports %s, which has no floor: add it to the table", f.pkg, target)
	case slices.Contains(testPackages, target) && !f.test:
		return fmt.Sprintf("%s imports %s: only tests do", f.pkg, target)
	case f.pkg == "sdk" && slices.Contains(serverSide, root(target)):
		return fmt.Sprintf("%s imports %s: the SDK imports no package of the server", f.pkg, target)
	case isDriver && !f.test && root(f.pkg) != "cmd":
		return fmt.Sprintf("%s imports the driver %s: only commands and tests do", f.pkg, target)
	case to > from, to == from && !f.test && !mayImportBeside(f.pkg, target):
		return fmt.Sprintf("%s (floor %d) imports upwards: %s (floor %d)", f.pkg, from, target, to)
	case to == from && root(f.pkg) == "internal" && root(target) != "internal":
		return fmt.Sprintf("%s (floor %d) imports upwards: %s (floor %d)", f.pkg, from, target, to)
	}
	return ""
}

// mayImportBeside says which imports within one floor are in order: those of the ground, which internal packages are, and that of frames by
// what is put into them.
func mayImportBeside(pkg, target string) bool {
	return root(target) == "internal" || pkg == "core/codec" && target == "core/frame" || (root(pkg) == "cmd" && root(target) == "cmd")
}

func isHTTP(imp string) bool {
	return imp == "net/http" || strings.HasPrefix(imp, "net/http/") || imp == "encoding/xml" ||
		strings.HasPrefix(imp, "github.com/aws/")
}

func root(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

func floorOf(pkg string) (int, bool) {
	if n, ok := floors[pkg]; ok {
		return n, true
	}
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if n, ok := floors[dir+"/..."]; ok {
			return n, true
		}
	}
	return 0, false
}

// parseModule reads the imports of every Go file below dir, whatever its build tags say.
func parseModule(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != dir && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(name))
		if err != nil {
			return err
		}
		f := file{pkg: filepath.ToSlash(rel), test: strings.HasSuffix(base, "_test.go")}
		for _, spec := range parsed.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imp)
		}
		files = append(files, f)
		return nil
	})
	return files, err
}
