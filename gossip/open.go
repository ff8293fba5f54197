package gossip

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/hashicorp/memberlist"
)

// open makes a memberlist and all that belongs to it.
func (g *Gossip) open(ctx context.Context) (*session, error) {
	keys, err := g.readKeys()
	g.watch.keys.set(err)
	if err != nil {
		return nil, fmt.Errorf("without keys nothing is sent: %w", err)
	}
	g.seats.resolve(ctx, g.cfg.host.lookup)
	g.table.reseat()
	addr, err := g.cfg.host.choose(g.cfg.Bind, g.cfg.Advertise, g.seats.addrs())
	if err != nil {
		return nil, err
	}
	inner, port, err := g.listen()
	if err != nil {
		return nil, troublef("end the program that has the port, or set RINGLET_BIND to another one",
			"%v cannot be opened for peers: %w", g.cfg.Bind, err)
	}
	s, err := g.create(inner, addr, port, keys)
	if err != nil {
		discard(inner)
		return nil, err
	}
	return s, nil
}

// listen opens the sockets, and returns their port.
func (g *Gossip) listen() (memberlist.Transport, uint16, error) {
	bind := g.cfg.Bind
	if g.cfg.Transport != nil {
		t, err := g.cfg.Transport(bind)
		return t, bind.Port(), err
	}
	t, err := Listen(bind, g.log)
	if err != nil {
		return nil, 0, err
	}
	return t, t.Port(), nil
}

// isOwn returns what tells this peer's addresses from those of others. It may
// be reached at more than the one that it advertises.
func (g *Gossip) isOwn(port uint16, self netip.AddrPort) func(netip.AddrPort) bool {
	have, _ := g.cfg.host.addrs() // none, if they cannot be read: a join with oneself does no harm
	return func(a netip.AddrPort) bool {
		own := a.Addr() == self.Addr() || a.Addr().IsLoopback() && !self.Addr().IsLoopback() ||
			slices.ContainsFunc(have, func(h hostAddr) bool { return h.addr == a.Addr() })
		return a == self || own && (a.Port() == port || a.Port() == self.Port())
	}
}
