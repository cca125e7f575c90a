package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"orcas/core/ids"
	"orcas/faults"
	"orcas/faults/result"
	"orcas/server"
)

// subject is a server that can be taken down under load.
type subject interface {
	// up starts it. down takes it down in the middle of its work.
	up() (*endpoint, error)
	down() error
}

// copied is a machine that is taken down by copying its data directory.
type copied struct {
	m      *machine
	losses []database // the state of the database after each crash, in turn
	n      int
}

func (c *copied) up() (*endpoint, error) {
	err := c.m.start()
	if err == nil {
		err = c.m.remember()
	}
	return c.m.endpoint, err
}

func (c *copied) down() error {
	d := c.losses[c.n%len(c.losses)]
	c.n++
	return c.m.die(d)
}

// killed is the real binary, taken down by SIGKILL.
type killed struct {
	p   faults.Process
	ids *ids.Codec
}

func (k *killed) up() (*endpoint, error) {
	if k.ids == nil {
		if err := k.readIDs(); err != nil {
			return nil, err
		}
	}
	url, err := k.p.Start(context.Background())
	e := newEndpoint(url, k.p.Credentials(), time.Now)
	e.ids = k.ids
	return e, err
}

// readIDs opens the store in this process, to learn the form of its IDs.
func (k *killed) readIDs() error {
	root := k.p.Credentials()
	set, err := server.ReadSettings([]string{"ORCAS_ROOT_ACCESS_KEY=" + root.AccessKey, "ORCAS_ROOT_SECRET_KEY=" + root.SecretKey})
	if err != nil {
		return err
	}
	s, err := server.Open(context.Background(), server.Config{Data: k.p.Data, Address: "127.0.0.1:0", Settings: set})
	if err != nil {
		return err
	}
	k.ids = s.IDs()
	return s.Close()
}

func (k *killed) down() error { return k.p.Kill() }

// arena sends the calls of clients to a subject, and crashes it in between. A call that a crash interrupts has an
// unknown outcome. It ends when the next life of the server begins, because it cannot have an effect later.
type arena struct {
	s     subject
	begun time.Time

	mu     sync.RWMutex // guards the fields below; once a crash has increased life, acknowledgements do not count
	life   int
	e      *endpoint
	flying sync.WaitGroup // calls in progress in this life
	births []int64        // when each life after the first began
	up     chan struct{}  // closed when the life has begun
}

func (a *arena) now() int64 { return int64(time.Since(a.begun)) }

// enter waits until the server is up, and returns it and its life. The caller must call a.flying.Done after its call.
func (a *arena) enter() (*endpoint, int) {
	for {
		a.mu.RLock()
		e, life, up := a.e, a.life, a.up
		if e != nil {
			a.flying.Add(1)
			a.mu.RUnlock()
			return e, life
		}
		a.mu.RUnlock()
		<-up
	}
}

// stands reports whether a life has not ended yet, and returns the time.
func (a *arena) stands(life int) (bool, int64) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.life == life, a.now()
}

// crash takes the subject down and starts it again.
func (a *arena) crash() error {
	a.mu.Lock()
	a.life++
	old := a.e
	a.e, a.up = nil, make(chan struct{})
	a.mu.Unlock()
	err := a.s.down()
	old.http.CloseIdleConnections()
	a.flying.Wait()
	e, upErr := a.s.up()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.births = append(a.births, a.now())
	a.e = e
	close(a.up)
	return errors.Join(err, upErr)
}

// history is the calls for some pairs of keys, with their outcomes.
type history struct {
	mu   sync.Mutex // guards the fields below
	keys map[string][]porcupine.Operation
	late map[string][]lateCall
	last map[string][2]string // the last known content, for conditions
	ids  map[string][]call    // the calls that wrote versions, with their IDs
	errs []error

	versions bool // the bucket has versioning
	crowded  bool // all clients use the same one or two pairs
}

// lateCall is a call whose outcome is unknown, with the life in which it was made.
type lateCall struct {
	op   porcupine.Operation
	life int
}

const linearClients = 16

// play sends the calls of all clients, with crashes spread among them.
func (a *arena) play(bucket string, keys []string, calls, crashes int, r *rand.Rand, firstValue int) (*history, error) {
	h := &history{
		keys: map[string][]porcupine.Operation{}, late: map[string][]lateCall{}, last: map[string][2]string{}, ids: map[string][]call{},
		versions: bucket == withVersions, crowded: len(keys) <= 2,
	}
	total := linearClients * calls
	milestones := make(chan struct{}, crashes)
	var count, value int
	var wg sync.WaitGroup
	var countMu sync.Mutex // guards count and value
	for client := range linearClients {
		own := rand.New(rand.NewPCG(r.Uint64(), uint64(client)))
		wg.Go(func() {
			for range calls {
				countMu.Lock()
				count++
				value++
				number := firstValue + value
				if crashes > 0 && count%(total/(crashes+1)) == 0 && count < total {
					milestones <- struct{}{}
				}
				countMu.Unlock()
				key := keys[own.IntN(len(keys))]
				a.oneCall(h, client, bucket, key, h.draw(own, key, number))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case <-milestones:
			if err := a.crash(); err != nil {
				return h, err
			}
		case <-done:
			h.settle(a.births)
			return h, errors.Join(h.errs...)
		}
	}
}

// draw chooses a call.
func (h *history) draw(r *rand.Rand, key string, number int) call {
	kinds := []string{"get", "get", "get", "tags", "put", "put", "create", "create", "swap", "swap", "delete", "drop", "append"}
	if h.versions {
		kinds = append(kinds, "version", "version", "version")
	}
	// Writes whose results may not be read soon, and calls with unknown outcomes, multiply the possible states of a pair.
	// If all clients use the same pair, the search would not end.
	if !h.crowded {
		kinds = append(kinds, "append", "rename", "tag", "tags")
	}
	if !h.crowded && h.versions {
		kinds = append(kinds, "erase")
	}
	c := call{kind: kinds[r.IntN(len(kinds))], at: r.IntN(3) / 2, versions: h.versions, number: number}
	if h.crowded {
		c.at = 0
	}
	if r.IntN(3) == 0 && slices.Contains([]string{"put", "create", "swap"}, c.kind) {
		c.tags = number
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch c.kind {
	case "tag":
		c.tags = number
	case "swap", "drop":
		if c.match = h.last[key][c.at]; c.match == "" {
			c.match = name(1)
		}
	case "append":
		c.offset = sizeOf(h.last[key][c.at])
	case "version", "erase":
		known := h.ids[keyOf(key, c.at)]
		if len(known) == 0 {
			c.kind = "get"
			break
		}
		v := known[r.IntN(len(known))]
		c.target, c.id = v.number, v.id
	}
	return c
}

// oneCall sends a call and records it.
func (a *arena) oneCall(h *history, client int, bucket, key string, c call) {
	e, life := a.enter()
	begun := a.now()
	out, err := c.send(e, bucket, key)
	stands, ended := a.stands(life)
	a.flying.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	op := porcupine.Operation{ClientId: client, Input: c, Call: begun, Output: out, Return: ended}
	var wrong wrongResponse
	switch {
	case errors.As(err, &wrong), stands && err != nil:
		h.errs = append(h.errs, fmt.Errorf("%s %+v: %w", key, c, err))
	case stands && out.status >= 500:
		h.errs = append(h.errs, fmt.Errorf("%s %+v: status %d", key, c, out.status))
	case stands:
		h.keys[key] = append(h.keys[key], op)
		h.see(key, c, out)
		h.learn(key, c, out)
	case !c.reads(): // the result of a read may have been lost with the life
		op.Output = outcome{}
		h.late[key] = append(h.late[key], lateCall{op, life})
	}
}

// see records the last known content of a key.
func (h *history) see(key string, c call, out outcome) {
	last := h.last[key]
	switch {
	case c.kind == "get":
		last[c.at] = out.content
	case out.status == 200 && c.kind == "append":
		if sizeOf(last[c.at]) != c.offset {
			return
		}
		last[c.at] += name(c.number)
	case out.status == 200 && c.writes():
		last[c.at] = name(c.number)
	case out.status == 200 && c.kind == "rename":
		last[c.at], last[1-c.at] = "", last[c.at]
	case out.status == 204 && c.kind != "erase":
		last[c.at] = ""
	}
	h.last[key] = last
}

// learn records the ID of a version that was written.
func (h *history) learn(key string, c call, out outcome) {
	at, makes := c.makes()
	if out.id == "" || out.status >= 300 || !makes {
		return
	}
	c.id = out.id
	h.ids[keyOf(key, at)] = append(h.ids[keyOf(key, at)], c)
}

// settle sets the end of the calls with unknown outcomes, and the number of the version that each call found.
func (h *history) settle(births []int64) {
	numbers := map[string]int{}
	for _, list := range h.ids {
		for _, c := range list {
			if other, twice := numbers[c.id]; twice {
				h.errs = append(h.errs, fmt.Errorf("version ID %s was returned to calls %d and %d", c.id, other, c.number))
			}
			numbers[c.id] = c.number
		}
	}
	for _, list := range h.keys {
		for i := range list {
			out := list[i].Output.(outcome)
			out.version = numbers[out.id]
			list[i].Output = out
		}
	}
	for key, list := range h.late {
		for _, l := range list {
			l.op.Return = births[l.life]
			h.keys[key] = append(h.keys[key], l.op)
		}
	}
}

// searchMax is the time limit of the search for an order of the calls for a pair of keys. If there is a valid order, it
// is found soon. To show that there is none takes time that grows fast with the number of calls with unknown outcomes.
const searchMax = 60 * time.Second

// Before it searches all calls, judge tries random subsets of those with unknown outcomes.
const (
	fewTries = 40              // number of subsets
	fewMax   = 2 * time.Second // for each subset
)

// judge reports whether the calls for a pair of keys have an order that two registers allow. Calls with unknown
// outcomes may have happened or not, so an order with some of them is sufficient. judge first tries those whose value
// was read, which must have happened; then the deletions too; then random subsets of the others, because an effect that
// only a refusal shows is never read; and then all of them.
func judge(ops []porcupine.Operation, late bool) porcupine.CheckResult {
	if !late {
		return porcupine.CheckOperationsTimeout(registers, ops, searchMax)
	}
	seen := map[int]bool{}
	for _, op := range ops {
		c, out := op.Input.(call), op.Output.(outcome)
		if out.status == 200 || out.status == 204 {
			for _, value := range pieces(out.content + c.match) {
				seen[value] = true
			}
			if c.kind == "tags" {
				seen[out.tags] = true
			}
		}
	}
	var certain, likely []porcupine.Operation
	for _, op := range ops {
		c := op.Input.(call)
		switch unknown := op.Output.(outcome).status == 0; {
		case unknown && (c.writes() || c.kind == "tag") && seen[c.number]:
			op.Output = outcome{status: 200}
		case unknown && !c.writes():
			likely = append(likely, op)
			continue
		case unknown:
			continue
		}
		certain, likely = append(certain, op), append(likely, op)
	}
	if porcupine.CheckOperationsTimeout(registers, certain, searchMax) == porcupine.Ok {
		return porcupine.Ok
	}
	if porcupine.CheckOperationsTimeout(doubtful.ToModel(), likely, searchMax) == porcupine.Ok {
		return porcupine.Ok
	}
	r := rand.New(rand.NewPCG(uint64(len(ops)), 1))
	for range fewTries {
		few := slices.Clone(certain)
		for _, op := range ops {
			if op.Output.(outcome).status == 0 && !seen[op.Input.(call).number] && r.IntN(4) == 0 {
				few = append(few, op)
			}
		}
		if porcupine.CheckOperationsTimeout(doubtful.ToModel(), few, fewMax) == porcupine.Ok {
			return porcupine.Ok
		}
	}
	return porcupine.CheckOperationsTimeout(doubtful.ToModel(), ops, searchMax)
}

// requireLinearizable checks every key, and returns the number of keys that the search could not decide.
func (h *history) requireLinearizable(t *testing.T) (undecided int) {
	t.Helper()
	for key, ops := range h.keys {
		verdict := judge(ops, len(h.late[key]) > 0)
		if verdict == porcupine.Ok {
			continue
		}
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range ops {
			t.Logf("client %d from %d to %d: %+v: %+v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
		if verdict == porcupine.Illegal {
			t.Fatalf("the history of %q has no order that two registers allow", key)
		}
		t.Logf("the history of %q is undecided after a search of %v", key, searchMax)
		undecided++
	}
	return undecided
}

// undecidedMax is the number of keys per hundred histories that may remain undecided. The search may take longer than
// searchMax after a crash with many calls with unknown outcomes, and its progress depends on the machine. An undecided
// history is no evidence, neither for nor against the server; with many of them, the test would prove nothing.
const undecidedMax = 2

// The buckets of histories.
const (
	withoutVersions = "bucket"
	withVersions    = "versioned"
)

// linear plays histories on a subject and checks them. In every third history, the subject crashes. It adds the results
// to the row.
func linear(t *testing.T, s subject, row *result.Row, histories, calls int) {
	r := newRand(t)
	e, err := s.up()
	require.NoError(t, err)
	must(t, 200)(e.do("PUT", withoutVersions, "", "", nil))
	must(t, 200)(e.do("PUT", withVersions, "", "", nil))
	must(t, 200)(e.do("PUT", withVersions, "", "versioning=", []byte("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")))
	a := &arena{s: s, e: e, begun: time.Now()}
	values, made, crashes, unknown, undecided := 0, 0, 0, 0, 0
	for i := range histories {
		keys, each := make([]string, 4+r.IntN(5)), calls
		n := 0
		if i%3 == 2 {
			n = 1 + r.IntN(2)
		}
		// All clients use one or two pairs: the time of the search grows fast with the number of calls, and faster with
		// the number of those that a crash leaves unknown.
		if i%5 == 4 {
			keys, each = keys[:1+min(n, 1)], 4
		}
		for k := range keys {
			keys[k] = fmt.Sprintf("history-%d/%d", i, k)
		}
		h, err := a.play([]string{withoutVersions, withVersions}[i/3%2], keys, each, n, r, values)
		require.NoError(t, err)
		undecided += h.requireLinearizable(t)
		values += linearClients * calls
		crashes += n
		for key, ops := range h.keys {
			made += len(ops)
			unknown += len(h.late[key])
		}
	}
	t.Logf("%d histories, %d calls, %d of them with unknown outcome, %d crashes, %d keys undecided", histories, made, unknown, crashes, undecided)
	require.LessOrEqual(t, undecided, (undecidedMax*histories+99)/100, "the search could not decide too many histories")
	row.Tried, row.Acknowledged = row.Tried+histories, row.Acknowledged+int64(made-unknown)
	if row.Note == "" {
		row.Note = fmt.Sprintf("%d clients, %d calls per client and history, on 4 to 8 pairs of keys, with or without versioning; one or two crashes in every third history", linearClients, calls)
	}
	if undecided > 0 {
		row.Note += fmt.Sprintf("; undecided keys: %d", undecided)
	}
}

// perMachine is the number of histories on one store, which each crash copies and which only grows.
const perMachine = 60

// TestLinearizable checks that each pair of keys behaves like two registers while the server crashes, with and without
// its database.
func TestLinearizable(t *testing.T) {
	row := result.Of(t, result.Row{Fault: "linearizability", Name: "pairs of keys are registers, with versions, tags, appends and renames; crashes and lost databases included", Unit: "histories"})
	root := workDir(t)
	for left := count(t, "ORCAS_FAULTS_HISTORIES", 30, 1200); left > 0; left -= perMachine {
		m := &machine{root: filepath.Join(root, fmt.Sprint(left)), clock: time.Now}
		m.dir = m.nextDir()
		linear(t, &copied{m: m, losses: []database{kept, gone, kept, older}}, row, min(left, perMachine), count(t, "ORCAS_FAULTS_OPS", 20, 20))
		require.NoError(t, m.close())
		require.NoError(t, os.RemoveAll(m.root))
	}
}

// TestLinearizableKilled does the same to the real binary.
func TestLinearizableKilled(t *testing.T) {
	if !full() {
		t.Skip("builds the binary: set ORCAS_FAULTS_FULL=1")
	}
	dir := workDir(t)
	binary := os.Getenv("ORCAS_FAULTS_BINARY")
	if binary == "" {
		binary = filepath.Join(dir, "orcas")
		require.NoError(t, faults.Build(t.Context(), binary, "", false))
	}
	k := &killed{p: faults.Process{Binary: binary, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log")}}
	defer func() {
		require.NoError(t, k.p.Kill())
		require.Empty(t, k.p.Alarms())
	}()
	row := result.Of(t, result.Row{Fault: "linearizability", Name: "pairs of keys are registers, with versions, tags, appends and renames; SIGKILL included", Unit: "histories"})
	linear(t, k, row, count(t, "ORCAS_FAULTS_HISTORIES", 30, 200), count(t, "ORCAS_FAULTS_OPS", 20, 20))
}
