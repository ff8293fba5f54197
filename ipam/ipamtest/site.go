package ipamtest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/peer"
)

// site is one host: its clock, its disk, the plugin's process and the engine beside it.
type site struct {
	c     *cluster
	index int
	seat  int
	cfg   ipam.Config
	disk  machinetest.Disk
	hostClock
	process
	hostState
	sights

	id        peer.ID   // of the database, none if there was none yet
	peers     []peer.ID // that were on it, the last one is
	lostPeers []peer.ID // that were on it before it was destroyed
	databases int       // counts those that it has lost

	believed []belief // what the membership layer believes of each host
	turn     int      // whom it probed last

	engine  engine
	lockers []*locker
	lanAddr netip.Addr    // on the LAN, if it is another than at first
	roamed  time.Duration // since when
}

// hostState is what has become of a host.
type hostState struct {
	powered  bool
	dead     bool          // for good
	boots    int           // of the host
	absent   *absence      // nil: it is there
	offline  time.Duration // it has no network before
	packs    bool          // a user removes all that is on it, to switch it off
	settled  bool          // slot 1 is on its disk
	leaving  bool          // it was told to leave
	forced   bool          // whatever is held there
	stranded bool          // it was installed again without being told of others
	cast     *outcast      // nil: it is in the cluster, or may come to it
	rejoined time.Duration // when its peer started over, 0: it did not
}

// hostClock makes the host's clock of the true time.
type hostClock struct {
	skew   time.Duration
	rate   float64
	skewed time.Duration // by which skew changes when the process starts
	slept  time.Duration // by which the clock that nobody sets is behind, since the host booted
}

// process is one of the plugin.
type process struct {
	machine   *ipam.Machine // nil while the process is down
	life      uint64        // counts beginnings and ends of the process
	stopped   time.Duration // the process does nothing before (SIGSTOP)
	alarm     time.Duration // when a tick is due that was ordered, 0: none
	wakeAt    time.Duration
	batch     *ipam.Effects // what steps want done that is not on disk yet; nil: nothing
	calls     []call
	lastID    uint64
	beat      []byte
	wakes     bool          // it goes on, and has done nothing yet
	overslept time.Duration // of that its clock that nobody sets knows nothing
	missed    []ipam.Event  // that it has yet to hear of
	deaf      time.Duration // it cannot ask the engine before
	blind     bool          // and knows that it cannot
}

// belief is what one host's membership layer thinks of another host.
type belief struct {
	id    peer.ID
	alive bool
}

// call is a request whose answer a caller on the host waits for.
type call struct {
	id       uint64
	request  ipam.Request
	asked    uint64 // a hash of the request, if answers are reported
	deadline time.Time
	done     func(r ipam.Reply, ok bool)
}

func (c *cluster) addSite() *site {
	s := &site{c: c, index: len(c.sites), cfg: c.w.Config, disk: machinetest.Disk{}, hostClock: hostClock{rate: 1}}
	s.cfg.Name = peer.Name("host-" + string(rune('a'+s.index)))
	s.cfg.Machine = uint64(s.index + 1)
	if c.w.Zones > 0 {
		s.cfg.Zone = peer.Zone(fmt.Sprintf("zone-%d", s.index%c.w.Zones))
	}
	s.skew = c.between(0, 2*time.Second)
	if c.w.Drift > 0 {
		s.rate += float64(c.rnd.IntN(2*c.w.Drift+1)-c.w.Drift) / 1000
		s.skew += c.between(-time.Hour, time.Hour)
	}
	n := len(c.list)
	s.sights = sights{held: make([]bool, n), ready: make([]bool, n), lost: make([]string, n), told: map[int]word{}}
	c.sites = append(c.sites, s)
	for _, t := range c.sites {
		t.believed = append(t.believed, make([]belief, len(c.sites)-len(t.believed))...)
	}
	s.cfg.NoMAC = c.w.Bare
	if c.chance(c.w.Deprived) && !c.w.Bare {
		s.cfg.AwaitInventory, s.cfg.Hesitate = false, false
	}
	s.engine.init(s)
	s.addLockers()
	return s
}

func (s *site) String() string { return string(rune('a' + s.index)) }

// clock tells the host's time.
func (s *site) clock() time.Time {
	return machinetest.Start.Add(s.skew + time.Duration(float64(s.c.now)*s.rate))
}

// powerOn boots the host.
func (s *site) powerOn() {
	if s.powered || s.dead || s.absent != nil {
		return
	}
	s.powered = true
	s.boots++
	s.slept = 0
	s.cfg.HostBoot.ID = fmt.Sprintf("%s-%d", s, s.boots)
	s.c.tracef("%s boots", s)
	s.start()
	s.engine.boot()
}

// powerOff ends all that runs on the host, containers too.
func (s *site) powerOff() {
	if !s.powered {
		return
	}
	s.c.tracef("%s loses its power", s)
	s.kill()
	s.powered, s.absent, s.packs = false, nil, false
	s.engine.powerOff()
}

// start begins the plugin's process.
func (s *site) start() {
	if !s.powered || s.machine != nil || s.c.breach != nil {
		return
	}
	if s.cast != nil && !s.cast.back {
		return
	}
	if s.suspended() {
		s.c.after(s.absent.until-s.c.now+time.Millisecond, s.start)
		return
	}
	s.skew, s.skewed = s.skew+s.skewed, 0
	m, err := ipam.Restore(s.config(), s.disk.Load)
	if err != nil {
		s.c.fail("restore", "%s: %v", s, err)
		return
	}
	s.begin(m)
	s.stopped = 0
	s.c.tracef("%s starts, at slot %d", s, m.State().Slot)
	s.call(&ipam.Greeting{}, nil)
	if s.machine != nil && (s.c.w.LAN.IsValid() || s.c.w.Laden > 0) {
		s.tellHost() // before the engine is served, as the plugin does
	}
	if s.machine == nil {
		return
	}
	if s.id != m.Self() {
		s.id = m.Self()
		s.peers = append(s.peers, s.id)
	}
	if s.batch == nil {
		s.c.oracle.learned(s)
	}
	s.goDeaf()
	s.lookAround()
}

// The levels that the releases of a mixed schedule speak.
const (
	olderLevel = chronicle.Spoken
	newerLevel = chronicle.Spoken + 1
)

// upgrade has an operator upgrade a host to the newer release.
func (c *cluster) upgrade(s *site) {
	s.cfg.Spoken = newerLevel
	s.kill()
	s.start()
}

// config is that of a process that begins now.
func (s *site) config() ipam.Config {
	// Of releases that are mixed a host has the older one first, and gets the newer one as its process starts. Nobody goes back.
	if c := s.c; c.w.Mixed && s.cfg.Spoken != newerLevel {
		if s.cfg.Spoken = olderLevel; c.calm || c.beginning || c.rnd.IntN(4) == 0 {
			s.cfg.Spoken = newerLevel
		}
	}
	cfg := s.cfg
	cfg.HostBoot.At = machinetest.Start.Add(s.skew + s.slept)
	cfg.Rand = rand.New(rand.NewPCG(s.c.rnd.Uint64(), s.c.rnd.Uint64()))
	return cfg
}

// begin has a machine be what runs in a process that begins now.
func (s *site) begin(m *ipam.Machine) {
	s.machine = m
	s.engine.unlisted = s.engine.lists
	s.life++
	s.alarm, s.wakeAt = 0, 0
	clear(s.believed)
}

// lookAround has a process that begins probe other hosts, list what the engine has, and read the host's interfaces, again and again.
func (s *site) lookAround() {
	c := s.c
	s.after(c.between(0, c.w.Probe), s.probe)
	s.after(c.between(0, 2*time.Second), s.watch)
	s.after(c.between(0, 20*time.Second), s.watchHost)
}

// after has something happen in a while, unless the process has ended by then.
func (s *site) after(d time.Duration, run func()) { s.c.after(d, s.bound(run)) }

// bound returns what does something, unless the process of now has ended by then.
func (s *site) bound(run func()) func() {
	life := s.life
	return func() {
		if s.life == life {
			run()
		}
	}
}

// watch has the process look at what the engine has, now and each minute.
func (s *site) watch() {
	again := s.bound(s.watch) // it may end here
	s.engine.look()
	s.c.after(time.Minute, again)
}

// watchHost has the process read the host's interfaces, now and each 20 seconds.
func (s *site) watchHost() {
	again := s.bound(s.watchHost) // it may end here
	if s.stopped <= s.c.now {
		s.tellHost()
	}
	s.c.after(20*time.Second, again)
}

// mayCrash reports whether the process may end by itself.
func (s *site) mayCrash() bool { return !s.c.calm && !s.c.unsettled() }

// kill ends the plugin's process: what was not committed is lost, and nobody is answered any more.
func (s *site) kill() {
	if s.machine == nil {
		return
	}
	s.c.tracef("%s crashes at slot %d; something was not committed: %t", s, s.machine.State().Slot, s.batch != nil)
	s.c.count["crash"]++
	s.machine = nil
	s.wakes, s.overslept, s.missed = false, 0, nil
	s.life++
	s.batch = nil
	s.beat = nil
	calls := s.calls
	s.calls = nil
	clear(s.ready)
	s.c.oracle.unheard(s)
	for _, w := range calls {
		if w.done != nil {
			s.c.after(s.c.between(0, time.Millisecond), func() { w.done(ipam.Reply{}, false) })
		}
	}
}

// restartSoon starts the process again in a while.
func (s *site) restartSoon() {
	s.c.after(s.c.about(2*time.Second), s.start)
}

// crash ends the process, and starts it again in a while.
func (s *site) crash() {
	s.kill()
	s.restartSoon()
}

// call has a request served. done, which may be nil, is told the answer, or that there is none.
func (s *site) call(r ipam.Request, done func(ipam.Reply, bool)) {
	if s.machine == nil {
		if (s.c.w.Retries || s.c.w.Modern) && !s.c.calm && s.engine.tryAgain(r, done, time.Second) {
			return
		}
		if done != nil {
			s.c.after(0, func() { done(ipam.Reply{}, false) })
		}
		return
	}
	s.lastID++
	deadline := s.clock().Add(s.c.w.Deadline)
	s.calls = append(s.calls, call{id: s.lastID, request: r, deadline: deadline, done: done})
	if s.c.o.Respond != nil {
		s.calls[len(s.calls)-1].asked = hashOf(r)
	}
	s.awake(&ipam.Call{ID: s.lastID, Deadline: deadline, Request: r})
}

// awake gives the machine an event, or waits with it while the process is stopped.
func (s *site) awake(ev ipam.Event) {
	if s.machine == nil {
		return
	}
	if s.absent != nil {
		s.missed = append(s.missed, ev)
		return
	}
	if wait := s.stopped - s.c.now; wait > 0 {
		s.after(wait, func() { s.awake(ev) })
		return
	}
	if s.wakes {
		s.wakeUp(ev)
		return
	}
	s.step(ev)
}
