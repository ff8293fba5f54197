package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// TestMemberWithoutARule is [TestScheduleWithoutARule] for rules about slots that are decided, and about peers that come and go.
func TestMemberWithoutARule(t *testing.T) {
	playEach(t, []control{
		{"a ballot without the boot", ipam.RuleBoot, nil, proposesInTwoStarts},
		{"an old release skips a slot", ipam.RuleLevels, nil, isNotUnderstood},
		{"digests are not compared", ipam.RuleDigests, nil, staysFree},
		{"a suspended peer refuses replays", ipam.RuleReplays, nil, isSuspendedUnderAnEngine},
		{"starting ends after a minute", ipam.RuleStarting, nil, isSuspendedUnderASlowEngine},
		{"rejoin knows no hosts", ipam.RuleWhereabouts, nil, rejoinsWhereOthersAre},
		{"rejoin forgets starts", ipam.RuleStarts, nil, rejoinsBesideAClone},
		{"a used-up ID is admitted", 0, admitsUsedUp, isAdmittedLate},
		{"a used-up ID costs slots", ipam.RuleUsedUp | ipam.RuleChallenge, nil, isAskedForAgain},
		{"reserved without a user", 0, reservesUnused, reservesLate},
	})
}

// Of eight hosts one has no vote, and proposes a slot. Three voters have accepted it as its process ends, and their answers are on
// their way. It begins again, and proposes something else, which one voter accepts.
func proposesInTwoStarts(p *play) string {
	c := p.cluster(8)
	c.run(time.Minute, c.agreed)
	c.wait(5 * time.Second)
	order := c.order()
	proposes, accepted, other := order[7], order[:3], order[3]
	for _, i := range order[:7] {
		c.step(proposes, &ipam.Presence{Peer: c.peers[i].machine.Self()}) // it proposes itself
	}
	var late []flight
	c.lose = func(f flight) bool {
		again := c.peers[proposes].starts > 1
		switch f.frame.Body.(type) {
		case wire.Prepare:
			return again && slices.Contains(accepted, f.to)
		case wire.Accept:
			return again && f.to != other || !again && !slices.Contains(accepted, f.to)
		case wire.Accepted:
			if f.from != other {
				late = append(late, f)
			}
			return f.from != other
		case wire.Decided, wire.Submit:
			return true
		}
		return false
	}
	c.call(proposes, &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")})
	c.run(time.Minute, func() bool { return len(late) >= 3 })
	c.start(proposes)
	c.wait(time.Second)
	for _, i := range order[:7] {
		c.step(proposes, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
	c.call(proposes, &ipam.PoolCreation{CIDR: prefix("10.61.0.0/24")})
	c.wait(100 * time.Millisecond)
	for _, f := range late[:3] {
		c.step(proposes, &ipam.Message{Frame: f.frame, Seat: f.from + 1})
	}
	c.silence(proposes)
	c.lose = func(f flight) bool { return f.from == other || f.to == other }
	c.call(order[0], &ipam.PoolCreation{CIDR: prefix("10.62.0.0/24")})
	c.wait(5 * time.Second)
	return p.twice
}

// A host with an older release starts. To it the commands by which it was evicted and forgotten are of a later level.
func isNotUnderstood(p *play) string {
	c, _, _, back := p.forgotten()
	c.lose = func(f flight) bool {
		d, ok := f.frame.Body.(wire.Decided)
		if !ok || f.to != back {
			return false
		}
		later := wire.Decided{First: d.First}
		for _, value := range d.Values {
			batch, err := chronicle.DecodeBatch(value)
			if err != nil {
				p.Fatal(err)
			}
			for i, c := range batch {
				switch c.Action.(type) {
				case chronicle.Evict, chronicle.Forget:
					batch[i].Action = chronicle.Unknown{Op: 200}
				}
			}
			later.Values = append(later.Values, chronicle.EncodeBatch(batch))
		}
		frame := *f.frame
		frame.Body = later
		f.frame = &frame
		c.deliver(f)
		return true
	}
	knows := c.peers[back].machine.State().Slot
	c.start(back)
	c.heal()
	end := c.now.Add(20 * time.Second)
	c.run(time.Minute, func() bool { return c.peers[back].machine.State().Slot > knows || c.now.After(end) })
	return c.handsOut(back, lab50)
}

// Of three hosts one has a defect: to it, a range that another one opens stays free.
func staysFree(p *play) string {
	c := p.cluster(3)
	c.found()
	c.wait(5 * time.Second)
	order := c.order()
	first, wrong := order[0], order[2]
	self := c.peers[wrong].machine.Self()
	c.peers[wrong].cfg = ipam.Applying(c.peers[wrong].cfg, func(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
		batch = slices.Clone(batch)
		for i, c := range batch {
			if o, ok := c.Action.(chronicle.Open); ok && c.Author != self {
				batch[i].Action = chronicle.NamePool{Pool: o.Pool}
			}
		}
		return s.Apply(batch)
	})
	c.start(wrong)
	c.heal()
	c.wait(5 * time.Second)
	_ = c.full(first, lab50)
	c.wait(5 * time.Second)
	return c.handsOut(wrong, lab50)
}

// A host that has heard that it was forgotten has a network with its own gateway. Its engine starts, and asks for that.
func isSuspendedUnderAnEngine(p *play) string {
	c := p.cluster(3)
	c.found()
	c.wait(time.Minute)
	order := c.order()
	first, back := order[0], order[2]
	q := &ipam.PoolRequest{Space: ipam.Local, Pool: lab50}
	n := c.ask(back, q).Pool.Network
	gateway := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	c.wait(5 * time.Second)
	c.die(back)
	c.giveUp(first, back)
	c.learnsLoss(first)
	p.ask(c, back, &ipam.Greeting{}, q)
	if err := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: gateway}).Err; err != nil {
		return "its engine does not start: " + err.Error()
	}
	return ""
}

// So it does where the engine takes two minutes, as it starts a hundred containers before it answers anything.
func isSuspendedUnderASlowEngine(p *play) string {
	c := p.cluster(3, everywhere(func(cfg *ipam.Config) { cfg.AwaitInventory = true }))
	c.run(time.Minute, c.agreed)
	c.lists(-1)
	order := c.order()
	first, back := order[0], order[2]
	n := c.network(back, lab50)
	gateway := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	c.wait(5 * time.Second)
	c.die(back)
	c.giveUp(first, back)
	c.learnsLoss(first)
	p.ask(c, back, &ipam.Greeting{}, &ipam.Blindness{})
	c.wait(90 * time.Second)
	for _, again := range []ipam.Request{
		&ipam.PoolRequest{Space: ipam.Local, Pool: lab50}, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: gateway},
	} {
		if err := c.ask(back, again).Err; err != nil {
			return "its engine does not start: " + err.Error()
		}
	}
	return ""
}

// rejoined has a host that was forgotten start over, and reach those of the others alone of which it knows where they are.
func (p *play) rejoined(c *lockstep, i int) {
	p.Helper()
	h := c.peers[i]
	remains, err := h.machine.Remains()
	if err != nil {
		p.Fatal(err)
	}
	h.cfg.Remains, h.disk = &remains, machinetest.Disk{}
	var known map[peer.ID]string
	c.lose = func(f flight) bool {
		if f.from != i && f.to != i {
			return false
		}
		_, calls := known[c.peers[f.from+f.to-i].machine.Self()]
		return !calls
	}
	c.start(i)
	h.cfg.Remains, known = nil, h.machine.Identity().Known
	for j := range c.peers {
		if j != i {
			c.part(i, j)
		}
	}
	for id := range known {
		c.reach(i, c.byID[id])
	}
}

// A host that was forgotten starts over. Nobody else calls it: the others knew it by another ID.
func rejoinsWhereOthersAre(p *play) string {
	c, first, _, back := p.forgotten()
	for i := range c.peers {
		c.step(back, &ipam.Presence{Peer: c.peers[i].machine.Self(), Addr: c.name(i)})
	}
	c.forgetSlots(back)
	c.learnsLoss(first)
	p.rejoined(c, back)
	c.wait(time.Minute)
	if c.peers[back].machine.State().Slot == 0 {
		return "it finds no cluster"
	}
	return ""
}

// Two hosts were cloned, and their machines have one ID. One was forgotten and starts over while the other is cut off with its
// containers.
func rejoinsBesideAClone(p *play) string {
	c := p.cluster(5, func(c *lockstep) {
		for i, h := range c.peers {
			h.cfg.Machine = uint64(max(i, 1))
		}
	})
	c.found()
	p.ask(c, 1, docker(lab50))
	for i := range c.peers {
		for j := range c.peers {
			if i != j {
				c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self(), Alive: true, Addr: c.name(j)})
			}
		}
	}
	c.die(0)
	c.giveUp(2, 0)
	c.learnsLoss(2)
	c.die(1)
	p.rejoined(c, 0)
	c.part(0, 1)
	c.wait(2 * time.Minute)
	return c.handsOut(0, lab50)
}

// admitsUsedUp has a peer be admitted whatever became of it before.
func admitsUsedUp(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	admits := func(c chronicle.Command) bool { _, ok := c.Action.(chronicle.Admit); return ok }
	if !slices.ContainsFunc(batch, admits) {
		return s.Apply(batch)
	}
	level := s.Level
	s.Level = 1
	out := s.Apply(batch)
	s.Level = level
	return out
}

// A host was evicted, and another one is to have it admitted again: that is late on its way to who proposes it. The host is off
// again, and is forgotten.
func isAdmittedLate(p *play) string {
	c := p.cluster(3)
	c.found()
	c.wait(5 * time.Second)
	order := c.order()
	first, second, back := order[0], order[1], order[2]
	c.die(back)
	p.ask(c, first, &ipam.EvictRequest{Peer: c.name(back)})
	c.wait(time.Second)
	c.dead = nil
	var late []flight
	c.lose = func(f flight) bool {
		s, submits := f.frame.Body.(wire.Submit)
		if !submits || f.from != second {
			return f.from == first && f.to == back || f.from == back && f.to == first
		}
		if batch, err := chronicle.DecodeBatch(s.Batch); err == nil && len(batch) > 0 {
			late = append(late, f)
		}
		return true
	}
	c.reach(second, back)
	c.say(back, second, wire.Beat{}, func(*wire.Header) {}) // that it was evicted
	c.run(time.Minute, func() bool { return len(late) > 0 })
	c.lose = without(back)
	c.part(back, first, second)
	c.wait(15 * time.Second)
	p.ask(c, first, &ipam.ForgetRequest{Peer: c.name(back)})
	c.step(first, &ipam.Message{Frame: late[0].frame, Seat: second + 1})
	c.lose = func(flight) bool { return false }
	c.heal()
	c.wait(time.Minute)
	if c.peers[first].machine.State().Member(c.peers[back].machine.Self()) != nil && c.isSuspended(back) {
		return "a host has a vote, and is suspended"
	}
	return ""
}

// A host has left, and a device sends again how it asked to be admitted. A fresh challenge (R63) keeps that from any effect, too: both
// are taken away.
func isAskedForAgain(p *play) string {
	c := p.cluster(3)
	c.run(time.Minute, c.agreed)
	first, left := c.order()[0], c.order()[2]
	p.ask(c, left, &ipam.LeaveRequest{})
	c.wait(5 * time.Second)
	before := c.peers[first].machine.State().Slot
	for range 20 {
		c.say(first, left, wire.Join{Name: c.peers[left].cfg.Name}, func(*wire.Header) {})
		c.wait(time.Second)
	}
	if slots := c.peers[first].machine.State().Slot - before; slots > 0 {
		return fmt.Sprintf("%d slots were spent on a host that has left", slots)
	}
	return ""
}

// reservesUnused has what networks keep back be reserved also where no host has a network.
func reservesUnused(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	var lent []*chronicle.Pool
	for _, c := range batch {
		if r, ok := c.Action.(chronicle.Reserve); ok && r.Kind.Shared() {
			if p := s.Pool(r.Pool); p != nil && len(p.Users) == 0 {
				p.Users = append(p.Users, c.Author)
				lent = append(lent, p)
			}
		}
	}
	out := s.Apply(batch)
	for _, p := range lent {
		p.Users = nil
		p.Touch()
	}
	return out
}

// A network keeps an address back that is another host's, which has that reserved: it is late on its way to who proposes it. The
// network is gone by then.
func reservesLate(p *play) string {
	cidr := prefix("10.60.0.0/24")
	c := p.cluster(3)
	c.found()
	c.wait(5 * time.Second)
	order := c.order()
	first, owner, host := order[0], order[1], order[2]
	p.ask(c, first, &ipam.PoolCreation{CIDR: cidr})
	c.wait(5 * time.Second)
	var aux netip.Addr // the owner's
	for r := range c.peers[first].machine.State().PoolOf(cidr).Ring.OwnedBy(c.peers[owner].machine.Self()) {
		aux = addr.Nth(cidr, r.Start+2)
	}
	n := c.ask(host, creation(cidr)).Pool.Network
	c.wait(5 * time.Second)
	var late []flight
	c.lose = func(f flight) bool {
		_, submits := f.frame.Body.(wire.Submit)
		if submits && f.from == owner {
			late = append(late, f)
		}
		return submits && f.from == owner
	}
	c.call(host, &ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: aux})
	c.run(time.Minute, func() bool { return len(late) > 0 })
	c.silence(owner)
	c.wait(30 * time.Second)
	p.ask(c, host, &ipam.PoolRelease{Network: n})
	c.wait(3 * time.Minute)
	c.step(first, &ipam.Message{Frame: late[0].frame, Seat: owner + 1})
	c.lose = func(flight) bool { return false }
	c.silence()
	c.heal()
	c.wait(5 * time.Minute)
	if err := c.ip(owner, cidr, aux); err != nil {
		return aux.String() + " is lost: " + err.Error()
	}
	return ""
}
