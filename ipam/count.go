package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
)

// How many networks of this host draw from a pool decides when its gateway
// and its reservations go. Two sides tell: what the engine asked for, one
// request for each network that it makes, and what it lists. Neither is the
// truth alone. A request may be a replay of what was counted, or of a network
// that the network driver then refuses; a network that is listed may be one
// that this peer was never asked for, since its database is younger. Where
// they may differ the higher number counts: what is kept too long is mended by
// the next inventory, and what goes too soon is handed out while it is in use.

// makeTime is how long after its pool was asked for a network may still be in
// the making: its gateway and auxiliary addresses are asked for, and the
// network driver may refuse it. Far above what an engine takes for that.
const makeTime = time.Minute

// enter counts a network of this host.
func (m *Machine) enter(n Network, p *pool, chosen bool) error {
	id := n.ID()
	net := m.networks[id]
	if net == nil {
		net = &network{Network: n}
		m.networks[id] = net
	}
	net.missing = time.Time{}
	if chosen {
		if m.now.Sub(net.chosenAt) > burstTime || m.now.Before(net.chosenAt) {
			net.chosenAt, net.burst = m.now, 0
		}
		if net.burst++; net.burst > maxBurst {
			return failf(ErrPoolOverlap, "the engine does not accept subnet %v for this network, since a network or route of this host overlaps it: a bridge needs a subnet of its own, so use another pool; on macvlan or ipvlan add --subnet %v to share it", p.CIDR, p.CIDR)
		}
	}
	// What the engine asks for by its subnet may be a replay of a network that
	// it has; replays do not count. See Greeting.
	mayReplay := m.replaying && !chosen
	net.again = mayReplay && net.replayed < net.count
	net.fresh = !net.again && (!mayReplay || p.lost == 0)
	net.replayed++
	net.asked = m.moment()
	if net.fresh {
		net.beside = max(p.listed, 0)
	}
	if !net.again {
		net.count++
		m.countAsked(n.Pool, 1)
	}
	net.useSaid = net.useSaid || m.saysUse(p)
	m.toMark = m.toMark || !net.useSaid
	m.saveNetwork(net)
	return nil
}

// greet notes that the engine, or this process, has started, so that the pools
// that it asks for may be those that it has.
func (m *Machine) greet() {
	m.replaying, m.greeted, m.named = true, m.moment(), false
	for _, c := range m.waiting {
		c.before = true
	}
	for _, n := range m.networks {
		n.replayed, n.inPlace = 0, false
	}
}

// releasePool answers libnetwork's ReleasePool: it forgets the network, never
// the addresses in use.
func (m *Machine) releasePool(q *PoolRelease) {
	p, n := m.poolOf(q.Network.Pool), m.networks[q.Network.ID()]
	if p != nil && !m.mayLive(n) {
		p.parted = m.moment()
		p.partings++
	}
	if n == nil {
		if p != nil {
			m.askForList(p)
		}
		return
	}
	if n.again && m.replaying && m.now.Sub(n.asked.at) < makeTime {
		n.again = false
		if m.makesAnother(n) {
			// One with the same options has gone, and another is made, which was taken for that: it counts in its place.
			n.fresh, n.inPlace = true, true
			return
		}
		// What was not counted is taken back: a new network that was refused,
		// or a replay that failed while the network lives.
		n.replayed--
		return
	}
	if unclear := n.replayed == 0 || n.inPlace; unclear && m.mayStart() && m.cfg.AwaitInventory && !m.inventory.knows(m.greeted.serial) {
		// The engine may have asked for it again before this process started, and have been
		// refused the rest. A list tells whether it lives.
		return
	}
	if n.count == 1 && m.makesAnother(n) {
		// It is another one with the same options, of which a new database knows nothing, or for which this one was taken: the
		// engine gives back nothing of this one before it is answered. If it does, as it has ended, lists tell.
		if p != nil {
			m.askForList(p)
		}
		return
	}
	n.count--
	m.countAsked(n.Pool, -1)
	n.replayed = min(n.replayed, n.count)
	n.burst = max(n.burst-1, 0)
	if n.count <= 0 {
		delete(m.networks, q.Network.ID())
	}
	m.saveNetwork(n)
	if p != nil {
		m.settle(p)
		m.askForList(p)
	}
}

// mayStart reports whether the engine may be starting: it has said so, or this process has started, a moment ago, and nothing has
// shown since that it is done.
func (m *Machine) mayStart() bool { return m.replaying && m.now.Sub(m.greeted.at) < makeTime }

// mightStart is mayStart as the call that is served came, which may have waited since, while a container asked.
func (m *Machine) mightStart() bool {
	return m.current != nil && m.current.starts && m.now.Sub(m.greeted.at) < makeTime
}

// makesAnother reports, where lists come, whether the engine waits for a part of what may be another network with the same options:
// for the gateway, or an auxiliary address, or, if a list will tell, for anything that belongs to a network, as it may have several
// subnets. It has given up what is answered late, as after a sleep.
func (m *Machine) makesAnother(n *network) bool {
	return m.cfg.AwaitInventory && slices.ContainsFunc(m.waiting, func(c *Call) bool {
		if !m.now.Before(c.Deadline) {
			return false
		}
		switch q := c.Request.(type) {
		case *AddressRequest:
			return (q.Purpose == ForGateway || q.Purpose == ForUnmarked) && (q.Network.ID() == n.ID() || m.sighted())
		case *PoolRequest:
			return m.sighted()
		}
		return false
	})
}

// askForList has the engine asked whether a pool that was given back has a network.
func (m *Machine) askForList(p *pool) {
	if m.givenBack(p) {
		m.note(Note{Kind: NoteParted, Pool: p.CIDR})
	}
}

// mayLive reports whether a network whose pool is given back may live all the same, and no list
// will tell: the engine has asked for it since it started, perhaps again, and gives back what it got
// where another subnet of the network is refused. nil is one of which nothing is known.
func (m *Machine) mayLive(n *network) bool {
	if n == nil {
		return m.replaying && m.cfg.AwaitInventory && m.blind
	}
	return m.replaying && !m.sighted() && n.asked.serial >= m.greeted.serial && m.now.Sub(n.asked.at) < makeTime
}

// isOnly reports whether a network is the only one on its pool, and one that the
// engine has asked for, and not only again.
func (m *Machine) isOnly(p *pool, n *Network) bool {
	net := m.networks[n.ID()]
	if net == nil || net.again || m.networksOf(p) > 1 {
		return false
	}
	// An engine that starts asks for all that it has before it gives anything back.
	return m.knowsNetworks() || net.replayed > 0
}

// networksOf returns how many networks of this host draw from the pool, as far
// as is known: those that the engine asked for, and those that it has besides.
func (m *Machine) networksOf(p *pool) int { return p.asked + p.lost }

// networksTold returns how many of them people are told of: one that may have been asked
// for and listed counts once.
func (m *Machine) networksTold(p *pool) int { return max(p.asked, p.listed) }

// countAsked notes that the engine has asked for so many networks more on a subnet, or
// has so many fewer. There may be no pool of it.
func (m *Machine) countAsked(cidr netip.Prefix, more int) {
	n := m.perPool[cidr] + more
	if m.perPool[cidr] = n; n == 0 {
		delete(m.perPool, cidr)
	}
	if p := m.poolOf(cidr); p != nil {
		p.asked = n
	}
}

// unlessGone makes a call wait that is refused since a network is on the pool, or what one
// kept, where no list was begun since one went: it may be that one, and the next list tells.
func (m *Machine) unlessGone(p *pool, refusal error) error {
	if m.mayBeGone(p) {
		return waitFor(refusal)
	}
	return refusal
}

// mayBeGone reports whether no network that this peer was asked for is on the pool, and the next list tells of others.
func (m *Machine) mayBeGone(p *pool) bool {
	return p.asked == 0 && (p.lost > 0 || m.givenBack(p)) && !m.inventory.knows(p.parted.serial)
}

// mayGoSoon reports whether the subnet of a pool was chosen, and it goes if the next list tells that no network is on it.
func (m *Machine) mayGoSoon(p *pool) bool {
	return p.Origin == chronicle.FromChoice && p.Name == "" && m.sighted() && p.parted.serial > 0 && m.mayBeGone(p)
}

// givenBack reports whether a pool was given back for all networks that this peer knows of, and the next
// list is to tell that none is there: see surelyUnused.
func (m *Machine) givenBack(p *pool) bool {
	return m.sighted() && m.networksOf(p) == 0 && m.mayBeLate(p.parted.at) && !m.inventory.knows(p.parted.serial)
}

// mayBeLate reports whether what the engine gave back at that time, which may be none, may be what it had asked for
// when there was another database: where this one was new, or this process, of which nobody knows whether it was, had
// just started.
func (m *Machine) mayBeLate(at time.Time) bool {
	return !at.IsZero() && m.now.Sub(at) < makeTime && (m.unlisted || at.Sub(m.listedAt) < makeTime || at.Sub(m.startedAt) < makeTime)
}

// lostOn returns how many networks on the pool the engine has, in an inventory,
// that this peer may not have been asked for. asked are those that it was
// asked for. first says that the inventory is the first since the engine or
// this process started, or the pool was made: until then a request for a
// network that was new may have been taken for a replay, so those that were
// asked for a moment ago may be others than those listed.
func (m *Machine) lostOn(p *pool, asked []*network, begun time.Time, first bool) int {
	made := 0
	for _, n := range asked {
		if !m.inTheMaking(n, begun) {
			made += n.count
		}
	}
	most := max(p.listed-made, 0)
	if first {
		return most
	}
	return min(max(p.lost, p.listed-p.asked), most)
}

// knowsNetworks reports whether this peer knows which networks of this host are on its
// pools. Where inventories come it does from the first on since the engine or this
// process started: a database may be younger than networks, which were never asked for.
func (m *Machine) knowsNetworks() bool { return !m.sighted() || m.inventory.knows(m.greeted.serial) }

// settle does what follows when a pool may have lost its last network here:
// its own gateway address and shared reservations go, and so does the pool
// itself if its subnet was chosen. A pool that the user named stays, and with
// it the memory of who had which address; it makes room for others once it is
// in their way.
func (m *Machine) settle(p *pool) {
	if m.networksOf(p) > 0 || !m.surelyUnused(p) {
		return
	}
	hadGateway := p.hasGateway
	if hadGateway {
		p.hasGateway = false
		m.freeHolding(p, p.gateway)
	}
	var actions []chronicle.Action
	for _, r := range p.Reserved {
		if m.soleUser() && sharesReservation(&r) {
			actions = append(actions, chronicle.Unreserve{Pool: p.Key, Range: r.Range, Kind: r.Kind})
		}
	}
	if p.Origin == chronicle.FromChoice && m.soleUser() && m.idle(p) {
		if removal, err := m.removal(p); err == nil { // else whoever wants its subnet tries again
			actions = append(actions, removal...)
		}
	}
	m.background(actions...)
	m.tellUse(p)
	if m.pools[p.Key] == p {
		m.sightHost(p) // what was let go may be on an interface of the host
		if hadGateway {
			m.leaveGateway(p)
		}
	}
}

// stillMade notes that the engine asks for a part of a network, which may be
// long after it asked for its pool: a majority had to agree to it.
func (m *Machine) stillMade(n Network) {
	net := m.networks[n.ID()]
	if net == nil || !net.fresh || m.now.Sub(net.asked.at) < m.cfg.Grace/2 {
		return
	}
	net.asked = m.moment()
	m.saveNetwork(net)
}
