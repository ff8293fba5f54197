package ipam_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
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
