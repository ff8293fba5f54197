package sentence

import (
	"errors"
	"fmt"
)

// Sentinels: what can be wrong with a request. Every error that the core
// answers wraps exactly one of them; its text is a sentence for the person at
// the terminal. Codes are stable: scripts and the API rely on them.
var (
	ErrBadRequest        = errors.New("bad-request")          // a request makes no sense by itself
	ErrPoolNotFound      = errors.New("pool-not-found")       // a pool is named that does not exist
	ErrPoolOverlap       = errors.New("pool-overlap")         // a new pool would overlap another
	ErrPoolInUse         = errors.New("pool-in-use")          // a pool that is to go still holds addresses
	ErrNoSubnet          = errors.New("no-subnet")            // no subnet is left to choose
	ErrAddressInUse      = errors.New("address-in-use")       // somebody else holds the address
	ErrAddressReserved   = errors.New("address-reserved")     // the address is kept back
	ErrAddressOutOfRange = errors.New("address-out-of-range") // the address lies outside the pool
	ErrAddressNotHeld    = errors.New("address-not-held")     // an address that is asked about is not held
	ErrPeerNotFound      = errors.New("peer-not-found")       // a peer is named that does not exist
	ErrNoAddress         = errors.New("no-address")           // the wanted part of a pool is full
	ErrLocked            = errors.New("locked")               // somebody else has the lock, or no more can be held
	ErrNotReady          = errors.New("not-ready")            // the deadline passed before the cluster could decide what the request needed
	ErrUnreachable       = errors.New("unreachable")          // the deadline passed before peers that are needed could be reached
	ErrSuspended         = errors.New("suspended")            // this peer has stopped handing out
	ErrStopped           = errors.New("stopped")              // the process is going down, or its disk failed
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

// Waits reports whether the cause of a refusal may pass.
func Waits(err error) bool {
	_, ok := errors.AsType[*WaitError](err)
	return ok
}

// Late returns the answer when the call's time is over.
func (e *WaitError) Late() error { return e.late() }

// Error returns the sentence of that answer.
func (e *WaitError) Error() string { return e.late().Error() }
