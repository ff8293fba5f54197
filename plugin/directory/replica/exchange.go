package replica

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

const (
	// pageBytes is how much of changes one message brings.
	pageBytes = 60 << 10
	// patience is how long what was asked for is not asked for again.
	patience = 2 * time.Second
	// giveUp is how long what has come of a section waits for the rest: if
	// whoever knew more is gone, others have less, which is to be had.
	giveUp = 10 * time.Second
)

// Hashes returns what to say to a peer whose digest differs; with leases, what
// to say to anybody now and then.
func (r *Replica) Hashes(leases bool) Hashes {
	return Hashes{Leases: leases, Sums: r.hashes(leases)}
}

func (r *Replica) hashes(leases bool) [Buckets]uint64 {
	if leases {
		return r.leases
	}
	return r.sums
}

// Take takes in what another replica says, and returns what to answer. News
// says that it brought something that this replica did not know: then whoever
// gets broadcasts passes it on.
func (r *Replica) Take(m Message, now time.Time) (answers []Message, news bool) {
	switch m := m.(type) {
	case Hashes:
		if mask := r.differ(m); mask != 0 {
			answers = append(answers, Vector{Buckets: mask, Answer: true, Marks: r.marks(mask, now)})
		}
	case Vector:
		answers = r.takeVector(m, now)
	case Want:
		if pages := r.serve(m, now); len(pages.Parts) > 0 {
			answers = append(answers, pages)
		}
	case Pages:
		return r.takePages(m, now)
	}
	return answers, false
}

// differ returns the buckets in which this replica has something else.
func (r *Replica) differ(h Hashes) (mask uint32) {
	for i, sum := range r.hashes(h.Leases) {
		if sum != h.Sums[i] {
			mask |= 1 << i
		}
	}
	return mask
}

// marks returns how far this replica is in some buckets, in order.
func (r *Replica) marks(mask uint32, now time.Time) []Mark {
	var out []Mark
	for _, s := range append(r.others(), r.own) {
		if mask&(1<<bucket(s.origin)) != 0 && s.left(now) > 0 {
			out = append(out, Mark{s.origin, s.boot, s.seq, s.renewal, s.left(now)})
		}
	}
	return out
}

// takeVector learns renewals, and asks for what it lacks. Its own vector it
// tells only if the other side can learn from it.
func (r *Replica) takeVector(v Vector, now time.Time) (answers []Message) {
	want := Want{}
	knows := map[peer.ID]Mark{}
	for _, m := range v.Marks {
		knows[m.Origin] = m
		s := r.section(m.Origin, m.Boot, now)
		if s == nil || m.Left <= 0 {
			continue
		}
		r.renew(s, m.Boot, m.Renewal, m.Left, now)
		if s.mark().compare(mark{m.Boot, m.Seq}) < 0 && now.Sub(s.asked) >= patience {
			want.At = append(want.At, s.position(now))
		}
	}
	if len(want.At) > 0 {
		answers = append(answers, want)
	}
	if !v.Answer {
		return answers
	}
	own := r.marks(v.Buckets, now)
	if slices.ContainsFunc(own, func(m Mark) bool {
		has := knows[m.Origin]
		ahead := mark{m.Boot, m.Seq}.compare(mark{has.Boot, has.Seq})
		return ahead > 0 || ahead == 0 && m.Renewal > has.Renewal
	}) {
		answers = append(answers, Vector{Buckets: v.Buckets, Marks: own})
	}
	return answers
}

// section returns what is known of another peer, nil if nothing of it can be
// taken in.
func (r *Replica) section(id peer.ID, boot peer.Boot, now time.Time) *section {
	s := r.sections[id]
	switch {
	case local(id) || id == r.own.origin || boot == 0:
		return nil // nobody else says what is in these
	case s == nil && len(r.sections) >= MaxOrigins:
		return nil
	case s == nil:
		s = &section{origin: id, asked: now.Add(-patience)}
		r.sections[id] = s
	}
	return s
}

// renew takes in a renewal of what is there, and reports whether it is new.
func (r *Replica) renew(s *section, boot peer.Boot, renewal uint64, left time.Duration, now time.Time) bool {
	if boot != s.boot || renewal <= s.renewal || left <= 0 {
		return false
	}
	r.toggle(s)
	s.renewal, s.expires = renewal, now.Add(left)
	if !s.live {
		s.live = true
		r.show(s, &s.changes, nil)
	}
	r.toggle(s)
	return true
}

// position says from where on this replica lacks what a peer has said, and that
// it is about to ask.
func (s *section) position(now time.Time) Position {
	if in := s.incoming; in != nil && now.Sub(in.at) < giveUp {
		s.asked = now
		return Position{s.origin, in.boot, in.seq, in.base}
	}
	s.incoming, s.asked = nil, now
	return Position{s.origin, s.boot, s.seq, s.seq}
}

// serve answers a Want as far as one message goes.
func (r *Replica) serve(w Want, now time.Time) Pages {
	out, room := Pages{}, pageBytes
	for _, at := range w.At {
		s := r.sections[at.Origin]
		if local(at.Origin) || s == nil || !s.live || s.left(now) <= 0 {
			continue
		}
		if room <= 0 {
			out.Rest = append(out.Rest, at.Origin)
			continue
		}
		p := s.part(at, room, now)
		for _, put := range p.Puts {
			room -= put.size()
		}
		room -= minPart + 40
		out.Parts = append(out.Parts, p)
	}
	return out
}

// takePages takes in changes, and asks for those behind them.
func (r *Replica) takePages(m Pages, now time.Time) (answers []Message, news bool) {
	want := Want{}
	for _, p := range m.Parts {
		s := r.section(p.Origin, p.Boot, now)
		if s == nil {
			continue
		}
		took := r.takePart(s, &p, now)
		news = news || took
		if took && s.incoming != nil && p.To < p.Head {
			want.At = append(want.At, s.position(now))
		}
	}
	for _, id := range m.Rest {
		if s := r.section(id, 1, now); s != nil {
			want.At = append(want.At, s.position(now))
		}
	}
	if len(want.At) > 0 {
		answers = append(answers, want)
	}
	return answers, news
}
