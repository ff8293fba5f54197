package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/plugin/events"
)

// Past is what is known of an address at a time.
type Past struct {
	Address  netip.Addr     `json:"address"`
	At       time.Time      `json:"at"`
	State    string         `json:"state"`              // held, free, elsewhere: in another peer's range, or unknown: the journal does not reach back so far, or does not tell
	Holder   *events.Holder `json:"holder,omitempty"`   // who held it, or before that, if it was free
	Since    time.Time      `json:"since,omitzero"`     // the holder had it; missing: nobody knows
	Until    time.Time      `json:"until,omitzero"`     // the holder had it; missing: it still has
	Inferred bool           `json:"inferred,omitempty"` // one of these times was found out afterwards: it was so then at the latest
	Owner    string         `json:"owner,omitempty"`    // whose range it lay in, if it was another's: a peer's name, free or reserved; missing also if nobody knows
	Begins   time.Time      `json:"begins,omitzero"`    // the journal; missing: it is empty
}

// ReadPast reads what a journal, which may be anybody's, answers about an address at a time; false if that is no answer.
func ReadPast(text []byte, a netip.Addr, at time.Time) (Past, bool) {
	var p Past
	if json.Unmarshal(text, &p) != nil || p.Address != a || !p.At.Equal(at) || p.State == "held" && p.Holder == nil {
		return Past{}, false
	}
	for _, t := range []*time.Time{&p.At, &p.Since, &p.Until, &p.Begins} {
		if *t = t.UTC(); t.Year() < 0 || t.Year() > 9999 { // it could not be shown as JSON
			return Past{}, false
		}
	}
	if p.Holder != nil {
		if p.Holder.Since = p.Holder.Since.UTC(); p.Holder.Since.Year() < 0 || p.Holder.Since.Year() > 9999 {
			return Past{}, false
		}
	}
	return p, slices.Contains([]string{"held", "free", "elsewhere", "unknown"}, p.State)
}

// Compare orders what journals know of an address at one time: more than 0 if a knows more than b. Of two that know a
// holder, the one that got the address later is the more.
func Compare(a, b *Past) int {
	return cmp.Or(cmp.Compare(a.worth(), b.worth()), a.Since.Compare(b.Since), -a.Begins.Compare(b.Begins))
}

// worth is how much the answer of a journal counts.
func (p *Past) worth() int {
	switch {
	case p.State == "held":
		return 4
	case p.State == "free" && p.Holder != nil: // it tells the last one
		return 3
	case p.State == "free" && p.Owner == "": // it was in its own range
		return 2
	case p.State == "free" || p.State == "elsewhere":
		return 1
	case p.Begins.IsZero(): // it is empty
		return -1
	}
	return 0
}

// span is one use of an address.
type span struct {
	holder      events.Holder
	from, until time.Time // from is zero if nobody knows; until if it lasts
	inferred    bool
}

// Who tells who had an address at a time. It reads all files, for which it takes
// a quarter of a processor, until ctx ends.
func (j *Journal) Who(ctx context.Context, a netip.Addr, at time.Time) (Past, error) {
	p := Past{Address: a, At: at.UTC(), State: "free"}
	var s story
	// Looked up before the files are read: what ends after this is in them.
	holder, held, known := j.heldNow(a)
	now := j.cfg.Owner(a)
	lay := place{at: at, now: now, owner: now}
	err := j.files.read(ctx, leisurely, mayConcern(a, &p.Begins), func(r *record) {
		if p.Begins.IsZero() {
			p.Begins = r.Time
		}
		switch {
		case r.Kind == events.RangeMoved:
			if r.Address.Compare(a) <= 0 && a.Compare(r.Last) <= 0 {
				lay.move(r)
			}
		case r.Kind == events.PoolCreated && r.Pool.Contains(a), r.Kind == events.PoolRemoved && r.Pool.Contains(a):
			lay.border(r)
			s.follow(r)
		case r.Address == a:
			s.follow(r)
		}
	})
	if ctx.Err() != nil {
		return Past{}, context.Cause(ctx)
	}
	if err != nil {
		return Past{}, fmt.Errorf("the journal in %s cannot be read: %w", j.cfg.Dir, err)
	}
	if p.Owner = lay.owner; p.Owner == j.cfg.Self || at.Before(p.Begins) {
		p.Owner = "" // what became of it is in this journal, or nothing is
	}
	if !s.told && held {
		s.spans = append(s.spans, span{holder: holder, from: holder.Since})
	}
	for _, use := range s.spans {
		if use.from.After(at) || use.from.IsZero() && at.Before(p.Begins) {
			continue
		}
		p.Holder, p.Since, p.Until, p.Inferred, p.State = &use.holder, use.from, use.until, use.inferred, "free"
		if use.until.IsZero() || use.until.After(at) {
			p.State = "held"
		}
	}
	if p.State == "free" && p.Owner != "" && p.Owner != "free" && p.Owner != "reserved" {
		p.State = "elsewhere" // nobody knows here
	}
	switch {
	case p.State == "held":
	case p.Begins.IsZero() || at.Before(p.Begins):
		p.State = "unknown"
	case p.State == "free" && (at.Before(s.silence) || !s.told && !known):
		p.State = "unknown"
	}
	return p, nil
}

// place is in whose range an address lay at a time: where the last record before
// that moved it, else whence the next one moved it, else where it lies now. A new
// pool is dealt out to all hosts without a record of whose each range is.
type place struct {
	at    time.Time
	now   string // in whose range it lies now
	owner string
	told  bool // the owner, by a record; what is told of later says no more
}

// move takes in that the address came to lie in another range.
func (p *place) move(r *record) {
	if !r.Time.After(p.at) {
		p.owner, p.told = r.To, true
		if r.ToSelf {
			p.owner = "" // whatever this peer was called then
		}
	} else if !p.told {
		p.owner, p.told = r.From, true
		if r.FromSelf {
			p.owner = ""
		}
	}
}

// border takes in that the address's pool begins or ends: what is on the other
// side of that says nothing.
func (p *place) border(r *record) {
	if !r.Time.After(p.at) {
		p.owner, p.told = p.now, false
	} else if !p.told {
		p.owner, p.told = "", true
	}
}

// heldNow returns who holds an address by what is written down. known is false
// as long as that may lack something.
func (j *Journal) heldNow(a netip.Addr) (h events.Holder, held, known bool) {
	u := j.known.Load()
	if u == nil {
		return h, false, false
	}
	was, held := u.use(a)
	return was.Holder, held, true
}

// mayConcern lets those lines through that may say something of an address,
// and the first of all, since it says when the journal begins.
func mayConcern(a netip.Addr, begins *time.Time) func(line []byte) bool {
	words := [][]byte{[]byte(`"` + a.String() + `"`)}
	for _, kind := range []string{events.RangeMoved, events.PoolCreated, events.PoolRemoved} {
		words = append(words, []byte(`"`+kind+`"`))
	}
	return func(line []byte) bool {
		return begins.IsZero() || slices.ContainsFunc(words, func(word []byte) bool { return bytes.Contains(line, word) })
	}
}

// story is what the records that are kept tell of the uses of an address. What
// held it when they begin is told by the first of them, or, if there is none, by
// who has it now.
type story struct {
	spans   []span
	told    bool      // by a record
	silence time.Time // nothing tells of what was before; zero: all is told
}

// follow takes in what a record says.
func (s *story) follow(r *record) {
	switch r.Kind {
	case events.PoolCreated: // nobody had it before
	case events.Granted, events.Stranger, events.Described:
		s.begin(r)
	case events.Freed, events.Withdrawn, events.PoolRemoved:
		s.end(r)
	default:
		return
	}
	s.told = true
}

// open returns the use that lasts; nil: there is none.
func (s *story) open() *span {
	if n := len(s.spans); n > 0 && s.spans[n-1].until.IsZero() {
		return &s.spans[n-1]
	}
	return nil
}

// begin takes in who has the address.
func (s *story) begin(r *record) {
	if r.Holder == nil {
		return
	}
	from, open := r.Holder.Since, s.open()
	if from.IsZero() || from.After(r.Time) {
		from = r.Time
	}
	switch {
	case open != nil && (r.Kind == events.Described || open.from.Equal(from)): // more is known of the same use
		open.holder = *r.Holder
		return
	case open != nil:
		open.until, open.inferred = from, open.inferred || r.Inferred
	}
	s.spans = append(s.spans, span{holder: *r.Holder, from: from, inferred: r.Inferred && !r.Holder.Since.Equal(from)})
}

// end takes in that nobody has the address any more.
func (s *story) end(r *record) {
	if open := s.open(); open != nil {
		open.until, open.inferred = r.Time, open.inferred || r.Inferred
		return
	}
	if s.told {
		return
	}
	if r.Holder == nil {
		s.silence = r.Time
		return
	}
	from := r.Holder.Since
	if from.After(r.Time) { // somebody has set the clock
		from = time.Time{}
	}
	s.spans = append(s.spans, span{holder: *r.Holder, from: from, until: r.Time, inferred: r.Inferred})
}
