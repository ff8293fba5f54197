package journal

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/plugin/events"
)

// Past is what is known of an address at a time.
type Past struct {
	Address netip.Addr     `json:"address"`
	At      time.Time      `json:"at"`
	State   string         `json:"state"`            // held, free, elsewhere: in another peer's range, or unknown: the journal does not reach back so far
	Holder  *events.Holder `json:"holder,omitempty"` // who held it, or before that, if it was free
	Since   time.Time      `json:"since,omitzero"`   // the holder had it
	Until   time.Time      `json:"until,omitzero"`   // the holder had it; missing: it still has
	Late    bool           `json:"late,omitempty"`   // one of these times was found out afterwards: it was so then at the latest
	Owner   string         `json:"owner,omitempty"`  // whose range it lay in, if it was another's: a peer's name, free or reserved; missing also if it has not changed hands since the journal begins
	Begins  time.Time      `json:"begins,omitzero"`  // the journal; missing: it is empty
}

// span is one use of an address.
type span struct {
	holder      events.Holder
	from, until time.Time
	late        bool
}

// Who tells who had an address at a time.
func (j *Journal) Who(a netip.Addr, at time.Time) (Past, error) {
	p := Past{Address: a, At: at.UTC(), State: "free"}
	var spans []span
	err := j.files.read(mayConcern(a, &p.Begins), func(r *record) {
		if p.Begins.IsZero() {
			p.Begins = r.Time
		}
		switch {
		case r.Kind == events.RangeMoved:
			if !r.Time.After(at) && r.Address.Compare(a) <= 0 && a.Compare(r.Last) <= 0 {
				p.Owner = r.To
				if p.Owner == j.cfg.Self {
					p.Owner = "" // what became of it is in this journal
				}
			}
		case r.Kind == events.PoolRemoved && r.Pool.Contains(a), r.Address == a:
			spans = follow(spans, r)
		}
	})
	if err != nil {
		return Past{}, fmt.Errorf("the journal in %s cannot be read: %w", j.cfg.Dir, err)
	}
	for _, s := range spans {
		if s.from.After(at) {
			continue
		}
		p.Holder, p.Since, p.Until, p.Late, p.State = &s.holder, s.from, s.until, s.late, "free"
		if s.until.IsZero() || s.until.After(at) {
			p.State = "held"
		}
	}
	if p.State == "free" && p.Owner != "" && p.Owner != "free" && p.Owner != "reserved" {
		p.State = "elsewhere" // nobody knows here
	}
	if p.State != "held" && (p.Begins.IsZero() || at.Before(p.Begins)) {
		p.State = "unknown"
	}
	return p, nil
}

// mayConcern lets those lines through that may say something of an address,
// and the first of all, since it says when the journal begins.
func mayConcern(a netip.Addr, begins *time.Time) func(line []byte) bool {
	text := []byte(`"` + a.String() + `"`)
	return func(line []byte) bool {
		return begins.IsZero() || bytes.Contains(line, text) || bytes.Contains(line, []byte(`"`+events.RangeMoved+`"`)) || bytes.Contains(line, []byte(`"`+events.PoolRemoved+`"`))
	}
}

// follow takes in what a record says of the uses of an address.
func follow(spans []span, r *record) []span {
	var open *span
	if n := len(spans); n > 0 && spans[n-1].until.IsZero() {
		open = &spans[n-1]
	}
	switch r.Kind {
	case events.Described:
		if open != nil && r.Holder != nil {
			open.holder = *r.Holder
			return spans
		}
	case events.Freed, events.Withdrawn, events.PoolRemoved:
		if open != nil {
			open.until, open.late = r.Time, open.late || r.Late
		}
		return spans
	case events.Granted, events.Stranger:
	default:
		return spans
	}
	if r.Holder == nil {
		return spans
	}
	from := r.Holder.Since
	if from.IsZero() || from.After(r.Time) {
		from = r.Time
	}
	if open != nil {
		if open.from.Equal(from) { // more is known of the same use
			open.holder = *r.Holder
			return spans
		}
		open.until, open.late = from, open.late || r.Late
	}
	return append(spans, span{holder: *r.Holder, from: from, late: r.Late && !r.Holder.Since.Equal(from)})
}
