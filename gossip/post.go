package gossip

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/ipam/peer"
)

// A parcel goes over a stream as well once it was sent streamTries times as a
// datagram, or is streamAfter old, and no receipt has come.
const (
	streamTries = 3
	streamAfter = maxLife / 2
)

// mail is something to be sent now.
type mail struct {
	to     peer.ID
	line   *line   // nil for a receipt
	parcel *parcel // nil for a receipt
	body   []byte
	stream bool
}

// post sends what is due until ctx ends.
func (s *session) post(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.g.outbox.wake:
		case <-timer.C:
		}
		due, again := s.g.outbox.due(time.Now())
		for _, m := range due {
			if m.stream {
				s.senders.Go(func() { s.sendStream(m) })
			} else {
				s.sendDatagram(m)
			}
		}
		if again.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(again))
		}
	}
}

// nodeAt is a peer that is there. memberlist may have forgotten it.
func nodeAt(id peer.ID, addr netip.AddrPort) *memberlist.Node {
	return &memberlist.Node{
		Name: memberName(id), Addr: net.IP(addr.Addr().AsSlice()), Port: addr.Port(),
		PMax: memberlist.ProtocolVersionMax, // it reads checksums
	}
}

// sendDatagram sends to where a peer is, and to where it says that it is: it
// may have moved there just now, and if there are two of it both must hear
// that.
func (s *session) sendDatagram(m mail) {
	addr, known := s.g.table.addr(m.to)
	ok := known && s.list.SendBestEffort(nodeAt(m.to, addr), m.body) == nil
	if other, contested := s.g.watch.elsewhere(m.to, time.Now()); contested && other != addr {
		_ = s.list.SendBestEffort(nodeAt(m.to, other), m.body)
	}
	if m.parcel != nil {
		s.g.outbox.datagramSent(m, ok)
	}
}

func (s *session) sendStream(m mail) {
	addr, known := s.g.table.addr(m.to)
	ok := known && s.list.SendReliable(nodeAt(m.to, addr), m.body) == nil
	s.g.outbox.streamSent(m, ok)
}

// due returns what is to be sent now, and when to ask again; zero if nothing
// waits.
func (o *outbox) due(now time.Time) (due []mail, again time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	soon := func(at time.Time) {
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	for to, l := range o.lines {
		l.parcels = slices.DeleteFunc(l.parcels, func(p *parcel) bool { return now.Sub(p.born) >= maxLife && o.give(l, p) })
		from := len(due)
		for _, p := range l.parcels {
			due = o.datagramsDue(due, to, l, p, now)
			soon(p.born.Add(maxLife))
			for i := range p.posts {
				if one := &p.posts[i]; !one.there && now.Before(one.again) {
					soon(one.again)
				}
			}
		}
		o.giveReceipts(due[from:], to)
		for _, p := range slices.Backward(slices.Clone(l.parcels)) { // the newest says most
			if p.stream == awaited && l.mayOpen(p) {
				l.opens(p)
				due = append(due, mail{to: to, line: l, parcel: p, body: p.streamBody(), stream: true})
			}
		}
		if len(l.parcels) == 0 && l.open == 0 {
			delete(o.lines, to)
		}
	}
	for to, w := range o.owed {
		if now.Before(w.due) {
			soon(w.due)
			continue
		}
		for some := range slices.Chunk(w.ids, maxReceipts) {
			due = append(due, mail{to: to, body: receipt(o.g.cfg.ID, some)})
		}
		delete(o.owed, to)
	}
	return due, again
}

// giveReceipts puts the receipts that are owed to a peer with datagrams that
// are sent to it, as far as there is room.
func (o *outbox) giveReceipts(with []mail, to peer.ID) {
	w := o.owed[to]
	for i := 0; w != nil && i < len(with); i++ {
		m := &with[i]
		n := min((maxDatagram-togetherHeader-receiptHeader-len(m.body))/8, len(w.ids))
		if n <= 0 {
			continue
		}
		m.body = together(receipt(o.g.cfg.ID, w.ids[:n]), m.body)
		if w.ids = w.ids[n:]; len(w.ids) == 0 {
			delete(o.owed, to)
			w = nil
		}
	}
}

// datagramsDue adds the datagrams of a parcel that are to be sent now.
func (o *outbox) datagramsDue(due []mail, to peer.ID, l *line, p *parcel, now time.Time) []mail {
	if p.waits() {
		return due
	}
	if p.inPieces() && !p.begun() && l.flying()+len(p.posts) > maxFlying {
		p.lengthen()
	}
	repeated := false
	for i := range p.posts {
		if !l.datagramDue(p, i, now) {
			continue
		}
		body := p.body
		if p.inPieces() {
			body = p.piece(o.g.cfg.ID, i+1)
		}
		due = append(due, mail{to: to, line: l, parcel: p, body: body})
		repeated = repeated || p.posts[i].times > 1
	}
	if repeated {
		o.g.counts.repeated.Add(p.frames)
	}
	return due
}

// flying is how many pieces are under way.
func (l *line) flying() (n int) {
	for _, p := range l.parcels {
		if p.inPieces() && p.begun() {
			n += len(p.posts)
		}
	}
	return n
}

// datagramDue reports whether one of the datagrams of a parcel is to be sent
// now, and notes that it was. Where none arrives one of each parcel is enough,
// to see whether that has changed.
func (l *line) datagramDue(p *parcel, i int, now time.Time) bool {
	one := &p.posts[i]
	if one.there || now.Before(one.again) {
		return false
	}
	one.times++
	one.last = now
	one.again = now.Add(l.patience(one.times))
	late := one.times > streamTries || now.Sub(p.born) >= streamAfter
	if p.stream == noStream && (late || l.deaf >= deafAfter) {
		p.stream = awaited
		if late {
			l.deaf++
		}
	}
	return l.deaf < deafAfter || one.times == 1 && i == 0
}

// mayOpen reports whether a stream with that parcel may be opened now.
func (l *line) mayOpen(p *parcel) bool {
	switch {
	case p.waits():
		return false
	case len(p.body) > bulk:
		return l.bulky == 0
	}
	return l.open-l.bulky < l.streams()
}

// opens takes the room. What only goes over a stream needs no more care.
func (l *line) opens(p *parcel) {
	p.stream, p.done = begun, true
	l.count(p, 1)
	if p.long() {
		i := slices.Index(l.parcels, p)
		l.parcels = slices.Delete(l.parcels, i, i+1)
	}
}

// count counts a stream with that parcel.
func (l *line) count(p *parcel, n int) {
	l.open += n
	if len(p.body) > bulk {
		l.bulky += n
	}
}

// datagramSent notes whether the network took a datagram.
func (o *outbox) datagramSent(m mail, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case ok:
		o.note(m.parcel)
	case m.parcel.stream == noStream:
		m.parcel.stream = awaited
		poke(o.wake)
	}
}

// streamSent notes that a stream has ended, and whether the network took what
// was sent over it.
func (o *outbox) streamSent(m mail, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l, p := m.line, m.parcel
	l.cold = !ok
	l.count(p, -1)
	if p.long() {
		l.bytes -= len(p.body)
	}
	switch {
	case ok:
		p.stream = streamed
		o.note(p)
	case p.long():
		o.g.counts.failed.Add(p.frames)
	}
	poke(o.wake)
}

// note counts what was handed to the network, once.
func (o *outbox) note(p *parcel) {
	if !p.sent {
		p.sent = true
		o.g.counts.sent.Add(p.frames)
	}
}
