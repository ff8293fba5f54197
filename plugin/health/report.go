package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

const (
	// silentAfter is how long a host has not answered until that is a problem: one that restarts is silent for seconds.
	silentAfter = 90 * time.Second
	// silentTwice is how many questions have had no answer until then, where they are further apart.
	silentTwice = 2
	// mostNamed is how many hosts one problem names.
	mostNamed = 3
)

// Complete adds to a status what became of the questions to other hosts.
func (m *Monitor) Complete(st ipam.Status, now time.Time) ipam.Status {
	if m == nil {
		return st
	}
	answers := m.Answers()
	st.Peers = slices.Clone(st.Peers) // others read the same snapshot
	asked, silent := 0, []silence{}
	for i := range st.Peers {
		p := &st.Peers[i]
		a, known := answers[p.ID]
		if !known || !p.Reachable {
			continue
		}
		asked++
		p.Health = ipam.HealthStatus{Address: a.At.String(), Answers: a.Err == nil, Since: a.Since.UTC().Truncate(time.Second)}
		if a.Err == nil {
			continue
		}
		p.Health.Error = a.Err.Error()
		if d := now.Sub(a.Since); d >= silentAfter && a.Failed >= silentTwice {
			silent = append(silent, silence{p.Name, a, d.Truncate(time.Second)})
		}
	}
	if len(silent) > 0 {
		st.Problems = append(st.Problems, problem(silent, asked))
	}
	return st
}

// silence is a host that gossip reaches, and that does not answer at its health address.
type silence struct {
	name   string
	answer Answer
	lasts  time.Duration
}

func problem(silent []silence, asked int) ipam.Problem {
	slices.SortFunc(silent, func(a, b silence) int { return cmp.Compare(a.name, b.name) })
	texts := make([]string, 0, mostNamed+1)
	for _, s := range silent[:min(len(silent), mostNamed)] {
		texts = append(texts, fmt.Sprintf("%s answers gossip, but its health address %v has not answered for %v: %v", s.name, s.answer.At, s.lasts, s.answer.Err))
	}
	if more := len(silent) - mostNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	out := ipam.Problem{
		Code: "health-silent", Level: string(ipam.Degraded), Text: strings.Join(texts, "; "),
		Next: "check the network of the containers between this host and that one: cable, VLAN, routes, and that a firewall lets the port through; ringlet peers shows all health addresses",
	}
	if len(silent) == asked && asked > 1 {
		out.Next = "no other host answers, so check this host first: its connection to the network of the containers (RINGLET_HEALTH), its routes and its firewall"
	}
	return out
}
