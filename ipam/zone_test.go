package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// inZones starts peers anew, in zones.
func (c *lockstep) inZones(zones map[int]peer.Zone) {
	for i, zone := range zones {
		c.peers[i].cfg.Zone = zone
		c.start(i)
	}
}

// zones returns the zone of each peer, as one of them knows it.
func (c *lockstep) zones(i int) (out []peer.Zone) {
	for _, p := range c.peers {
		out = append(out, c.peers[i].machine.State().Member(p.machine.Self()).Zone)
	}
	return out
}

// zoned are eight hosts in four zones, of which four are away: the others have four of seven votes. It returns them in the order
// of the roster.
func zoned(t *testing.T, rules ipam.Rule) (c *lockstep, order []int) {
	t.Helper()
	c = newLockstepWith(t, 8, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg = ipam.Without(p.cfg, rules)
		}
	})
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	order = c.order()
	zones := map[int]peer.Zone{}
	for at, i := range order {
		zones[i] = peer.Zone([]string{"a", "a", "b", "b", "c", "c", "d", "d"}[at])
	}
	c.inZones(zones)
	c.wait(30 * time.Second)
	for at, i := range order {
		if got := c.zones(i); !slices.Equal(got, c.zones(0)) || got[i] != zones[i] {
			t.Fatalf("peer %d of the roster knows zones %q", at, got)
		}
	}
	c.dead = map[int]bool{order[3]: true, order[5]: true, order[6]: true, order[7]: true}
	for i := range c.peers {
		for j := range c.peers {
			if c.dead[i] != c.dead[j] {
				c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self()})
			}
		}
	}
	c.wait(10 * time.Second)
	return c, order
}

// A host of an earlier release could not follow a zone. As long as one is there nobody tells its own, and all hand out addresses.
// A zone that is taken out of the settings ends.
func TestNoZonesBesideAnEarlierRelease(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		c.peers[1].cfg.Spoken = chronicle.WithZones - 1
		for i, p := range c.peers {
			p.cfg.Zone = peer.Zone(fmt.Sprint("rack-", i))
		}
	})
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	if got := c.zones(0); !slices.Equal(got, []peer.Zone{"", "", ""}) {
		t.Fatalf("beside an earlier release the zones are %q", got)
	}
	for i := range c.peers {
		c.works(i, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 60, byte(i), 0}), 24))
	}
	c.upgrade(1, chronicle.Spoken)
	c.wait(10 * time.Second)
	if got := c.zones(0); !slices.Equal(got, []peer.Zone{"rack-0", "rack-1", "rack-2"}) {
		t.Fatalf("the zones are %q", got)
	}
	for _, p := range c.status(0).Peers {
		if p.Zone != "rack-"+p.Name[len("host-"):] {
			t.Errorf("status says of %s zone %q", p.Name, p.Zone)
		}
	}
	c.inZones(map[int]peer.Zone{2: ""})
	c.wait(10 * time.Second)
	if got := c.zones(0); !slices.Equal(got, []peer.Zone{"rack-0", "rack-1", ""}) {
		t.Errorf("the zones are %q", got)
	}
}

// A peer that is told of a zone that is none does not start.
func TestZoneThatIsNone(t *testing.T) {
	c := newLockstep(t, 1)
	cfg := c.peers[0].cfg
	cfg.Zone = "two racks"
	if _, err := ipam.New(cfg); err == nil || err.Error() != `the peer's zone cannot be used: it contains ' '` {
		t.Errorf("the error is %v", err)
	}
}

// ruled are hosts of which those in one zone, or in none, have a majority of the votes, although there are three zones.
func ruled(zone peer.Zone, mend func(c *lockstep, order []int)) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c := newLockstep(t, 5)
		c.found()
		order := c.order()
		c.inZones(map[int]peer.Zone{order[0]: zone, order[1]: zone, order[2]: "rack-2", order[3]: "rack-3", order[4]: zone})
		c.wait(30 * time.Second)
		return c.at(order[0]), c.then(func(c *lockstep) { mend(c, order) })
	}
}

// anotherZone has a host name another zone.
func anotherZone(c *lockstep, order []int) { c.inZones(map[int]peer.Zone{order[4]: "rack-4"}) }

// moreHosts has a host start in one of the other zones, in place of one that is taken out.
func moreHosts(c *lockstep, order []int) {
	c.t.Helper()
	gone := order[4]
	c.die(gone)
	c.giveUp(order[0], gone)
	if _, found := problemOf(c.status(order[0]), "zone-majority"); !found {
		c.t.Fatal("two hosts of four are in one zone, and the first has two votes: that is no problem")
	}
	old := c.peers[gone].machine.Self()
	c.reinstall(gone, func(cfg *ipam.Config) { cfg.Formation, cfg.Zone, cfg.Name = ipam.Formation{}, "rack-3", "host-9" })
	c.heal()
	for i := range c.peers {
		c.step(i, &ipam.Presence{Peer: old})
	}
	c.wait(30 * time.Second)
	if n := len(c.peers[order[0]].machine.State().Roster); n != 5 {
		c.t.Fatalf("the roster has %d hosts", n)
	}
}

func problemOf(st ipam.Status, code string) (ipam.Problem, bool) {
	for _, p := range st.Problems {
		if p.Code == code {
			return p, true
		}
	}
	return ipam.Problem{}, false
}

// In two zones one has a majority whatever anybody does, and in three of about one size none has: the status warns of neither.
func TestZonesThatNobodyIsWarnedOf(t *testing.T) {
	for _, zones := range [][]peer.Zone{{"", "", "", "", ""}, {"a", "a", "a", "a", "b"}, {"a", "a", "b", "b", "c"}, {"a", "b", "c", "", "d"}} {
		c := newLockstep(t, 5)
		c.found()
		in := map[int]peer.Zone{}
		for i, zone := range zones {
			in[i] = zone
		}
		c.inZones(in)
		c.wait(30 * time.Second)
		if p, found := problemOf(c.status(0), "zone-majority"); found || c.zones(0)[4] != zones[4] {
			t.Errorf("of zones %q: %+v", zones, p)
		}
	}
}

// Who asks for the table of a pool gets the rows with names and zones, in portions, and an address that is explained names the
// zone of its host, also of one that was evicted.
func TestTable(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/29")})
	c.inZones(map[int]peer.Zone{0: "rack-0", 1: "rack-1", 2: "rack-1"})
	c.wait(30 * time.Second)
	m := c.peers[0].machine
	all, err := m.Table(c.now, ipam.TableListing{})
	if err != nil || len(all.Rows) != 33 || all.Next.IsValid() {
		t.Fatalf("%d rows, then %v: %v", len(all.Rows), all.Next, err)
	}
	var parts []ipam.TableRow
	for q := (ipam.TableListing{Limit: 5}); ; {
		p, err := m.Table(c.now, q)
		if err != nil || len(p.Rows) > 5 {
			t.Fatalf("%d rows: %v", len(p.Rows), err)
		}
		parts = append(parts, p.Rows...)
		if q.After = p.Next; !q.After.IsValid() {
			break
		}
	}
	same := func(a, b ipam.TableRow) bool {
		return a.Pool == b.Pool && a.Start == b.Start && a.End == b.End && *a.Primary == *b.Primary && *a.Secondary == *b.Secondary
	}
	if !slices.EqualFunc(parts, all.Rows, same) {
		t.Error("in portions the table is another one")
	}
	for _, r := range all.Rows {
		if r.Primary.Zone == r.Secondary.Zone || r.Primary.Zone != "rack-"+map[string]string{"host-0": "0", "host-1": "1", "host-2": "1"}[r.Primary.Name] {
			t.Errorf("row %v: %+v, %+v", r.Start, r.Primary, r.Secondary)
		}
	}
	one, err := m.Table(c.now, ipam.TableListing{Pool: "10.60.0.0/29"})
	if err != nil || len(one.Rows) != 1 || one.Rows[0].End != netip.MustParseAddr("10.60.0.7") {
		t.Errorf("the table of one pool is %+v: %v", one, err)
	}
	if _, err := m.Table(c.now, ipam.TableListing{Pool: "none"}); err == nil {
		t.Error("a pool that there is not has a table")
	}

	a := c.ask(1, docker(prefix("10.50.0.0/24"))).Address.Address.Addr()
	for _, how := range []string{"reachable", "evicted"} {
		if how == "evicted" {
			c.die(1)
			c.mustAsk(0, &ipam.EvictRequest{Peer: "host-1"})
		}
		if e, err := m.Explain(c.now, a); err != nil || e.Zone != "rack-1" || e.OwnedHow != how {
			t.Errorf("%v is in zone %q, and its host is %q: %v", a, e.Zone, e.OwnedHow, err)
		}
	}
	if e, err := m.Explain(c.now, netip.MustParseAddr("10.50.0.0")); err != nil || e.Zone != "" {
		t.Errorf("an address of no host is in zone %q: %v", e.Zone, err)
	}
}

// A peer that is alone tells its zone to nobody: it may yet give way to another cluster, and then votes again on what it has
// decided. It tells it as soon as another one is there (seed 4 of TestSimStrained).
func TestZoneIsToldToOthers(t *testing.T) {
	c := newLockstepWith(t, 2, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.Formation, p.cfg.Join, p.cfg.Zone = ipam.Formation{}, i > 0, peer.Zone(fmt.Sprint("rack-", i))
		}
		c.dead = map[int]bool{0: true, 1: true}
	})
	c.wait(time.Minute)
	if m := c.peers[0].machine; m.State().Slot == 0 || m.State().HasZones() {
		t.Errorf("a peer that is alone is at slot %d, and has told its zone: %t", m.State().Slot, m.State().HasZones())
	}
	c.heal()
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	if got := c.zones(0); !slices.Equal(got, []peer.Zone{"rack-0", "rack-1"}) {
		t.Errorf("the zones are %q", got)
	}
}
