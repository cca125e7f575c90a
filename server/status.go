package server

import (
	"context"
	"math"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"orcas/admin"
	"orcas/core"
	"orcas/gate/session"
	"orcas/iam"
	"orcas/internal/bytesize"
	"orcas/s3"
	"orcas/s3/lifecycledoc"
	"orcas/survey"
)

// tools returns what the admin API needs to show and change what the server does.
func (s *Server) tools() admin.Tools {
	var names []string
	for _, r := range slices.Concat(s3.Routes(), iam.Routes(), admin.Routes(), session.Routes()) {
		names = append(names, r.Name)
	}
	return admin.Tools{
		Watch: &s.view.hub, Operations: names, Status: s.status, LogLevel: s.logLevel, SetLogLevel: s.setLogLevel, FlushCache: s.flushCache, Load: s.load, History: s.view.history.document, LogTail: s.view.tail.read, Usage: s.view.usage.document,
		ParseLifecycle: lifecycledoc.Parse, FormatVersion: s.ids.Version,
		Recheck: s.config.recheck,
	}
}

// flushCache drops the caches of the metadata, and returns how much less memory the heap needs.
func (s *Server) flushCache() int64 {
	debug.FreeOSMemory()
	before := memoryInUse().Heap
	if r, ok := core.As[core.MemoryReleaser](s.meta); ok {
		r.ReleaseMemory(time.Hour)
	}
	debug.FreeOSMemory() // the first collection keeps the contents of pools
	debug.FreeOSMemory()
	return max(int64(before)-int64(memoryInUse().Heap), 0)
}

// memoryInUse returns the memory of the process.
func memoryInUse() admin.Memory {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(samples)
	m := admin.Memory{Used: samples[0].Value.Uint64() - samples[1].Value.Uint64(), Heap: samples[2].Value.Uint64()}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 { // a negative limit changes nothing
		m.Limit = limit
	}
	return m
}

// load returns what the server is doing at this moment.
func (s *Server) load() admin.Load {
	l := admin.Load{Queue: s.writer.Queued(), Connections: s.listener.open()}
	if s.view.inFlight != nil {
		l.InFlight = s.view.inFlight()
	}
	return l
}

// status returns what a page about the health of the server needs.
func (s *Server) status(r *http.Request) (*admin.Status, error) {
	set := &s.config.Settings
	st := &admin.Status{
		State: s.state(), Version: Version(), Started: s.view.started.UTC(), Uptime: time.Since(s.view.started).Seconds(),
		Durability: string(set.Durability), Warnings: []admin.Warning{}, Load: s.load(), Requests: s.requests.Load(), Memory: memoryInUse(),
		LogLevel: s.logLevel(),
	}
	if err := s.writer.Err(); err != nil {
		st.Refused = core.Text(err)
	}
	if drive, err := set.MinFree.drive(r.Context(), s.blocks); err == nil {
		st.Drive = &drive
	} else {
		st.Warnings = append(st.Warnings, admin.Warning{
			Problem: "the free space of the drive cannot be determined: " + core.Text(err),
			Action:  "mount the file system with the data directory if it is gone; otherwise check the drive",
		})
	}
	if set.Durability == Relaxed {
		st.Relaxed = s.lag()
	}
	s.addWork(st)
	st.Missing.Comparing = s.comparing()
	if last, _ := s.compared(); last != nil {
		st.Missing.Blocks = len(last.Missing)
		st.Missing.Contents, st.Missing.Bytes = last.Lost()
	}
	for name, c := range map[string]*certificate{"admin": s.adminCert, "s3": s.view.cert} {
		if c == nil {
			continue
		}
		if end := c.expires(); !end.IsZero() {
			st.Certificates = append(st.Certificates, admin.Certificate{Listener: name, Expires: end})
		}
	}
	st.LogDropped = s.logBuffer.Lost()
	s.view.audit.Dropped(func(sink string, n int64) {
		st.Audit = append(st.Audit, admin.AuditState{Sink: sink, Dropped: n})
	})
	s.addWarnings(st)
	return st, nil
}

// drive returns the space on the drive of blocks, or zeros if it is not known.
func (r Reserve) drive(ctx context.Context, blocks core.Blocks) (d admin.Drive, err error) {
	if spacer, ok := core.As[core.Spacer](blocks); ok {
		d.Free, d.Total, err = spacer.Space(ctx)
		d.Reserve = r.of(d.Total)
	}
	return d, err
}

// isFull reports whether PUT is refused because a drive has reached its reserve.
func isFull(d admin.Drive) bool { return d.Total > 0 && d.Free <= d.Reserve }

// addWork adds the state of the background work, and what it has found.
func (s *Server) addWork(st *admin.Status) {
	reclaiming, scrubbing := s.reclaimer.Status(), s.scrubber.Status()
	st.Readers = admin.Readers{Count: reclaiming.Readers, Oldest: reclaiming.OldestReader, Pinned: reclaiming.PinnedBytes}
	st.Work = s.work()
	st.Scrub = admin.ScrubState{Found: scrubbing.EverFound, Repaired: scrubbing.Repaired, Damaged: scrubbing.Found}
	if scrubbing.BytesTotal > 0 {
		st.Scrub.Progress = min(float64(scrubbing.BytesDone)/float64(scrubbing.BytesTotal), 1)
	}
	last := s.survey.Last()
	st.Store = holdings(last)
	if last != nil && !last.SpaceAt.IsZero() {
		st.Saved = &admin.Saved{
			Files: max(0, last.Total.Versions-last.Space.Blocks), BytesStored: max(0, last.Space.Logical-last.Space.Live), BytesSent: s.view.unsent(),
		}
	}
}

// work returns the state of all background work.
func (s *Server) work() []admin.Work {
	set, r, c, l := &s.config.Settings, s.reclaimer.Status(), s.scrubber.Status(), s.lifecycle.Status()
	surveying, surveyed, err := s.survey.Status()
	list := []admin.Work{
		{Name: "reclaim", Enabled: set.Reclaim, Running: r.Running, Success: known(r.LastSuccess), Error: r.Last.Error,
			Ended: endOf(r.Last.Started, r.Last.Seconds)},
		{Name: "snapshot", Enabled: set.Reclaim, Running: r.Running && r.Phase == "snapshot", Success: known(r.LastSnapshot),
			Ended: known(r.LastSnapshot)},
		{Name: "scrub", Enabled: set.ScrubPeriod > 0, Running: c.Running, Success: known(c.PassEnded), Error: c.Error, Ended: known(c.PassEnded)},
		{Name: "lifecycle", Enabled: set.Lifecycle > 0, Running: l.Running, Success: known(l.LastSuccess), Error: l.Last.Error,
			Ended: endOf(l.Last.Started, l.Last.Seconds)},
		{Name: "survey", Enabled: true, Running: surveying, Success: known(surveyed), Ended: known(surveyed)},
	}
	if err != nil {
		list[len(list)-1].Error = core.Text(err)
	}
	return list
}

// holdings returns the result of a survey, or nil if there is none.
func holdings(r *survey.Result) *admin.Holdings {
	if r == nil {
		return nil
	}
	h := &admin.Holdings{
		Time: r.At.UTC(), Buckets: len(r.Buckets), Objects: r.Total.Objects(), Versions: r.Total.Versions,
		NoncurrentBytes: r.Total.NoncurrentBytes, Uploads: r.Total.Uploads,
	}
	if !r.SpaceAt.IsZero() {
		h.Space = &admin.Space{
			Time: r.SpaceAt.UTC(), Logical: r.Space.Logical, Stored: r.Space.Stored, Live: r.Space.Live, Reclaimable: r.Space.Reclaimable(),
			Deduplication: r.Space.Deduplication(), Compression: r.Space.Compression(),
		}
	}
	return h
}

// known returns a time, or nil if it is zero.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// endOf returns the end of work, or nil if it has not begun.
func endOf(started time.Time, seconds float64) *time.Time {
	if started.IsZero() {
		return nil
	}
	return known(started.Add(time.Duration(seconds * float64(time.Second))))
}

// expiresSoon is the time before the end of a certificate from which on there is a warning.
const expiresSoon = 14 * 24 * time.Hour

// plural returns the text for one or for n, in which %d stands for n.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return strings.ReplaceAll(many, "%d", strconv.Itoa(n))
}

// failedWork returns what is wrong with background work whose last run failed, and what to do about it.
func failedWork(w admin.Work) (problem, action string) {
	var command string
	switch w.Name {
	case "reclaim":
		problem, command = "reclaim failed, so deleted content keeps its space: ", "orcas admin reclaim --wait"
	case "scrub":
		problem, command = "the scrub failed before it had verified everything: ", "orcas admin scrub --wait"
	case "lifecycle":
		problem, command = "not all lifecycle rules were applied, so expired objects remain: ", "orcas admin lifecycle run --wait"
	default: // no command starts it
		return "the " + w.Name + " failed: " + w.Error, "the server tries again by itself; if the warning stays, correct the cause"
	}
	action = "correct the cause, and run " + command
	if w.Enabled {
		action = "the server tries again by itself; if the warning stays, " + action
	}
	return problem + w.Error, action
}

// auditAction returns what to do about a sink of the audit log that fails.
func auditAction(sink string) string {
	action := "free space on the drive of ORCAS_AUDIT_FILE, or correct its permissions"
	if sink == "webhook" {
		action = "repair the receiver of ORCAS_AUDIT_WEBHOOK, or the network or the token"
	}
	return action + "; until then requests are served, and up to 8 MiB of records wait in memory: a stop of the server loses them, and further ones are dropped"
}

// addWarnings adds the problems that need attention.
func (s *Server) addWarnings(st *admin.Status) {
	warn := func(problem, action string) {
		st.Warnings = append(st.Warnings, admin.Warning{Problem: problem, Action: action})
	}
	if st.Refused != "" {
		warn("writes are refused: "+st.Refused, "see the server's log; if blocks are missing, mount their file system and run orcas admin lost; otherwise correct the cause and restart the server")
	}
	if st.Missing.Blocks > 0 {
		warn(plural(st.Missing.Blocks, "1 block", "%d blocks")+" with "+plural(st.Missing.Contents, "1 piece", "%d pieces")+" of content "+
			plural(st.Missing.Blocks, "is", "are")+" missing",
			"list the affected objects with orcas admin lost, and restore them from a backup")
	}
	if n := st.Scrub.Damaged; n > 0 {
		warn(plural(n, "1 piece of content is", "%d pieces of content are")+" damaged and could not be repaired",
			"list them with orcas admin scrub --status --json, restore them from a backup, and check the drive")
	}
	switch d := st.Drive; {
	case d == nil:
	case isFull(*d):
		warn("the drive is full: PUT is refused with 507", "delete objects, or enlarge the drive")
	case d.Total > 0 && d.Free-d.Reserve < d.Total/20:
		warn("the drive is nearly full: "+bytesize.Round(max(d.Free-d.Reserve, 0))+" can be written", "delete objects, or enlarge the drive")
	}
	if n := s.content.Waiting(); n > 0 {
		warn(plural(n, "1 upload waits", "%d uploads wait")+" for memory, because other uploads use all of it; after 30 s such an upload gets 503",
			"if this happens often, raise the memory limit ("+memoryVariable+", or that of the control group), or look for clients that upload slowly")
	}
	for _, w := range st.Work {
		if w.Error != "" {
			problem, action := failedWork(w)
			warn(problem, action)
		}
	}
	for _, c := range st.Certificates {
		if left := time.Until(c.Expires); left < expiresSoon {
			warn("the certificate of the "+c.Listener+" address expires at "+c.Expires.Format(time.RFC3339), "replace its files, which the server reloads; a self-signed certificate is regenerated at a restart")
		}
	}
	if problem := s.logBuffer.Problem(); problem != "" {
		warn(problem, "check the program or the drive that the server's standard error goes to; requests are served, and further lines may be lost")
	}
	for _, f := range s.view.audit.Failures() {
		warn(strings.ToUpper(f.Problem[:1])+f.Problem[1:], auditAction(f.Sink))
	}
}
