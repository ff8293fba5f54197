package status

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
)

const (
	// elsewhereAfter is how long a host has to say that something is wrong there until the others show it: one that starts says so for
	// seconds.
	elsewhereAfter = 10 * time.Second
	// elsewhereEvery is how often what the others say is read at most.
	elsewhereEvery = time.Second
	// elsewhereMost is how many hosts are shown.
	elsewhereMost = 10
)

// elsewhere shows on this host what is wrong on others, as they say themselves: who watches one host sees it, too.
type elsewhere struct {
	list func() []directory.Item // what each peer says of itself; nil: nothing is known of others

	mu     sync.Mutex
	looked time.Time
	failed []failing
}

// failing is another host where something is wrong.
type failing struct {
	id, name string
	texts    []string
	since    time.Time
}

// complete adds what has been wrong for a while on the peers that can be reached: those that cannot are a problem of their own.
func (e *elsewhere) complete(st ipam.Status, now time.Time) ipam.Status {
	if e.list == nil {
		return st
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.looked) >= elsewhereEvery {
		e.looked = now
		e.look(st.Self.ID, now)
	}
	st.Peers = slices.Clone(st.Peers) // others read the same snapshot
	shown := 0
	for _, f := range e.failed {
		at := slices.IndexFunc(st.Peers, func(p ipam.PeerStatus) bool { return p.ID == f.id && p.Reachable })
		if at < 0 || now.Sub(f.since) < elsewhereAfter {
			continue
		}
		st.Peers[at].Failed = true
		if shown++; shown > elsewhereMost {
			continue
		}
		st.Problems = append(st.Problems, ipam.Problem{
			Code: "elsewhere", Level: string(ipam.Degraded), Text: "on " + f.name + ": " + strings.Join(f.texts, "; "),
			Next: fmt.Sprintf("see ringlet status on %s, which says what to do there", f.name),
		})
	}
	return st
}

// look reads what the others say.
func (e *elsewhere) look(self string, now time.Time) {
	before := e.failed
	e.failed = nil
	for _, item := range e.list() {
		var n directory.Node
		if item.Owner == self || json.Unmarshal(item.Value, &n) != nil || len(n.Failed) == 0 {
			continue
		}
		since := now
		if i := slices.IndexFunc(before, func(f failing) bool { return f.id == item.Owner }); i >= 0 {
			since = before[i].since
		}
		e.failed = append(e.failed, failing{item.Owner, n.Name, n.Failed, since})
	}
}
