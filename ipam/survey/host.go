package survey

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// leaveToListed frees what the host had itself, and leaves it to a container that has it, too, by the engine's last list.
func (s *Survey) leaveToListed(p *pool.Pool, o addr.Offset) {
	ref, lives := p.Seen[o]
	p.Free(o)
	if lives {
		p.Seen[o] = ref
	}
	p.SettleAt(addr.One(o))
}

// TakeHost compares the addresses that the host itself has, as they were read at that time, with what is held. An engine
// does not list the gateways of its bridges among its endpoints, and knows nothing of the host's own address on a LAN that
// containers share with it.
func (s *Survey) TakeHost(read time.Time) {
	s.pools.ForgetHostConflicts()
	for _, p := range s.pools.Sorted() {
		s.Host(p)
		for o, kind := range p.Space.Kinds() {
			if kind != space.Host || s.pools.Engine.OnHost(addr.Nth(p.CIDR, o)) {
				continue
			}
			// Interfaces come and go while networks are made again; a bridge without a network does not.
			first, _ := p.OffHost.Since(o, read)
			if read.Sub(s.pools.Engine.SureSince(first)) >= s.pools.Grace || p.Space.Lookup(o).Key == pool.GatewayKey() {
				s.leaveToListed(p, o)
			}
		}
	}
}

// Host holds those of the host's addresses that lie in the pool.
func (s *Survey) Host(p *pool.Pool) {
	p.Untaken = false
	if s.acts.GivesUp(p) {
		return
	}
	for _, a := range s.pools.Engine.Host() {
		o, ok := addr.OffsetOf(p.CIDR, a.Addr())
		if !ok {
			continue
		}
		r := p.ReservationAt(o)
		if !pool.IsHoldable(r) {
			continue
		}
		rec := p.Space.Lookup(o)
		switch {
		case rec.State != space.Held || rec.Kind == space.Stranger || rec.Kind == space.Kept:
			if p.Space.Mine(o) {
				p.DismissStranger(o)
			}
			err := s.acts.Borrow(p, o, r)
			if err == nil {
				p.DismissWarned(o)
				_ = s.acts.Take(p, o, &space.Holder{Kind: space.Host}) // what is mine and not held can be taken
			}
			p.Untaken = p.Untaken || s.acts.StillOthers(p, o, err)
		case rec.Kind == space.Host:
			delete(p.OffHost, o)
		case rec.Kind == space.Gateway, rec.Kind == space.Client: // a client may have got it for an interface of this host
		case s.pools.Lacks(rule.Standing):
			p.Free(o)
			_ = s.acts.Take(p, o, &space.Holder{Kind: space.Host})
		default: // a grant stands (R64)
			host, why := space.Holder{Kind: space.Host}, "is held by "+s.pools.HolderText(rec.Holder, rec.Since)
			p.Dispute(o, host, s.pools.Out.Nanos(), why, sentence.End(host, addr.Nth(p.CIDR, o)), p.EndOf(o, rec.Holder, rec.Since))
		}
	}
}
