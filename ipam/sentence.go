package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// The sentinels; see package sentence.
var (
	ErrBadRequest        = sentence.ErrBadRequest
	ErrPoolNotFound      = sentence.ErrPoolNotFound
	ErrPoolOverlap       = sentence.ErrPoolOverlap
	ErrPoolInUse         = sentence.ErrPoolInUse
	ErrNoSubnet          = sentence.ErrNoSubnet
	ErrAddressInUse      = sentence.ErrAddressInUse
	ErrAddressReserved   = sentence.ErrAddressReserved
	ErrAddressOutOfRange = sentence.ErrAddressOutOfRange
	ErrAddressNotHeld    = sentence.ErrAddressNotHeld
	ErrPeerNotFound      = sentence.ErrPeerNotFound
	ErrNoAddress         = sentence.ErrNoAddress
	ErrLocked            = sentence.ErrLocked
	ErrNotReady          = sentence.ErrNotReady
	ErrUnreachable       = sentence.ErrUnreachable
	ErrSuspended         = sentence.ErrSuspended
	ErrStopped           = sentence.ErrStopped
)

// Error is a sentinel with the sentence that people read.
type Error = sentence.Error

// Code returns the stable code of an error, "internal" for one that wraps no sentinel.
func Code(err error) string { return sentence.Code(err) }

func failf(kind error, format string, args ...any) error {
	return sentence.Errorf(kind, format, args...)
}

// The methods from here on give sentences what this peer knows.

// awayText says what to do about peers that do not answer.
func (m *Machine) awayText(peers ...peer.ID) string {
	refs := make([]string, len(peers))
	for i, id := range peers {
		if m.members.View().Live(id) {
			return sentence.Slow
		}
		refs[i] = m.refOf(id)
	}
	return sentence.Away(refs...)
}

func (m *Machine) quarantineText(id peer.ID) string {
	return sentence.Quarantined(m.members.View().NameOf(id), m.refOf(id))
}

// errUntold makes a claim wait for a list that shows whether the holder lives.
func (m *Machine) errUntold(p *pool.Pool, o addr.Offset, rec space.Record) error {
	return waitFor(sentence.AddressUntold(m.cfg.Name, p.Pool, addr.Nth(p.CIDR, o), rec.Holder, rec.Since))
}

// refOf names a peer as a command takes it.
func (m *Machine) refOf(id peer.ID) string { return sentence.PeerRef(m.members.View().GoesBy(id), id) }

func (m *Machine) errNameTaken(name string, other *chronicle.Pool) error {
	p := m.pools.On(other.CIDR)
	return sentence.NameTaken(name, other.CIDR, p != nil && p.Here.Networks() == 0 && !p.IsBusy())
}

func (m *Machine) errOverlap(cidr netip.Prefix, p *pool.Pool) error {
	held := uint64(0)
	if p.IsBusy() { // what the host itself has there keeps no pool
		held = m.poolStatus(p, false).HeldHere
	}
	return sentence.PoolOverlaps(cidr, p.Pool, p.Here.Networks(), held)
}

// waitFor makes a call wait, and says what it is told if that was in vain.
func waitFor(late error) error { return sentence.Wait(late) }

// inTime reports whether the call may wait on.
func (m serving) inTime() bool {
	return m.call != nil && m.now.Before(m.call.Deadline)
}

// waitForPeers makes a call wait for peers that were asked, and says what is not known as long as they do not answer.
func (m *Machine) waitForPeers(p *pool.Pool, want wire.Want, in addr.Range, peers []peer.ID) error {
	names, next := sentence.List(m.members.View().NamesOf(peers)), m.awayText(peers...)
	switch want {
	case wire.WantVacant:
		return waitFor(failf(ErrUnreachable, "pool %s may be in use on %s, which did not answer in time: %s", sentence.Pool(p.Pool), names, next))
	case wire.WantExact, wire.WantReserved:
		return waitFor(failf(ErrUnreachable, "address %v in %s is in a range of %s, which did not answer in time, so whether it is in use is not known: choose another address, or %s", addr.Nth(p.CIDR, in.Start), sentence.Pool(p.Pool), names, next))
	case wire.WantSpace:
	}
	return waitFor(failf(ErrUnreachable, "pool %s has free addresses only on %s, which did not answer in time: %s", sentence.Pool(p.Pool), names, next))
}

// waitForSuccession makes a call wait until this peer has taken over the space
// of its former self.
func (m *Machine) waitForSuccession() error {
	return waitFor(failf(ErrNotReady, "ringlet on %s has a new database and waits to take over the addresses of its former self: try again in a moment, and see ringlet status", m.cfg.Name))
}

func (m *Machine) waitForMajority() error { return sentence.WaitThen(m.members.NoMajority) }

// waitForEarlier is waitForMajority where the opposite of what is asked for was asked for before, which
// goes ahead of it. Whoever waits in vain is told, as that is done when nobody thinks of it any more.
func (m *Machine) waitForEarlier() error {
	return sentence.WaitThen(func() error { return sentence.Behind(m.members.NoMajority()) })
}

// staysWanted says of a decision that an operator waited for in vain that it is
// not withdrawn by that, and which command shows it then.
func (m serving) staysWanted(err error, shows string) error {
	if !sentence.Waits(err) || m.inTime() || !m.waitsForDecision() {
		return err
	}
	m.keepWanted()
	return waitFor(sentence.StaysWanted(finalError(err), shows, m.call.partly))
}
