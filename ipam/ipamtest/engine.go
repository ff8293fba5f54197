package ipamtest

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// engine is what dockerd does on one host: it makes networks and removes them,
// starts containers and stops them, and asks the plugin for what they need. It
// goes on with what it has while the plugin is away.
type engine struct {
	s          *site
	life       uint64 // of the host
	networks   []*network
	parting    []*network // of which the plugin has yet to be told that they are gone
	containers []*container
	clients    []*client
	made       int    // networks
	looking    uint64 // life of the process that makes an inventory
	starting   bool   // it replays what it has, and does nothing else
	lists      int    // that it has given
	unlisted   int    // those that it had given when it, or the process, last started
	left       []leftover
	starts     int                 // of it, under its containers
	old        bool                // it is one before 29
	trying     map[ipam.PoolID]int // calls about a network that are tried again: it is locked meanwhile
	silent     *network            // answers nothing, see hang
	hangs      time.Duration       // until when
}

// network is a docker network.
type network struct {
	name    string
	request ipam.PoolRequest
	ipam.Network
	bridge  bool       // the gateway is on an interface of the host
	gateway netip.Addr // this host's own
	typed   netip.Addr // --gateway, or the one that came with the pool
	asks    bool       // it is --gateway
	aux     []netip.Addr
	ready   bool // it is made
	givenUp bool // its host was, and what it keeps back is not kept back again
	users   int  // containers on it, or about to be
}

// client is a holder outside Docker.
type client struct {
	name    string
	subnet  netip.Prefix
	address netip.Addr
	busy    bool
}

func (e *engine) init(s *site) {
	e.s, e.trying = s, map[ipam.PoolID]int{}
	e.old = s.c.partings.chance(s.c.partings.old)
	for i := range s.c.w.Slots {
		name := s.c.customs.nameOf(s, i)
		e.containers = append(e.containers, &container{id: fmt.Sprintf("%s%d", s, i), name: name, names: []string{name}})
	}
	for i := range s.c.w.Clients {
		e.clients = append(e.clients, &client{name: fmt.Sprintf("client%d", i)})
	}
}

// after has something happen in a while, unless the host has lost its power by then.
func (e *engine) after(d time.Duration, run func()) {
	life := e.life
	e.s.c.after(d, func() {
		if e.life == life {
			run()
		}
	})
}

// ask has the plugin serve a request, and passes the answer on, unless the host has lost its power by then.
func (e *engine) ask(r ipam.Request, done func(ipam.Reply, bool)) {
	life := e.life
	e.s.call(r, func(r ipam.Reply, ok bool) {
		if e.life == life {
			done(r, ok)
		}
	})
}

// boot begins the engine's work.
func (e *engine) boot() {
	e.life++
	e.starting = false
	switch {
	case e.s.c.customs.orderly:
		e.startInOrder()
	case len(e.networks) > 0:
		e.replay()
	}
	e.after(e.s.c.about(e.s.c.w.Pace), e.act)
}

// powerOff ends all containers without a word. Networks stay, and with them
// the gateways.
func (e *engine) powerOff() {
	e.life++
	for _, x := range e.containers {
		for _, end := range e.ended(x) {
			if e.s.c.customs.orderly && end.network.ready {
				e.left = append(e.left, leftover{end.network, end.address})
			}
		}
		e.off(x)
	}
	for _, n := range slices.Clone(e.networks) {
		if !n.ready {
			e.lose(n)
		}
	}
}

// destroyed forgets everything: the host is no more.
func (e *engine) destroyed() {
	for _, n := range e.networks {
		e.leaveGateway(n)
		e.s.c.dropKept(n)
	}
	e.networks, e.left = nil, nil
	e.forgetClients()
}

// forgetClients ends the holders outside Docker, and gateways that are on no
// interface: nobody but the plugin's database knows them.
func (e *engine) forgetClients() {
	for _, n := range e.networks {
		if !n.bridge {
			n.gateway = netip.Addr{}
		}
	}
	for _, x := range e.clients {
		if x.address.IsValid() {
			e.s.c.oracle.leaves(e.s, x.address, x.name)
			x.address = netip.Addr{}
		}
	}
	e.s.bereave()
}

// act does one thing after the other.
func (e *engine) act() {
	c := e.s.c
	if c.calm {
		return
	}
	e.after(c.about(c.w.Pace), e.act)
	if !c.isUnited() || e.starting || e.s.packs || e.s.suspended() {
		return
	}
	if c.customs.chance(c.customs.renames) {
		e.rename()
	}
	switch n := c.rnd.IntN(100); {
	case n < 4 || len(e.networks) == 0, n < c.w.Makes && c.rnd.IntN(2) == 0:
		if len(e.networks) < 4 {
			e.create()
		}
	case n < 6, n < c.w.Makes:
		e.remove(one(c.rnd, e.networks...))
	case n < 8:
		e.look()
	case n < 20 && len(e.clients) > 0:
		e.turnClient(one(c.rnd, e.clients...))
	default:
		x := one(c.rnd, e.containers...)
		switch {
		case x.busy:
		case x.running:
			e.stop(x)
		default:
			e.run(x)
		}
	}
}

// wanted draws the address of a claim.
func (c *cluster) wanted(pool netip.Prefix) netip.Addr {
	n := 1 << (pool.Addr().BitLen() - pool.Bits())
	k := c.rnd.IntN(n)
	if c.w.Popular {
		k = (n/2 + c.rnd.IntN(3)) % n
	}
	return c.list[c.addrs[pool.Addr()]:][k]
}

// turnClient has a holder outside Docker take an address, or free it.
func (e *engine) turnClient(x *client) {
	c := e.s.c
	if x.busy {
		return
	}
	x.busy = true
	if x.address.IsValid() {
		c.oracle.leaves(e.s, x.address, x.name)
		x.address = netip.Addr{}
		e.s.call(&ipam.FreeRequest{Pool: x.subnet.String(), ID: x.name}, func(ipam.Reply, bool) { x.busy = false })
		return
	}
	x.subnet = one(c.rnd, c.w.Subnets...)
	q := &ipam.ClientRequest{Pool: x.subnet.String(), ID: x.name}
	if c.chance(c.w.Claims) {
		q.Address = c.claimed(x.subnet, c.wanted(x.subnet))
	}
	life := e.s.life
	e.s.call(q, func(r ipam.Reply, ok bool) {
		x.busy = false
		if ok && r.Err == nil && e.s.life == life {
			x.address = r.Address.Address.Addr()
			c.count["client"]++
			c.oracle.uses(e.s, x.address, x.name)
		}
	})
}

// look has the plugin's process compare what it holds with what there is. The
// engine is asked after the inventory has begun, and the answer arrives later
// still.
func (e *engine) look() {
	c, s := e.s.c, e.s
	if s.machine == nil || s.stopped > c.now || e.looking == s.life || e.starting || !s.cfg.AwaitInventory || s.isDeaf() {
		return
	}
	life, process := e.life, s.life
	e.looking = process
	mark := s.machine.Mark(s.clock())
	inv, hosts := &ipam.Inventory{After: mark}, &ipam.HostAddresses{After: mark}
	// Neither the engine nor the process may end before the list arrives.
	wait := func(run func()) {
		c.after(c.between(0, 200*time.Millisecond), func() {
			if e.life == life && s.life == process {
				run()
			}
		})
	}
	wait(func() {
		for _, n := range e.networks {
			if n.ready {
				inv.Networks = append(inv.Networks, e.listed(n))
			}
		}
		c.habits.cut(inv)
		e.hang(inv)
		hosts.Addresses = s.interfaces()
		wait(func() {
			s.call(hosts, nil)
			e.tell(inv)
			e.lists++
			s.call(inv, func(r ipam.Reply, ok bool) {
				if e.looking == process {
					e.looking = 0
				}
				if ok && r.Again > 0 && e.life == life {
					e.after(r.Again+time.Second, e.look)
				}
			})
		})
	})
}

// listNetworks has the plugin's process ask which networks there are, as it does behind a release: in one call, beside a
// look that is under way.
func (e *engine) listNetworks() {
	c, s, life, process := e.s.c, e.s, e.life, e.s.life
	going := func() bool {
		return e.life == life && s.life == process && s.machine != nil && s.stopped <= c.now
	}
	wait := func() time.Duration { return time.Duration(c.partings.lists.Int64N(int64(100 * time.Millisecond))) }
	c.after(wait(), func() {
		if !going() || e.starting || !s.cfg.AwaitInventory || s.isDeaf() {
			return
		}
		inv := &ipam.Inventory{After: s.machine.Mark(s.clock()), Partial: true, AllNetworks: true}
		c.after(wait(), func() {
			for _, n := range e.networks {
				if n.ready {
					out := e.listed(n)
					out.Endpoints = nil
					inv.Networks = append(inv.Networks, out)
				}
			}
			c.after(wait(), func() {
				if going() {
					c.count["networks listed"]++
					s.call(inv, nil)
				}
			})
		})
	})
}

// bridges returns the addresses of the bridges.
func (e *engine) bridges() (out []netip.Prefix) {
	for _, n := range e.networks {
		if n.gateway.IsValid() && n.bridge {
			out = append(out, netip.PrefixFrom(n.gateway, n.Pool.Bits()))
		}
	}
	return out
}

// listed is a network in an inventory.
func (e *engine) listed(n *network) ipam.InventoryNetwork {
	out := ipam.InventoryNetwork{ID: n.name, Name: n.name, Subnets: []netip.Prefix{n.Pool}, Auxiliary: slices.Clone(n.aux)}
	if n.typed.IsValid() {
		out.Gateways = append(out.Gateways, n.typed)
	}
	for _, x := range e.containers {
		for _, end := range x.ends {
			if end.network == n && x.running && x.shown {
				out.Endpoints = append(out.Endpoints, ipam.InventoryEndpoint{Address: end.address, Container: "id-" + x.id, Name: x.name, MAC: end.mac})
			}
		}
	}
	return out
}
