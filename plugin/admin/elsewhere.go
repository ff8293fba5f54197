package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
)

// Use is what an address is used for, on this peer or as another one says.
type Use struct {
	ipam.AddressStatus
	// Told is when the peer that has it was last known to hold to that; zero if
	// this peer knows it itself.
	Told time.Time `json:"told,omitzero"`
}

type uses []Use

func usesOf(list []ipam.AddressStatus) uses {
	out := uses{}
	for _, s := range list {
		out = append(out, Use{AddressStatus: s})
	}
	return out
}

func (u uses) sorted() uses {
	slices.SortStableFunc(u, func(a, b Use) int { return a.Address.Compare(b.Address) })
	return u
}

// States of an address, see [ipam.AddressStatus].
const (
	stateElsewhere = "elsewhere" // it is in another peer's range
	stateReserved  = "reserved"
	stateFree      = "free"  // it is in nobody's range
	stateReady     = "ready" // it is in this peer's range, and free
)

// told adds what another peer says of an address: the one in whose range it is, or, if that
// says nothing, one that is there and has it all the same, as a host that was forgotten and
// is back. In the directory is for some minutes also what one said that had it before: one
// that was forgotten, or the former self of a host that was rebuilt. Of an address that nobody
// has by what is agreed, or that this peer may hand out, those that have it all the same are told.
func (s *Server) told(ctx context.Context, st ipam.AddressStatus) Use {
	kept := st.State == stateReserved && st.Peer != "" // for a name, which another peer has
	unheld := (st.State == stateFree || st.State == stateReady) && st.Kind == ""
	if s.cfg.Directory == nil || st.State != stateElsewhere && st.State != "quarantined" && !kept && !unheld {
		return Use{AddressStatus: st}
	}
	said := s.cfg.Directory.Holdings(st.Address)
	held := slices.DeleteFunc(slices.Clone(said), func(h directory.Holding) bool { return unheld || h.Node != st.Peer })
	if len(held) == 0 && len(said) > 0 {
		held = s.ofReachable(ctx, said)
	}
	if len(held) == 0 {
		return Use{AddressStatus: st}
	}
	return useOf(slices.MaxFunc(held, func(a, b directory.Holding) int { return a.Told.Compare(b.Told) }))
}

// ofReachable returns what is said by other peers that can be reached.
func (s *Server) ofReachable(ctx context.Context, said []directory.Holding) []directory.Holding {
	st, err := s.cfg.Backend.Snapshot(ctx)
	if err != nil {
		return nil // of no interest beside what is known here
	}
	return slices.DeleteFunc(said, func(h directory.Holding) bool {
		return !slices.ContainsFunc(st.Peers, func(p ipam.PeerStatus) bool { return p.ID == h.Owner && p.ID != st.Self.ID && p.Reachable })
	})
}

// useOf shows what another peer says.
func useOf(h directory.Holding) Use {
	return Use{Told: h.Told, AddressStatus: ipam.AddressStatus{
		Address: h.IP, Pool: h.Pool, Peer: h.Node, State: h.State, Kind: h.Kind,
		Container: h.Container, Name: h.Name, MAC: h.MAC, Since: h.Since,
	}}
}

// holderOf names whoever has an address, as well as another peer could.
func holderOf(u Use) string {
	for _, name := range []string{u.Name, u.Container, u.MAC} {
		if name != "" {
			return fmt.Sprintf("%s %q", u.Kind, name)
		}
	}
	return "a " + u.Kind
}

// elsewhere returns what other peers have in a pool, in all if it is empty, of
// one holder if it is named.
func (s *Server) elsewhere(ctx context.Context, pool, holder string) (uses, error) {
	if s.cfg.Directory == nil {
		return nil, nil
	}
	st, err := s.cfg.Backend.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var cidr netip.Prefix
	for _, p := range st.Pools {
		if pool != "" && (p.Name == pool || p.Pool.String() == pool) {
			cidr = p.Pool
		}
	}
	var out uses
	all, err := s.everywhere(ctx, &st)
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		switch {
		case h.Owner == st.Self.ID: // told better by this peer
		case pool != "" && h.Pool != cidr:
		case holder != "" && h.Name != holder && h.Container != holder:
		default:
			out = append(out, useOf(h))
		}
	}
	return out, nil
}

// maxReaders is how many requests read all of the directory at a time: with 100,000
// addresses that takes hundreds of megabytes each, and anybody on RINGLET_HTTP may ask.
const maxReaders = 1

// everywhere returns what is held by the peers of the cluster, as the directory knows. What
// one said that was forgotten, or replaced by another of its host, is there for some minutes
// more: its addresses are others' by then.
func (s *Server) everywhere(ctx context.Context, st *ipam.Status) ([]directory.Holding, error) {
	select {
	case s.readers <- struct{}{}:
		defer func() { <-s.readers }()
		there := map[string]bool{st.Self.ID: true}
		for _, p := range st.Peers {
			there[p.ID] = true
		}
		return slices.DeleteFunc(s.cfg.Directory.Holdings(netip.Addr{}), func(h directory.Holding) bool { return !there[h.Owner] }), nil
	case <-ctx.Done():
		return nil, problem(http.StatusServiceUnavailable, CodeBusy, "the whole cluster's addresses are being listed for others, and that was not done within %v: try again", s.cfg.Timeout)
	}
}
