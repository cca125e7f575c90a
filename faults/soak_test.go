package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/faults/result"
	"orcas/reclaim"
)

// churnMix returns the standard mixture on fewer keys, so that most content is soon overwritten, and several packed
// blocks per second become garbage.
func churnMix() Mix {
	m := StandardMix()
	m.SmallKeys, m.LargeKeys, m.LargeRate = 480, 16, 16<<20
	return m
}

// hook is a place at which the server is killed in a full round. The first kill happens at the first visit of the
// place, later ones at a random visit, at most the given number.
type hook struct {
	place string
	times int
}

// A soak of at least longSoak must reach every hook, with at most killsMax kills.
const (
	longSoak = 30 * time.Second
	killsMax = 200
)

var hooks = []hook{
	{reclaim.HookMarked, 4},
	{reclaim.HookCopied, 4},
	{reclaim.HookSnapshot, 1},
	{reclaim.HookSwitched, 2},
	{reclaim.HookUnlinked, 2},
}

// soaker is a server that reclaims. Every second start uses a server that kills itself in a full round, at the hook that
// has killed the fewest so far. That server does not reclaim by itself, so that there is garbage when a round is requested.
type soaker struct {
	*Process
	plain, hooked string // binaries; if hooked is "", every start uses plain
	rand          *rand.Rand
	starts        int

	place  string         // the place at which the current server kills itself, or ""
	hits   map[string]int // number of kills by place
	misses map[string]int // number of servers that did not reach their place

	chains *int // kills beside a snapshot with deltas

	mu    sync.Mutex // guards total
	total reclaim.Report
	full  int // requested rounds that completed
}

func newSoaker(p *Process, plain, hooked string, seed uint64) *soaker {
	return &soaker{Process: p, plain: plain, hooked: hooked, rand: rand.New(rand.NewPCG(seed, 77)), hits: map[string]int{}, misses: map[string]int{}, chains: new(int)}
}

// Start implements Server.
func (s *soaker) Start(ctx context.Context) (string, error) {
	s.choose(s.hooked != "" && s.starts%2 == 1)
	s.starts++
	return s.Process.Start(ctx)
}

// stumble is like Process.Stumble. It never uses hooked.
func (s *soaker) stumble(after time.Duration) error {
	s.choose(false)
	return s.Process.Stumble(after)
}

func (s *soaker) choose(hooked bool) {
	s.Binary, s.Env, s.place = s.plain, nil, ""
	if hooked {
		h := hooks[0]
		for _, other := range hooks[1:] {
			if s.hits[other.place]+s.misses[other.place] < s.hits[h.place]+s.misses[h.place] {
				h = other
			}
		}
		visit := 1
		if s.hits[h.place] > 0 {
			visit += s.rand.IntN(h.times)
		}
		s.misses[h.place]++ // until it has killed the server
		s.Binary, s.place = s.hooked, h.place
		s.Env = []string{fmt.Sprintf("ORCAS_STOP=%s:%d", h.place, visit), "ORCAS_RECLAIM_ENABLED=false"}
	}
}

// round requests a full round, and returns its violations. A server that dies during the round is not one.
func (s *soaker) round(ctx context.Context) []Violation {
	report, err := s.Reclaim(ctx)
	if err != nil {
		if errors.Is(err, errRefused) {
			return failure("reclaim", err)
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full++
	s.total.BytesFreed += report.BytesFreed
	s.total.BytesMoved += report.BytesMoved
	s.total.Snapshots += report.Snapshots
	if len(report.Damaged) > 0 {
		return failure("reclaim", fmt.Errorf("damaged blocks: %v", report.Damaged))
	}
	return nil
}

// beside requests full rounds at random intervals.
func (s *soaker) beside(ctx context.Context) (list []Violation) {
	for s.place == "" && len(list) == 0 {
		select {
		case <-ctx.Done():
			return list
		case <-s.Ended():
			return list
		case <-time.After(time.Duration(s.rand.Int64N(int64(time.Second)))):
		}
		list = append(list, s.round(ctx)...)
	}
	return list
}

// down takes the server down, and checks the data directory with fsck before the next start.
func (s *soaker) down(ctx context.Context, b *Bench, l *Load) []Violation {
	list := s.kill(ctx, b, l)
	if out, err := exec.CommandContext(ctx, s.plain, "fsck", "--data", s.Data).CombinedOutput(); err != nil {
		list = append(list, failure("fsck", fmt.Errorf("%w: %s", err, out))...)
	}
	return list
}

// kill kills the server, or makes it kill itself in a round.
func (s *soaker) kill(ctx context.Context, b *Bench, l *Load) (list []Violation) {
	if s.place != "" {
		l.ExpectFailures()
		for range 3 {
			list = append(list, s.round(ctx)...)
			select {
			case <-s.Ended():
				s.hits[s.place]++
				s.misses[s.place]--
				// After HookSnapshot, all snapshots before the chain have been deleted.
				if found, err := filepath.Glob(filepath.Join(s.Data, "blocks", "*", "*", "*.snapshot")); err != nil {
					list = append(list, failure("bench", err)...)
				} else if len(found) > 1 && s.place != reclaim.HookSnapshot {
					*s.chains++
				}
				return append(list, Kill(ctx, b, l)...)
			default:
			}
		}
	}
	return append(list, Kill(ctx, b, l)...)
}

// TestReclaimSoak kills a server that reclaims under load, at random moments and at every step of a round. No
// acknowledged write may be lost, no deleted object may come back, and in the end the space of deleted objects must be
// free.
func TestReclaimSoak(t *testing.T) {
	long(t)
	row := result.Of(t, result.Row{Fault: "reclaim", Name: "SIGKILL under load, at random and at each step of a full round, with reclaim", Unit: "kills"})
	soak := time.Duration(count(t, "ORCAS_FAULTS_SOAK", 9)) * time.Second
	// The second server writes deltas however large they become, so that it is killed beside many of them.
	plain, hooked := buildServer(t, ""), buildServer(t, "large-deltas")
	hits, total, full, chains := map[string]int{}, reclaim.Report{}, 0, 0
	end := time.Now().Add(soak)
	all := func() bool {
		return chains > 0 && !slices.ContainsFunc(hooks, func(h hook) bool { return hits[h.place] == 0 })
	}
	goOn := func() bool { // a busy machine needs more time to reach every hook
		return time.Now().Before(end) || soak >= longSoak && !all() && row.Tried < killsMax
	}
	for !t.Failed() && goOn() {
		dir := workDir(t)
		b := newBench(t, plain, dir, filepath.Join(dir, "data"), loadMax)
		b.Mix = churnMix()
		s := newSoaker(b.Server.(*Process), plain, hooked, b.Seed)
		s.hits, s.chains = hits, &chains
		b.Server, b.Stumble, b.Beside = s, s.stumble, s.beside
		cycles := 0
		more := func(done int) bool {
			cycles = done
			return done < perDirectory && (goOn() || done < 2)
		}
		summary := b.RunWhile(t.Context(), more, s.down)
		judge(t, b, summary, max(cycles, summary.Downs), row)
		if !t.Failed() {
			shrinks(t, b, s)
		}
		total.BytesFreed, total.BytesMoved, total.Snapshots = total.BytesFreed+s.total.BytesFreed, total.BytesMoved+s.total.BytesMoved, total.Snapshots+s.total.Snapshots
		full += s.full
		if os.Getenv("ORCAS_FAULTS_DIR") == "" {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "data")))
		}
	}
	row.Note = fmt.Sprintf("%d full rounds completed, which moved %d MB and wrote %d snapshots; kills by step: %s; %d of these beside deltas", full, total.BytesMoved>>20, total.Snapshots, result.Counts(hits), chains)
	t.Log(row.Note)
	if soak >= longSoak && !t.Failed() {
		for _, h := range hooks {
			require.NotZero(t, hits[h.place], "no round was killed at %q", h.place)
		}
		require.NotZero(t, chains, "no round was killed beside a delta")
	}
}

// shrinks deletes most objects, reclaims, and compares the size of the blocks with the remaining content, which must
// then be complete, even after a restart.
func shrinks(t *testing.T, b *Bench, s *soaker) {
	t.Helper()
	s.choose(false)
	endpoint, err := s.Process.Start(t.Context())
	require.NoError(t, err)
	client := NewClient(endpoint, s.Credentials(), bucket, 4).WithAdmin(s.Admin())
	defer client.Close()
	live := thinOut(t, client, b.Ledger)
	for range 2 {
		require.Empty(t, s.round(t.Context()))
	}
	used := blockBytes(t, s.Data)
	t.Logf("%d bytes in blocks for %d bytes of content: %.3f", used, live, float64(used)/float64(live))
	require.LessOrEqual(t, float64(used), 1.15*float64(live)+float64(1<<20))
	for range 2 {
		report, records := Check(t.Context(), client, b.Ledger.State(), 1000)
		require.Empty(t, report.Violations)
		for _, r := range records {
			require.NoError(t, b.Ledger.Write(r))
		}
		client.Close()
		require.NoError(t, s.Kill())
		endpoint, err = s.Process.Start(t.Context())
		require.NoError(t, err)
		client = NewClient(endpoint, s.Credentials(), bucket, 4).WithAdmin(s.Admin())
	}
	require.NoError(t, s.Stop())
}

// thinOut aborts all uploads and deletes all objects except one in eight of the small ones. It returns the bytes of
// content that must remain.
func thinOut(t *testing.T, client *Client, ledger *Ledger) (live int64) {
	t.Helper()
	remove := func(send func() error, names ...Name) {
		begin := Record{Type: Begin, Request: ledger.Number()}
		for _, n := range names {
			begin.Effects = append(begin.Effects, Effect{Name: n})
		}
		require.NoError(t, ledger.Write(begin))
		require.NoError(t, send())
		require.NoError(t, ledger.Write(Record{Type: Done, Request: begin.Request}))
	}
	var uploads []Name
	require.NoError(t, client.Uploads(t.Context(), 1000, func(n Name) { uploads = append(uploads, n) }))
	for _, n := range uploads {
		remove(func() error { return client.AbortUpload(t.Context(), n) }, n)
	}
	live = thinOutVersions(t, client, ledger)
	values := map[string]Value{}
	require.NoError(t, client.List(t.Context(), 1000, func(key string, v Value) { values[key] = v }))
	var names []Name
	var keys []string
	kept := map[string]bool{} // by ETag, because copies share their content
	for i, key := range slices.Sorted(maps.Keys(values)) {
		if v := values[key]; i%8 != 0 || !strings.HasPrefix(key, "small/") {
			names, keys = append(names, Name{Key: key}), append(keys, key)
		} else if !kept[v.ETag] {
			kept[v.ETag] = true
			live += v.Size
		}
	}
	remove(func() error {
		deleted, err := client.DeleteMany(t.Context(), keys)
		if err == nil && len(deleted) != len(keys) {
			err = fmt.Errorf("only %d of %d keys were deleted", len(deleted), len(keys))
		}
		return err
	}, names...)
	return live
}

// thinOutVersions aborts all uploads in the buckets with versions, and deletes every version whose lock permits it. It
// returns the bytes of content that must remain.
func thinOutVersions(t *testing.T, client *Client, ledger *Ledger) (live int64) {
	t.Helper()
	do := func(begin Record, send func() error) {
		begin.Type, begin.Request = Begin, ledger.Number()
		require.NoError(t, ledger.Write(begin))
		require.NoError(t, send())
		require.NoError(t, ledger.Write(Record{Type: Done, Request: begin.Request}))
	}
	buckets, err := client.Buckets(t.Context())
	require.NoError(t, err)
	for name := range buckets {
		in := client.In(name)
		var uploads []Name
		require.NoError(t, in.Uploads(t.Context(), 1000, func(n Name) { uploads = append(uploads, n) }))
		for _, n := range uploads {
			n.Bucket = name
			do(Record{Effects: []Effect{{Name: n}}}, func() error {
				if err := in.AbortUpload(t.Context(), n); !missing(err) { // the lifecycle may have aborted it
					return err
				}
				return nil
			})
		}
		var all []Name
		require.NoError(t, in.ListVersions(t.Context(), "", 1000, func(key string, _ held) {
			if n := (Name{Bucket: name, Key: key}); !slices.Contains(all, n) {
				all = append(all, n)
			}
		}))
		for _, n := range all {
			list, _ := ledger.Versions(n)
			for _, v := range list {
				switch {
				case v.Lock != "" && v.Lock != lockGovernance:
					live += v.Value.Size
				case !v.unnamed():
					do(Record{Steps: []Step{{Name: n, Do: Drop, ID: v.ID}}}, func() error {
						_, err := in.DeleteVersion(t.Context(), n.Key, v.ID, v.Lock != "")
						return err
					})
				}
			}
		}
	}
	return live
}

// blockBytes returns the total length of the files of all blocks, in bytes. Space that is allocated beyond their ends
// does not count, and neither does the database.
func blockBytes(t *testing.T, data string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // reclaim deleted it in the meantime
			return nil
		case err != nil:
			return err
		}
		if slices.Contains([]string{".packed", ".large", ".snapshot"}, filepath.Ext(path)) {
			st, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			n += st.Size()
		}
		return nil
	})
	require.NoError(t, err)
	return n
}
