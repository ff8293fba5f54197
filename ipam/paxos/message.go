package paxos

// Prepare asks a voter to promise a ballot: phase 1.
type Prepare struct {
	Ballot Ballot
}

// Accept asks a voter to accept a value at a ballot: phase 2.
type Accept struct {
	Ballot Ballot
	Value  []byte
}

// Answer is what a voter says to a [Prepare] or an [Accept]: a [Promise], an
// [Accepted] or a [Refusal].
type Answer interface {
	answer()
}

// Promise answers a [Prepare]: the voter will neither promise nor accept
// anything below Ballot. It names what it accepted last.
type Promise struct {
	Ballot   Ballot // the one asked about
	Accepted Ballot // where Value was accepted; zero: nothing was
	Value    []byte // meaningless if Accepted is zero
}

// Accepted answers an [Accept]: the voter accepted the value of that ballot.
type Accepted struct {
	Ballot Ballot // the one asked about
}

// Refusal answers a [Prepare] or an [Accept] that came too late: the voter
// has promised another ballot, which the proposer's next must exceed.
type Refusal struct {
	Ballot   Ballot // the one asked about
	Promised Ballot // not below it
}

func (Promise) answer()  {}
func (Accepted) answer() {}
func (Refusal) answer()  {}
