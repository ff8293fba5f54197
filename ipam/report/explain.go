package report

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// Explanation is all that this peer knows of one address.
type Explanation struct {
	AddressStatus
	Verdict string `json:"verdict"` // what became of it: "is held by …"
	Next    string `json:"next"`    // what to do about it; empty if there is nothing

	PoolName string      `json:"pool_name"`
	Origin   string      `json:"origin"`   // who wanted the pool: network, choice or operator
	Networks []poolid.ID `json:"networks"` // of this host, that draw from the pool, as far as the engine has asked for them
	// NetworksHere is how many there are, also of those that the engine lists alone, as in [PoolStatus].
	NetworksHere int          `json:"networks_here"`
	NetworkNames []string     `json:"network_names,omitempty"` // likewise
	First        netip.Addr   `json:"first"`                   // of the range that it lies in
	Last         netip.Addr   `json:"last"`
	Owner        string       `json:"owner"`          // name of the peer that owns that, or free, or reserved
	OwnerID      string       `json:"owner_id"`       // empty if no peer does
	OwnedHow     string       `json:"owned_how"`      // self, reachable, unreachable, evicted; empty if no peer does
	Zone         string       `json:"zone,omitempty"` // of the peer that owns that
	Version      uint64       `json:"version"`        // the slot that made it so
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
func (p *Picture) Explain(a netip.Addr) (Explanation, error) {
	s, err := p.Who(a)
	if err != nil {
		return Explanation{}, err
	}
	pool := &p.Pools[slices.IndexFunc(p.Pools, func(pool Pool) bool { return pool.CIDR == s.Pool })]
	e := Explanation{
		AddressStatus: s, PoolName: pool.Name, Origin: pool.Origin.String(), Networks: []poolid.ID{},
		NetworksHere: pool.Networks, Refusals: p.Refusals.of(a.Unmap()),
	}
	for _, n := range p.Networks {
		if n.Pool == pool.CIDR {
			e.Networks = append(e.Networks, n.ID)
		}
	}
	o, ok := addr.OffsetOf(pool.CIDR, a)
	if !ok {
		e.First, e.Last, e.Owner = s.Address, s.Address, "reserved"
		e.Reserved, e.Verdict = &ReservedFor{Kind: sentence.LastOf64}, "is the pool's "+sentence.LastOf64
		return e, nil
	}
	r, t := pool.rangeAt(o)
	e.First, e.Last, e.Version = addr.Nth(pool.CIDR, r.Start), addr.Nth(pool.CIDR, r.End-1), uint64(t.Version)
	p.explainOwner(&e, t)
	if v := pool.ReservationAt(o); v != nil {
		e.Reserved = &ReservedFor{v.Kind.String(), v.Note}
	}
	p.explainState(&e, pool, o)
	for _, c := range p.Conflicts {
		if c.Pool == pool.CIDR && c.Address == addr.Nth(pool.CIDR, o) {
			e.Conflict, e.Next = c.Text, c.Next
		}
	}
	return e, nil
}

func (p *Picture) explainOwner(e *Explanation, t ring.Token) {
	switch {
	case t.Owner == ring.Free:
		e.Owner = "free"
		return
	case t.Owner == ring.Reserved:
		e.Owner = "reserved"
		return
	case t.Owner == p.Self:
		e.OwnedHow = "self"
	case p.State.Member(t.Owner) == nil:
		e.OwnedHow = "evicted"
	case p.Peers[t.Owner].Live:
		e.OwnedHow = "reachable"
	default:
		e.OwnedHow = "unreachable"
	}
	e.Owner, e.OwnerID, e.Zone = p.NameOf(t.Owner), t.Owner.String(), string(p.State.ZoneOf(t.Owner))
}

// explainState says what became of the address, and what can be done.
func (p *Picture) explainState(e *Explanation, pool *Pool, o addr.Offset) {
	rec, away := pool.Space.Lookup(o), "" // how to reach the host of the address, or to release it
	switch t, _ := pool.Ring.At(o); e.OwnedHow {
	case "evicted":
		away = sentence.BringBack(p.ref(t.Owner))
	case "unreachable":
		away = sentence.Away(p.ref(t.Owner))
	}
	switch {
	case rec.State == space.Held && rec.Kind != space.Kept:
		e.Verdict = "is held by " + sentence.Holder(p.Name, rec.Holder, rec.Since)
		p.explainHolder(e, pool, o, rec)
	case pool.ReservationAt(o) != nil:
		v := pool.ReservationAt(o)
		e.Verdict, e.Next = sentence.Reserved(v), endText(v, e.Address)
		if e.OwnedHow != "" && e.OwnedHow != "self" {
			e.Verdict += ", and is in a range of " + e.Owner
		}
		if away != "" {
			e.Next = away + "; " + e.Next
		}
	case pool.Space.Mine(o) && !pool.Space.Usable(o):
		e.Verdict, e.Next = "is this host's, but a decision that may give it away is under way", "try again in a moment; if it stays so, see ringlet status"
	case rec.State == space.Freed:
		e.Verdict = "is ready"
		if until := time.Unix(0, rec.Since).Add(p.Rest).UTC(); !rec.Rested(p.Now, p.Rest) {
			e.Verdict = "rests until " + sentence.Date(until.UnixNano())
			e.Rests = &until
		}
		e.Verdict += "; it was last held by " + sentence.Who(rec.Holder) + ", until " + sentence.Date(rec.Since)
	case pool.Space.Mine(o):
		e.Verdict = "is ready, and was never handed out by " + string(p.Name) + ", as far as it remembers"
	case e.OwnedHow == "":
		e.Verdict = "is free, and owned by no host"
	case e.OwnedHow == "evicted":
		e.Verdict, e.Next = "may be in use on "+e.Owner+", which was lost and evicted", away
	case e.OwnedHow == "unreachable":
		e.Verdict, e.Next = "is in a range of "+e.Owner+", which is unreachable: no other host knows whether it is in use", away
	default:
		e.Verdict = "is in a range of " + e.Owner + ", which knows whether it is in use"
		e.Next = fmt.Sprintf("run ringlet explain %v on that host", e.Address)
	}
}

// explainHolder says what is known of the holder beside who it is.
func (p *Picture) explainHolder(e *Explanation, pool *Pool, o addr.Offset, rec space.Record) {
	switch rec.Kind {
	case space.Stranger:
		until := pool.Devices[o].Add(p.Retry).UTC()
		e.Retry = &until
		e.Next = fmt.Sprintf("if the device stays, run ringlet exclude add %v; once it no longer has the address, run ringlet release %[1]v", e.Address)
	case space.Client:
		e.Next = fmt.Sprintf("once it is not needed, run ringlet free --for %s %v", sentence.Word(rec.Ref), e.Address)
	case space.Container, space.Unmarked:
		sight := &EngineSight{}
		sight.Container, sight.Listed = pool.Seen[o]
		if !p.Looked.IsZero() {
			sight.Looked = new(p.Looked.UTC())
		}
		if sentence.LacksContainer(rec.Holder, rec.Since, sight.Container, sight.Listed, p.Looked) {
			e.Next = sentence.Disconnect(rec.Holder, pool.Stranded[o])
		}
		if missing, gone := pool.Missing[o]; gone {
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
