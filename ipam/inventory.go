package ipam

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/survey"
	"github.com/ringlet/ringlet/ipam/suspend"
)

// surveyActs returns what the machine does for what a survey finds.
func (m *Machine) surveyActs() survey.Acts {
	return survey.Acts{
		Join:   func(subnet netip.Prefix) (*pool.Pool, error) { return m.joinPool(subnet, poolSpec{}) },
		Borrow: m.borrow,
		Take: func(p *pool.Pool, o addr.Offset, h *space.Holder) error {
			return m.take(p, o, h, new(AddressGrant))
		},
		KeepBack: m.keepBack,
		Settle:   m.settle,
		Waits:    waits,
		HasPlace: func() bool {
			return m.members.IsMember() && !m.members.IsChecking() && !departure.HasPredecessor(m.members.View(), m.members.Machine())
		},
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
	if !inv.Partial && m.state.Slot == 0 && m.members.Seeker.TakeNetworks(m.members.View(), len(inv.Networks)) {
		m.foundAlone()
	}
	if !inv.Partial && m.members.Suspension.For(suspend.GivenUp) {
		m.warnings.SendAgain() // the list says which containers live
	}
	return m.survey.TakeList(inv)
}

// keepBack reserves what a network keeps back, which its host uses the pool for: who
// has not said so yet says so before. The error says what is in the way.
func (m *Machine) keepBack(p *pool.Pool, o addr.Offset, kind chronicle.Kind) error {
	if !m.toldUse(p) {
		m.background(chronicle.Use{Pool: p.Key})
	}
	err := m.reserveShared(p, o, kind)
	m.survey.Untaken = m.stillOthers(p, o, err) || m.survey.Untaken
	return err
}
