package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/former"
	"github.com/ringlet/ringlet/ipam/membership"
	"github.com/ringlet/ringlet/ipam/newdb"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/trade"
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

// Contact is [membership.Contact].
type Contact = membership.Contact

// Remains returns what a new peer on this host carries over. The error, an [Error], says why
// this peer does not start over: that makes sense only for one that has left, or that is
// suspended because its space was given up, or because its database is an old one, a copy,
// or was moved here from another place. It changes nothing.
func (m *Machine) Remains() (Remains, error) {
	if err := m.members.MayRejoin(); err != nil {
		return Remains{}, err
	}
	r := Remains{Cluster: m.state.Cluster, Contacts: m.members.Contacts(), Used: m.pools.Used()}
	for _, p := range m.pools.Sorted() {
		for o, rec := range p.Held() {
			if rec.Kind == space.Client {
				r.Clients = append(r.Clients, ClientRequest{Pool: p.CIDR.String(), Address: addr.Nth(p.CIDR, o), ID: rec.Ref})
			}
		}
	}
	return r, nil
}

// Unclaimed returns the clients of the former peer of this host that have not got their
// addresses again, in order. Whoever carries a machine claims them as soon as it hands out:
// each is the request to do so. A request that is granted, and one that frees what its holder
// has, take the holder off the list. As long as it is on it nobody on this host gets the address.
func (m *Machine) Unclaimed() (out []ClientRequest) {
	for _, c := range m.members.Former.Unclaimed() {
		out = append(out, ClientRequest(c))
	}
	return out
}

// Moved reports whether this peer is suspended since its database was written at another
// place. Whoever carries its frames must not do so then: if it is a copy, the original runs
// under the same ID, and others would take this start for a later one of that.
func (m *Machine) Moved() bool { return m.members.IsMoved() }

// Blank reports whether nothing would be lost with the database: this peer was alone since it was made, and had no pool and no
// network. So it is in an image from which machines are made.
func (m *Machine) Blank() bool {
	return len(m.state.Pools) == 0 && len(m.engine.IDs()) == 0 && !m.members.HasMet()
}

// beginAnew takes in what the former peer of this host has left, in the first step.
func (m *Machine) beginAnew(r *Remains) {
	clients := make([]former.Client, len(r.Clients))
	for i, c := range r.Clients {
		clients[i] = former.Client(c)
	}
	m.members.Remember(r.Contacts)
	if !m.lacks(rule.Shadow) {
		for _, a := range r.Used {
			m.pools.Warn(a, m.members.Self())
		}
	}
	m.members.Former.Begin(r.Cluster, clients)
}

// configure tells this peer how it is to behave. One whose host was in a cluster before joins, whatever it is told.
func (m *Machine) configure(cfg Config) {
	m.cfg = cfg
	if (m.members.Former.Was() || cfg.Remains != nil) && !m.lacks(rule.Mark) {
		m.cfg.Join, m.cfg.FoundAlone, m.cfg.Hesitate, m.cfg.Formation = true, false, false, Formation{}
	}
	f := m.cfg.faults
	m.members.Configure(membership.Config{
		Config: formation.Config{
			Plan: m.cfg.Formation, Join: m.cfg.Join, FoundAlone: m.cfg.FoundAlone, Hesitate: m.cfg.Hesitate, Rand: m.cfg.Rand, Rules: f.without,
		},
		Host:  host{m},
		NewDB: newdb.Config{Rules: f.without, AskAt: tendEvery, Untaken: m.hasUntaken},
		Name:  m.cfg.Name, Zone: m.cfg.Zone, Machine: m.cfg.Machine, Spoken: m.cfg.Spoken,
		Label: m.cfg.Label, Place: m.cfg.Place, HostBoot: m.cfg.HostBoot,
		BootAlone: m.cfg.BootAlone, CallTime: m.cfg.CallTime, EvictAfter: m.cfg.EvictAfter, Quarantine: m.cfg.Quarantine,
	})
	m.engine.Configure(engine.Config{Lists: m.cfg.AwaitInventory, Grace: m.cfg.Grace, Rules: f.without})
	m.log.Configure(replog.Config{Rand: m.cfg.Rand, Spoken: m.cfg.Spoken, Rules: f.without, Apply: f.apply, History: f.history})
	m.pools.Configure(pool.Config{
		Name: m.cfg.Name, Grace: m.cfg.Grace, CallTime: m.cfg.CallTime, Rules: f.without,
		NameOf: func(id peer.ID) string { return m.members.View().NameOf(id) }, Changed: func() { m.calls.changed = true },
	})
	m.trade.Configure(trade.Config{Rand: m.cfg.Rand, Deal: m.cfg.Deal, Chunk: m.cfg.Chunk, Rest: m.cfg.Rest})
}
