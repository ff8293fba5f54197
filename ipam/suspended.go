package ipam

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
)

// A peer is suspended when its database must not be used as it stands, and an operator has to
// decide. It stays at the slot that it knows: it follows no more slots, so that nothing of its
// space changes hands under the containers of its host. It answers an engine that starts, serves
// releases, hands out nothing, votes on nothing and asks for no admission. Status says what
// happened, and which command ends it:
//
//	given up        ringlet rejoin: others may use its addresses by now
//	old database    ringlet rejoin
//	another place   ringlet trust if the data was moved, else ringlet rejoin
//	copied          ringlet rejoin where the copy is, then a start of the original
//	differs         none: it is a defect

// reason is why a peer is suspended, the gravest first: one that has several has the gravest.
type reason byte

const (
	notSuspended reason = iota
	givenUp             // its space was given up, by ringlet forget or a successor; on disk
	oldDatabase         // its database went back in time; on disk
	otherPlace          // its database was written at another place; each start finds it out anew
	copied              // another start of the same peer is as good as this one
	differs             // its state is another than that of a majority
)

// suspension is the reason with the sentence that tells it: "..., because <why>".
type suspension struct {
	reason reason
	why    string
}

// isSuspended reports whether this peer is suspended.
func (m *Machine) isSuspended() bool { return m.suspended.reason != notSuspended }

// suspend suspends this peer, unless it is for a reason that is as grave.
func (m *Machine) suspend(r reason, why string) {
	if m.isSuspended() && m.suspended.reason <= r {
		return
	}
	m.suspended = suspension{r, why}
	switch r {
	case givenUp:
		m.out.Put(bucketIdentity, keyGivenUp, []byte(why))
	case oldDatabase:
		m.out.Put(bucketIdentity, keyOld, []byte(why))
	default:
	}
	m.check, m.attempt = nil, nil
	clear(m.inbox)
	m.changed = true
	m.note(Note{Kind: NoteSuspended, Holder: why})
}

// outlive suspends this peer since its database went back in time: what it says to be held, and
// to have been promised, may be wrong.
func (m *Machine) outlive(why string) {
	m.suspend(oldDatabase, "its database is an old one or a copy: "+why)
}

// follows reports whether this peer may apply a batch that was decided. It suspends one whose
// space the batch gives up, or whose database the batch shows to be an old one: that must happen
// before, or the space would be gone from under its containers.
func (m *Machine) follows(batch []chronicle.Command) bool {
	gives := false
	for _, c := range batch {
		if c.Author == m.self && !m.knowsNumber(c.Number) {
			return false
		}
		switch a := c.Action.(type) {
		case chronicle.Forget:
			gives = gives || a.Peer == m.self
		case chronicle.Inherit:
			gives = gives || a.Former == m.self
		}
	}
	if gives && !m.lacks(ruleSuspend) {
		m.lookForLoss(batch)
	}
	return !m.isSuspended()
}

// lookForLoss suspends this peer if the batch gives its space up: a command that says so need
// not have any effect.
func (m *Machine) lookForLoss(batch []chronicle.Command) {
	after, err := chronicle.DecodeState(m.state.Encode())
	if err != nil {
		m.broken = err
		return
	}
	for _, o := range after.Apply(batch) {
		if o.Refused != "" {
			continue
		}
		switch a := o.Command.Action.(type) {
		case chronicle.Forget:
			if a.Peer == m.self {
				m.suspend(givenUp, fmt.Sprintf("its addresses were released for other hosts with ringlet forget on %s", m.nameOf(o.Command.Author)))
			}
		case chronicle.Inherit:
			if a.Former == m.self {
				m.suspend(givenUp, fmt.Sprintf("a new peer on the same machine, %s, has taken over its addresses", m.nameOf(o.Command.Author)))
			}
		default:
		}
	}
}

// followsTo is follows for a state at a later slot.
func (m *Machine) followsTo(state *chronicle.State) bool {
	if !m.knowsNumber(state.Number(m.self)) {
		return false
	}
	if retired := m.leaving && !m.forced; m.isGivenUp(state) && !retired && !m.lacks(ruleSuspend) {
		m.suspend(givenUp, lostSomehow)
	}
	return !m.isSuspended()
}

// knowsNumber reports whether this peer has given a command that number. It suspends one that has not: numbers are on disk
// before they leave, so its database went back in time.
func (m *Machine) knowsNumber(number uint64) bool {
	if number <= m.number {
		return true
	}
	m.outlive(fmt.Sprintf("others have request %d of this peer, but it knows only %d", number, m.number))
	return false
}

// lostSomehow is why a peer is given up where the state alone tells it: which command did so is not known.
const lostSomehow = "its addresses were released for other hosts, with ringlet forget or by a new peer on the same machine"

// isGivenUp reports whether the space of this peer is given up in a state.
func (m *Machine) isGivenUp(state *chronicle.State) bool {
	gone := state.Gone(m.self)
	return gone != nil && gone.Forgotten
}

// takeUsedUp learns that this peer, which asks to be admitted, never will be: it left, or its space was
// given up, and its database does not say so. One that knows that it has left stays out as it is.
func (m *Machine) takeUsedUp(from peer.ID) {
	if m.state.Slot > 0 && !m.member() && !m.left {
		m.suspend(givenUp, fmt.Sprintf("it was in the cluster before and left, or its addresses were released for other hosts, as %s says", m.nameOf(from)))
	}
}

// meetLoss suspends this peer if its space was given up as an earlier release had it, which
// applied the slot that did so.
func (m *Machine) meetLoss() {
	lost := m.isGivenUp(m.state) && !m.left
	for _, p := range m.pools {
		lost = lost || p.space.Strays() > 0
	}
	if lost {
		m.suspend(givenUp, lostSomehow)
	}
}

// meetPlace suspends this peer if its database was written at another place than it lies at.
func (m *Machine) meetPlace() {
	if m.restoredPlace != "" && m.cfg.Place != "" && m.restoredPlace != m.cfg.Place {
		m.suspend(otherPlace, "its database was written as another file or on another machine: it was moved, or it is a copy, or an old one that was put back")
	}
}

// trust has a peer go on with a database that was moved, as an operator states. It asks the
// others as after a start of the host: it may have been given up while the data was moved.
func (m *Machine) trust() error {
	switch m.suspended.reason {
	case notSuspended:
		return failf(ErrBadRequest, "ringlet on %s uses its database already: see ringlet status", m.cfg.Name)
	case otherPlace:
	case givenUp, oldDatabase, copied:
		return failf(ErrBadRequest, "the database of %s cannot be trusted, because %s: run ringlet rejoin on that host, and it starts over as a new peer", m.cfg.Name, m.suspended.why)
	default:
		return m.usable()
	}
	m.suspended = suspension{}
	m.savePlace()
	m.enterCluster()
	m.changed = true
	return nil
}

// standingHolder answers a container that asks for an address with an engine that starts, while this
// peer is suspended: it has just what this peer's own record says that it has, and a list of the
// engine has shown it with that since this process started, so that the others are warned of it.
// What ran before the host was off may be somebody else's by now.
func (m *Machine) standingHolder(q *AddressRequest) (AddressGrant, bool) {
	p := m.poolOf(q.Network.Pool)
	if p == nil || q.Purpose != ForContainer || !m.isSuspended() || !m.mayStart() && !m.mightStart() {
		return AddressGrant{}, false
	}
	for o, rec := range p.held() {
		its := rec.Kind == space.Container && (q.Name != "" && rec.Name == q.Name || !q.MAC.IsZero() && MAC(rec.MAC) == q.MAC)
		if its && p.shows(o) && (!q.Address.IsValid() || q.Address == addr.Nth(p.CIDR, o)) {
			return standing(p, o), true
		}
	}
	return AddressGrant{}, false
}

// shows reports whether the engine's last list has the address.
func (p *pool) shows(o addr.Offset) bool {
	_, shown := p.seen[o]
	return shown
}

// problemOfSuspension says what happened, and what ends it.
func (m *Machine) problemOfSuspension() Problem {
	next := "run ringlet rejoin on this host: it starts over as a new peer, and its containers run on"
	switch m.suspended.reason {
	case oldDatabase:
		if m.hasVeto() && !m.alone() {
			next = "disable the plugin here; on another host of the cluster run ringlet recover --i-know-the-others-are-gone, because the cluster decides nothing without this host; then enable the plugin here, and run ringlet rejoin"
		}
	case otherPlace:
		next = "if the data was moved here and no other copy of it runs, run ringlet trust on this host; else run ringlet rejoin, and it starts over as a new peer"
	case copied:
		next = "on the host whose database is the copy, run ringlet rejoin; then start the plugin on the other one again"
	case differs:
		next = "keep both databases, and report it"
	default:
	}
	return problem(Failed, "suspended", next, "this host hands out no addresses, because %s", m.suspended.why)
}
