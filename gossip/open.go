package gossip

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/hashicorp/memberlist"
)

// open makes a memberlist and all that belongs to it.
func (g *Gossip) open(ctx context.Context) (*session, error) {
	keys, err := g.keysAfter(g.lastKeys)
	g.diagnostics.keys.set(err)
	if err != nil && len(keys) == 0 {
		return nil, fmt.Errorf("without keys nothing is sent: %w", err)
	}
	g.seeds.resolve(ctx, g.cfg.host.lookup)
	g.table.reindex()
	addr, err := g.cfg.host.choose(g.cfg.Bind, g.cfg.Advertise, g.seeds.addrs())
	if err != nil {
		return nil, err
	}
	inner, port, err := g.listen()
	if err != nil {
		next := "end the program that has the port, or set RINGLET_BIND to another one"
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			next = fmt.Sprintf("set RINGLET_BIND to an address that this host has, or to 0.0.0.0:%d for all", g.cfg.Bind.Port())
		}
		return nil, adviceErrorf(next, "%v cannot be opened for peers: %w", g.cfg.Bind, err)
	}
	return g.create(inner, addr, port, keys)
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
