package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam"
)

// stateEvicted is the state of a peer that is of the cluster no more, see
// [ipam.PeerStatus].
const stateEvicted = "evicted"

// minID is how much of a peer's ID it takes to name the peer.
const minID = 8

// join meets another peer.
func (s *Server) join(ctx context.Context, r *request) (answer, error) {
	var body Join
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if body.Address == "" {
		return answer{}, badRequest(`name the host to meet: {"address": "host-b:7950"}`)
	}
	met, err := s.cfg.Backend.Join(ctx, body.Address)
	if err != nil {
		return answer{}, err
	}
	if met == nil {
		met = []Met{}
	}
	return answer{body: Joined{Address: body.Address, Met: met}}, nil
}

// evict takes a lost peer out of the cluster.
func (s *Server) evict(ctx context.Context, r *request) (answer, error) {
	ref := r.http.PathValue("peer")
	if err := s.cfg.Backend.Evict(ctx, ref); err != nil {
		return answer{}, err
	}
	st, err := s.fresh(ctx)
	if err != nil {
		return answer{}, err
	}
	e := Eviction{Peer: ref}
	if i := slices.IndexFunc(st.Peers, func(p ipam.PeerStatus) bool { return p.State == stateEvicted && isPeer(p, ref) }); i >= 0 {
		e = Eviction{Peer: st.Peers[i].Name, ID: st.Peers[i].ID, KeptBack: KeptBack(st)[st.Peers[i].ID]}
	}
	return answer{body: e}, nil
}

// isPeer reports whether ref, which the Backend has taken for one peer, is
// that one.
func isPeer(p ipam.PeerStatus, ref string) bool {
	return p.Name == ref || len(ref) >= minID && strings.HasPrefix(p.ID, strings.ToLower(ref))
}

// forget frees the space of a peer that is gone for good.
func (s *Server) forget(ctx context.Context, r *request) (answer, error) {
	dryRun := false
	switch v := r.query.Get("dry_run"); v {
	case "", "false":
	case "true":
		dryRun = true
	default:
		return answer{}, badRequest("dry_run is true or false, not %q", v)
	}
	f, err := s.cfg.Backend.Forget(ctx, r.http.PathValue("peer"), dryRun)
	return answer{body: f}, err
}

// recover founds the cluster anew from this peer.
func (s *Server) recover(ctx context.Context, r *request) (answer, error) {
	var body Recover
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if !body.TheOthersAreGone {
		return answer{}, badRequest(`this founds the cluster anew from this peer alone, and is right only if no other host of it still runs or comes back with the data that it had: state that with {"the_others_are_gone": true}`)
	}
	if err := s.cfg.Backend.Recover(ctx); err != nil {
		return answer{}, err
	}
	st, err := s.fresh(ctx)
	if err != nil {
		return answer{}, err
	}
	out := Recovery{Cluster: st.Cluster, Evicted: []string{}}
	kept := KeptBack(st)
	for _, p := range st.Peers {
		if p.State == stateEvicted {
			out.Evicted = append(out.Evicted, p.Name)
			out.KeptBack = sum(out.KeptBack, kept[p.ID])
		}
	}
	return answer{body: out}, nil
}

// KeptBack returns how many addresses are kept back for each evicted peer, by
// ID, in all pools of a status.
func KeptBack(st ipam.Status) map[string]uint64 {
	kept := map[string]uint64{}
	for _, p := range st.Peers {
		if p.State == stateEvicted {
			kept[p.ID] = 0
		}
	}
	for _, p := range st.Pools {
		for _, r := range p.Holders {
			if _, evicted := kept[r.Owner]; evicted {
				kept[r.Owner] = sum(kept[r.Owner], RangeSize(p, r))
			}
		}
	}
	return kept
}
