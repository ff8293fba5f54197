package ipamtest

import (
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// What networks keep back on all hosts, as far as anybody knows.

// gatewayUse begins the name of a gateway as the user of an address.
const gatewayUse = "gateway of "

func (n *network) gatewayUser() string { return gatewayUse + n.Pool.String() }

// keeps returns what the network keeps back on all hosts.
func (n *network) keeps() []netip.Addr {
	if !n.typed.IsValid() {
		return n.aux
	}
	return append([]netip.Addr{n.typed}, n.aux...)
}

// reservationIn returns the reservation of an address, or nil.
func reservationIn(state *chronicle.State, pool netip.Prefix, a netip.Addr) *chronicle.Reservation {
	p := state.PoolOf(pool)
	o, ok := addr.OffsetOf(pool, a)
	if !ok || p == nil {
		return nil
	}
	return p.ReservationAt(o)
}

// keepsBack reports whether an address is reserved for networks by the last slot that anybody knows.
func (o *oracle) keepsBack(pool netip.Prefix, a netip.Addr) bool {
	r := reservationIn(o.state, pool, a)
	return r != nil && r.Kind.Shared()
}

// taken reports whether a network was taken for one that an engine has which starts: what it keeps back is reserved when the engine
// has listed it, or the list shows the conflict (docs/protocol.md, section 12). A peer with a new database may hold it until then.
func (o *oracle) taken(e *engine, n *network) bool {
	return e.s.cfg.AwaitInventory && e.lists == e.unlisted && !o.keepsBack(n.Pool, n.typed) && (e.s.isNew() || !e.s.holds(n.typed))
}

// keeps takes note that a network keeps an address back from now on. One whose host was given up as it was made does not, before
// that is reserved again.
func (o *oracle) keeps(n *network, a netip.Addr) {
	if !n.givenUp {
		o.kept[o.c.addrs[a]]++
	}
}

// drops takes note that a network keeps nothing back any more.
func (o *oracle) drops(n *network) {
	for _, a := range n.keeps() {
		if !n.givenUp {
			o.kept[o.c.addrs[a]]--
		}
	}
}

// keepAgain takes note of networks of hosts that started over for which all that they keep back is reserved again.
func (o *oracle) keepAgain() {
	for j := range o.sites {
		s := o.c.sites[j]
		for _, n := range s.engine.networks {
			p := o.state.PoolOf(n.Pool)
			if !n.givenUp || o.sites[j].outside || p == nil || !p.UsedBy(s.id) || slices.ContainsFunc(n.keeps(), func(a netip.Addr) bool { return !o.keepsBack(n.Pool, a) }) {
				continue
			}
			n.givenUp = false
			for _, a := range n.keeps() {
				o.keeps(n, a)
			}
		}
	}
}
