package survey

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/report"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// reconcileMissing looks for held addresses that no endpoint has, and reports whether there are some that must be looked for
// again. What is freed, and kept back by a network, is reserved.
func (s *Survey) reconcileMissing(p *pool.Pool, l *sight) (again bool) {
	var free []addr.Offset
	for o, kind := range p.Space.Kinds() {
		if !kind.OfEndpoint() || p.Shows(o) {
			continue
		}
		rec := p.Space.Lookup(o)
		if !l.mark.Knows(rec.Seq) && !s.pools.Lacks(rule.Serials) || l.mark.At.Before(s.pools.HeldSince(&rec).Add(s.pools.Grace)) {
			again = true // too young to tell
			continue
		}
		first, news := p.Missing.Since(o, l.mark.At)
		if news {
			p.Note(effect.NoteLeakFound, o, rec.Holder, rec.Since)
		}
		if l.mark.At.Sub(s.pools.Engine.SureSince(first)) < s.pools.Grace && !s.pools.Lacks(rule.TwoLists) {
			again = true
			continue
		}
		free = append(free, o)
	}
	for _, o := range free {
		s.FreeGone(p, o, p.Here.Kept)
	}
	return again
}

// FreeGone frees the held address at o, whose holder is gone as a list tells: to the network that keeps it back, by the same
// list, or to the host if it has that itself, or to all.
func (s *Survey) FreeGone(p *pool.Pool, o addr.Offset, kept map[addr.Offset]chronicle.Kind) {
	rec := p.Space.Lookup(o)
	p.Free(o)
	p.Note(effect.NoteLeakMended, o, rec.Holder, rec.Since)
	if kind, keeps := kept[o]; keeps {
		_ = s.acts.KeepBack(p, o, kind) // the next list tells if that is in vain
	} else {
		p.SettleAt(addr.One(o))
	}
}

// resolveDoubts frees what a list tells to be released, and forgets the doubts that are over.
func (s *Survey) resolveDoubts(l *sight) {
	judge := func(a netip.Addr) (absent, frees bool) { return s.absent(a, l) }
	s.pools.Doubts.Resolve(l.mark, judge, func(a netip.Addr) {
		p := s.pools.At(a)
		o, _ := addr.OffsetOf(p.CIDR, a)
		s.FreeGone(p, o, l.on[p].kept)
	})
}

// absent reports whether an address in doubt is held by a container that the list does not have, and whether an earlier list
// had it. A list alone frees no container that none has shown: it may be starting.
func (s *Survey) absent(a netip.Addr, l *sight) (absent, known bool) {
	p := s.pools.At(a)
	if p == nil {
		return false, false
	}
	o, _ := addr.OffsetOf(p.CIDR, a)
	if _, lives := l.on[p].seen[o]; lives || !p.HasEndpoint(o) {
		return false, false
	}
	shown := p.Space.Lookup(o).Ref != "" || s.pools.Lacks(rule.Shown)
	return true, l.on[p].seen != nil && shown && p.Space.Usable(o)
}

// MayCollect says whether a leak that was found may be freed.
func (s *Survey) MayCollect(p *pool.Pool, o addr.Offset, f report.Finding) (outcome, why string) {
	rec := p.Space.Lookup(o)
	first, missing := p.Missing[o]
	since := time.Unix(0, rec.Since)
	switch {
	case rec.State != space.Held:
		return report.CollectedFree, "it is no longer in use"
	case !rec.Kind.OfEndpoint():
		return report.CollectedKept, "it is held by " + s.pools.HolderText(rec.Holder, rec.Since)
	case !since.Equal(f.Since) || rec.Ref != f.Container || rec.Name != f.Name:
		return report.CollectedKept, "another holder has it since that report: " + s.pools.HolderText(rec.Holder, rec.Since)
	case p.Shows(o) || !missing:
		return report.CollectedKept, "the engine's last list has it"
	case s.pools.Out.Now().Sub(s.pools.HeldSince(&rec)) < s.pools.Grace:
		return report.CollectedKept, fmt.Sprintf("it is younger than %v: its container may be starting", s.pools.Grace)
	case s.pools.Engine.Complete().At.Sub(s.pools.Engine.SureSince(first)) < s.pools.Grace:
		return report.CollectedKept, fmt.Sprintf("the engine's lists have lacked it for less than %v: try again after that", s.pools.Grace)
	}
	return report.CollectedFreed, strings.TrimSpace("the engine's lists have lacked it since " + sentence.Date(first.UnixNano()))
}
