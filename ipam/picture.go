package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/report"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// This file fills the picture from which package report makes what people see. Nothing else hands them the state of a Machine.

// What people see; see package report.

type (
	// Status is [report.Status].
	Status = report.Status
	// Verdict is [report.Verdict].
	Verdict = report.Verdict
	// State is [peer.Standing].
	State = peer.Standing
	// PeerStatus is [report.PeerStatus].
	PeerStatus = report.PeerStatus
	// HealthStatus is [report.HealthStatus].
	HealthStatus = report.HealthStatus
	// PoolStatus is [report.PoolStatus].
	PoolStatus = report.PoolStatus
	// ShareStatus is [report.ShareStatus].
	ShareStatus = report.ShareStatus
	// RangeStatus is [report.RangeStatus].
	RangeStatus = report.RangeStatus
	// NetStatus is [report.NetStatus].
	NetStatus = report.NetStatus
	// AddressStatus is [report.AddressStatus].
	AddressStatus = report.AddressStatus
	// Problem is [report.Problem].
	Problem = report.Problem
	// Explanation is [report.Explanation].
	Explanation = report.Explanation
	// ReservedFor is [report.ReservedFor].
	ReservedFor = report.ReservedFor
	// ReservationStatus is [report.ReservationStatus].
	ReservationStatus = report.ReservationStatus
	// EngineSight is [report.EngineSight].
	EngineSight = report.EngineSight
	// Refusal is [report.Refusal].
	Refusal = report.Refusal
	// Audit is [report.Audit].
	Audit = report.Audit
	// Finding is [report.Finding].
	Finding = report.Finding
	// Collected is [report.Collected].
	Collected = report.Collected
	// Listing is [report.Listing].
	Listing = report.Listing
	// Portion is [report.Portion].
	Portion = report.Portion
	// TableRow is [report.TableRow].
	TableRow = report.TableRow
	// TablePeer is [report.TablePeer].
	TablePeer = report.TablePeer
	// TableListing is [report.TableListing].
	TableListing = report.TableListing
	// TablePortion is [report.TablePortion].
	TablePortion = report.TablePortion
)

// The words in it; see package report.
const (
	Fine           = report.Fine
	Degraded       = report.Degraded
	Failed         = report.Failed
	Alone          = peer.Alone
	Forming        = peer.Forming
	Joining        = peer.Joining
	Checking       = peer.Checking
	Ready          = peer.Ready
	CutOff         = peer.CutOff
	Leaving        = peer.Leaving
	Left           = peer.Left
	Outdated       = peer.Outdated
	Suspended      = peer.Suspended
	FoundLeak      = report.FoundLeak
	FoundConflict  = report.FoundConflict
	CollectedFreed = report.CollectedFreed
	CollectedFree  = report.CollectedFree
	CollectedKept  = report.CollectedKept
)

// Status returns what this peer knows of itself and its cluster.
func (m *Machine) Status(now time.Time) Status {
	m = m.at(now)
	p := m.picture(m.pools.Sorted())
	p.Own, p.Others = m.ownState(), m.othersState()
	return p.Status()
}

// Who tells what this peer knows of an address.
func (m *Machine) Who(now time.Time, a netip.Addr) (AddressStatus, error) {
	return m.pictureAt(now).Who(a)
}

// Explain tells the whole story of an address.
func (m *Machine) Explain(now time.Time, a netip.Addr) (Explanation, error) {
	return m.pictureAt(now).Explain(a)
}

// List lists addresses, see [report.Picture.List].
func (m *Machine) List(now time.Time, q Listing) (Portion, error) {
	pools, err := m.poolsRef(q.Pool)
	if err != nil {
		return Portion{}, err
	}
	return m.at(now).picture(pools).List(q), nil
}

// Table lists the rows of tables, see [report.Picture.Table].
func (m *Machine) Table(now time.Time, q TableListing) (TablePortion, error) {
	pools, err := m.poolsRef(q.Pool)
	if err != nil {
		return TablePortion{}, err
	}
	return m.at(now).picture(pools).Table(q), nil
}

// Addresses lists the addresses of a pool, or of all if ref is empty, all at once, see [Machine.List].
func (m *Machine) Addresses(now time.Time, ref string) ([]AddressStatus, error) {
	all, err := m.List(now, Listing{Pool: ref})
	return all.Addresses, err
}

// Audit checks the invariants, and what is held against the engine's last list. The database it leaves to
// [Machine.Differences].
func (m *Machine) Audit(now time.Time) Audit {
	return m.pictureAt(now).Audit(m.Check(now))
}

// Differences returns where the machine that a database restores differs from this one, in words. The database must be
// as the last step left it.
func (m *Machine) Differences(disk *Machine) []string {
	return m.pictureAt(m.now).Differences(disk.pictureAt(m.now))
}

// poolStatus counts the addresses of a pool.
func (m *Machine) poolStatus(p *pool.Pool, ranges bool) PoolStatus {
	pic := m.picture([]*pool.Pool{p})
	return pic.PoolStatus(&pic.Pools[0], ranges)
}

// addressStatus shows an address of a pool, as a record says.
func (m *Machine) addressStatus(p *pool.Pool, o addr.Offset, rec space.Record) AddressStatus {
	pic := m.picture([]*pool.Pool{p})
	return pic.Address(&pic.Pools[0], o, rec)
}

// at returns the machine as a view sees it at that time: a copy, so that no view changes the machine. Nothing may step it.
func (m *Machine) at(now time.Time) *Machine {
	view := *m
	view.now, view.members = now, m.members.At(now)
	return &view
}

// pictureAt returns what this peer knows at that time.
func (m *Machine) pictureAt(now time.Time) *report.Picture {
	m = m.at(now)
	return m.picture(m.pools.Sorted())
}

// picture returns what this peer knows, with those of its pools.
func (m *Machine) picture(pools []*pool.Pool) *report.Picture {
	p := &report.Picture{
		Now: m.now, Self: m.members.Self(), Name: m.cfg.Name, Standing: m.members.Standing(),
		State: m.state, Level: m.log.Level(), Pending: m.log.Pending(), Refusals: m.calls.refusals,
		Peers: map[peer.ID]report.Peer{}, Pools: make([]report.Pool, len(pools)), Networks: []report.NetStatus{}, Looked: m.engine.Complete().At,
		Rest: m.cfg.Rest, Retry: pool.StrangerTime,
	}
	v := m.members.View()
	know := func(id peer.ID) {
		c := v.Of(id)
		p.Peers[id] = report.Peer{
			Name: v.GoesBy(id), Address: c.Addr, Live: v.Live(id), Heard: c.Heard, Boot: c.Start.Boot, Slot: c.Slot, Speaks: c.Spoken,
		}
	}
	for _, id := range v.Known() {
		know(id)
	}
	for _, gone := range m.state.Former {
		know(gone.ID)
	}
	p.Peers[m.members.Self()] = report.Peer{Name: m.cfg.Name, Boot: m.members.Me.Boot(), Slot: m.state.Slot, Speaks: m.cfg.Spoken, Live: true}
	for i, of := range pools {
		p.Pools[i] = report.Pool{
			Pool: of.Pool, Space: of.Space, Spare: m.trade.Spare(of.Key), Networks: of.Here.Networks(),
			Seen: of.Seen, Stranded: of.Stranded, Missing: of.Missing, Devices: of.Strangers,
		}
		if of.HasGateway {
			p.Pools[i].Gateway = addr.Nth(of.CIDR, of.Gateway)
		}
	}
	for _, id := range m.engine.IDs() {
		n := m.engine.Network(id)
		p.Networks = append(p.Networks, report.NetStatus{ID: id, Pool: n.Pool, Range: n.Range, Count: m.engine.CountOf(n)})
	}
	for k, d := range m.pools.Conflicts.All() {
		c := report.Conflict{Text: d.Text, Next: d.Next}
		if of := m.pools.Of(k.Pool); of != nil {
			c.Address, c.Pool = addr.Nth(of.CIDR, k.At), of.CIDR
		}
		p.Conflicts = append(p.Conflicts, c)
	}
	return p
}

// ownState returns what may be wrong with this peer itself.
func (m *Machine) ownState() report.Own {
	v := m.members.View()
	o := report.Own{
		Broken: m.log.Err(), Outside: m.members.Outside(), CutOff: v.CutOff(), Undecided: m.members.Unagreed(),
		EngineHas: m.members.Seeker.LostNetworks(), Lists: m.awaitedLists(),
		Met: v.Reached(), Founders: m.cfg.Formation.Size, FoundersMet: m.members.Seeker.Met(v),
		BootedAlone: m.members.Check.IsAlone(), Answered: m.members.Check.Answered(),
	}
	if m.members.IsSuspended() {
		o.Suspended, o.EndSuspension = m.members.Suspension.Why(), m.members.EndOfSuspension()
	}
	return o
}

// awaitedLists returns what this peer waits for with a new database.
func (m *Machine) awaitedLists() report.Lists {
	l := report.Lists{Own: m.awaitList() != nil && m.state.Slot > 0, Owners: m.ownersOfListed()}
	l.Former = !slices.ContainsFunc(l.Owners, func(id peer.ID) bool { return !m.members.IsPredecessor(id) })
	if m.members.Ready() == nil && !l.Own && m.members.NewDB.AwaitsOthers(m.members.View()) {
		l.Reserved, l.Others = m.members.NewDB.TakesIn(m.now), m.members.NewDB.Said(m.members.View())
	}
	return l
}

// othersState returns what may be wrong with other peers.
func (m *Machine) othersState() report.Others {
	v := m.members.View()
	o := report.Others{Warned: map[peer.ID]int{}, Misfits: m.members.Seeker.Misfits(), Foreign: v.Foreign(), Differs: v.Differing()}
	for _, gone := range m.state.Former {
		o.Warned[gone.ID] = m.warnings.Count(gone.ID)
	}
	if v.Zones() >= 3 {
		o.Ruling.Zones = v.Zones()
		o.Ruling.Zone, o.Ruling.Votes, o.Ruling.Total = v.RulingZone()
	}
	if away := v.Away(v.Others()); len(away) == 1 {
		o.Silent.Since = v.SilentSince(away[0])
		if after := m.cfg.EvictAfter; after > 0 && v.KeepsMajority(away[0]) {
			o.Silent.Ends = o.Silent.Since.Add(after)
		}
	}
	return o
}

// ownersOfListed returns the peers that cannot be reached in whose space containers of
// this host have addresses, by the engine's last list, as long as that is taken in.
func (m *Machine) ownersOfListed() []peer.ID {
	if !m.members.NewDB.IsUnlisted() {
		return nil
	}
	var owners []peer.ID
	for _, p := range m.pools.Sorted() {
		for o := range p.Seen {
			t, _ := p.Ring.At(o)
			away := t.Owner != m.members.Self() && t.Owner != ring.Free && t.Owner != ring.Reserved && !m.members.View().Live(t.Owner)
			if away && !slices.Contains(owners, t.Owner) {
				owners = append(owners, t.Owner)
			}
		}
	}
	slices.SortFunc(owners, peer.ID.Compare)
	return owners
}
