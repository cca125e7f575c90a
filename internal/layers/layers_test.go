// Package layers holds the test that keeps the layers of ORCAS apart. It has no code of its own.
//
// A package imports lower layers only; layer 0 may also import internal packages. Only commands, package server and
// tests import drivers, and a driver never imports another one. Nothing below package s3 knows HTTP, XML or the types
// of AWS, except the packages in speakHTTP. A package without a layer is an error: add new packages to the table.
package layers

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "orcas"

// layers is the layer of each package. A name that ends with "/..." covers the packages below it.
var layers = map[string]int{
	"cmd/...":          9,
	"server":           8,
	"perf":             8,
	"perf/result":      0,
	"perf/report":      1,
	"perf/report/draw": 2,
	"faults":           8,
	"faults/...":       9, // the tools of the bench, above the code that they share
	"faults/result":    0,
	"declared":         7,
	"s3":               6,
	"admin":            6,
	"s3/s3test":        6,
	"iam":              6,
	"console":          6, // the page on the admin listener
	"audit":            6,
	"watch":            5,
	"metrics":          6,
	"vfs":              5,
	"lifecycle":        5,
	"backup":           5,
	"reclaim":          5,
	"scrub":            5,
	"survey":           5,
	"storetest":        5,
	"content":          4, // stored content, without the names that vfs gives it
	"auth/identity":    4, // who may do what is stored with batch
	"batch":            3,
	"fsck":             3,

	"core/observed": 2, // a wrapper is on the layer of the drivers that it wraps
	"core/sqlite":   2,
	"core/cached":   2,
	"core/disk":     2,
	"core/mem":      2,
	"core/coretest": 2,
	"core/ids":      2, // the form of IDs for the protocol, and for reports of fsck
	"core/snapshot": 2,
	"core/verify":   2,

	"feed":  2, // passes on the changes that the write buffer commits, and cannot make any
	"lease": 2, // used by the workers above, implemented by metadata engines that several servers share

	"core":            1,
	"core/codec":      1, // for the compression setting of buckets
	"core/dictionary": 1,
	"core/encoding":   1,
	"sdk":             1,

	"sdk/tree":    2, // trees of files, on both sides
	"sdk/profile": 2, // the servers and keys that a user has configured

	"s3/cors":         6,
	"s3/lifecycledoc": 6,
	"gate":            2, // uses auth and internal/sigv4; knows nothing about buckets and the store
	"gate/limit":      2, // counts requests and bytes of principals
	"gate/session":    3, // the sessions of browsers
	"s3/bucketaccess": 2,
	"s3/conditions":   2,
	"s3/tagging":      2,
	"s3/postform":     1,
	"s3/sigv2":        1, // returns the types of internal/sigv4
	"s3/xmldoc":       1,
	"auth/access":     1, // joins callers and buckets with their policies

	"core/frame":   0,
	"auth":         0, // decides who may do what; imports nothing of this project
	"auth/policy":  0, // decides about the nouns of auth
	"s3/apierr":    0,
	"s3/heads":     0,
	"internal/...": 0,

	"internal/loadgen": 1, // signs with internal/sigv4
}

// drivers implement the contracts of core. Commands, package server and tests choose which of them runs.
var drivers = []string{"core/sqlite", "core/cached", "core/observed", "core/disk", "core/mem"}

// testPackages are part of tests, wherever their files are, and only tests import them.
var testPackages = []string{"core/coretest", "s3/s3test", "storetest", "internal/examples"}

// httpLayer is the lowest layer that may use HTTP. speakHTTP are the packages below it that may use HTTP too: clients,
// and parts of the protocol that the HTTP APIs share.
const httpLayer = 6

var speakHTTP = []string{"gate", "gate/session", "sdk", "sdk/tree", "sdk/profile", "s3/sigv2", "internal/sigv4", "s3/heads", "s3/xmldoc", "s3/conditions", "s3/tagging", "internal/loadgen"}

// wholeServer are the packages that tests of package s3 and of the SDK may import although they are above them: they
// start a server, and one test load-tests it.
var wholeServer = []string{"server", "perf"}

// clientSide are the only packages of this project that the SDK may pull into a client's program, beside its own: those
// of the server would bring their dependencies, and need a C compiler.
var clientSide = []string{"internal/checksum", "internal/sigv4", "internal/bytesize", "internal/durable", "internal/environ"}

// file is the imports of one Go file. pkg is the directory of its package, relative to the root of the module.
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

// TestOneProcessIsListed compares the files that have the mark "One process:", because they assume a single process,
// with the table in docs/architecture.md.
func TestOneProcessIsListed(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## One process\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var listed, marked []string
	for line := range strings.Lines(section) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			listed = append(listed, name)
		}
	}
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), "One process:") {
			return err
		}
		rel, err := filepath.Rel(root, name)
		marked = append(marked, filepath.ToSlash(rel))
		return err
	}))
	slices.Sort(marked)
	require.Equal(t, marked, listed, "the files with the mark (expected) and the table in docs/architecture.md (actual) differ")
}

// TestServerLinksNoPlots: the server's program does not link the modules that only reports need.
func TestServerLinksNoPlots(t *testing.T) {
	deps := func(pkg string) []string {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	unwanted := func(pkg string) bool {
		return strings.Contains(pkg, "gonum") || strings.Contains(pkg, "plot") || strings.Contains(pkg, "font") || strings.Contains(pkg, "pdf") ||
			strings.Contains(pkg, "latex") || strings.Contains(pkg, "freetype") || strings.Contains(pkg, "svg") || strings.HasPrefix(pkg, "golang.org/x/image")
	}
	for _, pkg := range deps("orcas/cmd/orcas") {
		require.False(t, unwanted(pkg), "%s is linked into bin/orcas", pkg)
	}
	require.True(t, slices.ContainsFunc(deps("orcas/cmd/orcas-report"), unwanted), "orcas-report links them, and the check must find them")
}

// TestCoreIsAContract: a program that imports core does not link compression, encryption or C because of it.
func TestCoreIsAContract(t *testing.T) {
	unwanted := func(pkg string) []string {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{len .CgoFiles}}", pkg).Output()
		require.NoError(t, err)
		var found []string
		for line := range strings.Lines(string(out)) {
			name, files, _ := strings.Cut(strings.TrimSpace(line), " ")
			_, beside := besideCore[strings.TrimPrefix(name, module+"/")]
			if files != "0" || name == "runtime/cgo" || beside || strings.Contains(name, "zstd") || strings.HasSuffix(name, "/aesgcm") {
				found = append(found, name)
			}
		}
		return found
	}
	require.Empty(t, unwanted("orcas/core"))
	require.Contains(t, unwanted("orcas/core/codec"), "github.com/klauspost/compress/zstd", "core/codec links it, and the check must find it")
}

// TestCheck tests the check itself with a violation of each rule.
func TestCheck(t *testing.T) {
	cases := map[string]struct {
		file file
		want string // a part of the expected problem; "" if none is expected
	}{
		"down":                  {file{"vfs", false, []string{"orcas/core", "io"}}, ""},
		"up":                    {file{"core", false, []string{"orcas/batch"}}, "upwards"},
		"sideways":              {file{"batch", false, []string{"orcas/fsck"}}, "upwards"},
		"vfs from content":      {file{"content", false, []string{"orcas/vfs"}}, "upwards"},
		"up from a test":        {file{"core", true, []string{"orcas/vfs"}}, "upwards"},
		"sideways from a test":  {file{"batch", true, []string{"orcas/fsck"}}, ""},
		"auth from its part":    {file{"auth/policy", false, []string{"orcas/auth"}}, ""},
		"part of auth":          {file{"auth", false, []string{"orcas/auth/policy"}}, "upwards"},
		"internal from layer 0": {file{"core/frame", false, []string{"orcas/internal/mutant"}}, ""},
		"frame from internal":   {file{"internal/x", false, []string{"orcas/core/frame"}}, "upwards"},
		"driver to driver":      {file{"core/cached", false, []string{"orcas/core/sqlite"}}, "driver"},
		"driver above":          {file{"vfs", false, []string{"orcas/core/disk"}}, "driver"},
		"driver above, test":    {file{"vfs", true, []string{"orcas/core/disk"}}, ""},
		"server in a test":      {file{"perf", true, []string{"orcas/server"}}, ""},
		"server in s3's test":   {file{"s3", true, []string{"orcas/server"}}, ""},
		"store in a test":       {file{"fsck", true, []string{"orcas/storetest"}}, ""},
		"vfs in a test":         {file{"content", true, []string{"orcas/vfs"}}, ""},
		"store below batch":     {file{"core/mem", true, []string{"orcas/storetest"}}, "upwards"},
		"store, not in a test":  {file{"vfs", false, []string{"orcas/storetest"}}, "only tests"},
		"server below s3":       {file{"vfs", true, []string{"orcas/server"}}, "upwards"},
		"perf in s3's test":     {file{"s3", true, []string{"orcas/perf"}}, ""},
		"a part of a package":   {file{"s3", false, []string{"orcas/s3/lifecycledoc"}}, ""},
		"the whole from a part": {file{"s3/lifecycledoc", false, []string{"orcas/s3"}}, "upwards"},
		"perf from s3":          {file{"s3", false, []string{"orcas/perf"}}, "upwards"},
		"server from perf":      {file{"perf", false, []string{"orcas/server"}}, "upwards"},
		"driver in a suite":     {file{"core/coretest", false, []string{"orcas/core/mem"}}, ""},
		"suite in a driver":     {file{"core/mem", false, []string{"orcas/core/coretest"}}, "only tests"},
		"suite in its test":     {file{"core/mem", true, []string{"orcas/core/coretest"}}, ""},
		"driver from cmd":       {file{"cmd/orcas", false, []string{"orcas/core/disk"}}, ""},
		"driver from server":    {file{"server", false, []string{"orcas/core/disk"}}, ""},
		"no layer":              {file{"util", false, nil}, "no layer"},
		"import of no layer":    {file{"vfs", false, []string{"orcas/util"}}, "no layer"},
		"HTTP below":            {file{"vfs", false, []string{"net/http"}}, "HTTP"},
		"XML below":             {file{"core/sqlite", false, []string{"encoding/xml"}}, "HTTP"},
		"AWS below":             {file{"batch", false, []string{"github.com/aws/aws-sdk-go-v2/aws"}}, "HTTP"},
		"HTTP in s3":            {file{"s3", false, []string{"net/http"}}, ""},
		"HTTP in sigv4":         {file{"internal/sigv4", false, []string{"net/http"}}, ""},
		"core in sdk":           {file{"sdk", false, []string{"orcas/core/frame"}}, "SDK"},
		"auth in sdk's tree":    {file{"sdk/tree", false, []string{"orcas/auth"}}, "SDK"},
		"gate in sdk's profile": {file{"sdk/profile", false, []string{"orcas/gate"}}, "SDK"},
		"server in sdk":         {file{"sdk", false, []string{"orcas/server"}}, "SDK"},
		"server in sdk's test":  {file{"sdk/tree", true, []string{"orcas/server"}}, ""},
		"sigv4 in sdk":          {file{"sdk", false, []string{"orcas/internal/sigv4"}}, ""},
		"sdk from its tree":     {file{"sdk/tree", false, []string{"orcas/sdk"}}, ""},
		"tree from sdk":         {file{"sdk", false, []string{"orcas/sdk/tree"}}, "upwards"},
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

// check returns the violations of the rules in files, sorted and without duplicates.
func check(files []file) []string {
	problems := map[string]bool{}
	for _, f := range files {
		f.test = f.test || slices.Contains(testPackages, f.pkg)
		from, ok := layerOf(f.pkg)
		if !ok {
			problems[fmt.Sprintf("%s has no layer: add it to the table", f.pkg)] = true
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
		if from < httpLayer && !f.test && !slices.Contains(speakHTTP, f.pkg) && isHTTP(imp) {
			return fmt.Sprintf("%s imports %s: packages below layer %d must not use HTTP, XML or AWS types", f.pkg, imp, httpLayer)
		}
		return ""
	}
	to, ok := layerOf(target)
	isDriver := slices.Contains(drivers, target)
	switch {
	case target == f.pkg: // an external test of the package itself
		return ""
	case ok && f.test && from >= layers["batch"] && to <= layers["storetest"]: // a test that opens a whole store
		return ""
	case slices.Contains(wholeServer, target) && f.test && (f.pkg == "s3" || root(f.pkg) == "sdk"):
		return ""
	case !ok:
		return fmt.Sprintf("%s imports %s, which has no layer: add it to the table", f.pkg, target)
	case slices.Contains(testPackages, target) && !f.test:
		return fmt.Sprintf("%s imports %s: only tests may", f.pkg, target)
	case root(f.pkg) == "sdk" && !f.test && root(target) != "sdk" && !slices.Contains(clientSide, target):
		return fmt.Sprintf("%s imports %s: the SDK must not import packages of the server", f.pkg, target)
	case isDriver && !f.test && root(f.pkg) != "cmd" && f.pkg != "server":
		return fmt.Sprintf("%s imports the driver %s: only commands, package server and tests may", f.pkg, target)
	case to > from, to == from && !f.test && !mayImportBeside(f.pkg, target):
		return fmt.Sprintf("%s (layer %d) imports upwards: %s (layer %d)", f.pkg, from, target, to)
	case to == from && root(f.pkg) == "internal" && root(target) != "internal":
		return fmt.Sprintf("%s (layer %d) imports upwards: %s (layer %d)", f.pkg, from, target, to)
	}
	return ""
}

// besideCore maps each package on the layer of core to the packages on that layer that it may import. Core imports none
// of them, so it does not have their dependencies.
var besideCore = map[string][]string{
	"core/codec":      {"core"},
	"core/dictionary": {"core", "core/codec"},
	"core/encoding":   {"core"},
}

// mayImportBeside reports whether pkg may import target, a package of its own layer.
func mayImportBeside(pkg, target string) bool {
	return root(target) == "internal" || slices.Contains(besideCore[pkg], target) || isPart(pkg, target) ||
		pkg == "auth/policy" && target == "auth" || root(pkg) == "cmd" && root(target) == "cmd"
}

// isPart reports whether target is a part of pkg on the same layer: s3/cors, and s3/lifecycledoc, which must be
// above package lifecycle, as s3 is.
func isPart(pkg, target string) bool {
	return pkg == "s3" && (target == "s3/lifecycledoc" || target == "s3/cors")
}

func isHTTP(imp string) bool {
	return imp == "net/http" || strings.HasPrefix(imp, "net/http/") || imp == "encoding/xml" ||
		strings.HasPrefix(imp, "github.com/aws/")
}

func root(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

func layerOf(pkg string) (int, bool) {
	if n, ok := layers[pkg]; ok {
		return n, true
	}
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if n, ok := layers[dir+"/..."]; ok {
			return n, true
		}
	}
	return 0, false
}

// parseModule reads the imports of every Go file below dir, regardless of build tags.
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
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != dir {
				return filepath.SkipDir // another module
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
