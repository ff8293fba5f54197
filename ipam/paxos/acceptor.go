package paxos

import (
	"bytes"
	"fmt"
)

// Acceptor is what one voter remembers of one slot. Its zero value has
// promised and accepted nothing and is ready to use. It is not safe for
// concurrent use.
//
// The caller writes the struct to disk as it is, and does so BEFORE the answer
// leaves: a promise that a restart forgets lets two values be decided. An
// answer to a call that changed nothing still waits for the writes of the
// calls before it, because it may repeat what they promised. A [Refusal]
// promises nothing and need not wait. After a restart the struct is read back;
// see [Acceptor.Check].
type Acceptor struct {
	Promised Ballot // nothing below it will be promised or accepted
	Accepted Ballot // where Value was accepted, not above Promised; zero: nothing was
	Value    []byte // never written to, possibly shared
}

// Check returns an error if no sequence of calls leads to this state. Whoever
// reads an Acceptor from disk calls it before anything else; an acceptor that
// fails must not answer, since it may have forgotten a promise.
func (a *Acceptor) Check() error {
	if a.Accepted.Compare(a.Promised) > 0 {
		return fmt.Errorf("acceptor accepted ballot %v above its promise %v", a.Accepted, a.Promised)
	}
	if a.Accepted.IsZero() && len(a.Value) > 0 {
		return fmt.Errorf("acceptor has a value of %d bytes without the ballot that it was accepted at", len(a.Value))
	}
	return nil
}

// Prepare answers a [Prepare] with a [Promise], or with a [Refusal] if a
// higher ballot was promised. Asked again it answers again. changed reports
// whether there is something new to write.
func (a *Acceptor) Prepare(b Ballot) (answer Answer, changed bool) {
	if b.IsZero() || b.Compare(a.Promised) < 0 {
		return Refusal{Ballot: b, Promised: a.Promised}, false
	}
	changed = b != a.Promised
	a.Promised = b
	return Promise{Ballot: b, Accepted: a.Accepted, Value: a.Value}, changed
}

// Accept answers an [Accept] with an [Accepted], or with a [Refusal] if a
// higher ballot was promised. The ballot need not have been promised here:
// accepting promises it. Asked again it answers again. changed reports whether
// there is something new to write. The value is kept, not copied.
//
// A second value at a ballot is refused. No proposer that does its duties
// sends one, but a database that was copied or put back may, and to answer it
// with an [Accepted] would count this voter for a value that it does not hold.
func (a *Acceptor) Accept(b Ballot, value []byte) (answer Answer, changed bool) {
	if b.IsZero() || b.Compare(a.Promised) < 0 {
		return Refusal{Ballot: b, Promised: a.Promised}, false
	}
	if b == a.Accepted {
		if !bytes.Equal(value, a.Value) {
			return Refusal{Ballot: b, Promised: a.Promised}, false
		}
		return Accepted{Ballot: b}, false
	}
	*a = Acceptor{Promised: b, Accepted: b, Value: value}
	return Accepted{Ballot: b}, true
}
