package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/survey"
)

// surveyActs returns what the machine does for what a survey finds.
func (m *Machine) surveyActs() survey.Acts {
	return survey.Acts{
		Join:   func(subnet netip.Prefix) (*pool.Pool, error) { return m.unasked().joinPool(subnet, poolSpec{}) },
		Borrow: m.unasked().borrow,
		Take: func(p *pool.Pool, o addr.Offset, h *space.Holder) error {
			return m.take(p, o, h, new(AddressGrant))
		},
		KeepBack:    m.keepBack,
		LeaveUnused: m.leaveUnused,
		HasPlace:    m.members.HasPlace,
		IsLive:      func(id peer.ID) bool { return m.members.View().Live(id) },
		GivesUp:     m.givesUp,
		StillOthers: m.stillOthers,
		OthersUse:   m.othersUse,
	}
}

// takeInventory compares what is held with what the engine says that it has.
func (m *Machine) takeInventory(inv *Inventory) (again time.Duration) {
	if again, counts := m.survey.Counts(inv.After); !counts {
		return again
	}
	m.engine.Answers(inv.After)
	if !inv.Partial {
		m.found(m.members.TakeNetworks(len(inv.Networks)))
	}
	if !inv.Partial && m.members.IsGivenUp() {
		m.warnings.SendAgain() // the list says which containers live
	}
	return m.survey.TakeList(inv)
}

// keepBack reserves what a network keeps back, which its host uses the pool for: who
// has not said so yet says so before. The error says what is in the way.
func (m *Machine) keepBack(p *pool.Pool, o addr.Offset, kind chronicle.Kind) error {
	if !p.ToldUse(m.log.UnderWay()) {
		m.background(chronicle.Use{Pool: p.Key})
	}
	err := m.unasked().reserveShared(p, o, kind)
	m.survey.Untaken = m.stillOthers(p, o, err) || m.survey.Untaken
	return err
}

// takeHost keeps back the addresses that the host itself has. An engine does
// not list the gateways of its bridges among its endpoints, and knows nothing
// of the host's own address on a LAN that containers share with it.
func (m *Machine) takeHost(q *HostAddresses) {
	read := m.members.Me.At()
	if q.After.Nonce == m.members.Me.Nonce() {
		read = q.After.At
	}
	var routed []netip.Prefix
	for _, r := range q.Routes {
		if m.countsAsRouted(r) {
			routed = append(routed, r.To)
		}
	}
	m.engine.TakeHost(q.Addresses, routed)
	m.survey.TakeHost(read)
}

// countsAsRouted reports whether no subnet is to be chosen where a route leads. One
// that leads elsewhere from wherever subnets are chosen is how hosts reach the
// containers of one another: it says of none that it is taken.
func (m *Machine) countsAsRouted(r HostRoute) bool {
	return slices.ContainsFunc(m.cfg.Subnets.Universe, func(u netip.Prefix) bool {
		return r.To.Overlaps(u) && (r.OnLink || r.To.Bits() > u.Bits())
	})
}

// scanNewPools does what [pool.Pools.LookSoon] is for, once this peer may ask others. One that is alone
// holds what the host has as it comes.
func (m *Machine) scanNewPools() {
	for _, p := range m.pools.TakeUnsighted() {
		if m.pools.Of(p.Key) == p && !m.members.View().Alone() {
			m.survey.Host(p)
		}
	}
}

// othersUse says of an address that its owner refuses why, and what ends that. No host is forgotten while a container here has an
// address of it.
func (m *Machine) othersUse(p *pool.Pool, o addr.Offset, err error) (why, other string) {
	why, _, _ = strings.Cut(err.Error(), ": ") // what follows is for whoever asked
	why = strings.TrimPrefix(why, fmt.Sprintf("address %v in %s ", addr.Nth(p.CIDR, o), sentence.Pool(p.Pool)))
	switch t, _ := p.Ring.At(o); {
	case t.Owner == ring.Free || t.Owner == ring.Reserved || t.Owner == m.members.Self():
		return why, ""
	case m.state.Member(t.Owner) == nil:
		return why, "bring that host back; if it is gone for good, stop that container, run ringlet forget " + m.refOf(t.Owner) + ", and start it again"
	default:
		return why, "the other holder on " + m.members.View().NameOf(t.Owner)
	}
}

// noteUnasked notes that an earlier database was lost, where a call shows it before a list does: it is about an address of a network
// that this database was never asked for, and the engine asks for networks first. A list may have no more networks than were asked
// for since.
func (m *Machine) noteUnasked(c *Call) {
	var n Network
	switch r := c.Request.(type) {
	case *AddressRequest:
		n = r.Network
	case *AddressRelease:
		n = r.Network
	default:
		return
	}
	if !m.doubts.HasLoss() && m.engine.Network(n.ID()) == nil {
		m.doubts.TakeLoss()
	}
}
