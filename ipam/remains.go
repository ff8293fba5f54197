package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
)

// Remains is what a peer that starts over carries over from the one that was on its host
// before ([Machine.Remains]): an operator has run ringlet rejoin there. [Config.Remains]
// hands it to the new peer, whose first step writes it down: once that step is committed,
// the old database is not needed any more.
type Remains struct {
	// Cluster is the cluster that the former peer was in. The new peer never founds one,
	// whatever Join, FoundAlone, Hesitate and Formation say: it joins, today and after each start.
	Cluster [16]byte
	// Contacts are the other peers that the former one knew. They are contacts of the new
	// peer from its first step on ([Identity.Known]), so that it finds its cluster.
	Contacts []Contact
	// Used are the addresses that containers, networks and clients of this host may still
	// use, and the host's own. Neither the new peer nor another one hands them out for ten
	// minutes, except to the container or client that has them. Without AwaitInventory that
	// lasts until the engine releases the address, or an operator frees it.
	Used []netip.Addr
	// Clients are the holders outside Docker, each as the request that claims its address
	// again. See [Machine.Unclaimed].
	Clients []ClientRequest
}

// Contact is another peer as a former peer of this host knew it.
type Contact struct {
	ID    peer.ID
	Name  peer.Name
	Addr  string    // where it was last, as the carrier wrote it; empty if that is not known
	Boot  peer.Boot // its latest start, 0 if the former peer never heard of one
	Nonce uint64
}

// Remains returns what a new peer on this host carries over. The error, an [Error], says why
// this peer does not start over: that makes sense only for one that has left, or that is
// suspended because its space was given up, or because its database is an old one, a copy,
// or was moved here from another place. It changes nothing.
func (m *Machine) Remains() (Remains, error) {
	if err := m.mayRejoin(); err != nil {
		return Remains{}, err
	}
	r := Remains{Cluster: m.state.Cluster, Used: m.usedHere()}
	for _, id := range sortedIDs(m.contacts) {
		c := m.contacts[id]
		if id != m.self && (c.addr != "" || c.start.boot != 0) {
			r.Contacts = append(r.Contacts, Contact{ID: id, Name: c.name, Addr: c.addr, Boot: c.start.boot, Nonce: c.start.nonce})
		}
	}
	for _, p := range m.sortedPools() {
		for o, rec := range p.held() {
			if rec.Kind == space.Client {
				r.Clients = append(r.Clients, ClientRequest{Pool: p.CIDR.String(), Address: addr.Nth(p.CIDR, o), ID: rec.Ref})
			}
		}
	}
	return r, nil
}

// mayRejoin reports why this peer does not start over, if it does not.
func (m *Machine) mayRejoin() error {
	switch {
	case m.left || m.isSuspended() && m.suspended.reason != differs:
		return nil
	case m.broken != nil || m.isSuspended():
		return m.usable()
	}
	return failf(ErrBadRequest, "%s is in its cluster and keeps its addresses: it has no reason to rejoin; see ringlet status", m.cfg.Name)
}

// usedHere returns the addresses that containers, networks and clients of this host use, or
// the host itself, as far as this peer knows, in order. Which containers live the engine's last
// list tells, and before the first one the records do: after a boot those may name many that
// are gone.
func (m *Machine) usedHere() []netip.Addr {
	var out []netip.Addr
	for _, p := range m.sortedPools() {
		for o, kind := range p.space.Kinds() {
			switch {
			case kind == space.Stranger, kind == space.Kept:
			case hasEndpoint(p, o) && !m.inventory.isZero(): // the list tells which of them live
			default:
				out = append(out, addr.Nth(p.CIDR, o))
			}
		}
		for o := range p.seen {
			out = append(out, addr.Nth(p.CIDR, o))
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// Unclaimed returns the clients of the former peer of this host that have not got their
// addresses again, in order. Whoever carries a machine claims them as soon as it hands out:
// each is the request to do so. A request that is granted, and one that frees what its holder
// has, take the holder off the list. As long as it is on it nobody on this host gets the address.
func (m *Machine) Unclaimed() []ClientRequest { return slices.Clone(m.unclaimed) }

// Moved reports whether this peer is suspended since its database was written at another
// place. Whoever carries its frames must not do so then: if it is a copy, the original runs
// under the same ID, and others would take this start for a later one of that.
func (m *Machine) Moved() bool { return m.suspended.reason == otherPlace }

// claimed takes note that a client has an address in that range again, or wants none there any more; the zero range is all.
func (m *Machine) claimed(id string, in netip.Prefix) {
	n := len(m.unclaimed)
	if m.unclaimed = slices.DeleteFunc(m.unclaimed, func(c ClientRequest) bool { return c.ID == id && (!in.IsValid() || in.Contains(c.Address)) }); len(m.unclaimed) < n {
		m.saveRemains()
	}
}

// beginAnew takes in what the former peer of this host has left, in the first step.
func (m *Machine) beginAnew(r *Remains) {
	m.rejoined = r.Cluster
	m.unclaimed = slices.Clone(r.Clients)
	slices.SortFunc(m.unclaimed, func(a, b ClientRequest) int { return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.ID, b.ID)) })
	for _, c := range r.Contacts {
		if c.ID == m.self || c.ID == peer.None {
			continue
		}
		m.contacts[c.ID] = &contact{name: c.Name, addr: c.Addr, start: start{c.Boot, c.Nonce}}
		m.putContact(c.ID, m.contacts[c.ID])
	}
	if !m.lacks(ruleShadow) {
		for _, a := range r.Used {
			m.warn(a, m.self)
		}
	}
	m.saveRemains()
}

// configure tells this peer how it is to behave. One whose host was in a cluster before joins, whatever it is told.
func (m *Machine) configure(cfg Config) {
	m.cfg = cfg
	if (m.rejoined != ([16]byte{}) || cfg.Remains != nil) && !m.lacks(ruleMark) {
		m.cfg.Join, m.cfg.FoundAlone, m.cfg.Hesitate, m.cfg.Formation = true, false, false, Formation{}
	}
	m.joins, m.seat = m.cfg.Join, m.cfg.Formation.Seat
}

// saveRemains writes down which cluster this host was in before its peer started over, and the
// clients of the former peer that have not got their addresses again.
func (m *Machine) saveRemains() {
	b := append([]byte{formatRecord}, m.rejoined[:]...)
	b = codec.Uint(b, uint64(len(m.unclaimed)))
	for _, c := range m.unclaimed {
		b = codec.Bytes(codec.Bytes(codec.Bytes(b, c.Pool), c.Address.AsSlice()), c.ID)
	}
	m.out.Put(bucketIdentity, keyRejoined, b)
}

func parseRemains(value []byte) (cluster [16]byte, clients []ClientRequest, err error) {
	r := codec.NewReader(value)
	if r.Byte("format") != formatRecord {
		r.Fail("format of a peer that started over")
	}
	cluster = r.ID("cluster")
	for range r.Count("number of clients", 3) {
		c := ClientRequest{Pool: string(r.Bytes("pool of a client", maxText))}
		a, ok := netip.AddrFromSlice(r.Bytes("address of a client", 16))
		if !ok {
			return cluster, nil, fmt.Errorf("%w: address of a client", codec.ErrCorrupt)
		}
		c.Address, c.ID = a, string(r.Bytes("name of a client", MaxHolder))
		clients = append(clients, c)
	}
	return cluster, clients, r.Done()
}
