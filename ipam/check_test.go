package ipam

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// Check must notice what it is there to notice: each kind of damage is done to
// a healthy machine, and found.
func TestCheckNotices(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	subnet := netip.MustParsePrefix("10.50.0.0/24")
	n := Network{Space: Local, Pool: subnet, Range: subnet}
	for name, c := range map[string]struct {
		damage func(m *Machine, p *pool.Pool)
		finds  string
	}{
		"nothing":                      {func(*Machine, *pool.Pool) {}, ""},
		"an address owned twice":       {func(_ *Machine, p *pool.Pool) { p.Space.Own(addr.Range{Start: 200, End: 201}) }, "the ring gives this peer"},
		"a range lost":                 {func(_ *Machine, p *pool.Pool) { _ = p.Space.Disown(addr.Range{Start: 100, End: 101}) }, "the ring gives this peer"},
		"a held address given away":    {func(_ *Machine, p *pool.Pool) { p.Ring.Assign(addr.One(1), peer.ID{9}, 9) }, "I5"},
		"a peer that never was":        {func(_ *Machine, p *pool.Pool) { p.Ring.Assign(addr.One(250), peer.ID{9}, 9) }, "never was"},
		"a reservation without ring":   {func(_ *Machine, p *pool.Pool) { p.Ring.Assign(addr.One(0), ring.Free, 9) }, "is reserved as"},
		"a ring without reservation":   {func(_ *Machine, p *pool.Pool) { p.Reserved = p.Reserved[1:] }, "differ by 1"},
		"a pool that the core forgot":  {func(m *Machine, p *pool.Pool) { m.pools.Drop(p) }, "knows 0 pools of 1"},
		"a peer that stands twice":     {func(m *Machine, _ *pool.Pool) { m.state.Roster = append(m.state.Roster, m.state.Roster[0]) }, "stands twice"},
		"a gateway that is not held":   {func(_ *Machine, p *pool.Pool) { p.Gateway, p.HasGateway = 77, true }, "is not held as one"},
		"another peer's pool of old":   {func(_ *Machine, p *pool.Pool) { p.Pool = &chronicle.Pool{Key: p.Key, CIDR: p.CIDR, Ring: p.Ring} }, "not the one of the state"},
		"a breach found earlier":       {func(m *Machine, _ *pool.Pool) { m.log.Fail(errors.New("something else")) }, "something else"},
		"an address held out of range": {func(_ *Machine, p *pool.Pool) { _ = p.Space.Disown(addr.One(1)) }, "the ring gives this peer"},
	} {
		m, err := New(Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))})
		if err != nil {
			t.Fatal(err)
		}
		m.Step(now, &Call{Deadline: now.Add(time.Second), Request: &AddressRequest{Network: n, Purpose: ForContainer, Name: "web"}})
		p := m.pools.On(subnet)
		if p.Space.Lookup(1).State != space.Held {
			t.Fatal("nothing is held to begin with")
		}
		c.damage(m, p)
		found := errors.Join(m.Check(now)...)
		switch {
		case c.finds == "" && found != nil:
			t.Errorf("%s: %v", name, found)
		case c.finds != "" && (found == nil || !strings.Contains(found.Error(), c.finds)):
			t.Errorf("%s: found %v, want %q", name, found, c.finds)
		}
	}
}
