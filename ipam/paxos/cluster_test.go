package paxos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/peer"
)

// Breaches that a cluster reports.
var (
	errTwoValues  = errors.New("two values decided")
	errNoProgress = errors.New("no decision although a majority is connected")
	errUnfounded  = errors.New("decision without a majority of acceptances")
	errState      = errors.New("acceptor state is wrong")
)

// rules are what a cluster does differently from the protocol: the hooks by
// which the negative controls take a rule away. The zero value is the protocol.
type rules struct {
	// electorate replaces what a node believes the electorate to be.
	electorate func(node int, e Electorate) Electorate
	// boot replaces the boot in a node's ballots.
	boot func(peer.Boot) peer.Boot
	// sender replaces by whom an answer is counted.
	sender func(from peer.ID, boot peer.Boot) peer.ID
	// heard edits an answer before the proposer counts it.
	heard func(p *Proposer, a Answer) Answer
	// accept replaces the acceptor's second answer.
	accept func(a *Acceptor, b Ballot, v []byte) (Answer, bool)
	// write replaces what a write leaves on a node's disk.
	write func(node int, disk *Acceptor, memory Acceptor)
	// owner replaces whom a node believes to own round 0.
	owner func(node int) peer.ID
	// again uses round 0 whatever the own acceptor says.
	again bool
	// early sends what is to be accepted at round 0 before the write.
	early bool
	// repeatEarly sends the answer to a call that changed nothing at once,
	// although what it repeats may not be on disk.
	repeatEarly bool
	// weather changes the weather that was drawn, so that the breach comes soon.
	weather func(*weather)
	// unchecked leaves out all checks but that one value is decided, so that a
	// control finds the damage and not its cause.
	unchecked bool
}

// decision tells a peer what was decided. From then on it answers every
// question with it.
type decision struct{ value []byte }

// packet is a message under way: a Prepare, an Accept, an Answer or a decision.
type packet struct {
	from, to int
	boot     peer.Boot // of the sender
	message  any
}

// heldPacket waits for the write of what it promises: an answer, or an Accept
// at round 0.
type heldPacket struct {
	packet packet
	value  []byte // of an Accepted
}

// node is one peer: its disk, and what a crash takes from it.
type node struct {
	id         peer.ID
	electorate Electorate

	disk Acceptor
	boot peer.Boot
	told []byte // the decision, on disk

	up       bool
	memory   Acceptor
	held     []heldPacket
	proposer *Proposer
	own      []byte
}

// cluster runs one slot among peers 1 to n, of which the first are the voters.
// It is driven by a scheduler, which chooses what happens next; see schedule.
type cluster struct {
	rules  rules
	voters int
	nodes  []node
	wire   []packet
	side   []int       // nodes on different sides of a partition do not hear each other
	reach  func() uint // whom, by bit, the next broadcast reaches
	owner  int         // whose round 0 is
	direct func() bool // whether the next start tries round 0
	trace  func(format string, args ...any)

	proposed   int    // values 0 to proposed-1 were proposed
	decided    []byte // nil while none is
	early      bool   // decided before the faults ended
	unprepared int    // how often round 0 was used
	// accepted has who, by bit, accepted which ballot, on disk and told so:
	// the omniscient view that no peer has.
	accepted map[Ballot]acceptance
	chosen   []byte
	err      error // the first breach
}

type acceptance struct {
	value  []byte
	voters uint
}

// everybody is the reach of a broadcast that nothing is lost of.
const everybody = ^uint(0)

func newCluster(voters, others int, r rules) *cluster {
	electorate, err := NewElectorate(ids(voters))
	if err != nil {
		panic(err)
	}
	c := &cluster{
		rules:    r,
		voters:   voters,
		nodes:    make([]node, voters+others),
		side:     make([]int, voters+others),
		accepted: make(map[Ballot]acceptance),
	}
	for i := range c.nodes {
		e := electorate
		if r.electorate != nil {
			e = r.electorate(i, e)
		}
		c.nodes[i] = node{id: id(byte(i + 1)), electorate: e, up: true, boot: 1}
	}
	return c
}

func (c *cluster) tracef(format string, args ...any) {
	if c.trace != nil {
		c.trace(format, args...)
	}
}

func (c *cluster) breach(err error, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...))
		c.tracef("BREACH %v", c.err)
	}
}

// start has a node begin a ballot, with the value it tried last if it still
// has one and again is set, else with a new one.
func (c *cluster) start(i int, again, forgetful bool) {
	n := &c.nodes[i]
	if !n.up || n.told != nil {
		return
	}
	if n.proposer == nil {
		boot := n.boot
		if c.rules.boot != nil {
			boot = c.rules.boot(boot)
		}
		p, err := NewProposer(n.id, boot, n.electorate)
		if err != nil {
			panic(err)
		}
		n.proposer = p
	}
	if !again || n.own == nil {
		n.own = binary.BigEndian.AppendUint16(nil, uint16(c.proposed))
		c.proposed++
	}
	if c.direct() && c.startUnprepared(i) {
		return
	}
	// The acceptor's promise is a hint for progress. Safety must not need it.
	above := n.memory.Promised.Round
	if forgetful {
		above = 0
	}
	m, err := n.proposer.Start(n.own, above)
	if err != nil {
		c.breach(errNoProgress, "peer %d cannot start: %v", i+1, err)
		return
	}
	c.tracef("peer %d starts %v for value %x", i+1, m.Ballot, n.own)
	c.broadcast(i, m)
}

// startUnprepared has a node use round 0, if it is its.
func (c *cluster) startUnprepared(i int) bool {
	n := &c.nodes[i]
	owner, voter := c.nodes[c.owner].id, &n.memory
	if c.rules.owner != nil {
		owner = c.rules.owner(i)
	}
	if c.rules.again {
		voter = &Acceptor{}
	}
	m, ok := n.proposer.StartUnprepared(owner, n.own, voter)
	if !ok {
		return false
	}
	c.tracef("peer %d pushes %x at %v", i+1, m.Value, m.Ballot)
	c.unprepared++
	answer, changed := n.memory.Accept(m.Ballot, m.Value)
	c.answer(packet{from: i, to: i}, answer, changed, m.Value)
	reach := c.reach()
	for to := range c.nodes {
		if reach>>to&1 == 1 {
			c.sendWritten(i, to, m)
		}
	}
	return true
}

// sendWritten sends once all that a node has said is on its disk.
func (c *cluster) sendWritten(from, to int, message any) {
	n := &c.nodes[from]
	if len(n.held) == 0 || c.rules.early {
		c.send(from, to, message)
		return
	}
	n.held = append(n.held, heldPacket{packet: packet{from, to, n.boot, message}})
}

// broadcast sends to all, also to those that are no voters: they answer, and
// must not be counted.
func (c *cluster) broadcast(i int, message any) {
	reach := c.reach()
	for to := range c.nodes {
		if reach>>to&1 == 1 {
			c.send(i, to, message)
		}
	}
}

func (c *cluster) send(from, to int, message any) {
	c.wire = append(c.wire, packet{from, to, c.nodes[from].boot, message})
}

// take removes a packet from the wire. The oldest takes its place.
func (c *cluster) take(k int) packet {
	p := c.wire[k]
	c.wire[k] = c.wire[0]
	c.wire = c.wire[1:]
	return p
}

// resend asks those again that have not answered.
func (c *cluster) resend(i int) {
	n := &c.nodes[i]
	if !n.up || n.proposer == nil {
		return
	}
	reach := c.reach()
	for _, v := range n.proposer.Missing() {
		to := int(v[0]) - 1 // whatever incarnation a control makes of it
		if reach>>to&1 == 0 {
			continue
		}
		reach &^= 1 << to
		if n.proposer.Phase() == Preparing {
			c.send(i, to, Prepare{n.proposer.Ballot()})
		} else {
			c.sendWritten(i, to, Accept{n.proposer.Ballot(), n.proposer.Value()})
		}
	}
}

// deliver hands a packet to its receiver, if that is up and on the same side.
func (c *cluster) deliver(p packet) {
	n := &c.nodes[p.to]
	heard := n.up && c.side[p.from] == c.side[p.to]
	if c.trace != nil {
		c.trace("%d to %d, heard %t: %T%v", p.from+1, p.to+1, heard, p.message, p.message)
	}
	if !heard {
		return
	}
	if m, ok := p.message.(decision); ok {
		c.tell(p.to, m.value)
		return
	}
	if n.told != nil {
		c.send(p.to, p.from, decision{n.told})
		return
	}
	switch m := p.message.(type) {
	case Prepare:
		answer, changed := n.memory.Prepare(m.Ballot)
		c.answer(p, answer, changed, nil)
	case Accept:
		accept := (*Acceptor).Accept
		if c.rules.accept != nil {
			accept = c.rules.accept
		}
		answer, changed := accept(&n.memory, m.Ballot, m.Value)
		c.answer(p, answer, changed, m.Value)
	case Answer:
		if n.proposer != nil {
			c.count(p, m)
		}
	}
}

// answer keeps a voter's answer until it is covered by a write.
func (c *cluster) answer(question packet, a Answer, changed bool, value []byte) {
	i := question.to
	n := &c.nodes[i]
	if err := n.memory.Check(); err != nil && !c.rules.unchecked {
		c.breach(errState, "peer %d: %v", i+1, err)
	}
	reply := packet{from: i, to: question.from, boot: n.boot, message: a}
	if _, refused := a.(Refusal); refused || c.rules.repeatEarly && !changed {
		c.wire = append(c.wire, reply)
		return
	}
	n.held = append(n.held, heldPacket{reply, value})
}

// sync writes a node's acceptor to its disk and lets the answers go that
// waited for it.
func (c *cluster) sync(i int) {
	n := &c.nodes[i]
	if len(n.held) == 0 {
		return
	}
	if n.memory.Promised.Compare(n.disk.Promised) < 0 && !c.rules.unchecked {
		c.breach(errState, "peer %d takes its promise back from %v to %v", i+1, n.disk.Promised, n.memory.Promised)
	}
	if c.rules.write != nil {
		c.rules.write(i, &n.disk, n.memory)
	} else {
		n.disk = n.memory
	}
	for _, h := range n.held {
		if m, ok := h.packet.message.(Accepted); ok && i < c.voters {
			c.witness(i, m.Ballot, h.value)
		}
		c.wire = append(c.wire, h.packet)
	}
	n.held = n.held[:0]
}

// witness notes an acceptance, and whether that chooses a value.
func (c *cluster) witness(i int, b Ballot, value []byte) {
	if c.rules.unchecked {
		return
	}
	a, known := c.accepted[b]
	if known && !slices.Equal(a.value, value) {
		c.breach(errTwoValues, "%x and %x accepted at ballot %v", a.value, value, b)
	}
	a.value = value
	a.voters |= 1 << i
	c.accepted[b] = a
	if !twinMajority(c.voters, a.voters) {
		return
	}
	if c.chosen != nil && !slices.Equal(c.chosen, value) {
		c.breach(errTwoValues, "%x chosen at %v after %x", value, b, c.chosen)
	}
	c.chosen = value
}

// count gives an answer to the proposer and does what follows.
func (c *cluster) count(p packet, a Answer) {
	n := &c.nodes[p.to]
	from := c.nodes[p.from].id
	if c.rules.sender != nil {
		from = c.rules.sender(from, p.boot)
	}
	if c.rules.heard != nil {
		a = c.rules.heard(n.proposer, a)
	}
	switch m := a.(type) {
	case Promise:
		if accept, ok := n.proposer.OnPromise(from, m); ok {
			c.tracef("peer %d pushes %x at %v, own %t", p.to+1, accept.Value, accept.Ballot, n.proposer.Own())
			c.broadcast(p.to, accept)
		}
	case Accepted:
		if n.proposer.OnAccepted(from, m) {
			c.decide(p.to, n.proposer.Value())
		}
	case Refusal:
		n.proposer.OnRefusal(from, m)
	}
}

// decide checks a decision that a proposer counted. The proposer knows it from
// here on; whether it lives to tell is the scheduler's choice.
func (c *cluster) decide(i int, value []byte) {
	c.tracef("peer %d counts a majority for %x", i+1, value)
	if len(value) != 2 || int(binary.BigEndian.Uint16(value)) >= c.proposed {
		c.breach(errUnfounded, "nobody proposed %x", value)
	}
	if c.decided != nil && !slices.Equal(c.decided, value) {
		c.breach(errTwoValues, "%x after %x", value, c.decided)
	}
	if !c.rules.unchecked && !slices.Equal(c.chosen, value) {
		c.breach(errUnfounded, "%x decided, %x chosen", value, c.chosen)
	}
	c.decided = value
}

// tell writes a decision to a node's disk.
func (c *cluster) tell(i int, value []byte) {
	n := &c.nodes[i]
	n.told, n.proposer = value, nil
}

// crash takes from a node what was not on its disk.
func (c *cluster) crash(i int) {
	n := &c.nodes[i]
	c.tracef("peer %d crashes, with %d messages that waited for a write", i+1, len(n.held))
	n.up = false
	n.proposer, n.own = nil, nil
	n.held = n.held[:0]
}

// restart brings a node back from its disk, with the next boot.
func (c *cluster) restart(i int) {
	n := &c.nodes[i]
	n.up = true
	n.boot++
	n.memory = n.disk
	c.tracef("peer %d restarts as boot %d: promised %v, accepted %v", i+1, n.boot, n.memory.Promised, n.memory.Accepted)
}
