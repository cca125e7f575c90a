package s3

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/gate"
)

// Operation is an operation of S3's service model, as testdata/model.py writes it.
type Operation struct {
	Name, Method, Level, Path        string
	Fixed                            []string // parameters that select the operation, some with a value
	Needed, Query, Headers, Response []string // names of parameters and headers
}

// Model returns the operations of the service model.
func Model(t *testing.T) []Operation {
	t.Helper()
	doc, err := os.ReadFile("testdata/model.json")
	require.NoError(t, err)
	var model struct{ Operations []Operation }
	require.NoError(t, json.Unmarshal(doc, &model))
	require.Greater(t, len(model.Operations), 100)
	return model.Operations
}

// key returns the key by which the router finds an operation.
func (o *Operation) key() routeKey {
	levels := map[string]gate.Level{"service": gate.Service, "bucket": gate.Bucket, "object": gate.Object}
	k := routeKey{method: o.Method, level: levels[o.Level], copies: slices.Contains(o.Needed, "x-amz-copy-source")}
	for _, p := range append(append([]string{o.Path}, o.Fixed...), o.Needed...) {
		if name, _, _ := strings.Cut(p, "="); isSubresource(name) {
			k.sub = name
		}
	}
	if o.Name == "ListDirectoryBuckets" { // it differs from ListBuckets only by an optional parameter
		k.sub = "max-directory-buckets"
	}
	return k
}

// Target returns path and query of a request for an operation on a bucket and a key.
func (o *Operation) Target(bucket, key string) string {
	target := "/"
	if o.Level != "service" {
		target += bucket
	}
	if o.Level == "object" {
		target += "/" + key
	}
	query := slices.Clone(o.Fixed)
	for _, p := range o.Needed {
		if slices.Contains(o.Query, p) {
			query = append(query, p+"=1")
		}
	}
	return target + "?" + strings.Join(query, "&")
}

// Docs holds the tables of docs/s3.md, by their headings. Each maps names to the entry in the second column.
type Docs map[string]map[string]string

// ReadDocs reads docs/s3.md.
func ReadDocs(t *testing.T) Docs {
	t.Helper()
	text, err := os.ReadFile("../docs/s3.md")
	require.NoError(t, err)
	docs := Docs{}
	section, counts := "", false // counts: the table has a column "served" or "sent"
	for _, line := range strings.Split(string(text), "\n") {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			section = h
			docs[section] = map[string]string{}
		}
		if !strings.HasPrefix(line, "|") {
			counts = false
			continue
		}
		if strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(line, "|")
		name, served := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		if served == "served" || served == "sent" {
			counts = true
			continue
		}
		if !counts {
			continue
		}
		require.Len(t, cells, 5, line)
		known := []string{"yes", "partly", "no"}
		if section == "Operations" {
			known = append(known, "stub") // responds as if the feature had never been configured for the bucket
		}
		require.Contains(t, known, served, line)
		require.NotContains(t, docs[section], name, "two rows for the same name")
		docs[section][name] = served
	}
	return docs
}

// Row returns the row for a name and its entry: the row with exactly that name, or the longest row that ends with "*"
// and matches the beginning of the name.
func (d Docs) Row(section, name string) (row, served string) {
	if s, ok := d[section][name]; ok {
		return name, s
	}
	for r, s := range d[section] {
		if p, ok := strings.CutSuffix(r, "*"); ok && strings.HasPrefix(name, p) && len(r) > len(row) {
			row, served = r, s
		}
	}
	return row, served
}

// ownOperations is the section of the operations that AWS does not have.
const ownOperations = "Extensions"

// The tables contain every name of the model, and no others.
func TestDocsAndModelAgree(t *testing.T) {
	docs := ReadDocs(t)
	used := map[string]bool{}
	lookUp := func(section string, names ...string) {
		for _, name := range names {
			row, _ := docs.Row(section, name)
			require.NotEmpty(t, row, "%s: no row for %s", section, name)
			used[section+row] = true
		}
	}
	for _, o := range Model(t) {
		lookUp("Operations", o.Name)
		lookUp("Request headers", o.Headers...)
		lookUp("Query parameters", o.Query...)
		lookUp("Response headers", o.Response...)
	}
	delete(docs, ownOperations)
	for section, rows := range docs {
		for row := range rows {
			require.True(t, used[section+row], "%s: the model does not have %s", section, row)
		}
	}
}

// An operation has a route if, and only if, the table lists it as served, and the table lists the operations of all
// routes.
func TestDocsAndRouterAgree(t *testing.T) {
	docs := ReadDocs(t)
	routes := allRoutes()
	table, err := routeTable(routes, handlers())
	require.NoError(t, err)
	named := map[string]bool{}
	for _, o := range Model(t) {
		_, served := docs.Row("Operations", o.Name)
		key := o.key()
		rt := table[key]
		if served == "no" {
			require.Nil(t, rt, "%s has a route, but the table lists it as not served", o.Name)
			continue
		}
		require.NotNil(t, rt, "the table lists %s as served, but there is no route %+v", o.Name, key)
		named[rt.route.Name] = true
	}
	for name := range docs[ownOperations] {
		named[name] = true
	}
	for i := range routes {
		require.True(t, named[routes[i].Name], "docs/s3.md does not list %s", routes[i].Name)
	}
}

// The code contains every header that the table lists as sent.
func TestDocsAndResponseHeaders(t *testing.T) {
	var code strings.Builder
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			code.WriteString(strings.ToLower(string(text)))
		}
	}
	for name, sent := range ReadDocs(t)["Response headers"] {
		if sent != "no" && !strings.HasSuffix(name, "*") {
			require.True(t, strings.Contains(code.String(), `"`+strings.ToLower(name)+`"`), "no code sends %s", name)
		}
	}
}
