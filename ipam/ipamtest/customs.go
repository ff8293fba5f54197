package ipamtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// customs are what engines, users and LANs of some schedules do beside what all do:
// containers of several hosts have one name, and are renamed; an engine that starts
// asks for one thing after the other, takes a network back of which something is
// refused, although it has that, and asks for what it had when its host lost power;
// a network that could not be made is made once more; and hosts get other addresses on
// their LAN. And where networks take no MAC, as those of ipvlan, engines before 29 ask for what
// containers need without options. Like [habits] they have their own source of randomness. Chances are in ten
// thousandths.
type customs struct {
	rnd     *rand.Rand
	shared  int           // of a host's containers, the first ones, those named like others' on all hosts
	renames int           // of what users do
	orderly bool          // engines start so
	damaged int           // of hosts that lose power, those that lose their database by that, where databases are lost at all
	undone  int           // of networks that are asked for again, those that are taken back for another reason
	repeats int           // of networks whose pool is not answered for, those that are made once more
	bare    bool          // engines give endpoints no MAC, and start so
	tells   int           // of requests that are unclear, those for which a list comes soon
	breaks  int           // of their steps, those before which the process ends
	scripts int           // of their steps, those before which a client acts
	late    time.Duration // that lists come late after a start, at most
	roams   time.Duration // between two changes of a host's address on the LAN; 0: there are none
}

func drawCustoms(seed uint64) customs {
	h := customs{rnd: rand.New(rand.NewPCG(seed, 0xc057))}
	if h.rnd.IntN(3) == 0 {
		h.shared, h.renames = one(h.rnd, 0, 1, 2), one(h.rnd, 0, 200, 1000)
		h.orderly, h.undone = h.rnd.IntN(2) == 0, one(h.rnd, 0, 1000)
		h.damaged = one(h.rnd, 0, 5000)
		h.roams = one(h.rnd, 0, 20*time.Second, 2*time.Minute)
		h.repeats = one(h.rnd, 0, 8000)
	}
	// Drawn apart, so that the other schedules stay what they were.
	if rnd := rand.New(rand.NewPCG(seed, 0xba4e)); rnd.IntN(8) == 0 {
		h.goBare()
	}
	return h
}

// goBare has engines give endpoints no MAC. Each that starts then does so in order, as engines do: that
// it asks for all that it has before anything else is what tells these.
func (h *customs) goBare() {
	h.bare, h.orderly, h.undone = true, true, 0
	h.tells = one(h.rnd, 0, 5000, 10_000)
	h.breaks, h.scripts = one(h.rnd, 0, 0, 300, 2000), one(h.rnd, 0, 0, 2000)
	h.late = one(h.rnd, 0, 3*time.Second, 20*time.Second)
}

func (h *customs) chance(n int) bool { return n > 0 && h.rnd.IntN(10_000) < n }

// nameOf returns the name of a host's container.
func (h *customs) nameOf(s *site, i int) string {
	if i < h.shared {
		return fmt.Sprintf("service%d", i)
	}
	return fmt.Sprintf("%s%d", s, i)
}

// rename has two containers change their names, whether they run or not.
func (e *engine) rename() {
	rnd := e.s.c.customs.rnd
	x, y := one(rnd, e.containers...), one(rnd, e.containers...)
	// Who has the name of a holder that no list has shown yet is believed to be that.
	known := func(x *container) bool { return !x.busy && (!x.running || x.told) }
	if x == y || !known(x) || !known(y) || !e.s.cfg.AwaitInventory {
		return
	}
	x.name, y.name = y.name, x.name
	x.names, y.names = append(x.names, x.name), append(y.names, y.name)
	e.s.c.count["renamed"]++
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

// wasNamed reports whether what the oracle calls so has, or had, that name.
func (c *cluster) wasNamed(user, name string) bool {
	user = holderOf(user)
	for _, s := range c.sites {
		for _, x := range s.engine.containers {
			if x.id == user {
				return slices.Contains(x.names, name)
			}
		}
	}
	return user == name
}

// roam gives hosts other addresses on their LAN, again and again: the one gets one that
// no other has.
func (c *cluster) roam() {
	if c.customs.roams == 0 || !c.lan.IsValid() {
		return
	}
	c.after(time.Duration(c.customs.rnd.ExpFloat64()*float64(c.customs.roams)), func() {
		if c.calm {
			return
		}
		c.roam()
		s, size := one(c.customs.rnd, c.sites...), 1<<(32-c.lan.Bits())
		at := size - 3 - c.customs.rnd.IntN(12)
		a := c.list[c.addrs[c.lan.Addr()]:][at]
		if slices.ContainsFunc(c.sites, func(t *site) bool { return t.own() == a }) || s.dead {
			return
		}
		if u := c.oracle.use[c.addrs[a]]; u.site != 0 {
			return // whoever is to get it looks whether somebody has it (RFC 2131, 4.4.1)
		}
		if s.machine == nil || s.hasGateway(a) || s.hasClient(a) {
			return // its peer keeps both: the next network has the gateway again, and a client may have got it for an interface
		}
		c.count["roamed"]++
		c.tracef("%s has %v on the LAN now, no more %v", s, a, s.own())
		s.lanAddr, s.roamed = a, c.now
	})
}
