package ipamtest

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
)

// noLeak looks for addresses that are held and used by nobody.
func (c *cluster) noLeak() {
	for s := range c.running() {
		v, networks := c.oracle.of(s), s.engine.networks
		for k, a := range c.list {
			if !v.held[k] || c.oracle.use[k].site == s.index+1 || v.lost[k] != "" || !s.cfg.AwaitInventory || a == s.own() {
				continue
			}
			if slices.ContainsFunc(networks, func(n *network) bool { return n.gateway == a }) {
				continue // a gateway that was all engines' for a while
			}
			st, _ := s.machine.Who(s.clock(), a)
			if st.Kind == "gateway" && slices.ContainsFunc(networks, func(n *network) bool { return n.Pool == st.Pool }) {
				continue // of a network that was not made; the next one on the pool gets it
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

// account says of each address of each pool what it is, by what the peers have
// on their disks and what the cluster has agreed on, and looks whether that is
// all of them (I8); and whether every peer's own account comes to the same size.
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
			if t, _ := p.Ring.At(v.Range.Start); t.Owner != ring.Reserved && c.oracle.state.Member(t.Owner) != nil && !c.heldByMember(p, v.Range.Start) {
				a.Reserved += uint64(v.Range.Size())
			}
		}
		for s := range c.running() {
			now := s.clock()
			for _, mine := range s.machine.Status(now).Pools {
				if mine.Pool != p.CIDR {
					continue
				}
				if sum := mine.Held + mine.Resting + mine.Ready + mine.Free + mine.Reserved + mine.Quarantined; sum != mine.Size {
					c.fail("I8", "%s accounts for %d of %d addresses of %v: %+v", s, sum, mine.Size, p.CIDR, mine)
				}
				if c.oracle.state.Member(s.id) != nil { // else what it has is quarantined
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
		s := c.sites[i]
		if s.machine == nil || c.breach != nil || s.leaving || c.oracle.state.Member(s.id) == nil {
			continue
		}
		for _, p := range slices.Clone(c.oracle.state.Pools) {
			// A schedule that is measured in time may have too many addresses.
			if c.oracle.state.PoolOf(p.CIDR) != nil && (c.o.Time == 0 || p.Ring.Size() <= large) {
				c.takePool(s, p.CIDR)
			}
		}
	}
}

// takePool takes all of a pool from one peer.
func (c *cluster) takePool(s *site, subnet netip.Prefix) {
	if slices.ContainsFunc(c.sites, c.lacksOwn) {
		c.pass(25 * time.Second) // hosts ask again and again for what they have themselves
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
	if c.breach == nil && got != want {
		c.fail("I6", "%s obtains %d addresses of %v, and there are %d: %v", s, got, subnet, want, err)
	}
	for i := range c.list {
		if u := c.oracle.use[i]; u.site == s.index+1 && len(u.name) > len(holder) && u.name[:len(holder)] == holder && c.breach == nil {
			c.oracle.leaves(s, c.list[i], u.name)
			c.ask(s, &ipam.FreeRequest{ID: u.name})
		}
	}
}

// lacksOwn reports whether a host that began anew has yet to have its own address again, though nobody else has it any more.
func (c *cluster) lacksOwn(s *site) bool {
	a := s.own()
	i, known := c.addrs[a]
	return known && s.rejoined > 0 && !c.oracle.of(s).held[i] && !c.heldElsewhere(a, s.index)
}

// ownHeld counts the addresses of a pool that other hosts have themselves on their LAN, as their peers know.
func (c *cluster) ownHeld(s *site, subnet netip.Prefix) (n int) {
	for _, t := range c.sites {
		if a := t.own(); t != s && subnet.Contains(a) && c.oracle.of(t).held[c.addrs[a]] {
			n++
		}
	}
	return n
}

// obtainable counts the addresses of a pool that are neither held, reserved
// nor quarantined.
func (c *cluster) obtainable(s *site, subnet netip.Prefix) int {
	p := c.oracle.state.PoolOf(subnet)
	n := 0
	for r, t := range p.Ring.All() {
		for o := r.Start; o < r.End; o++ {
			if t.Owner == ring.Reserved || t.Owner != ring.Free && c.oracle.state.Member(t.Owner) == nil {
				continue
			}
			if !c.heldByMember(p, o) && p.ReservationAt(o) == nil && addr.Nth(subnet, o) != s.own() {
				n++
			}
		}
	}
	return n
}

// heldByMember reports whether a site of the cluster holds the address. One that was given up, and has left since, holds
// what it has itself for the time that it joins again; nobody else heeds that.
func (c *cluster) heldByMember(p *chronicle.Pool, o addr.Offset) bool {
	i := c.addrs[p.CIDR.Addr()] + int(o)
	return slices.ContainsFunc(c.sites, func(s *site) bool { return c.oracle.of(s).held[i] && c.oracle.state.Member(s.id) != nil })
}

// heldBeside reports whether a site but this one, by its index, holds the address.
func (c *cluster) heldBeside(p *chronicle.Pool, o addr.Offset, but int) bool {
	return c.heldElsewhere(addr.Nth(p.CIDR, o), but)
}

func (c *cluster) heldElsewhere(a netip.Addr, but int) bool {
	i := c.addrs[a]
	for k := range c.oracle.sites {
		if k != but && c.oracle.sites[k].held[i] {
			return true
		}
	}
	return false
}
