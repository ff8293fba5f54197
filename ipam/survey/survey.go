// Package survey compares what this host's engine lists, and what the interfaces of the host have, with what is held in the
// pools: what is in use is held, what is gone is freed, and what cannot both be right is a conflict.
//
// The package refuses to know how space is brought here, how commands are decided, which other peers live, and which
// requests wait: [Acts] does what it finds to be done.
package survey

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
)

// Acts is what a survey has done for what it finds, and what it asks about others. Where an error of Join, Borrow or KeepBack
// waits ([sentence.Waits]), a later list may find none.
type Acts struct {
	// Join returns the pool with just that subnet, and has one made if there is none.
	Join func(subnet netip.Prefix) (*pool.Pool, error)
	// Borrow makes an address this peer's, which the reservation, if there is one, keeps for a name.
	Borrow func(*pool.Pool, addr.Offset, *chronicle.Reservation) error
	// Take hands out an address that is this peer's and free.
	Take func(*pool.Pool, addr.Offset, *space.Holder) error
	// KeepBack has an address reserved for the networks of this host.
	KeepBack func(*pool.Pool, addr.Offset, chronicle.Kind) error
	// LeaveUnused does what follows when a pool may have lost its last network.
	LeaveUnused func(*pool.Pool)

	HasPlace func() bool // this peer is in its cluster, for good, and has nobody to inherit from
	IsLive   func(peer.ID) bool
	GivesUp  func(*pool.Pool) bool // this peer has given the pool up, or is about to
	// StillOthers reports whether an address is another peer's for now, as that error of Borrow or KeepBack says.
	StillOthers func(*pool.Pool, addr.Offset, error) bool
	// OthersUse says why the owner of an address refuses it, and what ends that.
	OthersUse func(*pool.Pool, addr.Offset, error) (why, other string)
}

// Survey is what the last list of the engine came to. Use [New].
type Survey struct {
	pools *pool.Pools
	acts  Acts

	whole      bool // a list is being taken in that is complete
	incomplete bool // the last one could not be taken in whole
	unanswered bool // an owner has yet to say who has what a network keeps back by that
	// Untaken says that what this host keeps back was another's when it was last looked.
	Untaken bool
}

// New returns a survey of the pools.
func New(pools *pool.Pools, acts Acts) *Survey { return &Survey{pools: pools, acts: acts} }

// IsWhole reports whether a complete list is being taken in.
func (s *Survey) IsWhole() bool { return s.whole }
