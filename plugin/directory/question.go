package directory

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
	"github.com/ringlet/ringlet/plugin/directory/replica"
)

const (
	// askEvery is how often a peer is asked again that has not answered.
	askEvery = time.Second
	// askTime is how long answers are waited for. A full journal takes a second or two.
	askTime = 10 * time.Second
	// answerLimit is how long a peer looks for an answer: later nobody waits for it.
	answerLimit = askTime
	// maxQuestions is how many questions of peers wait at most, and maxOfPeer how many of one of them.
	maxQuestions, maxOfPeer = 16, 4
	// keptReplies is how many answers are kept for peers that ask again because one was lost.
	keptReplies = 32
)

// Testimony is what one peer answers.
type Testimony struct {
	Owner string // ID of the peer
	Text  []byte // what its [Config.Past] says, and so another host's: not to be trusted
}

// Ask asks each peer that can be reached who had an address at a time. It returns what they answer, in no order, and the IDs
// of those that have not answered within 10 seconds, or that cannot tell.
func (d *Directory) Ask(ctx context.Context, a netip.Addr, at time.Time) (told []Testimony, silent []string) {
	q := replica.Question{Serial: rand.Uint64(), Address: a, At: at.UTC()}
	inquiry := &inquiry{waits: map[peer.ID]bool{}, done: make(chan struct{})}
	carrier := d.carrier.Load()
	if carrier == nil {
		return nil, nil
	}
	for _, id := range carrier.Living() {
		inquiry.waits[id] = true
	}
	if len(inquiry.waits) == 0 {
		return nil, nil
	}
	d.mu.Lock()
	d.inquiries[q.Serial] = inquiry
	cluster := d.cluster
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for waits := true; waits; {
		for _, id := range d.unanswered(inquiry) {
			d.send(cluster, id, q)
		}
		select {
		case <-inquiry.done:
			waits = false
		case <-ctx.Done():
			waits = false
		case <-again.C:
		}
	}
	d.mu.Lock()
	delete(d.inquiries, q.Serial)
	for id := range inquiry.waits {
		silent = append(silent, id.String())
	}
	silent = append(silent, inquiry.ignorant...)
	d.mu.Unlock()
	slices.Sort(silent)
	return inquiry.told, silent
}

// inquiry is one call of [Directory.Ask]. The lock of the directory is held for it.
type inquiry struct {
	waits    map[peer.ID]bool // a set: the peers that have not answered
	told     []Testimony
	ignorant []string      // the IDs of peers that cannot tell
	done     chan struct{} // is closed when all have answered
}

func (d *Directory) unanswered(q *inquiry) (out []peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range q.waits {
		out = append(out, id)
	}
	return out
}

// takeAnswer takes in what a peer answers. An answer that nobody waits for, or that comes a second time, is dropped.
func (d *Directory) takeAnswer(f *wire.Frame, m replica.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.inquiries[m.Serial]
	if !d.may(f) || q == nil || !q.waits[f.From] {
		return
	}
	delete(q.waits, f.From)
	if len(m.Text) > 0 {
		q.told = append(q.told, Testimony{Owner: f.From.String(), Text: m.Text})
	} else {
		q.ignorant = append(q.ignorant, f.From.String())
	}
	if len(q.waits) == 0 {
		close(q.done)
	}
}

// reply is what a peer asked, and what this one answers.
type reply struct {
	from   peer.ID
	q      replica.Question
	done   bool
	answer replica.Answer // once it is done
}

// takeQuestion has a question of a peer answered. One that is too much is dropped: the peer asks again.
func (d *Directory) takeQuestion(f *wire.Frame, q replica.Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.may(f) {
		return
	}
	waiting := 0
	for _, r := range d.replies {
		switch {
		case r.from != f.From:
		case r.q.Serial == q.Serial && r.done:
			d.send(d.cluster, f.From, r.answer)
			return
		case r.q.Serial == q.Serial:
			return // it is being looked up
		case !r.done:
			waiting++
		}
	}
	if waiting >= maxOfPeer {
		return
	}
	r := &reply{from: f.From, q: q}
	select {
	case d.questions <- r:
		d.replies = append(d.replies, r)
		d.replies = slices.Clone(d.replies[max(len(d.replies)-keptReplies, 0):])
	default:
	}
}

// answer answers the questions of peers until ctx ends, one after the other: however many ask, it costs this host no more
// than one reader of its journal.
func (d *Directory) answer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-d.questions:
			m := replica.Answer{Serial: r.q.Serial}
			bounded, cancel := context.WithTimeout(ctx, answerLimit)
			d.taking.Do(func() {
				if d.cfg.Past == nil {
					return
				}
				if text, err := d.cfg.Past(bounded, r.q.Address, r.q.At); err == nil && len(text) <= replica.MaxAnswer {
					m.Text = text
				}
			})
			cancel()
			d.mu.Lock()
			r.answer, r.done = m, true
			cluster := d.cluster
			d.mu.Unlock()
			d.send(cluster, r.from, m)
		}
	}
}
