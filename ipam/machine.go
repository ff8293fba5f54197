package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Config is what a [Machine] is told once. The zero value of a field with a
// default means the default.
type Config struct {
	Name    peer.Name  // what people call this peer; not empty
	Machine uint64     // hash of the machine's ID; 0: none
	Rand    *rand.Rand // makes IDs; must not be nil. Seeded in tests, from the system elsewhere

	Rest time.Duration  // how long a freed address rests; default 5 minutes, negative for none
	Deal chronicle.Deal // how much of a new pool is dealt out at once

	// Chunk is how many addresses a peer opens at a time; 0: the pool's size
	// over 8 times the peers, at least 8 and at most 1,024.
	Chunk addr.Count

	Universe []netip.Prefix // where subnets are chosen; default 10.32.0.0/12
	// ChooseULA adds to the universe an IPv6 /48 that follows from the
	// cluster's ID (RFC 4193).
	ChooseULA bool
	Bits4     int            // prefix length of a chosen IPv4 subnet; default 24
	Bits6     int            // prefix length of a chosen IPv6 subnet; default 64
	Avoid     []netip.Prefix // never chosen, nor anything that overlaps them

	// Grace is how old a held address must be, and how long apart two
	// inventories that lack it, before it is freed; default 20 seconds, so
	// that all is settled within a minute.
	Grace time.Duration

	// Echo is how soon after a release another one of the same address is
	// taken for its echo, and not for the release of whoever was granted the
	// address in between; default 250 milliseconds. Swarm releases each
	// address of a task twice, up to 170 ms apart.
	Echo time.Duration

	// AwaitInventory says that inventories will come, since there is an engine
	// that can be asked. What only an inventory can tell is then waited for, up
	// to a call's deadline: a new database chooses no address before the first
	// complete one, and nobody takes over an address before one has told
	// whether its holder lives.
	AwaitInventory bool

	// Join makes a peer without a cluster wait for one, and never found one
	// alone.
	Join bool
	// Formation is how a peer without a cluster founds one with others.
	Formation Formation
	// HostBoot tells one start of the host from another (the kernel's boot
	// ID). After a new one, BootWait is how long this peer waits for a majority
	// before it hands anything out, default 20 seconds; it then goes on alone
	// if BootAlone is set.
	HostBoot  string
	BootWait  time.Duration
	BootAlone bool
	// EvictAfter is how long a peer may be silent before it is evicted; 0: it
	// never is.
	EvictAfter time.Duration
	// Quarantine is how long the space of an evicted peer is kept back before
	// it is given up by itself; 0: until somebody says that the host is gone.
	Quarantine time.Duration
	// Label is the name of the cluster. A database of another label is not
	// used if it has pools.
	Label string
	// Place says where the database lies: what tells its file and machine from
	// others. A database that says otherwise is a copy, or was put back, and
	// is not used. Empty: nobody looks.
	Place string
}

func (c Config) withDefaults() (Config, error) {
	if c.Name == "" || len(c.Name) > peer.MaxName {
		return c, fmt.Errorf("the peer's name must have 1 to %d bytes, not %d", peer.MaxName, len(c.Name))
	}
	if c.Rand == nil {
		return c, errors.New("no source of randomness")
	}
	if c.Rest == 0 {
		c.Rest = 5 * time.Minute
	}
	c.Rest = max(c.Rest, 0)
	c.Bits4 = cmp.Or(c.Bits4, 24)
	c.Bits6 = cmp.Or(c.Bits6, 64)
	c.Grace = cmp.Or(c.Grace, 20*time.Second)
	c.Echo = cmp.Or(c.Echo, 250*time.Millisecond)
	c.BootWait = cmp.Or(c.BootWait, 20*time.Second)
	if len(c.Universe) == 0 {
		c.Universe = []netip.Prefix{netip.MustParsePrefix("10.32.0.0/12")}
	}
	c.Universe, c.Avoid = slices.Clone(c.Universe), slices.Clone(c.Avoid)
	return c, nil
}

// Machine is one peer's allocator. Use [New] or [Restore]. It is not safe for
// concurrent use.
type Machine struct {
	cfg      Config
	self     peer.ID
	boot     peer.Boot
	restored peer.Boot // the boot on disk, before this start
	number   uint64    // highest number of an own command
	now      time.Time

	state *chronicle.State

	pools    map[chronicle.PoolKey]*pool
	networks map[PoolID]*network
	waiting  []*Call
	chosen   map[bool]netip.Addr // last subnet chosen, by family (true: IPv6)

	host      []netip.Prefix             // addresses that the host itself has, with their masks
	listed    []netip.Prefix             // subnets of the networks that the last inventory has
	replaying bool                       // the engine may still be asking again for what it has
	greeted   time.Time                  // when it started, or this process
	deleted   map[netip.Prefix]time.Time // pools that went since the last inventory
	perPool   map[netip.Prefix]int       // networks of this host, by pool
	inherited bool                       // while unlisted: space of a former self was taken over
	unlisted  bool                       // the database is new, and no complete inventory has come yet; on disk
	blind     bool                       // no inventory will come for now
	inventory time.Time                  // begin of the last complete inventory since this process started
	conflicts map[conflict]string
	broken    error // a broken invariant: nothing is handed out any more

	// What is agreed, and how far this peer has come with it.
	nonce           uint64
	restoredHost    string                          // the host's boot on disk, before this start
	restoredLabel   string                          // the name of the cluster on disk
	restoredPlace   string                          // where the database says that it lies
	savedNumber     uint64                          // the number on disk
	proposals       []*proposal                     // own commands that are not settled
	inbox           map[peer.ID][]chronicle.Command // commands to propose, by author
	submitted       bool                            // the proposals have been sent on
	submittedAt     time.Time
	submitTries     int
	acceptor        paxos.Acceptor // of the next slot
	acceptorChanged bool
	acceptorOnDisk  bool
	attempt         *attempt
	values          [][]byte // the last decided values
	firstValue      uint64   // slot of the first of them
	valueBytes      int
	pulledAt        time.Time
	asides          map[uint64]bool // proposals that take space, on disk, by last number

	// Who there is.
	contacts    map[peer.ID]*contact
	earlier     map[start]bool // this peer's own earlier starts
	check       *bootCheck
	bootedAlone bool
	suspect     string // why this peer stopped handing out for good
	left        bool   // it was retired, as somebody wished
	forced      bool   // it leaves although something is held here
	leaving     bool
	founding    bool
	seats       []peer.ID // who takes part in a formation by number
	misfits     map[peer.ID]wire.Formation
	foreign     map[[16]byte]time.Time // other clusters, and when they were met
	differs     map[peer.ID]uint64     // whose state differed, at which slot
	startedAt   time.Time
	joinedAt    time.Time
	helloAt     time.Time
	askedToJoin time.Time
	enoughSince time.Time
	digestSlot  uint64
	digestValue uint64
	shown       shown

	// What is asked of other peers, and by them.
	questions    map[question]*asking
	lastQuestion uint64
	answers      map[asked]answered
	inquiries    map[peer.ID]*inquiry
	goneSince    map[peer.ID]time.Time      // when this peer first knew of an eviction
	begged       map[chronicle.PoolKey]bool // pools of which somebody was refused space
	tendedAt     time.Time
	announcedAt  time.Time

	current    *Call       // the call that is being served, if it can wait
	incomplete bool        // the last inventory could not be taken in whole
	changed    bool        // something happened that calls may wait for
	local      []wire.Body // messages to itself
	outgoing   []letter
	fx         Effects
	arena      []byte // backs the keys and values in fx.Save
}

// pool is a pool of the state with what this peer knows of it.
type pool struct {
	*chronicle.Pool
	space *space.Space
	mine  []addr.Range // as the ring has it
	// gateway is this host's own gateway address, if it has one.
	gateway    addr.Offset
	hasGateway bool
	// listed is how many networks on this pool the engine's last inventory
	// shows, -1 before the first.
	listed int
	// lost is how many of them this peer may not have been asked for.
	lost int
	// missing holds when an inventory first lacked an address that a container
	// holds, unnamed an auxiliary address that no network names, and offHost
	// when the host first lacked an address that is held for an interface.
	missing, unnamed, offHost absences
	// seen holds the addresses that the last inventory has, and whose.
	seen map[addr.Offset]string
	// released holds when an address was last released, for as long as an
	// echo may follow.
	released map[addr.Offset]released

	spareSince  time.Time  // since when it has more than it needs
	unusedSince time.Time  // since when nothing here uses it
	announced   addr.Count // free addresses that were announced last
	toldOnce    bool       // any were
}

// released is when an address was released, and by which side.
type released struct {
	at   time.Time
	from Space
}

// network is a network of this host.
type network struct {
	Network
	count int // how many docker networks asked for just this
	// replayed is how many of them the engine has asked for again since it
	// started.
	replayed int
	// asked is when the engine last asked for its pool; zero if an earlier
	// release has not written it.
	asked time.Time
	// again says that this was taken for a replay, and not counted.
	again bool
	// missing is when an inventory first lacked all networks on the pool.
	missing time.Time
	// fresh says that the engine is making the network, or was when it last
	// asked for its pool, and did not ask again for one that it has.
	fresh bool
	// chosenAt is when it was last answered to a request that left the
	// choice to us, and burst how often in quick succession.
	chosenAt time.Time
	burst    int
}

// held yields the held addresses of the pool, in order.
func (p *pool) held() iter.Seq2[addr.Offset, space.Record] { return p.space.HeldIn(addr.Whole(p.CIDR)) }

// busy reports whether an address of the pool is held by anything but the
// host's own interfaces.
func (p *pool) busy() bool {
	for _, rec := range p.held() {
		if rec.Kind != space.Host {
			return true
		}
	}
	return false
}

// hasContainers reports whether an address of the pool is held by anything but
// the host.
func (p *pool) hasContainers() bool {
	for _, rec := range p.held() {
		if rec.Kind != space.Host && rec.Kind != space.Gateway {
			return true
		}
	}
	return false
}

// records yields the addresses of which there is a record, in order.
func (p *pool) records() iter.Seq2[addr.Offset, space.Record] {
	return p.space.Records(addr.Whole(p.CIDR))
}

type conflict struct {
	pool chronicle.PoolKey
	at   addr.Offset
}

// New returns the machine of a peer without a database. Its first step makes
// one, and founds a cluster.
func New(cfg Config) (*Machine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Machine{
		cfg: cfg, state: &chronicle.State{},
		pools:     map[chronicle.PoolKey]*pool{},
		networks:  map[PoolID]*network{},
		chosen:    map[bool]netip.Addr{},
		conflicts: map[conflict]string{},
		deleted:   map[netip.Prefix]time.Time{},
		perPool:   map[netip.Prefix]int{},
		inbox:     map[peer.ID][]chronicle.Command{},
		asides:    map[uint64]bool{},
		contacts:  map[peer.ID]*contact{},
		misfits:   map[peer.ID]wire.Formation{},
		foreign:   map[[16]byte]time.Time{},
		differs:   map[peer.ID]uint64{},
		questions: map[question]*asking{},
		answers:   map[asked]answered{},
		inquiries: map[peer.ID]*inquiry{},
		goneSince: map[peer.ID]time.Time{},
		begged:    map[chronicle.PoolKey]bool{},
	}
	return m, nil
}

// Step lets the machine take one event. now never needs to be exact: what is
// safe does not depend on it. The effects are valid until the next step.
func (m *Machine) Step(now time.Time, ev Event) *Effects {
	m.now = now
	m.fx.Save, m.fx.Send, m.fx.Reply, m.fx.Note = m.fx.Save[:0], m.fx.Send[:0], m.fx.Reply[:0], m.fx.Note[:0]
	m.fx.WakeAt, m.fx.Beat = time.Time{}, nil
	m.arena = m.arena[:0]
	if m.boot == 0 {
		m.start()
	}
	switch ev := ev.(type) {
	case Tick:
		m.changed = true
	case *Call:
		if !m.try(ev) {
			m.waiting = append(m.waiting, ev)
		}
	case *Message:
		m.receive(ev)
	case *Presence:
		m.takePresence(ev)
	}
	m.goOn()
	m.finish()
	return &m.fx
}

// goOn does what has become possible or due.
func (m *Machine) goOn() {
	m.drain()
	m.checkBoot()
	m.seek()
	m.route()
	m.run()
	m.drain()
	m.tend()
	m.drain()
	// A call that is answered may make way for another, which is tried in the
	// next round; those that make no progress wait for what comes.
	for range 4 {
		if !m.changed {
			break
		}
		m.changed = false
		m.retry()
		m.drain()
	}
}

// finish writes down what the step changed, turns letters into frames, and
// says when to be woken.
func (m *Machine) finish() {
	m.saveProposals()
	m.saveAcceptor()
	m.post()
	m.beat()
	m.wake()
}

// start gives a machine that has just been made or restored its boot, and
// founds a cluster if there is none and it may.
func (m *Machine) start() {
	m.bootUp()
	m.startedAt, m.joinedAt = m.now, m.now
	m.seats = []peer.ID{m.self}
	m.settleProposals()
	m.saveLabel()
	m.savePlace()
	if m.state.Slot > 0 {
		m.beginCheck()
		if m.check == nil {
			m.saveHostBoot()
		}
		return
	}
	if m.restored == 0 {
		m.unlisted = true
		m.saveUnlisted()
	}
	m.saveHostBoot()
	if !m.cfg.Join && m.cfg.Formation.Size == 0 {
		m.found()
		m.note(Note{Kind: NoteFounded})
	}
}

// retry tries again all calls that wait.
func (m *Machine) retry() {
	m.waiting = slices.DeleteFunc(m.waiting, m.try)
}

// wake sets when the machine wants to be stepped again.
func (m *Machine) wake() {
	for _, c := range m.waiting {
		m.wakeAt(c.Deadline)
	}
	if len(m.waiting) > 0 && len(m.questions) > 0 {
		m.wakeAt(m.now.Add(pulse))
	}
	switch {
	case len(m.proposals) > 0 || m.attempt != nil || m.check != nil || m.changed:
		m.wakeAt(m.now.Add(pulse))
	case m.left || m.suspect != "":
	case m.state.Slot == 0 || !m.alone():
		m.wakeAt(m.now.Add(tendEvery))
	}
}

// pulse is how often a machine is stepped while something is under way.
const pulse = 50 * time.Millisecond

func (m *Machine) wakeAt(t time.Time) {
	if m.fx.WakeAt.IsZero() || t.Before(m.fx.WakeAt) {
		m.fx.WakeAt = t
	}
}

func (m *Machine) note(n Note) { m.fx.Note = append(m.fx.Note, n) }

// try serves a call if that can be done now, and reports whether it was
// answered.
func (m *Machine) try(c *Call) bool {
	r := Reply{Call: c.ID}
	m.current = c
	switch q := c.Request.(type) {
	case *AddressRequest:
		r.Address, r.Err = m.requestAddress(q)
	case *AddressRelease:
		m.current = nil
		m.releaseAddress(q)
	case *PoolRequest:
		r.Pool, r.Err = m.requestPool(q)
	case *PoolRelease:
		m.current = nil
		m.releasePool(q)
	case *Withdrawal:
		m.current = nil
		m.withdraw(q)
	case *Greeting:
		m.greet()
	case *Inventory:
		m.current = nil
		r.Again = m.takeInventory(q)
		m.changed = true
	case *Blindness:
		m.goBlind()
		m.changed = true
	case *HostAddresses:
		m.current = nil
		m.takeHost(q)
	case *ClientRequest:
		r.Address, r.Err = m.client(q)
	case *LookupRequest:
		r.Addresses, r.Err = m.lookup(q)
	case *FreeRequest:
		m.current = nil
		r.Addresses, r.Err = m.free(q)
	case *PoolCreation:
		r.Status, r.Created, r.Err = m.createPool(q)
	case *PoolRemoval:
		r.Err = m.removePool(q)
	case *DrainRequest:
		r.Err = m.drainSelf(q)
	case *LeaveRequest:
		r.Err = m.leave(q)
	case *EvictRequest:
		r.Err = m.evict(q)
	case *ForgetRequest:
		r.Forgetting, r.Err = m.forget(q)
	case *RecoverRequest:
		r.Err = m.recover(q)
	}
	m.current = nil
	if wait, ok := errors.AsType[*waitError](r.Err); ok {
		if m.now.Before(c.Deadline) {
			return false
		}
		r.Err = wait.late
	}
	m.fx.Reply = append(m.fx.Reply, r)
	return true
}

// waitError makes a call wait for a later step. late is the call's answer when
// its deadline has passed.
type waitError struct{ late error }

func (e *waitError) Error() string { return e.late.Error() }

// waits reports whether an error makes a call wait.
func waits(err error) bool {
	_, ok := errors.AsType[*waitError](err)
	return ok
}
