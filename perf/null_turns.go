package perf

import (
	"orcas/perf/result"
)

// Each point of a sweep is measured alternately with the null server, so the ceiling is known for each size and number
// of connections. A server at --endpoint may be on another machine, so it is measured alone.

// withNull reports whether this scenario measures the null server, and starts the null server if so.
func (s *session) withNull() (bool, error) {
	if s.o.Target != nil || s.null != nil {
		return s.null != nil, nil
	}
	var err error
	s.null, err = s.nullServer()
	return err == nil, err
}

// inTurns runs loads alternately, and returns one row for each load and turn of the scenario. Every second turn is in
// reverse order, so that work left behind by one load, especially for the drive, does not always slow down the same
// other load.
func (s *session) inTurns(op string, loads ...func() *Load) ([][]result.Row, error) {
	rows := make([][]result.Row, len(loads))
	for turn := range max(s.p.turns, 1) {
		for i := range loads {
			if turn%2 == 1 {
				i = len(loads) - 1 - i
			}
			res, err := s.load(loads[i]())
			if err != nil {
				return nil, err
			}
			rows[i] = append(rows[i], res.Row(op))
		}
	}
	return rows, nil
}

// nullTurn returns a function that makes a load for the null server: requests that send or receive a body of size
// bytes.
func (s *session) nullTurn(method string, size, workers int) func() *Load {
	return func() *Load { return s.ofNull(s.nullLoad(method, size, workers, s.p.duration)) }
}

// ofNull directs a load at the null server.
func (s *session) ofNull(l *Load) *Load {
	l.Target, l.PID, l.Script = s.null.Target, s.null.PID, true
	return l
}

// point measures one point of a sweep alternately with the null server, and adds a row for each. It returns the row of
// the measured server, and all rows of all turns.
func (s *session) point(op, method, variant string, size, workers int, ours func() *Load) (*result.Row, [][]result.Row, error) {
	loads := []func() *Load{ours}
	with, err := s.withNull()
	if err != nil {
		return nil, nil, err
	}
	if with {
		loads = append(loads, s.nullTurn(method, size, workers))
	}
	rows, err := s.inTurns(op, loads...)
	if err != nil {
		return nil, nil, err
	}
	at := len(s.out.Results)
	for i := range rows {
		row := medianRow(rows[i])
		row.Variant, row.SizeBytes = variant, int64(size)
		if i == 1 {
			row.Variant = result.NullVariant(variant)
		}
		s.out.Results = append(s.out.Results, row)
		s.o.Progress.Row(rowText(&row))
	}
	return &s.out.Results[at], rows, nil
}
