package admin

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
)

// Usage is what an address is used for, on this peer or as another one says.
type Usage struct {
	ipam.AddressStatus
	// ConfirmedAt is when the peer that has it was last known to hold to that; zero if
	// this peer knows it itself.
	ConfirmedAt time.Time `json:"confirmed,omitzero"`
	// Identity is that of the container which has the address; nil: it has none, or none is asked for, as in lists.
	Identity *Identity `json:"identity,omitempty"`
}

// Identity is the label set of a container.
type Identity struct {
	Number uint64            `json:"number"`           // in the whole cluster
	Labels map[string]string `json:"labels,omitempty"` // missing for the moment until this peer knows them
}

// Story is all that this peer knows of an address.
type Story struct {
	ipam.Explanation
	Identity *Identity `json:"identity,omitempty"` // as in [Usage]
}

// identityOf returns the identity of the container that has an address, as the directory knows.
func (s *Server) identityOf(st ipam.AddressStatus) *Identity {
	if s.cfg.Directory == nil || st.Container == "" || st.State != stateHeld {
		return nil
	}
	for _, h := range s.cfg.Directory.Holdings(st.Address) {
		if h.Identity != 0 && h.Container == st.Container && h.Node == st.Peer {
			labels, _ := s.cfg.Directory.Labels(h.Identity)
			return &Identity{Number: h.Identity, Labels: labels}
		}
	}
	return nil
}

// States of an address, see [ipam.AddressStatus].
const (
	stateHeld      = "held"
	stateElsewhere = "elsewhere" // it is in another peer's range
	stateReserved  = "reserved"
	stateFree      = "free"  // it is in nobody's range
	stateReady     = "ready" // it is in this peer's range, and free
)

// usage adds what another peer says of an address: the one in whose range it is, or, if that
// says nothing, one that is there and has it all the same, as a host that was forgotten and
// is back. In the directory is for some minutes also what one said that had it before: one
// that was forgotten, or the former self of a host that was rebuilt. Of an address that nobody
// has by what is agreed, or that this peer may hand out, it shows those that have it all the same.
func (s *Server) usage(ctx context.Context, st ipam.AddressStatus) Usage {
	kept := st.State == stateReserved && st.Peer != "" // for a name, which another peer has
	unheld := (st.State == stateFree || st.State == stateReady) && st.Kind == ""
	if s.cfg.Directory == nil || st.State != stateElsewhere && st.State != "quarantined" && !kept && !unheld {
		return Usage{AddressStatus: st}
	}
	said := s.cfg.Directory.Holdings(st.Address)
	held := slices.DeleteFunc(slices.Clone(said), func(h directory.Holding) bool { return unheld || h.Node != st.Peer })
	if len(held) == 0 && len(said) > 0 {
		held = s.ofReachable(ctx, said)
	}
	if len(held) == 0 {
		return Usage{AddressStatus: st}
	}
	return usageOf(slices.MaxFunc(held, func(a, b directory.Holding) int { return a.ConfirmedAt.Compare(b.ConfirmedAt) }))
}

// ofReachable returns what is said by other peers that can be reached.
func (s *Server) ofReachable(ctx context.Context, said []directory.Holding) []directory.Holding {
	st, err := s.snapshot(ctx)
	if err != nil {
		return nil // of no interest beside what is known here
	}
	return slices.DeleteFunc(said, func(h directory.Holding) bool {
		return !slices.ContainsFunc(st.Peers, func(p ipam.PeerStatus) bool { return p.ID == h.Owner && p.ID != st.Self.ID && p.Reachable })
	})
}

// usageOf shows what another peer says. Who says since when an address is held confirms it at that time, too: the directory knows
// only when all that the peer says was confirmed last.
func usageOf(h directory.Holding) Usage {
	confirmed := h.ConfirmedAt
	if h.Since.After(confirmed) {
		confirmed = h.Since
	}
	return Usage{ConfirmedAt: confirmed, AddressStatus: ipam.AddressStatus{
		Address: h.IP, Pool: h.Pool, Peer: h.Node, State: h.State, Kind: h.Kind,
		Container: h.Container, Name: h.Name, MAC: h.MAC, Since: h.Since,
	}}
}

// holderOf names whoever has an address, as well as another peer could.
func holderOf(u Usage) string {
	for _, name := range []string{u.Name, u.Container, u.MAC} {
		if name != "" {
			return fmt.Sprintf("%s %q", u.Kind, name)
		}
	}
	return "a " + u.Kind
}

// place is an address that another peer says it has.
type place = directory.Place

// placesAtOnce is how many places are looked up at a time.
const placesAtOnce = 500

// addressesOfOthers returns the addresses that other peers have in a pool, in all if it is empty.
func (s *Server) addressesOfOthers(ctx context.Context, pool string) ([]place, error) {
	st, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var cidr netip.Prefix
	for _, p := range st.Pools {
		if pool != "" && (p.Name == pool || p.Pool.String() == pool) {
			cidr = p.Pool
		}
	}
	all, err := s.clusterAddresses(ctx, &st, st.Self.ID) // this peer shows its own better
	if err != nil || pool == "" {
		return all, err
	}
	return slices.DeleteFunc(all, func(p place) bool { return !cidr.IsValid() || !cidr.Contains(p.IP) }), nil
}

// clusterAddresses returns the addresses that peers of the cluster say they have, as the directory
// knows, but those of one peer. What one said that was forgotten, or replaced by another of
// its host, is there for some minutes more: its addresses are others' by then.
func (s *Server) clusterAddresses(ctx context.Context, st *ipam.Status, without string) (all []place, err error) {
	there := map[string]bool{st.Self.ID: true}
	for _, p := range st.Peers {
		there[p.ID] = true
	}
	delete(there, without)
	err = s.crowd.do(ctx, func() {
		all = s.cfg.Directory.Places(func(owner string) bool { return there[owner] })
	})
	return all, err
}

// merged lists what this peer says of its addresses, and other peers of some places, in order.
// Of what is kept for a name, and another peer has for it, that one tells more. With a holder
// it is what that holds.
func (s *Server) merged(ctx context.Context, mine iter.Seq2[ipam.Portion, error], places []place, holder string) iter.Seq2[[]Usage, error] {
	return func(yield func([]Usage, error) bool) {
		for p, err := range mine {
			if err != nil {
				yield(nil, err)
				return
			}
			own, end := p.Addresses, notLater(places, p.Next)
			for {
				n := min(end, placesAtOnce)
				upTo := len(own)
				if n < end { // the rest of the portion comes with the next ones
					upTo = sort.Search(len(own), func(i int) bool { return own[i].Address.Compare(places[n-1].IP) > 0 })
				}
				if !yield(s.merge(ctx, own[:upTo], places[:n], holder)) {
					return
				}
				own, places, end = own[upTo:], places[n:], end-n
				if end == 0 {
					if len(own) > 0 && !yield(s.merge(ctx, own, nil, holder)) {
						return
					}
					break
				}
			}
		}
	}
}

// merge lists what this peer says and what others say of some places.
func (s *Server) merge(ctx context.Context, own []ipam.AddressStatus, places []place, holder string) ([]Usage, error) {
	out := make([]Usage, 0, len(own)+len(places))
	held := map[netip.Addr]bool{}
	said, err := s.said(ctx, places)
	if err != nil {
		return nil, err
	}
	for _, h := range said {
		if holder == "" || h.Name == holder || h.Container == holder {
			out = append(out, usageOf(h))
			held[h.IP] = true
		}
	}
	for _, a := range own {
		if a.State != stateReserved || a.Peer == "" || !held[a.Address] {
			out = append(out, Usage{AddressStatus: a})
		}
	}
	slices.SortStableFunc(out, func(a, b Usage) int { return a.Address.Compare(b.Address) })
	return out, nil
}

// said returns what peers say of some places.
func (s *Server) said(ctx context.Context, places []place) (out []directory.Holding, err error) {
	if len(places) > 0 {
		err = s.crowd.do(ctx, func() { out = s.cfg.Directory.Said(places) })
	}
	return out, err
}
