package sentence

import (
	"errors"
	"fmt"
)

// Sentinels: what can be wrong with a request. Every error that the core
// answers wraps exactly one of them; its text is a sentence for the person at
// the terminal. Codes are stable: scripts and the API rely on them.
var (
	// ErrBadRequest is returned when a request makes no sense by itself.
	ErrBadRequest = errors.New("bad-request")
	// ErrPoolNotFound is returned when a pool is named that does not exist.
	ErrPoolNotFound = errors.New("pool-not-found")
	// ErrPoolOverlap is returned when a new pool would overlap another.
	ErrPoolOverlap = errors.New("pool-overlap")
	// ErrPoolInUse is returned when a pool that is to go still holds addresses.
	ErrPoolInUse = errors.New("pool-in-use")
	// ErrNoSubnet is returned when no subnet is left to choose.
	ErrNoSubnet = errors.New("no-subnet")
	// ErrAddressInUse is returned when somebody else holds the address.
	ErrAddressInUse = errors.New("address-in-use")
	// ErrAddressReserved is returned when the address is kept back.
	ErrAddressReserved = errors.New("address-reserved")
	// ErrAddressOutOfRange is returned when the address lies outside the pool.
	ErrAddressOutOfRange = errors.New("address-out-of-range")
	// ErrAddressNotHeld is returned when an address that is asked about is not held.
	ErrAddressNotHeld = errors.New("address-not-held")
	// ErrPeerNotFound is returned when a peer is named that does not exist.
	ErrPeerNotFound = errors.New("peer-not-found")
	// ErrNoAddress is returned when the wanted part of a pool is full.
	ErrNoAddress = errors.New("no-address")
	// ErrLocked is returned when somebody else has the lock, or no more can be held.
	ErrLocked = errors.New("locked")
	// ErrNotReady is returned when the deadline passed before the cluster
	// could decide what the request needed.
	ErrNotReady = errors.New("not-ready")
	// ErrUnreachable is returned when the deadline passed before peers that are
	// needed could be reached.
	ErrUnreachable = errors.New("unreachable")
	// ErrSuspended is returned when this peer has stopped handing out.
	ErrSuspended = errors.New("suspended")
	// ErrStopped is returned when the process is going down, or its disk failed.
	ErrStopped = errors.New("stopped")
)

// Error is a sentinel with the sentence that people read.
type Error struct {
	Kind error  // one of the sentinels
	Text string // lower-case, without full stop
}

// Errorf returns an [Error] of that kind.
func Errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Kind }

// Code returns the stable code of an error, "internal" for one that wraps no
// sentinel.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind.Error()
	}
	return "internal"
}

// WaitError is a refusal whose cause may pass by itself: a call that gets it waits, and is served again when something has happened.
type WaitError struct{ late func() error }

// Wait returns a refusal whose cause may pass.
func Wait(late error) error { return WaitThen(func() error { return late }) }

// WaitThen is Wait with an answer that is made when it is needed: many calls wait, and each is served again with each decision.
func WaitThen(late func() error) error { return &WaitError{late} }

// Late returns the answer when the call's time is over.
func (e *WaitError) Late() error { return e.late() }

// Error returns the sentence of that answer.
func (e *WaitError) Error() string { return e.late().Error() }
