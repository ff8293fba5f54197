package ipamtest

import (
	"math/rand/v2"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// habits are what users of some schedules do beyond containers with one address each on networks without options. They have their
// own source of randomness, so that the other schedules stay what they were. Chances are in ten thousandths.
type habits struct {
	rnd      *rand.Rand
	second   int  // of containers that start, those on two networks
	fixed    int  // of them, those whose MAC is set by hand
	options  int  // of networks, those with a name for their pool, or that stick to MACs
	partial  int  // of lists, those that are not complete
	replayed bool // an engine that starts under its containers asks for their addresses again
	blind    int  // of such starts, those in which the process gives up waiting for lists
	deprived int  // of hosts, those where the plugin has no socket of the engine
	retries  bool // an engine that finds no process tries again, for 15 seconds
}

func drawHabits(seed uint64) habits {
	h := habits{rnd: rand.New(rand.NewPCG(seed, 0x4ab175))}
	if h.rnd.IntN(3) == 0 {
		h.second, h.fixed, h.options = one(h.rnd, 0, 1000, 5000), one(h.rnd, 0, 3000), one(h.rnd, 0, 0, 3000)
		h.partial, h.replayed = one(h.rnd, 0, 0, 2000), h.rnd.IntN(3) > 0
		if h.fixed == 0 { // without lists who has a MAC is believed to be who had it
			h.blind, h.deprived = one(h.rnd, 0, 5000), one(h.rnd, 0, 0, 3000)
		}
		h.retries = h.rnd.IntN(2) == 0
	}
	return h
}

func (h *habits) chance(n int) bool { return h.rnd.IntN(10_000) < n }

// customs are what engines, users and LANs of some schedules do beside what all do: containers of several hosts have one name, and
// are renamed; an engine that starts asks for one thing after the other, takes a network back of which something is refused,
// although it has that, and asks for what it had when its host lost power; a network that could not be made is made once more; and
// hosts get other addresses on their LAN. And where networks take no MAC, as those of ipvlan, engines before 29 ask for what
// containers need without options. Like [habits] they have their own source of randomness. Chances are in ten thousandths.
type customs struct {
	rnd     *rand.Rand
	shared  int           // of a host's containers, the first ones, those named like others' on all hosts
	renames int           // of what users do
	orderly bool          // engines start so
	damaged int           // of hosts that lose power, those that lose their database by that, where databases are lost at all
	undone  int           // of networks that are asked for again, those that are taken back for another reason
	repeats int           // of networks whose pool is not answered for, those that are made once more
	bare    bool          // engines give endpoints no MAC, and start so
	tells   int           // of requests that are unclear, those for which a list comes soon
	breaks  int           // of their steps, those before which the process ends
	scripts int           // of their steps, those before which a client acts
	late    time.Duration // that lists come late after a start, at most
	roams   time.Duration // between two changes of a host's address on the LAN; 0: there are none
}

func drawCustoms(seed uint64) customs {
	h := customs{rnd: rand.New(rand.NewPCG(seed, 0xc057))}
	if h.rnd.IntN(3) == 0 {
		h.shared, h.renames = one(h.rnd, 0, 1, 2), one(h.rnd, 0, 200, 1000)
		h.orderly, h.undone = h.rnd.IntN(2) == 0, one(h.rnd, 0, 1000)
		h.damaged = one(h.rnd, 0, 5000)
		h.roams = one(h.rnd, 0, 20*time.Second, 2*time.Minute)
		h.repeats = one(h.rnd, 0, 8000)
	}
	// Drawn apart, so that the other schedules stay what they were.
	if rnd := rand.New(rand.NewPCG(seed, 0xba4e)); rnd.IntN(8) == 0 {
		h.goBare()
	}
	return h
}

// goBare has engines give endpoints no MAC. Each that starts then does so in order, as engines do: that it asks for all that it has
// before anything else is what tells these.
func (h *customs) goBare() {
	h.bare, h.orderly, h.undone = true, true, 0
	h.tells = one(h.rnd, 0, 5000, 10_000)
	h.breaks, h.scripts = one(h.rnd, 0, 0, 300, 2000), one(h.rnd, 0, 0, 2000)
	h.late = one(h.rnd, 0, 3*time.Second, 20*time.Second)
}

func (h *customs) chance(n int) bool { return n > 0 && h.rnd.IntN(10_000) < n }

// partings are how the engines of some schedules let go of endpoints. An engine takes an endpoint off its store first, and so off
// its lists, has the network driver take it down, which may last, and then releases the address: once, but to a process that is
// away again and again for 15 seconds. It keeps nobody from asking for the address meanwhile, on the same network either, and later
// ones (29) keep nobody from removing the network. Like [habits] they have their own source of randomness. Chances are in ten
// thousandths.
type partings struct {
	rnd     *rand.Rand
	lists   *rand.Rand    // how long lists of networks take
	slow    int           // of endpoints that go, those whose network driver takes its time
	most    time.Duration // that it takes
	wanted  int           // of endpoints that go so, those whose address somebody else claims meanwhile
	wants   int           // of other claims, those of an address that waits for its release
	loops   int           // of containers that end, those that are started again at once, with the address that they had
	old     int           // of hosts, those with an engine before 29
	going   []parting
	ongoing bool // schedules have them at all
}

func drawPartings(seed uint64) partings {
	h := partings{rnd: rand.New(rand.NewPCG(seed, 0x9a271)), lists: rand.New(rand.NewPCG(seed, 0x1157))}
	if h.rnd.IntN(3) == 0 {
		h.ongoing = true
		h.slow, h.most = one(h.rnd, 1000, 5000, 10_000), one(h.rnd, 3*time.Second, 25*time.Second, 25*time.Second, 90*time.Second)
		h.wanted, h.wants = one(h.rnd, 0, 3000, 9000), one(h.rnd, 0, 2000, 8000)
		h.loops, h.old = one(h.rnd, 0, 2000, 6000), one(h.rnd, 0, 5000, 10_000)
	}
	return h
}

func (h *partings) chance(n int) bool { return n > 0 && h.rnd.IntN(10_000) < n }

func (h *partings) between(from, to time.Duration) time.Duration {
	return from + time.Duration(h.rnd.Int64N(int64(to-from)))
}

// strains are what hosts of some schedules do that is rarer, or lasts longer, than in others: an engine that starts also starts
// containers with a restart policy before it answers anybody, and has a swarm's agent make networks; a database is lost of a host
// that is told of no other host; the process cannot ask its engine for minutes, or one of its networks does not answer. Like
// [habits] they have their own source of randomness. Chances are in ten thousandths.
type strains struct {
	rnd    *rand.Rand
	early  int // of engines that start, those that start containers before they answer anybody
	swarm  int // of them, those that make networks
	untold int // of databases that are lost, those of hosts that look for no cluster unless their engine has networks
	deaf   int // of processes that start, those that cannot ask the engine for long
	hangs  int // of looks, those from which on a network does not answer for long
	// A device records how peers are admitted, and sends that again.
	recorder time.Duration
	recorded []letter
	passer   peer.ID // a peer that asked to be admitted, and was gone before it was
}

func drawStrains(seed uint64) strains {
	h := strains{rnd: rand.New(rand.NewPCG(seed, 0x57a1))}
	if h.rnd.IntN(4) == 0 {
		h.draw()
	}
	return h
}

func (h *strains) draw() {
	h.early, h.swarm = one(h.rnd, 0, 5000, 10_000), one(h.rnd, 0, 0, 5000)
	h.untold = one(h.rnd, 0, 5000)
	h.deaf, h.hangs = one(h.rnd, 0, 1000, 5000), one(h.rnd, 0, 200, 1000)
	h.recorder = one(h.rnd, 0, 5*time.Second, time.Minute)
}

// goStrained has some of all this happen again and again.
func (h *strains) goStrained(w *Weather) {
	h.draw()
	h.early, h.untold = max(h.early, 3000), 8000
	if w.Birth != Apart {
		w.Hosts = max(w.Hosts, 4) // else hardly a database may be lost
	}
	w.Nemesis[replays] += 4
	w.Nemesis[wipes] += 2
	if w.Storm == 0 || w.Storm > 10*time.Second {
		w.Storm = one(h.rnd, 2*time.Second, 10*time.Second)
	}
}

// change has engines start as they do that start containers then, and a device listen, if there is one.
func (h *strains) change(w *Weather, c *customs) {
	if c.bare {
		h.early = max(h.early, 3000)
	}
	c.orderly = c.orderly || h.early+h.swarm > 0
	w.Recorder = h.recorder
}

func (h *strains) chance(n int) bool { return n > 0 && h.rnd.IntN(10_000) < n }

// long draws how long it lasts that an engine cannot be asked, or not for all.
func (h *strains) long() time.Duration {
	return time.Duration(h.rnd.ExpFloat64() * float64(one(h.rnd, 20*time.Second, 3*time.Minute, 20*time.Minute)))
}

func (h *strains) between(from, to time.Duration) time.Duration {
	return from + time.Duration(h.rnd.Int64N(int64(to-from)))
}
