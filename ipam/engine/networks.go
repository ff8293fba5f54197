package engine

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/rule"
)

// Whether this host has networks on a pool decides when its gateway, its reservations and the pool itself may go. The
// networks are a set of pool IDs (R60): an engine asks for a pool again without releasing it before, and releases it
// late, twice or never. So a request adds to the set, and only a list of networks takes from it: one that was begun
// later, and shows none on the subnet. A network that is in the making is on no list yet, and stays in the set. A
// release only has the engine asked for such a list.

// makeTime is for how long after the last request for any part of it a network may be in the making: the network driver
// may take its time. Far above what an engine takes for that.
const makeTime = time.Minute

// maxBurst is how often within burstTime one pool may be answered to requests
// that name no subnet. An engine to which the pool is not good, because a
// route of its host overlaps it, asks again at once, thousands of times a
// second and for ever, unless it gets another pool or an error (libnetwork's
// remote.RequestPool, moby/libnetwork#1465).
const (
	maxBurst  = 16
	burstTime = 2 * time.Second
)

// Network is a network of this host.
type Network struct {
	poolid.Network
	// asked is when the engine last asked for its pool, or for a part of it while it is in the making; zero if an earlier
	// release has not written it.
	asked Moment
	// open is for how many requests for its pool no list has shown yet that their networks are made, or gone.
	open int
	// released numbers the release of its pool, if one came since that was asked for last; else 0.
	released uint64
	// again says that the last request for its pool was taken for a replay, and fresh that the engine is making the
	// network, or was as it asked last.
	again, fresh bool
	// chosenAt is when it was last answered to a request that left the
	// choice to us, and burst how often in quick succession.
	chosenAt time.Time
	burst    int
}

// Fresh reports whether the engine is making the network, or was as it last asked for its pool, and did not ask again for one
// that it has.
func (n *Network) Fresh() bool { return n.fresh }

// Several reports whether several networks may have that ID.
func (n *Network) Several() bool { return n.open > 1 }

// AskedSince reports whether a part of it was asked for since something that has that number.
func (n *Network) AskedSince(serial uint64) bool { return n.asked.Serial >= serial }

// Subnet is what is known of the networks of this host on one subnet.
type Subnet struct {
	// Kept is what the networks of the last complete list keep back.
	Kept map[addr.Offset]chronicle.Kind

	cidr  netip.Prefix
	ids   []*Network // the set, in order of the IDs
	shown int        // networks that the last list of networks has there
	// before is how many there may have been when the first of those was asked for that are in the making.
	before   int
	released uint64    // numbers the last release of a pool there; 0: none came
	removed  uint64    // numbers the removal of its pool, until a list that was begun later has come; else 0
	dropped  time.Time // when a list last showed that a network is gone which the engine had not released
	pooled   bool      // there is a pool of it
}

// Has reports whether a network of this host is on the subnet, or in the making.
func (s *Subnet) Has() bool { return len(s.ids) > 0 || s.shown > 0 }

// HasRecord reports whether the database knows a network there.
func (s *Subnet) HasRecord() bool { return len(s.ids) > 0 }

// Networks returns how many networks people are told of.
func (s *Subnet) Networks() int { return max(len(s.ids), s.shown) }

// Shown returns how many networks the last list of networks has there.
func (s *Subnet) Shown() int { return s.shown }

// Single reports whether all that is known speaks for one network.
func (s *Subnet) Single() bool { return len(s.ids) == 1 && s.shown <= 1 && s.ids[0].open <= 1 }

// Unasked reports whether the engine has networks there that it did not ask this peer for.
func (s *Subnet) Unasked() bool { return s.shown > len(s.ids) }

// Released returns the number of the last release of a pool there; 0 if none came.
func (s *Subnet) Released() uint64 { return s.released }

// On returns what is known of the networks on a subnet, for a pool of it.
func (e *Engine) On(cidr netip.Prefix) *Subnet {
	s := e.on(cidr)
	s.pooled = true
	return s
}

func (e *Engine) on(cidr netip.Prefix) *Subnet {
	s := e.subnets[cidr]
	if s == nil {
		s = &Subnet{cidr: cidr}
		e.subnets[cidr] = s
	}
	return s
}

// RemovePool notes that the pool of a subnet is gone.
func (e *Engine) RemovePool(s *Subnet) { s.removed, s.pooled = e.Stamp(), false }

// RemovedAt returns the number of the removal of the pool of a subnet, of which no list knows yet; else 0.
func (e *Engine) RemovedAt(cidr netip.Prefix) uint64 {
	if s := e.subnets[cidr]; s != nil {
		return s.removed
	}
	return 0
}

// Network returns a network of the set, or nil.
func (e *Engine) Network(id poolid.ID) *Network { return e.networks[id] }

// IDs returns the set, in order.
func (e *Engine) IDs() []poolid.ID { return slices.Sorted(maps.Keys(e.networks)) }

// Count returns how many networks this host has on all subnets.
func (e *Engine) Count() (n int) {
	for _, s := range e.subnets {
		n += s.Networks()
	}
	return n
}

// CountOf returns how many networks of this host people are told to have just that ID.
func (e *Engine) CountOf(n *Network) int {
	if s := e.on(n.Pool); len(s.ids) == 1 {
		return max(s.shown, 1)
	}
	return 1
}

// add puts a network into the set.
func (e *Engine) add(n *Network) {
	e.networks[n.ID()] = n
	s := e.on(n.Pool)
	at, _ := slices.BinarySearchFunc(s.ids, n, func(a, b *Network) int { return cmp.Compare(a.ID(), b.ID()) })
	s.ids = slices.Insert(s.ids, at, n)
}

// makes reports whether a network on the subnet may be in the making.
func (e *Engine) makes(s *Subnet) bool {
	return slices.ContainsFunc(s.ids, func(n *Network) bool { return e.InTheMaking(n, e.out.Now()) })
}

// InTheMaking reports whether a network may still be in the making at that time.
func (e *Engine) InTheMaking(n *Network, at time.Time) bool {
	return n.open > 0 && at.Before(e.SureSince(n.asked.At).Add(makeTime)) && !e.cfg.Rules.Has(rule.Making)
}

// Enter puts a network into the set, whose pool is granted. chosen says that the request left the choice of the subnet to
// the peer. It reports false, and does nothing, if the engine asks so too often for the same.
func (e *Engine) Enter(id poolid.Network, chosen bool) bool {
	s, now := e.on(id.Pool), e.out.Now()
	n, known := e.networks[id.ID()]
	if !known {
		n = &Network{Network: id}
	}
	if chosen {
		if now.Sub(n.chosenAt) > burstTime || now.Before(n.chosenAt) {
			n.chosenAt, n.burst = now, 0
		}
		if n.burst++; n.burst > maxBurst {
			return false
		}
	}
	// What an engine that starts asks for by its subnet may be a replay of a network that it has.
	mayReplay := e.replaying && !chosen
	n.again = mayReplay && known
	n.fresh = !n.again && (!mayReplay || !s.Unasked())
	if !e.makes(s) {
		s.before = s.Networks()
		if e.cfg.Lists {
			n.open = 0
		}
	}
	if !n.again || n.open == 0 {
		n.open++
	}
	n.asked, n.released = e.moment(), 0
	if !known {
		e.add(n)
	}
	e.save(n)
	return true
}

// AskPart notes that the engine asks for a part of a network, which may be long after it asked for its pool: a majority
// had to agree to it.
func (e *Engine) AskPart(id poolid.ID) {
	n := e.networks[id]
	if n == nil || n.open == 0 || e.age(n.asked.At) < e.cfg.Grace/2 {
		return
	}
	n.asked = e.moment()
	e.save(n)
}

// Release notes that the engine gives back the pool of a network, and has it asked for a list of networks. It reports
// whether the network may be gone for all that is known here.
func (e *Engine) Release(id poolid.Network) bool {
	s, n := e.subnets[id.Pool], e.networks[id.ID()]
	if s == nil {
		return false
	}
	s.released = e.Stamp()
	if n != nil {
		n.released, n.burst = s.released, max(n.burst-1, 0)
		if n.open == 1 && s.shown == 0 && e.isListed() && !e.mayBeLate(s) {
			n.open = 0 // it is that network's, which was refused or is gone
		}
	}
	if e.WillList() {
		*e.out.Note() = effect.Note{Kind: effect.NoteParted, Pool: s.cidr}
	}
	if n != nil && !e.cfg.Lists {
		switch {
		case n.again && e.replaying && e.age(n.asked.At) < makeTime:
			n.again = false // the engine has it, and was refused a part of it
			return false
		case n.open > 1:
			n.open--
			e.save(n)
			return false
		}
	}
	return true
}

// mayBeLate reports whether a release may be that of a network which a list showed to be gone, or which went while this
// peer was off: the engine brings it for a while.
func (e *Engine) mayBeLate(s *Subnet) bool {
	return e.age(e.started) < makeTime || !s.dropped.IsZero() && e.age(s.dropped) < makeTime
}

// ListNetworks learns from a list that is not older than the last one which networks of this host there are, by subnet,
// and reports whether another list would tell more.
func (e *Engine) ListNetworks(shown map[netip.Prefix]int, mark Mark) (again bool) {
	if mark.Serial < e.listed.Serial {
		return false
	}
	e.listed = mark
	for cidr := range shown {
		e.on(cidr)
	}
	for _, s := range slices.SortedFunc(maps.Values(e.subnets), func(a, b *Subnet) int { return a.cidr.Compare(b.cidr) }) {
		s.shown = shown[s.cidr]
		if mark.Knows(s.removed) {
			s.removed = 0
		}
		e.endMaking(s, mark)
		for _, n := range slices.Clone(s.ids) {
			gone := s.shown == 0 || s.shown < len(s.ids) && n.released > 0 && mark.Knows(n.released)
			switch {
			case e.InTheMaking(n, mark.At), !mark.Knows(n.asked.Serial):
				again = again || gone
			case gone:
				e.drop(s, n)
			default:
				n.open = 0
			}
		}
		if !s.Has() && s.removed == 0 && !s.pooled {
			delete(e.subnets, s.cidr)
		}
	}
	return again
}

// endMaking ends the making of all networks on a subnet, if a list that was begun after they were asked for has as many
// more than there were before.
func (e *Engine) endMaking(s *Subnet, mark Mark) {
	open := 0
	for _, n := range s.ids {
		if !mark.Knows(n.asked.Serial) {
			return
		}
		if e.InTheMaking(n, mark.At) {
			open += n.open
		}
	}
	if s.shown < s.before+open {
		return
	}
	for _, n := range s.ids {
		n.open = 0
	}
}

// drop takes a network out of the set.
func (e *Engine) drop(s *Subnet, n *Network) {
	delete(e.networks, n.ID())
	s.ids = slices.DeleteFunc(s.ids, func(other *Network) bool { return other == n })
	e.out.Delete(Bucket, string(n.ID()))
	if n.released == 0 {
		s.dropped = e.out.Now()
		*e.out.Note() = effect.Note{Kind: effect.NoteNetworkGone, Pool: s.cidr}
	}
}

// Believe drops the networks on a subnet whose release has come.
func (e *Engine) Believe(s *Subnet) {
	for _, n := range slices.Clone(s.ids) {
		if n.released > 0 {
			e.drop(s, n)
		}
	}
	if len(s.ids) == 0 {
		s.shown = 0
	}
}

// Awaits reports whether a network on the subnet may be gone, as the next list of networks tells.
func (e *Engine) Awaits(s *Subnet) bool {
	return e.WillList() && s.released > 0 && !e.listed.Knows(s.released)
}

// Subnets returns the subnets of the networks that the last list has.
func (e *Engine) Subnets() []netip.Prefix { return e.shown }

// SetSubnets replaces them.
func (e *Engine) SetSubnets(all []netip.Prefix) { e.shown = all }
