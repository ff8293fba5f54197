package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// Explanation is all that this peer knows of one address.
type Explanation struct {
	AddressStatus
	Verdict string `json:"verdict"` // what became of it: "is held by …"
	Next    string `json:"next"`    // what to do about it; empty if there is nothing

	PoolName string   `json:"pool_name"`
	Origin   string   `json:"origin"`   // who wanted the pool: network, choice or operator
	Networks []PoolID `json:"networks"` // of this host, that draw from the pool, as far as the engine has asked for them
	// NetworksHere is how many there are, also of those that the engine lists alone, as in [PoolStatus].
	NetworksHere int          `json:"networks_here"`
	NetworkNames []string     `json:"network_names,omitempty"` // likewise
	First        netip.Addr   `json:"first"`                   // of the range that it lies in
	Last         netip.Addr   `json:"last"`
	Owner        string       `json:"owner"`     // name of the peer that owns that, or free, or reserved
	OwnerID      string       `json:"owner_id"`  // empty if no peer does
	OwnedHow     string       `json:"owned_how"` // self, reachable, unreachable, evicted; empty if no peer does
	Version      uint64       `json:"version"`   // the slot that made it so
	Reserved     *ReservedFor `json:"reserved,omitempty"`
	Engine       *EngineSight `json:"engine,omitempty"`   // of what a container holds here
	Conflict     string       `json:"conflict,omitempty"` // who has it that should not
	Rests        *time.Time   `json:"rests_until,omitempty"`
	Retry        *time.Time   `json:"stranger_until,omitempty"` // when it is tried again although something answered
	Refusals     []Refusal    `json:"refusals"`                 // of this peer, the last one first
}

// ReservedFor says why an address is kept back.
type ReservedFor struct {
	Kind string `json:"kind"`
	Note string `json:"note"`
}

// EngineSight is what the engine's lists say of an address that is held.
type EngineSight struct {
	// Listed says that the last list has it, for the container.
	Listed    bool       `json:"listed"`
	Container string     `json:"container"`
	Looked    *time.Time `json:"looked"`  // begin of the last complete list; null before the first
	Missing   *time.Time `json:"missing"` // begin of the first list that lacked it; null if none did
}

// Explain tells the whole story of an address.
func (m *Machine) Explain(now time.Time, a netip.Addr) (Explanation, error) {
	m = m.at(now)
	s, err := m.Who(now, a)
	if err != nil {
		return Explanation{}, err
	}
	p := m.poolOf(s.Pool)
	e := Explanation{AddressStatus: s, PoolName: p.Name, Origin: originText(p.Origin), Networks: []PoolID{}, NetworksHere: m.networksTold(p), Refusals: []Refusal{}}
	for _, id := range m.sortedNetworks() {
		if m.networks[id].Pool == p.CIDR {
			e.Networks = append(e.Networks, id)
		}
	}
	if o, ok := addr.OffsetOf(p.CIDR, a); ok {
		m.explainAt(&e, p, o)
	} else {
		e.First, e.Last, e.Owner = s.Address, s.Address, "reserved"
		e.Reserved, e.Verdict = &ReservedFor{Kind: lastOf64}, "is the pool's "+lastOf64
	}
	for _, refused := range slices.Backward(m.refusals) {
		if refused.Address == a.Unmap() {
			e.Refusals = append(e.Refusals, refused)
		}
	}
	return e, nil
}

// lastOf64 is what the last address of an IPv6 /64 is, which no pool has (see the
// package addr).
const lastOf64 = "subnet anycast address"

// explainAt tells of an address what its range and this peer's space say.
func (m *Machine) explainAt(e *Explanation, p *pool, o addr.Offset) {
	r, t := p.rangeAt(o)
	e.First, e.Last, e.Version = addr.Nth(p.CIDR, r.Start), addr.Nth(p.CIDR, r.End-1), uint64(t.Version)
	e.Conflict = m.conflicts[conflict{pool: p.Key, at: o}].text
	m.explainOwner(e, t)
	if v := p.ReservationAt(o); v != nil {
		e.Reserved = &ReservedFor{v.Kind.String(), v.Note}
	}
	m.explainState(e, p, o)
}

// rangeAt returns the range of the ring that has the address.
func (p *pool) rangeAt(o addr.Offset) (addr.Range, ring.Token) {
	t, r := p.Ring.At(o)
	if v := p.ReservationAt(o); v != nil && t.Owner == ring.Reserved {
		return v.Range, t
	}
	return r, t
}

func originText(o chronicle.Origin) string {
	switch o {
	case chronicle.FromChoice:
		return "choice"
	case chronicle.FromOperator:
		return "operator"
	case chronicle.FromNetwork:
	}
	return "network"
}

func (m *Machine) explainOwner(e *Explanation, t ring.Token) {
	switch {
	case t.Owner == ring.Free:
		e.Owner = "free"
		return
	case t.Owner == ring.Reserved:
		e.Owner = "reserved"
		return
	case t.Owner == m.self:
		e.OwnedHow = "self"
	case m.state.Member(t.Owner) == nil:
		e.OwnedHow = "evicted"
	case m.live(t.Owner):
		e.OwnedHow = "reachable"
	default:
		e.OwnedHow = "unreachable"
	}
	e.Owner, e.OwnerID = m.nameOf(t.Owner), t.Owner.String()
}

// explainState says what became of the address, and what can be done.
func (m *Machine) explainState(e *Explanation, p *pool, o addr.Offset) {
	rec := p.space.Lookup(o)
	switch {
	case rec.State == space.Held && rec.Kind != space.Kept:
		e.Verdict = "is held by " + m.holderText(rec.Holder, rec.Since)
		m.explainHolder(e, p, o, rec)
	case p.ReservationAt(o) != nil:
		v := p.ReservationAt(o)
		e.Verdict, e.Next = reservedText(v), endText(v, e.Address)
		if e.OwnedHow != "" && e.OwnedHow != "self" {
			e.Verdict += ", and is in a range of " + e.Owner
		}
	case p.space.Mine(o) && !p.space.Usable(o):
		e.Verdict, e.Next = "is this host's, but a decision that may give it away is under way", "try again in a moment; if it stays so, see ringlet status"
	case rec.State == space.Freed:
		e.Verdict = "is free; it was last held by " + whoText(rec.Holder) + ", until " + dateText(rec.Since)
		if until := time.Unix(0, rec.Since).Add(m.cfg.Rest).UTC(); !rec.Rested(m.now, m.cfg.Rest) {
			e.Verdict += ", and rests until " + dateText(until.UnixNano())
			e.Rests = &until
		}
	case p.space.Mine(o):
		e.Verdict = "is free, and was never handed out by " + string(m.cfg.Name) + ", as far as it remembers"
	case e.OwnedHow == "":
		e.Verdict = "is free, and owned by no host"
	case e.OwnedHow == "evicted":
		t, _ := p.Ring.At(o)
		e.Verdict = "may be in use on " + e.Owner + ", which was lost and evicted"
		e.Next = m.backText(t.Owner)
	case e.OwnedHow == "unreachable":
		e.Verdict = "is in a range of " + e.Owner + ", which is unreachable: no other host knows whether it is in use"
		e.Next = "start or reconnect that host"
	default:
		e.Verdict = "is in a range of " + e.Owner + ", which knows whether it is in use"
		e.Next = fmt.Sprintf("run ringlet explain %v on that host", e.Address)
	}
	if e.Conflict != "" {
		e.Next = m.conflicts[conflict{pool: p.Key, at: o}].ending()
	}
}

// explainHolder says what is known of the holder beside who it is.
func (m *Machine) explainHolder(e *Explanation, p *pool, o addr.Offset, rec space.Record) {
	switch rec.Kind {
	case space.Stranger:
		until := p.strangers[o].Add(strangerTime).UTC()
		e.Retry = &until
		e.Next = fmt.Sprintf("if the device stays, run ringlet exclude add %v; once it no longer has the address, run ringlet release %[1]v", e.Address)
	case space.Client:
		e.Next = fmt.Sprintf("once it is not needed, run ringlet free --for %s %v", word(rec.Ref), e.Address)
	case space.Container, space.Unmarked:
		sight := &EngineSight{}
		sight.Container, sight.Listed = p.seen[o]
		if !m.inventory.isZero() {
			sight.Looked = new(m.inventory.at.UTC())
		}
		if missing, gone := p.missing[o]; gone {
			sight.Missing = new(missing.UTC())
			e.Next = "nothing: it is freed when the engine's next list lacks it, too"
		}
		e.Engine = sight
	case space.Gateway, space.Host, space.Kept:
	}
}

// endText says how to end a reservation.
func endText(r *chronicle.Reservation, a netip.Addr) string {
	switch r.Kind {
	case chronicle.KindExcluded:
		return fmt.Sprintf("to hand it out again, run ringlet exclude rm %v", a)
	case chronicle.KindKeptForName:
		return fmt.Sprintf("to end the reservation, run ringlet reserve rm %v", a)
	case chronicle.KindGateway, chronicle.KindAuxiliary:
		return "nothing: it is freed when no host has a network on the pool"
	case chronicle.KindNetwork, chronicle.KindBroadcast, chronicle.KindRouter:
	}
	return ""
}
