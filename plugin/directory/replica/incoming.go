package replica

import (
	"time"

	"github.com/ringlet/ringlet/internal/packed"
	"github.com/ringlet/ringlet/ipam/peer"
)

// incoming is what has come of a section that is not complete. A part of it
// means little: a source leaves out what it knows to be overtaken, and the part
// that overtakes it may come from another. So all of it takes effect at once,
// when it reaches as far as every source of it knew.
type incoming struct {
	boot    peer.Boot
	replace bool   // it stands for the whole section
	seq     uint64 // how far it reaches
	base    uint64 // what it begins with is of a state with this number: removals up to it need not be known
	need    uint64 // how far it has to reach
	changes packed.Log
	at      time.Time // when something of it came last

	renewal uint64
	expires time.Time
}

// takePart takes in some changes of a peer, and reports whether something in
// them was new.
func (r *Replica) takePart(s *section, p *Part, now time.Time) bool {
	renewed := r.renew(s, p.Boot, p.Renewal, p.Left, now)
	if s.mark().compare(mark{p.Boot, p.Head}) >= 0 || p.Left <= 0 {
		return renewed // nothing in it is new, or it has ended
	}
	in := s.incoming
	goesOn := in != nil && in.boot == p.Boot
	switch {
	case p.Whole:
		if goesOn && in.replace && p.To <= in.seq && p.Floor <= max(in.seq, in.base) {
			return renewed // more has come, and can go on
		}
		in = &incoming{boot: p.Boot, replace: true, base: p.Head}
	case goesOn && p.From <= in.seq && p.Head >= in.base: // one that knows less would bring back what was removed since
		if p.To <= in.seq && p.Head <= in.need {
			return renewed // it came before
		}
	case p.Boot == s.boot && p.From <= s.seq:
		in = &incoming{boot: s.boot, seq: s.seq, base: s.seq}
	default:
		return renewed // something before it is missing
	}
	if in.changes.Len()+len(p.Puts) > 2*MaxRecords || !r.hasRoom(s, in, p) {
		s.incoming = nil
		return renewed
	}
	for _, put := range p.Puts {
		if put.Seq > in.seq {
			in.changes.Put(put.Seq, put.Key, put.Value)
		}
	}
	in.seq, in.need, in.at = max(in.seq, p.To), max(in.need, p.Head), now
	if p.Renewal > in.renewal {
		in.renewal, in.expires = p.Renewal, now.Add(p.Left)
	}
	s.incoming = in
	if in.seq >= in.need {
		r.complete(s)
	}
	return true
}

// hasRoom reports whether the memory for a part is within what one peer, and all
// peers together, may take. The old section of a peer counts until the new one
// takes its place.
func (r *Replica) hasRoom(s *section, in *incoming, p *Part) bool {
	size := 0
	for i := range p.Puts {
		size += p.Puts[i].size()
	}
	if s.changes.Bytes()+in.changes.Bytes()+size > r.maxBytes {
		return false
	}
	all := size
	for id, other := range r.sections {
		if local(id) || other == r.own {
			continue
		}
		all += other.changes.Bytes()
		if other.incoming != nil {
			all += other.incoming.changes.Bytes()
		}
	}
	return all <= r.maxAllBytes
}

// complete lets take effect what has come of a section.
func (r *Replica) complete(s *section) {
	in := s.incoming
	s.incoming = nil
	was, seen := s.changes, s.live
	r.toggle(s)
	if in.replace {
		*s = section{
			origin: s.origin, boot: s.boot, renewal: s.renewal, expires: s.expires, live: s.live,
			floor: in.base, changes: in.changes,
		}
	}
	if s.boot != in.boot || in.renewal > s.renewal {
		s.renewal, s.expires = in.renewal, in.expires
	}
	s.boot, s.live, s.asked = in.boot, true, time.Time{}
	if !in.replace {
		for e := range in.changes.After(0) {
			key, value := e.Key(), e.Value()
			if seen && (value != nil || s.changes.Has(key)) {
				r.events = append(r.events, Event{key, value, s.origin})
			}
			s.put(e.Seq, key, value)
		}
	}
	s.seq = in.seq
	r.toggle(s)
	s.shrink()
	switch {
	case !seen:
		r.show(s, &s.changes, nil)
	case in.replace:
		r.show(s, &s.changes, &was)
	}
}
