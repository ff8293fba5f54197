package ipamtest

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
)

// Operation is what a locker asked for, and what it was told, in true time since the beginning.
type Operation struct {
	Who          string // one locker, which never has two operations at once
	Address      netip.Addr
	Frees        bool // else it claims
	Sure         bool // of one that frees: it was told before that it has the address
	Call, Return time.Duration
	Answer       Answer
}

// Answer is what a locker was told.
type Answer uint8

// The answers. An operation that failed for any other reason than that another holder has the address, such as a majority that
// cannot be reached, has no effect and is not reported.
const (
	Done    Answer = iota // it has the address, or has it no more
	InUse                 // another holder has it
	Unknown               // the process ended before it answered: it was done, or not
)

// locker is a holder outside Docker that takes one of a few addresses, which all lockers of all hosts want and nobody else, and
// lets it go again. It is told everything that can be known, so that what all of them are told can be compared with a lock for each
// address.
type locker struct {
	s       *site
	name    string
	address netip.Addr // valid: it has it, or may have it
	sure    bool       // it has it
	busy    bool
	lost    bool // the database was lost while it was busy
}

// lockable is how many addresses the lockers want.
const lockable = 4

func (s *site) addLockers() {
	for i := range s.c.w.Lockers {
		l := &locker{s: s, name: fmt.Sprintf("locker-%s%d", s, i)}
		s.lockers = append(s.lockers, l)
		s.c.after(s.c.about(s.c.w.Pace), l.turn)
	}
}

// turn does the next thing, again and again.
func (l *locker) turn() {
	c := l.s.c
	if c.calm {
		return
	}
	c.after(c.about(c.w.Pace), l.turn)
	switch {
	case l.busy || l.s.machine == nil:
	case l.address.IsValid():
		l.unlock()
	default:
		l.lock()
	}
}

// lock claims an address.
func (l *locker) lock() {
	c := l.s.c
	// No network takes any of the upper half of the pool, and behind its middle lie those that are popular with everybody.
	pool := c.w.Subnets[0]
	l.busy, l.address = true, addr.Nth(pool, addr.Offset(addr.Size(pool)*3/4)+addr.Offset(c.rnd.IntN(lockable)))
	op := Operation{Who: l.name, Address: l.address, Call: c.now}
	l.s.call(&ipam.ClientRequest{Pool: pool.String(), ID: l.name, Address: l.address}, func(r ipam.Reply, ok bool) {
		ok = ok && !l.lost
		l.busy, l.lost = false, false
		switch {
		case !ok:
			op.Answer = Unknown
		case r.Err == nil:
			l.sure = true
			c.oracle.uses(l.s, l.address, l.name)
		case errors.Is(r.Err, ipam.ErrAddressInUse):
			op.Answer, l.address = InUse, netip.Addr{}
		default:
			l.address = netip.Addr{}
			return
		}
		c.observe(op)
	})
}

// unlock frees the address that it has, or may have, and does so again until it is told that this is done.
func (l *locker) unlock() {
	c := l.s.c
	op := Operation{Who: l.name, Address: l.address, Frees: true, Sure: l.sure, Call: c.now}
	if l.sure {
		c.oracle.leaves(l.s, l.address, l.name)
	}
	l.busy, l.sure = true, false
	l.s.call(&ipam.FreeRequest{ID: l.name}, func(r ipam.Reply, ok bool) {
		ok = ok && !l.lost
		l.busy, l.lost = false, false
		if ok && r.Err == nil {
			l.address = netip.Addr{}
		} else {
			op.Answer = Unknown
		}
		c.observe(op)
	})
}

// bereave ends what the host's lockers have: it was in the database alone.
func (s *site) bereave() {
	for _, l := range s.lockers {
		if l.sure {
			s.c.oracle.leaves(s, l.address, l.name)
		}
		if l.address.IsValid() && !l.busy {
			s.c.observe(Operation{Who: l.name, Address: l.address, Frees: true, Sure: l.sure, Call: s.c.now})
			l.address = netip.Addr{}
		}
		l.sure, l.lost = false, l.busy
	}
}

// unlockAll frees what the host's lockers have, once all is over.
func (s *site) unlockAll() {
	for _, l := range s.lockers {
		if l.sure {
			s.c.oracle.leaves(s, l.address, l.name)
		}
		l.sure = false
		s.c.ask(s, &ipam.FreeRequest{ID: l.name})
	}
}

// observe reports an operation that has returned.
func (c *cluster) observe(op Operation) {
	op.Return = c.now
	if c.o.Observe != nil {
		c.o.Observe(op)
	}
}
