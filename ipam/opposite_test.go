package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// saidBeforeAStart has a host of three ask for something that reaches the first one as that is cut off. The process of the host ends
// and begins again, and it asks for the opposite. Then the first one is there again.
func saidBeforeAStart(t *testing.T, before func(c *lockstep, first int), one, opposite ipam.Request) (c *lockstep, first, host int, answer ipam.Reply) {
	t.Helper()
	c = newLockstepWith(t, 3, everywhere(func(cfg *ipam.Config) { cfg.Deal = chronicle.DealNone }))
	c.found()
	c.wait(5 * time.Second)
	order := c.order()
	first, host = order[0], order[2]
	before(c, first)
	c.wait(5 * time.Second)
	said := false
	c.lose = func(f flight) bool {
		_, submits := f.frame.Body.(wire.Submit)
		said = said || submits && f.from == host && f.to == first
		return f.from == first // what it proposes reaches nobody
	}
	c.call(host, one)
	c.run(time.Second, func() bool { return said })
	c.wait(10 * time.Millisecond)
	c.lose = without(first)
	c.start(host)
	c.part(first, order[1], host)
	c.wait(5 * time.Second)
	answer = c.ask(host, opposite)
	c.lose = func(flight) bool { return false }
	c.heal()
	c.wait(time.Minute)
	return c, first, host, answer
}

func TestOppositeOfWhatWasSaidBeforeAStart(t *testing.T) {
	nothing := func(*lockstep, int) {}
	t.Run("drain", func(t *testing.T) {
		c, _, host, r := saidBeforeAStart(t, nothing, &ipam.DrainRequest{}, &ipam.DrainRequest{Undo: true})
		if m := c.peers[host].machine; r.Err == nil && m.State().Member(m.Self()).Phase == chronicle.Draining {
			t.Error("it drains, and has said that it does not")
		}
	})
	t.Run("undo", func(t *testing.T) {
		drains := func(c *lockstep, _ int) { c.mustAsk(c.order()[2], &ipam.DrainRequest{}) }
		c, _, host, r := saidBeforeAStart(t, drains, &ipam.DrainRequest{Undo: true}, &ipam.DrainRequest{})
		if m := c.peers[host].machine; r.Err == nil && m.State().Member(m.Self()).Phase != chronicle.Draining {
			t.Error("it does not drain, and has said that it does")
		}
	})
	t.Run("removal of a pool", func(t *testing.T) {
		cidr := prefix("10.60.0.0/28")
		makes := func(c *lockstep, first int) { c.mustAsk(first, &ipam.PoolCreation{CIDR: cidr}) }
		c, first, _, r := saidBeforeAStart(t, makes, &ipam.PoolRemoval{Pool: cidr.String()}, &ipam.PoolCreation{CIDR: cidr})
		if r.Err == nil && c.peers[first].machine.State().PoolOf(cidr) == nil {
			t.Error("a pool is gone, and a host has said that it is there")
		}
	})
	t.Run("end of an exclusion", func(t *testing.T) {
		const at = "10.50.0.77"
		excludes := func(c *lockstep, first int) { c.mustAsk(first, exclude(at, at)) }
		c, first, _, r := saidBeforeAStart(t, excludes, unreserve(at, at, chronicle.KindExcluded), exclude(at, at))
		if r.Err == nil && c.ip(first, lab50, address(at)) == nil {
			t.Errorf("%s was handed out, and a host has said that it is excluded", at)
		}
	})
	t.Run("exclusion", func(t *testing.T) {
		const at = "10.50.0.77"
		c, first, _, r := saidBeforeAStart(t, nothing, exclude(at, at), unreserve(at, at, chronicle.KindExcluded))
		if err := c.ip(first, lab50, address(at)); r.Err == nil && err != nil {
			t.Errorf("%s is excluded, and a host has said that it is not: %v", at, err)
		}
	})
}
