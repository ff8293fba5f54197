package ipam_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// play is one run of a schedule: with all rules, or without one.
type play struct {
	*testing.T
	rule  ipam.Rule
	apply func(*chronicle.State, []chronicle.Command) []chronicle.Outcome
	twice string // which slot was decided twice
}

// without returns the settings of a peer that does without the rule.
func (p *play) without(cfg ipam.Config) ipam.Config {
	return ipam.Applying(ipam.Without(cfg, p.rule), p.apply)
}

// cluster returns started hosts, which found a cluster as [newLockstepWith] has them.
func (p *play) cluster(n int, arrange ...func(*lockstep)) *lockstep {
	p.Helper()
	return newLockstepWith(p.T, n, func(c *lockstep) {
		c.twice = &p.twice
		for _, h := range c.peers {
			h.cfg = p.without(h.cfg)
		}
		for _, f := range arrange {
			f(c)
		}
	})
}

// everywhere returns an arrangement of every host's settings.
func everywhere(change func(cfg *ipam.Config)) func(*lockstep) {
	return func(c *lockstep) {
		for _, h := range c.peers {
			change(&h.cfg)
		}
	}
}

// ask asks a host, and fails the test if that is refused.
func (p *play) ask(c *lockstep, i int, requests ...ipam.Request) {
	p.Helper()
	for _, q := range requests {
		if r := c.ask(i, q); r.Err != nil {
			p.Fatalf("%s: %T: %v", c.name(i), q, r.Err)
		}
	}
}

// TestScheduleWithoutARule plays, for each rule, the schedule that breaks the promise without it: with all rules nothing is broken,
// and without that one something is. These are the rules whose absence random schedules notice seldom or never.
func TestScheduleWithoutARule(t *testing.T) {
	playEach(t, []control{
		{"the check ends behind", ipam.RuleBehind, nil, bootsBehindOthers},
		{"any answer counts", ipam.RuleCounted, nil, bootsBesideAnOldDatabase},
		{"what was accepted is no reason to wait", ipam.RuleUndecided, nil, bootsBesideItsEviction},
		{"an answer of before counts", ipam.RulePresent, nil, sleepsBeforeTheAnswers},
		{"recover supposes nothing", ipam.RuleSupposed, nil, recoversWhatItAccepted},
		{"two recover", ipam.RuleRecovery, nil, recoversBesideAnother},
		{"inherits from a neighbour", ipam.RuleNeighbour, nil, loseSightOfAClone},
		{"a quarantine outlives a return", ipam.RuleQuarantine, nil, evictsTwice},
		{"an old database goes on", ipam.RuleOld, nil, putsBackADatabase},
		{"two starts of one ID go on", ipam.RuleTwins, nil, startsACopy},
		{"a suspended peer hands out", ipam.RuleStopped, nil, hearsThatItIsForgotten},
		{"a suspension ends with the process", ipam.RuleStoppedDisk, nil, startsCutOffAfterThat},
		{"trust ends any reason", ipam.RuleTrust, nil, isTrustedCutOff},
		{"old slots stay", ipam.RuleOldSlots, nil, startsAfterItGaveWay},
		{"a shared cluster gives way", ipam.RuleShared, nil, givesWayWithAVote},
		{"founders count by ID", ipam.RuleSeats, nil, foundsWithOneThatIsReinstalled},
		{"a freeze counts as grace", ipam.RuleDisturbed, nil, sleepsWhileOneStarts},
		{"a freeze counts as silence", ipam.RuleDisturbed, nil, sleepsBesideOneThatReturns},
		{"reports outlive a clock that is set", ipam.RuleStale, nil, setsTheClockBackBeforeItForgets},
		{"a batch needs all its commands", 0, inTwo, endsAPartAsItIsEvicted},
		{"a pool is named by its subnet", 0, namedBySubnet(), endsWhatWasMadeAnew},
		{"a forget names no eviction", 0, forgetsAnyEviction, forgetsAfterAReturn},
		{"two drain at once", 0, drainsAlso, drainsBesideAnother},
		{"a removal knows nothing of exclusions", 0, removesWhatIsExcluded, removesCutOff},
	})
}

// lab50 is the pool of [lockstep.found].
var lab50 = netip.MustParsePrefix("10.50.0.0/24")

// forgotten returns three hosts. The last one of the roster is off and was forgotten, and the first one has handed out all it can
// get.
func (p *play) forgotten() (c *lockstep, first, second, back int) {
	p.Helper()
	c = p.cluster(3)
	c.found()
	c.wait(time.Minute)
	order := c.order()
	first, second, back = order[0], order[1], order[2]
	c.die(back)
	c.giveUp(first, back)
	_ = c.full(first, lab50)
	return c, first, second, back
}

// handsOut has a host hand out what it can, and tells which address another one has, too.
func (c *lockstep) handsOut(i int, cidr netip.Prefix) (twice string) {
	c.t.Helper()
	_ = c.full(i, cidr)
	_, twice = c.held(cidr)
	return twice
}

// A forgotten host starts, and hears that there is more than it knows. What that is does not come through.
func bootsBehindOthers(p *play) string {
	c, _, _, back := p.forgotten()
	c.lose = func(f flight) bool {
		switch f.frame.Body.(type) {
		case wire.Decided, wire.Snapshot:
			return f.to == back
		}
		return false
	}
	c.start(back)
	c.heal()
	c.wait(25 * time.Second)
	return c.handsOut(back, lab50)
}

// A forgotten host starts beside one whose database is an old one, from before that.
func bootsBesideAnOldDatabase(p *play) string {
	c := p.cluster(3)
	c.found()
	c.wait(time.Minute)
	order := c.order()
	first, old, back := order[0], order[1], order[2]
	disk := maps.Clone(c.peers[old].disk)
	c.die(back)
	c.start(old)
	c.part(old, back)
	c.wait(5 * time.Second)
	c.giveUp(first, back)
	_ = c.full(first, lab50)
	c.peers[old].disk = disk
	c.lose = func(f flight) bool {
		_, copied := f.frame.Body.(wire.Copied)
		return f.from == first && !copied
	}
	c.start(old)
	c.wait(5 * time.Second)
	c.lose = without(first)
	c.reboot([]int{back}, first)
	c.wait(time.Minute)
	return c.handsOut(back, lab50)
}

// A host was evicted and forgotten. It starts beside one that has accepted the eviction, and has not heard that it was decided.
func bootsBesideItsEviction(p *play) string {
	c := p.cluster(3)
	c.found()
	order := c.order()
	first, accepts, back := order[0], order[1], order[2]
	c.wait(5 * time.Second)
	c.die(back)
	decided := false // as far as the first one knows
	c.lose = func(f flight) bool {
		_, tells := f.frame.Body.(wire.Decided)
		decided = decided || tells && f.from == first
		return f.from == first && f.to == accepts && decided
	}
	p.ask(c, first, &ipam.EvictRequest{Peer: c.name(back)})
	c.queue = nil
	c.apart()
	c.lose = without(first)
	c.wait(15 * time.Second)
	p.ask(c, first, &ipam.ForgetRequest{Peer: c.name(back)})
	_ = c.full(first, lab50)
	c.dead = nil
	c.peers[back].cfg.HostBoot.ID = "another"
	c.start(back)
	c.step(back, &ipam.Presence{Peer: c.peers[first].machine.Self()})
	c.step(accepts, &ipam.Presence{Peer: c.peers[back].machine.Self(), Alive: true})
	c.wait(time.Minute)
	return c.handsOut(back, lab50)
}

// A host sleeps while the answers to its boot check are on their way, and is forgotten meanwhile. They lie in its sockets as it
// wakes.
func sleepsBeforeTheAnswers(p *play) string {
	c := p.cluster(3)
	c.found()
	c.wait(time.Minute)
	order := c.order()
	first, second, sleeps := order[0], order[1], order[2]
	var late []flight
	c.lose = func(f flight) bool {
		_, welcome := f.frame.Body.(wire.Welcome)
		if welcome && f.to == sleeps {
			late = append(late, f)
		}
		return welcome && f.to == sleeps
	}
	c.start(sleeps)
	c.wait(100 * time.Millisecond)
	c.lose = without(sleeps)
	c.dead = map[int]bool{sleeps: true}
	c.part(sleeps, first, second)
	asleep := func(done func() bool) {
		c.run(time.Minute, func() bool { c.peers[sleeps].wake = time.Time{}; return done() })
	}
	run := func(r ipam.Request) error {
		call := c.call(first, r)
		asleep(func() bool { _, ok := c.peers[first].replies[call]; return ok })
		return c.peers[first].replies[call].Err
	}
	end := c.now.Add(15 * time.Second)
	asleep(func() bool { return c.now.After(end) })
	for _, r := range []ipam.Request{&ipam.EvictRequest{Peer: c.name(sleeps)}, &ipam.ForgetRequest{Peer: c.name(sleeps)}} {
		if err := run(r); err != nil {
			p.Fatal(err)
		}
	}
	for run(docker(lab50)) == nil {
	}
	c.dead = nil
	c.step(sleeps, ipam.ClockSet{By: time.Hour})
	for _, f := range late {
		c.step(sleeps, &ipam.Message{Frame: f.frame, Seat: f.from + 1})
	}
	return c.handsOut(sleeps, lab50)
}

// A survivor has accepted that another host opens a block, and has not heard that it was decided. It recovers the cluster.
func recoversWhatItAccepted(p *play) string {
	c := p.cluster(3)
	c.found()
	order := c.order()
	opens, survives, dead := order[0], order[1], order[2]
	for _, i := range order {
		p.ask(c, i, creation(lab50))
	}
	c.wait(time.Minute)
	was := c.peers[opens].machine.State().Slot
	c.die(dead)
	c.lose = func(f flight) bool { return f.from == opens && f.to == survives && f.frame.Slot > was }
	_ = c.full(opens, lab50)
	c.die(opens, dead)
	c.wait(20 * time.Second)
	p.ask(c, survives, &ipam.RecoverRequest{})
	return c.handsOut(survives, lab50)
}

// Two of five hosts are left. One recovers the cluster while the other is off. That one comes back, sees the first, and somebody has
// it recover the cluster, too.
func recoversBesideAnother(p *play) string {
	c := p.cluster(5)
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		c.network(i, lab50)
	}
	c.wait(time.Minute)
	order := c.order()
	one, other := order[3], order[4]
	c.die(order[0], order[1], order[2], other)
	p.ask(c, one, &ipam.RecoverRequest{})
	c.dead = map[int]bool{order[0]: true, order[1]: true, order[2]: true}
	c.start(other)
	c.part(other, order[:3]...)
	c.step(one, &ipam.Presence{Peer: c.peers[other].machine.Self(), Alive: true})
	c.wait(30 * time.Second)
	_ = c.ask(other, &ipam.RecoverRequest{})
	_ = c.full(one, lab50)
	return c.handsOut(other, lab50)
}

// Two hosts were cloned, and their machines have one ID. One of them is cut off with its containers, and goes on.
func loseSightOfAClone(p *play) string {
	c := p.cluster(3, func(c *lockstep) {
		for i, h := range c.peers {
			h.cfg.Machine = uint64(i/2 + 1) // 1, 1 and 2
		}
	})
	c.found()
	for i := range c.peers {
		p.ask(c, i, docker(lab50))
	}
	c.die(1)
	c.wait(time.Minute)
	_ = c.full(0, lab50)
	return c.handsOut(1, lab50)
}

// A host is evicted and comes back. It is evicted once more after more than the quarantine, cut off with its containers.
func evictsTwice(p *play) string {
	const quarantine = time.Hour
	c := p.cluster(3, everywhere(func(cfg *ipam.Config) { cfg.Quarantine = quarantine }))
	c.found()
	for range 20 {
		p.ask(c, 2, docker(lab50))
	}
	evict := &ipam.EvictRequest{Peer: c.name(2)}
	c.die(2)
	p.ask(c, 0, evict)
	c.wait(5 * time.Minute)
	c.heal()
	c.run(time.Minute, c.agreed)
	c.wait(2 * quarantine)
	c.die(2)
	p.ask(c, 0, evict)
	c.wait(10 * time.Second)
	return c.handsOut(0, lab50)
}

// goesOnAlone has hosts go on alone after a start, as by default.
func goesOnAlone(c *lockstep) { everywhere(func(cfg *ipam.Config) { cfg.BootAlone = true })(c) }

// The database of a host is put back from before it gave its addresses away.
func putsBackADatabase(p *play) string {
	c := p.cluster(3, goesOnAlone)
	c.found()
	order := c.order()
	first, back := order[0], order[2]
	c.wait(5 * time.Second)
	old := maps.Clone(c.peers[back].disk)
	c.start(back)
	c.wait(5 * time.Second)
	_ = c.full(first, lab50)
	c.peers[back].disk = old
	c.start(back)
	c.wait(25 * time.Second)
	return c.handsOut(back, lab50)
}

// A copy of a host is started beside it. Both are asked for addresses.
func startsACopy(p *play) string {
	c := p.cluster(3)
	c.found()
	order := c.order()
	other, both := order[0], order[2]
	p.ask(c, both, creation(lab50))
	held := c.ask(other, docker(lab50)).Address.Address.Addr()
	c.wait(5 * time.Second)
	original := c.peers[both]
	twin := &lockstepPeer{cfg: original.cfg, disk: maps.Clone(original.disk), replies: map[uint64]ipam.Reply{}}
	got := map[netip.Addr]bool{}
	for round, h := range []*lockstepPeer{twin, original, twin, original} {
		c.peers[both] = h // whom frames reach from now on
		if round == 0 {
			c.start(both)
		}
		c.heal()
		_ = c.ip(both, lab50, held) // it asks the other one
		c.wait(2 * time.Second)
		if r := c.ask(both, docker(lab50)); r.Err == nil && round > 0 {
			a := r.Address.Address.Addr()
			if got[a] {
				return a.String() + " is held on a host and on its copy"
			}
			got[a] = true
		}
	}
	return ""
}

// A host hears that it was forgotten: in one piece with its eviction, so that it is in the roster as far as it knows.
func hearsThatItIsForgotten(p *play) string {
	c, first, _, back := p.forgotten()
	c.forgetSlots(back)
	c.learnsLoss(first)
	return c.handsOut(back, lab50)
}

// suspended is [play.forgotten] where the last host goes on alone after a start, has heard that it was forgotten, and is cut off.
func (p *play) suspended() (c *lockstep, back int) {
	p.Helper()
	c, first, second, back := p.forgotten()
	c.peers[back].cfg.BootAlone = true
	c.forgetSlots(back)
	c.learnsLoss(first)
	c.lose = without(back)
	c.part(back, first, second)
	return c, back
}

// A host that has heard that it was forgotten starts anew, cut off.
func startsCutOffAfterThat(p *play) string {
	c, back := p.suspended()
	c.start(back)
	c.part(back, 0, 1, 2)
	c.wait(25 * time.Second)
	return c.handsOut(back, lab50)
}

// An operator trusts a host that has heard that it was forgotten, and that is cut off.
func isTrustedCutOff(p *play) string {
	c, back := p.suspended()
	c.start(back)
	c.part(back, 0, 1, 2)
	_ = c.ask(back, &ipam.TrustRequest{})
	c.wait(25 * time.Second)
	return c.handsOut(back, lab50)
}

// A host with many slots gives way to another one with few, joins it, and starts anew.
func startsAfterItGaveWay(p *play) string {
	c := p.cluster(2, func(c *lockstep) {
		everywhere(func(cfg *ipam.Config) { cfg.Formation, cfg.Join = ipam.Formation{}, false })(c)
		c.lose = func(flight) bool { return true }
	})
	c.apart()
	for range 10 {
		p.ask(c, 0, &ipam.PoolCreation{CIDR: lab50}, &ipam.PoolRemoval{Pool: lab50.String()})
	}
	p.ask(c, 1, &ipam.PoolCreation{CIDR: lab50}) // it does not give way
	c.queue = nil
	c.lose = func(flight) bool { return false }
	c.heal()
	for range 30 {
		c.say(0, 1, wire.Beat{}, func(*wire.Header) {})
		c.wait(time.Second)
	}
	if !c.agreed() {
		p.Fatal("it does not join")
	}
	c.silence(0)
	c.start(0)
	for i := range 20 {
		p.ask(c, 1, &ipam.PoolCreation{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 60, byte(i), 0}), 24)})
	}
	return p.twice
}

// Of three hosts two evict the third. The second has accepted that and loses the first. It recovers the cluster, meets the third,
// and hears of the cluster of the past.
func givesWayWithAVote(p *play) string {
	c := p.cluster(3)
	c.run(time.Minute, c.agreed)
	c.wait(5 * time.Second)
	order := c.order()
	first, survives, lags := order[0], order[1], order[2]
	was := c.peers[first].machine.State().Slot
	c.lose = func(f flight) bool {
		return f.from == lags || f.to == lags || f.from == first && f.to == survives && f.frame.Slot > was
	}
	c.part(lags, first, survives)
	c.wait(10 * time.Second)
	p.ask(c, first, &ipam.EvictRequest{Peer: c.name(lags)})
	c.queue = nil
	c.apart()
	c.wait(15 * time.Second)
	p.ask(c, survives, &ipam.RecoverRequest{})
	c.meets(survives, lags)
	c.see(survives, lags)
	c.wait(5 * time.Second)
	for _, i := range []int{lags, first} {
		c.call(i, creation(lab50))
		c.wait(10 * time.Second)
	}
	return p.twice
}

// Of five hosts that found a cluster two see each other alone, and one of them is installed anew twice. So do the three others.
func foundsWithOneThatIsReinstalled(p *play) string {
	c := p.cluster(5, func(c *lockstep) {
		c.lose = func(f flight) bool { return (f.from < 2) != (f.to < 2) }
	})
	for i := range 2 {
		c.part(i, 2, 3, 4)
	}
	for range 4 {
		c.wait(10 * time.Second)
		c.reinstall(1, func(*ipam.Config) {})
		c.part(1, 2, 3, 4)
	}
	c.wait(time.Minute)
	if one, other := c.peers[0].machine.State(), c.peers[4].machine.State(); one.Slot > 0 && other.Slot > 0 && one.Cluster != other.Cluster {
		return "there are two clusters"
	}
	return ""
}

// inTwo has a part of a reservation end by two commands: one ends all of it, and the other has no effect if its author is not of the
// roster any more.
func inTwo(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	batch = slices.Clone(batch)
	for i, c := range batch {
		u, ok := c.Action.(chronicle.Unreserve)
		p := s.Pool(u.Pool)
		if !ok || p == nil {
			continue
		}
		evicted := slices.ContainsFunc(batch[:i], func(c chronicle.Command) bool { return c.Action == chronicle.Evict{Peer: batch[i].Author} })
		if r := p.ReservationAt(u.Range.Start); r != nil && (evicted || s.Member(c.Author) == nil) {
			u.Range = r.Range
			batch[i].Action = u
		}
	}
	return s.Apply(batch)
}

// A host has a part of what is excluded end, and is evicted in the same slot.
func endsAPartAsItIsEvicted(p *play) string {
	c := p.cluster(3)
	c.found()
	c.wait(5 * time.Second)
	order := c.order()
	first, ends := order[0], order[2]
	p.ask(c, first, exclude("10.50.0.200", "10.50.0.207"))
	c.run(time.Minute, c.agreed)
	c.lose = func(f flight) bool { // a slot takes a while
		_, accepted := f.frame.Body.(wire.Accepted)
		return accepted
	}
	c.call(first, &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")})
	c.wait(10 * time.Millisecond)
	c.call(ends, unreserve("10.50.0.200", "10.50.0.203", chronicle.KindExcluded))
	c.wait(10 * time.Millisecond)
	c.die(ends)
	c.call(first, &ipam.EvictRequest{Peer: c.name(ends)})
	c.wait(time.Second)
	c.lose = func(flight) bool { return false }
	c.wait(10 * time.Second)
	if s := c.peers[first].machine.State(); s.Member(c.peers[ends].machine.Self()) != nil || s.PoolOf(lab50).ReservationAt(200) != nil {
		p.Fatal("it is not evicted, or nothing has ended")
	}
	if c.ip(first, lab50, address("10.50.0.205")) == nil {
		return "10.50.0.205 is excluded and was handed out"
	}
	return ""
}

// namedBySubnet returns what applies commands to the pool that has the subnet now.
func namedBySubnet() func(*chronicle.State, []chronicle.Command) []chronicle.Outcome {
	subnets := map[chronicle.PoolKey]netip.Prefix{}
	return func(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
		for _, p := range s.Pools {
			subnets[p.Key] = p.CIDR
		}
		batch = slices.Clone(batch)
		for i, c := range batch {
			if u, ok := c.Action.(chronicle.Unreserve); ok {
				if p := s.PoolOf(subnets[u.Pool]); p != nil {
					u.Pool = p.Key
					batch[i].Action = u
				}
			}
		}
		return s.Apply(batch)
	}
}

// A host that is cut off has what is excluded end. Meanwhile the pool is removed and made anew, and the same is excluded in it.
func endsWhatWasMadeAnew(p *play) string {
	cidr, at := prefix("10.60.0.0/28"), "10.60.0.3"
	c := p.cluster(3, everywhere(func(cfg *ipam.Config) { cfg.Deal = chronicle.DealNone }))
	c.found()
	order := c.order()
	other, cutOff := order[0], order[2]
	p.ask(c, other, &ipam.PoolCreation{CIDR: cidr}, exclude(at, at))
	c.run(time.Minute, c.agreed)
	c.silence(cutOff)
	c.call(cutOff, unreserve(at, at, chronicle.KindExcluded))
	c.wait(30 * time.Second) // nobody waits for it any more
	p.ask(c, other, &ipam.PoolRemoval{Pool: cidr.String()}, &ipam.PoolCreation{CIDR: cidr}, exclude(at, at))
	c.silence()
	c.heal()
	c.wait(30 * time.Second)
	if c.ip(other, cidr, address(at)) == nil {
		return at + " is excluded and was handed out"
	}
	return ""
}

// forgetsAnyEviction has a peer be forgotten whichever of its evictions that was about.
func forgetsAnyEviction(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	batch = slices.Clone(batch)
	for i, c := range batch {
		if f, ok := c.Action.(chronicle.Forget); ok && s.Gone(f.Peer) != nil {
			f.Evicted = s.Gone(f.Peer).Evicted
			batch[i].Action = f
		}
	}
	return s.Apply(batch)
}

// A host was evicted, and is to be forgotten. Who asks for that is lost, and who is to propose it is cut off. The host comes back, is
// cut off and evicted once more, and its containers live. Then that one is there again.
func forgetsAfterAReturn(p *play) string {
	c := p.cluster(7)
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		c.network(i, lab50)
	}
	order := c.order()
	proposes, asks, lost := order[0], order[5], order[6]
	others := order[1:5]
	evict := &ipam.EvictRequest{Peer: c.name(lost)}
	forget := &ipam.ForgetRequest{Peer: c.name(lost)}
	c.die(lost)
	p.ask(c, others[0], evict)
	c.run(time.Minute, func() bool { return c.peers[asks].machine.State().Gone(c.peers[lost].machine.Self()) != nil })
	p.ask(c, asks, &ipam.ForgetRequest{Peer: c.name(lost), DryRun: true}) // by which it knows what the others say
	apart := func(f flight) bool {
		is := func(i int) bool { return i == proposes || i == asks }
		return is(f.from) != is(f.to)
	}
	c.lose = apart
	c.call(asks, forget)
	c.wait(100 * time.Millisecond)
	c.dead = map[int]bool{asks: true, proposes: true}
	for _, i := range append([]int{lost}, others...) {
		c.part(i, proposes, asks)
		for _, j := range others {
			if i != j {
				c.step(i, &ipam.Presence{Peer: c.peers[j].machine.Self(), Alive: true})
				c.step(j, &ipam.Presence{Peer: c.peers[i].machine.Self(), Alive: true})
			}
		}
	}
	self := c.peers[lost].machine.Self()
	c.say(lost, others[0], wire.Beat{}, func(*wire.Header) {}) // that it was evicted
	c.run(time.Minute, func() bool {
		return c.peers[others[0]].machine.State().Member(self) != nil && c.peers[lost].machine.State().Member(self) != nil
	})
	for range 5 {
		p.ask(c, lost, docker(lab50))
	}
	c.dead[lost] = true
	for _, i := range others {
		c.part(i, lost)
	}
	c.wait(15 * time.Second)
	p.ask(c, others[0], evict)
	c.lose = func(flight) bool { return false }
	c.dead = map[int]bool{asks: true, lost: true}
	for _, i := range others {
		c.reach(i, proposes)
	}
	c.wait(10 * time.Second)
	return c.handsOut(others[0], lab50)
}

// reach has two peers reach each other.
func (c *lockstep) reach(a, b int) {
	c.step(a, &ipam.Presence{Peer: c.peers[b].machine.Self(), Alive: true})
	c.step(b, &ipam.Presence{Peer: c.peers[a].machine.Self(), Alive: true})
}

// removesWhatIsExcluded has a pool be removed whatever operators keep back in it.
func removesWhatIsExcluded(s *chronicle.State, batch []chronicle.Command) []chronicle.Outcome {
	batch = slices.Clone(batch)
	for i, c := range batch {
		if d, ok := c.Action.(chronicle.DeletePool); ok && s.Pool(d.Pool) != nil {
			d.Kept = s.Pool(d.Pool).KeptBack()
			batch[i].Action = d
		}
	}
	return s.Apply(batch)
}

// A host has a pool removed that nobody uses, and is cut off before that is decided. An operator excludes an address there on another
// host.
func removesCutOff(p *play) string {
	cidr, at := prefix("10.60.0.0/28"), "10.60.0.12"
	c := p.cluster(3)
	c.found()
	order := c.order()
	other, removes := order[0], order[2]
	p.ask(c, removes, &ipam.PoolRelease{Network: c.network(removes, cidr)})
	c.run(time.Minute, c.agreed)
	c.lose = func(f flight) bool {
		_, submits := f.frame.Body.(wire.Submit)
		return submits && f.from == removes
	}
	c.call(removes, &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/27")})
	c.wait(200 * time.Millisecond)
	c.silence(removes)
	c.wait(30 * time.Second)
	p.ask(c, other, exclude(at, at))
	c.silence()
	c.lose = func(flight) bool { return false }
	c.heal()
	c.wait(time.Minute)
	if s := c.peers[other].machine.State(); s.PoolOf(cidr) == nil {
		return at + " was excluded, and went with its pool"
	}
	return ""
}

// freeze has all hosts sleep: their clocks go on.
func (c *lockstep) freeze(d time.Duration) { c.now = c.now.Add(d) }

// A host sleeps twice while a container starts: its engine, which slept too, lists the container only behind that. By the clock its
// grant is old then, and two lists are a grace apart.
func sleepsWhileOneStarts(p *play) (breach string) {
	c := p.cluster(3, everywhere(func(cfg *ipam.Config) { cfg.AwaitInventory = true }))
	c.run(time.Minute, c.agreed)
	c.lists(0)
	c.wait(time.Second)
	c.network(0, lab50)
	list := func() {
		c.listed(0, lab50)
		c.wait(time.Second)
	}
	list()
	starting := c.ask(0, docker(lab50))
	if starting.Err != nil {
		p.Fatal(starting.Err)
	}
	for range 2 {
		c.freeze(time.Hour)
		c.wait(5 * time.Second) // a boot check
		list()
	}
	a := starting.Address.Address.Addr()
	if c.ipAs(0, lab50, a, "another", 9) == nil {
		return a.String() + " is held by a container that starts, and by another one"
	}
	return ""
}

// The hosts of a site sleep. One that was cut off just before is not back yet when the others wake: by the clock it is silent for
// an hour.
func sleepsBesideOneThatReturns(p *play) (breach string) {
	c := p.cluster(3, everywhere(func(cfg *ipam.Config) { cfg.EvictAfter = time.Minute }))
	c.found()
	c.wait(time.Minute)
	order := c.order()
	back := c.peers[order[2]].machine.Self()
	c.die(order[2])
	c.wait(time.Second)
	c.freeze(time.Hour)
	c.wait(20 * time.Second)
	if c.peers[order[0]].machine.State().Member(back) == nil {
		return c.name(order[2]) + " is evicted after 20 seconds of silence, and not after a minute"
	}
	return ""
}

// A host is about to forget another one, as a third has said that it does not hear from it, and is cut off. Somebody sets the clocks
// back by an hour: what the third one said seems to be yet to come. Meanwhile the lost host is back, and the third hears from it.
func setsTheClockBackBeforeItForgets(p *play) (breach string) {
	c := p.cluster(3)
	c.found()
	c.wait(time.Minute)
	order := c.order()
	hears, forgets, lost := order[0], order[1], order[2] // who is not the first voter has to be promised a slot first
	self := c.peers[lost].machine.Self()
	c.die(lost)
	p.ask(c, forgets, &ipam.EvictRequest{Peer: c.name(lost)})
	c.wait(time.Second)
	p.ask(c, forgets, &ipam.ForgetRequest{Peer: c.name(lost), DryRun: true})
	c.lose = func(f flight) bool { return f.from == forgets || f.to == forgets }
	c.call(forgets, &ipam.ForgetRequest{Peer: c.name(lost)})
	c.wait(time.Second)
	c.queue = nil
	c.now = c.now.Add(-time.Hour)
	for i := range c.peers {
		c.step(i, ipam.ClockSet{By: -time.Hour})
	}
	c.dead = nil
	c.reach(hears, lost)
	c.wait(time.Minute)
	c.lose = func(f flight) bool { return f.from == forgets && f.to == lost || f.from == lost && f.to == forgets }
	c.wait(10 * time.Second)
	if g := c.peers[forgets].machine.State().Gone(self); g != nil && g.Forgotten {
		return c.name(lost) + " is forgotten, from which " + c.name(hears) + " hears"
	}
	return ""
}
