package iofault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// point is a script with a fault at one operation.
type point struct {
	bench  *Bench
	drive  *Drive
	script Script
	fault  Fault

	data         string // the data directory, as the server sees it
	back         string // the same directory, below the drive
	run          *run
	server       *process
	struck       Struck
	then         string // the state of the server after the fault
	slowestStart time.Duration
	wrong        []string
}

func (p *point) bad(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

// try runs the script with the fault, and then checks the server. An error means that the bench itself failed.
func (p *point) try() error {
	name := fmt.Sprintf("%s-%s-%d", p.script.Name, p.fault.Action, p.fault.At)
	base := p.bench.base
	p.back = filepath.Join(p.bench.Dir, "back-"+strings.TrimPrefix(filepath.Base(p.drive.Dir()), "drive-"), name)
	p.data = filepath.Join(p.drive.Dir(), name)
	if base.dir != "" {
		if err := copyDir(base.dir, p.back); err != nil {
			return err
		}
	}
	p.run = p.bench.run(base.model.clone(), pointIDs)
	p.run.killed = p.fault.Action == KILL
	p.run.backupDir = p.data + "-backup"
	p.withFault()
	if err := p.drive.Lose(); err != nil {
		return err
	}
	return errors.Join(p.afterwards(), os.RemoveAll(p.back), os.RemoveAll(p.back+"-backup"))
}

// withFault runs the script with the fault until the server has ended. A server that survived the fault ends in one of
// four ways, in turn from point to point: it is checked and then stopped while the fault is still set; it is stopped,
// or killed, after the fault was removed; or it is killed immediately after the first failed request, before anything
// else is written.
func (p *point) withFault() {
	ending := (p.fault.At + p.bench.Turn) % 4
	p.run.hasty = ending == 3 && !p.script.Stop
	if !p.begin() {
		return
	}
	p.run.c = newClient(p.server)
	p.script.Steps(p.run)
	p.wrong = append(p.wrong, p.run.wrong...)
	p.struck = p.drive.Struck()
	if p.fault.Action == KILL && p.struck.Times > 0 {
		p.then = killed
		<-p.server.exited
		p.drive.Lift()
		p.end(nil)
		return
	}
	switch {
	case p.script.Stop:
		p.then = stopped
		p.stop(true)
		if p.struck = p.drive.Lift(); p.struck.Times > 0 && p.run.killed {
			p.then = killed
		}
	case p.struck.Times == 0:
		p.drive.Lift()
		p.stop(false)
	case p.run.hasty:
		p.then = killed
		p.server.kill()
		p.drive.Lift()
	case ending == 0:
		p.check(p.fault.ForEver, false)
		p.then = p.probe(p.fault.ForEver)
		p.stop(p.fault.ForEver || p.then != wentOn)
		p.drive.Lift()
	default:
		p.check(p.fault.ForEver, false)
		p.drive.Lift()
		p.check(false, false)
		p.then = p.probe(false)
		if ending == 1 {
			p.stop(p.then != wentOn)
		} else {
			p.server.kill()
		}
	}
	p.end(nil)
}

// begin starts the server and sets the fault, in the order that the script requires. It reports whether the server is
// running.
func (p *point) begin() bool {
	var err error
	arm := func(kill func()) { p.drive.Set(p.fault, kill) }
	if !p.script.FromStart {
		if p.server, err = p.start(nil); err != nil {
			p.end(err)
			return false
		}
		arm(func() { p.server.signal(syscall.SIGKILL) })
		return true
	}
	if p.server, err = p.start(arm); err == nil {
		return true
	}
	p.struck = p.drive.Lift()
	p.then = didntStart
	if p.run.killed {
		p.then = killed
	}
	if p.struck.Times > 0 && errors.Is(err, errEnded) {
		err = nil
	}
	p.end(err)
	return false
}

// start starts the server with the environment that it needs at this stage of the script.
func (p *point) start(armed func(kill func())) (*process, error) {
	env := p.script.Env
	if p.run.rotated {
		env = p.script.Rotated
	}
	return start(p.bench.Binary, p.data, p.bench.env(env), armed)
}

// end records what was wrong with a server that has ended: err, or a panic.
func (p *point) end(err error) {
	if err != nil {
		p.bad("the start failed: %v: %s", err, p.server.tail())
	}
	if text := p.server.panicked(); text != "" {
		p.bad("panic: %s", text)
	}
}

// stop stops the server. If failing is set, its exit status does not matter.
func (p *point) stop(failing bool) {
	if err := p.server.stop(); err != nil && (!failing || strings.HasPrefix(err.Error(), "hang")) {
		p.bad("the stop failed: %v: %s", err, p.server.tail())
	}
}

// check compares everything with the model, unless the bucket may be missing. If failing is set, reads may fail.
func (p *point) check(failing, settle bool) {
	if !p.run.m.bucket {
		return
	}
	k := checker{c: newClient(p.server), m: p.run.m, reads: !failing, settle: settle}
	if wrong := k.check(); len(wrong) > 0 {
		for _, what := range wrong {
			p.bad("%s", what)
		}
		if base := p.bench.base.dir; base != "" {
			p.bad("the blocks: %s", compareBlocks(base, p.back))
		}
		p.bad("the end of the log: %s", p.server.last(8<<10))
	}
}

// The states of a server after a fault.
const (
	wentOn     = "continued"
	refused    = "refused writes until a restart" // with 503
	fails      = "failed writes while the drive failed"
	didntStart = "did not start"
	stopped    = "stopped"
	killed     = "killed"
)

// probe writes an object and returns the state of the server. failing means that the drive still fails.
func (p *point) probe(failing bool) string {
	p.run.over = false
	before := p.run.failed
	p.run.failed = map[string]int{}
	ok := (p.run.m.bucket || p.run.createBucket()) && p.run.put("probe", 10)
	text := ""
	for k := range p.run.failed {
		text = k
	}
	p.run.failed = before
	switch {
	case ok:
		return wentOn
	case strings.HasPrefix(text, "503 "):
		return refused
	case !failing:
		p.bad("a write after the fault failed: %s: %s", text, p.server.tail())
	}
	return fails
}

// afterwards starts the server twice more, without a fault, and checks everything. If the script has a rotation, it
// starts the server a third time, without the database.
func (p *point) afterwards() error {
	if p.fault.Action == KILL && p.fault.ForEver && p.struck.Times > 0 {
		p.crashLoop()
	}
	starts := 2
	if p.script.Rotated != nil {
		starts = 3
	}
	for i := range starts {
		if i == 2 {
			if err := loseDatabase(p.data); err != nil {
				return err
			}
		}
		begun := time.Now()
		var err error
		if p.server, err = p.start(nil); err != nil {
			p.end(err)
			return nil
		}
		p.slowestStart = max(p.slowestStart, time.Since(begun))
		p.run.c = newClient(p.server)
		p.run.over, p.run.killed, p.run.hasty = false, false, false
		p.check(false, true)
		if i == 0 {
			if then := p.probe(false); then != wentOn {
				p.bad("a write after a restart: the server %q; expected %q", then, wentOn)
			}
			p.finally()
			p.stop(false)
		} else {
			p.server.kill()
		}
		p.end(nil)
	}
	return nil
}

// finally recounts the references, and runs Script.Finally.
func (p *point) finally() {
	failed, wrong := p.run.failed, len(p.run.wrong)
	p.run.failed = map[string]int{}
	p.run.recount()
	if p.script.Finally != nil {
		p.script.Finally(p.run)
	}
	p.wrong = append(p.wrong, p.run.wrong[wrong:]...)
	for text := range p.run.failed {
		p.bad("a request at the end failed: %s: %s", text, p.server.tail())
	}
	p.run.failed = failed
	if p.script.Finally != nil {
		p.check(false, true)
	}
}

// crashLoop starts the server three times and kills it during the start, each time at another operation.
func (p *point) crashLoop() {
	for i := range 3 {
		f := Fault{Action: KILL, At: 1 + (p.fault.At*7+i*5)%30}
		var err error
		if p.server, err = p.start(func(kill func()) { p.drive.Set(f, kill) }); err == nil {
			p.server.kill()
		}
		s := p.drive.Lift()
		if s.Times > 0 && errors.Is(err, errEnded) {
			err = nil
		}
		p.end(err)
	}
}
