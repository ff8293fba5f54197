package ipamtest

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
)

// noLeak looks for addresses that are held and used by nobody.
func (c *cluster) noLeak() {
	for s := range c.running() {
		for k, a := range c.list {
			if !s.held[k] || c.oracle.use[k].on == s || s.lost[k] != "" || !s.cfg.AwaitInventory || a == s.own() {
				continue
			}
			st, _ := s.machine.Who(s.clock(), a)
			if slices.ContainsFunc(s.engine.networks, func(n *network) bool {
				// A gateway that was all engines' for a while, or of a network that was not made: the next one on the pool gets it.
				return n.gateway == a || st.Kind == "gateway" && n.Pool == st.Pool
			}) {
				continue
			}
			c.fail("leak", "%v is held on %s and nobody uses it: %+v; its networks are %+v", a, s, st, s.machine.Status(s.clock()).Networks)
		}
	}
}

// Account is what the addresses of one pool are, each of them one thing.
type Account struct {
	Pool                                              netip.Prefix
	Size                                              uint64
	Held, Resting, Ready, Free, Reserved, Quarantined uint64
}

// account says of each address of each pool what it is, by what the peers have on their disks and what the cluster has agreed on,
// and looks whether that is all of them (I8). Each peer's own account was checked by itself, see [oracle.check].
func (c *cluster) account() {
	for _, p := range c.oracle.state.Pools {
		a := Account{Pool: p.CIDR, Size: uint64(p.Ring.Size())}
		for r, t := range p.Ring.All() {
			switch {
			case t.Owner == ring.Free:
				a.Free += uint64(r.Size())
			case t.Owner == ring.Reserved:
				a.Reserved += uint64(r.Size())
			case c.oracle.state.Member(t.Owner) == nil:
				a.Quarantined += uint64(r.Size())
			}
		}
		for _, v := range p.Reserved {
			// Kept for a container that has had it: its peer's, and handed to nobody else.
			t, _ := p.Ring.At(v.Range.Start)
			if t.Owner != ring.Reserved && c.oracle.state.Member(t.Owner) != nil && !c.heldByMember(p, v.Range.Start) {
				a.Reserved += uint64(v.Range.Size())
			}
		}
		for s := range c.running() {
			for _, mine := range s.machine.Status(s.clock()).Pools {
				if mine.Pool == p.CIDR && c.oracle.state.Member(s.id) != nil { // else what it has is quarantined
					a.Held += mine.HeldHere
					a.Resting += mine.RestingHere
					a.Ready += mine.Mine - mine.RestingHere
				}
			}
		}
		if sum := a.Held + a.Resting + a.Ready + a.Free + a.Reserved + a.Quarantined; sum != a.Size {
			c.fail("I8", "%d of %d addresses of %v are accounted for: %+v", sum, a.Size, p.CIDR, a)
		}
		c.accounts = append(c.accounts, a)
	}
}

// takeAll takes everything that there is from one peer after the other.
func (c *cluster) takeAll() {
	sites := c.rnd.Perm(len(c.sites))
	if c.rnd.IntN(4) > 0 {
		sites = sites[:1]
	}
	for _, i := range sites {
		if s := c.sites[i]; c.isMember(s) {
			for _, p := range slices.Clone(c.oracle.state.Pools) {
				// A schedule that is measured in time may have too many addresses.
				if c.breach == nil && c.oracle.state.PoolOf(p.CIDR) != nil && (c.o.Time == 0 || p.Ring.Size() <= large) {
					c.takePool(s, p.CIDR)
				}
			}
		}
	}
}

// takePool takes all of a pool from one peer.
func (c *cluster) takePool(s *site, subnet netip.Prefix) {
	if slices.ContainsFunc(c.sites, func(s *site) bool {
		// A host that started over asks again and again for its own address, which no other host has any more.
		i, known := c.addrs[s.own()]
		return known && s.rejoined > 0 && !s.held[i] && !c.oracle.heldBeside(s.own(), s)
	}) {
		c.pass(25 * time.Second)
	}
	want, own := c.obtainable(s, subnet), c.ownHeld(s, subnet)
	got := 0
	const holder = "everything"
	var err error
	for tries := 0; c.breach == nil; {
		r := c.ask(s, &ipam.ClientRequest{Pool: subnet.String(), ID: holder + strconv.Itoa(got)})
		if err = r.Err; err != nil {
			// Some of it may have been on its way from one peer to another.
			if tries++; tries > 3 {
				break
			}
			c.pass(25 * time.Second)
			continue
		}
		c.oracle.uses(s, r.Address.Address.Addr(), holder+strconv.Itoa(got))
		got++
	}
	if p := c.oracle.state.PoolOf(subnet); p == nil {
		want = got // nobody used it, and it went
	}
	want -= c.ownHeld(s, subnet) - own // which the others' hosts have themselves, and kept back meanwhile
	if got != want {
		c.fail("I6", "%s obtains %d addresses of %v, and there are %d: %v", s, got, subnet, want, err)
	}
	for i, u := range c.oracle.use {
		if u.on == s && strings.HasPrefix(u.name, holder) && c.breach == nil {
			c.oracle.leaves(s, c.list[i], u.name)
			c.ask(s, &ipam.FreeRequest{ID: u.name})
		}
	}
}

// ownHeld counts the addresses of a pool that other hosts have themselves on their LAN, as their peers know.
func (c *cluster) ownHeld(s *site, subnet netip.Prefix) (n int) {
	for _, t := range c.sites {
		if a := t.own(); t != s && subnet.Contains(a) && t.held[c.addrs[a]] {
			n++
		}
	}
	return n
}

// obtainable counts the addresses of a pool that are neither held, reserved nor quarantined.
func (c *cluster) obtainable(s *site, subnet netip.Prefix) (n int) {
	p := c.oracle.state.PoolOf(subnet)
	for r, t := range p.Ring.All() {
		if t.Owner == ring.Reserved || t.Owner != ring.Free && c.oracle.state.Member(t.Owner) == nil {
			continue
		}
		for o := r.Start; o < r.End; o++ {
			if !c.heldByMember(p, o) && p.ReservationAt(o) == nil && addr.Nth(subnet, o) != s.own() {
				n++
			}
		}
	}
	return n
}

// heldByMember reports whether a site of the cluster holds the address. One that was given up, and has left since, holds what it
// has itself for the time that it joins again; nobody else heeds that.
func (c *cluster) heldByMember(p *chronicle.Pool, o addr.Offset) bool {
	i := c.addrs[p.CIDR.Addr()] + int(o)
	return slices.ContainsFunc(c.sites, func(s *site) bool { return s.held[i] && c.oracle.state.Member(s.id) != nil })
}

// heldBeside reports whether a host but this one, if it is one, holds the address.
func (o *oracle) heldBeside(a netip.Addr, but *site) bool {
	i := o.c.addrs[a]
	return slices.ContainsFunc(o.c.sites, func(s *site) bool { return s != but && s.held[i] })
}
