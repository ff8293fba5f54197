package departure

import (
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/wire"
)

const (
	// believed is for how long the reports on a peer are believed.
	believed = 10 * time.Second
	// askAgain is how long a peer has to report before it is asked again.
	askAgain = time.Second
)

// Departures is what this peer asks about peers that were evicted, and for how long it has known of each. Use [New].
type Departures struct {
	out   *effect.Writer
	asked map[peer.ID]*inquiry
	since map[peer.ID]eviction
	rules rule.Set // that are taken away, in tests
}

// inquiry is how far this peer has come with asking whether another is heard, or its space used.
type inquiry struct {
	id      uint64
	since   time.Time
	askedAt time.Time
	reports map[peer.ID]bool // whether it is
}

// eviction is one of a peer, which may be evicted several times.
type eviction struct {
	slot uint64
	at   time.Time // when this peer first knew of it, or last heard from the peer
}

// New returns departures of nobody.
func New(out *effect.Writer) *Departures {
	return &Departures{out: out, asked: map[peer.ID]*inquiry{}, since: map[peer.ID]eviction{}}
}

// Configure takes rules away, in tests.
func (d *Departures) Configure(without rule.Set) { d.rules = without }

// Reports is what the others say of a peer that is to be forgotten.
type Reports struct {
	By       peer.ID   // the first that hears from it or has containers in its space; [peer.None]: none has said so
	Open     []peer.ID // those that can be reached and have not reported
	Majority bool      // of the voters can be reached
}

// IsClear reports whether nobody hears from the peer or uses its space, as far as can be asked, and a majority can.
func (r Reports) IsClear() bool { return r.By == peer.None && len(r.Open) == 0 && r.Majority }

// Ask returns what the others say of a peer, and asks those that have not reported, each second. number numbers the
// questions of this peer.
func (d *Departures) Ask(v cluster.View, id peer.ID, number func() uint64) Reports {
	q := d.asked[id]
	if q == nil || !v.Fresh(q.since, believed) {
		q = &inquiry{id: number(), since: v.Now, reports: map[peer.ID]bool{}}
		d.asked[id] = q
	}
	for _, from := range slices.SortedFunc(maps.Keys(q.reports), peer.ID.Compare) {
		if q.reports[from] {
			return Reports{By: from}
		}
	}
	open := slices.DeleteFunc(v.Others(), func(other peer.ID) bool { _, told := q.reports[other]; return told || !v.Live(other) })
	r := Reports{Open: open, Majority: v.Majority(v.LiveVoters())}
	if !r.IsClear() && !v.Fresh(q.askedAt, askAgain) {
		q.askedAt = v.Now
		for _, other := range open {
			d.out.Send(other, wire.Inquire{ID: q.id, Peer: id})
		}
	}
	return r
}

// TakeReport takes in what another peer says. It reports whether that was asked.
func (d *Departures) TakeReport(from peer.ID, r wire.Report) bool {
	q := d.asked[r.Peer]
	if q == nil || q.id != r.ID {
		return false
	}
	q.reports[from] = r.Heard
	return true
}

// EndQuarantine returns the command that gives up the space of a peer that was evicted that long ago, and whose isUnheard
// is true. It trades safety for space.
func (d *Departures) EndQuarantine(v cluster.View, after time.Duration, isUnheard func(peer.ID) bool) []chronicle.Action {
	if after <= 0 || !v.State.IsVoter(v.Self) {
		return nil
	}
	for _, gone := range v.State.Former {
		since, known := d.since[gone.ID]
		switch {
		case gone.Forgotten:
			delete(d.since, gone.ID)
		case !known || since.slot != gone.Evicted && !d.rules.Has(rule.Quarantine) || v.Live(gone.ID):
			d.since[gone.ID] = eviction{gone.Evicted, v.Now}
		case v.Lasted(since.at, after) && isUnheard(gone.ID):
			return []chronicle.Action{chronicle.Forget{Peer: gone.ID, Evicted: gone.Evicted}}
		}
	}
	return nil
}

// There refuses to forget a peer that may be there yet, as another one says, or this one. lives says that containers of
// this host have addresses in its space.
func There(v cluster.View, id, by peer.ID, lives bool) error {
	name, witness := v.NameOf(id), v.NameOf(by)
	switch {
	case by != v.Self:
		return sentence.Errorf(sentence.ErrBadRequest, "%s may be in use: %s hears from it, or has containers with its addresses, and ringlet status there says which. If it runs, it is admitted again by itself; if there are such containers, stop them first", name, witness)
	case lives:
		return sentence.Errorf(sentence.ErrBadRequest, "containers on %s have addresses of %s, for example because its plugin was reinstalled under another name, and others would get these, too: stop those containers first, ringlet status names them", witness, name)
	}
	return sentence.Errorf(sentence.ErrBadRequest, "%s is running, %s hears from it, and its containers may use its addresses: it is admitted again by itself, unless it is leaving; to remove it, run ringlet leave there, remove its containers, and then stop its plugin", name, witness)
}
