package pool

import (
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// GatewayHolder is this host as the holder of its gateway in a pool.
func GatewayHolder() space.Holder { return space.Holder{Kind: space.Gateway, Key: GatewayKey()} }

// GatewayKey is the key of this host's gateway in a pool.
func GatewayKey() space.Key { return space.KeyOf("gateway") }

// FindGateway looks for the gateway that this host had before, and reports whether there is one now.
func (p *Pool) FindGateway() bool {
	if o, ok := p.Space.HeldBy(GatewayKey()); ok && !p.HasGateway && p.Space.Mine(o) {
		p.AdoptGateway(o)
	}
	return p.HasGateway
}

// AdoptGateway makes an address that the host was found to have its gateway, and reports whether it did: it was this peer's
// grant before, and is again. It is not while a command is under way that it makes way for.
func (p *Pool) AdoptGateway(o addr.Offset) bool {
	rec := p.Space.Lookup(o)
	if p.HasGateway || rec.State != space.Held || rec.Kind != space.Host || p.Space.Mine(o) && !p.Space.Usable(o) {
		return false
	}
	p.Confirm(o, GatewayHolder())
	p.Gateway, p.HasGateway = o, true
	return true
}

// DropGateway frees the gateway, if there is one, and reports whether there was.
func (p *Pool) DropGateway() bool {
	had := p.HasGateway
	if had {
		p.Free(p.Gateway)
	}
	return had
}

// LeaveGateway has the next network of a pool get the gateway of the last one again, which went and which the host still had
// when it was last looked at, until the host is seen without it: what it has after that is not the bridge, which went with
// its network.
func (p *Pool) LeaveGateway() {
	if rec := p.Space.Lookup(p.Gateway); rec.State == space.Held && rec.Kind == space.Host {
		p.Confirm(p.Gateway, space.Holder{Kind: space.Host, Key: GatewayKey()})
	}
}

// IsOwn reports whether an address is this peer's to take, and nobody here has it but a stranger.
func (p *Pool) IsOwn(o addr.Offset) bool {
	kind, held := p.Space.Holds(o)
	return p.Space.Mine(o) && p.Space.Usable(o) && p.ReservationAt(o) == nil && (!held || kind == space.Stranger)
}

// longestLook is how many held addresses are passed at most in search of a free one.
const longestLook = 4096

// HighestFree returns the highest address in a range that this peer may take without asking another one. opens says that it
// may take what is nobody's.
func (p *Pool) HighestFree(want addr.Range, opens bool) (addr.Offset, bool) {
	var parts []Part
	for r, t := range p.Ring.Within(want) {
		if t.Owner == ring.Free && opens || t.Owner == p.of.Me.ID() {
			parts = append(parts, Part{r, t.Owner})
		}
	}
	looked := 0
	for _, r := range slices.Backward(parts) {
		for o := r.End; o > r.Start && looked < longestLook; o-- {
			looked++
			_, held := p.Space.Holds(o - 1)
			if held || r.Owner != ring.Free && !p.Space.Usable(o-1) || p.ReservationAt(o-1) != nil {
				continue
			}
			if a := addr.Nth(p.CIDR, o-1); !p.of.IsInUse(a) && !p.of.Engine.OnHost(a) {
				return o - 1, true
			}
		}
	}
	return 0, false
}

// SharesReservation reports whether a reservation, which may be nil, is one that any network may share.
func SharesReservation(r *chronicle.Reservation) bool {
	return r != nil && r.Kind.Shared()
}

// Yields reports whether the holder of an address makes way for a reservation of it, as soon as that is decided. The bridge
// of a network that this peer has lost has its gateway on an interface; what was asked for without a word may be auxiliary,
// though nothing that an operator excludes; a stranger may be the very router or device that it is kept back for; and a
// gateway of this host alone may be shared from now on.
func Yields(rec space.Record, kind chronicle.Kind) bool {
	return rec.Kind == space.Host || rec.Kind == space.Stranger || rec.Kind == space.Unmarked && kind != chronicle.KindExcluded ||
		rec.Kind == space.Gateway && kind == chronicle.KindGateway
}
