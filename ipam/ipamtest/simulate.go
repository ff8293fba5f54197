package ipamtest

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"slices"
	"sort"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Options say which schedule is run.
type Options struct {
	Seed  uint64
	Steps int // steps of bad weather, over all machines
	// Time, if not 0, is how long the bad weather lasts in simulated time, however many steps that takes; hosts that come later do
	// so during the first half of it.
	Time time.Duration
	// Weather changes what was drawn. May be nil.
	Weather func(*Weather)
	// Bare has engines give endpoints no MAC (see [ipam.Config].NoMAC), which otherwise the seed decides.
	Bare bool
	// Laden has hosts be given up with all that they have, and come back (see givenup.go), which otherwise is rare.
	Laden bool
	// Strained has engines start below containers and start others then, and be out of reach , which otherwise is rare.
	Strained bool
	// Apply, if not nil, is what the machines of the schedule have been told to do in place of [chronicle.State.Apply].
	Apply func(*chronicle.State, []chronicle.Command) []chronicle.Outcome
	// Observe is told what lockers ask for and are told. May be nil.
	Observe func(Operation)
	// Respond is told each answer of each machine. May be nil.
	Respond func(Response)
	// Unwatched has the schedule go on after a breach, to see whether the answers alone show it.
	Unwatched bool
	// Trace is told what happens. May be nil.
	Trace func(line string)
}

// longest is how long the bad weather lasts at most, simulated, where no machine is left that makes a step.
const longest = 7 * 24 * time.Hour

// Result says what happened in a schedule.
type Result struct {
	Weather Weather
	Steps   int           // of all machines, the settling included
	Slots   uint64        // decided
	Took    time.Duration // simulated
	// Hash is of all effects of all steps, in order: records, frames, answers and notes. Two runs of one seed have the same, and so
	// have two releases of the core of which one only moves the code of the other.
	Hash   uint64
	Counts map[string]int // of what happened; also of each kind of note and class of refusal
	// Accounts say what has become of each address in the end.
	Accounts []Account
}

// BreachError is a broken invariant.
type BreachError struct {
	Rule string // I1 to I8, or what else was expected
	Text string
}

// Error returns rule and text.
func (b *BreachError) Error() string { return b.Rule + ": " + b.Text }

// cluster is some hosts, a network between them, and what goes wrong.
type cluster struct {
	o       Options
	w       Weather
	rnd     *rand.Rand
	now     time.Duration
	tasks   []task             // those to come, the next one last
	scripts map[*script]func() // those that wait, and what ends them
	sites   []*site
	oracle  oracle
	addrs   map[netip.Addr]int
	list    []netip.Addr
	calm    bool // the faults are over
	breach  *BreachError

	steps    int
	count    map[string]int
	hash     uint64 // of all effects
	scratch  []byte
	accounts []Account
	mail
	fate
}

// mail is what is between hosts.
type mail struct {
	cut      map[[2]*site]bool // nothing gets from the one to the other
	past     []letter          // messages of long ago
	recorded []letter          // those that a device has recorded
	passer   peer.ID           // a peer that asked to be admitted, and was gone before it was
}

// fate is what has become of the cluster, and what operators do about it.
type fate struct {
	united   bool // there is one cluster
	losses   []loss
	going    []parting
	ordering bool // an operator waits for an answer
	// An operator recovers the cluster, on the survivor.
	recovering bool
	survivor   *site
	// All databases are lost, and the hosts have yet to come together where the beginner begins again.
	beginning bool
	beginner  *site
	collapses int // so far; no message outlives one
}

// Simulate runs one schedule: that many steps of bad weather, then good weather until everything has settled. It returns the first
// [BreachError]. The same options make the same schedule.
func Simulate(o Options) (Result, error) {
	c := newCluster(o)
	c.run()
	for _, stop := range c.scripts {
		stop()
	}
	r := Result{Weather: c.w, Steps: c.steps, Slots: c.oracle.state.Slot, Took: c.now, Counts: c.count}
	r.Hash, r.Accounts = c.hash, c.accounts
	if c.breach != nil {
		return r, c.breach
	}
	return r, nil
}

func (c *cluster) run() {
	defer c.caught()
	for c.breach == nil && (c.o.Time > 0 && c.now < c.o.Time || c.o.Time == 0 && c.steps < c.o.Steps && c.now < longest) {
		c.next()
	}
	if c.breach == nil {
		c.settle()
	}
}

func newCluster(o Options) *cluster {
	c := &cluster{
		o: o, rnd: rand.New(rand.NewPCG(o.Seed, 0x51b)),
		count: map[string]int{}, scripts: map[*script]func(){}, addrs: map[netip.Addr]int{},
		mail: mail{cut: map[[2]*site]bool{}},
	}
	c.w = drawWeather(c.rnd)
	if o.Bare {
		c.w.goBare(c.rnd)
	}
	if o.Laden {
		c.w.goLaden(c.rnd)
	}
	if o.Strained {
		c.w.goStrained(c.rnd)
	}
	if o.Weather != nil {
		o.Weather(&c.w)
	}
	c.w.drawLAN(c.rnd)
	// Wider ones first, so that the addresses of each stand side by side.
	subnets := append([]netip.Prefix{universe}, c.w.Subnets...)
	slices.SortStableFunc(subnets, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	for _, p := range subnets {
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			if _, known := c.addrs[a]; !known {
				c.addrs[a] = len(c.list)
				c.list = append(c.list, a)
			}
		}
	}
	c.oracle.init(c)
	c.tracef("weather %+v", c.w)
	for i := range c.w.Hosts {
		s := c.addSite()
		switch c.w.Birth {
		case Alone:
			s.cfg.Join = i > 0
		case Apart:
		case ByList, ByNumber:
			s.cfg.Formation.Size = c.w.Hosts - c.w.Observers
			if c.w.Birth == ByList {
				s.cfg.Formation.Size = c.w.Hosts
				s.cfg.Formation.List, s.cfg.Formation.Seat = 77, i+1
				s.seat = i + 1
			}
			s.cfg.Formation.Observer = i >= c.w.Hosts-c.w.Observers
			s.cfg.Join = true
		}
		c.after(c.between(0, 5*time.Second), s.powerOn)
	}
	for range c.w.Later {
		c.after(c.between(0, max(time.Minute, o.Time/2)), c.addLater)
	}
	c.begin()
	return c
}

// addLater adds a host that joins, once there is one cluster to join.
func (c *cluster) addLater() {
	if !c.isUnited() {
		c.after(time.Second, c.addLater)
		return
	}
	s := c.addSite()
	s.cfg.Join = true
	s.powerOn()
}

// isUnited reports whether there is one cluster. Until there is, networks would be made in several that nobody can make one of.
func (c *cluster) isUnited() bool {
	c.united = c.united || c.w.Birth != Apart || c.founded()
	return c.united
}

// next lets the next thing happen.
func (c *cluster) next() {
	last := len(c.tasks) - 1
	if last < 0 {
		c.fail("liveness", "nothing is left to happen")
		return
	}
	t := c.tasks[last]
	c.tasks = slices.Delete(c.tasks, last, last+1)
	c.now = t.at
	t.run()
}

// task is something that will happen.
type task struct {
	at  time.Duration // since the beginning, in true time
	run func()
}

// after has something happen in a while, behind what was to happen at that instant already.
func (c *cluster) after(d time.Duration, run func()) {
	at := c.now + max(d, 0)
	i := sort.Search(len(c.tasks), func(i int) bool { return c.tasks[i].at <= at })
	c.tasks = slices.Insert(c.tasks, i, task{at, run})
}

// running yields the hosts on which the plugin's process runs.
func (c *cluster) running() iter.Seq[*site] {
	return func(yield func(*site) bool) {
		for _, s := range c.sites {
			if s.machine != nil && !yield(s) {
				return
			}
		}
	}
}

// chance is true n times of ten thousand.
func (c *cluster) chance(n int) bool { return n > 0 && c.rnd.IntN(10_000) < n }

// between draws a duration.
func (c *cluster) between(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(c.rnd.Int64N(int64(to-from)))
}

// about draws a duration with that mean: mostly shorter, sometimes much longer.
func (c *cluster) about(mean time.Duration) time.Duration {
	return time.Duration(c.rnd.ExpFloat64() * float64(mean))
}

func (c *cluster) fail(rule, format string, args ...any) {
	if c.o.Unwatched && rule != "panic" {
		return
	}
	if c.breach == nil {
		c.breach = &BreachError{Rule: rule, Text: fmt.Sprintf(format, args...)}
		c.tracef("BREACH %v", c.breach)
	}
}

func (c *cluster) tracef(format string, args ...any) {
	if c.o.Trace != nil {
		c.o.Trace(fmt.Sprintf("%12.6f ", c.now.Seconds()) + fmt.Sprintf(format, args...))
	}
}

// script is what one actor does over time, written as if it could wait: an engine that starts a container asks for an address,
// waits for the answer, and goes on. It is a coroutine of the schedule, so nothing runs beside it.
type script struct {
	c      *cluster
	lives  func() bool // else it goes on no more
	yield  func(struct{}) bool
	resume func()
}

// over ends a script whose actor is no more.
type over struct{}

// script begins one. It runs until it waits for the first time.
func (c *cluster) script(lives func() bool, run func(t *script)) {
	t := &script{c: c, lives: lives}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		defer c.caught()
		t.yield = yield
		run(t)
	})
	c.scripts[t] = stop
	t.resume = func() {
		if _, waits := next(); !waits {
			delete(c.scripts, t)
		}
	}
	t.resume()
}

// pause lets other things happen until the script is resumed.
func (t *script) pause() {
	if !t.yield(struct{}{}) || !t.lives() {
		panic(over{})
	}
}

// caught makes a breach of a panic. It is to be deferred.
func (c *cluster) caught() {
	v := recover()
	if _, ends := v.(over); v != nil && !ends {
		c.fail("panic", "%v\n%s", v, debug.Stack())
	}
}

// sleep waits for that long.
func (t *script) sleep(d time.Duration) {
	t.c.after(d, t.resume)
	t.pause()
}

// until waits until something is so.
func (t *script) until(so func() bool) {
	for !so() {
		t.sleep(10 * time.Millisecond)
	}
}

// ask has the plugin of a host serve a request, and waits for the answer.
func (t *script) ask(s *site, r ipam.Request) (ipam.Reply, bool) { return t.askChecked(s, r, nil) }

// askChecked is ask, with a check of the answer, if there is one, also where the script goes on no more.
func (t *script) askChecked(s *site, r ipam.Request, check func(ipam.Reply, bool)) (reply ipam.Reply, ok bool) {
	s.call(r, func(got ipam.Reply, answered bool) {
		if reply, ok = got, answered; check != nil {
			check(reply, ok)
		}
		t.resume()
	})
	t.pause()
	return reply, ok
}
