package ipamtest

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// Weather is how one schedule goes, drawn once from its seed, so that quiet, stormy and one-sided schedules all occur. Chances are
// in ten thousandths. What is marked "not drawn" tests alone ask for.
type Weather struct {
	Shape
	Links
	Processes
	Engines
	Users
	Storms
}

// Shape is what the cluster is made of.
type Shape struct {
	Hosts     int // at the beginning
	Later     int // hosts that join while the schedule runs
	Birth     Birth
	Observers int // of Hosts, the last ones
	Subnets   []netip.Prefix
	LAN       netip.Prefix  // on which each host has an address of its own, as with macvlan; invalid: there is none
	Zones     int           // over which hosts are spread, by turns; 0: they name none
	Mixed     bool          // some hosts have the newer release, and others get it
	Config    ipam.Config   // of every peer
	Deadline  time.Duration // of calls
}

// Links is how messages get from host to host.
type Links struct {
	Loss, Repeat, Slow int           // of messages
	Astray             bool          // one for a peer comes to its successor on the host
	Latency            time.Duration // of a message that is not slow, at most
	Probe              time.Duration // between two probes of one host
	Suspect            int           // of probes, those that fail without reason
	Recorder           time.Duration // between two times that a device sends again how peers were admitted; 0: there is none
}

// Processes is how processes of the plugin run.
type Processes struct {
	CrashInStep   int
	CrashInCommit int
	Group         int // of commits, those that wait and take others in
	Drift         int // of clocks, in thousandths
	Mute          int // of processes that start, those that cannot ask their engine for long
	Deprived      int // of hosts, those where the plugin has no socket of the engine
}

// Engines is how engines go about what they do.
type Engines struct {
	Lag      time.Duration // from a container's address to its appearance, at most
	Deaf     int           // of answers, those that come too late
	Stranger int           // of grants to containers, those of which something else has the address; not drawn
	Partial  int           // of lists, those that are not complete
	Hangs    int           // of lists, those from which on a network does not answer for long
	Retries  bool          // one that finds no process tries again, for 15 seconds
	Bare     bool          // they give endpoints no MAC, as those of ipvlan, and start in order
	Old      int           // of hosts, those with one before 29

	// Of one that starts.
	Orderly  bool          // it asks for one thing after the other
	Replayed bool          // it asks for the addresses of containers below it again
	Blind    int           // of starts that are not in order, those in which the process gives up waiting for lists
	Undone   int           // of networks that it asks for, those that it takes back for another reason
	Early    int           // of starts in order, those in which it starts containers before it answers anybody
	Swarm    int           // and those in which it makes networks
	Tells    int           // of requests that are unclear, those for which a list comes soon
	Breaks   int           // of steps of a start, those before which the process ends
	Late     time.Duration // that lists come late after a start, at most

	// Of an endpoint that goes.
	Modern   bool          // its release may come late, locks nothing, and a list of networks follows
	Slowly   int           // of those that go, those whose network driver takes its time
	Takedown time.Duration // that it takes, at most
}

// Users is what users and programs do.
type Users struct {
	Pace    time.Duration // between two acts on one host, in the mean
	Slots   int           // containers that a host can have
	Makes   int           // of acts, in hundredths, those that make or remove a network, beside a few; not drawn
	Chooses bool          // some networks name no subnet
	Options int           // of networks, those with a name for their pool, or that stick to MACs
	Remade  int           // of networks whose pool is not answered for, those that are made once more
	Clients int           // holders outside Docker that a host can have
	Scripts int           // of steps of an engine's start, those before which one acts
	Lockers int           // holders on a host that want the same few addresses as those of all hosts, and tell what they are told; not drawn

	// Of containers.
	Claims    int  // of requests, those for a certain address
	Popular   bool // claims are mostly for the same few addresses
	Second    int  // of those that start, those on two networks
	Fixed     int  // and those whose MAC is set by hand
	Alike     int  // of a host's, the first ones, those named like others' on all hosts
	Renames   int  // of acts, those before which two are renamed
	Loops     int  // of those that end, those that start again at once with the address that they had
	Contended int  // of addresses that wait for a slow release, those that another container claims meanwhile
	Waiting   int  // of other claims, those of such an address

	// Identities is of about how many label sets hosts ask for the numbers, and have them be collected; Locks is of how many locks
	// programs ask for one; 0: of none. Not drawn.
	Identities    int
	IdentifyEvery time.Duration
	Locks         int
	LockEvery     time.Duration
}

// Storms is what strikes hosts and clusters, and what operators do.
type Storms struct {
	Storm     time.Duration // between two faults; 0: there are none
	Nemesis   [faults]int   // weights
	ZoneEvery time.Duration // between two losses of all hosts of one zone; 0: none is lost
	Roams     time.Duration // between two changes of a host's address on the LAN; 0: there are none
	Damaged   int           // of hosts that lose power, those that lose their database by that, where databases are lost at all
	Untold    int           // of databases that are lost, those of hosts that look for no cluster unless their engine has networks
	Doom      bool          // a majority is lost in the end, so that the cluster is recovered

	// Of hosts that go away.
	Emptied  int // those that nothing is left on
	GivenUp  int // of those, those that are given up
	Laden    int // of the others, those that are given up with all that they have
	Restarts int // of processes that go on, those that end right then; and of hosts that are suspended, those without a process
	Offline  int // of those that go on, those that have no network yet

	// What no carrier and no operator may do, for tests that show why.
	Hasty bool // messages leave before the commit that they need
	Rash  bool // operators forget peers whose hosts live
}

// Birth is how the first hosts become a cluster.
type Birth uint8

// The births.
const (
	Alone    Birth = iota // one founds it, the others join
	ByList                // all have the same list
	ByNumber              // all have the number only
	Apart                 // two found one each, and one of them gives way
)

// one returns one of its arguments.
func one[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

// universe is where the peers choose subnets.
var universe = netip.MustParsePrefix("10.9.0.0/27")

func drawWeather(rnd *rand.Rand) Weather {
	w := Weather{
		Shape: Shape{
			Hosts:    one(rnd, 1, 2, 2, 3, 3, 3, 3, 4, 5, 5, 5, 6, 7, 9),
			Birth:    one(rnd, Alone, Alone, Alone, ByList, ByList, ByNumber, ByNumber, Apart),
			Mixed:    rnd.IntN(4) == 0,
			Deadline: 20 * time.Second,
			Config: ipam.Config{
				Rest:           one(rnd, -1, 10*time.Second, time.Minute, 5*time.Minute),
				Deal:           one(rnd, chronicle.DealHalf, chronicle.DealHalf, chronicle.DealAll, chronicle.DealNone),
				Chunk:          one(rnd, addr.Count(0), 0, 1, 2, 4, 16),
				Subnets:        ipam.Subnets{Universe: []netip.Prefix{universe}, Bits4: 29},
				Grace:          20 * time.Second,
				BootAlone:      true,
				AwaitInventory: true,
				Hesitate:       true,
				EvictAfter:     one(rnd, 0, 30*time.Second, 2*time.Minute, 15*time.Minute),
			},
		},
		Links: Links{
			Loss:    one(rnd, 0, 0, 100, 500, 3000),
			Repeat:  one(rnd, 0, 500, 2000),
			Slow:    one(rnd, 0, 50, 500, 2000),
			Astray:  rnd.IntN(2) == 0,
			Latency: one(rnd, time.Millisecond, 5*time.Millisecond, 50*time.Millisecond),
			Probe:   one(rnd, time.Second, 3*time.Second),
			Suspect: one(rnd, 0, 0, 100, 2000),
		},
		Processes: Processes{Group: one(rnd, 0, 0, 2000, 8000), Drift: one(rnd, 0, 0, 1, 50)},
		Engines:   Engines{Lag: one(rnd, 0, time.Second, 10*time.Second), Deaf: one(rnd, 0, 100, 1000)},
		Users: Users{
			Pace:    one(rnd, 100*time.Millisecond, 500*time.Millisecond, 3*time.Second, 20*time.Second),
			Slots:   one(rnd, 3, 6, 12, 30),
			Chooses: rnd.IntN(3) == 0,
			Clients: one(rnd, 0, 2, 6),
			Claims:  one(rnd, 0, 1000, 3000, 6000),
			Popular: rnd.IntN(2) == 0,
		},
		Storms: Storms{Storm: one(rnd, 0, 2*time.Second, 10*time.Second, time.Minute), Doom: rnd.IntN(10) == 0},
	}
	for i, f := range nemeses() {
		if f.needs&rare == 0 {
			w.Nemesis[i] = one(rnd, 0, 1, 1, 4)
		}
	}
	w.drawShape(rnd)
	if rnd.IntN(3) == 0 {
		w.CrashInStep, w.CrashInCommit = one(rnd, 0, 5, 30), one(rnd, 5, 30, 100)
	}
	if rnd.IntN(3) == 0 {
		w.Second, w.Fixed, w.Options = one(rnd, 0, 1000, 5000), one(rnd, 0, 3000), one(rnd, 0, 0, 3000)
		w.Partial, w.Replayed, w.Retries = one(rnd, 0, 0, 2000), rnd.IntN(3) > 0, rnd.IntN(2) == 0
		if w.Fixed == 0 { // without lists who has a MAC is believed to be who had it
			w.Blind, w.Deprived = one(rnd, 0, 5000), one(rnd, 0, 0, 3000)
		}
	}
	if rnd.IntN(3) == 0 {
		w.Alike, w.Renames, w.Remade = one(rnd, 0, 1, 2), one(rnd, 0, 200, 1000), one(rnd, 0, 8000)
		w.Orderly, w.Undone = rnd.IntN(2) == 0, one(rnd, 0, 1000)
		w.Damaged, w.Roams = one(rnd, 0, 5000), one(rnd, 0, 20*time.Second, 2*time.Minute)
	}
	if rnd.IntN(3) == 0 {
		w.Modern = true
		w.Slowly, w.Takedown = one(rnd, 1000, 5000, 10_000), one(rnd, 3*time.Second, 25*time.Second, 25*time.Second, 90*time.Second)
		w.Contended, w.Waiting = one(rnd, 0, 3000, 9000), one(rnd, 0, 2000, 8000)
		w.Loops, w.Old = one(rnd, 0, 2000, 6000), one(rnd, 0, 5000, 10_000)
	}
	if rnd.IntN(3) == 0 {
		w.drawAbsences(rnd)
	}
	if rnd.IntN(8) == 0 {
		w.goBare(rnd)
	}
	if rnd.IntN(4) == 0 {
		w.drawStrains(rnd)
	}
	return w
}

// drawShape draws how many hosts there are, and with which subnets.
func (w *Weather) drawShape(rnd *rand.Rand) {
	w.Later = rnd.IntN(max(1, 10-w.Hosts))
	if w.Later > 2 {
		w.Later = rnd.IntN(w.Later)
	}
	if w.Birth == Apart {
		w.Hosts = 2
	}
	if (w.Birth == ByList || w.Birth == ByNumber) && w.Hosts > 2 && rnd.IntN(4) == 0 {
		w.Observers = 1
	}
	if rnd.IntN(4) == 0 {
		w.Zones, w.ZoneEvery = 2+rnd.IntN(3), one(rnd, 0, 20*time.Second, time.Minute, 5*time.Minute)
	}
	all := []string{
		"10.1.0.0/28", "10.2.0.0/29", "10.3.0.0/26", "10.1.0.0/27", "fd00:1::/125", "10.5.0.0/25", "10.6.0.0/30", "10.7.0.0/31", "10.1.0.16/28", "10.8.0.0/27",
	}
	if rnd.IntN(8) == 0 { // pools of which all may be reserved
		all = []string{"10.2.0.0/29", "fd00:1::/125", "10.6.0.0/30", "10.6.0.4/30", "10.7.0.0/31", "10.2.0.0/30"}
	}
	for _, i := range rnd.Perm(len(all))[:1+rnd.IntN(4)] {
		w.Subnets = append(w.Subnets, netip.MustParsePrefix(all[i]))
	}
}

// drawLAN has a subnet be the LAN of the hosts, if one is large enough. Where all databases are lost there is none: a host that
// came to the LAN when another had its address already may be the first to have that.
func (w *Weather) drawLAN(rnd *rand.Rand) {
	i := slices.IndexFunc(w.Subnets, func(p netip.Prefix) bool { return p.Addr().Is4() && addr.Size(p) >= 32 })
	if i >= 0 && rnd.IntN(4) == 0 && *w.fault("collapses") == 0 {
		w.LAN = w.Subnets[i]
	}
}

// fault returns the weight of a fault.
func (w *Weather) fault(name string) *int { return &w.Nemesis[slices.Index(FaultNames(), name)] }

// drawAbsences has hosts be away for a while, in weather that is quiet otherwise, or not. Who boots may go on with a majority only.
func (w *Weather) drawAbsences(rnd *rand.Rand) {
	w.Config.BootAlone = rnd.IntN(2) == 0
	*w.fault("sleeps") = one(rnd, 0, 1, 2, 8)
	if rnd.IntN(3) == 0 {
		*w.fault("recovers") = one(rnd, 1, 4)
	}
	w.Emptied, w.GivenUp, w.Laden = one(rnd, 3000, 8000), one(rnd, 3000, 9000), one(rnd, 0, 3000, 9000)
	w.Restarts, w.Offline = one(rnd, 0, 3000, 8000), one(rnd, 0, 5000, 10_000)
	w.calmBeside(rnd)
}

// calmBeside has hosts that are away strike often enough, and half of the time not much else.
func (w *Weather) calmBeside(rnd *rand.Rand) {
	if *w.fault("sleeps")+*w.fault("recovers") == 0 {
		return
	}
	if w.Storm == 0 {
		w.Storm = one(rnd, 2*time.Second, 10*time.Second, time.Minute)
	}
	if rnd.IntN(2) == 0 {
		for _, name := range []string{"wipes", "destroys", "replaces", "leaves", "quits", "drains", "freezes", "clockJumps", "pools"} {
			*w.fault(name) = 0
		}
	}
}

// goLaden has hosts be given up with all that they have, again and again.
func (w *Weather) goLaden(rnd *rand.Rand) {
	w.Config.BootAlone = false
	*w.fault("sleeps"), *w.fault("recovers") = one(rnd, 2, 8, 16), 0
	w.Emptied, w.Laden, w.GivenUp = one(rnd, 0, 3000), 9000, 5000
	w.Restarts, w.Offline = one(rnd, 0, 3000), one(rnd, 0, 5000)
	w.calmBeside(rnd)
}

// goBare has engines give endpoints no MAC. Each that starts then does so in order, as engines do: that it asks for all that it has
// before anything else is what tells these.
func (w *Weather) goBare(rnd *rand.Rand) {
	w.Bare, w.Orderly, w.Undone = true, true, 0
	w.Tells = one(rnd, 0, 5000, 10_000)
	w.Breaks, w.Scripts = one(rnd, 0, 0, 300, 2000), one(rnd, 0, 0, 2000)
	w.Late = one(rnd, 0, 3*time.Second, 20*time.Second)
	w.Early = max(w.Early, 3000)
}

// drawStrains has happen what is rarer, or lasts longer: an engine that starts also starts containers before it answers anybody,
// and has a swarm's agent make networks; the process cannot ask its engine for minutes, or one of its networks does not answer.
func (w *Weather) drawStrains(rnd *rand.Rand) {
	w.Early, w.Swarm = max(w.Early, one(rnd, 0, 5000, 10_000)), one(rnd, 0, 0, 5000)
	w.Untold = one(rnd, 0, 5000)
	w.Mute, w.Hangs = one(rnd, 0, 1000, 5000), one(rnd, 0, 200, 1000)
	w.Recorder = one(rnd, 0, 5*time.Second, time.Minute)
	w.Orderly = w.Orderly || w.Early+w.Swarm > 0
}

// goStrained has some of all this happen again and again.
func (w *Weather) goStrained(rnd *rand.Rand) {
	w.drawStrains(rnd)
	w.Early, w.Untold, w.Orderly = max(w.Early, 3000), 8000, true
	if w.Birth != Apart {
		w.Hosts = max(w.Hosts, 4) // else hardly a database may be lost
	}
	*w.fault("replays") += 4
	*w.fault("wipes") += 2
	if w.Storm == 0 || w.Storm > 10*time.Second {
		w.Storm = one(rnd, 2*time.Second, 10*time.Second)
	}
}
