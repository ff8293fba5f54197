package events

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// problems is what the status said last was wrong.
type problems struct {
	mu    sync.Mutex
	known map[string]ipam.Problem // by what does not change while it lasts
}

// Problems compares what is wrong at a time with what was wrong before, and
// puts in what began, changed or ended, and reports whether anything did. Numbers
// in a text may change without being an event: they do so all the time.
func (l *Log) Problems(at time.Time, now []ipam.Problem) (changed bool) {
	l.problems.mu.Lock()
	defer l.problems.mu.Unlock()
	was, is := l.problems.known, map[string]ipam.Problem{}
	for _, p := range now {
		if p.Level == string(ipam.Fine) {
			continue // a note: nothing is wrong
		}
		is[p.Code+"\x00"+gist(p.Text)] = p
	}
	l.problems.known = is
	began, ended := lacking(is, was), lacking(was, is)
	changed = len(began)+len(ended) > 0
	for _, p := range began {
		kind := ProblemBegan
		if i := slices.IndexFunc(ended, func(q ipam.Problem) bool { return q.Code == p.Code }); i >= 0 {
			kind = ProblemChanged
			ended = slices.Delete(ended, i, i+1)
		}
		l.put(entry{at: at, kind: kind, problem: &p})
	}
	for _, p := range ended {
		l.put(entry{at: at, kind: ProblemEnded, problem: &p})
	}
	return changed
}

// lacking returns those of a that b lacks, in a fixed order.
func lacking(a, b map[string]ipam.Problem) []ipam.Problem {
	var out []ipam.Problem
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if _, ok := b[k]; !ok {
			out = append(out, a[k])
		}
	}
	return out
}

// gist drops numbers from a problem's text, but keeps addresses, so that a changing
// count is not a new problem.
func gist(text string) string {
	words := strings.Fields(text)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool {
		return w[0] >= '0' && w[0] <= '9' && !strings.Contains(w, ".") && strings.Count(w, ":") < 3 && !strings.Contains(w, "/")
	}), " ")
}
