package space

import (
	"fmt"
	"time"
)

// Kind says what holds an address. The numbers are written to disk.
type Kind uint8

// The kinds of holders.
const (
	Container Kind = 1 // a container's endpoint
	Gateway   Kind = 2 // a network's gateway on this host
	Unmarked  Kind = 3 // the engine asked and did not say for what
	Client    Kind = 4 // a client of the API, known by its own ID
	Host      Kind = 5 // an interface of the host itself
	Stranger  Kind = 6 // something else on the network, known by its MAC
	Kept      Kind = 7 // nobody: it waits for whom it is kept for
)

// OfHost reports whether what holds an address is the host itself, or something that it keeps the address back for:
// nothing that was started on it.
func (k Kind) OfHost() bool { return k == Host || k == Gateway || k == Stranger || k == Kept }

// OfEndpoint reports whether what holds an address is an endpoint of the engine.
func (k Kind) OfEndpoint() bool { return k == Container || k == Unmarked }

// String returns the kind as status shows it.
func (k Kind) String() string {
	switch k {
	case Container:
		return "container"
	case Gateway:
		return "gateway"
	case Unmarked:
		return "unmarked"
	case Client:
		return "client"
	case Host:
		return "host"
	case Stranger:
		return "stranger"
	case Kept:
		return "kept"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Holder is who holds an address, as far as it is known. It is a value; its
// strings are shared with the caller's.
type Holder struct {
	Name    string  // name of the container, or empty
	Ref     string  // ID of the container, or of the client, or empty
	Key     Key     // what the address sticks to, NoKey for nothing
	Network uint32  // the caller's number of a network, not interpreted
	MAC     [6]byte // all zero if unknown
	Kind    Kind
}

// State is the state of an address of which there may be a record. The
// numbers are written to disk.
type State uint8

// The states of an address.
const (
	Unused State = 0 // no record: never used, or no longer remembered
	Held   State = 1 // held
	Freed  State = 2 // was held, and is free
)

// String returns the state in one word.
func (s State) String() string {
	switch s {
	case Unused:
		return "unused"
	case Held:
		return "held"
	case Freed:
		return "freed"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Record is what is known of one address: the state, since when, and the
// holder, which is the last one if the address is free. The zero Record is
// that of an unused address.
type Record struct {
	Holder
	Since int64  // start of the state, in nanoseconds since 1970
	Seq   uint64 // number of the Take, Claim or Free that began the state, rising in all spaces that count together
	State State
}

// Rested reports whether an address freed at r.Since has rested for all of
// rest at the time now.
func (r Record) Rested(now time.Time, rest time.Duration) bool {
	return rested(r.Since, now.UnixNano(), rest)
}

// rested is [Record.Rested] in nanoseconds. What seems to begin later than a rest
// from now has a time from a clock that was ahead, by years perhaps, and nobody knows
// since when it rests: it must not do so until then. The subtraction cannot overflow,
// for now is not negative, nor the addition in the next two centuries; since comes from
// disk and may be anything.
func rested(since, now int64, rest time.Duration) bool {
	return since <= now-int64(rest) || since > now+int64(rest)
}
