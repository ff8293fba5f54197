package ipam

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/conflict"
	"github.com/ringlet/ringlet/ipam/doubt"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/membership"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/report"
	"github.com/ringlet/ringlet/ipam/survey"
	"github.com/ringlet/ringlet/ipam/trade"
	"github.com/ringlet/ringlet/ipam/warning"
)

// Machine is one peer's allocator. Use [New] or [Restore]. It is not safe for
// concurrent use.
type Machine struct {
	cfg Config
	now time.Time

	log   *replog.Log      // what the cluster has decided
	state *chronicle.State // the log's: what it comes to
	trade *trade.Trade     // how space moves between this peer and the others

	pools  *pool.Pools // what this host holds in each pool
	calls  calls
	engine *engine.Engine
	survey *survey.Survey // what the last list of the engine came to
	doubts *doubt.Doubts  // addresses whose holders ended without a release

	members  *membership.Membership // whether this peer takes part in its cluster
	warnings *warning.Warnings

	pace pace
	out  effect.Writer
	fx   Effects // out fills all but the replies
}

// calls are the requests that wait.
type calls struct {
	waiting  []*Call
	changed  bool                // something happened that calls may wait for
	chosen   map[bool]netip.Addr // last subnet that was chosen for one, by family (true: IPv6)
	waitedAt time.Time           // the step in which it was found that others have yet to list
	refusals report.Refusals
}

// pace is when this peer did last what it does now and then, in nanoseconds since 1970.
type pace struct {
	tendedAt int64
	activeAt int64 // of the last step of any consequence, see noteActivity
}

// New returns the machine of a peer without a database. Its first step makes
// one, and founds a cluster.
func New(cfg Config) (*Machine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Machine{calls: calls{chosen: map[bool]netip.Addr{}}}
	m.out = effect.NewWriter(&m.fx.Out)
	m.engine, m.warnings = engine.New(&m.out), warning.New(&m.out)
	m.doubts, m.members = doubt.New(&m.out, m.engine), membership.New(&m.out, m.engine)
	m.log = m.members.Log()
	m.state = m.log.State()
	m.trade = trade.New(&m.out, m.log, tradePeers{m})
	m.pools = pool.New(pool.Parts{
		Out: &m.out, Me: m.members.Me, Database: m.members.NewDB,
		Engine: m.engine, Doubts: m.doubts, Conflicts: conflict.New(), Warnings: m.warnings,
		State: m.state, Edition: m.log.Editions(),
	})
	m.survey = survey.New(m.pools, m.surveyActs())
	m.configure(cfg)
	return m, nil
}

// Step lets the machine take one event. now never needs to be exact: what is
// safe does not depend on it. The effects are valid until the next step.
func (m *Machine) Step(now time.Time, ev Event) *Effects {
	m.now = now
	m.out.Reset(now)
	m.fx.Reply = m.fx.Reply[:0]
	if !m.members.Me.HasBegun() {
		m.start()
	}
	set, isSet := ev.(ClockSet)
	if late := m.members.Check.Late(); isSet || late >= bootcheck.Slumber {
		if missed := max(set.By, late); m.members.Disturb(set.By, missed) {
			m.warnings.Sleep(missed)
		}
	}
	m.pools.FreeStrangers()
	if m.warnings.AnyOver() {
		m.endWarnings()
	}
	switch ev := ev.(type) {
	case Tick:
		m.calls.changed = true
	case ClockSet:
		m.members.Check.Forget()
		m.calls.changed = true
	case *Call:
		if m.members.NewDB.IsUnlisted() && m.cfg.AwaitInventory {
			m.noteUnasked(ev)
		}
		ev.starts = m.engine.Replaying()
		if !m.try(ev) {
			m.calls.waiting = append(m.calls.waiting, ev)
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
	m.members.Beat()
	m.noteActivity()
	m.wake()
	return &m.fx
}

// atRest reports whether nothing has become possible or due, and nothing is to be
// written down or sent, so that neither goOn nor finish would do anything: most
// steps leave a machine so.
func (m *Machine) atRest() bool {
	return !m.hasNews() && m.log.AtRest() && !m.out.Unposted() &&
		!m.members.IsChecking() && m.state.Slot > 0 && m.members.IsMember() && m.tended() &&
		!m.pools.HasUnscanned() && !m.cfg.faults.restless
}

// goOn does what has become possible or due.
func (m *Machine) goOn() {
	m.warnOthers()
	m.drain()
	m.members.CheckBoot()
	m.found(m.members.Seek())
	m.members.Route()
	m.log.Run()
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
		if !m.hasNews() {
			break
		}
		m.calls.changed = false
		m.retry()
		m.drain()
	}
}

// hasNews reports whether something has happened that calls may wait for.
func (m *Machine) hasNews() bool {
	m.calls.changed = m.members.TakeNews() || m.calls.changed
	return m.calls.changed
}

// finish writes down what the step changed, and turns letters into frames.
func (m *Machine) finish() {
	m.log.Finish()
	if m.out.Unposted() {
		m.out.Post(m.members.Header())
	}
}

// start gives a machine that has just been made or restored its boot, and
// founds a cluster if there is none and it may.
func (m *Machine) start() {
	m.members.Begin()
	m.trade.Begin(m.members.Self(), m.members.Me.Boot())
	m.settleProposals(m.log.TakeSettled())
	m.pools.HoldKept()
	m.warnings.Extend()
	for _, p := range m.pools.Sorted() {
		p.HoldWarned(addr.Whole(p.CIDR))
	}
	if m.members.Open(m.pools.HasStrays()) {
		m.enterCluster()
	}
}

// enterCluster has a peer that may use its database be in its cluster, or look for one, or found one.
func (m *Machine) enterCluster() {
	if m.state.Slot == 0 && m.cfg.Remains != nil {
		m.beginAnew(m.cfg.Remains)
	}
	m.found(m.members.Enter())
}

func (m *Machine) note(n Note) { *m.out.Note() = n }
