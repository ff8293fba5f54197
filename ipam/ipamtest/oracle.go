package ipamtest

import (
	"bytes"
	"encoding/binary"
	"hash/crc64"
	"net/netip"
	"strings"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// oracle sees what no peer can: all machines, all disks and all containers at
// once. It is told of each commit and compares.
//
// What may be handed out is remembered by host and computed anew when the
// host's machine knows another slot; in between it only shrinks, so that
// before a breach is reported the machine is asked once more.
type oracle struct {
	c       *cluster
	state   *chronicle.State // after the last slot that any host has committed
	values  [][]byte         // by slot
	digests []uint64         // by slot, of the state there
	subnets map[chronicle.PoolKey]netip.Prefix
	effects map[effect]uint64 // the slot in which a command had effect

	use     []user   // by address: who uses it, whatever any peer thinks
	sites   []sights // by host
	commits int
	hash    uint64
}

// user is who has an address configured.
type user struct {
	site int // index+1
	name string
}

type effect struct {
	author peer.ID
	number uint64
}

// sights is what the oracle remembers of a host.
type sights struct {
	held  []bool // on its disk, by address
	ready []bool // it may hand out, by address
	slot  uint64 // for which ready is
	life  uint64
}

var table = crc64.MakeTable(crc64.ECMA)

func (o *oracle) init(c *cluster) {
	o.c = c
	o.state = &chronicle.State{}
	o.values, o.digests = make([][]byte, 1), make([]uint64, 1)
	o.subnets, o.effects = map[chronicle.PoolKey]netip.Prefix{}, map[effect]uint64{}
	o.use = make([]user, len(c.list))
}

// of returns what is remembered of a host.
func (o *oracle) of(s *site) *sights {
	for len(o.sites) <= s.index {
		n := len(o.c.list)
		o.sites = append(o.sites, sights{held: make([]bool, n), ready: make([]bool, n)})
	}
	return &o.sites[s.index]
}

// sent takes note of a message.
func (o *oracle) sent(s *site, m ipam.Send) {
	o.hash = crc64.Update(o.hash^uint64(s.index), table, m.Frame)
}

// committed compares a host with all others after a commit.
func (o *oracle) committed(s *site, save []ipam.Record) {
	for _, r := range save {
		if r.Bucket == "chronicle" && len(r.Key) == 9 && r.Key[0] == 1 && r.Value != nil {
			o.decided(s, binary.BigEndian.Uint64(r.Key[1:]), r.Value)
		}
	}
	v := o.of(s)
	if slot := s.machine.State().Slot; slot != v.slot || s.life != v.life {
		o.learned(s, v)
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

// decided compares the value of a slot with what others know (I3), and is the
// first to apply one that nobody knew.
func (o *oracle) decided(s *site, slot uint64, value []byte) {
	switch last := o.state.Slot; {
	case slot <= last:
		if !bytes.Equal(o.values[slot], value) {
			o.c.fail("I3", "slot %d was decided as %s, and %s knows %s", slot, batchText(o.values[slot]), s, batchText(value))
		}
		return
	case slot > last+1:
		o.c.fail("I3", "%s writes slot %d, and slot %d is the last one", s, slot, last)
		return
	}
	value = bytes.Clone(value)
	if o.c.tracing() {
		o.c.tracef("%s is first to know slot %d: %s", s, slot, batchText(value))
	}
	batch, err := chronicle.DecodeBatch(value)
	if err != nil {
		o.c.fail("I3", "slot %d cannot be read: %v", slot, err)
		return
	}
	o.values = append(o.values, value)
	apply := (*chronicle.State).Apply
	if o.c.o.Apply != nil {
		apply = o.c.o.Apply
	}
	for i, out := range apply(o.state, batch) {
		out.Command = batch[i]
		o.outcome(slot, out)
	}
	o.digests = append(o.digests, o.state.Digest())
	if err := o.state.Check(); err != nil {
		o.c.fail("I2", "slot %d: %v", slot, err)
	}
}

// outcome takes note of one command.
func (o *oracle) outcome(slot uint64, out chronicle.Outcome) {
	name := actionName(out.Command.Action)
	if out.Refused != "" {
		o.c.count[name+" refused"]++
		if o.c.tracing() {
			o.c.tracef("  %s %d %v: no effect, %s", o.c.peerText(out.Command.Author), out.Command.Number, out.Command.Action, out.Refused)
		}
		return
	}
	o.c.count[name]++
	key := effect{out.Command.Author, out.Command.Number}
	if before, twice := o.effects[key]; twice {
		o.c.fail("I7", "command %d of %s has effect in slot %d and again in slot %d: %v", key.number, o.c.peerText(key.author), before, slot, out.Command.Action)
	}
	o.effects[key] = slot
	switch a := out.Command.Action.(type) {
	case chronicle.CreatePool:
		o.subnets[out.Pool] = o.state.Pool(out.Pool).CIDR
	case chronicle.Evict:
		if s := o.c.bearer(a.Peer); s != nil && !s.leaving {
			o.c.count["evicted alive"]++
		}
	}
	if o.c.tracing() {
		o.c.tracef("  %s %d %v %v", o.c.peerText(out.Command.Author), out.Command.Number, out.Command.Action, out.Range)
	}
}

// learned compares the state of a host that knows another slot than before
// with that of all others (I4), and what it may hand out (I1).
func (o *oracle) learned(s *site, v *sights) {
	state := s.machine.State()
	if state.Slot > o.state.Slot {
		o.c.fail("I3", "%s is at slot %d, and slot %d is the last one that was written", s, state.Slot, o.state.Slot)
		return
	}
	if state.Slot > 0 && state.Digest() != o.digests[state.Slot] {
		o.c.fail("I4", "%s is at slot %d with another state than was decided", s, state.Slot)
		return
	}
	v.slot, v.life = state.Slot, s.life
	s.settled = s.settled || state.Slot > 0
	clear(v.ready)
	for _, p := range state.Pools {
		o.see(s, v, p.CIDR)
	}
}

// see computes what of a pool a host may hand out.
func (o *oracle) see(s *site, v *sights, subnet netip.Prefix) {
	first := o.c.addrs[subnet.Addr()]
	for k, a := range o.c.list[first:] {
		if !subnet.Contains(a) {
			break
		}
		i := first + k
		if !s.machine.MayHandOut(subnet, a) {
			continue
		}
		v.ready[i] = true
		o.alone(s, i, "may hand out")
	}
}

// alone reports whoever else has an address that a host has.
func (o *oracle) alone(s *site, i int, has string) {
	a := o.c.list[i]
	if u := o.use[i]; u.site != 0 && u.site != s.index+1 {
		o.c.fail("I1", "%s %s %v, which %s on %s uses", s, has, a, u.name, o.c.sites[u.site-1])
	}
	for j := range o.sites {
		v := &o.sites[j]
		if j == s.index {
			continue
		}
		if v.held[i] {
			o.c.fail("I1", "%s %s %v, which %s holds", s, has, a, o.c.sites[j])
		}
		if t := o.c.sites[j]; v.ready[i] && t.machine != nil {
			if v.ready[i] = o.mayHandOut(t, a); v.ready[i] {
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

// holding compares with all others after the record of an address was written
// or deleted.
func (o *oracle) holding(s *site, key []byte) {
	k := chronicle.PoolKey{Slot: binary.BigEndian.Uint64(key), Place: binary.BigEndian.Uint32(key[8:])}
	subnet, ok := o.subnets[k]
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
	v := o.of(s)
	held := s.holds(a)
	if held == v.held[i] {
		return
	}
	v.held[i] = held
	if held {
		o.alone(s, i, "holds")
		return
	}
	if u := o.use[i]; u.site == s.index+1 {
		if strings.HasPrefix(u.name, gatewayUse) && !s.machine.MayHandOut(subnet, a) {
			o.use[i] = user{} // it is all engines' now
			return
		}
		o.c.fail("I1", "%s frees %v, which %s on it uses", s, a, u.name)
	}
}

// holds reports whether the host's peer holds an address.
func (s *site) holds(a netip.Addr) bool {
	st, err := s.machine.Who(s.clock(), a)
	return err == nil && (st.State == "held" || st.State == "gateway" || st.State == "host" || st.State == "stranger")
}

// uses takes note that somebody on the host uses an address from now on.
func (o *oracle) uses(s *site, a netip.Addr, name string) {
	i, ok := o.c.addrs[a]
	if !ok {
		o.c.fail("I1", "%s gives %v to %s, which lies in no pool", s, a, name)
		return
	}
	if u := o.use[i]; u.site != 0 && (u.site != s.index+1 || u.name != name) {
		o.c.fail("I1", "%v is given to %s on %s, while %s on %s uses it", a, name, s, u.name, o.c.sites[u.site-1])
	}
	if strings.HasPrefix(name, gatewayUse) && s.machine != nil && !o.of(s).held[i] && !o.mayHandOut(s, a) {
		return // it is all engines' meanwhile
	}
	o.use[i] = user{s.index + 1, name}
	if v := o.of(s); !v.held[i] && s.machine != nil {
		o.c.fail("I1", "%v is given to %s on %s, and its peer does not hold it", a, name, s)
	}
}

// leaves takes note that it uses it no longer.
func (o *oracle) leaves(s *site, a netip.Addr, name string) {
	i := o.c.addrs[a]
	if u := o.use[i]; u != (user{s.index + 1, name}) {
		o.c.fail("test", "%s on %s leaves %v, which %s on site %d uses", name, s, a, u.name, u.site)
	}
	o.use[i] = user{}
}

// started and ended take note of the life of a process: while there is none,
// nothing can be handed out, and what is held stays held.
func (o *oracle) started(s *site) {
	if !s.batch.pending {
		o.learned(s, o.of(s))
	}
}

func (o *oracle) ended(s *site) { clear(o.of(s).ready) }

// lost takes note that a host's database is gone.
func (o *oracle) lost(s *site) { clear(o.of(s).held) }

// isUsed reports whether anybody uses the address.
func (o *oracle) isUsed(a netip.Addr) bool { return o.use[o.c.addrs[a]].site != 0 }
