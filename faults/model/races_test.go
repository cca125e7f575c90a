package model

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCompleteRaces replaces a part while several clients complete its upload with the last part that they know, and
// one aborts it. There must be one outcome: all 200 responses have the same ETag, the object is the complete part with
// that ETag, and the upload has ended.
func TestCompleteRaces(t *testing.T) {
	m := newTestMachine(t, nil)
	must(t, 200)(m.do("PUT", "bucket", "", "", nil))
	r := newRand(t)
	completed, aborted := 0, 0
	objects := map[string][]byte{}
	for round := range count(t, "ORCAS_FAULTS_ROUNDS", 20, 400) {
		key := fmt.Sprintf("key-%d", round)
		var created struct{ UploadId string }
		require.NoError(t, xml.Unmarshal(must(t, 200)(m.do("POST", "bucket", key, "uploads=", nil)).body, &created))
		part := query("partNumber", "3", "uploadId", created.UploadId)
		upload := query("uploadId", created.UploadId)
		first := random(r.Uint64(), 100)
		must(t, 200)(m.do("PUT", "bucket", key, part, first))
		var seen atomic.Pointer[string] // the ETag of a part that was acknowledged
		etag := hexMD5(first)
		seen.Store(&etag)

		var mu sync.Mutex // guards the variables below
		bodies := map[string][]byte{etag: first}
		winners := map[string]int{}
		wasAborted := false

		var wg sync.WaitGroup
		for range 6 {
			body := random(r.Uint64(), []int{100, 5000, 70_000}[r.IntN(3)])
			wg.Go(func() {
				own := hexMD5(body)
				mu.Lock()
				bodies[own] = body
				mu.Unlock()
				a, err := m.do("PUT", "bucket", key, part, body)
				if assert.NoError(t, err) && assert.Contains(t, []int{200, 404}, a.status) && a.status == 200 {
					seen.Store(&own)
				}
			})
		}
		for range 4 {
			wg.Go(func() {
				for range 4 {
					mine := *seen.Load()
					body := `<CompleteMultipartUpload><Part><PartNumber>3</PartNumber><ETag>` + mine + `</ETag></Part></CompleteMultipartUpload>`
					a, err := m.do("POST", "bucket", key, upload, []byte(body))
					if !assert.NoError(t, err) || !assert.Contains(t, []int{200, 400, 404}, a.status, "%s", a.body) {
						return
					}
					if a.status == 200 {
						mu.Lock()
						winners[mine]++
						mu.Unlock()
						return
					}
				}
			})
		}
		if round%3 == 0 {
			wg.Go(func() {
				a, err := m.do("DELETE", "bucket", key, upload, nil)
				if assert.NoError(t, err) && assert.Contains(t, []int{204, 404}, a.status) {
					mu.Lock()
					wasAborted = a.status == 204
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(winners) == 0 {
			if wasAborted {
				aborted++
				must(t, 404)(m.do("GET", "bucket", key, "", nil))
				must(t, 404)(m.do("PUT", "bucket", key, part, first))
			}
			continue
		}
		completed++
		require.False(t, wasAborted, "both completed and aborted")
		require.Len(t, winners, 1, "all winners must have completed the upload with the same part")
		for won := range winners {
			a := must(t, 200)(m.do("GET", "bucket", key, "", nil))
			require.Equal(t, etagOf([]claim{{3, won}}), a.etag())
			require.Equal(t, bodies[won], a.body)
			objects[key] = bodies[won]
		}
		must(t, 404)(m.do("PUT", "bucket", key, part, first))
	}
	require.NoError(t, m.crash(gone))
	for key, body := range objects {
		require.Equal(t, body, must(t, 200)(m.do("GET", "bucket", key, "", nil)).body, key)
	}
	t.Logf("%d completed, %d aborted", completed, aborted)
}

// TestDeleteBucketRaces deletes a bucket while clients write to it. Either the bucket remains, with every acknowledged
// object, or it is deleted and no write was acknowledged.
func TestDeleteBucketRaces(t *testing.T) {
	m := newTestMachine(t, nil)
	r := newRand(t)
	remained, removed := 0, 0
	for round := range count(t, "ORCAS_FAULTS_ROUNDS", 40, 400) {
		name := fmt.Sprintf("bucket-%d", round)
		must(t, 200)(m.do("PUT", name, "", "", nil))
		writers := 1 + round%4
		bodies, statuses := make([][]byte, writers), make([]int, writers)
		deleted := 0
		var wg sync.WaitGroup
		for i := range writers {
			bodies[i] = random(r.Uint64(), 1+69_999*(i%2))
			if i == 2 {
				bodies[i] = nil // an empty object, which has no stored content
			}
			wg.Go(func() {
				a, err := m.do("PUT", name, fmt.Sprint(i), "", bodies[i])
				if assert.NoError(t, err) {
					statuses[i] = a.status
				}
			})
		}
		wg.Go(func() {
			a, err := m.do("DELETE", name, "", "", nil)
			if assert.NoError(t, err) {
				deleted = a.status
			}
		})
		wg.Wait()
		for i, status := range statuses {
			if deleted == 204 {
				require.Equal(t, 404, status, "a write to a bucket that was deleted as empty must fail")
				continue
			}
			require.Equal(t, 409, deleted)
			require.Equal(t, 200, status)
			require.Equal(t, string(bodies[i]), string(must(t, 200)(m.do("GET", name, fmt.Sprint(i), "", nil)).body))
		}
		if deleted == 204 {
			removed++
		} else {
			remained++
		}
	}
	t.Logf("%d buckets remained, %d were deleted", remained, removed)
}

// TestListingWhileWritten pages through a listing while other keys are written and deleted. A key that remains must be
// listed exactly once, in order.
func TestListingWhileWritten(t *testing.T) {
	m := newTestMachine(t, nil)
	must(t, 200)(m.do("PUT", "bucket", "", "", nil))
	seeds := newRand(t)
	var stable []string
	for i := range 60 {
		key := fmt.Sprintf("%c/%02d-stays", 'a'+i/10, i)
		stable = append(stable, key)
		must(t, 200)(m.do("PUT", "bucket", key, "", []byte(key)))
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				n := r.IntN(60)
				key := fmt.Sprintf("%c/%02d-%c", 'a'+n/10, n, 'a'+r.IntN(26)) // before and after the key that remains
				method, body := "PUT", []byte("x")
				if r.IntN(2) == 0 {
					method, body = "DELETE", nil
				}
				_, err := m.do(method, "bucket", key, "", body)
				assert.NoError(t, err)
			}
		})
	}
	for pass := range count(t, "ORCAS_FAULTS_ROUNDS", 10, 200) {
		v2, delimiter := pass%2 == 0, []string{"", "", "/", "-stays"}[pass%4]
		listAll(t, m, v2, delimiter, 1+pass%7, stable)
	}
	close(done)
	wg.Wait()
}

// listAll pages through a listing and compares the entries of stable keys.
func listAll(t *testing.T, m *machine, v2 bool, delimiter string, page int, stable []string) {
	t.Helper()
	b := &bucket{objects: map[string]*object{}}
	for _, key := range stable {
		b.objects[key] = &object{}
	}
	want, prefixes := b.list("", delimiter, "")
	want = append(want, prefixes...) // a listing here never has both
	must := must(t, 200)
	known := map[string]bool{}
	for _, w := range want {
		known[w] = true
	}
	var got []string
	last, place := "", ""
	for {
		q := query("delimiter", delimiter, "max-keys", fmt.Sprint(page), "marker", place)
		if v2 {
			q = query("delimiter", delimiter, "max-keys", fmt.Sprint(page), "list-type", "2", "continuation-token", place)
		}
		var p listed
		require.NoError(t, xml.Unmarshal(must(m.do("GET", "bucket", "", q, nil)).body, &p))
		var names []string
		for _, c := range p.Contents {
			names = append(names, c.Key)
			require.Greater(t, c.Key, last, "the keys must be in order")
			last = c.Key
		}
		for _, c := range p.CommonPrefixes {
			names = append(names, c.Prefix)
		}
		for _, n := range names {
			if known[n] {
				got = append(got, n)
			}
		}
		if !p.IsTruncated {
			break
		}
		if place = p.NextContinuationToken; !v2 {
			if place = p.NextMarker; place == "" {
				place = last
			}
		}
	}
	require.Equal(t, want, got)
}
