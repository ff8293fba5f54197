package ipam_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// drainsBesideAnother has operators drain two hosts of three at the same moment: each sees that nobody drains (R76).
func drainsBesideAnother(p *play) (breach string) {
	p.Helper()
	c := p.cluster(3)
	c.found()
	c.wait(30 * time.Second)
	order := c.order()
	calls := map[int]uint64{}
	for _, i := range order[1:] {
		c.ask(i, docker(lab50))
	}
	for _, i := range order[1:] {
		calls[i] = c.call(i, &ipam.DrainRequest{})
	}
	c.wait(10 * time.Second)
	var drain []string
	for _, i := range order[1:] {
		if c.phase(i) == chronicle.Draining {
			drain = append(drain, c.name(i))
		} else if err := c.peers[i].replies[calls[i]].Err; err == nil || !strings.Contains(err.Error(), "drains and still owns") {
			p.Errorf("%s does not drain, and says: %v", c.name(i), err)
		}
	}
	if len(drain) == 2 {
		return strings.Join(drain, " and ") + " drain at once"
	}
	return ""
}

// drainsAlso has each drain go on beside another one.
func drainsAlso(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	for i, c := range batch {
		if a, is := c.Action.(chronicle.SetState); is && a.Phase == chronicle.Draining {
			a.Also = true
			batch[i].Action = a
		}
	}
	return s.Apply(batch)
}

func (c *lockstep) phase(i int) chronicle.Phase {
	m := c.peers[i].machine
	return m.State().Member(m.Self()).Phase
}

// Who is refused a drain reads why, with figures, and with --also drains all the same. A host that owns nothing any more keeps no
// other one from draining.
func TestDrainIsRefused(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.wait(30 * time.Second)
	small := prefix("10.60.0.0/27")
	c.mustAsk(0, &ipam.PoolCreation{CIDR: small})
	for a, n := small.Addr().Next(), 0; n < 20; a, n = a.Next(), n+1 {
		c.mustAsk(0, &ipam.ClientRequest{Pool: small.String(), ID: "vm", Address: a})
	}
	c.wait(time.Minute)
	refused(t, c.ask(0, &ipam.DrainRequest{}).Err, "host-0 has 20 addresses of pool 10.60.0.0/27 in use, and 10 are free there; each of the 2 hosts that stay needs 8 for itself: remove containers or add a host first, or run ringlet drain --also")
	if c.phase(0) != chronicle.Active {
		t.Error("it was refused, and drains")
	}
	c.mustAsk(0, &ipam.DrainRequest{Also: true})
	c.mustAsk(0, &ipam.DrainRequest{}) // it does already
	err := c.ask(1, &ipam.DrainRequest{}).Err
	if err == nil || !strings.HasPrefix(err.Error(), "host-0 drains and still owns ") {
		t.Errorf("while another one drains: %v", err)
	}
	c.mustAsk(1, &ipam.DrainRequest{Also: true})
	c.mustAsk(1, &ipam.DrainRequest{Undo: true})
	c.mustAsk(0, &ipam.FreeRequest{Pool: small.String(), ID: "vm"})
	c.run(20*time.Minute, func() bool { return c.peers[0].machine.State().OwnedBy(c.peers[0].machine.Self()) == 0 })
	c.mustAsk(1, &ipam.DrainRequest{})
	if c.phase(0) != chronicle.Draining || c.phase(1) != chronicle.Draining {
		t.Errorf("they are %v and %v", c.phase(0), c.phase(1))
	}
}

// What a host has idle as it drains is spread over those that stay as the table spreads rows: as by chance, within five standard
// deviations. Where there are zones it goes to the hosts of the others. Nothing of it becomes free.
func TestDrainedSpaceIsSpread(t *testing.T) {
	for _, zones := range [][]peer.Zone{{"", "", "", "", "", ""}, {"a", "a", "b", "b", "c", "c"}} {
		c := newLockstep(t, 6)
		c.run(time.Minute, c.agreed)
		order := c.order()
		in := map[int]peer.Zone{}
		for at, i := range order {
			in[i] = zones[at]
		}
		c.inZones(in)
		c.wait(30 * time.Second)
		cidr, goes := prefix("10.60.0.0/16"), order[0]
		c.mustAsk(order[1], creation(cidr))
		c.mustAsk(goes, docker(cidr))
		owned := func(id peer.ID) (n addr.Count) {
			for r := range c.peers[goes].machine.State().PoolOf(cidr).Ring.OwnedBy(id) {
				n += r.Size()
			}
			return n
		}
		self := c.peers[goes].machine.Self()
		had, free, before := owned(self), owned(ring.Free), map[int]addr.Count{}
		for _, i := range order {
			before[i] = owned(c.peers[i].machine.Self())
		}
		c.mustAsk(goes, &ipam.DrainRequest{})
		c.run(time.Minute, func() bool { return owned(self) == 1 && c.agreed() })
		var heirs []int
		for at, i := range order {
			if zones[at] != zones[0] || at > 0 && zones[5] == zones[0] {
				heirs = append(heirs, i)
			}
		}
		const portion = 64
		mean := float64(had) / portion / float64(len(heirs))
		sum := addr.Count(0)
		for _, i := range heirs {
			got := owned(c.peers[i].machine.Self()) - before[i]
			sum += got
			if n := float64(got) / portion; n == 0 || n > mean+5*math.Sqrt(mean) {
				t.Errorf("zones %q: of %d addresses %s gets %d, the mean is %.0f", zones, had, c.name(i), got, mean*portion)
			}
		}
		if sum != had-1 || owned(ring.Free) != free {
			t.Errorf("zones %q: of %d addresses %d hosts get %d, and %d were free and %d are", zones, had, len(heirs), sum, free, owned(ring.Free))
		}
		c.oneCluster()
	}
}
