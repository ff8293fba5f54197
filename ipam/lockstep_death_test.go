package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/wire"
)

// dieAfter has whoever sends that frame die right after it: the frame arrives,
// and nothing else that it does is ever seen.
func (c *lockstep) dieAfter(n int) {
	c.lose = func(f flight) bool {
		if f.n == n {
			c.dead = map[int]bool{f.from: true}
		}
		return false
	}
}

// living returns the peers that can be heard.
func (c *lockstep) living() []int {
	var out []int
	for i := range c.peers {
		if !c.dead[i] {
			out = append(out, i)
		}
	}
	return out
}

// livingAgree reports whether all peers that live are in one roster and know
// the same slot.
func (c *lockstep) livingAgree() bool {
	living := c.living()
	first := c.peers[living[0]].machine.State()
	for _, i := range living {
		s := c.peers[i].machine.State()
		if s.Slot == 0 || s.Slot != first.Slot || s.Cluster != first.Cluster || first.Member(c.peers[i].machine.Self()) == nil {
			return false
		}
	}
	return true
}

// mourn tells the others of whoever has died.
func (c *lockstep) mourn() {
	for _, i := range c.living() {
		for j := range c.dead {
			c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self()})
		}
	}
}

// answered has a peer serve a request and lets time pass until it is answered,
// or the peer is dead; the others are told when one dies.
func (c *lockstep) answered(i int, r ipam.Request) (reply ipam.Reply, ok bool) {
	c.t.Helper()
	call, dead := c.call(i, r), len(c.dead)
	c.run(time.Minute, func() bool {
		if len(c.dead) > dead {
			dead = len(c.dead)
			c.mourn()
		}
		reply, ok = c.peers[i].replies[call]
		return ok || c.dead[i]
	})
	return reply, ok
}

// TestEachSenderDiesAfterEachFrame founds a cluster of five and makes pools in
// it, once for each frame that this takes, whose sender is then lost for good,
// whatever it was about to do: a proposer between two voters, a voter after
// its promise, one who has just decided. The others found the cluster or go on
// with it, no slot is decided twice, and everything can be done.
func TestEachSenderDiesAfterEachFrame(t *testing.T) {
	live := func(c *lockstep) {
		told := false
		c.run(2*time.Minute, func() bool {
			if !told && len(c.dead) > 0 {
				told = true
				c.mourn()
			}
			return c.livingAgree()
		})
		for k, cidr := range []string{"10.50.0.0/24", "10.60.0.0/24", "10.50.0.0/24"} {
			for _, i := range slices.Backward(c.living()) {
				if r, ok := c.answered(i, &ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix(cidr)}); ok && r.Err != nil {
					t.Errorf("request %d on host-%d: %v", k, i, r.Err)
				}
			}
		}
		c.run(time.Minute, c.livingAgree)
		for _, i := range c.living() {
			if r := c.ask(i, &ipam.AddressRequest{Network: local(netip.MustParsePrefix("10.60.0.0/24")), Purpose: ipam.ForContainer}); r.Err != nil {
				t.Errorf("host-%d hands out nothing: %v", i, r.Err)
			}
			for _, err := range c.peers[i].machine.Check(c.now) {
				t.Errorf("host-%d: %v", i, err)
			}
		}
	}
	whole := newLockstep(t, 5)
	live(whole)
	stride := 1
	if testing.Short() {
		stride = 7
	}
	deaths := map[int]int{}
	for n := 1; n <= whole.frames; n += stride {
		c := newLockstepWith(t, 5, func(c *lockstep) { c.dieAfter(n) })
		live(c)
		for i := range c.dead {
			deaths[i]++
		}
		if t.Failed() {
			t.Fatalf("with the sender of frame %d lost, %v", n, c.dead)
		}
	}
	if len(deaths) < 5 {
		t.Errorf("not every peer has died: %v", deaths)
	}
	t.Logf("%d frames; deaths by host: %v", whole.frames, deaths)
}

// TestMessagesYearsLater keeps all that a peer ever said, gives the peer up,
// and brings every message again three years later, in this order and the
// other way round: nothing comes of it, and neither of the peer itself, which
// is switched on again with what it knew.
func TestMessagesYearsLater(t *testing.T) {
	const years = 3 * 365 * 24 * time.Hour
	c := newLockstep(t, 3)
	var said []flight
	deaf := false // to what others want proposed
	c.lose = func(f flight) bool {
		if f.from == 2 {
			said = append(said, f)
		}
		_, submits := f.frame.Body.(wire.Submit)
		return deaf && submits && f.to == 2
	}
	c.found()
	cidr := netip.MustParsePrefix("10.50.0.0/24")
	held := map[netip.Addr]int{} // by whom, with what each was told
	take := func(i int) error {
		r := c.ask(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer})
		if a := r.Address.Address.Addr(); r.Err == nil {
			held[a] = i
		}
		return r.Err
	}
	for _, i := range []int{2, 0, 2, 1, 2} {
		for range 20 {
			if err := take(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	// It is the first voter, and proposes. What it does not hear of, another
	// proposes, and it votes.
	deaf = true
	if err := c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("10.60.0.0/24")}).Err; err != nil {
		t.Fatal(err)
	}
	c.run(time.Minute, c.agreed)
	kinds := map[string]int{}
	for _, f := range said {
		kinds[fmt.Sprintf("%T", f.frame.Body)]++
	}
	for _, body := range []wire.Body{wire.Accept{}, wire.Decided{}, wire.Promise{}, wire.Accepted{}} {
		if kinds[fmt.Sprintf("%T", body)] == 0 {
			t.Errorf("the lost peer has sent no %T: %v", body, kinds)
		}
	}
	c.die(2)
	c.giveUp(0, 2)
	c.run(time.Minute, c.livingAgree)
	for i := 0; take(i%2) == nil; i++ { // all that there is, also what was the lost one's
	}
	c.now = c.now.Add(years)
	c.run(time.Minute, c.livingAgree)
	was := *c.peers[0].machine.State()
	digest := was.Digest()

	c.dead = nil
	for _, order := range [][]flight{said, slices.Collect(backward(said))} {
		for _, f := range order {
			c.step(f.to, &ipam.Message{Frame: f.frame, Seat: f.from + 1})
		}
	}
	c.dead = map[int]bool{2: true}
	if len(said) < 50 {
		t.Fatalf("the lost peer has sent %d frames only", len(said))
	}
	c.run(time.Minute, c.livingAgree)
	now := c.peers[0].machine.State()
	if now.Member(c.peers[2].machine.Self()) != nil {
		t.Error("the lost peer is in the roster again")
	}
	if now.Slot != was.Slot || now.Digest() != digest {
		t.Errorf("%d frames of a lost peer have moved the cluster from slot %d to %d", len(said), was.Slot, now.Slot)
	}
	for _, i := range c.living() {
		for _, err := range c.peers[i].machine.Check(c.now) {
			t.Errorf("host-%d: %v", i, err)
		}
	}

	// It is switched on again: it is suspended, and begins anew.
	c.dead = nil
	c.start(2)
	c.heal()
	c.run(time.Minute, func() bool { return c.isSuspended(2) })
	c.rejoin(2)
	c.run(time.Minute, c.agreed)
	for range 3 {
		r := c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer})
		if by, taken := held[r.Address.Address.Addr()]; r.Err == nil && taken && by != 2 {
			t.Errorf("it hands out %v, which host-%d holds", r.Address.Address, by)
		}
	}
}

func backward(of []flight) func(func(flight) bool) {
	return func(yield func(flight) bool) {
		for _, f := range slices.Backward(of) {
			if !yield(f) {
				return
			}
		}
	}
}
