package ipam_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/wire"
)

// hears keeps the frames of Paxos, and those that tell what was decided.
func (c *lockstep) hears() *[]flight {
	said := new([]flight)
	lose := c.lose
	c.lose = func(f flight) bool {
		switch f.frame.Body.(type) {
		case wire.Prepare, wire.Promise, wire.Accept, wire.Accepted, wire.Refusal, wire.Decided:
			*said = append(*said, f)
		}
		return lose(f)
	}
	return said
}

// count returns how many frames of each body there are.
func count(said []flight) map[string]int {
	kinds := map[string]int{}
	for _, f := range said {
		kinds[fmt.Sprintf("%T", f.frame.Body)]++
	}
	return kinds
}

// quiet founds a cluster of n that has nothing to do, and returns its voters in
// order.
func quiet(t *testing.T, n int) (c *lockstep, order []int) {
	t.Helper()
	c = newLockstep(t, n)
	c.found()
	c.wait(5 * time.Second)
	c.run(time.Minute, c.agreed)
	for _, id := range c.peers[0].machine.State().Voters() {
		order = append(order, c.byID[id])
	}
	return c, order
}

// TestFirstVoterPreparesNothing has the first voter decide a command of its
// own, and one of another: nobody is asked to promise anything. Without it, the
// next one prepares.
func TestFirstVoterPreparesNothing(t *testing.T) {
	c, order := quiet(t, 3)
	// The voters are told what was decided, and with the hint all are.
	want := map[string]int{"wire.Accept": 2, "wire.Accepted": 2, "wire.Decided": 4}
	for k, i := range []int{order[0], order[2]} {
		said := c.hears()
		if err := c.ask(i, &ipam.PoolCreation{CIDR: prefix(fmt.Sprintf("10.%d.0.0/24", 60+k))}).Err; err != nil {
			t.Fatal(err)
		}
		c.run(time.Minute, c.agreed)
		c.wait(10 * time.Millisecond)
		if diff := cmp.Diff(want, count(*said)); diff != "" {
			t.Errorf("a command of voter %d (-want +got):\n%s", i, diff)
		}
	}

	said := c.hears()
	c.die(order[0])
	if err := c.ask(order[2], &ipam.PoolCreation{CIDR: prefix("10.62.0.0/24")}).Err; err != nil {
		t.Fatal(err)
	}
	if count(*said)["wire.Prepare"] == 0 {
		t.Errorf("the second voter has prepared nothing: %v", count(*said))
	}
}

// TestNextSlotBeginsWithTheDecision has commands wait while a slot is decided:
// the next one is asked about in the very step that learns of the former, and
// holds all of them.
func TestNextSlotBeginsWithTheDecision(t *testing.T) {
	c, order := quiet(t, 3)
	said := c.hears()
	first, slot := order[0], c.peers[0].machine.State().Slot
	for k := range 5 {
		c.call(first, &ipam.PoolCreation{CIDR: prefix(fmt.Sprintf("10.%d.0.0/24", 60+k))})
	}
	c.run(time.Minute, func() bool { return len(c.peers[0].machine.State().Pools) == 6 && c.agreed() })
	decided, accept := map[uint64]time.Time{}, map[uint64]time.Time{}
	for _, f := range *said {
		switch b := f.frame.Body.(type) {
		case wire.Decided:
			if at, ok := decided[b.First]; !ok || f.at.Before(at) {
				decided[b.First] = f.at
			}
		case wire.Accept:
			if at, ok := accept[b.Slot]; !ok || f.at.Before(at) {
				accept[b.Slot] = f.at
			}
			if b.Accept.Ballot.Round != 0 {
				t.Errorf("slot %d is asked about at ballot %v", b.Slot, b.Accept.Ballot)
			}
		}
	}
	if at, ok := accept[slot+2]; !ok || !at.Equal(decided[slot+1]) {
		t.Errorf("slot %d is decided at %v, the next one is begun at %v", slot+1, decided[slot+1], at)
	}
	if now := c.peers[0].machine.State().Slot; now != slot+2 {
		t.Errorf("five commands have taken %d slots, want 2", now-slot)
	}
}

// TestQuestionBeforeTheDecision has what the first voter asks about a slot
// arrive before its decision of the slot before, which it has sent a moment
// earlier: nobody waits until it asks again, a quarter of a second later.
func TestQuestionBeforeTheDecision(t *testing.T) {
	c, order := quiet(t, 3)
	first, early := order[0], 0
	c.lose = func(f flight) bool {
		switch b := f.frame.Body.(type) {
		case wire.Decided:
			f.at = f.at.Add(5 * time.Millisecond)
			c.deliver(f)
			return true
		case wire.Accept:
			if b.Slot > c.peers[f.to].machine.State().Slot+1 {
				early++
			}
		}
		return false
	}
	began := c.now
	for k := range 4 {
		if err := c.ask(first, &ipam.PoolCreation{CIDR: prefix(fmt.Sprintf("10.%d.0.0/24", 60+k))}).Err; err != nil {
			t.Fatal(err)
		}
	}
	if early == 0 {
		t.Error("no question came before the decision")
	}
	if took := c.now.Sub(began); took > 100*time.Millisecond {
		t.Errorf("four decisions took %v, want a few milliseconds each", took)
	}
}

// TestFirstVoterPreparesAfterARestart has what the first voter asked get lost,
// and the voter restart: it asks about the same value, by its promises.
func TestFirstVoterPreparesAfterARestart(t *testing.T) {
	c, order := quiet(t, 3)
	first := order[0]
	lost := true
	c.lose = func(f flight) bool {
		_, accept := f.frame.Body.(wire.Accept)
		return accept && lost
	}
	c.call(first, &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")})
	c.start(first)
	lost = false
	c.run(time.Minute, func() bool { return c.status(first).State == ipam.Ready })
	said := c.hears()
	if err := c.ask(first, &ipam.PoolCreation{CIDR: prefix("10.61.0.0/24")}).Err; err != nil {
		t.Fatal(err)
	}
	c.run(time.Minute, c.agreed)
	if count(*said)["wire.Prepare"] == 0 {
		t.Errorf("it has prepared nothing: %v", count(*said))
	}
	for _, f := range *said {
		if b, ok := f.frame.Body.(wire.Prepare); ok && b.Ballot.Round == 0 {
			t.Errorf("it has prepared %v", b.Ballot)
		}
	}
	var pools []string
	for _, p := range c.peers[first].machine.State().Pools {
		pools = append(pools, p.CIDR.String())
	}
	if diff := cmp.Diff([]string{"10.50.0.0/24", "10.60.0.0/24", "10.61.0.0/24"}, pools); diff != "" {
		t.Errorf("pools, by slot (-want +got):\n%s", diff)
	}
}

// TestFirstVoterReconsiders has the first voter want a peer forgotten, and that
// peer come back before any other voter has heard of it: what it wants no more
// binds nobody.
func TestFirstVoterReconsiders(t *testing.T) {
	c, order := quiet(t, 5)
	first, last := order[0], order[4]
	lost, name := c.peers[last].machine.Self(), string(c.peers[last].cfg.Name)
	c.die(last)
	if err := c.ask(first, &ipam.EvictRequest{Peer: name}).Err; err != nil {
		t.Fatal(err)
	}
	if err := c.ask(first, &ipam.ForgetRequest{Peer: name, DryRun: true}).Err; err != nil {
		t.Fatal(err) // from now on it is known that nobody hears from it
	}
	cut := true
	c.lose = func(flight) bool { return cut }
	c.call(first, &ipam.ForgetRequest{Peer: name})
	c.wait(500 * time.Millisecond)
	c.step(first, &ipam.Presence{Peer: lost, Alive: true})
	c.wait(2 * time.Second)
	cut = false
	c.wait(10 * time.Second)
	if g := c.peers[first].machine.State().Gone(lost); g == nil || g.Forgotten {
		t.Errorf("it is %+v", g)
	}
}

// TestAcceptanceIsOnDiskBeforeItLeaves looks at each step in which a first
// voter asks for a value to be accepted unprepared: the disk has its own
// acceptance in that slot before the frames leave.
func TestAcceptanceIsOnDiskBeforeItLeaves(t *testing.T) {
	c, order := quiet(t, 3)
	seen := 0
	c.lose = func(f flight) bool {
		b, ok := f.frame.Body.(wire.Accept)
		if !ok || f.from != order[0] {
			return false
		}
		seen++
		r := codec.NewReader(c.peers[f.from].disk["chronicle\x00\x00\x02"])
		r.Byte("format")
		if slot := r.Uint("slot"); slot != b.Slot {
			t.Errorf("slot %d is asked about, and the acceptance on disk is of slot %d", b.Slot, slot)
		}
		return false
	}
	if err := c.ask(order[0], &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")}).Err; err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("nothing was asked")
	}
}
