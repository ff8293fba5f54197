package ipam

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// Status returns what this peer knows of itself and its cluster.
func (m *Machine) Status(now time.Time) Status {
	s := Status{
		Verdict: Fine, Cluster: hex.EncodeToString(m.state.Cluster[:]), Slot: m.state.Slot,
		Peers: []PeerStatus{}, Voters: []string{}, Pools: []PoolStatus{}, Networks: []NetStatus{}, Problems: []Problem{},
	}
	for _, member := range m.state.Roster {
		p := PeerStatus{ID: member.ID.String(), Name: string(member.Name), State: member.Phase.String(), Boot: uint64(member.Boot)}
		if member.ID == m.self {
			p.Name, p.Boot = string(m.cfg.Name), uint64(m.boot)
			s.Self = p
		}
		s.Peers = append(s.Peers, p)
	}
	for _, id := range m.state.Voters() {
		s.Voters = append(s.Voters, id.String())
	}
	for _, p := range m.sortedPools() {
		s.Pools = append(s.Pools, m.poolStatus(p, now, true))
	}
	for _, id := range m.sortedNetworks() {
		n := m.networks[id]
		s.Networks = append(s.Networks, NetStatus{ID: id, Pool: n.Pool, Range: n.Range, Count: n.count})
	}
	s.Problems = m.problems(s.Pools)
	for _, p := range s.Problems {
		if p.Level == string(Failed) {
			s.Verdict = Failed
		} else if s.Verdict == Fine {
			s.Verdict = Degraded
		}
	}
	return s
}

// problems lists what somebody should do something about.
func (m *Machine) problems(pools []PoolStatus) []Problem {
	out := []Problem{}
	if m.broken != nil {
		out = append(out, Problem{
			Code: "broken-invariant", Level: string(Failed), Text: m.broken.Error(),
			Next: "nothing is handed out any more; keep the database, and report what ringlet check says",
		})
	}
	if m.unlisted && m.sighted() {
		out = append(out, Problem{
			Code: "inventory-awaited", Level: string(Degraded),
			Text: "the database is new, and the engine has not listed yet what is in use: no address is chosen before it has",
			Next: "wait a moment; if it stays, see whether the engine answers docker network ls, and the plugin's log",
		})
	}
	texts := make([]string, 0, len(m.conflicts))
	for _, text := range m.conflicts {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	for _, text := range texts {
		out = append(out, Problem{
			Code: "conflict", Level: string(Degraded), Text: text,
			Next: "stop that container, or remove the other holder",
		})
	}
	for i, p := range m.sortedPools() {
		if s := pools[i]; s.Free+s.Ready+s.Resting == 0 && p.hasContainers() {
			out = append(out, Problem{
				Code: "pool-full", Level: string(Degraded), Text: fmt.Sprintf("pool %s is full: of %s %d are in use and %d are reserved", poolText(p.Pool), plural(int(s.Size), "address", "addresses"), s.Held, s.Reserved),
				Next: "remove containers, or move to a larger network",
			})
		}
	}
	return out
}

// poolStatus counts the addresses of a pool.
func (m *Machine) poolStatus(p *pool, now time.Time, ranges bool) PoolStatus {
	s := PoolStatus{Pool: p.CIDR, Name: p.Name, Size: uint64(p.Ring.Size()), Chosen: p.Origin == chronicle.FromChoice}
	var mine addr.Count
	for r, t := range p.Ring.All() {
		n := uint64(r.Size())
		switch {
		case t.Owner == ring.Free:
			s.Free += n
		case t.Owner == ring.Reserved:
			s.Reserved += n
		case t.Owner == m.self:
			mine += r.Size()
		case m.state.Member(t.Owner) == nil:
			s.Quarantined += n
		default:
			s.Ready += n
		}
		if !ranges {
			continue
		}
		for _, part := range p.parts(r, t) {
			s.Holders = append(s.Holders, m.rangeStatus(p, part, t))
		}
	}
	s.Held = uint64(p.space.Held())
	s.Resting = uint64(p.space.Resting(now, m.cfg.Rest))
	s.Mine = uint64(mine) - s.Held
	s.Ready += s.Mine - s.Resting
	return s
}

// parts cuts a reserved range into its reservations, each of which has a
// reason of its own.
func (p *pool) parts(r addr.Range, t ring.Token) []addr.Range {
	if t.Owner != ring.Reserved {
		return []addr.Range{r}
	}
	var out []addr.Range
	for o := r.Start; o < r.End; {
		v := p.ReservationAt(o)
		out = append(out, v.Range)
		o = v.Range.End
	}
	return out
}

func (m *Machine) rangeStatus(p *pool, r addr.Range, t ring.Token) RangeStatus {
	s := RangeStatus{Start: addr.Nth(p.CIDR, r.Start), End: addr.Nth(p.CIDR, r.End-1), Owner: t.Owner.String(), Version: uint64(t.Version)}
	switch t.Owner {
	case ring.Free:
		s.Owner = "free"
	case ring.Reserved:
		v := p.ReservationAt(r.Start)
		s.Owner, s.Kind, s.Note = "reserved", v.Kind.String(), v.Note
	case m.self:
		s.Held = uint64(r.Size() - p.space.FreeIn(r))
	}
	return s
}

// Addresses lists the addresses of a pool, or of all if ref is empty: those
// held and those remembered on this peer, and those reserved one by one.
func (m *Machine) Addresses(now time.Time, ref string) ([]AddressStatus, error) {
	pools, err := m.poolsRef(ref)
	if err != nil {
		return nil, err
	}
	m.now = now
	out := []AddressStatus{}
	for _, p := range pools {
		from := len(out)
		for o, rec := range p.records() {
			out = append(out, m.addressStatus(p, o, rec))
		}
		for _, r := range p.Reserved {
			if r.Range.Size() == 1 {
				out = append(out, m.reservedStatus(p, r.Range.Start, &r))
			}
		}
		slices.SortFunc(out[from:], func(a, b AddressStatus) int { return a.Address.Compare(b.Address) })
	}
	return out, nil
}

// Who tells what this peer knows of an address.
func (m *Machine) Who(now time.Time, a netip.Addr) (AddressStatus, error) {
	m.now = now
	for _, p := range m.sortedPools() {
		if !p.CIDR.Contains(a.Unmap()) {
			continue
		}
		o, ok := addr.OffsetOf(p.CIDR, a)
		if !ok {
			break
		}
		if rec := p.space.Lookup(o); rec.State != space.Unused {
			return m.addressStatus(p, o, rec), nil
		}
		if r := p.ReservationAt(o); r != nil {
			return m.reservedStatus(p, o, r), nil
		}
		s := AddressStatus{Address: a, Pool: p.CIDR, State: "free"}
		if p.space.Mine(o) {
			s.Peer, s.State = string(m.cfg.Name), "ready"
		}
		return s, nil
	}
	return AddressStatus{}, failf(ErrPoolNotFound, "address %v lies in no pool: ringlet pool ls shows the pools that there are", a)
}

func (m *Machine) addressStatus(p *pool, o addr.Offset, rec space.Record) AddressStatus {
	s := AddressStatus{
		Address: addr.Nth(p.CIDR, o), Pool: p.CIDR, Peer: string(m.cfg.Name), State: "held", Kind: rec.Kind.String(),
		Container: rec.Ref, Name: rec.Name, MAC: MAC(rec.MAC).String(), Since: time.Unix(0, rec.Since).UTC(),
	}
	switch rec.Kind {
	case space.Gateway, space.Host:
		s.State = rec.Kind.String()
	case space.Client:
		s.Name, s.Container = rec.Ref, ""
	case space.Container, space.Unmarked:
	}
	if rec.State == space.Freed {
		if s.State = "ready"; !rec.Rested(m.now, m.cfg.Rest) {
			s.State = "resting"
		}
	}
	return s
}

func (m *Machine) reservedStatus(p *pool, o addr.Offset, r *chronicle.Reservation) AddressStatus {
	return AddressStatus{Address: addr.Nth(p.CIDR, o), Pool: p.CIDR, State: "reserved", Kind: r.Kind.String(), Name: r.Note}
}

// Check returns what contradicts the invariants, as far as this peer can see
// them. It is slow, and meant for tests and for operators.
func (m *Machine) Check(now time.Time) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if m.broken != nil {
		errs = append(errs, m.broken)
	}
	if err := m.state.Check(); err != nil {
		bad("I2: %w", err)
	}
	if len(m.pools) != len(m.state.Pools) {
		bad("this peer knows %d pools of %d", len(m.pools), len(m.state.Pools))
	}
	for _, p := range m.sortedPools() {
		if p.Pool != m.state.Pool(p.Key) {
			bad("pool %v is not the one of the state", p.CIDR)
		}
		if err := p.space.Check(); err != nil {
			bad("pool %v: %w", p.CIDR, err)
		}
		var mine addr.Count
		for r := range p.Ring.OwnedBy(m.self) {
			mine += r.Size()
		}
		if mine != p.space.Owned() {
			bad("pool %v: the ring gives this peer %d addresses, its space has %d", p.CIDR, mine, p.space.Owned())
		}
		for o, rec := range p.records() {
			if t, _ := p.Ring.At(o); t.Owner != m.self {
				bad("I5: %v of pool %v is %v, and the ring does not give it to this peer", addr.Nth(p.CIDR, o), p.CIDR, rec.State)
			}
		}
		s := m.poolStatus(p, now, false)
		if sum := s.Held + s.Resting + s.Ready + s.Free + s.Reserved + s.Quarantined; sum != s.Size {
			bad("I8: pool %v: states add up to %d addresses of %d", p.CIDR, sum, s.Size)
		}
		if rec := p.space.Lookup(p.gateway); p.hasGateway && (rec.State != space.Held || rec.Kind != space.Gateway) {
			bad("pool %v: the gateway %v is not held as one", p.CIDR, addr.Nth(p.CIDR, p.gateway))
		}
	}
	return errs
}

// sortedPools returns the pools in order of their addresses.
func (m *Machine) sortedPools() []*pool {
	out := make([]*pool, 0, len(m.pools))
	for _, p := range m.pools {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *pool) int { return chronicle.SortedBy(a.Pool, b.Pool) })
	return out
}

func (m *Machine) sortedNetworks() []PoolID {
	out := make([]PoolID, 0, len(m.networks))
	for id := range m.networks {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b PoolID) int { return strings.Compare(string(a), string(b)) })
	return out
}
