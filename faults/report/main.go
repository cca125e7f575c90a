// Command report generates docs/reliability.md from the results of the fault bench (faults/results.jsonl, see package
// faults/result) and from found.md, which is written by hand. Run it in the root of the module: go run ./faults/report.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	"orcas/faults/result"
)

//go:embed report.md.tmpl
var page string

//go:embed found.md
var found string

func main() {
	const results, target = "faults/results.jsonl", "docs/reliability.md"
	rows, err := result.Read(results)
	if err != nil {
		log.Fatal(err)
	}
	text, err := Render(rows)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(target, text, 0o644); err != nil {
		log.Fatal(err)
	}
}

// Line is the sum of all runs of one variant of a fault.
type Line struct {
	result.Row
	Seeds []string
	Notes []string // the notes of the runs, without duplicates
}

// Group contains the lines of one fault.
type Group struct {
	Title string
	Lines []*Line
}

// titles are the titles of faults, in the order of the page. Other faults come after them, with their name as the title.
var titles = [][2]string{
	{"sigkill", "SIGKILL"},
	{"sigterm", "SIGTERM"},
	{"reclaim", "Reclaim"},
	{"power-cut", "Power cuts"},
	{"write-log", "Reordered and torn writes"},
	{"io-sweep", "A fault at every file operation of a script"},
	{"full-disk", "Full disk or no inodes left"},
	{"slow-readers", "Clients that read slowly from a small drive"},
	{"memory", "Many requests in a control group with little memory"},
	{"clock", "Clock steps"},
	{"start", "Starts with many objects"},
	{"read-back", "Read-back"},
	{"model", "Sequences against a model"},
	{"linearizability", "Linearizability"},
	{"one-winner", "One winner"},
	{"bit-flips", "Flipped bits"},
}

// Render returns the page.
func Render(rows []result.Row) ([]byte, error) {
	lines := merge(rows)
	var mutants []*Line
	groups := map[string]*Group{}
	var order []string
	for _, t := range titles {
		groups[t[0]] = &Group{Title: t[1]}
		order = append(order, t[0])
	}
	broken, survived := 0, 0
	for _, l := range lines {
		if l.Fault == "mutant" {
			mutants = append(mutants, l)
			if l.Killed == "" || l.Total() > 0 {
				survived++
			}
			continue
		}
		broken += l.Total()
		if groups[l.Fault] == nil {
			groups[l.Fault] = &Group{Title: l.Fault}
			order = append(order, l.Fault)
		}
		groups[l.Fault].Lines = append(groups[l.Fault].Lines, l)
	}
	var shown []*Group
	var missing []string
	for _, name := range order {
		if g := groups[name]; len(g.Lines) > 0 {
			shown = append(shown, g)
		} else {
			missing = append(missing, g.Title)
		}
	}
	var out bytes.Buffer
	err := template.Must(template.New("page").Funcs(functions).Parse(page)).Execute(&out, map[string]any{
		"Groups": shown, "Missing": missing, "Mutants": mutants, "Broken": broken, "Survived": survived,
		"Environments": environments(rows), "Found": strings.TrimSpace(found),
	})
	return bytes.ReplaceAll(out.Bytes(), []byte("\n\n\n"), []byte("\n\n")), err
}

// merge adds up the runs of each variant, in the order in which the variants first appear.
func merge(rows []result.Row) []*Line {
	var lines []*Line
	byName := map[[2]string]*Line{}
	for _, r := range rows {
		r.Name = strings.Join(strings.Fields(r.Name), " ")
		key := [2]string{r.Fault, r.Name}
		l := byName[key]
		if l == nil {
			l = &Line{Row: r}
			l.Violations = maps.Clone(r.Violations)
			byName[key] = l
			lines = append(lines, l)
		} else {
			l.add(r)
		}
		if r.Seed != 0 {
			l.Seeds = append(l.Seeds, fmt.Sprint(r.Seed))
		}
		if r.Note != "" && !slices.Contains(l.Notes, r.Note) {
			l.Notes = append(l.Notes, r.Note)
		}
	}
	return lines
}

// add adds a run to the line.
func (l *Line) add(r result.Row) {
	if n := l.Tried + r.Tried; n > 0 {
		l.Rate = (l.Rate*float64(l.Tried) + r.Rate*float64(r.Tried)) / float64(n)
	}
	l.Tried += r.Tried
	l.Acknowledged += r.Acknowledged
	l.Ready = max(l.Ready, r.Ready)
	l.Seconds += r.Seconds
	if l.Violations == nil {
		l.Violations = map[string]int{}
	}
	for kind, n := range r.Violations {
		l.Violations[kind] += n
	}
	if l.Fault == "mutant" && r.Killed == "" {
		l.Killed = ""
	}
	if r.Started.After(l.Started) {
		l.Started = r.Started
	}
}

// environments returns the machines of the runs, without duplicates, each with the commits.
func environments(rows []result.Row) []string {
	commits := map[string][]string{}
	for _, r := range rows {
		e := r.Environment
		place := fmt.Sprintf("%d cores (%s), %.0f GiB of memory, Linux %s, %s", e.Cores, e.CPU, float64(e.Memory)/(1<<30), e.Kernel, e.Go)
		if !slices.Contains(commits[place], e.Commit) {
			commits[place] = append(commits[place], e.Commit)
		}
	}
	var list []string
	for _, place := range slices.Sorted(maps.Keys(commits)) {
		list = append(list, place+"; commits "+strings.Join(commits[place], ", "))
	}
	return list
}

var functions = template.FuncMap{
	"number": number,
	"join":   func(list []string) string { return strings.Join(list, ", ") },
	"tests":  func(killed string) string { return strings.ReplaceAll(killed, "|", ", ") },
	"notes":  func(list []string) string { return strings.Join(list, "; ") },
	"day":    func(t time.Time) string { return t.Format(time.DateOnly) },
	"broken": func(l *Line) string {
		if l.Total() == 0 {
			return "0"
		}
		var list []string
		for _, kind := range slices.Sorted(maps.Keys(l.Violations)) {
			list = append(list, fmt.Sprintf("%d %s", l.Violations[kind], kind))
		}
		return "**" + strings.Join(list, ", ") + "**"
	},
	"seconds": func(s float64) string {
		if s == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f s", s)
	},
	"rate": func(r float64) string {
		if r == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f/s", r)
	},
}

// number formats an integer with commas between thousands, and 0 as "".
func number(n any) string {
	s := fmt.Sprint(n)
	if s == "0" {
		return ""
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
