package ipamtest

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// Weather is how one schedule goes, drawn once from its seed, so that quiet, stormy and one-sided schedules all occur. Chances are
// in ten thousandths.
type Weather struct {
	Hosts     int // at the beginning
	Later     int // hosts that join while the schedule runs
	Birth     Birth
	Observers int // of Hosts, the last ones

	Subnets []netip.Prefix
	Chooses bool // some networks name no subnet
	Slots   int  // containers that a host can have
	Makes   int  // of an engine's acts, in hundredths, those that make or remove a network, beside a few; not drawn
	Clients int  // holders outside Docker that a host can have
	Lockers int  // holders on a host that want the same few addresses as those of all hosts, and tell what they are told; not drawn
	Claims  int  // of requests, those for a certain address
	Popular bool // claims are mostly for the same few addresses

	// Of a message.
	Loss, Repeat, Slow int
	Astray             bool // one for a peer comes to its successor on the host
	Latency            time.Duration
	// Of a step.
	CrashInStep, CrashInCommit int
	// Of a commit, that it waits and takes others in.
	Group int

	Pace     time.Duration // between two acts of one engine, in the mean
	Probe    time.Duration // between two probes of one host
	Storm    time.Duration // between two faults; 0: there are none
	Suspect  int           // of probes, those that fail without reason
	Drift    int           // of clocks, in thousandths
	Deaf     int           // of answers to engines, those that come too late
	Stranger int           // of grants to containers, those of which something else has the address; not drawn
	Nemesis  [faults]int   // weights
	Lag      time.Duration // from a container's address to its appearance, at most
	Config   ipam.Config   // of every peer
	Deadline time.Duration // of calls

	// Recorder is how long a device that has recorded how peers were admitted waits, in the mean, before it sends some of that
	// again; 0: there is none. Drawn apart, see strains.go.
	Recorder time.Duration

	// Identities is of about how many label sets hosts ask for the numbers, each IdentifyEvery in the mean, and have them be
	// collected; 0: of none. Not drawn.
	Identities    int
	IdentifyEvery time.Duration

	// Locks is of how many locks programs ask for one, each LockEvery in the mean; 0: they ask for none. Not drawn.
	Locks     int
	LockEvery time.Duration

	// Zones is over how many zones hosts are spread, by turns; 0: they name none. ZoneEvery is between two losses of all hosts of
	// one, in the mean; 0: none is lost. Drawn apart, see zone.go.
	Zones     int
	ZoneEvery time.Duration

	// Doom loses a majority in the end, so that the cluster is recovered.
	Doom bool

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

func drawWeather(rnd *rand.Rand) Weather {
	w := Weather{
		Hosts:    one(rnd, 1, 2, 2, 3, 3, 3, 3, 4, 5, 5, 5, 6, 7, 9),
		Birth:    one(rnd, Alone, Alone, Alone, ByList, ByList, ByNumber, ByNumber, Apart),
		Chooses:  rnd.IntN(3) == 0,
		Slots:    one(rnd, 3, 6, 12, 30),
		Clients:  one(rnd, 0, 2, 6),
		Claims:   one(rnd, 0, 1000, 3000, 6000),
		Popular:  rnd.IntN(2) == 0,
		Loss:     one(rnd, 0, 0, 100, 500, 3000),
		Repeat:   one(rnd, 0, 500, 2000),
		Slow:     one(rnd, 0, 50, 500, 2000),
		Latency:  one(rnd, time.Millisecond, 5*time.Millisecond, 50*time.Millisecond),
		Group:    one(rnd, 0, 0, 2000, 8000),
		Pace:     one(rnd, 100*time.Millisecond, 500*time.Millisecond, 3*time.Second, 20*time.Second),
		Probe:    one(rnd, time.Second, 3*time.Second),
		Storm:    one(rnd, 0, 2*time.Second, 10*time.Second, time.Minute),
		Suspect:  one(rnd, 0, 0, 100, 2000),
		Drift:    one(rnd, 0, 0, 1, 50),
		Deaf:     one(rnd, 0, 100, 1000),
		Lag:      one(rnd, 0, time.Second, 10*time.Second),
		Deadline: 20 * time.Second,
	}
	if rnd.IntN(3) == 0 {
		w.CrashInStep, w.CrashInCommit = one(rnd, 0, 5, 30), one(rnd, 5, 30, 100)
	}
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
	all := []string{
		"10.1.0.0/28", "10.2.0.0/29", "10.3.0.0/26", "10.1.0.0/27", "fd00:1::/125", "10.5.0.0/25", "10.6.0.0/30", "10.7.0.0/31", "10.1.0.16/28", "10.8.0.0/27",
	}
	if rnd.IntN(8) == 0 {
		// Pools of which all may be reserved.
		all = []string{"10.2.0.0/29", "fd00:1::/125", "10.6.0.0/30", "10.6.0.4/30", "10.7.0.0/31", "10.2.0.0/30"}
	}
	for _, i := range rnd.Perm(len(all))[:1+rnd.IntN(4)] {
		w.Subnets = append(w.Subnets, netip.MustParsePrefix(all[i]))
	}
	w.Config = ipam.Config{
		Rest:           one(rnd, -1, 10*time.Second, time.Minute, 5*time.Minute),
		Deal:           one(rnd, chronicle.DealHalf, chronicle.DealHalf, chronicle.DealAll, chronicle.DealNone),
		Chunk:          one(rnd, addr.Count(0), 0, 1, 2, 4, 16),
		Subnets:        ipam.Subnets{Universe: []netip.Prefix{universe}, Bits4: 29},
		Grace:          20 * time.Second,
		BootAlone:      true,
		AwaitInventory: true,
		Hesitate:       true,
		EvictAfter:     one(rnd, 0, 30*time.Second, 2*time.Minute, 15*time.Minute),
	}
	w.Doom = rnd.IntN(10) == 0
	w.Astray = rnd.IntN(2) == 0
	for i := range w.Nemesis[:collapses] { // those that follow are in weather of their own
		w.Nemesis[i] = one(rnd, 0, 1, 1, 4)
	}
	w.Nemesis[reinstalls], w.Nemesis[refounds] = 0, 0 // in weather of their own
	return w
}

// universe is where the peers choose subnets.
var universe = netip.MustParsePrefix("10.9.0.0/27")
