package s3test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// rule is one case of the suite.
type rule struct {
	name string // within its area; letters, digits and hyphens, and it never changes
	says string // the rule, in one line
	run  func(t *T)
}

// area is what belongs together.
type area struct {
	name  string
	rules []rule
}

// suite returns all areas.
func suite() []area {
	return []area{
		service, buckets, names, objects, metadata, ranges, conditions, writeConditions, listV1, listV2, deletion, copies,
		multipart, uploadLists, checksums, payloads, presigned, authentication, limits, documents, schemas, errorAnswers, errorDetails, answers, sdk, versioning, versionList, tagging,
		objectLock, subResources, attributes, renaming, moving, appending, lifecycle, encryption, cors, heads, instant, instantAsk, quota, dialects,
	}
}

// ours are the areas that no other server than ORCAS serves.
var ours = []string{moving.name, instant.name, instantAsk.name, quota.name, dialects.name}

var (
	list = flag.Bool("rules", false, "print name and rule of every case, and stop")
	at   *target
	run  = fmt.Sprintf("%08x", rand.Uint32()) // tells the buckets of this run from those of others
	made atomic.Int64                         // buckets so far
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *list {
		for _, a := range suite() {
			for _, r := range a.rules {
				fmt.Printf("%-50s %s\n", a.name+"/"+r.name, r.says)
			}
		}
		return
	}
	// Cases wait for syncs and for one another's, not for a processor.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("16")
	}
	os.Exit(m.Run())
}

// TestS3 runs the suite.
func TestS3(t *testing.T) {
	var err error
	if at, err = newTarget(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		at.client.CloseIdleConnections()
		if err := at.stop(); err != nil {
			t.Error(err)
		}
	})
	for _, a := range suite() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if at.other && slices.Contains(ours, a.name) {
				t.Skip("the endpoint is no ORCAS: ORCAS_S3TEST_OURS is not set")
			}
			for _, r := range a.rules {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					r.run(&T{T: t, target: at, rule: r.says})
				})
			}
		})
	}
}

// TestRulesAreNamed: names are stable handles, so they are unique and of a form that needs no quoting, and every rule
// is said.
func TestRulesAreNamed(t *testing.T) {
	form, seen, said := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`), map[string]bool{}, map[string]string{}
	n := 0
	for _, a := range suite() {
		for _, r := range a.rules {
			name := a.name + "/" + r.name
			if !form.MatchString(a.name) || !form.MatchString(r.name) || seen[name] {
				t.Errorf("bad or repeated name %s", name)
			}
			if r.says == "" || strings.ContainsAny(r.says, "\n|") || said[r.says] != "" {
				t.Errorf("%s says %q, as does %q", name, r.says, said[r.says])
			}
			seen[name], said[r.says] = true, name
			n++
		}
	}
	if n < 400 {
		t.Errorf("only %d rules", n)
	}
	t.Logf("%d rules", n)
}
