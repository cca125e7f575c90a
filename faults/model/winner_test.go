package model

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/faults/result"
)

// TestOneWinner has 64 writers create the same key. One must get 200 and the others 412, and the key must have the
// content of the winner, even after a crash. Some content is large, and some writers copy.
func TestOneWinner(t *testing.T) {
	const writers = 64
	m := newTestMachine(t, nil)
	must(t, 200)(m.do("PUT", "bucket", "", "", nil))
	source := random(1<<40, 5000)
	must(t, 200)(m.do("PUT", "bucket", "source", "", source))
	rounds := count(t, "ORCAS_FAULTS_ROUNDS", 40, 200)
	result.Of(t, result.Row{Fault: "one-winner", Name: "If-None-Match: * by 64 concurrent writers", Unit: "rounds", Tried: rounds})
	winners := map[string][]byte{}
	for round := range rounds {
		key := fmt.Sprintf("round-%d", round)
		bodies, responses, errs := make([][]byte, writers), make([]*response, writers), make([]error, writers)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range writers {
			size := 1000 + i
			if i%16 == 0 {
				size = 70_000
			}
			h := []string{"If-None-Match", "*"}
			bodies[i] = random(uint64(round*writers+i), size)
			if i%16 == 1 {
				bodies[i] = source
				h = append(h, "X-Amz-Copy-Source", "bucket/source")
			}
			wg.Go(func() {
				body := bodies[i]
				if len(h) > 2 {
					body = nil
				}
				<-start
				responses[i], errs[i] = m.do("PUT", "bucket", key, "", body, h...)
			})
		}
		close(start)
		wg.Wait()
		won := -1
		for i := range writers {
			require.NoError(t, errs[i])
			if responses[i].status == 200 {
				require.Equal(t, -1, won, "two winners in %s", key)
				won = i
				continue
			}
			require.Equal(t, 412, responses[i].status, "%s", responses[i].body)
			require.Equal(t, "PreconditionFailed", responses[i].code())
		}
		require.NotEqual(t, -1, won, "no winner in %s", key)
		winners[key] = bodies[won]
		require.Equal(t, bodies[won], must(t, 200)(m.do("GET", "bucket", key, "", nil)).body)
	}
	require.NoError(t, m.crash(gone))
	for key, body := range winners {
		require.Equal(t, body, must(t, 200)(m.do("GET", "bucket", key, "", nil)).body, key)
	}
}
