package perf

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// data returns the data directory of the session's own server.
func (s *session) data() string { return filepath.Join(s.dir, s.sc.id) }

// remove kills a server that the run started, and deletes its data.
func (s *session) remove(p *Process) {
	p.Kill()
	_ = os.RemoveAll(filepath.Join(s.dir, p.program.Name)) // the end of the run deletes what is left
}

// runChurn puts and deletes keys alternately. Each worker has a separate share of the keys.
func runChurn(s *session) error {
	size, workers, live := s.p.sizes[0], s.p.workers[0], s.p.keys[0]
	c, base := s.contents(size), s.fresh()
	each := max(live/workers, 1)
	name := func(w *Worker, i int) string { return "churn/" + strconv.Itoa(w.ID) + "/" + strconv.Itoa(i) }
	res, err := s.load(&Load{Workers: workers, Duration: s.p.duration, MaxBytes: s.p.maxBytes, Script: true, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) {
		made, _ := w.State.([2]int) // the number of keys put, and the number of those deleted
		defer func() { w.State = made }()
		if made[0]-made[1] >= each || made[0] > 2*made[1]+each/2 && made[1] < made[0] {
			made[1]++
			return loadgen.Request{Op: "delete", Method: http.MethodDelete, Path: s.path(name(w, made[1]-1))}, Expect{Status: http.StatusNoContent}
		}
		made[0]++
		return s.put(w, c, name(w, made[0]-1), base+n)
	}})
	if err != nil {
		return err
	}
	for _, op := range []string{"put", "delete", "all"} {
		s.add(res, op, "", size)
	}
	if s.main == nil {
		s.out.Note = strings.TrimSpace(s.out.Note + " The disk usage of the server cannot be measured from here.")
		return nil
	}
	return s.reclaimed()
}

// reclaimed waits until the store has not shrunk for 10 s (1 s with the profile smoke).
func (s *session) reclaimed() error {
	settle := 10 * time.Second
	if s.o.Profile == Smoke {
		settle = time.Second
	}
	s.o.Progress.Step("waiting for reclaim")
	_, before, err := usage(s.data())
	if err != nil {
		return err
	}
	after := before
	for quiet := time.Now(); time.Since(quiet) < settle && s.ctx.Err() == nil; {
		sleep(s.ctx, settle/10)
		_, now, err := usage(s.data())
		if err != nil {
			return err
		}
		if now < after {
			after, quiet = now, time.Now()
		}
	}
	s.out.Values["disk_bytes_before_reclaim"], s.out.Values["disk_bytes_after_reclaim"] = float64(before), float64(after)
	if after >= before {
		s.out.Note = strings.TrimSpace(s.out.Note + fmt.Sprintf(" No space was reclaimed within %v: this server keeps the space of deleted objects.", settle))
	}
	return s.ctx.Err()
}

// runFootprint fills a store, and starts the server after a stop, after a kill, and without its database.
func runFootprint(s *session) error {
	if s.main == nil {
		return needsOwn
	}
	size, keys := s.p.sizes[0], s.p.keys[0]
	c, name := s.contents(size), seedName(size)
	start := time.Now()
	if err := s.seed(c, keys, name); err != nil {
		return err
	}
	v := s.out.Values
	v["keys"], v["fill_sec"] = float64(keys), time.Since(start).Seconds()
	idle, peak := ResidentBytes(s.main.PID)
	v["rss_full_bytes"], v["rss_peak_bytes"] = float64(idle), float64(peak)
	for _, step := range []struct {
		name string
		end  func() error
	}{
		{"stop", func() error { s.main.Stop(); return nil }},
		{"kill", func() error { s.main.Kill(); return nil }},
		{"rebuild", func() error {
			s.main.Stop()
			return removeDatabase(s.data())
		}},
	} {
		s.o.Progress.Step("start after " + step.name)
		if step.name == "kill" { // give the recovery something to do
			if err := s.seed(c, min(keys, 2000), func(n uint64) string { return "more/" + name(n) }); err != nil {
				return err
			}
		}
		if err := step.end(); err != nil {
			return err
		}
		if step.name == "stop" {
			if err := s.measureDisk(keys, size); err != nil {
				return err
			}
		}
		if err := s.again(); err != nil {
			return err
		}
		now, _ := ResidentBytes(s.main.PID)
		v["start_after_"+step.name+"_sec"], v["rss_after_"+step.name+"_bytes"] = s.main.ReadyAfter.Seconds(), float64(now)
		res, err := s.load(&Load{Workers: 16, Count: uint64(min(keys, 1000)), Script: true, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			number := scatter(n, keys)
			return s.get(c, name(number), number)
		}})
		if err != nil {
			return fmt.Errorf("reading back after %s: %w", step.name, err)
		}
		row := s.add(res, "get", "after "+step.name, size)
		row.Values = map[string]float64{"start_sec": s.main.ReadyAfter.Seconds()}
	}
	s.footprintGoals()
	return nil
}

// footprintGoals compares the figures with the goals for a store of small objects.
func (s *session) footprintGoals() {
	v := s.out.Values
	for _, g := range []struct {
		name, limit string
		value, most float64
	}{
		{"bytes per object beyond its content", "at most 700", v["bytes_beyond_content_per_object"], 700},
		{"files", "at most 2000 per million", v["files_per_object"] * v["keys"], max(2000*v["keys"]/1e6, 20)},
		{"RSS after a start, idle, in MiB", "at most 64", v["rss_after_stop_bytes"] / mib, 64},
	} {
		s.out.Goals = append(s.out.Goals, result.Goal{Name: g.name, Value: g.value, Limit: g.limit, Met: g.value <= g.most})
	}
}

// measureDisk counts the files and bytes of a stopped server.
func (s *session) measureDisk(keys, size int) error {
	files, bytes, err := usage(s.data())
	if err != nil {
		return err
	}
	n, v := float64(keys), s.out.Values
	v["disk_bytes_per_object"], v["files_per_object"] = float64(bytes)/n, float64(files)/n
	v["bytes_beyond_content_per_object"] = float64(bytes)/n - float64(size)
	return nil
}

// removeDatabase deletes the database of a stopped server. Its blocks contain the metadata too.
func removeDatabase(data string) error {
	files, err := filepath.Glob(filepath.Join(data, "metadata.db*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("no database was found to delete")
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return nil
}

// runEncrypted compares PUT and GET of content that the server encrypts with content that it does not encrypt,
// alternately on one server. A server that the run starts gets a master key; any other server must have one.
func runEncrypted(s *session) error {
	if s.main != nil {
		s.main.Stop()
		key := rand.Text() + rand.Text()[:17] + "=" // Base64 of 32 bytes
		s.main.program.Env = append(s.main.program.Env, "ORCAS_MASTER_KEY="+key, "ORCAS_INSTANT_UPLOAD_ENABLED=false")
		if err := s.again(); err != nil {
			return err
		}
	}
	header := []loadgen.Header{{Name: "X-Amz-Server-Side-Encryption", Value: "AES256"}}
	c := s.contents(kib)
	body, sha := c.Body(0, nil)
	if err := s.serves(loadgen.Request{Method: http.MethodPut, Path: s.path("probe"), Body: body, Hash: sha, Header: header}); err != nil {
		return err
	}
	for _, size := range s.p.sizes {
		if err := s.encryptedSize(size, [2][]loadgen.Header{nil, header}); err != nil {
			return err
		}
	}
	return nil
}

// encryptedSize compares objects of one size that are put with two sets of headers. The second row of each pair
// contains the ratio to the first.
func (s *session) encryptedSize(size int, headers [2][]loadgen.Header) error {
	variants := [2]string{"plain", "encrypted"}
	c, keys := s.contents(size), s.p.keys[0]
	name := func(variant int, n uint64) string {
		return variants[variant] + "-" + strconv.Itoa(size) + "/" + key(n%uint64(keys))
	}
	put := func(w *Worker, variant int, key string, n uint64) (loadgen.Request, Expect) {
		call, want := s.put(w, c, key, n)
		call.Header = headers[variant]
		return call, want
	}
	loads := [...]struct {
		op   string
		next func(variant int) func(w *Worker, n uint64) (loadgen.Request, Expect)
	}{
		{"put", func(variant int) func(w *Worker, n uint64) (loadgen.Request, Expect) {
			return func(w *Worker, n uint64) (loadgen.Request, Expect) {
				return put(w, variant, "put-"+name(variant, n), n)
			}
		}},
		{"get", func(variant int) func(w *Worker, n uint64) (loadgen.Request, Expect) {
			return func(_ *Worker, n uint64) (loadgen.Request, Expect) {
				number := scatter(n, keys)
				return s.get(c, name(variant, number), number)
			}
		}},
	}
	s.o.Progress.Step(sizeText(int64(size)))
	s.out.SeedCount += 2 * keys
	for variant := range variants {
		_, err := s.load(&Load{Workers: min(4, keys), Count: uint64(keys), Script: true, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) { return put(w, variant, name(variant, n), n) }})
		if err != nil {
			return err
		}
	}
	for _, l := range loads {
		var rows [2][]result.Row
		for turn := range max(s.p.turns, 1) {
			for i := range variants {
				variant := (turn + i) % 2
				res, err := s.load(&Load{Workers: s.p.workers[0], Duration: s.p.duration, Next: l.next(variant)})
				if err != nil {
					return err
				}
				rows[variant] = append(rows[variant], res.Row(l.op))
			}
		}
		plain, encrypted := medianRow(rows[0]), medianRow(rows[1])
		encrypted.Values = map[string]float64{"of_plain": encrypted.ThroughputRPS / plain.ThroughputRPS}
		for i, row := range []*result.Row{&plain, &encrypted} {
			row.Variant, row.SizeBytes = variants[i], int64(size)
			s.out.Results = append(s.out.Results, *row)
			s.o.Progress.Row(rowText(row))
		}
	}
	return nil
}

// runOnlyCeilings does nothing, because every run with its own servers begins by measuring the ceilings.
func runOnlyCeilings(s *session) error {
	if s.doc.Ceilings == nil {
		return needsOwn
	}
	s.out.Results = append([]result.Row(nil), s.doc.Ceilings.Null...)
	return nil
}
