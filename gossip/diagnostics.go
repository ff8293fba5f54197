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

	"github.com/ringlet/ringlet/internal/condition"
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

// diagnostics remembers what Status shows. It is called from memberlist's callbacks,
// so it never calls memberlist, and waits for nothing.
type diagnostics struct {
	g         *Gossip
	seedIndex atomic.Int64 // of this peer
	shut      fault        // why the sockets are not open
	keys      fault        // why the keys cannot be read

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

func newDiagnostics(g *Gossip) *diagnostics {
	return &diagnostics{
		g: g, shut: fault{log: g.log, code: codeClosed}, keys: fault{log: g.log, code: codeKeys},
		foreign: make(map[sighting]sighted), tries: make(map[netip.AddrPort]error), conflicts: make(map[peer.ID]conflict),
	}
}

// fault is an error that lasts. It is logged when it begins, changes and ends.
type fault struct {
	log  *slog.Logger
	code string

	condition condition.Condition
}

func (f *fault) set(err error) {
	f.condition.Set(err, func(err error) {
		if err != nil {
			f.log.Warn("network impaired, trying again", logattr.Kind(f.code), logattr.Err(err))
		} else {
			f.log.Info("network recovered", logattr.Kind(f.code))
		}
	})
}

func (f *fault) problem() (Problem, bool) {
	err := f.condition.Err()
	if err == nil {
		return Problem{}, false
	}
	return problem(f.code, "", err), true
}

// opened notes the session that is up; nil: none.
func (d *diagnostics) opened(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session = s
}

func (d *diagnostics) current() *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session
}

// acked notes that somebody answered a probe over UDP, and so is understood.
func (d *diagnostics) acked(who netip.Addr, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ack = now
	for s, seen := range d.foreign {
		if s.who == who {
			seen.over = true
			d.foreign[s] = seen
		}
	}
}

func (d *diagnostics) lastAck() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ack
}

// sighted notes a host that cannot be understood. Anybody can send one packet, in anybody's name. So packets count
// only from addresses that are known, and streams from all; and one sighting is no problem yet.
func (d *diagnostics) sighted(c cause, who netip.Addr, proved bool, now time.Time) {
	known := d.g.familiar(who)
	if !known && !proved {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.foreign, func(_ sighting, seen sighted) bool { return now.Sub(seen.last) > foreignFor })
	s := sighting{c, who}
	seen, again := d.foreign[s]
	if !again {
		if d.numForeign(known) < maxSightings { // else each packet would log it
			d.foreign[s] = sighted{first: now, last: now, known: known}
		}
		return
	}
	seen.last, seen.over = now, false
	if !seen.sure && now.Sub(seen.first) >= sureAfter {
		seen.sure = true
		d.g.log.Warn("foreign peer refused", logattr.Kind(string(c)), logattr.Err(d.g.explain(c, who.String())))
	}
	d.foreign[s] = seen
}

// numForeign returns how many foreign hosts are remembered at addresses that are known, or at others: neither take the
// place of the other.
func (d *diagnostics) numForeign(known bool) (n int) {
	for _, seen := range d.foreign {
		if seen.known == known {
			n++
		}
	}
	return n
}

// tried notes how an attempt to join ended, if it was at a host of the list.
func (d *diagnostics) tried(addr netip.AddrPort, err error) {
	listed := d.g.seeds.at(addr) != 0
	d.mu.Lock()
	defer d.mu.Unlock()
	if listed {
		d.tries[addr] = err
	}
}

// failure returns why none of these addresses could be joined at; nil if one
// could, or was not tried.
func (d *diagnostics) failure(addrs []netip.AddrPort) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first error
	for _, a := range addrs {
		err, was := d.tries[a]
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
func (d *diagnostics) conflict(id peer.ID, here, there netip.AddrPort, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.conflicts, func(_ peer.ID, c conflict) bool { return now.Sub(c.last) > fresh })
	_, known := d.conflicts[id]
	if !known && len(d.conflicts) >= maxSightings {
		return
	}
	if !known { // also where there are three, who take turns
		d.g.log.Warn("peer identity used at two addresses", logattr.Peer(id), addrAttr(here), slog.String("other", there.String()))
	}
	d.conflicts[id] = conflict{here, there, now}
}

// elsewhere returns where a peer has lately claimed to be, beside where it is
// known to be.
func (d *diagnostics) elsewhere(id peer.ID, now time.Time) (netip.AddrPort, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.conflicts[id]
	return c.there, ok && now.Sub(c.last) <= fresh
}

// holds reports whether a peer has lately claimed to be at an address.
func (d *diagnostics) holds(a netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conflicts {
		if c.there.Addr() == a || c.here.Addr() == a {
			return true
		}
	}
	return false
}

// contested reports whether another peer has lately seen this peer's ID at another
// address.
func (d *diagnostics) contested(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.conflicts[d.g.cfg.ID]
	return ok && now.Sub(c.last) < 5*unknownEvery
}

// problems are those that are not about the hosts of the list.
func (d *diagnostics) problems(now time.Time) []Problem {
	var found []Problem
	for _, f := range []*fault{&d.shut, &d.keys} {
		if p, ok := f.problem(); ok {
			found = append(found, p)
		}
	}
	understood := make(map[netip.Addr]bool) // hosts with a peer that can be understood now
	for _, p := range d.g.table.living() {
		understood[p.Addr.Addr()] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for s, seen := range d.foreign {
		if now.Sub(seen.last) <= foreignFor && seen.sure && !seen.over && !understood[s.who] {
			found = append(found, problem(string(s.cause), "", d.g.explain(s.cause, s.who.String())))
		}
	}
	for id, c := range d.conflicts {
		if now.Sub(c.last) <= fresh {
			found = append(found, problem(codeConflict, "", explainConflict(id, id == d.g.cfg.ID, c)))
		}
	}
	slices.SortFunc(found, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text)) })
	return found
}

func explainConflict(id peer.ID, own bool, c conflict) error {
	const copied = "if this lasts for minutes, one of the two hosts runs with a copied database: remove it there"
	if own {
		return adviceErrorf(copied, "a host at %v uses the ID of this peer, which is at %v", c.there, c.here)
	}
	return adviceErrorf(copied, "peer %s is at %v and also claims to be at %v; it may have moved there", id.Short(), c.here, c.there)
}
