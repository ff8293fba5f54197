package membership_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/membership"
	"github.com/ringlet/ringlet/ipam/newdb"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/wire"
)

// member is a membership with its log, and what a machine without pools does for it.
type member struct {
	*membership.Membership
	cfg membership.Config
	out *effect.Out
	w   *effect.Writer
	now time.Time
}

func newMember(name peer.Name, records map[string]string) *member {
	m := &member{out: &effect.Out{}, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	w := effect.NewWriter(m.out)
	m.w = &w
	m.Membership = membership.New(m.w, engine.New(m.w))
	seed := uint64(name[len(name)-1])
	random := rand.New(rand.NewPCG(seed, seed))
	m.cfg = membership.Config{Config: formation.Config{Rand: random}, NewDB: newdb.Config{Untaken: func() bool { return false }}, Name: name, Spoken: chronicle.Spoken, CallTime: 20 * time.Second}
	m.Configure(m.cfg)
	m.Log().Configure(replog.Config{Rand: random, Spoken: chronicle.Spoken})
	for key, value := range records {
		if err := m.Restore(key, []byte(value)); err != nil {
			panic(err)
		}
	}
	return m
}

// start makes the first step.
func (m *member) start() {
	m.w.Reset(m.now)
	m.Begin()
	if m.Open(false) {
		m.found(m.Enter())
	}
	m.finish()
}

func (m *member) found(f membership.Founding) {
	if f.Now {
		m.propose(f.Found)
	}
}

func (m *member) propose(actions ...chronicle.Action) {
	if len(actions) > 0 {
		m.Log().Propose(replog.Key(actions), actions, false)
	}
}

// finish does what has become due, and turns letters into frames.
func (m *member) finish() {
	m.CheckBoot()
	m.found(m.Seek())
	m.Route()
	m.Log().Run()
	for d := m.Log().Drain(); d != nil; d = m.Log().Drain() {
		m.decided(d)
	}
	m.Log().Finish()
	m.w.Post(m.Header())
}

func (m *member) decided(d *replog.Decision) {
	m.Log().Tell(d, m.learn(d.Value))
}

func (m *member) learn(value []byte) []chronicle.Command {
	batch, understood := m.Log().Decode(value)
	if !understood || !m.Follows(batch) {
		return nil
	}
	was := m.IsMember()
	m.Log().Apply(value, batch, m.Follow)
	m.Conclude(was)
	m.Log().Next()
	return batch
}

// take takes a frame in, as a step.
func (m *member) take(f *wire.Frame) {
	m.w.Reset(m.now)
	if m.Admit(f, 0).Counts {
		if d, is := f.Body.(wire.Decided); is {
			for i, value := range d.Values {
				if d.First+uint64(i) == m.Header().Slot+1 {
					m.learn(value)
				}
			}
		}
		actions, taken := m.Take(f)
		m.propose(actions...)
		if !taken {
			if d := m.Log().Take(f); d != nil {
				m.decided(d)
			}
		}
		if m.Lags(f) {
			m.Log().Pull(f.From)
		}
	}
	m.finish()
}

// sent returns the frames of the last step.
func (m *member) sent() (frames []*wire.Frame) {
	for _, s := range m.out.Send {
		f, err := wire.Decode(s.Frame)
		if err != nil {
			panic(err)
		}
		frames = append(frames, f)
	}
	return frames
}

// exchange makes a step of each a second later, in which they see each other, and brings all frames to the other.
func exchange(a, b *member) {
	for _, m := range []*member{a, b} {
		m.now = m.now.Add(time.Second)
		m.w.Reset(m.now)
	}
	a.TakePresence(b.Self(), true, b.cfg.Name, "", 0)
	b.TakePresence(a.Self(), true, a.cfg.Name, "", 0)
	a.finish()
	b.finish()
	deliver(a, b, a.sent(), 10)
	deliver(b, a, b.sent(), 10)
}

func deliver(from, to *member, frames []*wire.Frame, depth int) {
	for _, f := range frames {
		if depth > 0 {
			to.take(f)
			deliver(to, from, to.sent(), depth-1)
		}
	}
}

// Why a peer hands out nothing, by what is on its disk.
func TestReady(t *testing.T) {
	for name, tt := range map[string]struct {
		records  map[string]string
		standing peer.Standing
		passes   bool // a call waits
	}{
		"new":                {nil, peer.Alone, false},
		"given up":           {map[string]string{"given up": "why"}, peer.Suspended, false},
		"old":                {map[string]string{"old": "why"}, peer.Suspended, false},
		"left":               {map[string]string{"left": "\x01\x01\x00"}, peer.Left, false},
		"gave way":           {map[string]string{"self": "\x01" + "0123456789abcdef" + "\x01\x06host-a\x00", "gave way": "\x01"}, peer.Joining, true},
		"started, foundless": {map[string]string{"self": "\x01" + "0123456789abcdef" + "\x01\x06host-a\x00"}, peer.Joining, true},
	} {
		m := newMember("host-a", tt.records)
		m.start()
		if got := m.Standing(); got != tt.standing {
			t.Errorf("%s: it stands as %s, not %s", name, got, tt.standing)
		}
		err := m.Ready()
		if _, passes := errors.AsType[*sentence.WaitError](err); passes != tt.passes || (err == nil) != (tt.standing == peer.Alone) {
			t.Errorf("%s: ready: %v; that passes: %v", name, err, passes)
		}
	}
}

// R63: a Join that a device recorded and sends again admits nobody. Without the rule it does.
func TestRecordedJoin(t *testing.T) {
	for _, without := range []rule.Set{0, rule.Challenge} {
		a := newMember("host-a", nil)
		a.cfg.Rules = without
		a.Configure(a.cfg)
		a.start()
		h := wire.Header{Cluster: a.Header().Cluster, From: peer.ID{9}, To: a.Self(), Boot: 3, Nonce: 7}
		a.take(&wire.Frame{Header: h, Body: wire.Hello{Name: "host-b", Spoken: chronicle.Spoken}})
		a.take(&wire.Frame{Header: h, Body: wire.Join{Name: "host-b"}})
		if admitted := a.View().State.Member(h.From) != nil; admitted != (without != 0) {
			t.Errorf("without %v: admitted %v", without, admitted)
		}
	}
}

// newPair returns two peers of one cluster.
func newPair(t *testing.T) (a, b *member) {
	t.Helper()
	a, b = newMember("host-a", nil), newMember("host-b", nil)
	b.cfg.Join = true
	b.Configure(b.cfg)
	a.start()
	b.start()
	for range 20 {
		exchange(a, b)
	}
	if !b.IsMember() {
		t.Fatal("host-b was not admitted")
	}
	return a, b
}

// R54: a peer does not apply the slot that gives up its space, and takes part in nothing from then on.
func TestGivenUp(t *testing.T) {
	a, b := newPair(t)
	state := b.View().State
	forget := []chronicle.Command{
		{Author: a.Self(), Number: state.Number(a.Self()) + 1, Action: chronicle.Evict{Peer: b.Self()}},
		{Author: a.Self(), Number: state.Number(a.Self()) + 2, Action: chronicle.Forget{Peer: b.Self(), Evicted: state.Slot + 1}},
	}
	if b.Follows(forget) || !b.IsGivenUp() || b.TakesPart() || b.Standing() != peer.Suspended {
		t.Errorf("it follows: given up %v, takes part %v, stands as %s", b.IsGivenUp(), b.TakesPart(), b.Standing())
	}
	if !b.TakeNews() || b.TakeNews() {
		t.Error("it is not news, once")
	}
	if err := b.Trust(); err == nil {
		t.Error("an operator trusts it")
	}
}

// What a majority does not agree on for five seconds, although all of it is there, is a problem.
func TestUnagreed(t *testing.T) {
	a, _ := newPair(t)
	a.propose(chronicle.NamePool{Name: "lab"})
	proposed := a.now
	for _, waits := range []time.Duration{5*time.Second - 1, 5 * time.Second} {
		a.w.Reset(proposed.Add(waits))
		if got := a.Unagreed(); got != waits && got != 0 || (got > 0) != (waits == 5*time.Second) {
			t.Errorf("after %v: unagreed for %v", waits, got)
		}
	}
}

// R53: two starts with one ID: both stop.
func TestTwoStarts(t *testing.T) {
	a := newMember("host-a", nil)
	a.start()
	h := wire.Header{From: a.Self(), To: a.Self(), Boot: a.Header().Boot, Nonce: a.Header().Nonce}
	if a.Admit(&wire.Frame{Header: h, Body: wire.Beat{}}, 0); a.IsSuspended() {
		t.Fatal("its own frame suspends it")
	}
	h.Nonce++
	if is := a.Admit(&wire.Frame{Header: h, Body: wire.Beat{}}, 0); is.Counts || !a.IsSuspended() {
		t.Errorf("%+v, suspended %v", is, a.IsSuspended())
	}
}
