package page_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
)

// scene is a peer in a cluster as a test wants it to look. Only what the page
// asks for is there.
type scene struct {
	admin.Backend
	log *events.Log

	mu     sync.Mutex
	status ipam.Status
	held   []ipam.AddressStatus
	broken error // of every answer
}

// labelled is a directory in which the first container has an identity.
type labelled struct {
	admin.Directory
	s *scene
}

func (l labelled) Holdings(a netip.Addr) []directory.Holding {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if len(l.s.held) == 0 || l.s.held[0].Address != a {
		return nil
	}
	h := l.s.held[0]
	return []directory.Holding{{Address: directory.Address{Node: h.Peer, State: h.State, Kind: h.Kind, Container: h.Container, Identity: 256}, IP: a}}
}

func (labelled) Labels(uint64) (map[string]string, bool) {
	return map[string]string{"com.docker.compose.service": "web", "com.docker.compose.project": "<b>shop</b>"}, true
}

func (labelled) Places(func(owner string) bool) []directory.Place { return nil }
func (labelled) Said([]directory.Place) []directory.Holding       { return nil }

func (s *scene) Status(context.Context) (ipam.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.AsOf = time.Now()
	return st, s.broken
}

func (s *scene) Snapshot(ctx context.Context) (ipam.Status, error) { return s.Status(ctx) }

func (s *scene) List(_ context.Context, q ipam.Listing) (ipam.Portion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(s.held), func(a ipam.AddressStatus) bool {
		return q.Pool != "" && a.Pool.String() != q.Pool || q.Holder != "" && a.Name != q.Holder && a.Container != q.Holder
	})
	slices.SortStableFunc(list, func(a, b ipam.AddressStatus) int { return a.Address.Compare(b.Address) })
	return ipam.Portion{Addresses: list}, s.broken
}

func (s *scene) Explain(_ context.Context, a netip.Addr) (ipam.Explanation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.status.Pools {
		if !p.Pool.Contains(a) {
			continue
		}
		e := ipam.Explanation{
			AddressStatus: ipam.AddressStatus{Address: a, Pool: p.Pool, State: "free"}, Verdict: "is free, and owned by no host", PoolName: p.Name,
			First: p.Pool.Addr(), Last: p.Pool.Addr(), Owner: "free", Networks: []ipam.PoolID{}, Refusals: []ipam.Refusal{},
		}
		for _, r := range p.Holders {
			if r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0 {
				e.First, e.Last = r.Start, r.End
			}
		}
		for _, h := range s.held {
			if h.Address == a {
				e.AddressStatus, e.Owner, e.OwnedHow = h, h.Peer, "self"
				e.Verdict = fmt.Sprintf("is held by container %s on %s since %s", h.Name, h.Peer, h.Since.UTC().Format("2006-01-02 15:04 MST"))
				e.Next = "stop that container to free it"
				e.Refusals = []ipam.Refusal{{Address: a, To: "container other", Why: "it is held", Times: 3, First: h.Since, Last: time.Now()}}
			}
		}
		return e, nil
	}
	return ipam.Explanation{}, &ipam.Error{Kind: ipam.ErrPoolNotFound, Text: fmt.Sprintf("address %v is in no pool: ringlet pool ls lists the pools", a)}
}

func (s *scene) Table(_ context.Context, q ipam.TableListing) (ipam.TablePortion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out ipam.TablePortion
	pool := netip.MustParsePrefix(q.Pool)
	for i := range uint64(1) << min(13, pool.Addr().BitLen()-pool.Bits()-3) {
		r := ipam.TableRow{Pool: pool, Start: nth(pool, 8*i), End: nth(pool, 8*i+7)}
		for j, at := range []**ipam.TablePeer{&r.Primary, &r.Secondary} {
			p := s.status.Peers[(int(i)+j)%len(s.status.Peers)]
			*at = &ipam.TablePeer{ID: p.ID, Name: p.Name, Zone: p.Zone}
		}
		out.Rows = append(out.Rows, r)
	}
	return out, s.broken
}

// change alters the scene and has the page told.
func (s *scene) change(f func(*ipam.Status), note ipam.Note) {
	s.mu.Lock()
	f(&s.status)
	s.mu.Unlock()
	s.log.Note(time.Now(), note)
}

func (s *scene) breakDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

// sceneOf is a cluster of that many peers, of which this is the first. From
// three on another is unreachable, from five on one was evicted.
func sceneOf(peers int) *scene {
	s := &scene{log: events.New(3, 0, 0)}
	st := ipam.Status{
		Verdict: ipam.Fine, State: ipam.Ready, Cluster: "3f9c2a7714be08d5a1c6e2f3b4d59687", Slot: 118,
		Peers: []ipam.PeerStatus{}, Voters: []string{}, Pools: []ipam.PoolStatus{}, Networks: []ipam.NetStatus{}, Problems: []ipam.Problem{},
	}
	if peers == 1 {
		st.State = ipam.Alone
	}
	for i := range peers {
		st.Peers = append(st.Peers, ipam.PeerStatus{
			ID: id(i), Name: fmt.Sprintf("host-%c", 'a'+i), State: "active", Boot: 2, Voter: i < 5, Reachable: true, Slot: 118,
			Address: fmt.Sprintf("192.168.1.%d:7950", 11+i), Heard: time.Now().Add(-time.Second),
		})
	}
	st.Self = st.Peers[0]
	if peers >= 3 {
		st.Peers[2].Reachable, st.Peers[2].Heard = false, time.Now().Add(-4*time.Minute)
		st.Problems = append(st.Problems, ipam.Problem{
			Code: "peer-unreachable", Level: "degraded", Text: "unreachable: host-c",
			Next: "start or reconnect that host; if it is off for good, release its addresses with ringlet evict host-c and then ringlet forget host-c",
		})
	}
	if peers >= 5 {
		st.Peers[4].State, st.Peers[4].Reachable, st.Peers[4].Voter = "evicted", false, false
	}
	st.Pools = append(st.Pools, s.pool(st, "10.50.0.0/24", "lab"), s.pool(st, "10.60.0.0/16", ""), s.pool(st, "fd5c:77a1:9e0b:4::/64", "lab6"))
	st.Pools[0].NetworkNames, st.Pools[1].NetworkNames = []string{"lab", "front"}, []string{"wide"}
	if peers >= 3 {
		a := netip.MustParseAddr("10.50.0.7")
		st.Problems = append(st.Problems, ipam.Problem{
			Code: "conflict", Level: "degraded", Address: a, Next: "stop that container, or remove the other holder",
			Text: "10.50.0.7 in 10.50.0.0/24 (lab) is used by container scanner (77b1c2d3e4f5) on host-a since 2026-11-21 09:12 UTC, but is held by \"printer-3\"",
		})
	}
	if len(st.Problems) > 0 {
		st.Verdict = ipam.Degraded
	}
	s.status = st
	s.tell(st)
	return s
}

func id(i int) string { return fmt.Sprintf("%02x", i+17) + strings.Repeat("0a1b2c3d4e5f6", 3)[:30] }

// tell puts in a history that fits the scene.
func (s *scene) tell(st ipam.Status) {
	pool := st.Pools[0].Pool
	at := time.Now().Add(-10 * time.Minute)
	for i, p := range st.Peers[1:min(len(st.Peers), 4)] {
		s.log.Note(at.Add(time.Duration(i)*time.Second), ipam.Note{Kind: ipam.NotePeerJoined, Holder: p.Name})
	}
	for i, a := range s.held[:min(len(s.held), 12)] {
		since := at.Add(time.Duration(i) * 4 * time.Second)
		s.log.Note(since, ipam.Note{Kind: ipam.NoteGranted, Pool: pool, Address: a.Address, Use: ipam.Use{Kind: "container", Container: a.Container, Name: a.Name, Since: since}})
	}
	if len(st.Peers) > 1 {
		s.log.Note(at.Add(time.Minute), ipam.Note{Kind: ipam.NoteMoved, Pool: pool, Address: netip.MustParseAddr("10.50.0.96"), Last: netip.MustParseAddr("10.50.0.103"), From: "host-a", To: "host-b"})
	}
	s.log.Problems(at.Add(2*time.Minute), st.Problems)
}

// pool divides a pool among the peers in blocks, and leaves a sixth of it free.
func (s *scene) pool(st ipam.Status, cidr, name string) ipam.PoolStatus {
	p := ipam.PoolStatus{Pool: netip.MustParsePrefix(cidr), Name: name}
	const blocks = 64
	bits := p.Pool.Addr().BitLen() - p.Pool.Bits()
	p.Size = 1<<min(bits, 63) - 1
	p.Size = p.Size*uint64(1+bits/64) + 1 - uint64(bits/64)
	block := p.Size/blocks + uint64(bits/64)
	shares := map[string]*ipam.ShareStatus{}
	add := func(from, size uint64, owner string, kind string) {
		r := ipam.RangeStatus{Start: nth(p.Pool, from), End: nth(p.Pool, from+size-1), Owner: owner, Version: 4 + from%7, Kind: kind}
		switch owner {
		case "free":
			p.Free += size
		case "reserved":
			p.Reserved += size
		default:
			s.share(st, &p, shares, &r, size)
		}
		if n := len(p.Holders); n > 0 && p.Holders[n-1].Owner == owner && kind == "" {
			p.Holders[n-1].End, p.Holders[n-1].Held = r.End, p.Holders[n-1].Held+r.Held
			return
		}
		p.Holders = append(p.Holders, r)
	}
	add(0, 1, "reserved", "network address")
	for i := range uint64(blocks) {
		from, size := i*block, block
		if i == 0 {
			from, size = 1, block-1
		}
		owner := "free"
		if i%6 != 5 {
			owner = id(int(i*7/9+i/11) % len(st.Peers))
		}
		if i == blocks-1 {
			size--
		}
		add(from, size, owner, "")
	}
	add(p.Size-1, 1, "reserved", "broadcast address")
	for _, peer := range st.Peers {
		if sh := shares[peer.ID]; sh != nil {
			p.Shares = append(p.Shares, *sh)
		}
	}
	p.Ready = p.Size - p.Held - p.Resting - p.Free - p.Reserved - p.Quarantined
	return p
}

// share adds a range to its owner's, who uses a part of it.
func (s *scene) share(st ipam.Status, p *ipam.PoolStatus, shares map[string]*ipam.ShareStatus, r *ipam.RangeStatus, size uint64) {
	i := slices.IndexFunc(st.Peers, func(q ipam.PeerStatus) bool { return q.ID == r.Owner })
	if shares[r.Owner] == nil {
		shares[r.Owner] = &ipam.ShareStatus{Owner: r.Owner, Announced: i != 2}
	}
	sh := shares[r.Owner]
	sh.Owned += size
	if st.Peers[i].State == "evicted" {
		p.Quarantined += size
		return
	}
	held := min(size*uint64(2+i%4)/6, 400)
	if sh.Announced {
		sh.Held += held
		sh.Resting += size / 12
		p.Held += held
		p.Resting += size / 12
	}
	if i != 0 {
		return
	}
	r.Held = held
	p.HeldHere += held
	for n := range held {
		a := ipam.AddressStatus{
			Address: r.Start, Pool: p.Pool, Peer: st.Self.Name, State: "held", Kind: "container", Container: fmt.Sprintf("%012x", 0x4f3a2b1c0d9e+n), Name: fmt.Sprintf("web-%d", len(s.held)+1),
			MAC: "02:42:0a:32:00:07", Since: time.Now().Add(-time.Duration(n+1) * 7 * time.Minute),
		}
		for range n {
			a.Address = a.Address.Next()
		}
		s.held = append(s.held, a)
	}
}

// nth returns an address of a pool.
func nth(p netip.Prefix, n uint64) netip.Addr {
	b := p.Addr().As16()
	for i := 15; i >= 8; i-- {
		n += uint64(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	return netip.AddrFrom16(b).Unmap()
}
