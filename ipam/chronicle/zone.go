package chronicle

import (
	"slices"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
)

// SetZone says in which zone its author is, who is in the roster.
type SetZone struct{ Zone peer.Zone }

func (SetZone) opcode() byte { return 25 }

// String names the action.
func (a SetZone) String() string { return "set zone " + string(a.Zone) }

func (s *State) setZone(author peer.ID, a SetZone) (refused string) {
	m := s.Member(author)
	switch {
	case m == nil:
		return "its author is not in the roster"
	case a.Zone.Check() != nil:
		return "that is no zone"
	}
	m.Zone = a.Zone
	return ""
}

// electorate is the places in a roster of those who vote, in order.
type electorate struct {
	at [MaxVoters]int
	n  int
}

// electorateOf chooses who of a roster votes: the first peer of each zone in the order of the roster, then the second of each,
// and so on, up to [MaxVoters]. So the loss of a zone costs as few votes as can be. Where all are in one zone, or have named
// none, these are the first of the roster.
func electorateOf(roster []Member) (e electorate) {
	for one := false; e.n < min(MaxVoters, len(roster)); {
		round := e.n // from here on no two are of one zone
		for i := 0; i < len(roster) && e.n < MaxVoters; i++ {
			if !e.has(i) && (one || !e.hasZone(round, roster, roster[i].Zone)) {
				e.at[e.n] = i
				e.n++
			}
		}
		one = e.n == round+1 // all who are left are of one zone: the next round takes them in order
	}
	return e
}

func (e *electorate) has(place int) bool {
	return slices.Contains(e.at[:e.n], place)
}

// hasZone reports whether one of those from the given one on is of a zone.
func (e *electorate) hasZone(from int, roster []Member, zone peer.Zone) bool {
	for _, at := range e.at[from:e.n] {
		if roster[at].Zone == zone {
			return true
		}
	}
	return false
}

// VotersOf returns those who would vote if this were the roster, in order.
func VotersOf(roster []Member) []peer.ID {
	e := electorateOf(roster)
	ids := make([]peer.ID, e.n)
	for i, at := range e.at[:e.n] {
		ids[i] = roster[at].ID
	}
	return ids
}

// ZoneOf returns the zone of a peer of the roster, or of one that was evicted from it.
func (s *State) ZoneOf(id peer.ID) peer.Zone {
	if m := s.Member(id); m != nil {
		return m.Zone
	}
	if g := s.Gone(id); g != nil {
		return g.Zone
	}
	return ""
}

// HasZones reports whether a peer of the roster has named a zone.
func (s *State) HasZones() bool {
	for i := range s.Roster {
		if s.Roster[i].Zone != "" {
			return true
		}
	}
	return false
}

// member returns the peer at a place in the roster and, behind it, those that were evicted; or nil.
func (s *State) member(place uint64) *Member {
	n := uint64(len(s.Roster))
	switch {
	case place < n:
		return &s.Roster[place]
	case place-n < uint64(len(s.Former)):
		return &s.Former[place-n].Member
	}
	return nil
}

// countZones returns how many peers of the roster, or that were evicted, have named a zone.
func (s *State) countZones() (n uint64) {
	for i := uint64(0); s.member(i) != nil; i++ {
		if s.member(i).Zone != "" {
			n++
		}
	}
	return n
}

// appendZones appends how many peers have named a zone, and of each its place and its zone. It appends nothing if none has.
func (s *State) appendZones(b []byte) []byte {
	n := s.countZones()
	if n == 0 {
		return b
	}
	b = codec.Uint(b, n)
	for i := uint64(0); s.member(i) != nil; i++ {
		if zone := s.member(i).Zone; zone != "" {
			b = codec.Bytes(codec.Uint(b, i), zone)
		}
	}
	return b
}

// readZones reads what [State.appendZones] wrote at the end of a record.
func (s *State) readZones(r *codec.Reader) {
	if r.Err() != nil || r.Rest() == 0 {
		return
	}
	n := r.Count("number of zones", 3)
	if n == 0 {
		r.Fail("number of zones")
	}
	next := uint64(0) // the least place that may come
	for range n {
		place := r.Uint("place of a peer with a zone")
		zone := peer.Zone(r.Bytes("zone", peer.MaxZone))
		m := s.member(place)
		if r.Err() != nil || m == nil || place < next || zone == "" || zone.Check() != nil {
			r.Fail("zone")
			return
		}
		m.Zone, next = zone, place+1
	}
}
