package perf

import (
	"fmt"
	"net/http"
	"time"

	"github.com/zeebo/xxh3"

	"orcas/internal/loadgen"
)

// webPage is one page of the website that the web scenarios request.
type webPage struct {
	op, key, contentType string
	size                 int
	header               []loadgen.Header
	anonymous            bool
	status               int
	contents             *Contents
}

// specialKey has every character that clients or servers are known to mishandle.
const specialKey = "specialCharacters!-_.*'()&$@=;:+  ,?\\{^}%`]\">[~<#|."

// webPages are the objects, and the expected responses to requests for them.
func webPages() []webPage {
	return []webPage{
		{op: "small", key: "index.html", contentType: "text/html", size: 338, status: http.StatusOK},
		{op: "large", key: "video.bin", contentType: "application/octet-stream", size: 10 * mib, status: http.StatusOK},
		{op: "range", key: "video.bin", contentType: "application/octet-stream", size: 10 * mib, status: http.StatusPartialContent, header: byteRange(0, 1024)},
		{op: "medium", key: "image.png", contentType: "image/png", size: mib, status: http.StatusOK},
		{op: "empty", key: "empty.txt", contentType: "text/plain", status: http.StatusOK},
		{op: "special", key: specialKey, contentType: "text/plain", size: 338, status: http.StatusOK},
		{op: "forbidden", key: "index.html", anonymous: true, status: http.StatusForbidden},
		{op: "missing", key: "missing.html", status: http.StatusNotFound},
	}
}

// publish puts the pages.
func (s *session) publish() ([]webPage, error) {
	s.o.Progress.Step("seeding the website")
	pages := webPages()
	for i := range pages {
		p := &pages[i]
		if p.contentType == "" {
			continue
		}
		call := loadgen.Request{Op: "put", Method: http.MethodPut, Path: s.path(p.key), Header: []loadgen.Header{{Name: "Content-Type", Value: p.contentType}}}
		if p.op == "range" { // the same object as for "large"
			p.contents = pages[i-1].contents
			continue
		}
		if p.size > 0 {
			p.contents = s.contents(p.size)
			call.Body, call.Hash = p.contents.Body(0, nil)
		}
		if _, err := s.once(call, http.StatusOK); err != nil {
			return nil, err
		}
		s.out.SeedCount++
	}
	return pages, nil
}

// request returns a request for a page. With checkType, the content type of the response is checked too.
func (s *session) request(p *webPage, checkType bool) (loadgen.Request, Expect) {
	call := loadgen.Request{Op: p.op, Method: http.MethodGet, Path: s.path(p.key), Header: p.header, Anonymous: p.anonymous, Keep: checkType}
	want := Expect{Status: p.status}
	if p.contentType == "" {
		return call, want
	}
	want.Body, want.Size, want.XXH3 = true, int64(p.size), xxh3.Hash(nil)
	if checkType {
		want.Type = p.contentType
	}
	switch {
	case len(p.header) > 0:
		want.Size, want.XXH3 = 1024, xxh3.Hash(p.contents.base[:1024])
	case p.size > 0:
		want.XXH3 = p.contents.XXH3(0)
	}
	return call, want
}

// runWeb requests 70 % small pages, 20 % large ones and 10 % ranges, at one rate after another; web-spike increases the
// rate gradually.
func runWeb(s *session) error {
	pages, err := s.publish()
	if err != nil {
		return err
	}
	next := func(_ *Worker, n uint64) (loadgen.Request, Expect) {
		switch n % 10 {
		case 2, 7:
			return s.request(&pages[1], false)
		case 4:
			return s.request(&pages[2], false)
		}
		return s.request(&pages[0], false)
	}
	var loads []*Load
	switch rates := s.p.rates; {
	case s.sc.id == "web-spike" && len(rates) == 2:
		loads = []*Load{{Rate: rates[0], RateTo: rates[1], Duration: s.p.duration, Next: next}}
	default:
		for i, rate := range rates {
			l := &Load{Rate: rate, Duration: s.p.duration, Next: next}
			if i < len(rates)-1 {
				l.Duration = min(s.p.duration/4, time.Minute)
			}
			loads = append(loads, l)
		}
	}
	for _, l := range loads {
		variant := fmt.Sprintf("at %.0f/s", l.Rate)
		if l.RateTo > 0 {
			variant = fmt.Sprintf("%.0f to %.0f/s", l.Rate, l.RateTo)
		}
		res, err := s.load(l)
		if err != nil {
			return err
		}
		s.add(res, "all", variant, 0)
		for i, op := range []string{"small", "large", "range"} {
			if !res.Has(op) {
				continue
			}
			size := pages[i].size
			if op == "range" {
				size = 1024
			}
			s.add(res, op, variant, size)
		}
	}
	return nil
}

// runWebConformance requests each page by itself, and checks the status, the content type and the length.
func runWebConformance(s *session) error {
	pages, err := s.publish()
	if err != nil {
		return err
	}
	for i := range pages {
		res, err := s.load(&Load{Workers: 1, Count: uint64(s.p.turns), Script: true, Next: func(*Worker, uint64) (loadgen.Request, Expect) { return s.request(&pages[i], true) }})
		if err != nil {
			return err
		}
		s.add(res, pages[i].op, fmt.Sprintf("expects %d", pages[i].status), pages[i].size)
	}
	return nil
}
