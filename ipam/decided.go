package ipam

import (
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/report"
	"github.com/ringlet/ringlet/ipam/subnets"
)

// Decided is what people have decided in a cluster, and what no engine could tell: the pools that operators made, named or
// reserved something in. Who carries a machine keeps it in a file beside the database. If the database is lost, and no other
// peer is left to learn from, the next machine founds its cluster with it, see [Config.Decided].
type Decided struct {
	Cluster [16]byte // zero: the peer is in no cluster
	Slot    uint64   // the last decision that it follows from
	Peers   int      // of the cluster
	Left    bool     // the peer has left it
	Pools   []DecidedPool
}

// DecidedPool is a pool with what operators reserved in it.
type DecidedPool struct {
	Pool     netip.Prefix
	Name     string // may be empty
	Origin   string // as in [PoolStatus]
	Reserved []ReservationStatus
}

// Stands returns the cluster and the last decision that this peer knows; zero: it is in no cluster.
func (m *Machine) Stands() (cluster [16]byte, slot uint64) { return m.state.Cluster, m.state.Slot }

// Decided returns what people have decided, in order of pools.
func (m *Machine) Decided() Decided {
	out := Decided{Cluster: m.state.Cluster, Slot: m.state.Slot, Peers: len(m.state.Roster), Left: m.members.Wish.HasLeft()}
	for _, p := range m.pools.Sorted() {
		if p.Origin != chronicle.FromOperator && p.Name == "" && !p.Operated() {
			continue // a network makes it again
		}
		d := DecidedPool{Pool: p.CIDR, Name: p.Name, Origin: p.Origin.String()}
		for _, r := range p.Reserved {
			if r.Kind.Operated() {
				d.Reserved = append(d.Reserved, report.ReservationOf(p.Pool, &r))
			}
		}
		out.Pools = append(out.Pools, d)
	}
	return out
}

// decidedAgain returns the commands that make again what was decided before the database was lost. They are part of the slot
// that founds the cluster, so that nothing is handed out without them. A pool's key follows from its place there.
func (m *Machine) decidedAgain(founding chronicle.Found) []chronicle.Action {
	actions := []chronicle.Action{founding}
	if m.cfg.Decided == nil || len(founding.Peers) > 1 {
		return actions // hosts that found together may each know something else
	}
	for _, d := range m.cfg.Decided.Pools {
		create := chronicle.CreatePool{CIDR: d.Pool, Origin: originOf(d.Origin), Deal: m.cfg.Deal, Reserved: subnets.Fixed(d.Pool)}
		for _, r := range d.Reserved {
			start, in := addr.OffsetOf(d.Pool, r.First)
			end, before := addr.EndOf(d.Pool, r.Last)
			kind := kindOf(r.Kind)
			if in && before && kind != 0 && len(r.Note) <= chronicle.MaxNote {
				create.Reserved = append(create.Reserved, chronicle.Reservation{Range: addr.Range{Start: start, End: end}, Kind: kind, Note: r.Note})
			}
		}
		key := chronicle.PoolKey{Slot: 1, Place: uint32(len(actions))} // it cannot be that long
		if actions = append(actions, create); d.Name != "" {
			actions = append(actions, chronicle.NamePool{Name: d.Name, Pool: key})
		}
	}
	return actions
}

// originOf reads what [chronicle.Origin] writes.
func originOf(text string) chronicle.Origin {
	for _, o := range []chronicle.Origin{chronicle.FromChoice, chronicle.FromNetwork} {
		if o.String() == text {
			return o
		}
	}
	return chronicle.FromOperator // it stays until somebody removes it
}

// kindOf reads the kind of a reservation that operators make; 0: it is none.
func kindOf(text string) chronicle.Kind {
	kinds := []chronicle.Kind{chronicle.KindExcluded, chronicle.KindKeptForName}
	if i := slices.IndexFunc(kinds, func(k chronicle.Kind) bool { return k.String() == text }); i >= 0 {
		return kinds[i]
	}
	return 0
}
