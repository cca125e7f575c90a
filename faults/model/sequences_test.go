package model

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/faults/result"
)

// The elements of sequences. There are few names, so that operations affect each other. An element is drawn as often as
// it is repeated here.
var (
	buckets = strings.Fields("one one one one one one two")
	keys    = []string{"a", "a", "a", "a", "a", "a/b", "a/b", "a/b", "a/c", "b", "dir/x/1", "dir/x/2", "ü %+&?", "z//", "b/.."}
	sizes   = []int{0, 1, 100, 4096, 4096, 65535, 65536, 65537, 70000, 300_000}
	conds   = []string{"", "", "", "", "", "none", "match", "match", "other", "any"}
	mixture = strings.Fields(`put put put put put put put put put put put put put put get get get get head delete deletes
		copy copy copy copy move move move append append append append append append tag tag tag tag versioning versioning versioning version version version version version version quota quota quota rule pass pass list list create drop upload part part part part part part part part partcopy partcopy
		complete complete complete complete abort restart crash crash gone older remember reclaim`)
)

// steps draws a sequence. It begins by creating buckets, so that few operations fail because there is none.
var steps = rapid.Custom(func(t *rapid.T) []step {
	begin := []step{{op: "create", b: "one"}, {op: "create", b: "two"}, {op: "upload", b: "one", key: "a"}}
	if pick(t, 0, 0, 0, 1) == 1 {
		begin = append([]step{{op: "settings", n: 1}}, begin...)
	}
	return append(begin, rapid.SliceOfN(rapid.Custom(oneStep), 30, 80).Draw(t, "rest")...)
})

// pick draws an element of the list, all with the same probability. rapid's SampledFrom strongly prefers the first
// ones.
func pick[T any](t *rapid.T, list ...T) T {
	n := 0
	for range 12 {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return list[n%len(list)]
}

func oneStep(t *rapid.T) step {
	s := step{op: pick(t, mixture...)}
	which := func() string { return pick(t, "0", "0", "0", "0", "1", "2") }
	object := func() {
		s.b, s.key, s.cond = pick(t, buckets...), pick(t, keys...), pick(t, conds...)
	}
	source := func() string { return pick(t, buckets...) + "/" + pick(t, keys...) }
	switch s.op {
	case "put":
		object()
		s.size, s.arg = pick(t, sizes...), pick(t, "", "v", "w")
	case "get", "head":
		object()
		s.arg = pick(t, "", "", "0-0", "5-", "-7", "99-4100", "65530-65540", "262140-262150", "0-99999999", "500000-")
		s.n = pick(t, 0, 0, 0, 1, 2)
	case "delete":
		object()
	case "tag":
		object()
		s.cond, s.n = "", pick(t, 0, 1, 1)
	case "versioning":
		s.b, s.n = pick(t, buckets...), pick(t, 0, 0, 1)
	case "version":
		object()
		s.cond, s.n, s.arg = "", pick(t, 0, 0, 1, 1, 2, 3), pick(t, "", "delete")
	case "rule":
		s.b, s.from, s.n = pick(t, buckets...), pick(t, "", "a/", "a/", "dir/", "b"), pick(t, 0, 0, 1, 2)
	case "quota":
		s.b, s.size, s.n = pick(t, buckets...), pick(t, 0, 4096, 100_000, 200_000, 1_000_000, 6<<20), pick(t, 0, 0, 1, 3, 8)
	case "deletes":
		object()
		s.key, s.arg = "", pick(t, keys...)
		for range pick(t, 0, 1, 2, 3) {
			s.arg += "," + pick(t, keys...)
		}
	case "copy":
		object()
		s.from, s.arg = source(), pick(t, "", "replace")
	case "move":
		object()
		s.from, s.arg = source(), pick(t, "", "rename")
	case "append":
		object()
		s.size, s.n = pick(t, sizes...), pick(t, 0, 0, 0, 0, 0, 1)
	case "list":
		s.b, s.from, s.arg = pick(t, buckets...), pick(t, "", "", "a", "dir/", "nothing"), pick(t, "", "/", "/", "x/")
		s.n, s.cond, s.key = pick(t, 0, 1, 2, 3), pick(t, "", "v1"), pick(t, "", "", "a/", "a/b", "dir/x/")
	case "create":
		s.b = pick(t, buckets...)
	case "drop":
		s.b = pick(t, "one", "two", "two", "two")
	case "upload":
		s.b, s.key = pick(t, buckets...), pick(t, keys...)
	case "part":
		s.arg, s.n, s.size = which(), pick(t, 1, 1, 2, 3), pick(t, 0, 10, 4096, 70000, 100_000, minPart-1, minPart)
	case "partcopy":
		s.arg, s.n, s.from, s.cond = which(), pick(t, 1, 2, 3), source(), pick(t, "", "some")
	case "complete":
		s.arg, s.from, s.cond = which(), pick(t, "", "", "", "last", "first", "wrong", "missing"), pick(t, conds...)
	case "abort":
		s.arg = which()
	}
	return s
}

// runScript runs steps on a server of their own, and returns the end of its log.
func runScript(root string, list []step) (log string, err error) {
	dir, err := os.MkdirTemp(root, "sequence-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	m, err := newMachine(dir, nil)
	if err != nil {
		return m.alarm.text(), err
	}
	r, err := newScript(m)
	if err == nil {
		err = r.run(list)
	}
	err = errors.Join(err, m.close())
	return m.alarm.text(), err // after close, because a server delays its last lines by a second
}

// source returns steps as Go source for the table of named cases.
func source(list []step) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "\t\t%#v,\n", s)
	}
	return b.String()
}

// failure is a script that failed, with its error.
type failure struct {
	list []step
	log  string // the server's
	err  error
}

// shorten removes every step without which a script still fails. It returns nil if the whole script does not fail
// again.
func shorten(root string, f *failure) *failure {
	try := func(list []step) *failure {
		if log, err := runScript(root, list); err != nil {
			return &failure{list, log, err}
		}
		return nil
	}
	if f = try(f.list); f == nil {
		return nil
	}
	for i := len(f.list) - 1; i >= 0; i-- {
		if less := try(slices.Delete(slices.Clone(f.list), i, i+1)); less != nil {
			f = less
		}
	}
	return f
}

// TestSequences compares the whole server with the model.
func TestSequences(t *testing.T) {
	random, checks := seed(t), count(t, "ORCAS_FAULTS_SEQUENCES", 25, 2000)
	result.Of(t, result.Row{Fault: "model", Name: "random requests, restarts, crashes and lost databases against a model", Unit: "sequences", Tried: checks, Seed: random})
	for name, value := range map[string]string{
		"rapid.seed":       fmt.Sprint(random),
		"rapid.checks":     fmt.Sprint(checks),
		"rapid.nofailfile": "true", // a failure becomes a named case instead
	} {
		require.NoError(t, flag.Set(name, value))
	}
	root := workDir(t)
	var first, failed *failure // failed is the shortest so far
	defer func() {
		if failed == nil {
			return
		}
		if again := shorten(root, failed); again != nil {
			failed = again
		} else {
			failed = first
			t.Error("the sequence passed when it ran again, so the failure depends on timing; the first failure follows")
		}
		t.Errorf("the end of the server's log:\n%s\nthe sequence as a named case:\n%s%v", lastLines(failed.log, 40), source(failed.list), failed.err)
	}()
	rapid.Check(t, func(r *rapid.T) {
		list := steps.Draw(r, "steps")
		if log, err := runScript(root, list); err != nil {
			failed = &failure{list, log, err}
			if first == nil {
				first = failed
			}
			// Always the same text, because rapid takes another text for another failure.
			r.Fatalf("the server and the model differ")
		}
	})
}

// lastLines returns the end of a server's log, without uninteresting fields.
func lastLines(log string, n int) string {
	lines := strings.SplitAfter(log, "\n")
	dull := regexp.MustCompile(`"(time|level|id|in|out|remote|access_key)":("[^"]*"|\d+),?`)
	return dull.ReplaceAllString(strings.Join(lines[max(len(lines)-n, 0):], ""), "")
}

// TestCases runs the named cases.
func TestCases(t *testing.T) {
	for name, list := range cases {
		t.Run(name, func(t *testing.T) {
			if log, err := runScript(workDir(t), list); err != nil {
				t.Fatalf("the end of the server's log:\n%s\n%v", lastLines(log, 40), err)
			}
		})
	}
}
