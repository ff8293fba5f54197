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
