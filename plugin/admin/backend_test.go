package admin

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// memory is a Backend for tests, with the rules of the real one as far as the
// API shows them. Before each call it runs hook, which may wait, fail or panic.
type memory struct {
	hook func(ctx context.Context) error

	// leaving is how many requests to leave come before the peer has left.
	leaving int
	// hostB is the state of the other peer; "" once it is forgotten.
	hostB string

	mu    sync.Mutex
	state ipam.State
	pools []ipam.PoolStatus
	held  []ipam.AddressStatus // deliberately not sorted
	seen  []any                // what came in
}

var someTime = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func newMemory() *memory {
	return &memory{leaving: 1, state: ipam.Ready, hostB: "active", pools: []ipam.PoolStatus{
		{Pool: netip.MustParsePrefix("fd00:50::/64"), Origin: "network", Networks: 1, NetworkNames: []string{"dual", "six"}, Size: 1<<64 - 1, Free: 1<<64 - 1},
		{Pool: netip.MustParsePrefix("10.50.0.0/29"), Name: "lab", Origin: "operator", Size: 8, Ready: 6, Mine: 6, Reserved: 2, Holders: []ipam.RangeStatus{
			{Start: netip.MustParseAddr("10.50.0.0"), End: netip.MustParseAddr("10.50.0.0"), Owner: "reserved", Version: 1, Kind: "network"},
			{Start: netip.MustParseAddr("10.50.0.1"), End: netip.MustParseAddr("10.50.0.6"), Owner: "aa01", Version: 2},
			{Start: netip.MustParseAddr("10.50.0.7"), End: netip.MustParseAddr("10.50.0.7"), Owner: "reserved", Version: 1, Kind: "broadcast"},
		}},
	}}
}

func (m *memory) begin(ctx context.Context, what any) (func(), error) {
	if m.hook != nil {
		if err := m.hook(ctx); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	m.seen = append(m.seen, what)
	return m.mu.Unlock, nil
}

func (m *memory) find(pool string) (*ipam.PoolStatus, error) {
	for i, p := range m.pools {
		if p.Pool.String() == pool || p.Name != "" && p.Name == pool {
			return &m.pools[i], nil
		}
	}
	return nil, &ipam.Error{Kind: ipam.ErrPoolNotFound, Text: "there is no pool " + pool}
}

func (m *memory) Client(ctx context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error) {
	end, err := m.begin(ctx, r)
	if err != nil {
		return ipam.AddressGrant{}, err
	}
	defer end()
	p, err := m.find(r.Pool)
	if err != nil {
		return ipam.AddressGrant{}, err
	}
	taken := map[netip.Addr]string{}
	for _, h := range m.held {
		if h.Pool == p.Pool && h.Container == r.ID && (!r.Address.IsValid() || h.Address == r.Address) {
			return ipam.AddressGrant{Address: netip.PrefixFrom(h.Address, p.Pool.Bits())}, nil
		}
		taken[h.Address] = h.Container
	}
	a := r.Address
	if !a.IsValid() {
		for a = p.Pool.Addr().Next(); taken[a] != ""; a = a.Next() {
		}
	}
	switch {
	case !p.Pool.Contains(a):
		return ipam.AddressGrant{}, &ipam.Error{Kind: ipam.ErrAddressOutOfRange, Text: "address does not lie in the pool"}
	case taken[a] != "":
		return ipam.AddressGrant{}, &ipam.Error{Kind: ipam.ErrAddressInUse, Text: "address is held by " + taken[a]}
	}
	m.held = slices.Insert(m.held, 0, ipam.AddressStatus{
		Address: a, Pool: p.Pool, Peer: "host-a", State: "held", Kind: "client", Container: r.ID, Since: someTime,
	})
	return ipam.AddressGrant{Address: netip.PrefixFrom(a, p.Pool.Bits()), Ticket: ipam.Ticket{Serial: uint64(len(m.held))}}, nil
}

func (m *memory) match(pool, id string, a netip.Addr) (hits, rest []ipam.AddressStatus, err error) {
	if pool != "" {
		p, err := m.find(pool)
		if err != nil {
			return nil, nil, err
		}
		pool = p.Pool.String()
	}
	for _, h := range m.held {
		if (pool == "" || h.Pool.String() == pool) && (id == "" || h.Container == id) && (!a.IsValid() || h.Address == a) {
			hits = append(hits, h)
		} else {
			rest = append(rest, h)
		}
	}
	return hits, rest, nil
}

func (m *memory) Free(ctx context.Context, r ipam.FreeRequest) ([]ipam.AddressStatus, error) {
	end, err := m.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	hits, rest, err := m.match(r.Pool, r.ID, r.Address)
	if err == nil {
		m.held = rest
	}
	return hits, err
}

func (m *memory) Snapshot(ctx context.Context) (ipam.Status, error) { return m.Status(ctx) }

func (m *memory) Status(ctx context.Context) (ipam.Status, error) {
	end, err := m.begin(ctx, "status")
	if err != nil {
		return ipam.Status{}, err
	}
	defer end()
	self := ipam.PeerStatus{ID: "aa01", Name: "host-a", State: "active", Boot: 3}
	st := ipam.Status{
		Verdict: ipam.Fine, State: m.state, Cluster: "00112233445566778899aabbccddeeff", Slot: 7,
		Self: self, Peers: []ipam.PeerStatus{self},
		Pools: slices.Clone(m.pools),
	}
	if m.hostB != "" {
		st.Peers = []ipam.PeerStatus{{ID: hostB, Name: "host-b", State: m.hostB, Boot: 1}, self}
	}
	return st, nil
}

const hostB = "bb02bb02bb02bb02bb02bb02bb02bb02"

// other checks that a peer that is named is the other one.
func (m *memory) other(ref string) error {
	if ref != "host-b" && (len(ref) < minID || !strings.HasPrefix(hostB, strings.ToLower(ref))) {
		return &ipam.Error{Kind: ipam.ErrPeerNotFound, Text: "there is no peer " + ref}
	}
	return nil
}

func (m *memory) Join(ctx context.Context, address string) ([]Met, error) {
	unlock, err := m.begin(ctx, "join "+address)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if !strings.HasPrefix(address, "host-b") {
		return nil, &ipam.Error{Kind: ipam.ErrUnreachable, Text: "nobody could be met at " + address}
	}
	return []Met{{ID: hostB, Name: "host-b", Address: "10.0.0.2:7950"}}, nil
}

func (m *memory) Evict(ctx context.Context, peer string) error {
	end, err := m.begin(ctx, ipam.EvictRequest{Peer: peer})
	if err != nil {
		return err
	}
	defer end()
	if err := m.other(peer); err != nil {
		return err
	}
	if m.hostB == "active" {
		m.hostB = stateEvicted
	}
	return nil
}

func (m *memory) Forget(ctx context.Context, peer string, dryRun bool) (ipam.Forgetting, error) {
	end, err := m.begin(ctx, ipam.ForgetRequest{Peer: peer, DryRun: dryRun})
	if err != nil {
		return ipam.Forgetting{}, err
	}
	defer end()
	if err := m.other(peer); err != nil {
		return ipam.Forgetting{}, err
	}
	f := ipam.Forgetting{Peer: "host-b", ID: hostB, Evicted: 7}
	switch m.hostB {
	case "active":
		return ipam.Forgetting{}, &ipam.Error{Kind: ipam.ErrBadRequest, Text: "host-b is in the cluster"}
	case stateEvicted:
		f.Ranges, f.Addresses = 1, 1
	}
	if !dryRun {
		m.hostB = ""
	}
	return f, nil
}

func (m *memory) Recover(ctx context.Context) error {
	end, err := m.begin(ctx, ipam.RecoverRequest{})
	if err != nil {
		return err
	}
	defer end()
	if m.hostB != "" {
		m.hostB = stateEvicted
	}
	m.state = ipam.Alone
	return nil
}

func (m *memory) Rejoin(ctx context.Context, dryRun bool) (Rejoining, error) {
	end, err := m.begin(ctx, "rejoin")
	if err != nil {
		return Rejoining{}, err
	}
	defer end()
	out := Rejoining{
		Former: "aa01", Peers: []string{"host-b at 192.0.2.2:7950"}, InUse: 3,
		Clients: []Claim{{Address: netip.MustParseAddr("10.50.0.5"), Pool: "10.50.0.0/29", For: "printer-3"}},
	}
	if !dryRun {
		m.state, out.Kept = ipam.Joining, "ringlet.db.former-20261121T090000.000Z"
	}
	return out, nil
}

func (m *memory) Trust(ctx context.Context) (Trusted, error) {
	end, err := m.begin(ctx, ipam.TrustRequest{})
	if err != nil {
		return Trusted{}, err
	}
	defer end()
	m.state = ipam.Ready
	return Trusted{Peer: "host-a", ID: "aa01", State: m.state}, nil
}

// List gives two addresses at a time.
func (m *memory) List(ctx context.Context, q ipam.Listing) (ipam.Portion, error) {
	end, err := m.begin(ctx, q)
	if err != nil {
		return ipam.Portion{}, err
	}
	defer end()
	hits, _, err := m.match(q.Pool, q.Holder, netip.Addr{})
	slices.SortFunc(hits, func(a, b ipam.AddressStatus) int { return a.Address.Compare(b.Address) })
	hits = slices.DeleteFunc(hits, func(a ipam.AddressStatus) bool { return q.After.IsValid() && a.Address.Compare(q.After) <= 0 })
	if len(hits) <= 2 {
		return ipam.Portion{Addresses: hits}, err
	}
	return ipam.Portion{Addresses: hits[:2], Next: hits[1].Address}, err
}

func (m *memory) Who(ctx context.Context, a netip.Addr) (ipam.AddressStatus, error) {
	end, err := m.begin(ctx, a)
	if err != nil {
		return ipam.AddressStatus{}, err
	}
	defer end()
	hits, _, _ := m.match("", "", a)
	if len(hits) == 0 {
		return ipam.AddressStatus{}, &ipam.Error{Kind: ipam.ErrAddressNotHeld, Text: "address is not held"}
	}
	return hits[0], nil
}

func (m *memory) Explain(ctx context.Context, a netip.Addr) (ipam.Explanation, error) {
	who, err := m.Who(ctx, a)
	return ipam.Explanation{AddressStatus: who, Verdict: "is held by somebody", Origin: "operator", Networks: []ipam.PoolID{}, Refusals: []ipam.Refusal{}}, err
}

func (m *memory) Table(ctx context.Context, q ipam.TableListing) (ipam.TablePortion, error) {
	end, err := m.begin(ctx, q)
	if err != nil {
		return ipam.TablePortion{}, err
	}
	defer end()
	if q.Pool != "" {
		if _, err := m.find(q.Pool); err != nil {
			return ipam.TablePortion{}, err
		}
	}
	lab := netip.MustParsePrefix("10.50.0.0/28")
	row := ipam.TableRow{
		Pool: lab, Start: netip.MustParseAddr("10.50.0.0"), End: netip.MustParseAddr("10.50.0.7"),
		Primary: &ipam.TablePeer{ID: "aa01", Name: "host-a", Zone: "rack-1"}, Secondary: &ipam.TablePeer{ID: hostB, Name: "host-b"},
	}
	if !q.After.IsValid() {
		return ipam.TablePortion{Rows: []ipam.TableRow{row}, Next: row.End}, nil
	}
	row.Start, row.End, row.Secondary = q.After.Next(), netip.MustParseAddr("10.50.0.15"), nil
	return ipam.TablePortion{Rows: []ipam.TableRow{row}}, nil
}

func (m *memory) CreatePool(ctx context.Context, cidr netip.Prefix, name string) (ipam.PoolStatus, bool, error) {
	end, err := m.begin(ctx, cidr)
	if err != nil {
		return ipam.PoolStatus{}, false, err
	}
	defer end()
	for _, p := range m.pools {
		switch {
		case p.Pool == cidr:
			return p, false, nil
		case p.Pool.Overlaps(cidr):
			return ipam.PoolStatus{}, false, &ipam.Error{Kind: ipam.ErrPoolOverlap, Text: "subnet overlaps pool " + p.Pool.String()}
		}
	}
	p := ipam.PoolStatus{Pool: cidr, Name: name, Origin: "operator", Size: 256, Free: 256}
	m.pools = append(m.pools, p)
	return p, true, nil
}

func (m *memory) RemovePool(ctx context.Context, pool string) error {
	end, err := m.begin(ctx, pool)
	if err != nil {
		return err
	}
	defer end()
	p, err := m.find(pool)
	if err != nil {
		return err
	}
	cidr := p.Pool
	if slices.ContainsFunc(m.held, func(h ipam.AddressStatus) bool { return h.Pool == cidr }) {
		return &ipam.Error{Kind: ipam.ErrPoolInUse, Text: "pool still holds addresses"}
	}
	m.pools = slices.DeleteFunc(m.pools, func(p ipam.PoolStatus) bool { return p.Pool == cidr })
	return nil
}

func (m *memory) Drain(ctx context.Context, r ipam.DrainRequest) error {
	end, err := m.begin(ctx, r)
	if err != nil {
		return err
	}
	defer end()
	if m.state = ipam.Leaving; r.Undo {
		m.state = ipam.Ready
	}
	return nil
}

func (m *memory) Leave(ctx context.Context, force bool) error {
	end, err := m.begin(ctx, ipam.LeaveRequest{Force: force})
	if err != nil {
		return err
	}
	defer end()
	if len(m.held) > 0 && !force {
		return &ipam.Error{Kind: ipam.ErrPoolInUse, Text: "host-a still holds addresses"}
	}
	m.state = ipam.Leaving
	if m.leaving--; m.leaving >= 0 {
		return &ipam.Error{Kind: ipam.ErrNotReady, Text: "host-a is draining"}
	}
	m.state, m.pools, m.held = ipam.Left, nil, nil
	return nil
}

func (m *memory) Reserve(ctx context.Context, r ipam.ReserveRequest) (ipam.Reserving, error) {
	end, err := m.begin(ctx, r)
	if err != nil {
		return ipam.Reserving{}, err
	}
	defer end()
	return ipam.Reserving{
		Pool: netip.MustParsePrefix("10.50.0.0/29"), First: r.First, Last: r.Last, Kind: r.Kind.String(), Note: r.Note, Addresses: 1,
		Collisions: []ipam.Collision{{First: r.Last, Last: r.Last, Why: "is held by container web"}},
	}, nil
}

func (m *memory) Unreserve(ctx context.Context, r ipam.UnreserveRequest) (ipam.Reserving, error) {
	end, err := m.begin(ctx, r)
	if err != nil {
		return ipam.Reserving{}, err
	}
	defer end()
	return ipam.Reserving{
		Pool: netip.MustParsePrefix("10.50.0.0/29"), First: r.First, Last: r.Last, Kind: r.Kind.String(), Addresses: 1,
		Collisions: []ipam.Collision{},
	}, nil
}

func (m *memory) Reservations(ctx context.Context, pool string) ([]ipam.ReservationStatus, error) {
	end, err := m.begin(ctx, pool)
	if err != nil {
		return nil, err
	}
	defer end()
	if pool == "none" {
		return nil, nil
	}
	return []ipam.ReservationStatus{{
		Pool: netip.MustParsePrefix("10.50.0.0/29"), PoolName: "lab", First: netip.MustParseAddr("10.50.0.3"), Last: netip.MustParseAddr("10.50.0.4"),
		Addresses: 2, Kind: "excluded", Note: "printers",
	}}, nil
}

func (m *memory) Check(ctx context.Context) (ipam.Audit, error) {
	end, err := m.begin(ctx, "check")
	if err != nil {
		return ipam.Audit{}, err
	}
	defer end()
	return ipam.Audit{Verdict: ipam.Fine, At: someTime, Peer: "host-a", PeerID: "aa01", Slot: 7, Broken: []string{}, Database: []string{}, Findings: []ipam.Finding{}}, nil
}

func (m *memory) Collect(ctx context.Context, r ipam.CollectRequest) ([]ipam.Collected, error) {
	end, err := m.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	var out []ipam.Collected
	for _, f := range r.Findings {
		out = append(out, ipam.Collected{Address: f.Address, Pool: f.Pool, Outcome: ipam.CollectedFreed, Why: "two lists lack it"})
	}
	return out, nil
}

// fail returns a Backend whose every call fails.
func fail(err error) *memory {
	m := newMemory()
	m.hook = func(context.Context) error { return err }
	return m
}

var errDisk = errors.New("write /data/ringlet.db: input/output error")
