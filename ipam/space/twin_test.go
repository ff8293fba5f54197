package space

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
)

// twin is the slow, obvious Space: maps, and a look at every address.
type twin struct {
	window   addr.Range // all that is ever asked about, at the end of the pool
	remember int
	mine     map[addr.Offset]bool
	aside    map[addr.Offset]bool
	rec      map[addr.Offset]Record
	seq      uint64
}

func newTwin(window addr.Range, remember int) *twin {
	return &twin{
		window: window, remember: remember,
		mine: map[addr.Offset]bool{}, aside: map[addr.Offset]bool{}, rec: map[addr.Offset]Record{},
	}
}

// each yields the addresses of r that are in the window.
func (w *twin) each(r addr.Range) func(func(addr.Offset) bool) {
	return func(yield func(addr.Offset) bool) {
		r = r.Intersect(w.window)
		for o := r.Start; o < r.End; o++ {
			if !yield(o) {
				return
			}
		}
	}
}

func (w *twin) usable(o addr.Offset) bool { return w.mine[o] && !w.aside[o] }

func (w *twin) own(r addr.Range) {
	for o := range w.each(r) {
		w.mine[o] = true
	}
}

func (w *twin) disown(r addr.Range) (held []addr.Offset) {
	for o := range w.each(r) {
		if w.mine[o] && w.rec[o].State == Held {
			held = append(held, o)
		}
		if w.rec[o].State == Freed {
			delete(w.rec, o)
		}
		delete(w.mine, o)
	}
	return held
}

func (w *twin) setAside(r addr.Range, on bool) {
	for o := range w.each(r) {
		w.aside[o] = on
	}
}

// queue returns the freed addresses in r, least recently freed first.
func (w *twin) queue(r addr.Range) []addr.Offset {
	var list []addr.Offset
	for o := range w.each(r) {
		if w.rec[o].State == Freed {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b addr.Offset) int { return cmp.Compare(w.rec[a].Seq, w.rec[b].Seq) })
	return list
}

func (w *twin) count(is func(addr.Offset) bool) (n addr.Count) {
	for o := range w.each(w.window) {
		if is(o) {
			n++
		}
	}
	return n
}

func (w *twin) hold(o addr.Offset, h Holder, now time.Time) granting {
	w.seq++
	g := granting{Offset: o, Before: w.rec[o], Record: Record{Holder: h, Since: now.UnixNano(), Seq: w.seq, State: Held}}
	w.rec[o] = g.Record
	return g
}

func (w *twin) take(want addr.Range, h Holder, now time.Time, rest time.Duration) (granting, bool) {
	usable := slices.DeleteFunc(w.queue(want), func(o addr.Offset) bool { return !w.usable(o) })
	if len(w.queue(w.window)) > w.remember && len(usable) > 0 && w.rec[usable[0]].Rested(now, rest) {
		return w.hold(usable[0], h, now), true
	}
	for o := range w.each(want) {
		if w.usable(o) && w.rec[o].State == Unused {
			return w.hold(o, h, now), true
		}
	}
	if len(usable) == 0 {
		return granting{}, false
	}
	pressed := !w.rec[usable[0]].Rested(now, rest)
	g := w.hold(usable[0], h, now)
	g.Pressed = pressed
	return g, true
}

func (w *twin) claim(o addr.Offset, h Holder, now time.Time) (granting, Outcome) {
	switch {
	case w.rec[o].State == Held:
		return granting{}, InUse
	case !w.mine[o]:
		return granting{}, NotMine
	case w.aside[o]:
		return granting{}, SetAside
	}
	return w.hold(o, h, now), Taken
}

func (w *twin) free(o addr.Offset, now time.Time) (Record, bool) {
	r := w.rec[o]
	switch {
	case r.State != Held:
		return r, false
	case !w.mine[o]:
		delete(w.rec, o)
		return Record{}, true
	}
	w.seq++
	r.State, r.Seq, r.Since = Freed, w.seq, now.UnixNano()
	w.rec[o] = r
	return r, true
}

func (w *twin) withdraw(g granting) (Record, bool) {
	if r := w.rec[g.Offset]; r.State != Held || r.Seq != g.Record.Seq {
		return r, false
	}
	delete(w.rec, g.Offset)
	if g.Before.State == Freed && w.mine[g.Offset] {
		w.rec[g.Offset] = g.Before
	}
	return w.rec[g.Offset], true
}

func (w *twin) describe(o addr.Offset, h Holder) (Record, bool) {
	r := w.rec[o]
	if r.State != Held {
		return r, false
	}
	r.Holder = h
	w.rec[o] = r
	return r, true
}

// byKey returns the address with the highest Seq of those with the key that
// are in the state, and usable if they are free.
func (w *twin) byKey(k Key, st State) (best addr.Offset, ok bool) {
	for o, r := range w.rec {
		if k != NoKey && r.Key == k && r.State == st && (st == Held || w.usable(o)) && (!ok || r.Seq > w.rec[best].Seq) {
			best, ok = o, true
		}
	}
	return best, ok
}

// vacant returns the longest runs of usable addresses in want that are neither
// held nor, if quiet is set, resting.
func (w *twin) vacant(want addr.Range, quiet bool, now time.Time, rest time.Duration) []addr.Range {
	var runs []addr.Range
	for o := range w.each(want) {
		r := w.rec[o]
		if !w.usable(o) || r.State == Held || quiet && r.State == Freed && !r.Rested(now, rest) {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].End == o {
			runs[n-1].End++
		} else {
			runs = append(runs, addr.One(o))
		}
	}
	return runs
}

// compare reports how the space and its twin differ in what they say of all
// addresses, if at all.
func (w *twin) compare(s *Space, now time.Time, rest time.Duration) error {
	if err := s.Check(); err != nil {
		return err
	}
	for o := range w.each(w.window) {
		if kind, held := s.Holds(o); held != (w.rec[o].State == Held) || held && kind != w.rec[o].Kind {
			return fmt.Errorf("%d is held: %v, by kind %v, want %+v", o, held, kind, w.rec[o])
		}
		if got, want := s.Lookup(o), w.rec[o]; got != want {
			return fmt.Errorf("record of %d is %v, want %v", o, got, want)
		}
		if s.Mine(o) != w.mine[o] || s.Usable(o) != w.usable(o) {
			return fmt.Errorf("%d: mine %v, usable %v, want %v, %v", o, s.Mine(o), s.Usable(o), w.mine[o], w.usable(o))
		}
	}
	if got := maps.Collect(s.Records(s.pool())); !maps.Equal(got, w.rec) {
		return fmt.Errorf("all records are %v, want %v", got, w.rec)
	}
	var got, want []string
	for o, kind := range s.Kinds() {
		got = append(got, fmt.Sprint(o, kind))
	}
	for _, o := range slices.Sorted(maps.Keys(w.rec)) {
		if rec := w.rec[o]; rec.State == Held {
			want = append(want, fmt.Sprint(o, rec.Kind))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("held are %v, want %v", got, want)
	}
	var queue []addr.Offset
	for o := range s.Queue() {
		queue = append(queue, o)
	}
	if want := w.queue(w.window); !slices.Equal(queue, want) {
		return fmt.Errorf("queue is %v, want %v", queue, want)
	}
	is := func(st State) func(addr.Offset) bool {
		return func(o addr.Offset) bool { return w.rec[o].State == st }
	}
	for _, c := range []struct {
		name      string
		got, want addr.Count
	}{
		{"owned", s.Owned(), w.count(func(o addr.Offset) bool { return w.mine[o] })},
		{"held", s.Held(), w.count(is(Held))},
		{"freed", s.Freed(), w.count(is(Freed))},
		{"strays", s.Strays(), w.count(func(o addr.Offset) bool { return is(Held)(o) && !w.mine[o] })},
		{"unused", s.Unused(), w.count(func(o addr.Offset) bool { return is(Unused)(o) && w.mine[o] })},
		{"resting", s.Resting(now, rest), w.count(func(o addr.Offset) bool { return is(Freed)(o) && !w.rec[o].Rested(now, rest) })},
	} {
		if c.got != c.want {
			return fmt.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	return nil
}
