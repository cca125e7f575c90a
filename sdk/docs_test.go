package sdk_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// TestGuide: each Go block of docs/sdk.md is a run of lines of an example, which is compiled and run. The example has
// the addresses of tests instead of those of the guide.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/sdk.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(guide), -1)
	require.Greater(t, len(blocks), 15)
	bodies := exampleBodies(t, ".", "tree", "profile")
	require.Greater(t, len(bodies), 100)
	for _, b := range blocks {
		require.True(t, shownBy(bodies, b[1]), "no example has these lines:\n%s", b[1])
	}
	require.False(t, shownBy(bodies, "client.Explode(ctx)\n"))
	require.False(t, shownBy(bodies, blocks[0][1]+"client.Explode(ctx)\n"))
	require.Len(t, regexp.MustCompile("(?m)^ *```go").FindAllString(string(guide), -1), len(blocks), "each block was found")
}

// shownBy reports whether one of the bodies contains the lines of a block, which may be indented there.
func shownBy(bodies []string, block string) bool {
	deeper := "\t" + strings.TrimSuffix(strings.ReplaceAll(block, "\n", "\n\t"), "\t")
	deeper = strings.ReplaceAll(deeper, "\n\t\n", "\n\n")
	for _, body := range bodies {
		if strings.Contains("\n"+body, "\n"+block) || strings.Contains("\n"+body, "\n"+deeper) {
			return true
		}
	}
	return false
}

// exampleBodies returns the bodies of all examples in the directories, without indentation, and with the addresses that
// the guide has.
func exampleBodies(t *testing.T, dirs ...string) (bodies []string) {
	t.Helper()
	public := strings.NewReplacer("Endpoint:    shared", `Endpoint:    "http://127.0.0.1:9000"`,
		"sdk.Static(access, secret)", `sdk.Static("ACCESS_KEY", "SECRET_KEY")`)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*example*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			_, err = parser.ParseFile(token.NewFileSet(), name, text, 0)
			require.NoError(t, err)
			for _, f := range strings.Split(string(text), "\nfunc Example")[1:] {
				_, body, _ := strings.Cut(f, "{\n")
				body, _, _ = strings.Cut(body, "\n}\n")
				body = strings.ReplaceAll("\n"+body+"\n", "\n\t", "\n")[1:]
				bodies = append(bodies, public.Replace(body))
			}
		}
	}
	return bodies
}

// TestGuideNumbers: the guide states the limits and defaults of the package.
func TestGuideNumbers(t *testing.T) {
	guide, err := os.ReadFile("../docs/sdk.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(guide)), " ")
	source, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	for _, name := range regexp.MustCompile(`(?m)^\t(Err\w+) +=`).FindAllStringSubmatch(string(source), -1) {
		require.Contains(t, text, "`"+name[1]+"`")
	}
	require.Equal(t, "us-east-1", sdk.DefaultRegion)
	require.Contains(t, text, "`"+sdk.DefaultRegion+"`")
	require.Equal(t, 7*24.0, sdk.PresignMax.Hours())
	require.Contains(t, text, "up to seven days")
}
