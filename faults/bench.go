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
	// Stumble, if set, starts the server and kills it shortly after, whether or not it is ready. It is called before a
	// third of the starts.
	Stumble func(after time.Duration) error
	// Beside, if set, runs concurrently with the load until ctx ends, when the server has been taken down.
	Beside func(ctx context.Context) []Violation
	// AtRisk is set for a server that acknowledges writes before they are durable. It returns the maximum age of a write
	// that a power cut at this moment could lose.
	AtRisk func(ctx context.Context) (time.Duration, error)
	// Leftovers makes a run check at its end that everything that has expired is deleted.
	Leftovers bool
}

// stumbleMax is the longest time until a stumbling start is killed.
const stumbleMax = 80 * time.Millisecond

// bucket is the bucket that the bench uses.
const bucket = "faults"

// Summary is the result of a run.
type Summary struct {
	Downs      int           // times the server was taken down under load
	Stumbles   int           // times the server was killed during a start
	Acked      int64         // operations acknowledged
	Loaded     time.Duration // time under load
	Start      time.Duration // the longest time until the server was ready
	Uncertain  int           // items whose value was uncertain because of requests without a response
	Read       int64         // bytes compared
	Versions   int           // versions compared, in addition to the objects of the main bucket
	Kept       int           // deletions of locked versions that were refused
	Identities int           // identities and parts of identities that existed at the last start
	Taken      int           // expired versions, markers and uploads that lifecycles deleted
	Violations []Violation
}

// String returns the summary as one line for a report.
func (s Summary) String() string {
	return fmt.Sprintf("taken down %d times, killed during %d starts, %d operations acknowledged (%.0f/s), %d uncertain items, %d MB and %d versions compared, %d deletions of locked versions refused, %d items deleted by lifecycles, ready within %v: %d violations",
		s.Downs, s.Stumbles, s.Acked, s.Rate(), s.Uncertain, s.Read>>20, s.Versions, s.Kept, s.Taken, s.Start.Round(time.Millisecond), len(s.Violations))
}

// Rate returns the number of acknowledged operations per second.
func (s Summary) Rate() float64 { return float64(s.Acked) / max(s.Loaded.Seconds(), 1e-9) }

// Down takes down a server under load, and waits until the load has ended.
type Down func(ctx context.Context, b *Bench, l *Load) []Violation

// Kill is a Down that sends SIGKILL.
func Kill(_ context.Context, b *Bench, l *Load) []Violation {
	l.ExpectFailures()
	err := b.Server.Kill()
	l.Stop()
	return append(l.Wait(), failure("kill", err)...)
}

// Term is a Down that sends SIGTERM. The server must then end without an error.
func Term(_ context.Context, b *Bench, l *Load) []Violation {
	l.ExpectFailures()
	err := b.Server.Stop()
	l.Stop()
	return append(l.Wait(), failure("term", err)...)
}

// Power is a drive whose power can be cut.
type Power interface {
	Cut() error                        // cuts the power: later writes are lost
	Restore(ctx context.Context) error // restores the data that survived the cut; no file may be open
	Lost() string                      // describes the losses of the last cut
}

// PowerCut returns a Down that cuts the power of the drive with the server's data.
func PowerCut(d Power) Down {
	return func(ctx context.Context, b *Bench, l *Load) []Violation {
		var list []Violation
		step := func(err error) { list = append(list, failure("bench", err)...) }
		begun := time.Now()
		cut := Record{Type: Cut}
		if b.AtRisk != nil {
			window, err := b.AtRisk(ctx)
			step(err)
			cut.Window = window + time.Since(begun)
		}
		step(b.Ledger.Write(cut))
		begun = time.Now()
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

// failure converts an error to a violation.
func failure(kind string, err error) []Violation {
	if err == nil {
		return nil
	}
	return []Violation{{kind, "server", err.Error()}}
}

// Run takes the server down n times, and checks it after each restart. After a violation, it restarts and checks the
// server once more and ends. When it returns, the server is down.
func (b *Bench) Run(ctx context.Context, n int, down Down) Summary {
	return b.RunWhile(ctx, func(done int) bool { return done < n }, down)
}

// RunWhile is like Run, but continues as long as more returns true. done is the number of completed cycles.
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

// beside starts Bench.Beside. The returned function ends it, and returns its violations.
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

// start starts the server and checks its content. It reports whether the server can be used.
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
	client := NewClient(endpoint, b.Server.Credentials(), bucket, b.Mix.Workers).WithAdmin(b.Server.Admin())
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
	s.Identities = report.Identities
	s.Kept += report.Kept
	s.Taken += report.Taken
	b.Logf("ready after %v: %d objects, %d versions (%d locked), %d MB in all, %d keys without an object, %d uploads, %d identities and their parts, %d uncertain items; %d violations",
		took.Round(time.Millisecond), report.Objects, report.Versions, report.Kept, report.Bytes>>20, report.Absent, report.Uploads, report.Identities,
		report.Uncertain, len(report.Violations))
	if err := b.buckets(ctx, client); err != nil {
		s.Violations = append(s.Violations, failure("failed", fmt.Errorf("set up the buckets with versions: %w", err))...)
		return nil, false
	}
	return client, true
}

// buckets creates and configures the missing buckets with versions, locks and lifecycles.
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

// bucket creates and configures one bucket, if necessary.
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

// ownBuckets returns the buckets of the given number of workers.
func ownBuckets(workers int) (list []string) {
	for i := range workers {
		list = append(list, ownBucket(i))
	}
	return list
}
