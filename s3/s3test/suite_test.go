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

// rule is one test case of the suite.
type rule struct {
	name string // unique in its area; letters, digits and hyphens; never changes
	says string // one line that states the rule
	run  func(t *T)
}

// area is a group of related rules.
type area struct {
	name  string
	rules []rule
}

// suite returns all areas.
func suite() []area {
	return []area{
		service, buckets, names, objects, metadata, ranges, conditions, writeConditions, listV1, listV2, deletion, copies,
		multipart, uploadLists, checksums, payloads, presigned, authentication, limits, documents, schemas, errorResponses, errorDetails, responses, sdk, versioning, versionList, tagging,
		objectLock, subResources, policies, publicAccess, attributes, renaming, moving, appending, lifecycle, encryption, cors, forms, heads, instant, instantAsk, quota, dialects,
	}
}

// ours lists the areas that only ORCAS implements.
var ours = []string{moving.name, instant.name, instantAsk.name, quota.name, dialects.name}

var (
	list    = flag.Bool("rules", false, "print the name and the rule of every case, and exit")
	at      *target
	run     = fmt.Sprintf("%08x", rand.Uint32()) // part of bucket names, so that runs do not share buckets
	created atomic.Int64                         // number of bucket names used so far
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
	// Cases spend their time waiting for fsync, not computing, so more of them than processors can run in parallel.
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
				t.Skip("ORCAS_S3TEST_OURS is not set, so the endpoint is not ORCAS")
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

// TestRulesAreNamed checks that rule names, which are stable handles, are unique and need no quoting, and that every
// rule has a unique one-line text.
func TestRulesAreNamed(t *testing.T) {
	form, seen, said := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`), map[string]bool{}, map[string]string{}
	n := 0
	for _, a := range suite() {
		for _, r := range a.rules {
			name := a.name + "/" + r.name
			if !form.MatchString(a.name) || !form.MatchString(r.name) || seen[name] {
				t.Errorf("invalid or duplicate name %s", name)
			}
			if r.says == "" || strings.ContainsAny(r.says, "\n|") || said[r.says] != "" {
				t.Errorf("%s: text %q is malformed, or a duplicate of %q", name, r.says, said[r.says])
			}
			seen[name], said[r.says] = true, name
			n++
		}
	}
	if n < 400 {
		t.Errorf("%d rules, want at least 400", n)
	}
	t.Logf("%d rules", n)
}
