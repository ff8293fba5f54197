package trade

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/space"
)

// portions is into how many parts the idle space of a peer that drains is cut: enough for the table to spread them evenly, and
// few enough for a slot and a ring.
const portions = 64

// Bequeath returns what the caller proposes so that a peer that drains gives up its ranges without held or resting addresses. Each
// portion goes to the peer that the table ranks first there, of those in another zone than this peer's if there are any. Only peers
// that are active and can be reached get some; if there is none, the ranges become free.
func (t *Trade) Bequeath(p *chronicle.Pool, s *space.Space) (actions []chronicle.Action) {
	heirs := t.heirs()
	portion := addr.Offset(max(p.Table.Row(0).Size(), addr.FloorPow2(s.Spare()/portions)))
	for r := range s.Idle(t.out.Now(), t.cfg.Rest) {
		for r.Start < r.End {
			if len(actions) == replog.MaxCommands {
				return actions
			}
			if len(heirs) == 0 {
				actions = append(actions, chronicle.Close{Pool: p.Key, Range: r})
				break
			}
			part := addr.Range{Start: r.Start, End: min(r.End-1, r.Start|(portion-1)) + 1}
			first, _ := p.Table.Leaders(part.Start, heirs)
			actions = append(actions, t.Give(p, part, first.ID))
			r.Start = part.End
		}
	}
	return actions
}

// heirs returns the peers to which this one gives its space as it drains.
func (t *Trade) heirs() (heirs []chronicle.Ranked) {
	state := t.log.State()
	zone, apart := state.ZoneOf(t.self), false
	for _, m := range state.Roster {
		if m.ID == t.self || m.Phase != chronicle.Active || !t.peers.IsLive(m.ID) || apart && m.Zone == zone {
			continue
		}
		if !apart && m.Zone != zone {
			heirs, apart = nil, true
		}
		heirs = append(heirs, chronicle.Ranked{ID: m.ID, Zone: m.Zone})
	}
	return heirs
}
