package perf

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// timed records the requested and the actual duration of a load, and its limit of bytes (0 for no limit).
type timed struct {
	asked, took time.Duration
	maxBytes    int64
}

// lengths returns a sentence about the durations of the loads of a scenario, or "" if they were as long as with the
// profile saturation.
func (s *session) lengths() string {
	if len(s.timed) == 0 {
		return ""
	}
	var times []string
	longest, cut := time.Duration(0), int64(0)
	for _, l := range s.timed {
		if text := seconds(l.asked); !slices.Contains(times, text) {
			times = append(times, text)
		}
		longest = max(longest, l.asked)
		if l.maxBytes > 0 && l.took < l.asked*9/10 {
			cut = l.maxBytes
		}
	}
	full := s.sc.profiles[saturation]
	turns, allTurns := s.p.turns, max(full.turns, 1)
	if s.sc.mode == "ramp" { // the turns of a ramp are its steps
		turns, allTurns = 1, 1
	}
	if longest >= full.duration && turns >= allTurns && cut == 0 {
		return ""
	}
	text := "Loads of " + strings.Join(times, ", ")
	if turns > 1 || allTurns > 1 {
		text += ", " + turnsText(turns) + " each"
	}
	if cut > 0 {
		text += ", or until " + sizeText(cut) + " were sent"
	}
	var more []string
	if longest < full.duration {
		more = append(more, seconds(full.duration))
	}
	if turns < allTurns {
		more = append(more, turnsText(allTurns))
	}
	if len(more) > 0 {
		text += "; with the profile saturation " + strings.Join(more, ", ")
	}
	return text + "."
}

func turnsText(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprintf("%d turns", n)
}

// seconds formats a duration in seconds.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3g s", d.Seconds()) }
