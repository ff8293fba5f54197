package directory

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory/replica"
)

// Limits of what one value tells; it says how much more there is.
const (
	maxRanges       = 64 // of one pool
	maxReservations = 128
	maxFailed       = 3   // problems
	maxAddresses    = 32  // of a host
	maxProblem      = 300 // bytes of one
)

// self says of this peer what its status says.
func (p *publisher) self(st *ipam.Status, now time.Time) {
	if st.State == ipam.Left {
		p.gone()
		return
	}
	n := p.cfg.About()
	n.Name, n.ID, n.Boot, n.State = string(p.cfg.Self.Name), p.cfg.Self.ID.String(), uint64(p.cfg.Self.Boot), string(st.State)
	n.Slot = st.Slot
	n.Addresses = n.Addresses[:min(len(n.Addresses), maxAddresses)]
	n.Failed = failed(st)
	n.Pools = []NodePool{}
	for i := range st.Pools {
		if own, some := ranges(&st.Pools[i], n.ID); some {
			n.Pools = append(n.Pools, own)
		}
	}
	value := fitting(maxRanges, func(most int) any {
		for i := range n.Pools {
			r := n.Pools[i].Ranges
			n.Pools[i].Ranges = r[:min(most, len(r))]
			n.Pools[i].More += len(r) - len(n.Pools[i].Ranges)
		}
		return n
	})
	if len(value) > replica.MaxValue { // with no range of any pool
		all := n.Pools
		value = fitting(len(all), func(most int) any {
			n.Pools, n.More = all[:most], len(all)-most
			return n
		})
	}
	keys, values := []string{NodeKeys(p.cfg.Cluster) + n.Name}, [][]byte{value}
	if !beats(st) {
		p.beat = time.Time{}
		keys, values = append(keys, HeartKey(p.cfg.Cluster)), append(values, nil)
	} else if now.Sub(p.beat) >= lookEvery {
		p.beat = now
		keys = append(keys, HeartKey(p.cfg.Cluster))
		values = append(values, encode(Heartbeat{Time: now.UTC().Truncate(time.Second), Slot: st.Slot, Node: n.Name}))
	}
	p.write(keys, values)
}

// failed returns what is wrong with a peer.
func failed(st *ipam.Status) (out []string) {
	for _, p := range st.Problems {
		if p.Level == string(ipam.Failed) && len(out) < maxFailed {
			text := p.Text
			if len(text) > maxProblem {
				text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
			}
			out = append(out, text)
		}
	}
	return out
}

// gone takes back all that this peer has said: it has left its cluster.
func (p *publisher) gone() {
	p.mu.Lock()
	keys := p.replica.Own("")
	p.mu.Unlock()
	p.write(keys, make([][]byte, len(keys)))
	p.services.forget()
}

// belong notes which cluster this peer belongs to, by its ID in hexadecimal
// digits. What others of another one said is forgotten.
func (p *publisher) belong(id string) {
	var cluster [16]byte
	if b, err := hex.DecodeString(id); err == nil && len(b) == len(cluster) {
		cluster = [16]byte(b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cluster != cluster && p.cluster != ([16]byte{}) {
		p.replica.Forget()
		clear(p.boots)
		p.settle()
	}
	if p.cluster != cluster {
		p.since = time.Now()
	}
	p.cluster = cluster
}

// beats reports whether the heartbeat is that peer's to renew: the first of the
// voters that can be reached does.
func beats(st *ipam.Status) bool {
	for _, id := range st.Voters {
		i := slices.IndexFunc(st.Peers, func(q ipam.PeerStatus) bool { return q.ID == id })
		if id == st.Self.ID || i >= 0 && st.Peers[i].Reachable {
			return id == st.Self.ID
		}
	}
	return false
}

// ranges returns which ranges of a pool are a peer's.
func ranges(pool *ipam.PoolStatus, id string) (out NodePool, some bool) {
	out.Pool = pool.Pool
	for _, r := range pool.Holders {
		if r.Owner == id {
			out.Ranges = append(out.Ranges, fmt.Sprintf("%v-%v", r.Start, r.End))
		}
	}
	return out, len(out.Ranges) > 0
}

// pools shows the pools, which are agreed.
func (p *publisher) pools(st *ipam.Status) {
	names := map[string]string{}
	for _, q := range st.Peers {
		names[q.ID] = q.Name
	}
	prefix := PoolKeys(p.cfg.Cluster)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.voice = beats(st)
	if st.Cluster != "" {
		p.replica.SetAgreed(ClusterKey(p.cfg.Cluster), encode(Cluster{st.Cluster}))
	}
	there := map[string]bool{}
	set := func(key string, v any) {
		there[key] = true
		p.replica.SetAgreed(key, encode(v))
	}
	for i := range st.Pools {
		pool := poolOf(&st.Pools[i], names)
		set(prefix+pool.Pool.String(), pool)
		if pool.Name != "" {
			set(prefix+"names/"+pool.Name, PoolName{pool.Pool})
		}
	}
	for _, key := range p.replica.Agreed(prefix) {
		if !there[key] {
			p.replica.RemoveAgreed(key)
		}
	}
	p.settle()
}

func poolOf(st *ipam.PoolStatus, names map[string]string) Pool {
	out := Pool{Pool: st.Pool, Name: st.Name, Chosen: st.Chosen, Size: st.Size, Shares: map[string]uint64{}, Reservations: []Reservation{}}
	for _, s := range st.Shares {
		name := names[s.Owner]
		if name == "" {
			name = s.Owner
		}
		out.Shares[name] += s.Owned
	}
	for _, r := range st.Holders {
		switch {
		case r.Owner != "reserved":
		case len(out.Reservations) == maxReservations:
			out.More++
		default:
			out.Reservations = append(out.Reservations, Reservation{First: r.Start, Last: r.End, Kind: r.Kind, Note: r.Note})
		}
	}
	return out
}
