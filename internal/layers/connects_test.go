package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// connecting are the names in net/http and net with which a program connects to another one.
var connecting = map[string][]string{
	"http": {"Client", "DefaultClient", "DefaultTransport", "Transport", "Get", "Head", "Post", "PostForm", "NewRequest", "NewRequestWithContext"},
	"net":  {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialUnix", "Dialer"},
}

// connections returns the places in a file where a program could connect to another one.
func connections(files *token.FileSet, file *ast.File) (list []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok && slices.Contains(connecting[of.Name], s.Sel.Name) {
				list = append(list, files.Position(n.Pos()).String()+": "+of.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return list
}

// TestServerConnectsToNobody: no package of the server can connect to another server, so no request can make it fetch a
// URL. There are two exceptions: the webhook of the audit log, whose URL is in the environment of the server, and the
// console, which tests a key on the server's own S3 listener.
func TestServerConnectsToNobody(t *testing.T) {
	files, parsed := token.NewFileSet(), 0
	for _, dir := range []string{"admin", "audit", "auth", "backup", "batch", "console", "content", "core", "declared", "feed", "fsck", "gate", "iam", "lease", "lifecycle", "metrics",
		"reclaim", "s3", "scrub", "server", "survey", "vfs", "watch"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			parsed++
			for _, i := range file.Imports {
				client := strings.HasPrefix(i.Path.Value, `"orcas/sdk`) || strings.HasPrefix(i.Path.Value, `"orcas/internal/loadgen`)
				require.False(t, client, "%s imports %s", path, i.Path.Value)
			}
			switch path {
			case filepath.Join("..", "..", "audit", "webhook.go"), // connects to the URL in the configuration only
				filepath.Join("..", "..", "console", "functions.go"): // connects to the server's own S3 listener only
				require.NotEmpty(t, connections(files, file))
				return nil
			}
			require.Empty(t, connections(files, file))
			return nil
		})
		require.NoError(t, err)
	}
	require.Greater(t, parsed, 100)
	file, err := parser.ParseFile(files, "bad.go", `package bad; var _ = http.Get; var _ net.Dialer`, 0)
	require.NoError(t, err)
	require.Len(t, connections(files, file), 2, "the test finds connections")
}
