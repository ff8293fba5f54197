package gossip

import (
	"cmp"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam/peer"
)

// fresh is how long an identity that was seen at two addresses counts as a problem.
const fresh = 2 * time.Minute

// foreignFor is how long a host that cannot be understood counts as a problem after it was last seen. As long as it is there it
// is seen more often: it looks for this peer every refusedEvery, half as much more at most, and hosts that are off and slow
// resolvers hold it up.
const foreignFor = time.Minute

// maxSightings bounds three numbers: foreign hosts remembered at known addresses, those at others, and conflicts.
const maxSightings = 64

// sureAfter is how long a host that cannot be understood must be seen until that counts as a problem: a peer that
// looks for others is seen every few seconds.
const sureAfter = 3 * time.Second

// watch remembers what Status shows. It is called from memberlist's callbacks,
// so it never calls memberlist, and waits for nothing.
type watch struct {
	g    *Gossip
	seat atomic.Int64 // of this peer
	shut fault        // why the sockets are not open
	keys fault        // why the keys cannot be read

	mu        sync.Mutex
	session   *session
	ack       time.Time
	foreign   map[sighting]sighted
	tries     map[netip.AddrPort]error // the last attempts to join at hosts of the list; nil: it worked
	conflicts map[peer.ID]conflict
}

// sighting is a host that cannot be understood.
type sighting struct {
	cause cause
	who   netip.Addr
}

// sighted is when that was so.
type sighted struct {
	first, last time.Time
	known       bool // the address was, at first
	sure        bool // it counts as a problem
	over        bool // the host was understood since
}

// conflict is one identity at two addresses.
type conflict struct {
	here, there netip.AddrPort
	last        time.Time
}

func newWatch(g *Gossip) *watch {
	return &watch{
		g: g, shut: fault{log: g.log, code: codeClosed}, keys: fault{log: g.log, code: codeKeys},
		foreign: make(map[sighting]sighted), tries: make(map[netip.AddrPort]error), conflicts: make(map[peer.ID]conflict),
	}
}

// fault is an error that lasts. It is logged when it begins, changes and ends.
type fault struct {
	log  *slog.Logger
	code string

	mu  sync.Mutex
	err error
}

func (f *fault) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && (f.err == nil || f.err.Error() != err.Error()):
		f.log.Warn("network impaired, trying again", logattr.Kind(f.code), logattr.Err(err))
	case err == nil && f.err != nil:
		f.log.Info("network recovered", logattr.Kind(f.code))
	}
	f.err = err
}

func (f *fault) problem() (Problem, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return Problem{}, false
	}
	return problem(f.code, "", f.err), true
}

// opened notes the session that is up; nil: none.
func (w *watch) opened(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = s
}

func (w *watch) current() *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session
}

// acked notes that somebody answered a probe over UDP, and so is understood.
func (w *watch) acked(who netip.Addr, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ack = now
	for s, seen := range w.foreign {
		if s.who == who {
			seen.over = true
			w.foreign[s] = seen
		}
	}
}

func (w *watch) lastAck() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ack
}

// sighted notes a host that cannot be understood. Anybody can send one packet, in anybody's name. So packets count
// only from addresses that are known, and streams from all; and one sighting is no problem yet.
func (w *watch) sighted(c cause, who netip.Addr, proved bool, now time.Time) {
	known := w.g.familiar(who)
	if !known && !proved {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.foreign, func(_ sighting, seen sighted) bool { return now.Sub(seen.last) > foreignFor })
	s := sighting{c, who}
	seen, again := w.foreign[s]
	if !again {
		if w.numForeign(known) < maxSightings { // else it would be news with each packet
			w.foreign[s] = sighted{first: now, last: now, known: known}
		}
		return
	}
	seen.last, seen.over = now, false
	if !seen.sure && now.Sub(seen.first) >= sureAfter {
		seen.sure = true
		w.g.log.Warn("foreign peer refused", logattr.Kind(string(c)), logattr.Err(w.g.explain(c, who.String())))
	}
	w.foreign[s] = seen
}

// numForeign returns how many foreign hosts are remembered at addresses that are known, or at others: neither take the
// place of the other.
func (w *watch) numForeign(known bool) (n int) {
	for _, seen := range w.foreign {
		if seen.known == known {
			n++
		}
	}
	return n
}

// tried notes how an attempt to join ended, if it was at a host of the list.
func (w *watch) tried(addr netip.AddrPort, err error) {
	listed := w.g.seats.at(addr) != 0
	w.mu.Lock()
	defer w.mu.Unlock()
	if listed {
		w.tries[addr] = err
	}
}

// failure returns why none of these addresses could be joined at; nil if one
// could, or was not tried.
func (w *watch) failure(addrs []netip.AddrPort) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first error
	for _, a := range addrs {
		err, was := w.tries[a]
		if !was || err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// conflict notes that a peer which is known here also claims to be there.
func (w *watch) conflict(id peer.ID, here, there netip.AddrPort, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.conflicts, func(_ peer.ID, c conflict) bool { return now.Sub(c.last) > fresh })
	_, known := w.conflicts[id]
	if !known && len(w.conflicts) >= maxSightings {
		return
	}
	if !known { // also where there are three, who take turns
		w.g.log.Warn("peer identity used at two addresses", logattr.Peer(id), addrAttr(here), slog.String("other", there.String()))
	}
	w.conflicts[id] = conflict{here, there, now}
}

// elsewhere returns where a peer has lately claimed to be, beside where it is
// known to be.
func (w *watch) elsewhere(id peer.ID, now time.Time) (netip.AddrPort, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.conflicts[id]
	return c.there, ok && now.Sub(c.last) <= fresh
}

// holds reports whether a peer has lately claimed to be at an address.
func (w *watch) holds(a netip.Addr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conflicts {
		if c.there.Addr() == a || c.here.Addr() == a {
			return true
		}
	}
	return false
}

// contested reports whether another peer has lately seen this peer's ID at another
// address.
func (w *watch) contested(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.conflicts[w.g.cfg.ID]
	return ok && now.Sub(c.last) < 5*unknownEvery
}

// problems are those that are not about the hosts of the list.
func (w *watch) problems(now time.Time) []Problem {
	var found []Problem
	for _, f := range []*fault{&w.shut, &w.keys} {
		if p, ok := f.problem(); ok {
			found = append(found, p)
		}
	}
	understood := make(map[netip.Addr]bool) // hosts with a peer that can be understood now
	for _, p := range w.g.table.living() {
		understood[p.Addr.Addr()] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, seen := range w.foreign {
		if now.Sub(seen.last) <= foreignFor && seen.sure && !seen.over && !understood[s.who] {
			found = append(found, problem(string(s.cause), "", w.g.explain(s.cause, s.who.String())))
		}
	}
	for id, c := range w.conflicts {
		if now.Sub(c.last) <= fresh {
			found = append(found, problem(codeConflict, "", explainConflict(id, id == w.g.cfg.ID, c)))
		}
	}
	slices.SortFunc(found, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text)) })
	return found
}

func explainConflict(id peer.ID, own bool, c conflict) error {
	const copied = "if this lasts for minutes, one of the two hosts runs with a copied database: remove it there"
	if own {
		return troublef(copied, "a host at %v uses the ID of this peer, which is at %v", c.there, c.here)
	}
	return troublef(copied, "peer %s is at %v and also claims to be at %v; it may have moved there", id.Short(), c.here, c.there)
}
