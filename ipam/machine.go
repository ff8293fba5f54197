package ipam

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Machine is one peer's allocator. Use [New] or [Restore]. It is not safe for
// concurrent use.
type Machine struct {
	cfg      Config
	self     peer.ID
	boot     peer.Boot
	restored peer.Boot // the boot on disk, before this start
	number   uint64    // highest number of an own command
	now      time.Time
	serial   uint64 // the highest number of anything that happened, see Mark

	state *chronicle.State

	pools    map[chronicle.PoolKey]*pool
	inOrder  []*pool // of their addresses; nil when pools came or went
	networks map[PoolID]*network
	toMark   bool // of some the record may lack that the use of their pool is said
	waiting  []*Call
	chosen   map[bool]netip.Addr // last subnet chosen, by family (true: IPv6)

	host      []netip.Prefix          // addresses that the host itself has, with their masks
	routed    []netip.Prefix          // where it has routes to and none is to be chosen
	listed    []netip.Prefix          // subnets of the networks that the last inventory has
	replaying bool                    // the engine may still be asking again for what it has
	greeted   moment                  // when it started, or this process
	named     bool                    // since then a container's request had its name
	strangers time.Time               // when to look at the strangers again; zero: there are none
	deleted   map[netip.Prefix]uint64 // pools that went since the last inventory
	perPool   map[netip.Prefix]int    // networks of this host, by pool
	inherited bool                    // while unlisted: space of a former self was taken over
	unlisted  bool                    // the database is new, and no complete inventory has come yet; on disk
	unsure    bool                    // the database is new, and others may have yet to list, too; on disk
	blind     bool                    // no inventory will come for now
	setBefore time.Time               // clockSet as it was when this process started
	watch     watch                   // see keepWatch
	clockSet  time.Time               // since when nobody has set the clock, as far as is known; zero: for long enough
	inventory Mark                    // of the last complete inventory since this process started
	conflicts map[conflict]dispute    // since the begin of the last complete inventory
	disputed  map[conflict]dispute    // before that
	doubts    map[netip.Addr]doubt    // addresses whose holders ended without a release
	refusals  []Refusal               // the last ones, in order
	broken    error                   // a broken invariant: nothing is handed out any more

	// What is agreed, and how far this peer has come with it.
	nonce           uint64
	restoredClock   clockState                      // the clock on disk
	restoredLabel   string                          // the name of the cluster on disk
	restoredPlace   string                          // where the database says that it lies
	savedNumber     uint64                          // the number on disk
	unsettledTo     uint64                          // the highest number of a command from before the start
	proposals       []*proposal                     // own commands that are not settled
	inbox           map[peer.ID][]chronicle.Command // commands to propose, by author
	submitted       bool                            // the proposals have been sent on
	submittedAt     time.Time
	submitTries     int
	submitTo        peer.ID        // who is to get them at the end of the step
	acceptor        paxos.Acceptor // of the next slot
	acceptorChanged bool
	acceptorOnDisk  bool
	attempt         *attempt
	completes       bool // what it has accepted is to be decided, as others wait for that
	early           early
	log             replog.Log
	pulledAt        time.Time
	asides          map[uint64]bool // proposals that take space, on disk, by last number

	// What is looked up in every call.
	served servedPlaces
	own    ownMember

	// Who there is.
	contacts    map[peer.ID]*contact
	check       *bootCheck
	bootedAlone bool
	suspended   suspension
	rejoined    [16]byte               // the cluster that an earlier peer of this host was in, which has started over as this one; on disk
	warnings    map[netip.Addr]warning // of addresses in use on hosts whose peers do not own them; on disk
	warnedBy    map[peer.ID]int        // how many of them each peer has given
	warned      time.Time              // when to look whether one is over; zero: there is none
	warnedAt    time.Time              // when this peer last warned the others
	unclaimed   []ClientRequest        // its clients that have not got their addresses again; on disk
	surpassed   peer.Boot              // the boot of a copy that was started later; the next start is to be above it
	left        bool                   // it was retired, as somebody wished
	forced      bool                   // it leaves although something is held here
	leaving     bool
	drained     bool // it was draining when it was evicted, and goes on with that once it is back; on disk
	founding    bool
	joins       bool      // it founds no cluster alone, as things are; at first as it was told
	seat        int       // its place in the list of those who found a cluster, from 1; 0: none
	hesitates   bool      // it founds a cluster if the engine has no networks
	orphaned    int       // networks that the engine has, and the new database does not know
	seats       []peer.ID // who takes part in a formation by number
	misfits     map[peer.ID]wire.Formation
	foreign     map[[16]byte]meeting // other clusters
	differs     map[peer.ID]uint64   // whose state differed, at which slot
	later       chronicle.Level      // of slots that are there and are not spoken here; 0: none that is known
	startedAt   time.Time
	joinedAt    time.Time
	helloAt     time.Time
	metUnlisted time.Time // when those who have yet to list were last asked
	waitedAt    time.Time // the step in which it was found that others have yet to
	lostAt      time.Time // when a list last showed what an earlier database of this host must have known
	listedAt    time.Time // when the list of this host's engine was taken in
	before      before    // whether the list that a new database waited for had networks; on disk like unsure
	bereaved    bool      // some other host had networks that its database did not know
	untaken     bool      // what this host keeps back was another's when it was last looked
	askedToJoin time.Time
	enoughSince time.Time
	gaveWay     time.Time // when it last dissolved its cluster, or started after that
	digestAt    place
	digestValue uint64
	shown       shown
	ownerTexts  map[peer.ID]string // see textOf

	// What is asked of other peers, and by them.
	questions    map[question]*asking
	lastQuestion uint64
	answers      map[asked]answered
	inquiries    map[peer.ID]*inquiry
	goneSince    map[peer.ID]departure      // of whom a quarantine is for
	begged       map[chronicle.PoolKey]bool // pools of which somebody was refused space
	tendedAt     int64                      // in nanoseconds since 1970
	stirredAt    int64                      // of the last step of any consequence, see stir; in nanoseconds since 1970
	due          time.Time                  // when it is to be stepped again, or should be; who comes much later has slept
	unsighted    []*pool                    // where to look for addresses of the host as soon as others can be asked
	announcedAt  time.Time

	current    *Call       // the call that is being served, if it can wait
	listing    bool        // an inventory is being taken in
	whole      bool        // it is one that is complete
	incomplete bool        // the last inventory could not be taken in whole
	unanswered bool        // an owner has yet to say who has what a network keeps back by that
	changed    bool        // something happened that calls may wait for
	local      []wire.Body // messages to itself
	out        effect.Writer
	fx         Effects // out fills all but the replies
}

type conflict struct {
	pool   chronicle.PoolKey
	at     addr.Offset
	subnet netip.Prefix // of a network that has no pool
}

// dispute is what cannot both be right in a conflict.
type dispute struct {
	text   string // a sentence, from when it was noted first
	who    string // whom it is about
	same   string // what stays the same as long as it lasts
	next   string // what ends it, if that is no container
	host   bool   // it is about an address that the host itself has
	warned bool   // a peer warns of it
}

// ending says what ends the conflict.
func (d dispute) ending() string {
	return cmp.Or(d.next, "stop that container, or remove the other holder")
}

// New returns the machine of a peer without a database. Its first step makes
// one, and founds a cluster.
func New(cfg Config) (*Machine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Machine{
		state:      &chronicle.State{},
		pools:      map[chronicle.PoolKey]*pool{},
		networks:   map[PoolID]*network{},
		chosen:     map[bool]netip.Addr{},
		conflicts:  map[conflict]dispute{},
		disputed:   map[conflict]dispute{},
		deleted:    map[netip.Prefix]uint64{},
		perPool:    map[netip.Prefix]int{},
		inbox:      map[peer.ID][]chronicle.Command{},
		asides:     map[uint64]bool{},
		contacts:   map[peer.ID]*contact{},
		misfits:    map[peer.ID]wire.Formation{},
		foreign:    map[[16]byte]meeting{},
		differs:    map[peer.ID]uint64{},
		questions:  map[question]*asking{},
		answers:    map[asked]answered{},
		inquiries:  map[peer.ID]*inquiry{},
		goneSince:  map[peer.ID]departure{},
		begged:     map[chronicle.PoolKey]bool{},
		ownerTexts: map[peer.ID]string{},
		served:     makeServed(leastServed),
	}
	m.configure(cfg)
	m.out = effect.NewWriter(&m.fx.Out)
	m.log = replog.New(&m.out, cfg.faults.history)
	return m, nil
}

// Step lets the machine take one event. now never needs to be exact: what is
// safe does not depend on it. The effects are valid until the next step.
func (m *Machine) Step(now time.Time, ev Event) *Effects {
	m.now = now
	m.out.Reset()
	m.fx.Reply = m.fx.Reply[:0]
	if m.boot == 0 {
		m.start()
	}
	late := m.late()
	if late >= slumber {
		if _, set := ev.(ClockSet); !set {
			m.thaw(late)
		}
	}
	if !m.strangers.IsZero() {
		m.freeStrangers()
	}
	if !m.warned.IsZero() {
		m.endWarnings()
	}
	switch ev := ev.(type) {
	case Tick:
		m.changed = true
	case ClockSet:
		m.setClock(ev.By)
		m.watch.nanos = 0
		if ahead := max(ev.By, late); ahead >= slumber {
			m.awaken(ahead)
		}
		m.changed = true
	case *Call:
		if m.unlisted && m.cfg.AwaitInventory {
			m.noteUnasked(ev)
		}
		ev.starts = m.replaying
		if !m.try(ev) {
			m.waiting = append(m.waiting, ev)
		}
	case *Message:
		m.receive(ev)
	case *Presence:
		m.takePresence(ev)
	}
	if !m.atRest() {
		m.goOn()
		m.finish()
	}
	m.beat()
	m.stir()
	m.wake()
	if m.watch.left > 0 || m.watch.nanos != 0 {
		m.keepWatch()
	}
	return &m.fx
}

// atRest reports whether nothing has become possible or due, and nothing is to be
// written down or sent, so that neither goOn nor finish would do anything: most
// steps leave a machine so.
func (m *Machine) atRest() bool {
	return !m.changed && len(m.local) == 0 && !m.out.Unposted() && len(m.proposals) == 0 && len(m.inbox) == 0 &&
		m.attempt == nil && m.check == nil && !m.bootedAlone && !m.acceptorChanged && m.state.Slot > 0 && m.member() && m.tended() &&
		len(m.unsighted) == 0 && !m.cfg.faults.restless
}

// goOn does what has become possible or due.
func (m *Machine) goOn() {
	m.warnOthers()
	m.drain()
	m.checkBoot()
	m.seek()
	m.route()
	m.run()
	m.drain()
	m.retryAll() // before what calls have waited for is given back, as nobody uses it
	m.tend()
	m.drain()
	m.retryAll()
}

// retryAll tries the calls that wait again, if something has happened. One that is answered
// may make way for another, which is tried in the next round; those that make no progress wait
// for what comes.
func (m *Machine) retryAll() {
	for range 4 {
		if !m.changed {
			break
		}
		m.changed = false
		m.retry()
		m.drain()
	}
}

// finish writes down what the step changed, and turns letters into frames.
func (m *Machine) finish() {
	m.saveProposals()
	m.saveAcceptor()
	m.submit()
	m.post()
}

// start gives a machine that has just been made or restored its boot, and
// founds a cluster if there is none and it may.
func (m *Machine) start() {
	m.bootUp()
	m.lastQuestion = uint64(m.boot) << 32 // what answers an earlier start answers no question of this one
	m.startedAt, m.joinedAt = m.now, m.now
	if !m.gaveWay.IsZero() {
		m.gaveWay = m.now
	}
	m.beginClock()
	m.seats = []peer.ID{m.self}
	m.settleProposals(m.takeSettled())
	m.holdKept()
	m.warnAgain(func(peer.ID) bool { return true })
	for _, p := range m.sortedPools() {
		m.holdWarned(p, addr.Whole(p.CIDR))
	}
	m.saveLabel()
	m.meetPlace()
	m.savePlace()
	if m.meetLoss(); m.isSuspended() {
		m.greetPeers()
		return
	}
	m.enterCluster()
}

// enterCluster has a peer that may use its database be in its cluster, or look for one, or found one.
func (m *Machine) enterCluster() {
	if m.state.Slot > 0 {
		m.beginCheck()
		return
	}
	if m.cfg.Remains != nil {
		m.beginAnew(m.cfg.Remains)
	}
	if m.restored == 0 {
		m.unlisted = !m.lacks(ruleList)
		// Who founds a cluster without a look has no others; if it meets some it
		// gives way.
		m.unsure = m.unlisted && !m.lacks(ruleLists) && (m.cfg.Join || m.cfg.Hesitate || m.cfg.FoundAlone || m.cfg.Formation.Size > 0)
		m.saveUnlisted()
	}
	// One that was without a cluster before this start was looking for one, and
	// must not found another beside it, unless somebody has said that it is to.
	m.hesitates = m.cfg.Hesitate && (m.gaveWay.IsZero() || m.cfg.FoundAlone)
	m.joins = m.joins || m.hesitates && m.cfg.Formation.Size == 0 || m.restored > 0 && !m.cfg.FoundAlone
	if !m.joins && m.cfg.Formation.Size == 0 {
		m.found()
		m.note(Note{Kind: NoteFounded})
	}
}

func (m *Machine) note(n Note) { *m.out.Note() = n }
