package ipamtest

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
)

// look has the plugin's process compare what it holds with what there is. The engine is asked after the inventory has begun, and
// the answer arrives later still, unless the engine or the process has ended by then.
func (e *engine) look() {
	c, s := e.s.c, e.s
	if s.machine == nil || s.stopped > c.now || e.looking == s.life || e.starting || !s.cfg.AwaitInventory || s.isDeaf() {
		return
	}
	process, powered := s.life, e.living()
	e.looking = process
	mark := s.machine.Mark(s.clock())
	inv, hosts := &ipam.Inventory{After: mark}, &ipam.HostAddresses{After: mark}
	c.script(e.listening(), func(t *script) {
		t.sleep(c.between(0, 200*time.Millisecond))
		inv.Networks = e.listed(true)
		c.abridge(inv)
		e.hang(inv)
		hosts.Addresses = s.interfaces()
		t.sleep(c.between(0, 200*time.Millisecond))
		s.call(hosts, nil)
		e.tell(inv)
		e.lists++
		s.call(inv, func(r ipam.Reply, ok bool) {
			if e.looking == process {
				e.looking = 0
			}
			if ok && r.Again > 0 && powered() {
				e.after(r.Again+time.Second, e.look)
			}
		})
	})
}

// listening returns what tells whether neither the engine nor the process has ended since now.
func (e *engine) listening() func() bool {
	lives, process := e.living(), e.s.life
	return func() bool { return lives() && e.s.life == process }
}

// listNetworks has the plugin's process ask which networks there are, as it does behind a release: in one call, beside a look that
// is under way.
func (e *engine) listNetworks() {
	c, s, listening := e.s.c, e.s, e.listening()
	wait := func(t *script) { t.sleep(c.between(0, 100*time.Millisecond)) }
	c.script(func() bool { return true }, func(t *script) {
		going := func() bool { return listening() && s.machine != nil && s.stopped <= c.now }
		if wait(t); !going() || e.starting || !s.cfg.AwaitInventory || s.isDeaf() {
			return
		}
		inv := &ipam.Inventory{After: s.machine.Mark(s.clock()), Partial: true, AllNetworks: true}
		wait(t)
		inv.Networks = e.listed(false)
		if wait(t); going() {
			s.call(inv, nil)
		}
	})
}

// listed are the networks in an inventory, with what is on them or without.
func (e *engine) listed(endpoints bool) (list []ipam.InventoryNetwork) {
	for _, n := range e.networks {
		if !n.ready {
			continue
		}
		out := ipam.InventoryNetwork{ID: n.name, Name: n.name, Subnets: []netip.Prefix{n.Pool}, Auxiliary: slices.Clone(n.aux)}
		if n.typed.IsValid() {
			out.Gateways = append(out.Gateways, n.typed)
		}
		for _, x := range e.containers {
			for _, end := range x.ends {
				if endpoints && end.network == n && x.running && x.shown {
					out.Endpoints = append(out.Endpoints, ipam.InventoryEndpoint{Address: end.address, Container: "id-" + x.id, Name: x.name, MAC: end.mac})
				}
			}
		}
		list = append(list, out)
	}
	return list
}

// tell takes note of the containers that a list has shown.
func (e *engine) tell(inv *ipam.Inventory) {
	for _, n := range inv.Networks {
		for _, end := range n.Endpoints {
			for _, x := range e.containers {
				x.told = x.told || x.running && end.Container == "id-"+x.id
			}
		}
	}
}

// abridge takes some of what a list has out of it.
func (c *cluster) abridge(inv *ipam.Inventory) {
	if !c.chance(c.w.Partial) || c.calm {
		return
	}
	inv.Partial = true
	inv.Networks = slices.DeleteFunc(inv.Networks, func(ipam.InventoryNetwork) bool { return c.rnd.IntN(2) == 0 })
	for i := range inv.Networks {
		n := &inv.Networks[i]
		n.Endpoints = slices.DeleteFunc(n.Endpoints, func(ipam.InventoryEndpoint) bool { return c.rnd.IntN(4) == 0 })
	}
}

// hang leaves out of a list a network that does not answer, and has one answer nothing from now on.
func (e *engine) hang(inv *ipam.Inventory) {
	c := e.s.c
	if c.calm || c.beginning {
		return
	}
	if e.hangs <= c.now && len(e.networks) > 0 && c.chance(c.w.Hangs) {
		e.silent, e.hangs = one(c.rnd, e.networks...), c.now+c.long()
		c.count["network hangs"]++
	}
	if e.hangs <= c.now {
		return
	}
	for i := range inv.Networks {
		if n := &inv.Networks[i]; n.ID == e.silent.name {
			n.Endpoints = nil
			inv.AllNetworks = !inv.Partial
			inv.Partial = true
		}
	}
}

// goDeaf has a process that starts not reach its engine for long: the socket refuses it, or takes it and answers nothing. Where a
// database is new nobody but the engine tells what lives on, so there it is refused, and knows that lists may come any time.
func (s *site) goDeaf() {
	c := s.c
	if s.deaf = 0; c.calm || !s.cfg.AwaitInventory || !c.chance(c.w.Mute) {
		return
	}
	s.deaf, s.blind = c.now+c.long(), c.rnd.IntN(2) == 0 && len(s.disk) > 0 && !s.isNew()
	c.count["deaf"]++
}

// long draws how long it lasts that an engine cannot be asked, or not for all.
func (c *cluster) long() time.Duration {
	return c.about(one(c.rnd, 20*time.Second, 3*time.Minute, 20*time.Minute))
}

// isDeaf reports whether the process cannot ask its engine now, and has it know.
func (s *site) isDeaf() bool {
	if c := s.c; s.deaf <= c.now || c.calm || c.beginning {
		return false
	}
	if s.blind && !s.isNew() {
		s.hearNothing()
	}
	return true
}

// hearNothing has the process know that its engine answers nothing.
func (s *site) hearNothing() {
	s.c.count["blind"]++
	s.call(&ipam.Blindness{}, nil)
}

// interfaces returns the addresses of the host: those of its bridges, and its own.
func (s *site) interfaces() (out []netip.Prefix) {
	for _, n := range s.engine.networks {
		if n.gateway.IsValid() && n.bridge {
			out = append(out, netip.PrefixFrom(n.gateway, n.Pool.Bits()))
		}
	}
	if own := s.own(); own.IsValid() {
		out = append(out, netip.PrefixFrom(own, s.c.w.LAN.Bits()))
	}
	return out
}

// tellHost has the process read the host's interfaces.
func (s *site) tellHost() {
	s.call(&ipam.HostAddresses{After: s.machine.Mark(s.clock()), Addresses: s.interfaces()}, nil)
}

// own returns the host's address on the LAN; the zero one if there is none. The last ones belong to hosts, but for those that a
// network uses.
func (s *site) own() netip.Addr {
	lan := s.c.w.LAN
	if !lan.IsValid() || s.lanAddr.IsValid() {
		return s.lanAddr
	}
	return addr.Nth(lan, addr.Offset(addr.Size(lan))-3-addr.Offset(s.index))
}

// toldOwn reports whether the host's process, if there is one, has had the time to hear of the address that the host has on the
// LAN, or of a grant on its way that is older: while it is stopped nobody tells it, and what waits for it then comes in any order.
func (s *site) toldOwn() bool { return s.c.now-max(s.roamed, s.stopped) > time.Minute }

// roam gives a host another address on its LAN, one that no other has.
func (c *cluster) roam() {
	s := one(c.rnd, c.sites...)
	a := addr.Nth(c.w.LAN, addr.Offset(addr.Size(c.w.LAN))-3-addr.Offset(c.rnd.IntN(12)))
	if slices.ContainsFunc(c.sites, func(t *site) bool { return t.own() == a }) || s.dead || s.machine == nil {
		return
	}
	if u := c.oracle.use[c.addrs[a]]; u.on != nil {
		return // its DHCP server asks first whether a device has it (RFC 2131, 4.4.1)
	}
	if st := s.whoHas(a); st.State == "gateway" || st.State == "held" && st.Kind == "client" {
		return // its peer keeps both: the next network has the gateway again, and a client may have got it for an interface
	}
	c.tracef("%s has %v on the LAN now, no more %v", s, a, s.own())
	s.lanAddr, s.roamed = a, c.now
}
