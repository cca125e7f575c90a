package model

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"orcas/faults"
	"orcas/faults/result"
)

// held is what a register, which is a key, holds: the number of a content, 0 for none, and how many tags there are on it.
type held struct{ value, tags int }

// call is what a client asks of a register.
type call struct {
	kind  string // get, put, create (If-None-Match: *), swap (If-Match), delete, drop (delete with If-Match), tag
	value int    // that it writes
	match int    // whose ETag it demands
	tags  int    // that it sets
}

// outcome is how a call ended.
type outcome struct {
	status int // 0: nobody knows
	value  int // that a get found
	tags   int // likewise
}

// register is the model of a key for porcupine where all outcomes are known.
var register = porcupine.Model{
	Init: func() any { return held{} },
	Step: func(state, input, output any) (bool, any) {
		was, in, out := state.(held), input.(call), output.(outcome)
		status, now := in.apply(was)
		return out.status == status && (in.kind != "get" || held{out.value, out.tags} == was), now
	},
}

// doubtful is the model of a key where some outcomes are unknown. It costs several times as much.
var doubtful = porcupine.NondeterministicModel{
	Init: func() []any { return []any{held{}} },
	Step: func(state, input, output any) []any {
		was, in, out := state.(held), input.(call), output.(outcome)
		if out.status == 0 {
			if _, now := in.apply(was); now != was {
				return []any{was, now}
			}
			return []any{was}
		}
		if fits, now := register.Step(state, input, output); fits {
			return []any{now}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a.(held) == b.(held) },
}

// apply returns the status that the call has to have on a register, and what the register then holds.
func (c call) apply(was held) (status int, now held) {
	switch c.kind {
	case "get", "tag":
		if was.value == 0 {
			return 404, was
		}
		if c.kind == "tag" {
			was.tags = c.tags
		}
		return 200, was
	case "create":
		if was.value != 0 {
			return 412, was
		}
	case "swap", "drop":
		if was.value == 0 {
			return 404, was
		}
		if was.value != c.match {
			return 412, was
		}
	}
	if c.kind == "delete" || c.kind == "drop" {
		return 204, held{}
	}
	return 200, held{value: c.value}
}

// valueSize returns the size of a content: mostly small, sometimes large enough for a block of its own.
func valueSize(value int) int {
	if value%24 == 0 {
		return 70_000
	}
	return 20 + value*37%3000
}

func valueBytes(value int) []byte {
	return fmt.Appendf(random(uint64(value), valueSize(value)), "=%08d", value)
}

// send makes the call. An answer that a sound server never gives is an error of the kind wrongAnswer.
func (c call) send(e *endpoint, bucket, key string) (outcome, error) {
	var h []string
	if c.match != 0 {
		h = []string{"If-Match", `"` + hexMD5(valueBytes(c.match)) + `"`}
	}
	method, query, body := "PUT", "", []byte(nil)
	switch c.kind {
	case "tag":
		query, body = "tagging=", tagSet(c.tags)
	case "get":
		method = "GET"
	case "delete", "drop":
		method = "DELETE"
	case "create":
		h = append(h, "If-None-Match", "*")
	}
	if method == "PUT" && c.kind != "tag" {
		body = valueBytes(c.value)
	}
	a, err := e.do(method, bucket, key, query, body, h...)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{status: a.status}
	if method == "GET" && a.status == 200 {
		if _, err := fmt.Sscanf(string(a.body[max(0, len(a.body)-9):]), "=%08d", &out.value); err != nil ||
			!bytes.Equal(a.body, valueBytes(out.value)) || a.etag() != hexMD5(a.body) {
			return out, wrongAnswer(fmt.Sprintf("a body that nobody wrote: %d bytes, ETag %s", len(a.body), a.etag()))
		}
		out.tags, _ = strconv.Atoi(a.header.Get("X-Amz-Tagging-Count"))
	}
	if method == "PUT" && c.kind != "tag" && a.status == 200 && a.etag() != hexMD5(body) {
		return out, wrongAnswer("ETag " + a.etag())
	}
	return out, nil
}

// tagSet is the body that gives an object n tags.
func tagSet(n int) []byte {
	b := []byte("<Tagging><TagSet>")
	for i := range n {
		b = fmt.Appendf(b, "<Tag><Key>%d</Key><Value>v</Value></Tag>", i)
	}
	return append(b, "</TagSet></Tagging>"...)
}

type wrongAnswer string

func (w wrongAnswer) Error() string { return string(w) }

// subject is a server that can be taken down under load.
type subject interface {
	// up starts it, down takes it down in the middle of whatever it does.
	up() (*endpoint, error)
	down() error
}

// copied is a machine that is taken down by a copy.
type copied struct {
	m      *machine
	losses []database // what becomes of the database in each crash, in turn
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
type killed struct{ p faults.Process }

func (k *killed) up() (*endpoint, error) {
	url, err := k.p.Start(context.Background())
	return newEndpoint(url, k.p.Credentials(), time.Now), err
}

func (k *killed) down() error { return k.p.Kill() }

// arena lets clients call a subject, and crashes it among them. A call that the crash overtakes has an unknown outcome; its time ends when the
// next life begins, since nothing of the former one can happen later.
type arena struct {
	s     subject
	begun time.Time

	mu     sync.RWMutex // guards the life; a crash holds it for writing from the moment on at which acknowledgements count no more
	life   int
	e      *endpoint
	flying sync.WaitGroup // calls of this life
	births []int64        // when each life after the first began
	up     chan struct{}  // closed when the life has begun
}

func (a *arena) now() int64 { return int64(time.Since(a.begun)) }

// enter waits until there is a server and returns it, and the life that it is in. The caller ends with a.flying.Done.
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

// stands says whether the life has not ended yet, and the time.
func (a *arena) stands(life int) (bool, int64) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.life == life, a.now()
}

// crash takes the subject down and up again.
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

// history is what happened to some keys.
type history struct {
	mu   sync.Mutex // guards what follows
	keys map[string][]porcupine.Operation
	late map[string][]lateCall
	last map[string]int // a value that was seen lately, to demand it
	errs []error

	crashes bool // there are some
}

// lateCall is a call whose outcome is unknown, with the life in which it was made.
type lateCall struct {
	op   porcupine.Operation
	life int
}

const linearClients = 16

// play lets the clients make calls, with crashes spread among them.
func (a *arena) play(bucket string, keys []string, calls, crashes int, r *rand.Rand, firstValue int) (*history, error) {
	h := &history{keys: map[string][]porcupine.Operation{}, late: map[string][]lateCall{}, last: map[string]int{}, crashes: crashes > 0}
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
func (h *history) draw(r *rand.Rand, key string, value int) call {
	kinds := []string{"get", "get", "get", "put", "put", "create", "create", "swap", "swap", "delete", "drop", "tag"}
	if h.crashes { // tags of unknown outcome multiply what a key may hold, and the search has no end
		kinds = kinds[:len(kinds)-1]
	}
	c := call{kind: kinds[r.IntN(len(kinds))]}
	switch c.kind {
	case "put", "create", "swap":
		c.value = value
	case "tag":
		c.tags = 1 + value%10
	}
	if c.kind == "swap" || c.kind == "drop" {
		h.mu.Lock()
		c.match = max(1, h.last[key])
		h.mu.Unlock()
	}
	return c
}

// oneCall makes a call and notes it.
func (a *arena) oneCall(h *history, client int, bucket, key string, c call) {
	e, life := a.enter()
	begun := a.now()
	out, err := c.send(e, bucket, key)
	stands, ended := a.stands(life)
	a.flying.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	op := porcupine.Operation{ClientId: client, Input: c, Call: begun, Output: out, Return: ended}
	var wrong wrongAnswer
	switch {
	case errors.As(err, &wrong), stands && err != nil:
		h.errs = append(h.errs, fmt.Errorf("%s %+v: %w", key, c, err))
	case stands && out.status >= 500:
		h.errs = append(h.errs, fmt.Errorf("%s %+v: status %d", key, c, out.status))
	case stands:
		h.keys[key] = append(h.keys[key], op)
		if v := max(c.value, out.value); out.status == 200 && v > 0 {
			h.last[key] = v
		}
	case c.kind != "get": // what it found may have been lost with the life
		op.Output = outcome{}
		h.late[key] = append(h.late[key], lateCall{op, life})
	}
}

// settle gives the calls of unknown outcome their end.
func (h *history) settle(births []int64) {
	for key, list := range h.late {
		for _, l := range list {
			l.op.Return = births[l.life]
			h.keys[key] = append(h.keys[key], l.op)
		}
	}
}

// searchMax is how long the search for an order of one key's calls may take. A legal history has an order that is found soon; to show
// that there is none takes time that grows fast with the calls of unknown outcome.
const searchMax = 60 * time.Second

// judge says whether the calls of a key have an order that a register allows. Those of unknown outcome may have happened or not, so an
// order of some of them is enough: first of those whose value somebody has seen, which must have happened, then of the deletions
// too, then of all.
func judge(ops []porcupine.Operation, late bool) porcupine.CheckResult {
	if !late {
		return porcupine.CheckOperationsTimeout(register, ops, searchMax)
	}
	seen := map[int]bool{}
	for _, op := range ops {
		c, out := op.Input.(call), op.Output.(outcome)
		if c.kind == "get" {
			seen[out.value] = true
		} else if c.kind == "tag" {
			continue
		} else if out.status == 200 || out.status == 204 {
			seen[c.match] = true
		}
	}
	var certain, likely []porcupine.Operation
	for _, op := range ops {
		c := op.Input.(call)
		switch unknown := op.Output.(outcome).status == 0; {
		case unknown && c.value != 0 && seen[c.value]:
			op.Output = outcome{status: 200}
		case unknown && c.value == 0:
			likely = append(likely, op)
			continue
		case unknown:
			continue
		}
		certain, likely = append(certain, op), append(likely, op)
	}
	if porcupine.CheckOperationsTimeout(register, certain, searchMax) == porcupine.Ok {
		return porcupine.Ok
	}
	if porcupine.CheckOperationsTimeout(doubtful.ToModel(), likely, searchMax) == porcupine.Ok {
		return porcupine.Ok
	}
	return porcupine.CheckOperationsTimeout(doubtful.ToModel(), ops, searchMax)
}

// requireLinearizable checks every key. What cannot be decided counts as wrong: nothing is known about it.
func (h *history) requireLinearizable(t *testing.T) {
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
		t.Fatalf("the history of %q: %v, as far as a search of %v tells", key, verdict, searchMax)
	}
}

// linear plays histories on a subject and checks them. In every third of them it crashes. It adds what came of it to the row.
func linear(t *testing.T, s subject, row *result.Row, histories, calls int) {
	r := newRand(t)
	e, err := s.up()
	require.NoError(t, err)
	must(t, 200)(e.do("PUT", "bucket", "", "", nil))
	a := &arena{s: s, e: e, begun: time.Now()}
	values, made, crashes, unknown := 0, 0, 0, 0
	for i := range histories {
		keys, each := make([]string, 4+r.IntN(5)), calls
		n := 0
		if i%3 == 2 {
			n = 1 + r.IntN(2)
		}
		if i%5 == 4 { // all at one key: the search takes time that grows fast with the length, and faster with what a crash leaves unknown
			keys, each = keys[:1+min(n, 1)], 4
		}
		for k := range keys {
			keys[k] = fmt.Sprintf("history-%d/%d", i, k)
		}
		h, err := a.play("bucket", keys, each, n, r, values)
		require.NoError(t, err)
		h.requireLinearizable(t)
		values += linearClients * calls
		crashes += n
		for key, ops := range h.keys {
			made += len(ops)
			unknown += len(h.late[key])
		}
	}
	t.Logf("%d histories, %d calls, %d of them of unknown outcome, %d crashes", histories, made, unknown, crashes)
	row.Tried, row.Acknowledged = row.Tried+histories, row.Acknowledged+int64(made-unknown)
	row.Note = fmt.Sprintf("%d clients, %d calls a client and history on 4 to 8 keys; in every third history one or two crashes", linearClients, calls)
}

// perMachine is how many histories are played on one store: each crash copies it, and it only grows.
const perMachine = 60

// TestLinearizable holds each key against a register while the server crashes, with and without its database.
func TestLinearizable(t *testing.T) {
	row := result.Of(t, result.Row{Fault: "linearizability", Name: "each key is a register, crashes and lost databases included", Unit: "histories"})
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
		t.Skip("builds the binary: ORCAS_FAULTS_FULL=1")
	}
	dir := workDir(t)
	binary := os.Getenv("ORCAS_FAULTS_BINARY")
	if binary == "" {
		binary = filepath.Join(dir, "orcas")
		require.NoError(t, faults.Build(t.Context(), binary, "", false))
	}
	k := &killed{faults.Process{Binary: binary, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log")}}
	defer func() {
		require.NoError(t, k.p.Kill())
		require.Empty(t, k.p.Alarms())
	}()
	row := result.Of(t, result.Row{Fault: "linearizability", Name: "each key is a register, SIGKILL included", Unit: "histories"})
	linear(t, k, row, count(t, "ORCAS_FAULTS_HISTORIES", 30, 200), count(t, "ORCAS_FAULTS_OPS", 20, 20))
}

// TestRegister holds the model of a register against histories of known verdicts.
func TestRegister(t *testing.T) {
	op := func(from, to int64, c call, out outcome) porcupine.Operation {
		return porcupine.Operation{Input: c, Output: out, Call: from, Return: to}
	}
	put := op(0, 10, call{kind: "put", value: 1}, outcome{status: 200})
	lost := op(20, 30, call{kind: "put", value: 2}, outcome{})
	get := func(at int64, value, status int) porcupine.Operation {
		return op(at, at+1, call{kind: "get"}, outcome{status: status, value: value})
	}
	for name, c := range map[string]struct {
		ops  []porcupine.Operation
		want bool
	}{
		"read back":                     {[]porcupine.Operation{put, get(11, 1, 200)}, true},
		"lost":                          {[]porcupine.Operation{put, get(11, 0, 404)}, false},
		"a crash may apply":             {[]porcupine.Operation{put, lost, get(31, 2, 200)}, true},
		"a crash may not apply":         {[]porcupine.Operation{put, lost, get(31, 1, 200)}, true},
		"a crash may not apply later":   {[]porcupine.Operation{put, lost, get(31, 1, 200), get(33, 2, 200)}, false},
		"a crash loses nothing else":    {[]porcupine.Operation{put, lost, get(31, 0, 404)}, false},
		"two winners":                   {[]porcupine.Operation{op(0, 9, call{kind: "create", value: 1}, outcome{status: 200}), op(0, 9, call{kind: "create", value: 2}, outcome{status: 200})}, false},
		"a refusal without a reason":    {[]porcupine.Operation{op(0, 9, call{kind: "create", value: 1}, outcome{status: 412})}, false},
		"a swap of something else":      {[]porcupine.Operation{put, op(11, 12, call{kind: "swap", value: 3, match: 2}, outcome{status: 200})}, false},
		"tags":                          {[]porcupine.Operation{put, op(11, 12, call{kind: "tag", tags: 2}, outcome{status: 200}), op(13, 14, call{kind: "get"}, outcome{200, 1, 2})}, true},
		"tags that do not last":         {[]porcupine.Operation{put, op(11, 12, call{kind: "tag", tags: 2}, outcome{status: 200}), get(13, 1, 200)}, false},
		"tags of what is gone":          {[]porcupine.Operation{op(11, 12, call{kind: "tag", tags: 2}, outcome{status: 200})}, false},
		"a crash may tag":               {[]porcupine.Operation{put, op(11, 12, call{kind: "tag", tags: 2}, outcome{}), op(13, 14, call{kind: "get"}, outcome{200, 1, 2})}, true},
		"a deletion that does not last": {[]porcupine.Operation{put, op(11, 12, call{kind: "delete"}, outcome{status: 204}), get(13, 1, 200)}, false},
	} {
		require.Equal(t, c.want, porcupine.CheckOperations(doubtful.ToModel(), c.ops), name)
		require.Equal(t, c.want, judge(c.ops, true) == porcupine.Ok, name)
	}
}
