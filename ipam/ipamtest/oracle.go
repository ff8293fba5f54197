package ipamtest

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/lock"
)

// oracle sees what no peer can: all machines, all disks and all containers at once. It is told of each commit and compares.
//
// What may be handed out is remembered by host and computed again when the host's machine knows another slot; in between it only
// shrinks, so that before a breach is reported the machine is asked once more.
type oracle struct {
	c         *cluster
	histories map[[16]byte]*history // by cluster
	state     *chronicle.State      // of the cluster that is, after the last slot that any host has committed

	use     []user  // by address: who uses it, whatever any peer thinks
	kept    []int   // by address: networks that keep it back, as a shared gateway or for something else
	ordered []order // by address: what operators were told
	unsure  []bool  // by address: what operators cannot know

	identities identities
	locks      locks
	commits    int
}

// user is who has an address configured.
type user struct {
	on   *site // nil: nobody
	name string
}

// sights is what the oracle remembers of a host, and how it stands to what was given up (see givenup.go).
type sights struct {
	held    []bool       // on its disk, by address
	ready   []bool       // it may hand out, by address: nothing while there is no process
	outside bool         // its peer was given up and has not started over
	lost    []string     // who on it uses what was given up, by address
	told    map[int]word // the last warning of an address that its peer heard
	readyAt moment       // for which ready is
	awaits  bool         // it waited for lists at the last commit
	looks   int          // how often pools were looked at
}

// moment is what a process knows.
type moment struct {
	cluster    [16]byte
	slot, life uint64
}

func (s *site) moment() moment {
	state := s.machine.State()
	return moment{state.Cluster, state.Slot, s.life}
}

func (o *oracle) init(c *cluster) {
	o.c = c
	o.state = &chronicle.State{}
	o.histories = map[[16]byte]*history{}
	o.forgetNames()
	o.use, o.kept = make([]user, len(c.list)), make([]int, len(c.list))
	o.ordered, o.unsure = make([]order, len(c.list)), make([]bool, len(c.list))
}

// forgetNames begins the accounts of label sets and locks.
func (o *oracle) forgetNames() {
	o.identities = identities{given: map[uint64]string{}, live: map[string]uint64{}}
	o.locks = locks{last: map[string]uint64{}, held: map[string]lock.Lock{}}
}

// committed compares a host with all others after a commit.
func (o *oracle) committed(s *site, save []ipam.Record) {
	h := o.history(s, save)
	for _, r := range save {
		if slot, ok := slotOf(r); ok && h != nil {
			o.decided(s, h, slot, r.Value)
		}
	}
	awaited := s.awaits
	s.awaits = s.machine.AwaitsLists()
	if awaited && !s.awaits || s.moment() != s.readyAt {
		o.learned(s)
	}
	for _, r := range save {
		if r.Bucket == "holding" {
			o.holding(s, r.Key)
		}
	}
	o.commits++
	if o.commits%61 == 0 {
		o.check(s)
	}
}

// check has a machine look for contradictions itself (I2, I5, I8).
func (o *oracle) check(s *site) {
	for _, err := range s.machine.Check(s.clock()) {
		o.c.fail("check", "%s: %v", s, err)
	}
}

// large is how many addresses a pool has of which a host's own ranges alone are looked at most of the time.
const large = 128

// see computes what of a pool a host may hand out.
func (o *oracle) see(s *site, p *chronicle.Pool) {
	first := o.c.addrs[p.CIDR.Addr()]
	look := func(r addr.Range) {
		for i := first + int(r.Start); i < first+int(r.End); i++ {
			if s.machine.MayHandOut(p.CIDR, o.c.list[i]) {
				s.ready[i] = true
				o.alone(s, i, "may hand out")
			}
		}
	}
	if s.looks++; p.Ring.Size() <= large || s.looks%16 == 0 {
		look(addr.Whole(p.CIDR))
		return
	}
	for r := range p.Ring.OwnedBy(s.id) {
		look(r)
	}
}

// alone reports which other host has an address that a host has.
func (o *oracle) alone(s *site, i int, has string) {
	if s.outside {
		return
	}
	a := o.c.list[i]
	if u := o.use[i]; u.on != nil && u.on != s {
		o.c.fail("I1", "%s %s %v, which %s on %s uses", s, has, a, u.name, u.on)
	}
	for _, t := range o.c.sites {
		if t == s || t.outside {
			continue
		}
		if t.held[i] {
			o.c.fail("I1", "%s %s %v, which %s holds", s, has, a, t)
		}
		if t.ready[i] && t.machine != nil {
			if t.ready[i] = o.mayHandOut(t, a); t.ready[i] {
				o.c.fail("I1", "%s %s %v, which %s may hand out", s, has, a, t)
			}
		}
	}
}

// mayHandOut asks a machine whether it may hand out an address.
func (o *oracle) mayHandOut(s *site, a netip.Addr) bool {
	for _, p := range s.machine.State().Pools {
		if p.CIDR.Contains(a) {
			return s.machine.MayHandOut(p.CIDR, a)
		}
	}
	return false
}

// holding compares with all others after the record of an address was written or deleted.
func (o *oracle) holding(s *site, key []byte) {
	k := chronicle.PoolKey{Slot: binary.BigEndian.Uint64(key), Place: binary.BigEndian.Uint32(key[8:])}
	subnet, ok := o.histories[s.machine.State().Cluster].subnets[k]
	if !ok {
		o.c.fail("disk", "%s writes an address of pool %v, which there never was", s, k)
		return
	}
	a := addr.Nth(subnet, addr.Offset(binary.BigEndian.Uint64(key[12:])))
	i, ok := o.c.addrs[a]
	if !ok {
		o.c.fail("disk", "%s writes %v, which lies in no pool", s, a)
		return
	}
	held := s.holds(a)
	if held == s.held[i] {
		return
	}
	s.held[i] = held
	if held {
		o.alone(s, i, "holds")
		o.hasAgain(s, i)
		return
	}
	if u := o.use[i]; u.on == s {
		if strings.HasPrefix(u.name, gatewayUse) && !s.machine.MayHandOut(subnet, a) {
			o.use[i] = user{} // it is all engines' now
			return
		}
		o.c.fail("I1", "%s frees %v, which %s on it uses", s, a, u.name)
	}
}

// whoHas returns what the host's peer tells of an address, nothing where it tells none.
func (s *site) whoHas(a netip.Addr) ipam.AddressStatus {
	st, err := s.machine.Who(s.clock(), a)
	if err != nil {
		return ipam.AddressStatus{}
	}
	return st
}

// holds reports whether the host's peer holds an address.
func (s *site) holds(a netip.Addr) bool {
	switch st := s.whoHas(a); st.State {
	case "held", "gateway", "host":
		return true
	case "stranger":
		return st.MAC != "" // else it is set aside, as a peer warns of it
	default:
		return false
	}
}

// uses takes note that a container or client on the host uses an address from now on.
func (o *oracle) uses(s *site, a netip.Addr, name string) {
	i, ok := o.c.addrs[a]
	if !ok {
		o.c.fail("I1", "%s gives %v to %s, which lies in no pool", s, a, name)
		return
	}
	o.heeded(s, i, name)
	if u := o.use[i]; u.on != nil && (u.on != s || u.name != name) {
		o.c.fail("I1", "%v is given to %s on %s, while %s on %s uses it", a, name, s, u.name, u.on)
	}
	if a == s.own() && s.toldOwn() {
		o.c.fail("I1", "%v is given to %s on %s, whose own it is", a, name, s)
	}
	if strings.HasPrefix(name, gatewayUse) && s.machine != nil && !s.held[i] && !o.mayHandOut(s, a) {
		return // it is all engines' meanwhile
	}
	if o.kept[i] > 0 && !strings.HasPrefix(name, gatewayUse) {
		o.c.fail("I1", "%v is given to %s on %s, while networks keep it back", a, name, s)
	}
	if v := o.ordered[i]; v != (order{}) && !o.c.wasNamed(name, v.name) {
		o.c.fail("I1", "%v is given to %s on %s, while an operator keeps it back for %q", a, name, s, o.ordered[i].name)
	}
	o.use[i] = user{s, name}
	if !s.held[i] {
		o.c.fail("I1", "%v is given to %s on %s, and its peer does not hold it", a, name, s)
	}
}

// leaves takes note that it uses it no longer.
func (o *oracle) leaves(s *site, a netip.Addr, name string) {
	i := o.c.addrs[a]
	if s.lost[i] == name {
		s.lost[i] = ""
		return
	}
	if u := o.use[i]; u != (user{s, name}) {
		o.c.fail("test", "%s on %s leaves %v, which %s on %v uses", name, s, a, u.name, u.on)
	}
	o.use[i] = user{}
}

// collapsed takes note that all databases are gone, and with them what was agreed and what operators were told.
func (o *oracle) collapsed() {
	o.state = &chronicle.State{}
	o.forgetNames()
	clear(o.ordered)
	clear(o.unsure)
}

// isUsed reports whether anybody uses the address, or a container on the host does though it is not the host's own.
func (o *oracle) isUsed(s *site, a netip.Addr) bool {
	i := o.c.addrs[a]
	return o.use[i].on != nil || s.lost[i] != ""
}
