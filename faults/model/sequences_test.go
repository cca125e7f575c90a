package model

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What sequences are made of: few names, so that operations meet.
var (
	buckets = []string{"one", "one", "one", "two"}
	keys    = []string{"a", "a/b", "a/c", "b", "dir/x/1", "dir/x/2", "ü %+&?", "z//", ".."}
	sizes   = []int{0, 1, 100, 4096, 4096, 65535, 65536, 65537, 70000, 300_000}
	conds   = []string{"", "", "", "none", "match", "other", "any"}
	// Operations as often as they stand here.
	mixture = strings.Fields(`put put put put put put get get get head delete delete deletes copy copy list list
		create drop upload upload part part part part partcopy complete complete complete abort
		restart crash crash gone older remember`)
)

// steps draws a sequence. It begins with a bucket, so that few operations are in vain.
var steps = rapid.Custom(func(t *rapid.T) []step {
	return append([]step{{op: "create", b: "one"}}, rapid.SliceOfN(rapid.Custom(oneStep), 15, 60).Draw(t, "rest")...)
})

func oneStep(t *rapid.T) step {
	from := func(name string, list []string) string { return rapid.SampledFrom(list).Draw(t, name) }
	s := step{op: from("op", mixture)}
	which := func() string { return from("upload", []string{"0", "0", "0", "1", "2"}) }
	object := func() {
		s.b, s.key, s.cond = from("bucket", buckets), from("key", keys), from("cond", conds)
	}
	source := func() string { return from("source bucket", buckets) + "/" + from("source", keys) }
	switch s.op {
	case "put":
		object()
		s.size = rapid.SampledFrom(sizes).Draw(t, "size")
		s.arg = from("meta", []string{"", "", "v", "w"})
	case "get", "head":
		object()
		s.arg = from("range", []string{"", "", "0-0", "5-", "-7", "99-4100", "65530-65540", "262140-262150", "0-99999999", "500000-"})
		s.n = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "part")
	case "delete":
		object()
	case "deletes":
		object()
		s.key, s.arg = "", strings.Join(rapid.SliceOfN(rapid.SampledFrom(keys), 1, 4).Draw(t, "keys"), ",")
	case "copy":
		object()
		s.from, s.arg = source(), from("directive", []string{"", "replace"})
	case "list":
		s.b, s.from, s.arg = from("bucket", buckets), from("prefix", []string{"", "", "a", "dir/", "nothing"}), from("delimiter", []string{"", "/", "/", "x/"})
		s.n, s.cond = rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "page"), from("version", []string{"", "v1"})
		s.key = from("after", []string{"", "", "a/", "a/b", "dir/x/"})
	case "create", "drop":
		s.b = from("bucket", buckets)
	case "upload":
		s.b, s.key = from("bucket", buckets), from("key", keys)
	case "part":
		s.arg, s.n = which(), rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "number")
		s.size = rapid.SampledFrom([]int{0, 10, 70000, minPart - 1, minPart}).Draw(t, "size")
	case "partcopy":
		s.arg, s.n, s.from = which(), rapid.SampledFrom([]int{1, 2, 3}).Draw(t, "number"), source()
		s.cond = from("range", []string{"", "some"})
	case "complete":
		s.arg, s.from, s.cond = which(), from("parts", []string{"", "", "", "last", "first", "wrong", "missing"}), from("cond", conds)
	case "abort":
		s.arg = which()
	}
	return s
}

// runScript runs steps on a server of their own. The log is the server's.
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
	return m.alarm.text(), errors.Join(err, m.close())
}

// source prints steps for the table of named cases.
func source(list []step) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "\t\t%#v,\n", s)
	}
	return b.String()
}

// shorten leaves out every step without which a script still fails.
func shorten(root string, list []step) []step {
	for i := len(list) - 1; i >= 0; i-- {
		without := slices.Delete(slices.Clone(list), i, i+1)
		if _, err := runScript(root, without); err != nil {
			list = without
		}
	}
	return list
}

// TestSequences holds the whole server against the model.
func TestSequences(t *testing.T) {
	for name, value := range map[string]string{
		"rapid.seed":       fmt.Sprint(seed(t)),
		"rapid.checks":     fmt.Sprint(count(t, "ORCAS_FAULTS_SEQUENCES", 25, 2000)),
		"rapid.nofailfile": "true", // a failure becomes a named case instead
	} {
		require.NoError(t, flag.Set(name, value))
	}
	root := workDir(t)
	var failed []step // the shortest so far
	defer func() {
		if failed != nil {
			failed = shorten(root, failed)
			log, err := runScript(root, failed)
			t.Errorf("%v\nas a named case:\n%sthe server's log:\n%s", err, source(failed), log)
		}
	}()
	rapid.Check(t, func(r *rapid.T) {
		list := steps.Draw(r, "steps")
		if _, err := runScript(root, list); err != nil {
			if failed == nil {
				t.Logf("the first failure: %v\n%s", err, source(list))
			}
			failed = list
			r.Fatalf("the server and the model differ") // always in the same words, or rapid takes it for another failure
		}
	})
}

// TestCases runs sequences that failed once, and some that were thought of.
func TestCases(t *testing.T) {
	for name, list := range cases {
		t.Run(name, func(t *testing.T) {
			log, err := runScript(workDir(t), list)
			require.NoError(t, err, "%s", log)
		})
	}
}
