package gossip

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Status is how the network of this peer is.
type Status struct {
	Self      netip.AddrPort // where others are told to reach this peer; the zero value while the sockets are closed
	Alive     int            // other peers that answer
	Known     int            // other peers that are known, alive or not
	Keys      int            // with none, nothing is encrypted
	SeedIndex int            // of this peer, see Seeds; 0 for none
	Queued    int            // broadcasts that are still being sent
	Counts    Counts
	Problems  []Problem // in a fixed order
}

// Problem is something that an operator should know.
type Problem struct {
	Code string // stable, for scripts
	Text string // a sentence: what is wrong
	Next string // a sentence: what to do; empty if that is not known
}

// The codes of problems, beside those of foreign peers.
const (
	codeClosed     = "network-closed"
	codeKeys       = "keys-unreadable"
	codeNoUDP      = "udp-silent"
	codeUnresolved = "seed-unresolved"
	codeUnreached  = "seed-unreachable"
	codeConflict   = "identity-conflict"
)

// Counts are what happened since the start, in frames.
type Counts struct {
	Sent              uint64 // handed to the network, point to point
	Failed            uint64 // could not be
	Dropped           uint64 // waited too long, or too many waited, or the sockets were closed
	Repeated          uint64 // handed to the network again, as no ack came
	Unconfirmed       uint64 // given up without an ack
	Unknown           uint64 // for a peer without an address
	Oversize          uint64 // too long, or too short for a frame
	Broadcast         uint64 // taken as broadcasts
	BroadcastsDropped uint64 // broadcasts dropped, as too many were queued
	Received          uint64 // delivered
	Duplicate         uint64 // arrived again, and dropped
	Overrun           uint64 // arrived and dropped, as too many waited to be delivered
	Undecodable       uint64 // arrived and dropped, as nobody can have meant them

	// Encrypted are the packets and streams' messages that were sent and encrypted. A key should encrypt fewer than 2^32.
	Encrypted uint64
	// Refused are the packets and streams of strangers by why they were refused: a word of package guard. Each that there
	// is is in it.
	Refused map[string]uint64
}

type counters struct {
	unknown, oversize, broadcast, broadcastsDropped, received, overrun, undecodable atomic.Uint64
}

// Status returns how the network is now.
func (g *Gossip) Status() Status {
	now := time.Now()
	c, d := &g.counts, g.datagrams.Counts()
	st := Status{
		SeedIndex: g.OwnSeedIndex(), Queued: g.Queued(),
		Counts: Counts{
			Sent: d.Sent, Failed: d.Failed, Dropped: d.Dropped, Unknown: c.unknown.Load(),
			Repeated: d.Repeated, Unconfirmed: d.Unconfirmed, Duplicate: d.Duplicate,
			Oversize: c.oversize.Load(), Broadcast: c.broadcast.Load(), BroadcastsDropped: c.broadcastsDropped.Load(),
			Encrypted: g.screen.encrypted.Load(), Refused: g.screen.counts(),
			Received: c.received.Load(), Overrun: c.overrun.Load(), Undecodable: c.undecodable.Load(),
		},
	}
	var aliveSince time.Time
	st.Alive, st.Known, aliveSince = g.table.census()
	if s := g.diagnostics.current(); s != nil {
		st.Self, st.Keys = s.self, len(s.keyring.GetKeys())
		st.Problems = append(st.Problems, g.unreached(s)...)
		if ack := g.diagnostics.lastAck(); st.Alive > 0 && now.Sub(aliveSince) > silence && now.Sub(ack) > silence {
			st.Problems = append(st.Problems, problem(codeNoUDP, "", adviceErrorf(
				g.openUDP(s.self), "UDP does not get through, although other hosts answer over TCP: changes spread slowly")))
		}
	}
	st.Problems = append(g.diagnostics.problems(now), st.Problems...)
	return st
}

// openUDP says what to do where no UDP comes through. Among peers at addresses of both
// families those that listen on IPv4 alone reach no other by it.
func (g *Gossip) openUDP(self netip.AddrPort) string {
	next := fmt.Sprintf("open UDP port %d between all hosts", self.Port())
	alike := func(p Presence) bool { return p.Addr.Addr().Is4() == self.Addr().Is4() }
	if living := g.table.living(); len(living) > 0 && !slices.ContainsFunc(living, alike) {
		next += fmt.Sprintf(", and set RINGLET_BIND=[::]:%d on all hosts, because some have IPv4 and some IPv6 addresses", self.Port())
	}
	return next
}

// silence is how long no probe may be answered before UDP counts as dead: there
// is one probe every probeEvery.
const silence = time.Minute

// unreached are the hosts of Config.Join that cannot be reached. One that was
// not tried is none of them.
func (g *Gossip) unreached(s *session) []Problem {
	var found []Problem
	alive := make(map[netip.AddrPort]bool)
	for _, p := range g.table.living() {
		alive[p.Addr] = true
	}
	for _, seed := range g.seeds.all() {
		if seed.err != nil && len(seed.addrs) == 0 {
			found = append(found, problem(codeUnresolved, "", adviceErrorf("check the name, and that the resolver of this host knows it",
				"%s in RINGLET_JOIN does not resolve to an address: %w", seed.host, seed.err)))
			continue
		}
		if slices.ContainsFunc(seed.addrs, func(a netip.AddrPort) bool { return alive[a] || s.listensAt(a) }) {
			continue
		}
		if err := g.diagnostics.failure(seed.addrs); err != nil {
			found = append(found, problem(codeUnreached, seed.name+" in RINGLET_JOIN cannot be reached: ", err))
		}
	}
	return found
}
