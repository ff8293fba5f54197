package trade_test

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/trade"
	"github.com/ringlet/ringlet/ipam/wire"
)

const rest = time.Minute

// host is a trade with what it needs: a state with one pool, and a space of it.
type host struct {
	now   time.Time
	fx    effect.Out
	out   effect.Writer
	log   *replog.Log
	self  peer.ID
	trade *trade.Trade
	pool  *chronicle.Pool
	space *space.Space
	away  []peer.ID
}

func (h *host) IsLive(id peer.ID) bool   { return !slices.Contains(h.away, id) }
func (h *host) NameOf(id peer.ID) string { return id.Short() }

// newHost returns a host of a cluster with those peers, and a pool of 256 addresses of which nobody owns any.
func newHost(self peer.ID, roster ...peer.ID) *host {
	h := &host{now: time.Unix(1000, 0), self: self}
	h.out = effect.NewWriter(&h.fx)
	h.out.Reset(h.now)
	h.log = replog.New(&h.out, nil)
	h.log.Begin(self, 1)
	h.trade = trade.New(&h.out, h.log, h)
	h.trade.Configure(trade.Config{Rand: rand.New(rand.NewPCG(1, 2)), Deal: chronicle.DealNone, Chunk: 16, Rest: rest})
	h.trade.Begin(self, 1)
	found := chronicle.Found{Cluster: [16]byte{7}}
	for _, id := range roster {
		found.Peers = append(found.Peers, chronicle.Founder{ID: id, Name: "host", Boot: 1})
	}
	h.apply(self, found)
	h.apply(self, chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Deal: chronicle.DealNone})
	h.pool = h.log.State().Pools[0]
	h.space = space.New(256)
	return h
}

// apply has a command be decided.
func (h *host) apply(by peer.ID, a chronicle.Action) {
	value := chronicle.EncodeBatch([]chronicle.Command{{Author: by, Number: h.log.State().Number(by) + 1, Action: a}})
	batch, _ := h.log.Decode(value)
	h.log.Apply(value, batch, func(chronicle.Outcome) {})
}

// own makes a range a peer's.
func (h *host) own(id peer.ID, from, to addr.Offset) {
	r := addr.Range{Start: from, End: to}
	h.pool.Ring.Assign(r, id, 9)
	if id == h.self {
		h.space.Own(r)
	}
}

// pass lets time pass: another step begins.
func (h *host) pass(d time.Duration) {
	h.now = h.now.Add(d)
	h.out.Reset(h.now)
}

// ask is a question that was sent.
type ask struct {
	wire.Ask
	to peer.ID
}

// sent returns what was sent in the step so far.
func (h *host) sent() (bodies []wire.Body, to []peer.ID) {
	h.out.Post(wire.Header{From: h.self, Boot: 1, Cluster: [16]byte{7}, Slot: 2})
	for _, s := range h.fx.Send {
		f, err := wire.Decode(s.Frame)
		if err != nil {
			panic(err)
		}
		bodies, to = append(bodies, f.Body), append(to, s.To)
	}
	h.fx.Send = h.fx.Send[:0]
	return bodies, to
}

// asked returns the question that was sent.
func (h *host) asked() ask {
	bodies, to := h.sent()
	return ask{bodies[0].(wire.Ask), to[0]}
}

var (
	one, two, tre = peer.ID{1}, peer.ID{2}, peer.ID{3}
	whole         = addr.Range{Start: 0, End: 256}
)

// A peer that does not answer in time is asked again later; meanwhile the other one is.
func TestSilence(t *testing.T) {
	h := newHost(one, one, two, tre)
	h.own(two, 0, 100)
	h.own(tre, 100, 200)
	h.trade.Ask(h.pool, wire.WantSpace, whole, 0, h.now)
	first := h.asked()
	h.pass(time.Second)
	h.trade.Ask(h.pool, wire.WantSpace, whole, 0, h.now)
	second := h.asked()
	if first.to == second.to {
		t.Fatal("a silent peer is asked again at once")
	}
	h.trade.TakeAnswer(second.to, wire.Answer{ID: second.ID, Verdict: wire.RefusedFull})
	if is := h.trade.Ask(h.pool, wire.WantSpace, whole, 0, time.Time{}); is.Refused || !slices.Equal(is.Waits, []peer.ID{first.to}) {
		t.Errorf("a call that may wait for a silent peer is told %+v", is)
	}
	h.pass(2 * time.Second)
	if h.trade.Ask(h.pool, wire.WantSpace, whole, 0, time.Time{}); h.asked().to != first.to {
		t.Error("a silent peer is not asked again")
	}
}

// Owners that can be reached are asked before one that cannot, however much that one has to spare: also for a single address that
// any of them may have. When they have refused, the call waits for that one, which is asked when it is back.
func TestUnreachableOwnersAreAskedLast(t *testing.T) {
	for _, want := range []wire.Want{wire.WantSpace, wire.WantExact} {
		for seed := range 20 { // whom to ask is chosen at random, by what each has
			h := newHost(one, one, two, tre)
			h.trade.Configure(trade.Config{Rand: rand.New(rand.NewPCG(uint64(seed), 2)), Deal: chronicle.DealNone, Chunk: 16, Rest: rest})
			h.own(two, 0, 250)
			h.own(tre, 250, 251)
			h.away = []peer.ID{two}
			h.trade.Ask(h.pool, want, whole, 0, h.now)
			q := h.asked()
			if q.to != tre {
				t.Fatalf("seed %d: %v is asked, and cannot be reached", seed, q.to.Short())
			}
			h.trade.TakeAnswer(tre, wire.Answer{ID: q.ID, Verdict: wire.RefusedFull})
			if is := h.trade.Ask(h.pool, want, whole, 0, time.Time{}); is.Refused || !slices.Equal(is.Waits, []peer.ID{two}) {
				t.Fatalf("seed %d: a call that may wait for an unreachable peer is told %+v", seed, is)
			}
			h.away = nil
			if h.trade.Ask(h.pool, want, whole, 0, time.Time{}); h.asked().to != two {
				t.Fatalf("seed %d: it is back, and is not asked", seed)
			}
		}
	}
}

// A refusal does not answer a call that first asked after the question was put, and an announcement takes it back.
func TestOutdatedRefusals(t *testing.T) {
	h := newHost(one, one, two)
	h.own(two, 0, 100)
	refuse := func() {
		h.trade.Ask(h.pool, wire.WantSpace, whole, 0, h.now)
		q := h.asked()
		h.trade.TakeAnswer(q.to, wire.Answer{ID: q.ID, Verdict: wire.RefusedFull})
	}
	first := h.now
	refuse()
	h.pass(time.Second)
	if !h.trade.Ask(h.pool, wire.WantSpace, whole, 0, first).Refused {
		t.Error("a call that asked is not told")
	}
	if h.trade.Ask(h.pool, wire.WantSpace, whole, 0, h.now).Refused {
		t.Error("a later call is told what was true before")
	}
	q := h.asked()
	h.trade.TakeAnswer(q.to, wire.Answer{ID: q.ID, Verdict: wire.RefusedFull})
	if !h.trade.TakeAnnounce(two, 0, wire.Announce{Pools: []wire.Spare{{Pool: h.pool.Key, Free: 5}}}) {
		t.Error("an announcement of space wakes no call")
	}
	if h.trade.Ask(h.pool, wire.WantSpace, whole, 0, first).Refused {
		t.Error("a refusal counts although its author has space by now")
	}
	if s, told := h.trade.Spare(h.pool.Key)[two]; s.Free != 5 || !told {
		t.Errorf("told is %d, %v", s.Free, told)
	}
	h.trade.Restarted(two)
	if _, told := h.trade.Spare(h.pool.Key)[two]; told {
		t.Error("an announcement outlives its start")
	}
}

// Half of what is free is given, and the same to a question that comes twice. Of nothing nothing is.
func TestSplit(t *testing.T) {
	h := newHost(one, one, two)
	h.own(one, 0, 64)
	is := h.trade.Split(h.pool, h.space, whole)
	if is.Verdict != wire.Granted || is.Range.Size() != 32 || is.Free != 32 {
		t.Fatalf("of 64 it gives %+v", is)
	}
	from, q := wire.Header{From: two, Boot: 3}, wire.Ask{ID: 8, Want: wire.WantSpace, Pool: h.pool.Key, Range: whole}
	if h.trade.Repeat(from, q) {
		t.Error("a new question is answered already")
	}
	h.trade.Answer(from, q, is)
	if !h.trade.Repeat(from, q) {
		t.Error("a question that comes twice is not answered as before")
	}
	if bodies, _ := h.sent(); len(bodies) != 2 || bodies[0] != bodies[1] {
		t.Errorf("answers are %+v", bodies)
	}
	if from.Boot++; h.trade.Repeat(from, q) {
		t.Error("another start of the peer gets the answer of the one before")
	}

	none := newHost(one, one, two)
	if is := none.trade.Split(none.pool, none.space, whole); is.Verdict != wire.RefusedFull {
		t.Errorf("of nothing it gives %+v", is)
	}
	none.own(one, 0, 64)
	none.trade.Announce(func(yield func(*chronicle.Pool, *space.Space) bool) { yield(none.pool, none.space) })
	if bodies, to := none.sent(); len(bodies) != 1 || to[0] != peer.None {
		t.Errorf("a peer that refused says %+v once it has space", bodies)
	}
}

// A chunk is opened when less than half of one is free. What is more than a chunk is given back when it was not needed for as
// long as addresses rest.
func TestStock(t *testing.T) {
	h := newHost(one, one, two)
	if n := h.trade.Ahead(h.space); n != 16 {
		t.Errorf("with nothing it opens %d", n)
	}
	h.own(one, 0, 64)
	if n := h.trade.Ahead(h.space); n != 0 {
		t.Errorf("with enough it opens %d", n)
	}
	size := func(actions []chronicle.Action) (n addr.Count) {
		for _, a := range actions {
			n += a.(chronicle.Close).Range.Size()
		}
		return n
	}
	if n := size(h.trade.Behind(h.pool, h.space)); n != 0 {
		t.Errorf("at once it closes %d", n)
	}
	h.pass(rest)
	if n := size(h.trade.Behind(h.pool, h.space)); n != 32 {
		t.Errorf("it closes %d of 64, and not the largest block that leaves a chunk of 16", n)
	}
}

// A peer that drains gives all that is idle to those who stay, at once, and what it cannot give becomes free. What is held or rests
// it keeps.
func TestBequeath(t *testing.T) {
	const fou = 3
	ids := []peer.ID{one, two, tre, {4}}
	zoned := func(zones ...peer.Zone) func(h *host) {
		return func(h *host) {
			for i, z := range zones {
				h.apply(ids[i], chronicle.SetZone{Zone: z})
			}
		}
	}
	for name, tc := range map[string]struct {
		arrange func(h *host)
		heirs   []peer.ID
	}{
		"no zones":                 {zoned(), ids[1:]},
		"all in one zone":          {zoned("a", "a", "a", "a"), ids[1:]},
		"another zone comes first": {zoned("a", "a", "b", ""), []peer.ID{tre, ids[fou]}},
		"one is away":              {func(h *host) { h.away = []peer.ID{two} }, []peer.ID{tre, ids[fou]}},
		"one drains":               {func(h *host) { h.apply(two, chronicle.SetState{Peer: two, Phase: chronicle.Draining}) }, []peer.ID{tre, ids[fou]}},
		"the other zone is away":   {func(h *host) { zoned("a", "a", "b", "b")(h); h.away = []peer.ID{tre, ids[fou]} }, []peer.ID{two}},
		"nobody is there":          {func(h *host) { h.away = ids[1:] }, nil},
		"one has only just come": {func(h *host) {
			h.apply(two, chronicle.Evict{Peer: two})
			h.apply(two, chronicle.Admit{Founder: chronicle.Founder{ID: two}, Speaks: 1})
		}, []peer.ID{tre, ids[fou]}},
		"all that stay have just come": {func(h *host) {
			for _, id := range ids[1:] {
				h.apply(id, chronicle.Evict{Peer: id})
				h.apply(id, chronicle.Admit{Founder: chronicle.Founder{ID: id}, Speaks: 1})
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(one, ids...)
			tc.arrange(h)
			h.own(one, 0, 200)
			for _, o := range []addr.Offset{20, 30} {
				h.space.Claim(o, &space.Holder{Kind: space.Container}, h.now, nil)
			}
			h.space.Free(30, h.now, &space.Freeing{})
			got, owned := map[peer.ID]bool{}, addr.Count(0)
			for _, a := range h.trade.Bequeath(h.pool, h.space) {
				h.apply(one, a)
				if g, is := a.(chronicle.Give); is {
					got[g.To] = true
				}
			}
			for r := range h.pool.Ring.OwnedBy(one) {
				owned += r.Size()
			}
			if !maps.Equal(got, setOf(tc.heirs)) || owned != 2 {
				t.Errorf("%v got some, and %d addresses are left", got, owned)
			}
		})
	}
}

func setOf(ids []peer.ID) map[peer.ID]bool {
	set := map[peer.ID]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// What a peer was given or gave away since it announced is added to that, and no more once it has announced again. A slot that
// the peer knew when it announced is in the announcement.
func TestSpareFollowsMoves(t *testing.T) {
	h := newHost(one, one, two)
	k := h.pool.Key
	announce := func(slot uint64, free addr.Count) {
		h.trade.TakeAnnounce(two, slot, wire.Announce{Pools: []wire.Spare{{Pool: k, Free: free, Resting: 1}}})
	}
	wants := func(when string, want addr.Count) {
		t.Helper()
		if s := h.trade.Spare(k)[two]; s.Free != want || s.Resting != 1 {
			t.Errorf("%s: %d are free, %d rest; want %d", when, s.Free, s.Resting, want)
		}
	}
	decide := func(by peer.ID, a chronicle.Action) {
		t.Helper()
		value := chronicle.EncodeBatch([]chronicle.Command{{Author: by, Number: h.log.State().Number(by) + 1, Action: a}})
		batch, _ := h.log.Decode(value)
		moved := false
		h.log.Apply(value, batch, func(o chronicle.Outcome) {
			moved = true
			h.trade.NoteMove(h.pool, o)
		})
		if !moved {
			t.Fatalf("%+v is refused", a)
		}
	}
	slot := func() uint64 { return h.log.State().Slot }
	decide(two, chronicle.Open{Pool: k, Range: addr.Range{Start: 16, End: 32}, Size: 16}) // of whom nothing is known yet
	announce(slot(), 10)
	wants("at first", 10)
	decide(two, chronicle.Open{Pool: k, Range: addr.Range{Start: 32, End: 48}, Size: 16})
	wants("after it opened a range", 26)
	decide(two, chronicle.Close{Pool: k, Range: addr.Range{Start: 16, End: 20}})
	wants("after it closed some", 22)
	decide(two, chronicle.Give{Pool: k, Range: addr.Range{Start: 32, End: 36}, To: one})
	wants("after it gave some", 18)
	announce(slot(), 3)
	wants("when it has announced again", 3)
	announce(slot()+1, 4)
	decide(one, chronicle.Open{Pool: k, Range: addr.Range{Start: 64, End: 80}, Size: 16})
	decide(one, chronicle.Give{Pool: k, Range: addr.Range{Start: 64, End: 68}, To: two})
	wants("of two slots it knew one", 8)
	decide(two, chronicle.Close{Pool: k, Range: addr.Range{Start: 36, End: 48}})
	wants("of what it has no more than nothing is left", 0)
	h.trade.Restarted(two)
	if _, told := h.trade.Spare(k)[two]; told {
		t.Error("an announcement outlives its start")
	}
}
