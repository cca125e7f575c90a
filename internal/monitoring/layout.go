package monitoring

import (
	"encoding/json"
	"fmt"
)

// columns is the width of the grid of Grafana.
const columns = 24

// Dashboard is a page of Grafana.
type Dashboard struct {
	UID, Title, Description string

	variables []variable
	sections  []section
}

// variable is a choice above the panels, of the values of a label.
type variable struct{ name, label, metric string }

// section is a row of Grafana, and the panels below it.
type section struct {
	title  string
	panels []panel
}

// panel shows one or several queries.
type panel struct {
	kind    kind
	title   string
	means   string // the description; sentences
	unit    unit
	queries []query

	width  int // in columns; 0: the width of its kind
	steps  []step
	max    float64 // the end of the axis; 0: chosen by Grafana
	stacks bool
}

// query is an expression, and the name of each of its series.
type query struct{ expr, legend string }

// step is a color, and the smallest value that has it.
type step struct {
	from  float64
	color string
}

type kind string

const (
	graph kind = "timeseries"
	stat  kind = "stat"
	table kind = "table"
	bars  kind = "bargauge"
)

// unit is a unit of Grafana.
type unit string

const (
	number    unit = "short"
	seconds   unit = "s"
	sizeBytes unit = "bytes"
	byteRate  unit = "Bps"
	perSecond unit = "reqps"
	rate      unit = "cps"
	share     unit = "percentunit"
	moment    unit = "dateTimeFromNow"
	ratio     unit = "none"
)

// File returns the dashboard in the format of Grafana.
func (d *Dashboard) File() []byte {
	file := map[string]any{
		"uid": d.UID, "title": d.Title, "description": d.Description, "tags": []string{"orcas"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "browser", "refresh": "30s",
		"time":       map[string]any{"from": "now-6h", "to": "now"},
		"templating": map[string]any{"list": d.templates()},
		"panels":     d.place(),
		"links": []any{map[string]any{"title": "ORCAS", "type": "dashboards", "tags": []string{"orcas"}, "asDropdown": true,
			"keepTime": true, "includeVars": true}},
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("the dashboard %s is not valid JSON: %v", d.UID, err)) // only strings and numbers are in it
	}
	return append(text, '\n')
}

func (d *Dashboard) templates() []any {
	list := []any{map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	all := append([]variable{{"instance", "Server", "orcas_build_info"}}, d.variables...)
	for _, v := range all {
		metric := v.metric
		if v.name != "instance" {
			metric += `{instance=~"$instance"}`
		}
		list = append(list, map[string]any{
			"name": v.name, "label": v.label, "type": "query", "datasource": datasource(), "refresh": 2, "sort": 1,
			"query":      map[string]any{"query": fmt.Sprintf("label_values(%s, %s)", metric, v.name), "refId": v.name},
			"definition": fmt.Sprintf("label_values(%s, %s)", metric, v.name),
			"multi":      true, "includeAll": true, "allValue": ".*",
			"current": map[string]any{"text": "All", "value": "$__all"},
		})
	}
	return list
}

func datasource() map[string]any {
	return map[string]any{"type": "prometheus", "uid": "${datasource}"}
}

// place gives each panel its number and its place: from left to right, in a new line when the next panel does not fit.
func (d *Dashboard) place() []any {
	var list []any
	y := 0
	for _, s := range d.sections {
		list = append(list, map[string]any{"id": len(list) + 1, "type": "row", "title": s.title, "collapsed": false, "panels": []any{},
			"gridPos": map[string]int{"x": 0, "y": y, "w": columns, "h": 1}})
		y++
		x, tallest := 0, 0
		for _, p := range s.panels {
			w, h := p.size()
			if x+w > columns {
				x, y, tallest = 0, y+tallest, 0
			}
			file := p.file()
			file["id"] = len(list) + 1
			file["gridPos"] = map[string]int{"x": x, "y": y, "w": w, "h": h}
			list = append(list, file)
			x, tallest = x+w, max(tallest, h)
		}
		y += tallest
	}
	return list
}

func (p *panel) size() (w, h int) {
	w, h = 8, 8
	if p.kind == stat {
		w, h = 4, 4
	}
	if p.width > 0 {
		w = p.width
	}
	return w, h
}

func (p *panel) file() map[string]any {
	var targets []any
	for i, q := range p.queries {
		target := map[string]any{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend, "datasource": datasource()}
		if p.kind == table || p.kind == bars {
			target["instant"], target["range"] = true, false
		}
		if p.kind == table {
			target["format"] = "table"
		}
		targets = append(targets, target)
	}
	return map[string]any{
		"type": string(p.kind), "title": p.title, "description": p.means, "datasource": datasource(), "targets": targets,
		"fieldConfig": map[string]any{"defaults": p.defaults(), "overrides": p.overrides()}, "options": p.options(),
		"transformations": p.transformations(),
	}
}

// defaults are the unit, the colors and the axis of a panel.
func (p *panel) defaults() map[string]any {
	steps := []any{map[string]any{"color": "green", "value": nil}}
	for _, s := range p.steps {
		if s.from == 0 {
			steps[0] = map[string]any{"color": s.color, "value": nil}
			continue
		}
		steps = append(steps, map[string]any{"color": s.color, "value": s.from})
	}
	fields := map[string]any{"unit": string(p.unit), "thresholds": map[string]any{"mode": "absolute", "steps": steps}}
	if p.max > 0 {
		fields["max"] = p.max
	}
	switch p.kind {
	case graph:
		fields["min"] = 0
		stacking := "none"
		if p.stacks {
			stacking = "normal"
		}
		fill := 0
		if p.stacks || len(p.queries) == 1 {
			fill = 10
		}
		fields["color"] = map[string]any{"mode": "palette-classic"}
		fields["custom"] = map[string]any{"fillOpacity": fill, "lineWidth": 1, "showPoints": "never",
			"stacking": map[string]any{"mode": stacking, "group": "A"}}
	case stat, bars:
		fields["color"] = map[string]any{"mode": "thresholds"}
	}
	return fields
}

// overrides give the columns of a table with sizes their unit.
func (p *panel) overrides() []any {
	if p.kind != table {
		return []any{}
	}
	return []any{map[string]any{
		"matcher":    map[string]any{"id": "byRegexp", "options": ".*bytes.*"},
		"properties": []any{map[string]any{"id": "unit", "value": string(sizeBytes)}},
	}}
}

func (p *panel) options() map[string]any {
	values := map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	switch p.kind {
	case stat:
		return map[string]any{"reduceOptions": values, "colorMode": "value", "graphMode": "none", "textMode": "auto", "justifyMode": "auto"}
	case bars:
		return map[string]any{"reduceOptions": values, "orientation": "horizontal", "displayMode": "basic", "showUnfilled": true}
	case table:
		return map[string]any{"showHeader": true, "cellHeight": "sm"}
	default:
		return map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	}
}

// transformations make one table of the queries of a table, with a column for each.
func (p *panel) transformations() []any {
	if p.kind != table {
		return []any{}
	}
	names := map[string]string{}
	for i, q := range p.queries {
		name := "Value"
		if len(p.queries) > 1 {
			name = fmt.Sprintf("Value #%c", 'A'+i)
		}
		names[name] = q.legend
	}
	return []any{
		map[string]any{"id": "merge", "options": map[string]any{}},
		map[string]any{"id": "organize", "options": map[string]any{"excludeByName": map[string]bool{"Time": true}, "renameByName": names}},
	}
}
