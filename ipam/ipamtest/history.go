package ipamtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// history is what one cluster has agreed on: the slots as they were decided, and the state that they make.
type history struct {
	state   *chronicle.State
	ended   bool     // it was recovered, and goes on as another one
	first   uint64   // the slot with which it begins: 0, or that of a recovery
	values  [][]byte // of the slots behind first
	digests []uint64 // of the state at first and each slot behind
	subnets map[chronicle.PoolKey]netip.Prefix
	effects map[effect]uint64 // the slot in which a command had effect
}

// effect names a command.
type effect struct {
	author peer.ID
	number uint64
}

// slotOf returns the slot of which a record has the value.
func slotOf(r ipam.Record) (slot uint64, ok bool) {
	if r.Bucket != "chronicle" || len(r.Key) != 9 || r.Key[0] != 1 || r.Value == nil {
		return 0, false
	}
	return binary.BigEndian.Uint64(r.Key[1:]), true
}

// history returns that of the cluster that a host is in, nil if it is in none. A cluster begins with slot 1, or with the state from
// which one was recovered.
func (o *oracle) history(s *site, save []ipam.Record) *history {
	state := s.machine.State()
	h := o.histories[state.Cluster]
	if h != nil || state.Slot == 0 {
		return h
	}
	h = &history{
		state: &chronicle.State{}, digests: make([]uint64, 1),
		subnets: map[chronicle.PoolKey]netip.Prefix{}, effects: map[effect]uint64{},
	}
	founded := false
	for _, r := range save {
		slot, ok := slotOf(r)
		founded = founded || ok && slot == 1
	}
	switch {
	case founded:
		if len(o.histories) > 0 && o.c.w.Birth != Apart && s != o.c.beginner {
			o.c.fail("I3", "%s founds another cluster", s)
		}
		o.c.beginner = nil
	case s == o.c.survivor:
		o.refound(h, state)
	default:
		o.c.fail("I3", "%s is in a cluster that nobody founded", s)
	}
	o.histories[state.Cluster] = h
	return h
}

// refound begins the history of a cluster that was recovered.
func (o *oracle) refound(h *history, state *chronicle.State) {
	base, err := chronicle.DecodeState(state.Encode())
	if err != nil {
		o.c.fail("I2", "a recovered state cannot be read: %v", err)
		return
	}
	h.state, h.first, h.digests[0] = base, base.Slot, base.Digest()
	if before := o.histories[o.state.Cluster]; before != nil {
		maps.Copy(h.subnets, before.subnets) // its survivor drops what may have been removed
	}
	for _, p := range base.Pools {
		h.subnets[p.Key] = p.CIDR
	}
	o.state = base
	o.keepAgain()
	o.identifiedAgain(base)
	o.lockedAgain(base)
	o.c.survivor = nil
	for _, other := range o.histories {
		other.ended = true
	}
}

// decided compares the value of a slot with what others know (I3), and is the first to apply one that nobody knew.
func (o *oracle) decided(s *site, h *history, slot uint64, value []byte) {
	switch last := h.state.Slot; {
	case slot <= h.first:
		return
	case slot <= last:
		if known := h.values[slot-h.first-1]; !bytes.Equal(known, value) {
			o.c.fail("I3", "slot %d was decided as %s, and %s knows %s", slot, batchText(known), s, batchText(value))
		}
		return
	case slot > last+1:
		o.c.fail("I3", "%s writes slot %d, and slot %d is the last one", s, slot, last)
		return
	}
	if h.ended {
		o.c.fail("I3", "%s decides slot %d of a cluster that was recovered", s, slot)
		return
	}
	value = bytes.Clone(value)
	o.c.tracef("%s is first to know slot %d: %s", s, slot, batchText(value))
	batch, err := chronicle.DecodeBatch(value)
	if err != nil {
		o.c.fail("I3", "slot %d cannot be read: %v", slot, err)
		return
	}
	h.values = append(h.values, value)
	apply := (*chronicle.State).Apply
	if o.c.o.Apply != nil {
		apply = o.c.o.Apply
	}
	for i, out := range apply(h.state, batch) {
		out.Command = batch[i]
		o.outcome(h, out)
	}
	h.digests = append(h.digests, h.state.Digest())
	if len(h.state.Roster) >= len(o.state.Roster) || h.first > 0 {
		o.state = h.state
	}
	o.keepAgain()
	if err := h.state.Check(); err != nil {
		o.c.fail("I2", "slot %d: %v", slot, err)
	}
}

// outcome takes note of one command.
func (o *oracle) outcome(h *history, out chronicle.Outcome) {
	name := strings.TrimPrefix(fmt.Sprintf("%T", out.Command.Action), "chronicle.")
	if out.Refused != "" {
		o.c.count[name+" refused"]++
		o.c.tracef("  %s %d %v: no effect, %s", o.c.peerText(out.Command.Author), out.Command.Number, out.Command.Action, out.Refused)
		return
	}
	o.c.count[name]++
	key := effect{out.Command.Author, out.Command.Number}
	if before, twice := h.effects[key]; twice {
		o.c.fail("I7", "command %d of %s has effect in slot %d and again in slot %d: %v",
			key.number, o.c.peerText(key.author), before, h.state.Slot, out.Command.Action)
	}
	h.effects[key] = h.state.Slot
	o.identified(out)
	o.locked(out)
	switch a := out.Command.Action.(type) {
	case chronicle.CreatePool:
		h.subnets[out.Pool] = h.state.Pool(out.Pool).CIDR
		if len(a.Away) > 0 {
			o.c.count["dealt around"]++
		}
	case chronicle.Give:
		if m := h.state.Member(out.Command.Author); m != nil && m.Phase == chronicle.Draining {
			o.c.count["bequeathed"]++
		}
	case chronicle.Evict:
		if s := o.c.bearer(a.Peer); s != nil && !s.leaving {
			o.c.count["evicted alive"]++
		}
	case chronicle.Admit:
		o.admitted(a.ID)
	case chronicle.Forget:
		o.givenUp(a.Peer)
	}
	o.c.tracef("  %s %d %v %v", o.c.peerText(out.Command.Author), out.Command.Number, out.Command.Action, out.Range)
}

// learned compares the state of a host that knows another slot than before with that of all others (I4), and what it may hand out
// (I1).
func (o *oracle) learned(s *site) {
	state := s.machine.State()
	if h := o.histories[state.Cluster]; h != nil {
		switch {
		case state.Slot > h.state.Slot:
			o.c.fail("I3", "%s is at slot %d, and slot %d is the last one that was written", s, state.Slot, h.state.Slot)
		case state.Slot >= h.first && state.Digest() != h.digests[state.Slot-h.first]:
			o.c.fail("I4", "%s is at slot %d with another state than was decided", s, state.Slot)
		}
		if !h.ended && s.cast != nil && s.cast.back {
			s.cast = nil // it was in no cluster, or could leave the one that is no more
		}
	} else if state.Slot > 0 {
		o.c.fail("I3", "%s is in a cluster that nobody founded", s)
	}
	s.readyAt = s.moment()
	s.settled = s.settled || state.Slot > 0
	clear(s.ready)
	for _, p := range state.Pools {
		o.see(s, p)
	}
}
