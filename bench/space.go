package main

import (
	"net/netip"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/space"
)

// spaces is as the reference is, with ringlet's space in place of the bitmap: a lock, pools by ID, addresses, and a
// record of each holder, by whose name the address is found again. It is what the prototypes behind G1 and G2 did; the
// core has checks, echoes, notes and records for the disk beside that.
type spaces struct {
	mu    sync.Mutex
	pools map[string]*spacePool
	now   time.Time
	seed  space.Seed
	names []string
	first int
	next  int
	h     space.Holder
	past  space.Past
	freed space.Freeing
}

type spacePool struct {
	base  netip.Prefix
	space *space.Space
}

func newSpaces(pool string) *spaces {
	base := netip.MustParsePrefix(pool)
	s := space.New(addr.Size(base))
	last := addr.Offset(addr.Size(base)) - 1
	s.Own(addr.Range{Start: 1, End: last})
	return &spaces{
		pools: map[string]*spacePool{pool: {base, s}},
		now:   time.Unix(1_700_000_000, 0),
		seed:  space.SeedOf("container", pool),
		names: containers(),
		h:     space.Holder{Kind: space.Container, MAC: [6]byte{2, 0x42, 10, 1, 2, 3}},
	}
}

// allocate takes any address, or a certain one, for a container of a new name.
func (s *spaces) allocate(pool string, want netip.Addr) (netip.Prefix, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[pool]
	if p == nil {
		return netip.Prefix{}, errFull
	}
	if s.next++; s.next >= len(s.names) {
		s.next = s.first
	}
	s.now = s.now.Add(time.Millisecond)
	s.h.Name = s.names[s.next]
	s.h.Key = s.seed.KeyOf(s.h.Name)
	p.space.Ahead(addr.Whole(p.base), s.h.Key)
	var g space.Grant
	out, ok := space.Taken, true
	if o, named := addr.OffsetOf(p.base, want); named {
		g, out = p.space.Claim(o, &s.h, s.now, &s.past)
	} else if former := p.space.Find(s.h.Key); former.IsFormer {
		g, out = p.space.Claim(former.Former, &s.h, s.now, &s.past)
	} else {
		g, ok = p.space.Take(addr.Whole(p.base), &s.h, s.now, 5*time.Minute, &s.past)
	}
	if !ok || out != space.Taken {
		return netip.Prefix{}, errFull
	}
	return netip.PrefixFrom(addr.Nth(p.base, g.Offset), p.base.Bits()), nil
}

func (s *spaces) free(pool string, a netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[pool]
	if p == nil {
		return errFull
	}
	o, ok := addr.OffsetOf(p.base, a)
	s.freed = space.Freeing{}
	if !ok || !p.space.Free(o, s.now, &s.freed) {
		return errFull
	}
	return nil
}

// occupy has as much held as f says, by containers that keep their names to themselves.
func (s *spaces) occupy(f fill) error {
	base := netip.MustParsePrefix(f.pool).Addr()
	held, _ := f.shuffled()
	for _, o := range held {
		if _, err := s.allocate(f.pool, nth(base, o)); err != nil {
			return err
		}
	}
	s.first = s.next + 1
	return nil
}

// pairs allocates and frees n times.
func (s *spaces) pairs(pool string, n int) error {
	for range n {
		a, err := s.allocate(pool, netip.Addr{})
		if err != nil {
			return err
		}
		if err := s.free(pool, a.Addr()); err != nil {
			return err
		}
	}
	return nil
}
