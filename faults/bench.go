package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Bench loads a server, takes it down, starts it again and checks, over and over, with the same data.
type Bench struct {
	Server Server
	Ledger *Ledger
	Mix    Mix
	Seed   uint64
	Logf   func(format string, args ...any)

	// The load lasts between LoadMin and LoadMax, chosen at random.
	LoadMin, LoadMax time.Duration
	// Stumble, where set, starts the server and kills it a little later, ready or not. It comes before one of three starts.
	Stumble func(after time.Duration) error
	// Beside, where set, runs beside the load until ctx ends, which it does when the server has been taken down.
	Beside func(ctx context.Context) []Violation
	// Leftovers has a run demand in the end that everything goes that a lifecycle takes.
	Leftovers bool
}

// stumbleMax is the longest time until a stumbling start is killed.
const stumbleMax = 80 * time.Millisecond

// bucket is the bucket that the bench uses.
const bucket = "faults"

// Summary is what a run amounts to.
type Summary struct {
	Downs      int           // times the server was taken down under load
	Stumbles   int           // times it was killed while it started
	Acked      int64         // operations acknowledged
	Loaded     time.Duration // under load
	Start      time.Duration // the longest time until ready
	Uncertain  int           // things that requests without an answer left open
	Read       int64         // bytes compared
	Versions   int           // versions compared, beside the objects of the main bucket
	Kept       int           // deletions of locked versions refused
	Taken      int           // what lifecycles took, and was due
	Violations []Violation
}

// String is one line for a report.
func (s Summary) String() string {
	return fmt.Sprintf("%d times down, %d of the starts killed, %d operations acknowledged (%.0f/s), %d things left open, %d MB compared, %d versions among it, %d deletions of locked ones refused, %d taken by lifecycles, ready within %v: %d violations",
		s.Downs, s.Stumbles, s.Acked, s.Rate(), s.Uncertain, s.Read>>20, s.Versions, s.Kept, s.Taken, s.Start.Round(time.Millisecond), len(s.Violations))
}

// Rate returns the acknowledged operations a second.
func (s Summary) Rate() float64 { return float64(s.Acked) / max(s.Loaded.Seconds(), 1e-9) }

// Down takes a server down that is under load, and waits until the load has ended.
type Down func(ctx context.Context, b *Bench, l *Load) []Violation

// Kill is a SIGKILL.
func Kill(_ context.Context, b *Bench, l *Load) []Violation {
	l.ExpectFailures()
	err := b.Server.Kill()
	l.Stop()
	return append(l.Wait(), failure("kill", err)...)
}

// Term is a SIGTERM: the server must end by itself, without an error.
func Term(_ context.Context, b *Bench, l *Load) []Violation {
	l.ExpectFailures()
	err := b.Server.Stop()
	l.Stop()
	return append(l.Wait(), failure("term", err)...)
}

// Power is a drive whose power can be cut.
type Power interface {
	Cut() error                        // from now on nothing lasts
	Restore(ctx context.Context) error // what is left is there again; nobody may have a file open
	Lost() string                      // says what the last cut took
}

// PowerCut cuts the power of the drive that the server's data lies on.
func PowerCut(d Power) Down {
	return func(ctx context.Context, b *Bench, l *Load) []Violation {
		var list []Violation
		step := func(err error) { list = append(list, failure("bench", err)...) }
		step(b.Ledger.Write(Record{Type: Cut}))
		begun := time.Now()
		step(d.Cut())
		took := time.Since(begun)
		step(b.Ledger.Write(Record{Type: CutDone, Text: took.String()}))
		l.Stop()
		list = append(list, l.Wait()...)
		step(b.Server.Kill())
		step(d.Restore(ctx))
		step(b.Ledger.Write(Record{Type: Rewind}))
		b.Logf("power cut in %v: %s", took.Round(time.Millisecond), d.Lost())
		return list
	}
}

// failure makes a violation of an error.
func failure(kind string, err error) []Violation {
	if err == nil {
		return nil
	}
	return []Violation{{kind, "server", err.Error()}}
}

// Run takes the server down n times, and checks after each. It ends early, after a last check, when it has found a violation.
// The server is down afterwards.
func (b *Bench) Run(ctx context.Context, n int, down Down) Summary {
	return b.RunWhile(ctx, func(done int) bool { return done < n }, down)
}

// RunWhile is Run for as long as more says so, which it is asked with the number of cycles that are done.
func (b *Bench) RunWhile(ctx context.Context, more func(done int) bool, down Down) Summary {
	var s Summary
	for i := 0; ctx.Err() == nil; i++ {
		random := rand.New(rand.NewPCG(b.Seed, uint64(i)))
		client, ok := b.start(ctx, &s, random)
		if !ok {
			break
		}
		if !more(i) || len(s.Violations) > 0 {
			if b.Leftovers && len(s.Violations) == 0 {
				s.Violations = b.leftovers(ctx, client, &s)
			}
			client.Close()
			break
		}
		load := &Load{Mix: b.Mix, Ledger: b.Ledger, Client: client, Seed: random.Uint64()}
		load.Start(ctx)
		beside := b.beside(ctx)
		after := b.LoadMin + time.Duration(random.Int64N(int64(b.LoadMax-b.LoadMin)+1))
		select {
		case <-time.After(after):
		case <-ctx.Done():
		}
		s.Violations = append(s.Violations, down(ctx, b, load)...)
		s.Violations = append(s.Violations, beside()...)
		client.Close()
		s.Downs++
		s.Acked += load.Acked()
		s.Loaded += load.Took()
		b.Logf("cycle %d: %v of load, %d acknowledged, %d violations", i+1,
			after.Round(time.Millisecond), load.Acked(), len(s.Violations))
		if slices.ContainsFunc(s.Violations, func(v Violation) bool { return v.Kind == "bench" }) {
			break
		}
	}
	s.Violations = append(s.Violations, failure("kill", b.Server.Kill())...)
	return s
}

// beside starts what runs beside a load; what it returns ends that, and says what it found.
func (b *Bench) beside(ctx context.Context) func() []Violation {
	if b.Beside == nil {
		return func() []Violation { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan []Violation, 1)
	go func() { found <- b.Beside(ctx) }()
	return func() []Violation {
		cancel()
		return <-found
	}
}

// start starts the server and checks that it has what it must have. It says whether the server can be used.
func (b *Bench) start(ctx context.Context, s *Summary, random *rand.Rand) (*Client, bool) {
	if b.Stumble != nil && random.IntN(3) == 0 {
		after := time.Duration(random.Int64N(int64(stumbleMax)))
		if err := b.Stumble(after); err != nil {
			s.Violations = append(s.Violations, failure("start", err)...)
			return nil, false
		}
		s.Stumbles++
	}
	begun := time.Now()
	endpoint, err := b.Server.Start(ctx)
	if err != nil {
		s.Violations = append(s.Violations, failure("start", err)...)
		return nil, false
	}
	took := time.Since(begun)
	s.Start = max(s.Start, took)
	client := NewClient(endpoint, b.Server.Credentials(), bucket, b.Mix.Workers)
	if err := client.CreateBucket(ctx); err != nil {
		s.Violations = append(s.Violations, failure("failed", fmt.Errorf("create bucket: %w", err))...)
		return nil, false
	}
	report, records := Check(ctx, client, b.Ledger.State(), int32(100+random.IntN(901)))
	for _, r := range records {
		if err := b.Ledger.Write(r); err != nil {
			report.Violations = append(report.Violations, failure("bench", err)...)
		}
	}
	s.Uncertain += report.Uncertain
	s.Read += report.Bytes
	s.Violations = append(s.Violations, report.Violations...)
	s.Versions += report.Versions
	s.Kept += report.Kept
	s.Taken += report.Taken
	b.Logf("ready after %v; %d objects and %d versions (%d kept by locks) of %d MB in all, %d keys without one, %d uploads, %d of these were open; %d violations",
		took.Round(time.Millisecond), report.Objects, report.Versions, report.Kept, report.Bytes>>20, report.Absent, report.Uploads,
		report.Uncertain, len(report.Violations))
	if err := b.buckets(ctx, client); err != nil {
		s.Violations = append(s.Violations, failure("failed", fmt.Errorf("the buckets with versions: %w", err))...)
		return nil, false
	}
	return client, true
}

// buckets creates the buckets with versions, locks and lifecycles that are not there yet, and sets them up.
func (b *Bench) buckets(ctx context.Context, client *Client) error {
	if !b.Mix.Versions {
		return nil
	}
	names := append(ownBuckets(b.Mix.Workers), lockBucket, lifeBucket, goneBucket)
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = b.bucket(ctx, client.In(name), name) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// bucket does so with one of them.
func (b *Bench) bucket(ctx context.Context, client *Client, name string) error {
	n, want := Name{Bucket: name}, enabled
	if name == goneBucket {
		want = ""
	}
	step := func(v *Value, send func() error) error {
		begin := Record{Type: Begin, Request: b.Ledger.Number(), Op: "set-up", Effects: []Effect{{n, v}}}
		if err := b.Ledger.Write(begin); err != nil {
			return err
		}
		if err := send(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return b.Ledger.Write(Record{Type: Done, Request: begin.Request})
	}
	now, _ := b.Ledger.Value(n)
	var err error
	switch {
	case now != nil:
	case name == lockBucket:
		err = step(&Value{Label: enabled}, func() error { return client.MakeLockedBucket(ctx) })
	default:
		err = step(&Value{}, func() error {
			if err := client.CreateBucket(ctx); err != nil || rules(name) == nil {
				return err
			}
			return client.SetRules(ctx, lifecycleOf(rules(name)))
		})
	}
	if now, _ = b.Ledger.Value(n); err == nil && now.status() == "" && want != "" {
		err = step(&Value{Label: want}, func() error { return client.SetVersioning(ctx, want) })
	}
	return err
}

// ownBuckets are the buckets of so many workers.
func ownBuckets(workers int) (list []string) {
	for i := range workers {
		list = append(list, ownBucket(i))
	}
	return list
}
